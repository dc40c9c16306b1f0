package ottla.interop;

import java.time.Duration;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.TopicPartition;

/** What the members of each group have read, to find what none of them has: a group must lose nothing. */
final class Ledger {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private final Map<String, Map<TopicPartition, BitSet>> seen = new ConcurrentHashMap<>();

    void note(String group, ConsumerRecords<?, ?> records) {
        Map<TopicPartition, BitSet> own = seen.computeIfAbsent(group, name -> new ConcurrentHashMap<>());
        for (ConsumerRecord<?, ?> record : records) {
            BitSet offsets = own.computeIfAbsent(
                    new TopicPartition(record.topic(), record.partition()), place -> new BitSet());
            synchronized (offsets) {
                offsets.set((int) record.offset());
            }
        }
    }

    /** How many records of the topic the group has not read, when one more member has read what was left. */
    int lost(Env env, String group, String topic, int partitions) throws Exception {
        try (Consumer<String, String> last = env.consumer(group, Map.of("client.id", "reader-last"))) {
            last.subscribe(List.of(topic));
            Map<TopicPartition, Long> ends = new HashMap<>();
            Check.until(group + " has all of " + topic, PATIENCE, () -> {
                note(group, last.poll(Duration.ofMillis(100)));
                Set<TopicPartition> owned = last.assignment();
                if (owned.size() < partitions) {
                    return false;
                }
                if (ends.isEmpty()) {
                    ends.putAll(last.endOffsets(owned));
                }
                return owned.stream().allMatch(place -> last.position(place) >= ends.get(place));
            });
            last.commitSync();
        }
        Map<TopicPartition, BitSet> own = seen.getOrDefault(group, Map.of());
        int lost = 0;
        for (ConsumerRecord<String, String> record : env.read(topic, partitions, Map.of())) {
            BitSet offsets = own.get(new TopicPartition(topic, record.partition()));
            lost += offsets != null && offsets.get((int) record.offset()) ? 0 : 1;
        }
        return lost;
    }
}
