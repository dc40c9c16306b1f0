package ottla.interop;

import java.nio.file.Path;

/** The scenarios of Kafka Streams: BOOTSTRAP SCRATCH. */
public final class StreamsMain {
    private StreamsMain() {}

    public static void main(String[] args) throws Exception {
        try (Env env = new Env(args[0], Path.of(args[1]))) {
            Runner runner = new Runner();
            new Topologies(env).into(runner.scenarios);
            runner.run();
        }
        System.exit(0);
    }
}
