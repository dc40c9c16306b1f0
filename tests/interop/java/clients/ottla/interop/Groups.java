package ottla.interop;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InconsistentGroupProtocolException;
import org.apache.kafka.common.errors.InvalidSessionTimeoutException;
import org.apache.kafka.common.errors.OffsetMetadataTooLarge;

/** The classic group protocol. */
final class Groups {
    private static final String STRATEGY = "partition.assignment.strategy";
    private final Env env;

    Groups(Env env) {
        this.env = env;
    }

    void into(Map<String, Scenario> all) {
        all.put("group_join_and_leave", this::joinAndLeave);
        all.put("group_crash", this::crash);
        all.put("group_process_killed", this::killed);
        all.put("group_static_member", this::staticMember);
        all.put("group_static_member_fenced", this::staticFenced);
        all.put("group_static_members_removed", this::staticRemoved);
        all.put("group_cooperative", this::cooperative);
        all.put("group_cooperative_upgrade", this::cooperativeUpgrade);
        all.put("group_assignors", this::assignors);
        all.put("group_regex_subscription", this::regex);
        all.put("group_many_members", this::many);
        all.put("group_poll_interval_exceeded", this::pollInterval);
        all.put("group_inconsistent_protocol", this::inconsistent);
        all.put("group_session_timeout_refused", this::sessionTimeout);
        all.put("group_partitions_added", this::partitionsAdded);
        all.put("group_enforced_rebalance", this::enforced);
        all.put("commit_and_resume", this::commitAndResume);
        all.put("commit_metadata", this::commitMetadata);
        all.put("commit_auto", this::autoCommit);
        all.put("commit_fenced_after_rebalance", this::commitFenced);
    }

    private Member member(String group, String topic) {
        return new Member(env, group, topic, Map.of());
    }

    private void joinAndLeave() throws Exception {
        String topic = env.topic("join", 4);
        String group = env.name("join");
        env.fill(topic, 4, 40);
        Member first = member(group, topic);
        Check.until("the first has all", () -> first.count() == 4);
        Member second = member(group, topic);
        Check.until("both have two", () -> first.count() == 2 && second.count() == 2);
        Set<TopicPartition> together = new HashSet<>(first.owns);
        together.addAll(second.owns);
        Check.same(4, together.size(), "partitions of both");
        int before = second.generation;
        first.stop();
        Check.until("the second has all", () -> second.count() == 4);
        Check.that(second.generation > before, "the generation has grown");
        Check.until("40 records", () -> first.records.size() + second.records.size() >= 40);
        second.stop();
        Check.same(40, first.records.size() + second.records.size(), "records: none twice");
        Check.same(null, first.failure, "failure");
        Check.same(null, second.failure, "failure");
    }

    private void crash() throws Exception {
        String topic = env.topic("crash", 2);
        String group = env.name("crash");
        Member first = member(group, topic);
        Member second = member(group, topic);
        Check.until("each has one", () -> first.count() == 1 && second.count() == 1);
        int before = second.generation;
        first.vanish();
        Thread.sleep(400);
        Check.same(1, second.count(), "partitions within the session timeout of the other");
        Check.until("the second has all after the session timeout", () -> second.count() == 2);
        Check.same(before + 1, second.generation, "generation");
        env.fill(topic, 2, 10);
        Check.until("its records", () -> second.records.size() == 10);
        second.stop();
    }

    /** A real process that is killed. */
    private void killed() throws Exception {
        String topic = env.topic("killed", 2);
        String group = env.name("killed");
        Process process = new ProcessBuilder(ProcessHandle.current().info().command().orElse("java"),
                "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", System.getProperty("java.class.path"),
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                Victim.class.getName(), env.bootstrap, group, topic)
                .redirectError(ProcessBuilder.Redirect.DISCARD).start();
        try {
            Check.same((int) '!', process.getInputStream().read(), "the process owns a partition");
            Member second = member(group, topic);
            Check.until("each has one", () -> second.count() == 1);
            process.destroyForcibly().waitFor();
            Check.until("the second has all", () -> second.count() == 2);
            second.stop();
        } finally {
            process.destroyForcibly();
        }
    }

    private void staticMember() throws Exception {
        String topic = env.topic("static", 4);
        String group = env.name("static");
        Map<String, Object> slow = Map.of("session.timeout.ms", 10_000);
        Map<String, Object> one = Map.of("group.instance.id", "one", "session.timeout.ms", 10_000);
        Member first = new Member(env, group, topic, one);
        Member second = new Member(env, group, topic,
                Map.of("group.instance.id", "two", "session.timeout.ms", 10_000));
        Check.until("each has two", () -> first.count() == 2 && second.count() == 2);
        int before = second.generation;
        Set<TopicPartition> owned = first.owns;
        int rebalances = second.assigned.get();
        String id = first.memberId;
        first.stop();
        Thread.sleep(300);
        Check.same(2, second.count(), "partitions of the second while the first is away");
        Member again = new Member(env, group, topic, one);
        Check.until("the first is back", () -> again.count() == 2);
        Check.same(owned, again.owns, "partitions of the first");
        Check.that(!id.equals(again.memberId), "it has a new member id");
        Thread.sleep(500);
        Check.same(before, second.generation, "generation of the second");
        Check.same(before, again.generation, "generation of the first");
        Check.same(rebalances, second.assigned.get(), "rebalances of the second");
        Member third = new Member(env, group, topic, slow);
        Check.until("a dynamic one has joined", () -> third.count() >= 1);
        third.stop();
        again.stop();
        second.stop();
    }

    private void staticFenced() throws Exception {
        String topic = env.topic("fenced", 1);
        String group = env.name("fenced");
        Map<String, Object> config = Map.of("group.instance.id", "same");
        Member first = new Member(env, group, topic, config);
        Check.until("the first is in", () -> first.count() == 1);
        Member second = new Member(env, group, topic, config);
        Check.until("the second has replaced it", () -> second.count() == 1);
        Check.until("the first is fenced", () -> first.failure != null);
        Check.fails(FencedInstanceIdException.class, () -> {
            throw new Exception(first.failure);
        });
        second.stop();
    }

    private void staticRemoved() throws Exception {
        String topic = env.topic("removed", 1);
        String group = env.name("removed");
        Member first = new Member(env, group, topic,
                Map.of("group.instance.id", "gone", "session.timeout.ms", 30_000));
        Check.until("it is in", () -> first.count() == 1);
        first.stop();
        var described = Check.get(env.admin.describeConsumerGroups(List.of(group)).all()).get(group);
        Check.same("gone", described.members().iterator().next().groupInstanceId().orElse(""), "instance");
        Check.get(env.admin.removeMembersFromConsumerGroup(group,
                new org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions(Set.of(
                        new org.apache.kafka.clients.admin.MemberToRemove("gone")))).all());
        described = Check.get(env.admin.describeConsumerGroups(List.of(group)).all()).get(group);
        Check.same(0, described.members().size(), "members");
    }

    private void cooperative() throws Exception {
        String topic = env.topic("cooperative", 4);
        String group = env.name("cooperative");
        Map<String, Object> config = Map.of(STRATEGY, CooperativeStickyAssignor.class.getName());
        Member first = new Member(env, group, topic, config);
        Check.until("the first has all", () -> first.count() == 4);
        Member second = new Member(env, group, topic, config);
        Check.until("each has two", () -> first.count() == 2 && second.count() == 2);
        Check.same(2, first.everRevoked.size(), "partitions that the first had to give up");
        Member third = new Member(env, group, topic, config);
        Check.until("three", () -> third.count() == 1 && first.count() + second.count() == 3);
        third.stop();
        Check.until("two again", () -> first.count() == 2 && second.count() == 2);
        second.vanish();
        Check.until("one again", () -> first.count() == 4);
        Check.same(0, first.lost.get(), "lost partitions");
        first.stop();
        Check.same(null, first.failure, "failure");
    }

    /** From eager to cooperative in two rolling bounces (KIP-429). */
    private void cooperativeUpgrade() throws Exception {
        String topic = env.topic("upgrade", 4);
        String group = env.name("upgrade");
        String both = CooperativeStickyAssignor.class.getName() + "," + RangeAssignor.class.getName();
        Member eager = new Member(env, group, topic, Map.of(STRATEGY, RangeAssignor.class.getName()));
        Check.until("one eager member", () -> eager.count() == 4);
        Member mixed = new Member(env, group, topic, Map.of(STRATEGY, both));
        Check.until("an eager one and one of both", () -> eager.count() == 2 && mixed.count() == 2);
        eager.stop();
        Check.until("one of both", () -> mixed.count() == 4);
        Member modern = new Member(env, group, topic, Map.of(STRATEGY, CooperativeStickyAssignor.class.getName()));
        Check.until("one of both and a cooperative one", () -> modern.count() == 2 && mixed.count() == 2);
        mixed.stop();
        Check.until("a cooperative one", () -> modern.count() == 4);
        modern.stop();
    }

    private void assignors() throws Exception {
        for (Class<?> assignor : List.of(RangeAssignor.class, RoundRobinAssignor.class, StickyAssignor.class)) {
            String topic = env.topic("assignors", 3);
            String group = env.name("assignors");
            Map<String, Object> config = Map.of(STRATEGY, assignor.getName());
            Member first = new Member(env, group, topic, config);
            Member second = new Member(env, group, topic, config);
            Check.until("three between two", () ->
                    first.count() + second.count() == 3 && first.count() > 0 && second.count() > 0);
            var described = Check.get(env.admin.describeConsumerGroups(List.of(group)).all()).get(group);
            String name = assignor == RangeAssignor.class ? "range"
                    : assignor == RoundRobinAssignor.class ? "roundrobin" : "sticky";
            Check.same(name, described.partitionAssignor(), "assignor of the group");
            first.stop();
            second.stop();
        }
    }

    private void regex() throws Exception {
        String prefix = env.name("regex");
        Map<String, Object> config = Map.of("metadata.max.age.ms", 300);
        String group = env.name("regex");
        create(prefix + "-a");
        Set<String> seen = new HashSet<>();
        try (Consumer<String, String> consumer = env.consumer(group, config)) {
            consumer.subscribe(Pattern.compile(Pattern.quote(prefix) + "-.*"));
            Check.until("the first topic", () -> assignment(consumer, seen).size() == 1);
            create(prefix + "-b");
            Check.until("the second topic", () -> assignment(consumer, seen).size() == 2);
            env.fill(prefix + "-b", 1, 3);
            Check.until("its records", () -> assignment(consumer, seen) != null && seen.size() == 3);
            Check.get(env.admin.deleteTopics(List.of(prefix + "-a")).all());
            Check.until("one topic again", () -> assignment(consumer, seen).size() == 1);
        }
    }

    private void create(String topic) throws Exception {
        Check.get(env.admin.createTopics(List.of(
                new org.apache.kafka.clients.admin.NewTopic(topic, 1, (short) 1))).all());
    }

    private static Set<TopicPartition> assignment(Consumer<String, String> consumer, Set<String> seen) {
        consumer.poll(Duration.ofMillis(100)).forEach(record -> seen.add(record.value()));
        return consumer.assignment();
    }

    private void many() throws Exception {
        String topic = env.topic("storm", 12);
        String group = env.name("storm");
        Map<String, Object> config = Map.of(STRATEGY, CooperativeStickyAssignor.class.getName(),
                "session.timeout.ms", 6000);
        List<Member> members = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            members.add(new Member(env, group, topic, config));
        }
        Check.until("twelve partitions, each owned once", () -> total(members) == 12
                && members.stream().allMatch(member -> member.count() >= 1));
        env.fill(topic, 12, 240);
        for (int i = 0; i < 4; i++) {
            members.remove(0).stop();
        }
        Check.until("four have all", () -> total(members) == 12);
        for (Member member : members) {
            member.stop();
            Check.same(null, member.failure, "failure");
        }
        Map<TopicPartition, OffsetAndMetadata> committed =
                Check.get(env.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
        Check.same(240L, committed.values().stream().mapToLong(OffsetAndMetadata::offset).sum(), "committed");
    }

    private static int total(List<Member> members) {
        Set<TopicPartition> owned = new HashSet<>();
        int count = 0;
        for (Member member : members) {
            Set<TopicPartition> owns = member.owns;
            owned.addAll(owns);
            count += owns.size();
        }
        return owned.size() == count ? count : -1;
    }

    private void pollInterval() throws Exception {
        String topic = env.topic("slow", 2);
        String group = env.name("slow");
        AtomicReference<Set<TopicPartition>> lost = new AtomicReference<>(Set.of());
        try (Consumer<String, String> slow = env.consumer(group, Map.of("max.poll.interval.ms", 1500))) {
            slow.subscribe(List.of(topic));
            Check.until("it owns all", () -> {
                slow.poll(Duration.ofMillis(100));
                return slow.assignment().size() == 2;
            });
            Member other = member(group, topic);
            Check.until("the other has all", () -> other.count() == 2);
            Check.until("both share", () -> {
                slow.poll(Duration.ofMillis(100));
                lost.set(slow.assignment());
                return lost.get().size() == 1 && other.count() == 1;
            });
            other.stop();
        }
    }

    private void inconsistent() throws Exception {
        String topic = env.topic("inconsistent", 1);
        String group = env.name("inconsistent");
        Member first = new Member(env, group, topic, Map.of(STRATEGY, RangeAssignor.class.getName()));
        Check.until("the first is in", () -> first.count() == 1);
        Member second = new Member(env, group, topic, Map.of(STRATEGY, RoundRobinAssignor.class.getName()));
        Check.until("the second fails", () -> second.failure != null);
        Check.fails(InconsistentGroupProtocolException.class, () -> {
            throw new Exception(second.failure);
        });
        first.stop();
        Check.same(null, first.failure, "failure of the first");
    }

    private void sessionTimeout() throws Exception {
        String topic = env.topic("session", 1);
        Member member = new Member(env, env.name("session"), topic,
                Map.of("session.timeout.ms", 1_900_000, "request.timeout.ms", 2_000_000));
        Check.until("it fails", () -> member.failure != null);
        Check.fails(InvalidSessionTimeoutException.class, () -> {
            throw new Exception(member.failure);
        });
    }

    private void partitionsAdded() throws Exception {
        String topic = env.topic("widened", 1);
        Member member = new Member(env, env.name("widened"), topic, Map.of("metadata.max.age.ms", 300));
        Check.until("one partition", () -> member.count() == 1);
        Check.get(env.admin.createPartitions(Map.of(topic,
                org.apache.kafka.clients.admin.NewPartitions.increaseTo(3))).all());
        Check.until("three partitions", () -> member.count() == 3);
        member.stop();
    }

    private void enforced() throws Exception {
        String topic = env.topic("enforced", 1);
        try (Consumer<String, String> consumer = env.consumer(env.name("enforced"))) {
            consumer.subscribe(List.of(topic));
            Check.until("it is in", () -> assignment(consumer, new HashSet<>()).size() == 1);
            int before = consumer.groupMetadata().generationId();
            consumer.enforceRebalance("to see a reason");
            Check.until("the next generation", () -> {
                consumer.poll(Duration.ofMillis(100));
                return consumer.groupMetadata().generationId() == before + 1;
            });
        }
    }

    private void commitAndResume() throws Exception {
        String topic = env.topic("resume", 1);
        String group = env.name("resume");
        env.fill(topic, 1, 100);
        TopicPartition tp = new TopicPartition(topic, 0);
        try (Consumer<String, String> consumer = env.consumer(group, Map.of("max.poll.records", 10))) {
            consumer.subscribe(List.of(topic));
            Check.until("thirty records", () -> {
                consumer.poll(Duration.ofMillis(100));
                return consumer.assignment().contains(tp) && consumer.position(tp) >= 30;
            });
            consumer.commitSync(Map.of(tp, new OffsetAndMetadata(30, "here")));
        }
        try (Consumer<String, String> consumer = env.consumer(group)) {
            consumer.subscribe(List.of(topic));
            List<String> seen = new ArrayList<>();
            Check.until("the rest", () -> {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> seen.add(record.value()));
                return seen.size() >= 70;
            });
            Check.same("30", seen.get(0), "first value");
            Check.same(30L, consumer.committed(Set.of(tp)).get(tp).offset(), "committed");
            Check.same("here", consumer.committed(Set.of(tp)).get(tp).metadata(), "metadata");
            AtomicReference<Exception> error = new AtomicReference<>(new Exception("not called"));
            consumer.commitAsync((offsets, thrown) -> error.set(thrown));
            Check.until("the answer of commitAsync", () -> {
                consumer.poll(Duration.ofMillis(50));
                return error.get() == null;
            });
        }
    }

    private void commitMetadata() throws Exception {
        String topic = env.topic("metadata", 1);
        TopicPartition tp = new TopicPartition(topic, 0);
        try (Consumer<String, String> consumer = env.consumer(env.name("metadata"))) {
            consumer.assign(List.of(tp));
            Check.same(null, consumer.committed(Set.of(tp)).get(tp), "committed before");
            var commit = new OffsetAndMetadata(5, java.util.Optional.of(0), "m".repeat(4096));
            consumer.commitSync(Map.of(tp, commit));
            Check.same(commit, consumer.committed(Set.of(tp)).get(tp), "committed");
            Check.fails(OffsetMetadataTooLarge.class,
                    () -> consumer.commitSync(Map.of(tp, new OffsetAndMetadata(6, "m".repeat(4097)))));
        }
    }

    private void autoCommit() throws Exception {
        String topic = env.topic("auto", 1);
        String group = env.name("auto");
        env.fill(topic, 1, 10);
        Map<String, Object> config = Map.of("enable.auto.commit", true, "auto.commit.interval.ms", 200);
        try (Consumer<String, String> consumer = env.consumer(group, config)) {
            consumer.subscribe(List.of(topic));
            Check.until("ten are committed", () -> {
                consumer.poll(Duration.ofMillis(50));
                var committed = consumer.committed(Set.of(new TopicPartition(topic, 0)));
                var offset = committed.get(new TopicPartition(topic, 0));
                return offset != null && offset.offset() == 10;
            });
        }
    }

    private void commitFenced() throws Exception {
        String topic = env.topic("stale", 1);
        String group = env.name("stale");
        TopicPartition tp = new TopicPartition(topic, 0);
        try (Consumer<String, String> slow = env.consumer(group, Map.of("max.poll.interval.ms", 600))) {
            slow.subscribe(List.of(topic));
            Check.until("it owns the partition", () -> {
                slow.poll(Duration.ofMillis(100));
                return slow.assignment().contains(tp);
            });
            Member other = member(group, topic);
            Check.until("the other has taken it", () -> other.count() == 1);
            Check.fails(CommitFailedException.class, () -> slow.commitSync(Map.of(tp, new OffsetAndMetadata(1))));
            other.stop();
        }
    }
}
