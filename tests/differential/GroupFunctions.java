import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.ModernGroup;
import org.apache.kafka.coordinator.group.modern.SubscriptionCount;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.coordinator.group.modern.consumer.ResolvedRegularExpression;
import org.apache.kafka.timeline.SnapshotRegistry;

/** Answers with Apache Kafka's own classes the commands of tests/core/consumer_groups/functions.py, a line each. */
public class GroupFunctions {
    record Topic(String name, Uuid id, List<List<String>> racks) implements CoordinatorMetadataImage.TopicMetadata {
        public int partitionCount() {
            return racks.size();
        }

        public List<String> partitionRacks(int partition) {
            return racks.get(partition);
        }
    }

    static class Image implements CoordinatorMetadataImage {
        final Map<String, Topic> topics = new LinkedHashMap<>();

        public Set<Uuid> topicIds() {
            return topics.values().stream().map(Topic::id).collect(Collectors.toSet());
        }

        public Set<String> topicNames() {
            return topics.keySet();
        }

        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(topics.get(name));
        }

        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            for (Topic topic : topics.values()) {
                if (topic.id().equals(id)) return Optional.of(topic);
            }
            return Optional.empty();
        }

        public CoordinatorMetadataDelta emptyDelta() {
            throw new UnsupportedOperationException();
        }

        public long version() {
            return 1;
        }

        public boolean isEmpty() {
            return topics.isEmpty();
        }
    }

    final Map<String, PartitionAssignor> assignors = Map.of("uniform", new UniformAssignor(), "range", new RangeAssignor());
    Image image;
    ConsumerGroup group;

    static List<String> list(String text) {
        return text.equals("-") ? new ArrayList<>() : new ArrayList<>(Arrays.asList(text.split(",")));
    }

    static String orNull(String text) {
        return text.equals("-") ? null : text;
    }

    static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
    }

    String answer(String[] words) {
        switch (words[0]) {
            case "new":
                group = new ConsumerGroup(new LogContext(), new SnapshotRegistry(new LogContext()), "g");
                image = new Image();
                return "";
            case "topic":
                List<List<String>> racks = new ArrayList<>();
                for (String partition : words[3].split(";")) racks.add(list(partition));
                long high = Long.parseUnsignedLong(words[2].substring(0, 16), 16);
                long low = Long.parseUnsignedLong(words[2].substring(16), 16);
                image.topics.put(words[1], new Topic(words[1], new Uuid(high, low), racks));
                return Long.toString(Utils.computeTopicHash(words[1], image));
            case "delete":
                image.topics.remove(words[1]);
                return "";
            case "resolved":
                if (group.subscribedRegularExpressions().containsKey(words[1])) {
                    Set<String> topics = new TreeSet<>(list(words[2]));
                    group.updateResolvedRegularExpression(words[1], new ResolvedRegularExpression(topics, 1, 1));
                }
                return "";
            case "leave":
                group.removeMember(words[1]);
                group.removeTargetAssignment(words[1]);
                forgetUnused();
                return "";
            case "pattern":
                return pattern(words);
            default:
                return heartbeat(words);
        }
    }

    static String pattern(String[] words) {
        StringBuilder text = new StringBuilder("matches ");
        try {
            Pattern pattern = Pattern.compile(decoded(words[1]));
            for (int i = 2; i < words.length; i++) text.append(pattern.matcher(decoded(words[i])).matches() ? 1 : 0);
        } catch (PatternSyntaxException error) {
            return "refused";
        }
        return text.toString();
    }

    void forgetUnused() {
        for (String regex : List.copyOf(group.resolvedRegularExpressions().keySet())) {
            if (!group.subscribedRegularExpressions().containsKey(regex)) group.removeResolvedRegularExpression(regex);
        }
    }

    String heartbeat(String[] words) {
        String memberId = words[0];
        String instanceId = orNull(words[1]);
        String replaced = instanceId == null ? null : group.staticMemberId(instanceId);
        if (memberId.equals(replaced)) replaced = null;
        ConsumerGroupMember before = group.members().get(replaced == null ? memberId : replaced);
        ConsumerGroupMember member = new ConsumerGroupMember.Builder(memberId)
            .setInstanceId(instanceId)
            .setSubscribedTopicNames(list(words[2]))
            .setSubscribedTopicRegex(words[3].equals("-") ? "" : words[3])
            .setServerAssignorName(orNull(words[4]))
            .build();
        Map<String, SubscriptionCount> names = group.computeSubscribedTopicNames(before, member);
        SubscriptionType type = ConsumerGroup.subscriptionType(
            group.computeSubscribedRegularExpressions(before, member), names, group.numMembers() + (before == null ? 1 : 0)
        );
        String preferred = group.computePreferredServerAssignor(before, member).orElse("-");
        long hash = ModernGroup.computeMetadataHash(names, new HashMap<>(), image);
        ConsumerTargetAssignmentBuilder builder = new ConsumerTargetAssignmentBuilder("g", 1, assignors.get(words[5]))
            .withTime(Time.SYSTEM)
            .withMembers(group.members())
            .withStaticMembers(group.staticMembers())
            .withSubscriptionType(type)
            .withTargetAssignment(group.targetAssignment())
            .withInvertedTargetAssignment(group.invertedTargetAssignment())
            .withMetadataImage(image)
            .withResolvedRegularExpressions(group.resolvedRegularExpressions())
            .addOrUpdateMember(memberId, member);
        if (replaced != null) builder.removeMember(replaced);
        List<CoordinatorRecord> records = builder.build().records();
        if (replaced != null) {
            Assignment target = group.targetAssignment(replaced);
            group.removeMember(replaced);
            group.removeTargetAssignment(replaced);
            group.updateTargetAssignment(memberId, target);
        }
        group.updateMember(member); // its record 5
        for (CoordinatorRecord record : records) {
            if (record.key() instanceof ConsumerGroupTargetAssignmentMemberKey key) {
                Object value = record.value().message();
                Assignment target = Assignment.fromRecord((ConsumerGroupTargetAssignmentMemberValue) value);
                group.updateTargetAssignment(key.memberId(), target);
            }
        }
        group.updateMember(member); // its record 8
        forgetUnused();
        return type.toString().toLowerCase(Locale.ROOT) + " " + preferred + " " + hash + targets();
    }

    String targets() {
        StringBuilder text = new StringBuilder();
        for (String id : new TreeMap<>(group.members()).keySet()) {
            List<String> topics = new ArrayList<>();
            for (Map.Entry<Uuid, Set<Integer>> entry : group.targetAssignment(id).partitions().entrySet()) {
                String name = image.topicMetadata(entry.getKey()).map(CoordinatorMetadataImage.TopicMetadata::name).orElse("?");
                List<String> partitions = entry.getValue().stream().map(String::valueOf).collect(Collectors.toList());
                topics.add(name + ":" + String.join(",", partitions));
            }
            Collections.sort(topics);
            text.append(" ").append(id).append("=").append(String.join(";", topics));
        }
        return text.toString();
    }

    public static void main(String[] arguments) throws Exception {
        GroupFunctions functions = new GroupFunctions();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String said;
            try {
                said = functions.answer(line.split(" ", -1));
            } catch (Exception error) {
                said = "error " + error;
            }
            out.println(said);
        }
        out.flush();
    }
}
