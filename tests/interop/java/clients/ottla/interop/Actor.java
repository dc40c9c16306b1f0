package ottla.interop;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A client with a life of its own: a thread that works until it is stopped, vanishes or fails. */
abstract class Actor implements Runnable {
    static final Logger LOG = LoggerFactory.getLogger("ottla.churn");
    volatile boolean stop;
    volatile boolean vanish;
    private final String name;
    private final Thread thread;

    Actor(String name) {
        this.name = name;
        thread = new Thread(this, name);
        thread.setDaemon(true);
    }

    final Actor start() {
        thread.start();
        return this;
    }

    final boolean lives() {
        return thread.isAlive();
    }

    final void stop(boolean vanishing) {
        vanish = vanishing;
        stop = true;
    }

    final void join() throws InterruptedException {
        thread.join(25_000);
    }

    @Override
    public final void run() {
        try {
            work();
        } catch (Throwable thrown) {
            // What a client throws is for its user; the lines that it logs itself are what is compared.
            LOG.info("{} ended: {}", name, thrown.toString());
        }
    }

    abstract void work() throws Exception;

    static void nap(long ms) throws InterruptedException {
        Thread.sleep(ms);
    }
}
