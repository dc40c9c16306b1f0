package ottla.interop;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.header.Header;

/** Producing and fetching without a group. */
final class Records {
    private final Env env;

    Records(Env env) {
        this.env = env;
    }

    void into(Map<String, Scenario> all) {
        all.put("produce_and_consume", this::produceAndConsume);
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            all.put("codec_" + codec, () -> codec(codec));
        }
        all.put("idempotent_producer", this::idempotent);
        all.put("acks_none_and_leader", this::acks);
        all.put("headers_keys_tombstones", this::headers);
        all.put("big_messages", this::big);
        all.put("too_big_messages", this::tooBig);
        all.put("read_from_timestamp", this::timestamps);
        all.put("log_append_time", this::logAppendTime);
        all.put("seek_pause_resume", this::seek);
        all.put("offset_out_of_range", this::outOfRange);
        all.put("fetch_session_many_partitions", this::sessions);
        all.put("topic_created_by_producer", this::autoCreated);
        all.put("topic_deleted_and_recreated", this::recreated);
        all.put("partitions_added", this::partitionsAdded);
        all.put("compacted_topic_needs_keys", this::compacted);
        all.put("long_poll", this::longPoll);
    }

    private void produceAndConsume() throws Exception {
        String topic = env.topic("plain", 3);
        env.fill(topic, 3, 300);
        List<ConsumerRecord<String, String>> records = env.read(topic, 3, Map.of());
        Check.same(300, records.size(), "records");
        Map<Integer, Integer> last = new java.util.HashMap<>();
        for (var record : records) {
            int value = Integer.parseInt(record.value());
            Check.same(record.partition(), value % 3, "partition of " + value);
            Check.same((long) value / 3, record.offset(), "offset of " + value);
            Check.that(last.getOrDefault(record.partition(), -1) < value, "out of order: " + value);
            last.put(record.partition(), value);
        }
    }

    private void codec(String codec) throws Exception {
        String topic = env.topic("codec-" + codec, 1);
        List<String> expected = new ArrayList<>();
        Map<String, Object> config = Map.of("compression.type", codec, "linger.ms", 50, "batch.size", 200_000);
        try (Producer<String, String> producer = env.producer(config)) {
            for (int i = 0; i < 500; i++) {
                expected.add(i + "-" + "abcdefghij".repeat(i % 20));
                producer.send(new ProducerRecord<>(topic, null, expected.get(i)));
            }
        }
        Check.same(expected, env.values(topic, 1, Map.of()), "values");
        Check.same(expected, env.values(topic, 1, Map.of("check.crcs", true, "max.partition.fetch.bytes", 1)), "values");
    }

    private void idempotent() throws Exception {
        String topic = env.topic("idempotent", 2);
        Map<String, Object> config = Map.of("enable.idempotence", true, "acks", "all", "batch.size", 100);
        try (Producer<String, String> producer = env.producer(config)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < 1000; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, i % 2, null, Integer.toString(i))));
            }
            for (int i = 0; i < 1000; i++) {
                Check.same((long) i / 2, Check.get(sent.get(i)).offset(), "offset of " + i);
            }
        }
        var states = Check.get(env.admin.describeProducers(List.of(new TopicPartition(topic, 0))).all());
        var active = states.get(new TopicPartition(topic, 0)).activeProducers();
        Check.same(1, active.size(), "producers of the partition");
        Check.same(499, active.get(0).lastSequence(), "last sequence");
    }

    private void acks() throws Exception {
        String topic = env.topic("acks", 1);
        for (String acks : List.of("0", "1")) {
            try (Producer<String, String> producer = env.producer(Map.of("acks", acks, "enable.idempotence", false))) {
                for (int i = 0; i < 50; i++) {
                    RecordMetadata sent = Check.get(producer.send(new ProducerRecord<>(topic, acks + "-" + i)));
                    Check.same(acks.equals("1"), sent.hasOffset(), "an offset in the answer");
                }
            }
        }
        Check.same(100, env.values(topic, 1, Map.of()).size(), "records");
    }

    private void headers() throws Exception {
        String topic = env.topic("headers", 1);
        try (Producer<String, String> producer = env.producer()) {
            ProducerRecord<String, String> full = new ProducerRecord<>(topic, 0, 1234567L, "key \u00e9\u4e16", "value");
            full.headers().add("a", new byte[] {0, 1, (byte) 0xff}).add("b", null).add("a", new byte[0]);
            producer.send(full);
            producer.send(new ProducerRecord<>(topic, "key", null));
            producer.send(new ProducerRecord<>(topic, null, null));
            producer.send(new ProducerRecord<>(topic, "", ""));
        }
        List<ConsumerRecord<String, String>> records = env.read(topic, 1, Map.of());
        Check.same("key \u00e9\u4e16", records.get(0).key(), "key");
        Check.same(1234567L, records.get(0).timestamp(), "timestamp");
        Header[] headers = records.get(0).headers().toArray();
        Check.same(3, headers.length, "headers");
        Check.same("a b a", headers[0].key() + " " + headers[1].key() + " " + headers[2].key(), "header keys");
        Check.that(java.util.Arrays.equals(new byte[] {0, 1, (byte) 0xff}, headers[0].value()), "first header");
        Check.same(null, headers[1].value(), "second header");
        Check.same(0, headers[2].value().length, "third header's length");
        Check.same("key", records.get(1).key(), "tombstone's key");
        Check.same(null, records.get(1).value(), "tombstone's value");
        Check.same(null, records.get(2).key(), "null key");
        Check.same("", records.get(3).key(), "empty key");
        Check.same("", records.get(3).value(), "empty value");
    }

    private void big() throws Exception {
        String topic = env.topic("big", 1, Map.of("max.message.bytes", "6000000"));
        String large = "x".repeat(5_000_000);
        try (Producer<String, String> producer = env.producer(Map.of("max.request.size", 7_000_000))) {
            Check.get(producer.send(new ProducerRecord<>(topic, "small")));
            Check.get(producer.send(new ProducerRecord<>(topic, large)));
            Check.get(producer.send(new ProducerRecord<>(topic, "after")));
        }
        Map<String, Object> narrow = Map.of("fetch.max.bytes", 1000, "max.partition.fetch.bytes", 1000);
        Check.same(List.of("small", large, "after"), env.values(topic, 1, narrow), "values");
    }

    private void tooBig() throws Exception {
        String topic = env.topic("toobig", 1);
        try (Producer<String, String> producer = env.producer(Map.of("max.request.size", 7_000_000))) {
            Check.fails(RecordTooLargeException.class,
                    () -> Check.get(producer.send(new ProducerRecord<>(topic, "x".repeat(1_100_000)))));
            // Several that are too large together are split and sent again.
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, "y".repeat(400_000))));
            }
            for (var future : sent) {
                Check.get(future);
            }
        }
        Check.same(4, env.values(topic, 1, Map.of()).size(), "records");
        String split = env.topic("split", 1, Map.of("max.message.bytes", "60000"));
        try (Producer<String, String> producer = env.producer(Map.of("linger.ms", 200, "batch.size", 400_000))) {
            for (int i = 0; i < 20; i++) {
                producer.send(new ProducerRecord<>(split, "z".repeat(15_000)));
            }
        }
        Check.same(20, env.values(split, 1, Map.of()).size(), "records of batches that were split");
    }

    private void timestamps() throws Exception {
        String topic = env.topic("times", 2);
        try (Producer<String, String> producer = env.producer()) {
            for (int i = 0; i < 100; i++) {
                producer.send(new ProducerRecord<>(topic, 0, 1_000_000L + i * 1000L, null, Integer.toString(i)));
                if (i % 10 == 0) {
                    producer.flush();
                }
            }
        }
        TopicPartition first = new TopicPartition(topic, 0);
        TopicPartition empty = new TopicPartition(topic, 1);
        try (Consumer<String, String> consumer = env.consumer(null)) {
            Map<TopicPartition, OffsetAndTimestamp> found =
                    consumer.offsetsForTimes(Map.of(first, 1_042_500L, empty, 1L));
            Check.same(43L, found.get(first).offset(), "offset");
            Check.same(1_043_000L, found.get(first).timestamp(), "timestamp");
            Check.same(null, found.get(empty), "offset in an empty partition");
            Check.same(null, consumer.offsetsForTimes(Map.of(first, 2_000_000L)).get(first), "offset behind the end");
            Check.same(0L, consumer.offsetsForTimes(Map.of(first, 0L)).get(first).offset(), "offset before all");
            consumer.assign(List.of(first));
            consumer.seek(first, found.get(first).offset());
            var records = consumer.poll(Duration.ofSeconds(5)).records(first);
            Check.same("43", records.get(0).value(), "first value from there");
        }
    }

    private void logAppendTime() throws Exception {
        String topic = env.topic("appended", 1, Map.of("message.timestamp.type", "LogAppendTime"));
        long before = System.currentTimeMillis();
        try (Producer<String, String> producer = env.producer()) {
            var sent = Check.get(producer.send(new ProducerRecord<>(topic, 0, 1000L, null, "v")));
            Check.that(sent.timestamp() >= before - 1000, "the answer's timestamp: " + sent.timestamp());
        }
        var record = env.read(topic, 1, Map.of()).get(0);
        Check.that(record.timestamp() >= before - 1000, "timestamp " + record.timestamp());
        Check.same("LogAppendTime", record.timestampType().toString(), "type");
    }

    private void seek() throws Exception {
        String topic = env.topic("seek", 2);
        env.fill(topic, 2, 100);
        TopicPartition zero = new TopicPartition(topic, 0);
        TopicPartition one = new TopicPartition(topic, 1);
        try (Consumer<String, String> consumer = env.consumer(null, Map.of("max.poll.records", 10))) {
            consumer.assign(List.of(zero, one));
            consumer.pause(List.of(one));
            consumer.seek(zero, 40);
            Set<String> seen = new HashSet<>();
            for (int i = 0; i < 20 && consumer.position(zero) < 50; i++) {
                consumer.poll(Duration.ofMillis(300)).forEach(record -> seen.add(record.value()));
            }
            Check.same(10, seen.size(), "records of the partition that is not paused");
            Check.same(0L, consumer.position(one), "position of the paused partition");
            consumer.resume(List.of(one));
            consumer.seekToEnd(List.of(zero));
            for (int i = 0; i < 20 && consumer.position(one) < 50; i++) {
                consumer.poll(Duration.ofMillis(300)).forEach(record -> seen.add(record.value()));
            }
            Check.same(60, seen.size(), "records in all");
            Check.same(Map.of(zero, 0L, one, 0L), consumer.beginningOffsets(List.of(zero, one)), "beginnings");
            Check.same(Map.of(zero, 50L, one, 50L), consumer.endOffsets(List.of(zero, one)), "ends");
            Check.same(0L, consumer.currentLag(zero).orElse(-1), "lag");
        }
    }

    private void outOfRange() throws Exception {
        String topic = env.topic("range", 1);
        env.fill(topic, 1, 10);
        TopicPartition tp = new TopicPartition(topic, 0);
        try (Consumer<String, String> consumer = env.consumer(null, Map.of("auto.offset.reset", "none"))) {
            consumer.assign(List.of(tp));
            consumer.seek(tp, 100);
            Check.fails(OffsetOutOfRangeException.class, () -> {
                for (int i = 0; i < 20; i++) {
                    consumer.poll(Duration.ofMillis(300));
                }
            });
        }
    }

    /** More partitions than one answer holds, written and trimmed while the session lasts. */
    private void sessions() throws Exception {
        String topic = env.topic("many", 40);
        List<TopicPartition> all = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            all.add(new TopicPartition(topic, i));
        }
        Map<String, Object> narrow = Map.of("fetch.max.bytes", 2000, "max.partition.fetch.bytes", 500);
        Set<String> seen = new HashSet<>();
        try (Consumer<String, String> consumer = env.consumer(null, narrow);
                Producer<String, String> producer = env.producer()) {
            consumer.assign(all);
            for (int round = 0; round < 5; round++) {
                for (int i = 0; i < 40; i++) {
                    producer.send(new ProducerRecord<>(topic, i, null, round + "/" + i + "x".repeat(100)));
                }
                producer.flush();
                int wanted = (round + 1) * 40;
                for (int i = 0; i < 100 && seen.size() < wanted; i++) {
                    consumer.poll(Duration.ofMillis(200)).forEach(record -> seen.add(record.value()));
                }
                Check.same(wanted, seen.size(), "records after round " + round);
                consumer.pause(all.subList(0, round * 3));
                consumer.poll(Duration.ofMillis(10)).forEach(record -> seen.add(record.value()));
                consumer.resume(all);
            }
            consumer.assign(all.subList(0, 2));
            consumer.seekToBeginning(all.subList(0, 2));
            Set<String> again = new HashSet<>();
            for (int i = 0; i < 50 && again.size() < 10; i++) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> again.add(record.value()));
            }
            Check.same(10, again.size(), "records of the two partitions that are left");
        }
    }

    private void autoCreated() throws Exception {
        String topic = env.name("auto");
        try (Producer<String, String> producer = env.producer()) {
            Check.same(0L, Check.get(producer.send(new ProducerRecord<>(topic, "first"))).offset(), "offset");
            Check.fails(InvalidTopicException.class,
                    () -> Check.get(producer.send(new ProducerRecord<>("not a/topic", "v"))));
        }
        Check.same(List.of("first"), env.values(topic, 1, Map.of()), "values");
    }

    /** The topic id changes under a running producer and consumer. */
    private void recreated() throws Exception {
        String topic = env.topic("recreated", 1);
        Map<String, Object> quick = Map.of("metadata.max.age.ms", 300, "retry.backoff.ms", 50);
        TopicPartition tp = new TopicPartition(topic, 0);
        try (Producer<String, String> producer = env.producer(quick);
                Consumer<String, String> consumer = env.consumer(null, quick)) {
            consumer.assign(List.of(tp));
            for (int i = 0; i < 5; i++) {
                Check.get(producer.send(new ProducerRecord<>(topic, "old" + i)));
            }
            Set<String> seen = new HashSet<>();
            Check.until("old records", () -> poll(consumer, seen).size() == 5);
            var before = Check.get(env.admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).topicId();
            Check.get(env.admin.deleteTopics(List.of(topic)).all());
            try {
                Check.get(env.admin.createTopics(List.of(
                        new org.apache.kafka.clients.admin.NewTopic(topic, 1, (short) 1))).all());
            } catch (ExecutionException error) {
                // The producer may have been quicker: its refresh of the metadata creates topics.
                Check.that(error.getCause() instanceof TopicExistsException, error.toString());
            }
            var after = Check.get(env.admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).topicId();
            Check.that(!before.equals(after), "the id is the same");
            Check.until("a record in the new topic", () -> {
                try {
                    return Check.get(producer.send(new ProducerRecord<>(topic, "new"))).offset() >= 0;
                } catch (ExecutionException error) {
                    return false;
                } catch (Exception error) {
                    throw new AssertionError(error);
                }
            });
            consumer.seekToBeginning(List.of(tp));
            Check.until("new records", () -> poll(consumer, seen).contains("new"));
        }
    }

    private static Set<String> poll(Consumer<String, String> consumer, Set<String> seen) {
        consumer.poll(Duration.ofMillis(200)).forEach(record -> seen.add(record.value()));
        return seen;
    }

    private void partitionsAdded() throws Exception {
        String topic = env.topic("grows", 1);
        Map<String, Object> quick = Map.of("metadata.max.age.ms", 300);
        try (Producer<String, String> producer = env.producer(quick)) {
            Check.get(producer.send(new ProducerRecord<>(topic, "v")));
            Check.get(env.admin.createPartitions(Map.of(topic,
                    org.apache.kafka.clients.admin.NewPartitions.increaseTo(3))).all());
            Check.until("the producer knows three partitions", () -> producer.partitionsFor(topic).size() == 3);
            Check.same(2, Check.get(producer.send(new ProducerRecord<>(topic, 2, null, "v"))).partition(), "partition");
        }
    }

    private void compacted() throws Exception {
        String topic = env.topic("compacted", 1, Map.of("cleanup.policy", "compact"));
        try (Producer<String, String> producer = env.producer()) {
            Check.fails(InvalidRecordException.class, () -> Check.get(producer.send(new ProducerRecord<>(topic, "v"))));
            Check.get(producer.send(new ProducerRecord<>(topic, "k", "v")));
        }
    }

    /** A fetch that waits is answered by the first record, not by its timeout. */
    private void longPoll() throws Exception {
        String topic = env.topic("longpoll", 1);
        Map<String, Object> config = Map.of("fetch.max.wait.ms", 3000);
        try (Consumer<String, String> consumer = env.consumer(null, config);
                Producer<String, String> producer = env.producer()) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            consumer.poll(Duration.ofMillis(300));
            producer.send(new ProducerRecord<>(topic, "v"));
            Set<String> seen = new HashSet<>();
            Check.until("the record", Duration.ofSeconds(2), () -> poll(consumer, seen).size() == 1);
        }
    }
}
