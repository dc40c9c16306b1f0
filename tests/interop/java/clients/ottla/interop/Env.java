package ottla.interop;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The broker of a run, names that no earlier run has used, and clients made for short waits. */
final class Env implements AutoCloseable {
    final String bootstrap;
    final Path scratch;
    final Admin admin;
    private final String protocol;
    private final String run = Long.toHexString(System.nanoTime() & 0xffffffffL);
    private final AtomicInteger count = new AtomicInteger();

    Env(String bootstrap, Path scratch) {
        this(bootstrap, scratch, "classic");
    }

    /** Consumers have this group.protocol, unless they are given another. */
    Env(String bootstrap, Path scratch, String protocol) {
        this.protocol = protocol;
        this.bootstrap = bootstrap;
        this.scratch = scratch;
        this.admin = Admin.create(common("admin"));
    }

    @Override
    public void close() {
        admin.close(Duration.ofSeconds(5));
    }

    /** Whether its consumers have the protocol of KIP-848. */
    boolean modern() {
        return protocol.equals("consumer");
    }

    String name(String base) {
        return base + "-" + run + "-" + count.incrementAndGet();
    }

    Map<String, Object> common(String clientId) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("client.id", clientId);
        config.put("reconnect.backoff.max.ms", 200);
        return config;
    }

    String topic(String base, int partitions, Map<String, String> configs) throws Exception {
        String name = name(base);
        NewTopic topic = new NewTopic(name, partitions, (short) 1).configs(configs);
        Check.get(admin.createTopics(List.of(topic)).all());
        return name;
    }

    String topic(String base, int partitions) throws Exception {
        return topic(base, partitions, Map.of());
    }

    Producer<String, String> producer(Map<String, ?> more) {
        Map<String, Object> config = common(name("producer"));
        config.putAll(more);
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    Producer<String, String> producer() {
        return producer(Map.of());
    }

    Map<String, Object> consumerConfig(String group, Map<String, ?> more) {
        Map<String, Object> config = common(name("consumer"));
        if (group != null) {
            config.put("group.id", group);
        }
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", false);
        config.put("session.timeout.ms", 1500);
        config.put("heartbeat.interval.ms", 200);
        config.put("group.protocol", protocol);
        // Closing a consumer waits for its last fetch.
        config.put("fetch.max.wait.ms", 100);
        config.putAll(more);
        if ("consumer".equals(config.get("group.protocol"))) {
            // The broker decides about these (KIP-848), and the client refuses them.
            config.keySet().removeAll(List.of("session.timeout.ms", "heartbeat.interval.ms",
                    "partition.assignment.strategy"));
        }
        return config;
    }

    Consumer<String, String> consumer(String group, Map<String, ?> more) {
        return new KafkaConsumer<>(consumerConfig(group, more), new StringDeserializer(), new StringDeserializer());
    }

    Consumer<String, String> consumer(String group) {
        return consumer(group, Map.of());
    }

    /** Send "0" … "count-1" to the partitions in turn and wait for the answers. */
    void fill(String topic, int partitions, int count) throws Exception {
        try (Producer<String, String> producer = producer()) {
            List<java.util.concurrent.Future<?>> sent = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, i % partitions, "k" + i, Integer.toString(i))));
            }
            for (var future : sent) {
                Check.get(future);
            }
        }
    }

    /** The values that a reader of these whole partitions sees, until it has reached the end. */
    List<ConsumerRecord<String, String>> read(String topic, int partitions, Map<String, ?> more) {
        List<TopicPartition> all = new ArrayList<>();
        for (int i = 0; i < partitions; i++) {
            all.add(new TopicPartition(topic, i));
        }
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        try (Consumer<String, String> consumer = consumer(null, more)) {
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            long deadline = System.nanoTime() + Duration.ofSeconds(20).toNanos();
            while (all.stream().anyMatch(tp -> consumer.position(tp) < ends.get(tp))) {
                consumer.poll(Duration.ofMillis(200)).forEach(records::add);
                Check.that(System.nanoTime() < deadline, "read " + records.size() + " records, then no more");
            }
        }
        return records;
    }

    List<String> values(String topic, int partitions, Map<String, ?> more) {
        return read(topic, partitions, more).stream().map(ConsumerRecord::value).toList();
    }
}
