package ottla.interop;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;

/** The producers of the churn run. */
final class Writers {
    static final List<Map<String, Object>> KINDS = List.of(
            Map.of(),
            Map.of("acks", "1", "enable.idempotence", false, "compression.type", "lz4"),
            Map.of("acks", "0", "enable.idempotence", false),
            Map.of("compression.type", "zstd", "linger.ms", 20),
            Map.of("batch.size", 100, "compression.type", "gzip"));

    private Writers() {}

    private static Map<String, Object> quick(String clientId, Map<String, ?> more) {
        Map<String, Object> config = new HashMap<>(more);
        config.put("client.id", clientId);
        config.put("metadata.max.age.ms", 5000);
        config.put("delivery.timeout.ms", 6000);
        config.put("request.timeout.ms", 4000);
        config.put("max.block.ms", 4000);
        return config;
    }

    /** Writes to these topics, whichever there are. */
    static final class Plain extends Actor {
        private final Env env;
        private final List<String> topics;
        private final int kind;
        private final Random random;

        Plain(Env env, String name, List<String> topics, int kind, long seed) {
            super(name);
            this.env = env;
            this.topics = topics;
            this.kind = kind;
            this.random = new Random(seed);
        }

        @Override
        void work() throws Exception {
            Producer<String, String> producer = env.producer(quick("plain-" + kind, KINDS.get(kind)));
            try {
                while (!stop) {
                    String topic = topics.get(random.nextInt(topics.size()));
                    String value = "x".repeat(random.nextInt(300));
                    producer.send(new ProducerRecord<>(topic, "k" + random.nextInt(50), value), (sent, error) -> { });
                    nap(10 + random.nextInt(40));
                }
            } finally {
                producer.close(vanish ? Duration.ZERO : Duration.ofSeconds(5));
            }
        }
    }

    /** Transactions one after the other, some aborted; with a source it reads, writes and commits offsets in them. */
    static final class Transactional extends Actor {
        private final Env env;
        private final String id;
        private final String source;
        private final String target;
        private final Random random;
        volatile boolean hang;

        Transactional(Env env, String name, String id, String source, String target, long seed) {
            super(name);
            this.env = env;
            this.id = id;
            this.source = source;
            this.target = target;
            this.random = new Random(seed);
        }

        @Override
        void work() throws Exception {
            Map<String, Object> config = quick("tx-" + id,
                    Map.of("transactional.id", id, "transaction.timeout.ms", 4000));
            Producer<String, String> producer = env.producer(config);
            Consumer<String, String> consumer = null;
            try {
                if (source != null) {
                    consumer = env.consumer("copy-" + id, Map.of("isolation.level", "read_committed",
                            "client.id", "copier", "max.poll.records", 20, "session.timeout.ms", 3000));
                    consumer.subscribe(List.of(source));
                }
                producer.initTransactions();
                while (!stop) {
                    one(producer, consumer);
                }
            } finally {
                producer.close(vanish ? Duration.ZERO : Duration.ofSeconds(5));
                if (consumer != null) {
                    consumer.close();
                }
            }
        }

        private void one(Producer<String, String> producer, Consumer<String, String> consumer) throws Exception {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            try {
                if (consumer != null) {
                    var records = consumer.poll(Duration.ofMillis(200));
                    records.nextOffsets().forEach(offsets::put);
                    if (records.isEmpty()) {
                        return;
                    }
                }
                producer.beginTransaction();
                int count = 1 + random.nextInt(5);
                for (int i = 0; i < count; i++) {
                    producer.send(new ProducerRecord<>(target, "k" + i, "v"));
                    nap(random.nextInt(20));
                }
                if (!offsets.isEmpty()) {
                    producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                }
                if (hang) {
                    hang = false;
                    nap(6000);
                }
                if (vanish) {
                    return;
                }
                if (random.nextInt(5) == 0) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            } catch (ProducerFencedException fenced) {
                throw fenced;
            } catch (KafkaException error) {
                producer.abortTransaction();
            }
            nap(random.nextInt(100));
        }
    }
}
