package ottla.interop;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;

/** The consumers of the churn run. */
final class Readers {
    private Readers() {}

    /** A member of a group; the topic may be a pattern. */
    static final class GroupMember extends Actor {
        private final Env env;
        private final String group;
        private final String topic;
        private final Map<String, Object> config;
        private final Random random;
        private final Ledger ledger;
        volatile boolean stall;

        GroupMember(Env env, Ledger ledger, String name, String group, String topic, Map<String, Object> config, long seed) {
            super(name);
            this.env = env;
            this.ledger = ledger;
            this.group = group;
            this.topic = topic;
            this.config = config;
            this.random = new Random(seed);
        }

        @Override
        void work() throws Exception {
            Consumer<String, String> consumer = env.consumer(group, config);
            try {
                if (topic.endsWith("*") && env.modern()) {
                    consumer.subscribe(new SubscriptionPattern(topic));
                } else if (topic.endsWith("*")) {
                    consumer.subscribe(Pattern.compile(topic));
                } else {
                    consumer.subscribe(List.of(topic));
                }
                while (!stop) {
                    var records = consumer.poll(Duration.ofMillis(100));
                    ledger.note(group, records);
                    if (stall) {
                        stall = false;
                        nap(5000);
                    }
                    if (!records.isEmpty()) {
                        commit(consumer);
                    }
                }
            } finally {
                consumer.close(CloseOptions.timeout(Duration.ofSeconds(20)).withGroupMembershipOperation(
                        vanish ? CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP
                                : CloseOptions.GroupMembershipOperation.DEFAULT));
            }
        }

        private void commit(Consumer<String, String> consumer) {
            try {
                if (random.nextInt(3) == 0) {
                    consumer.commitAsync((offsets, error) -> { });
                } else {
                    consumer.commitSync(Duration.ofSeconds(5));
                }
            } catch (CommitFailedException | RebalanceInProgressException moved) {
                // Whoever has the partitions now reads the records again.
            }
        }
    }

    /** Reads whole partitions without a group, from wherever it jumps to, beyond both ends too. */
    static final class Wanderer extends Actor {
        private final Env env;
        private final List<String> topics;
        private final Random random;

        Wanderer(Env env, String name, List<String> topics, long seed) {
            super(name);
            this.env = env;
            this.topics = topics;
            this.random = new Random(seed);
        }

        @Override
        void work() throws Exception {
            Map<String, Object> config = Map.of("client.id", "wanderer", "metadata.max.age.ms", 5000);
            try (Consumer<String, String> consumer = env.consumer(null, config)) {
                List<TopicPartition> all = topics.stream().map(topic -> new TopicPartition(topic, 0)).toList();
                consumer.assign(all);
                while (!stop) {
                    TopicPartition tp = all.get(random.nextInt(all.size()));
                    switch (random.nextInt(4)) {
                        case 0 -> consumer.seekToBeginning(List.of(tp));
                        case 1 -> consumer.seekToEnd(List.of(tp));
                        case 2 -> consumer.seek(tp, random.nextInt(1_000_000));
                        default -> consumer.seek(tp, random.nextInt(100));
                    }
                    for (int i = 0; i < 5 && !stop; i++) {
                        consumer.poll(Duration.ofMillis(200));
                    }
                }
            }
        }
    }
}
