package ottla.interop;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.InvalidRegularExpression;
import org.apache.kafka.common.errors.UnknownMemberIdException;
import org.apache.kafka.common.errors.UnreleasedInstanceIdException;
import org.apache.kafka.common.errors.UnsupportedAssignorException;

/** The group protocol of KIP-848: the broker assigns, and each member is reconciled by itself. */
final class ConsumerGroups {
    private static final Map<String, Object> PROTOCOL = Map.of("group.protocol", "consumer");
    private final Env env;

    ConsumerGroups(Env env) {
        this.env = env;
    }

    void into(Map<String, Scenario> all) {
        all.put("consumer_protocol_join_and_leave", this::joinAndLeave);
        all.put("consumer_protocol_crash", this::crash);
        all.put("consumer_protocol_process_killed", this::killed);
        all.put("consumer_protocol_static_member", this::staticMember);
        all.put("consumer_protocol_static_member_fenced", this::staticFenced);
        all.put("consumer_protocol_members_removed", this::removed);
        all.put("consumer_protocol_assignors", this::assignors);
        all.put("consumer_protocol_regex", this::regex);
        all.put("consumer_protocol_regex_invalid", this::regexInvalid);
        all.put("consumer_protocol_many_members", this::many);
        all.put("consumer_protocol_poll_interval_exceeded", this::pollInterval);
        all.put("consumer_protocol_topics_come_grow_and_go", this::topics);
        all.put("consumer_protocol_commit_and_resume", this::commitAndResume);
        all.put("consumer_protocol_commit_auto", this::autoCommit);
        all.put("consumer_protocol_commit_fenced", this::commitFenced);
        all.put("consumer_protocol_transaction_offsets", this::transactionOffsets);
        all.put("consumer_protocol_transaction_offsets_fenced", this::transactionFenced);
        all.put("consumer_protocol_admin", this::administration);
    }

    private static Map<String, Object> with(Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(more);
        config.putAll(PROTOCOL);
        return config;
    }

    private Consumer<String, String> consumer(String group, Map<String, Object> more) {
        return env.consumer(group, with(more));
    }

    private Member member(String group, String topic) {
        return new Member(env, group, topic, PROTOCOL);
    }

    private Member fixed(String group, String topic, String instance) {
        return new Member(env, group, topic, with(Map.of("group.instance.id", instance)));
    }

    private void ended(Member... members) throws InterruptedException {
        for (Member member : members) {
            member.stop();
            Check.same(null, member.failure, "failure");
        }
    }

    /** Sessions of one group, whatever the broker's are; members learn of it with their next heartbeat. */
    private void patient(String group) throws Exception {
        set(group, "consumer.session.timeout.ms", "20000");
    }

    private void set(String group, String key, String value) throws Exception {
        Check.get(env.admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group),
                List.of(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)))).all());
    }

    private ConsumerGroupDescription described(String group) throws Exception {
        return Check.get(env.admin.describeConsumerGroups(List.of(group)).all()).get(group);
    }

    private long committed(String group) throws Exception {
        return Check.get(env.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).values().stream()
                .mapToLong(OffsetAndMetadata::offset).sum();
    }

    /** How many partitions they own together; -1 while one has two owners. */
    private static int total(List<Member> members) {
        List<TopicPartition> owned = new ArrayList<>();
        members.forEach(member -> owned.addAll(member.owns));
        return new HashSet<>(owned).size() == owned.size() ? owned.size() : -1;
    }

    private static int poll(Consumer<String, String> consumer, List<String> seen) {
        consumer.poll(Duration.ofMillis(50)).forEach(record -> seen.add(record.value()));
        return consumer.assignment().size();
    }

    private void joinAndLeave() throws Exception {
        String topic = env.topic("join", 4);
        String group = env.name("join");
        env.fill(topic, 4, 40);
        Member first = member(group, topic);
        Check.until("the first has all", () -> first.count() == 4);
        Member second = member(group, topic);
        Check.until("both have two", () -> first.count() == 2 && second.count() == 2);
        Check.same(4, total(List.of(first, second)), "partitions of both");
        Check.same(2, first.everRevoked.size(), "partitions that the first had to give up");
        int before = second.generation;
        first.stop();
        Check.until("the second has all", () -> second.count() == 4);
        Check.until("a later epoch", () -> second.generation > before);
        Check.until("40 records", () -> first.records.size() + second.records.size() == 40);
        ended(first, second);
        Check.same(0, first.lost.get() + second.lost.get(), "lost");
        Check.same(40L, committed(group), "committed");
    }

    private void crash() throws Exception {
        String topic = env.topic("crash", 2);
        String group = env.name("crash");
        Member first = member(group, topic);
        Member second = member(group, topic);
        Check.until("each has one", () -> first.count() == 1 && second.count() == 1);
        first.vanish();
        Check.same(1, second.count(), "partitions within the session of the other");
        Check.until("the second has all when the session is over", () -> second.count() == 2);
        env.fill(topic, 2, 10);
        Check.until("its records", () -> second.records.size() == 10);
        ended(second);
    }

    private void killed() throws Exception {
        String topic = env.topic("killed", 2);
        String group = env.name("killed");
        Process process = new ProcessBuilder(ProcessHandle.current().info().command().orElse("java"),
                "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", System.getProperty("java.class.path"),
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                Victim.class.getName(), env.bootstrap, group, topic, "consumer")
                .redirectError(ProcessBuilder.Redirect.DISCARD).start();
        try {
            Check.same((int) '!', process.getInputStream().read(), "the process owns a partition");
            Member second = member(group, topic);
            Check.until("each has one", () -> second.count() == 1);
            process.destroyForcibly().waitFor();
            Check.until("the second has all", () -> second.count() == 2);
            ended(second);
        } finally {
            process.destroyForcibly();
        }
    }

    /** It leaves with epoch -2, and gets back what it had, as a new member. */
    private void staticMember() throws Exception {
        String topic = env.topic("static", 4);
        String group = env.name("static");
        patient(group);
        Member first = fixed(group, topic, "one");
        Member second = fixed(group, topic, "two");
        Check.until("each has two", () -> first.count() == 2 && second.count() == 2);
        Set<TopicPartition> owned = first.owns;
        int before = second.generation;
        first.stop();
        Check.same(2, second.count(), "partitions of the second while the first is away");
        Check.same(2, described(group).members().size(), "members while the first is away");
        Member again = fixed(group, topic, "one");
        Check.until("the first is back", () -> again.count() == 2);
        Check.same(owned, again.owns, "partitions of the first");
        Check.that(!first.memberId.equals(again.memberId), "it has a new member id");
        int given = again.assigned.get() + second.assigned.get();
        Member third = member(group, topic);
        Check.until("a dynamic one has joined", () -> third.count() >= 1);
        Check.that(second.generation > before, "a new epoch");
        third.stop();
        Check.until("two have all again", () -> total(List.of(again, second)) == 4);
        Check.that(again.assigned.get() + second.assigned.get() > given, "one has been given what the third had");
        ended(again, second);
    }

    /** Who has the instance id keeps it: the second one is refused (other than in classic groups). */
    private void staticFenced() throws Exception {
        String topic = env.topic("fenced", 1);
        String group = env.name("fenced");
        Member first = fixed(group, topic, "same");
        Check.until("the first is in", () -> first.count() == 1);
        Member second = fixed(group, topic, "same");
        Check.until("the second is refused", () -> second.failure != null);
        Check.fails(UnreleasedInstanceIdException.class, () -> {
            throw new Exception(second.failure);
        });
        Check.same(1, first.count(), "partitions of the first");
        ended(first);
    }

    private void removed() throws Exception {
        String topic = env.topic("removed", 1);
        String group = env.name("removed");
        patient(group);
        Member first = fixed(group, topic, "gone");
        Check.until("it is in", () -> first.count() == 1);
        first.stop();
        MemberDescription member = described(group).members().iterator().next();
        Check.same("gone", member.groupInstanceId().orElse(""), "instance");
        Check.same(-2, member.memberEpoch().orElse(0), "epoch");
        var options = new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("gone")));
        Check.get(env.admin.removeMembersFromConsumerGroup(group, options).all());
        Check.same(0, described(group).members().size(), "members");
        Check.fails(UnknownMemberIdException.class,
                () -> Check.get(env.admin.removeMembersFromConsumerGroup(group, options).all()));
    }

    private void assignors() throws Exception {
        String topic = env.topic("assignors", 3);
        String other = env.topic("assignors", 3);
        for (String assignor : List.of("uniform", "range")) {
            String group = env.name(assignor);
            Map<String, Object> config = with(Map.of("group.remote.assignor", assignor));
            Member first = new Member(env, group, List.of(topic, other), config);
            Member second = new Member(env, group, List.of(topic, other), config);
            Check.until("six between two", () -> total(List.of(first, second)) == 6);
            // Ranges are made topic by topic, and give the first member the odd one of each.
            int most = assignor.equals("range") ? 4 : 3;
            Check.until(most + " at most", () -> Math.max(first.count(), second.count()) == most
                    && total(List.of(first, second)) == 6);
            Check.same(assignor, described(group).partitionAssignor(), "assignor");
            ended(first, second);
        }
        Member refused = new Member(env, env.name("unknown"), topic, with(Map.of("group.remote.assignor", "none")));
        Check.until("it is refused", () -> refused.failure != null);
        Check.fails(UnsupportedAssignorException.class, () -> {
            throw new Exception(refused.failure);
        });
    }

    private void regex() throws Exception {
        String prefix = env.name("any");
        create(prefix + "-a", 1);
        create("not-" + prefix + "-a", 1);
        String group = env.name("regex");
        Member first = new Member(env, group, new SubscriptionPattern(prefix + "-.*"), PROTOCOL);
        Check.until("the one topic", () -> topicsOf(first).equals(Set.of(prefix + "-a")));
        create(prefix + "-b", 2);
        Check.until("the topic that came later", () -> first.count() == 3);
        env.fill(prefix + "-b", 2, 10);
        Check.until("its records", () -> first.records.size() == 10);
        Member second = new Member(env, group, List.of(prefix + "-b"), PROTOCOL);
        Check.until("names and patterns in one group", () ->
                total(List.of(first, second)) == 3 && second.count() > 0 && topicsOf(second).size() == 1);
        ended(first, second);
    }

    private static Set<String> topicsOf(Member member) {
        return member.owns.stream().map(TopicPartition::topic).collect(Collectors.toSet());
    }

    private void regexInvalid() throws Exception {
        Member member = new Member(env, env.name("wrong"), new SubscriptionPattern("(unclosed"), PROTOCOL);
        Check.until("it is refused", () -> member.failure != null);
        Check.fails(InvalidRegularExpression.class, () -> {
            throw new Exception(member.failure);
        });
    }

    private void create(String topic, int partitions) throws Exception {
        Check.get(env.admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all());
    }

    private void many() throws Exception {
        String topic = env.topic("storm", 12);
        String group = env.name("storm");
        patient(group);
        List<Member> members = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            members.add(member(group, topic));
        }
        Check.until("twelve partitions, each owned once", () -> total(members) == 12
                && members.stream().allMatch(member -> member.count() >= 1));
        env.fill(topic, 12, 240);
        for (int i = 0; i < 4; i++) {
            ended(members.remove(0));
        }
        Check.until("four have all", () -> total(members) == 12);
        Check.until("all is committed", () -> {
            try {
                return committed(group) == 240;
            } catch (Exception error) {
                throw new AssertionError(error);
            }
        });
        ended(members.toArray(Member[]::new));
    }

    /** It leaves by itself when it was not polled in time, and joins again with the next poll. */
    private void pollInterval() throws Exception {
        String topic = env.topic("slow", 2);
        String group = env.name("slow");
        List<String> seen = new ArrayList<>();
        try (Consumer<String, String> slow = consumer(group, Map.of("max.poll.interval.ms", 1500))) {
            slow.subscribe(List.of(topic));
            Check.until("it owns all", () -> poll(slow, seen) == 2);
            Member other = member(group, topic);
            Check.until("both share", () -> poll(slow, seen) == 1 && other.count() == 1);
            Check.until("the other has all", () -> other.count() == 2);
            Check.until("both share again", () -> poll(slow, seen) == 1 && other.count() == 1);
            ended(other);
        }
    }

    private void topics() throws Exception {
        String topic = env.topic("widened", 1);
        String late = env.name("late");
        Member member = new Member(env, env.name("widened"), List.of(topic, late),
                with(Map.of("allow.auto.create.topics", false)));
        Check.until("one partition", () -> member.count() == 1);
        Check.get(env.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all());
        Check.until("three partitions", () -> member.count() == 3);
        create(late, 2);
        Check.until("two more of the topic that did not exist", () -> member.count() == 5);
        Check.get(env.admin.deleteTopics(List.of(topic)).all());
        Check.until("only those", () -> member.count() == 2 && topicsOf(member).equals(Set.of(late)));
        ended(member);
    }

    private void commitAndResume() throws Exception {
        String topic = env.topic("resume", 1);
        String group = env.name("resume");
        env.fill(topic, 1, 100);
        TopicPartition tp = new TopicPartition(topic, 0);
        try (Consumer<String, String> consumer = consumer(group, Map.of("max.poll.records", 10))) {
            consumer.subscribe(List.of(topic));
            List<String> seen = new ArrayList<>();
            Check.until("thirty records", () -> poll(consumer, seen) == 1 && seen.size() >= 30);
            consumer.commitSync(Map.of(tp, new OffsetAndMetadata(30, "here")));
        }
        try (Consumer<String, String> consumer = consumer(group, Map.of())) {
            consumer.subscribe(List.of(topic));
            List<String> seen = new ArrayList<>();
            Check.until("the rest", () -> poll(consumer, seen) == 1 && seen.size() >= 70);
            Check.same("30", seen.get(0), "first value");
            Check.same(30L, consumer.committed(Set.of(tp)).get(tp).offset(), "committed");
            Check.same("here", consumer.committed(Set.of(tp)).get(tp).metadata(), "metadata");
        }
    }

    private void autoCommit() throws Exception {
        String topic = env.topic("auto", 1);
        String group = env.name("auto");
        env.fill(topic, 1, 10);
        Map<String, Object> config = Map.of("enable.auto.commit", true, "auto.commit.interval.ms", 200);
        try (Consumer<String, String> consumer = consumer(group, config)) {
            consumer.subscribe(List.of(topic));
            List<String> seen = new ArrayList<>();
            Check.until("ten records", () -> poll(consumer, seen) == 1 && seen.size() == 10);
        }
        Check.same(10L, committed(group), "what closing has committed");
    }

    /** A member that was fenced, by a crash as the broker sees it, cannot commit any more. */
    private void commitFenced() throws Exception {
        String topic = env.topic("stale", 1);
        String group = env.name("stale");
        TopicPartition tp = new TopicPartition(topic, 0);
        try (Consumer<String, String> slow = consumer(group, Map.of("max.poll.interval.ms", 600))) {
            slow.subscribe(List.of(topic));
            Check.until("it owns the partition", () -> poll(slow, new ArrayList<>()) == 1);
            Member other = member(group, topic);
            Check.until("the other has taken it", () -> other.count() == 1);
            Check.fails(CommitFailedException.class, () -> slow.commitSync(Map.of(tp, new OffsetAndMetadata(1))));
            ended(other);
        }
    }

    private Producer<String, String> transactional() {
        Producer<String, String> producer = env.producer(Map.of("transactional.id", env.name("tx")));
        producer.initTransactions();
        return producer;
    }

    /** Its partitions move to another one in the middle, and its epoch with them. */
    private void transactionOffsets() throws Exception {
        String from = env.topic("from", 2);
        String to = env.topic("to", 1);
        String group = env.name("offsets");
        env.fill(from, 2, 60);
        try (Producer<String, String> producer = transactional();
                Consumer<String, String> consumer = consumer(group, Map.of("max.poll.records", 10))) {
            consumer.subscribe(List.of(from));
            List<String> copied = new ArrayList<>();
            Check.until("all are copied", () -> {
                var records = consumer.poll(Duration.ofMillis(100));
                if (!records.isEmpty()) {
                    producer.beginTransaction();
                    records.forEach(record -> producer.send(new ProducerRecord<>(to, record.value())));
                    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                    records.partitions().forEach(
                            tp -> offsets.put(tp, new OffsetAndMetadata(consumer.position(tp))));
                    producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                    producer.commitTransaction();
                    records.forEach(record -> copied.add(record.value()));
                }
                return copied.size() == 60;
            });
        }
        Check.same(60L, committed(group), "committed");
        Check.until("all are shown", () ->
                env.values(to, 1, Map.of("isolation.level", "read_committed")).size() == 60);
    }

    private void transactionFenced() throws Exception {
        String topic = env.topic("epochs", 1);
        String group = env.name("epochs");
        TopicPartition tp = new TopicPartition(topic, 0);
        try (Producer<String, String> producer = transactional();
                Consumer<String, String> consumer = consumer(group, Map.of())) {
            consumer.subscribe(List.of(topic));
            Check.until("it owns the partition", () -> poll(consumer, new ArrayList<>()) == 1);
            var old = consumer.groupMetadata();
            consumer.unsubscribe();
            Member other = member(group, topic);
            Check.until("the other owns it", () -> other.count() == 1);
            producer.beginTransaction();
            Check.fails(CommitFailedException.class, () -> {
                producer.sendOffsetsToTransaction(Map.of(tp, new OffsetAndMetadata(7)), old);
                producer.commitTransaction();
            });
            producer.abortTransaction();
            ended(other);
        }
    }

    private void administration() throws Exception {
        String topic = env.topic("described", 2);
        String group = env.name("described");
        TopicPartition tp = new TopicPartition(topic, 0);
        env.fill(topic, 2, 10);
        Member member = member(group, topic);
        Check.until("it has read all", () -> member.count() == 2 && member.records.size() == 10);
        ConsumerGroupDescription found = described(group);
        Check.same(GroupType.CONSUMER, found.type(), "type");
        Check.same(GroupState.STABLE, found.groupState(), "state");
        MemberDescription one = found.members().iterator().next();
        Check.same(found.groupEpoch(), found.targetAssignmentEpoch(), "epochs");
        Check.same(found.groupEpoch(), one.memberEpoch(), "epoch of the member");
        Check.same(member.memberId, one.consumerId(), "member");
        Check.same(member.owns, one.assignment().topicPartitions(), "assignment");
        Check.same(member.owns, one.targetAssignment().orElseThrow().topicPartitions(), "target");
        Check.same(true, one.upgraded().orElse(false), "uses the consumer protocol");
        Check.that(listed(group, GroupType.CONSUMER) && !listed(group, GroupType.CLASSIC), "listed by its type");
        Check.fails(GroupNotEmptyException.class,
                () -> Check.get(env.admin.deleteConsumerGroups(List.of(group)).all()));
        Check.fails(GroupSubscribedToTopicException.class,
                () -> Check.get(env.admin.deleteConsumerGroupOffsets(group, Set.of(tp)).all()));
        Check.fails(UnknownMemberIdException.class, () -> Check.get(
                env.admin.alterConsumerGroupOffsets(group, Map.of(tp, new OffsetAndMetadata(1))).all()));
        ended(member);
        Check.same(GroupState.EMPTY, described(group).groupState(), "state");
        Check.get(env.admin.alterConsumerGroupOffsets(group, Map.of(tp, new OffsetAndMetadata(1))).all());
        Member heir = member(group, topic);
        Check.until("it reads what is behind the new offset", () -> heir.records.size() == 4);
        ended(heir);
        Check.get(env.admin.deleteConsumerGroupOffsets(group, Set.of(tp)).all());
        Check.get(env.admin.deleteConsumerGroups(List.of(group)).all());
        Check.that(!listed(group, GroupType.CONSUMER), "it is gone");
    }

    private boolean listed(String group, GroupType type) throws Exception {
        return Check.get(env.admin.listGroups(new ListGroupsOptions().withTypes(Set.of(type))).all()).stream()
                .anyMatch(listing -> listing.groupId().equals(group));
    }
}
