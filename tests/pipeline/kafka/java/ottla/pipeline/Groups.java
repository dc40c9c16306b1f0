package ottla.pipeline;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeader;

/**
 * Consumers that come and go, and what they and the AdminClient know of it, as lines of JSON: BOOTSTRAP CHURNS.
 * Every offset is committed by hand, so that the lines "commit" are all that there are.
 */
public final class Groups {
    private static final String TOPIC = "orders";
    private static final int PARTITIONS = 4;
    private final String bootstrap;

    private Groups(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] args) throws Exception {
        new Groups(args[0]).run(Integer.parseInt(args[1]));
        System.exit(0);
    }

    private void run(int churns) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(TOPIC, PARTITIONS, (short) 1), new NewTopic("copies", 1, (short) 1)))
                .all().get();
            produce(400);
            churn("classic", churns, Map.of());
            churn("static", 2, Map.of("group.instance.id", "fixed"));
            churn("next", 2, Map.of("group.protocol", "consumer"));
            transactions();
            alone(admin);
            for (String group : List.of("classic", "static", "next", "exactly-once", "alone")) {
                Map<TopicPartition, OffsetAndMetadata> offsets =
                    admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
                for (Map.Entry<TopicPartition, OffsetAndMetadata> one : offsets.entrySet()) {
                    if (one.getValue() != null) {
                        say("final", group, one.getKey(), one.getValue().offset(), Map.of());
                    }
                }
            }
            admin.deleteConsumerGroups(List.of("alone")).all().get();
        }
    }

    private void produce(int count) throws Exception {
        Properties options = options();
        options.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        options.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        options.put("compression.type", "lz4");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(options)) {
            for (int number = 0; number < count; number++) {
                String value = number % 50 == 49 ? null : "{\"id\": " + number + "}";
                ProducerRecord<String, String> record =
                    new ProducerRecord<>(TOPIC, number % PARTITIONS, "k" + number, value);
                record.headers().add(new RecordHeader("number", new byte[] {(byte) number, (byte) 0xff}));
                producer.send(record);
            }
        }
    }

    /** Two members stay; a third comes and goes: each time two generations. */
    private void churn(String group, int times, Map<String, String> more) throws Exception {
        Member first = new Member(group, "first", more);
        first.owns(PARTITIONS);
        Member second = new Member(group, "second", more);
        second.owns(PARTITIONS / 2);
        for (int time = 0; time < times; time++) {
            Member flapper = new Member(group, "flapper", more);
            flapper.owns(1);
            flapper.leave();
            second.owns(PARTITIONS / 2);
        }
        second.leave();
        first.owns(PARTITIONS);
        first.leave();
    }

    /** Offsets that count because their transaction was committed, and one that does not. */
    private void transactions() throws Exception {
        Properties options = options();
        options.put("transactional.id", "copier");
        options.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        options.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        TopicPartition place = new TopicPartition(TOPIC, 0);
        try (KafkaConsumer<byte[], byte[]> reader = consumer("exactly-once", "copier", Map.of());
             KafkaProducer<String, String> producer = new KafkaProducer<>(options)) {
            producer.initTransactions();
            for (int number = 1; number <= 6; number++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("copies", "copy " + number));
                producer.sendOffsetsToTransaction(Map.of(place, new OffsetAndMetadata(number)), reader.groupMetadata());
                if (number % 3 == 0) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                    say("commit", "exactly-once", place, number, Map.of());
                }
            }
        }
    }

    /** A consumer without a group's protocol: it has offsets and no generation; then its offsets are deleted. */
    private void alone(Admin admin) throws Exception {
        try (KafkaConsumer<byte[], byte[]> reader = consumer("alone", "alone", Map.of())) {
            TopicPartition place = new TopicPartition(TOPIC, 2);
            reader.assign(List.of(place));
            reader.commitSync(Map.of(place, new OffsetAndMetadata(17, "by hand")));
            say("commit", "alone", place, 17, Map.of("metadata", "by hand"));
        }
    }

    private final class Member implements ConsumerRebalanceListener {
        private final String group;
        private final String name;
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final Thread thread;
        private volatile boolean leaving;
        private volatile int owned = -1;
        private int rounds;

        Member(String group, String name, Map<String, String> more) {
            Map<String, String> options = new HashMap<>(more);
            options.computeIfPresent("group.instance.id", (key, value) -> value + "-" + name);
            this.group = group;
            this.name = name;
            this.consumer = consumer(group, name, options);
            this.consumer.subscribe(List.of(TOPIC), this);
            this.thread = new Thread(this::run, name);
            this.thread.start();
        }

        private void run() {
            try {
                while (!leaving) {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(50));
                    if (++rounds % 5 == 0 && !consumer.assignment().isEmpty()) {
                        commit();
                    }
                    owned = consumer.assignment().size();
                }
                // A static member stays in its group otherwise, and its partitions with it.
                consumer.close(CloseOptions.groupMembershipOperation(
                    CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
            } catch (RuntimeException failed) {
                failed.printStackTrace();
                System.exit(3);
            }
        }

        private void commit() {
            Map<TopicPartition, OffsetAndMetadata> offsets = new LinkedHashMap<>();
            for (TopicPartition place : consumer.assignment()) {
                offsets.put(place, new OffsetAndMetadata(consumer.position(place)));
            }
            try {
                consumer.commitSync(offsets);
            } catch (org.apache.kafka.clients.consumer.CommitFailedException
                | org.apache.kafka.common.errors.RebalanceInProgressException
                | org.apache.kafka.common.errors.StaleMemberEpochException refused) {
                return; // the group has moved on: nothing was written
            }
            offsets.forEach((place, offset) -> say("commit", group, place, offset.offset(), Map.of()));
        }

        /** Wait until this member has so many partitions. */
        void owns(int count) throws InterruptedException {
            long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
            while (owned != count) {
                if (System.nanoTime() > until) {
                    throw new IllegalStateException(name + " of " + group + " owns " + owned + ", not " + count);
                }
                new CountDownLatch(1).await(20, TimeUnit.MILLISECONDS);
            }
        }

        void leave() throws InterruptedException {
            leaving = true;
            thread.join();
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> places) {
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> places) {
            Map<String, Object> more = new TreeMap<>();
            more.put("generation", consumer.groupMetadata().generationId());
            more.put("member", consumer.groupMetadata().memberId());
            more.put("client", name);
            more.put("assigned", consumer.assignment().stream().map(TopicPartition::partition).sorted()
                .map(String::valueOf).collect(Collectors.toCollection(ArrayList::new)));
            say("generation", group, null, 0, more);
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(String group, String client, Map<String, String> more) {
        Properties options = options();
        options.put("group.id", group);
        options.put("client.id", client);
        options.put("enable.auto.commit", "false");
        options.put("auto.offset.reset", "earliest");
        options.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        options.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        if (!"consumer".equals(more.get("group.protocol"))) {
            options.put("heartbeat.interval.ms", "200");
            options.put("session.timeout.ms", "6000");
            options.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        }
        options.putAll(more);
        return new KafkaConsumer<>(options);
    }

    private Properties options() {
        Properties options = new Properties();
        options.put("bootstrap.servers", bootstrap);
        return options;
    }

    private static synchronized void say(String kind, String group, TopicPartition place, long offset,
                                         Map<String, Object> more) {
        StringBuilder line = new StringBuilder("{\"kind\": \"" + kind + "\", \"group\": \"" + group + "\"");
        if (place != null) {
            line.append(", \"topic\": \"").append(place.topic()).append("\", \"partition\": ")
                .append(place.partition()).append(", \"offset\": ").append(offset);
        }
        more.forEach((key, value) -> line.append(", \"").append(key).append("\": ")
            .append(value instanceof Number || value instanceof List ? value : "\"" + value + "\""));
        System.out.println(line.append("}"));
    }
}
