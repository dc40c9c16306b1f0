package ottla.interop;

/** One thing that a client does with a broker; it throws when the broker did not play along. */
@FunctionalInterface
interface Scenario {
    void run() throws Exception;

    /** Thrown by a scenario that cannot run here; the message says why. */
    final class Skipped extends RuntimeException {
        private static final long serialVersionUID = 1;

        Skipped(String reason) {
            super(reason);
        }
    }
}
