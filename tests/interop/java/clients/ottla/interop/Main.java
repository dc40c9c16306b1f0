package ottla.interop;

import java.nio.file.Path;

/** Every scenario but those of Kafka Streams: BOOTSTRAP SCRATCH. RESTARTS in the environment: where to ask for one. */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        try (Env env = new Env(args[0], Path.of(args[1]))) {
            Runner runner = new Runner();
            new Records(env).into(runner.scenarios);
            new Groups(env).into(runner.scenarios);
            new ConsumerGroups(env).into(runner.scenarios);
            new Transactions(env).into(runner.scenarios);
            new Administration(env).into(runner.scenarios);
            new Secured(env).into(runner.scenarios);
            String restarts = System.getenv().getOrDefault("RESTARTS", "");
            new Restart(env, restarts.isEmpty() ? null : Path.of(restarts)).into(runner.scenarios);
            runner.run();
        }
        System.exit(0);
    }
}
