package ottla.interop;

/** As much JSON as a result line needs. */
final class Json {
    private Json() {}

    static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20 || c > 0x7e) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }

    static String result(String test, String outcome, String reason, double seconds) {
        return String.format(java.util.Locale.ROOT, "{\"test\":%s,\"outcome\":%s,\"reason\":%s,\"seconds\":%.3f}",
                quote(test), quote(outcome), quote(reason), seconds);
    }
}
