package ottla.mixed;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a consumer group, told what to do by lines on standard input: BOOTSTRAP GROUP TOPIC NAME PROTOCOL ASSIGNOR
 * SESSION. Of the consumer protocol (KIP-848) only the broker decides about the last two.
 */
public final class Member implements ConsumerRebalanceListener, Runnable {
    private static final Map<String, String> ASSIGNORS = Map.of(
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            "range", "org.apache.kafka.clients.consumer.RangeAssignor",
            "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor");
    private final KafkaConsumer<String, String> consumer;
    private volatile boolean stop;

    private Member(String[] told) {
        Map<String, Object> config = new HashMap<>(Map.of(
                "bootstrap.servers", told[0],
                "group.id", told[1],
                "client.id", told[3],
                "group.protocol", told[4],
                "auto.offset.reset", "earliest",
                "auto.commit.interval.ms", 100));
        if (told[4].equals("classic")) {
            config.put("partition.assignment.strategy", ASSIGNORS.get(told[5]));
            config.put("session.timeout.ms", Integer.valueOf(told[6]));
            config.put("heartbeat.interval.ms", 200);
        }
        consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(told[2]), this);
    }

    @Override
    public void run() {
        try {
            while (!stop) {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> tell("\"what\":\"saw\",\"seen\":[\"" + record.topic()
                        + "\"," + record.partition() + "," + record.offset() + ",\"" + record.value() + "\",0]"));
            }
        } catch (WakeupException woken) {
            // it is to stop
        } catch (RuntimeException failure) {
            tell("\"what\":\"trouble\",\"text\":\"" + failure.toString().replaceAll("[\"\\\\\n]", " ") + "\"");
        } finally {
            consumer.close();
        }
    }

    private static synchronized void tell(String fields) {
        System.out.println("{" + fields + "}");
        System.out.flush();
    }

    private static void moved(String kind, Collection<TopicPartition> partitions) {
        String places = partitions.stream().map(place -> "[\"" + place.topic() + "\"," + place.partition() + "]")
                .collect(Collectors.joining(","));
        tell("\"what\":\"changed\",\"kind\":\"" + kind + "\",\"places\":[" + places + "]");
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        moved("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        moved("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        moved("lost", partitions);
    }

    public static void main(String[] arguments) throws Exception {
        String[] told = Arrays.copyOf(arguments, 7);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        Member member = null;
        Thread thread = null;
        tell("\"what\":\"ready\"");
        for (String line = lines.readLine(); line != null && !line.equals("stop"); line = lines.readLine()) {
            if (line.equals("start")) {
                member = new Member(told);
                thread = new Thread(member, "member");
                thread.start();
            }
        }
        if (member != null) {
            member.stop = true;
            member.consumer.wakeup();
            thread.join();
        }
    }
}
