package ottla.interop;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Runs scenarios one after the other and prints a JSON line for each. The property "only" is a pattern for names. */
final class Runner {
    private static final long LIMIT_SECONDS = 45;
    final Map<String, Scenario> scenarios = new LinkedHashMap<>();
    private final ExecutorService threads = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task, "scenario");
        thread.setDaemon(true);
        return thread;
    });

    void run() throws InterruptedException {
        String only = System.getProperty("only", "");
        for (Map.Entry<String, Scenario> entry : scenarios.entrySet()) {
            if (only.isEmpty() || entry.getKey().matches(only)) {
                run(entry.getKey(), entry.getValue());
            }
        }
    }

    private void run(String test, Scenario scenario) throws InterruptedException {
        long began = System.nanoTime();
        String outcome = "passed";
        String reason = "";
        Future<?> running = threads.submit(() -> {
            scenario.run();
            return null;
        });
        try {
            running.get(LIMIT_SECONDS, TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            outcome = "failed";
            reason = "not finished within " + LIMIT_SECONDS + " s";
            running.cancel(true);
        } catch (ExecutionException thrown) {
            Throwable cause = thrown.getCause();
            outcome = cause instanceof Scenario.Skipped ? "skipped" : "failed";
            reason = outcome.equals("skipped") ? cause.getMessage() : words(cause);
        }
        System.out.println(Json.result(test, outcome, reason, (System.nanoTime() - began) / 1e9));
        System.out.flush();
    }

    /** The error and where in a scenario it came up. */
    private static String words(Throwable error) {
        StringBuilder words = new StringBuilder();
        for (Throwable at = error; at != null; at = at.getCause()) {
            words.append(at == error ? "" : "\ncaused by ").append(at);
            for (StackTraceElement frame : at.getStackTrace()) {
                if (frame.getClassName().startsWith("ottla.")) {
                    words.append("\n  at ").append(frame);
                }
            }
        }
        return words.toString();
    }
}
