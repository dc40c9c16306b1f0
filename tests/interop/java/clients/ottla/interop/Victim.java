package ottla.interop;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.nio.file.Path;
import org.apache.kafka.clients.consumer.Consumer;

/** A group member in a process of its own, to be killed: BOOTSTRAP GROUP TOPIC [PROTOCOL]. Writes "!" once it owns
 * something. */
public final class Victim {
    private Victim() {}

    public static void main(String[] args) {
        Env env = new Env(args[0], Path.of("."), args.length > 3 ? args[3] : "classic");
        Consumer<String, String> consumer = env.consumer(args[1], Map.of());
        consumer.subscribe(List.of(args[2]));
        boolean told = false;
        while (true) {
            consumer.poll(Duration.ofMillis(100));
            if (!told && !consumer.assignment().isEmpty()) {
                System.out.print("!");
                System.out.flush();
                told = true;
            }
        }
    }
}
