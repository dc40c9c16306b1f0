package ottla.interop;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** Transactions of producers, as the broker's transaction version has it. */
final class Transactions {
    private static final Map<String, Object> COMMITTED = Map.of("isolation.level", "read_committed");
    private final Env env;

    Transactions(Env env) {
        this.env = env;
    }

    void into(Map<String, Scenario> all) {
        all.put("transaction_commit", this::commit);
        all.put("transaction_abort", this::abort);
        all.put("transaction_offsets", this::offsets);
        all.put("transaction_offsets_aborted", this::offsetsAborted);
        all.put("transaction_offsets_of_an_old_generation", this::offsetsFenced);
        all.put("transaction_fenced", this::fenced);
        all.put("transaction_timeout", this::timeout);
        all.put("transaction_last_stable_offset", this::lastStable);
        all.put("transaction_many_in_turn", this::many);
        all.put("transaction_admin", this::administration);
    }

    private Producer<String, String> producer(String id, Map<String, ?> more) {
        Map<String, Object> config = new java.util.HashMap<>(more);
        config.put("transactional.id", id);
        Producer<String, String> producer = env.producer(config);
        producer.initTransactions();
        return producer;
    }

    private Producer<String, String> producer(String id) {
        return producer(id, Map.of());
    }

    /** The committed values once there are so many: a commit is decided before its markers are written. */
    private List<String> committed(String topic, int partitions, int count) throws InterruptedException {
        Check.until(count + " committed records", () -> env.values(topic, partitions, COMMITTED).size() >= count);
        return env.values(topic, partitions, COMMITTED);
    }

    private void commit() throws Exception {
        String topic = env.topic("commit", 2);
        try (Producer<String, String> producer = producer(env.name("commit"))) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "a"));
            producer.send(new ProducerRecord<>(topic, 1, null, "b"));
            producer.flush();
            Check.same(2, env.values(topic, 2, Map.of()).size(), "uncommitted records that others see");
            Check.same(0, env.values(topic, 2, COMMITTED).size(), "committed records before the end");
            producer.commitTransaction();
            Check.same(Set.of("a", "b"), Set.copyOf(committed(topic, 2, 2)), "committed records");
        }
    }

    private void abort() throws Exception {
        String topic = env.topic("abort", 1);
        try (Producer<String, String> producer = producer(env.name("abort"))) {
            for (int i = 0; i < 6; i++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, "v" + i));
                if (i % 2 == 0) {
                    producer.abortTransaction();
                } else {
                    producer.flush();
                    producer.commitTransaction();
                }
            }
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "aborted"));
            producer.flush();
            producer.abortTransaction();
        }
        Check.same(List.of("v1", "v3", "v5"), committed(topic, 1, 3), "committed records");
        Check.that(env.values(topic, 1, Map.of()).contains("aborted"), "aborted records are there");
    }

    private void offsets() throws Exception {
        String from = env.topic("from", 1);
        String to = env.topic("to", 1);
        String group = env.name("offsets");
        env.fill(from, 1, 50);
        TopicPartition tp = new TopicPartition(from, 0);
        try (Producer<String, String> producer = producer(env.name("offsets"));
                Consumer<String, String> consumer = env.consumer(group, Map.of("max.poll.records", 10))) {
            consumer.subscribe(List.of(from));
            Check.until("all are copied", () -> {
                var records = consumer.poll(Duration.ofMillis(100));
                if (!records.isEmpty()) {
                    producer.beginTransaction();
                    records.forEach(record -> producer.send(new ProducerRecord<>(to, record.value())));
                    producer.sendOffsetsToTransaction(
                            Map.of(tp, new OffsetAndMetadata(consumer.position(tp))), consumer.groupMetadata());
                    producer.commitTransaction();
                }
                return consumer.assignment().contains(tp) && consumer.position(tp) == 50;
            });
            Check.same(50L, consumer.committed(Set.of(tp)).get(tp).offset(), "committed");
        }
        List<String> copied = committed(to, 1, 50);
        Check.same(50, copied.size(), "records");
        Check.same("49", copied.get(49), "the last one");
    }

    private void offsetsAborted() throws Exception {
        String topic = env.topic("offsets", 1);
        String group = env.name("offsets-aborted");
        TopicPartition tp = new TopicPartition(topic, 0);
        env.fill(topic, 1, 1);
        try (Producer<String, String> producer = producer(env.name("offsets"));
                Consumer<String, String> consumer = env.consumer(group)) {
            consumer.assign(List.of(tp));
            consumer.commitSync(Map.of(tp, new OffsetAndMetadata(1)));
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(tp, new OffsetAndMetadata(7)), consumer.groupMetadata());
            producer.abortTransaction();
            Check.same(1L, consumer.committed(Set.of(tp)).get(tp).offset(), "committed");
        }
    }

    /** A consumer that has lost its partitions cannot commit them in a transaction (KIP-447). */
    private void offsetsFenced() throws Exception {
        String topic = env.topic("generations", 1);
        String group = env.name("generations");
        TopicPartition tp = new TopicPartition(topic, 0);
        try (Producer<String, String> producer = producer(env.name("generations"));
                Consumer<String, String> consumer = env.consumer(group)) {
            consumer.subscribe(List.of(topic));
            Check.until("it owns the partition", () -> {
                consumer.poll(Duration.ofMillis(100));
                return consumer.assignment().contains(tp);
            });
            var old = consumer.groupMetadata();
            consumer.unsubscribe();
            Member other = new Member(env, group, topic, Map.of());
            Check.until("the other owns it", () -> other.count() == 1);
            producer.beginTransaction();
            Check.fails(CommitFailedException.class, () -> {
                producer.sendOffsetsToTransaction(Map.of(tp, new OffsetAndMetadata(7)), old);
                producer.commitTransaction();
            });
            producer.abortTransaction();
            other.stop();
        }
    }

    private void fenced() throws Exception {
        String topic = env.topic("fenced", 1);
        String id = env.name("fenced");
        try (Producer<String, String> old = producer(id)) {
            old.beginTransaction();
            old.send(new ProducerRecord<>(topic, "old"));
            old.flush();
            try (Producer<String, String> young = producer(id)) {
                Check.fails(ProducerFencedException.class, old::commitTransaction);
                young.beginTransaction();
                young.send(new ProducerRecord<>(topic, "young"));
                young.commitTransaction();
            }
            old.close(Duration.ZERO);
        }
        try (Producer<String, String> old = producer(id); Producer<String, String> young = producer(id)) {
            old.beginTransaction();
            Check.fails(InvalidProducerEpochException.class, () -> Check.get(old.send(new ProducerRecord<>(topic, "x"))));
            young.beginTransaction();
            young.abortTransaction();
            old.close(Duration.ZERO);
        }
        Check.same(List.of("young"), committed(topic, 1, 1), "committed records");
    }

    private void timeout() throws Exception {
        String topic = env.topic("timeout", 1);
        String id = env.name("timeout");
        Check.fails(KafkaException.class,
                () -> producer(env.name("long"), Map.of("transaction.timeout.ms", 900_001)).close());
        try (Producer<String, String> producer = producer(id, Map.of("transaction.timeout.ms", 1000))) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "late"));
            producer.flush();
            Check.until("the broker has aborted it", Duration.ofSeconds(25), () -> state(id) == TransactionState.COMPLETE_ABORT);
            Check.fails(KafkaException.class, producer::commitTransaction);
            producer.close(Duration.ZERO);
        }
        Check.same(List.of(), env.values(topic, 1, COMMITTED), "committed records");
    }

    private TransactionState state(String id) {
        try {
            return Check.get(env.admin.describeTransactions(List.of(id)).all()).get(id).state();
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }

    private void lastStable() throws Exception {
        String topic = env.topic("stable", 1);
        TopicPartition tp = new TopicPartition(topic, 0);
        env.fill(topic, 1, 3);
        try (Producer<String, String> producer = producer(env.name("stable"));
                Consumer<String, String> committed = env.consumer(null, COMMITTED);
                Consumer<String, String> uncommitted = env.consumer(null)) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "open"));
            producer.flush();
            env.fill(topic, 1, 2);
            Check.same(3L, committed.endOffsets(List.of(tp)).get(tp), "last stable offset");
            Check.same(6L, uncommitted.endOffsets(List.of(tp)).get(tp), "high watermark");
            producer.commitTransaction();
            Check.until("the transaction is written", () -> committed.endOffsets(List.of(tp)).get(tp) == 7L);
        }
        Check.same(6, committed(topic, 1, 6).size(), "records");
    }

    private void many() throws Exception {
        String topic = env.topic("turns", 3);
        try (Producer<String, String> producer = producer(env.name("turns"))) {
            for (int i = 0; i < 60; i++) {
                producer.beginTransaction();
                for (int j = 0; j < 3; j++) {
                    producer.send(new ProducerRecord<>(topic, j, null, i + "/" + j));
                }
                if (i % 5 == 4) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        Check.same(144, committed(topic, 3, 144).size(), "committed records");
    }

    private void administration() throws Exception {
        String topic = env.topic("admin", 1);
        String id = env.name("admin");
        TopicPartition tp = new TopicPartition(topic, 0);
        try (Producer<String, String> producer = producer(id)) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "v"));
            producer.flush();
            var described = Check.get(env.admin.describeTransactions(List.of(id)).all()).get(id);
            Check.same(TransactionState.ONGOING, described.state(), "state");
            Check.same(Set.of(tp), described.topicPartitions(), "partitions");
            var listed = Check.get(env.admin.listTransactions().all());
            Check.that(listed.stream().anyMatch(item -> item.transactionalId().equals(id)), "it is listed");
            var active = Check.get(env.admin.describeProducers(List.of(tp)).all()).get(tp).activeProducers().get(0);
            Check.same(described.producerId(), active.producerId(), "producer id");
            Check.same(0L, active.currentTransactionStartOffset().orElse(-1), "start offset");
            Check.get(env.admin.abortTransaction(new org.apache.kafka.clients.admin.AbortTransactionSpec(
                    tp, active.producerId(), (short) active.producerEpoch(),
                    active.coordinatorEpoch().orElse(0))).all());
            var after = Check.get(env.admin.describeProducers(List.of(tp)).all()).get(tp).activeProducers().get(0);
            Check.that(after.currentTransactionStartOffset().isEmpty(), "no transaction is open after the abort");
            Check.get(env.admin.fenceProducers(List.of(id)).all());
            Check.fails(ProducerFencedException.class, producer::commitTransaction);
            producer.close(Duration.ZERO);
        }
        Check.same(0, env.values(topic, 1, COMMITTED).size(), "committed records");
    }
}
