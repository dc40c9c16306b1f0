package ottla.interop;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/** A consumer of a group that polls and commits in a thread of its own until it leaves, vanishes or fails. */
final class Member implements ConsumerRebalanceListener, Runnable {
    final Queue<ConsumerRecord<String, String>> records = new ConcurrentLinkedQueue<>();
    final AtomicInteger assigned = new AtomicInteger();
    final AtomicInteger revoked = new AtomicInteger();
    final AtomicInteger lost = new AtomicInteger();
    final Set<Integer> everRevoked = new ConcurrentSkipListSet<>();
    volatile Set<TopicPartition> owns = Set.of();
    volatile Throwable failure;
    volatile int generation;
    volatile String memberId = "";
    private final Consumer<String, String> consumer;
    private final Thread thread;
    private volatile boolean leave = true;
    private volatile boolean stop;

    Member(Env env, String group, Collection<String> topics, Map<String, ?> config) {
        this(env.consumer(group, config));
        consumer.subscribe(topics, this);
        thread.start();
    }

    /** The broker finds the topics. */
    Member(Env env, String group, SubscriptionPattern topics, Map<String, ?> config) {
        this(env.consumer(group, config));
        consumer.subscribe(topics, this);
        thread.start();
    }

    private Member(Consumer<String, String> consumer) {
        this.consumer = consumer;
        thread = new Thread(this, "member");
        thread.setDaemon(true);
    }

    Member(Env env, String group, String topic, Map<String, ?> config) {
        this(env, group, List.of(topic), config);
    }

    @Override
    public void run() {
        try {
            while (!stop) {
                var polled = consumer.poll(Duration.ofMillis(100));
                polled.forEach(records::add);
                owns = Set.copyOf(consumer.assignment());
                generation = consumer.groupMetadata().generationId();
                memberId = consumer.groupMetadata().memberId();
                if (!polled.isEmpty()) {
                    try {
                        consumer.commitSync();
                    } catch (org.apache.kafka.clients.consumer.CommitFailedException
                            | org.apache.kafka.common.errors.RebalanceInProgressException moved) {
                        // Whoever has the partitions now reads the records again.
                    }
                }
            }
        } catch (WakeupException woken) {
            // stop() has been called
        } catch (Throwable thrown) {
            failure = thrown;
        } finally {
            try {
                CloseOptions options = CloseOptions.timeout(Duration.ofSeconds(5)).withGroupMembershipOperation(
                        leave ? CloseOptions.GroupMembershipOperation.DEFAULT
                                : CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP);
                consumer.close(options);
            } catch (RuntimeException closing) {
                if (failure == null && !stop) {
                    failure = closing;
                }
            }
            owns = Set.of();
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        assigned.incrementAndGet();
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        revoked.incrementAndGet();
        partitions.forEach(tp -> everRevoked.add(tp.partition()));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        lost.incrementAndGet();
    }

    int count() {
        return owns.size();
    }

    /** Close: a dynamic member leaves, a static one does not. */
    void stop() throws InterruptedException {
        stop = true;
        consumer.wakeup();
        thread.join(10_000);
    }

    /** Stop and say nothing to the group. */
    void vanish() throws InterruptedException {
        leave = false;
        stop();
    }
}
