package ottla.interop;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** What scenarios demand. */
final class Check {
    private Check() {}

    static void that(boolean holds, String message) {
        if (!holds) {
            throw new AssertionError(message);
        }
    }

    static void same(Object expected, Object actual, String what) {
        if (!Objects.equals(expected, actual)) {
            throw new AssertionError(what + ": expected " + expected + ", got " + actual);
        }
    }

    /** Wait until the condition holds; the description may be made when it did not. */
    static void until(String what, Duration limit, BooleanSupplier condition) throws InterruptedException {
        long deadline = System.nanoTime() + limit.toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("not within " + limit.toMillis() + " ms: " + what);
            }
            Thread.sleep(20);
        }
    }

    static void until(String what, BooleanSupplier condition) throws InterruptedException {
        until(what, Duration.ofSeconds(20), condition);
    }

    static <T> T get(Future<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }

    /** The call must fail with an error of this kind, bare or as the cause of an ExecutionException. */
    static <E extends Throwable> E fails(Class<E> kind, Scenario call) {
        try {
            call.run();
        } catch (Scenario.Skipped skipped) {
            throw skipped;
        } catch (Throwable thrown) {
            Throwable error = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
            for (Throwable at = error; at != null; at = at.getCause()) {
                if (kind.isInstance(at)) {
                    return kind.cast(at);
                }
            }
            throw new AssertionError("expected " + kind.getSimpleName() + ", got " + error, error);
        }
        throw new AssertionError("expected " + kind.getSimpleName() + ", nothing was thrown");
    }
}
