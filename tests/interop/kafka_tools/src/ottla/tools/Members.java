package ottla.tools;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Group members for tools to look at: "start" BOOTSTRAP GROUP TOPIC NAME=VALUE…, or "stop" for all that run. */
public final class Members {
    private static final List<Thread> RUNNING = new ArrayList<>();
    private static volatile boolean stop;

    private Members() {}

    public static void main(String[] args) throws Exception {
        if (args[0].equals("stop")) {
            stop = true;
            for (Thread thread : RUNNING) {
                thread.join(10_000);
            }
            RUNNING.clear();
            stop = false;
            return;
        }
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", args[1], "group.id", args[2],
                "auto.offset.reset", "earliest", "session.timeout.ms", 6000, "heartbeat.interval.ms", 300,
                "fetch.max.wait.ms", 100, "enable.auto.commit", false, "group.protocol", "classic"));
        for (String pair : Arrays.copyOfRange(args, 4, args.length)) {
            config.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
        }
        if ("consumer".equals(config.get("group.protocol"))) {
            // The broker decides about these (KIP-848), and the client refuses them.
            config.keySet().removeAll(List.of("session.timeout.ms", "heartbeat.interval.ms"));
        }
        CountDownLatch assigned = new CountDownLatch(1);
        Thread thread = new Thread(() -> {
            ByteArrayDeserializer bytes = new ByteArrayDeserializer();
            try (Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, bytes, bytes)) {
                consumer.subscribe(List.of(args[3]));
                while (!stop) {
                    if (!consumer.poll(Duration.ofMillis(100)).isEmpty()) {
                        consumer.commitSync();
                    }
                    if (!consumer.assignment().isEmpty()) {
                        assigned.countDown();
                    }
                }
            }
        }, "member");
        thread.setDaemon(true);
        thread.start();
        RUNNING.add(thread);
        if (!assigned.await(20, TimeUnit.SECONDS)) {
            throw new IllegalStateException("the member was assigned nothing");
        }
    }
}
