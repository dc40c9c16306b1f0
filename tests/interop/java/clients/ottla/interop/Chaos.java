package ottla.interop;

import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The load of tests/chaos from the Java clients: events on standard output, one a line, as events.py has them. A line on
 * standard input ends the producer, the end of it everything.
 */
public final class Chaos {
    private static final int BURST = 6;
    private static final OutputStream OUT = new FileOutputStream(FileDescriptor.out);
    private final Map<String, String> given;
    private final CountDownLatch enough = new CountDownLatch(1);
    private final CountDownLatch over = new CountDownLatch(1);

    private Chaos(Map<String, String> given) {
        this.given = given;
    }

    /** MODE --name NAME --bootstrap SERVERS and numbers and names as `load.py` and `pipeline.py` have them. */
    public static void main(String[] args) throws Exception {
        Map<String, String> given = new HashMap<>();
        for (String arg : args) {
            String[] parts = arg.split("=", 2);
            given.put(parts[0], parts.length > 1 ? parts[1] : "");
        }
        new Chaos(given).run();
        System.exit(0);
    }

    private void run() throws Exception {
        Thread told = new Thread(this::listen);
        told.setDaemon(true);
        told.start();
        List<Thread> parts = new ArrayList<>();
        if (given.containsKey("input")) {
            parts.add(part(this::copy));
        } else {
            parts.add(part(this::produce));
            for (String member : given.get("members").split(";")) {
                parts.add(part(() -> consume(member.split(":"))));
            }
        }
        for (Thread part : parts) {
            part.join();
        }
        tell("Ended", given.get("name"));
    }

    private void listen() {
        try {
            for (int one = System.in.read(); one != -1; one = System.in.read()) {
                enough.countDown();
            }
        } catch (IOException error) {
            tell("Trouble", error.toString());
        }
        enough.countDown();
        over.countDown();
    }

    private interface Part {
        void run() throws Exception;
    }

    private Thread part(Part part) {
        Thread thread = new Thread(() -> {
            try {
                part.run();
            } catch (Exception error) {
                tell("Trouble", given.get("name") + ": " + error);
                System.exit(1);
            }
        });
        thread.start();
        return thread;
    }

    private static void tell(Object... fields) {
        StringBuilder line = new StringBuilder();
        for (Object field : fields) {
            line.append(line.length() == 0 ? "" : "\t").append(String.valueOf(field).replaceAll("[\t\n]", " "));
        }
        write(line.append('\n').toString());
    }

    private static synchronized void write(String lines) {
        try {
            OUT.write(lines.getBytes(StandardCharsets.UTF_8));
        } catch (IOException gone) {
            System.exit(1);
        }
    }

    private static boolean wait(CountDownLatch latch, long millis) throws InterruptedException {
        return latch.await(millis, TimeUnit.MILLISECONDS);
    }

    private Map<String, Object> common() {
        return new HashMap<>(Map.of("bootstrap.servers", given.get("bootstrap"), "client.id", given.get("name"),
                "reconnect.backoff.ms", 50, "reconnect.backoff.max.ms", 300, "retry.backoff.ms", 50,
                "retry.backoff.max.ms", 300));
    }

    private Producer<String, String> producer(Map<String, Object> more) {
        Map<String, Object> config = common();
        config.putAll(more);
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private Consumer<String, String> consumer(String group, String protocol, String session, Map<String, Object> more) {
        Map<String, Object> config = common();
        config.putAll(Map.of("group.id", group, "group.protocol", protocol, "enable.auto.commit", false,
                "auto.offset.reset", "earliest", "metadata.max.age.ms", 5000));
        if (protocol.equals("classic")) {
            config.putAll(Map.of("session.timeout.ms", session, "heartbeat.interval.ms", 300,
                    "partition.assignment.strategy", RoundRobinAssignor.class.getName()));
        }
        config.putAll(more);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    private void produce() throws Exception {
        String topic = given.get("name") + "-once";
        int partitions = Integer.parseInt(given.get("partitions"));
        int pauseMs = Integer.parseInt(given.get("pause_ms"));
        try (Producer<String, String> producer = producer(Map.of("delivery.timeout.ms", 300_000))) {
            for (int first = 0; !wait(enough, pauseMs); first += BURST) {
                for (int number = first; number < first + BURST; number++) {
                    String value = "v" + number;
                    producer.send(new ProducerRecord<>(topic, number % partitions, null, value), (ack, error) -> {
                        if (error == null) {
                            tell("Acked", topic, ack.partition(), ack.offset(), value);
                        } else {
                            tell("Trouble", topic + ": " + error);
                        }
                    });
                }
            }
        }
    }

    /** GROUP:PROTOCOL:SESSION:TOPICS */
    private void consume(String[] member) throws Exception {
        String group = member[0];
        int known = -1;
        try (Consumer<String, String> consumer = consumer(group, member[1], member[2], Map.of())) {
            consumer.subscribe(List.of(member[3].split(",")));
            while (over.getCount() > 0) {
                Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
                StringBuilder seen = new StringBuilder();
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(100))) {
                    seen.append("Saw\t" + group + "\t" + one.topic() + "\t" + one.partition() + "\t" + one.offset()
                            + "\t" + one.value() + "\n");
                    ends.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
                }
                write(seen.toString());
                commit(group, consumer, ends);
                int generation = consumer.groupMetadata().generationId();
                if (generation > -1 && generation != known && !consumer.assignment().isEmpty()) {
                    known = generation;
                    tell("Generation", group, given.get("name"), generation);
                }
            }
        }
    }

    private void commit(String group, Consumer<?, ?> consumer, Map<TopicPartition, OffsetAndMetadata> ends) {
        try {
            if (!ends.isEmpty()) {
                consumer.commitSync(ends);
            }
        } catch (RetriableException | RebalanceInProgressException
                | org.apache.kafka.clients.consumer.CommitFailedException lost) {
            return; // nobody is to blame
        }
        ends.forEach((place, end) -> tell("Committed", group, place.topic(), place.partition(), end.offset()));
    }

    /** Consume, transform, produce in transactions, as the documentation of Kafka shows it. */
    private void copy() throws Exception {
        Random chance = new Random(Long.parseLong(given.get("seed")));
        Map<String, Object> reading = new HashMap<>(Map.of("isolation.level", "read_committed",
                "max.poll.records", Integer.parseInt(given.get("batch"))));
        if (given.containsKey("static")) {
            reading.put("group.instance.id", given.get("name"));
        }
        while (over.getCount() > 0) {
            try (Producer<String, String> producer = producer(Map.of("transactional.id", given.get("name"),
                    "transaction.timeout.ms", Integer.parseInt(given.get("transaction_timeout_ms"))));
                    Consumer<String, String> consumer = consumer(given.get("group"), "consumer", "", reading)) {
                producer.initTransactions();
                consumer.subscribe(List.of(given.get("input")));
                while (over.getCount() > 0) {
                    ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                    if (!records.isEmpty()) {
                        step(producer, consumer, records, chance);
                    }
                }
            } catch (KafkaException | IllegalStateException useless) {
                wait(over, 50); // the producer, or the member: begin again with new ones
            }
        }
    }

    private void step(Producer<String, String> producer, Consumer<String, String> consumer,
            ConsumerRecords<String, String> records, Random chance) throws Exception {
        boolean givesUp = chance.nextDouble() < Double.parseDouble(given.get("aborts"));
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<String, String> one : records) {
            String value = (givesUp ? "aborted:" : "done:") + one.value();
            producer.send(new ProducerRecord<>(given.get("output"), one.partition(), null, value));
            ends.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
        }
        Thread.sleep(chance.nextInt(1 + Integer.parseInt(given.get("work_ms"))));
        try {
            producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
            if (!givesUp) {
                insist(producer::commitTransaction);
                return;
            }
            producer.flush();
        } catch (KafkaException mustAbort) {
            // Aborting says whether the producer is of use any more.
        }
        insist(producer::abortTransaction);
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        committed.forEach((place, end) -> consumer.seek(place, end == null ? 0 : end.offset()));
    }

    /** The end of a transaction may take longer than one call waits; another one takes it up. */
    private void insist(Runnable end) {
        while (true) {
            try {
                end.run();
                return;
            } catch (TimeoutException late) {
                if (over.getCount() == 0) {
                    throw late;
                }
            }
        }
    }
}
