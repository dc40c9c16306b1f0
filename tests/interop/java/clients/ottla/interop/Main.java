package ottla.interop;

import java.nio.file.Path;

/** Every scenario but those of Kafka Streams: BOOTSTRAP SCRATCH [RESTARTS], the directory to ask for a restart in. */
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
            new Restart(env, args.length > 2 ? Path.of(args[2]) : null).into(runner.scenarios);
            runner.run();
        }
        System.exit(0);
    }
}
