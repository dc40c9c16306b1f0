package ottla.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;

import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/** Kafka Streams: state with a changelog, repartitioning, several instances, exactly once. */
final class Topologies {
    private final Env env;

    Topologies(Env env) {
        this.env = env;
    }

    void into(Map<String, Scenario> all) {
        all.put("streams_aggregation", this::aggregation);
        all.put("streams_restore_from_changelog", this::restore);
        all.put("streams_two_instances", this::twoInstances);
        all.put("streams_exactly_once", this::exactlyOnce);
        all.put("streams_windows_and_table_join", this::windows);
    }

    /** Words of the input, counted. The new key makes a repartition topic, the count a changelog. */
    private StreamsBuilder counting(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()));
        lines.flatMapValues(line -> List.of(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count(Materialized.as("counts"))
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to(output, Produced.with(Serdes.String(), Serdes.String()));
        return builder;
    }

    private Properties config(String application, String instance, Map<String, Object> more) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, env.bootstrap);
        config.put(StreamsConfig.STATE_DIR_CONFIG, state(application, instance).toString());
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        config.put("auto.offset.reset", "earliest");
        config.put("session.timeout.ms", 3000);
        config.put("heartbeat.interval.ms", 300);
        config.put("metadata.max.age.ms", 1000);
        config.putAll(more);
        return config;
    }

    private Path state(String application, String instance) {
        return env.scratch.resolve("streams").resolve(application + instance);
    }

    private KafkaStreams start(StreamsBuilder builder, Properties config) throws Exception {
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.start();
        Check.until("the topology runs", Duration.ofSeconds(30), () -> streams.state() == KafkaStreams.State.RUNNING);
        return streams;
    }

    private void stop(KafkaStreams streams) {
        Check.that(streams.close(Duration.ofSeconds(15)), "the topology stops");
    }

    private void write(String topic, String line, int times) throws Exception {
        try (Producer<String, String> producer = env.producer()) {
            for (int i = 0; i < times; i++) {
                producer.send(new ProducerRecord<>(topic, "k" + i, line));
            }
        }
    }

    private Map<String, String> latest(String topic, int partitions) {
        Map<String, String> latest = new HashMap<>();
        for (ConsumerRecord<String, String> record :
                env.read(topic, partitions, Map.of("isolation.level", "read_committed"))) {
            latest.put(record.key(), record.value());
        }
        return latest;
    }

    private void await(String output, Map<String, String> expected) throws Exception {
        Check.until("the output " + expected, Duration.ofSeconds(30), () -> latest(output, 2).equals(expected));
    }

    private void aggregation() throws Exception {
        String input = env.topic("lines", 2);
        String output = env.topic("words", 2);
        String application = env.name("count");
        KafkaStreams streams = start(counting(input, output), config(application, "", Map.of()));
        write(input, "ottla reads the log", 25);
        await(output, Map.of("ottla", "25", "reads", "25", "the", "25", "log", "25"));
        var store = streams.store(StoreQueryParameters.fromNameAndType("counts",
                QueryableStoreTypes.<String, Long>keyValueStore()));
        Check.same(25L, store.get("ottla"), "count in the store");
        stop(streams);
        var topics = Check.get(env.admin.listTopics().names());
        Check.that(topics.contains(application + "-counts-changelog"), "changelog");
        Check.that(topics.contains(application + "-counts-repartition"), "repartition topic");
    }

    private void restore() throws Exception {
        String input = env.topic("lines", 2);
        String output = env.topic("words", 2);
        String application = env.name("restore");
        KafkaStreams streams = start(counting(input, output), config(application, "", Map.of()));
        write(input, "a b", 10);
        await(output, Map.of("a", "10", "b", "10"));
        stop(streams);
        erase(state(application, ""));
        streams = start(counting(input, output), config(application, "", Map.of()));
        write(input, "a", 5);
        await(output, Map.of("a", "15", "b", "10"));
        stop(streams);
    }

    private static void erase(Path directory) throws Exception {
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : files.sorted(java.util.Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    private void twoInstances() throws Exception {
        String input = env.topic("lines", 2);
        String output = env.topic("words", 2);
        String application = env.name("two");
        Map<String, Object> more = Map.of(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, 1);
        KafkaStreams first = start(counting(input, output), config(application, "1", more));
        KafkaStreams second = start(counting(input, output), config(application, "2", more));
        write(input, "x y", 10);
        await(output, Map.of("x", "10", "y", "10"));
        CloseOptions leave = CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP)
                .withTimeout(Duration.ofSeconds(15));
        Check.that(first.close(leave), "the first stops and leaves");
        write(input, "y z", 10);
        await(output, Map.of("x", "10", "y", "20", "z", "10"));
        stop(second);
    }

    private void exactlyOnce() throws Exception {
        String input = env.topic("lines", 2);
        String output = env.topic("words", 2);
        String application = env.name("once");
        Map<String, Object> more = Map.of(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        KafkaStreams streams = start(counting(input, output), config(application, "", more));
        write(input, "m n", 50);
        await(output, Map.of("m", "50", "n", "50"));
        stop(streams);
        erase(state(application, ""));
        streams = start(counting(input, output), config(application, "", more));
        write(input, "m", 50);
        await(output, Map.of("m", "100", "n", "50"));
        stop(streams);
        Check.same(0L, env.read(output, 2, Map.of("isolation.level", "read_committed")).stream()
                .filter(record -> Integer.parseInt(record.value()) > 100).count(), "counts above 100");
    }

    private void windows() throws Exception {
        String clicks = env.topic("clicks", 2);
        String users = env.topic("users", 2, Map.of("cleanup.policy", "compact"));
        String output = env.topic("joined", 2);
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<String, String> strings = Consumed.with(Serdes.String(), Serdes.String());
        var table = builder.table(users, strings);
        builder.stream(clicks, strings)
                .join(table, (click, user) -> user)
                .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofSeconds(10)))
                .count()
                .toStream((window, count) -> window.key() + "@" + window.window().start())
                .mapValues(count -> Long.toString(count))
                .to(output, Produced.with(Serdes.String(), Serdes.String()));
        try (Producer<String, String> producer = env.producer()) {
            producer.send(new ProducerRecord<>(users, null, 0L, "u", "Ottla"));
            producer.flush();
            KafkaStreams streams = start(builder, config(env.name("windows"), "", Map.of()));
            for (long time : new long[] {100_000, 105_000, 109_999, 110_000, 121_000}) {
                producer.send(new ProducerRecord<>(clicks, null, time, "u", "click"));
                producer.send(new ProducerRecord<>(clicks, null, time, "nobody", "click"));
            }
            producer.flush();
            await(output, Map.of("u@100000", "3", "u@110000", "1", "u@120000", "1"));
            stop(streams);
        }
    }
}
