package ottla.interop;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Clients that come, go, crash and stall while topics come and go: BOOTSTRAP SCRATCH SECONDS SEED PROTOCOL. What happens
 * when is decided by the seed alone, so that two brokers see the same; the clients' own log is what it is run for. At the
 * end each group must have read all that was written to its topic.
 */
public final class Churn {
    private static final List<String> STEADY = List.of("churn-eager", "churn-cooperative", "churn-static");
    private static final List<String> PASSING = List.of("churn-temp-0", "churn-temp-1", "churn-temp-2");
    private static final String STRATEGY = "partition.assignment.strategy";
    /** Groups that read all that is written to a topic. */
    private static final Map<String, String> WHOLE = Map.of("group-0", STEADY.get(0), "group-1", STEADY.get(1),
            "group-static", STEADY.get(2), "group-auto", STEADY.get(1));
    private final Ledger ledger = new Ledger();
    private final Env env;
    private final Random random;
    private final Map<String, Actor> actors = new HashMap<>();
    private final List<Actor> everyone = new ArrayList<>();
    private final List<Process> victims = new ArrayList<>();
    private int partitions = 4;
    private int made;

    private Churn(Env env, long seed) {
        this.env = env;
        this.random = new Random(seed);
    }

    public static void main(String[] args) throws Exception {
        try (Env env = new Env(args[0], Path.of(args[1]), args[4])) {
            new Churn(env, Long.parseLong(args[3])).run(Long.parseLong(args[2]));
        }
        System.exit(0);
    }

    private void run(long seconds) throws Exception {
        for (String topic : STEADY) {
            create(topic, 4);
        }
        create("churn-copies", 3);
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        int steps = 0;
        while (System.nanoTime() < end) {
            // Both are drawn whatever becomes of the step: the next ones depend on nothing but the seed.
            long pause = 60 + random.nextInt(640);
            step(random.nextInt(100), random.nextInt(1000));
            steps++;
            Actor.nap(pause);
        }
        for (Actor actor : everyone) {
            actor.stop(false);
        }
        for (Actor actor : everyone) {
            actor.join();
        }
        victims.forEach(Process::destroyForcibly);
        int lost = 0;
        for (Map.Entry<String, String> whole : WHOLE.entrySet()) {
            int count = whole.getValue().equals(STEADY.get(1)) ? partitions : 4;
            lost += ledger.lost(env, whole.getKey(), whole.getValue(), count);
        }
        System.out.println(steps + " steps, " + made + " clients, " + lost + " records lost");
        Check.same(0, lost, "records that a group has not read");
    }

    private void step(int dice, int pick) throws Exception {
        if (dice < 30) {
            reader(pick);
        } else if (dice < 38) {
            fixed(pick);
        } else if (dice < 42) {
            patient(pick);
        } else if (dice < 56) {
            plain(pick);
        } else if (dice < 72) {
            transactional(pick);
        } else if (dice < 75) {
            wanderer(pick);
        } else if (dice < 77) {
            victim(pick);
        } else if (dice < 88) {
            topics(pick);
        } else {
            attempt(() -> administer(pick));
        }
    }

    private boolean lives(String name) {
        Actor actor = actors.get(name);
        return actor != null && actor.lives();
    }

    private void start(String name, Actor actor) {
        made++;
        actors.put(name, actor.start());
        everyone.add(actor);
    }

    /** Ends one that lives, in one of these ways, or starts it. */
    private boolean ended(String name, int pick) throws InterruptedException {
        if (!lives(name)) {
            return false;
        }
        Actor actor = actors.get(name);
        if (actor instanceof Readers.GroupMember member && pick % 5 == 0) {
            member.stall = true;
        } else if (actor instanceof Writers.Transactional writer && pick % 5 == 0) {
            writer.hang = true;
        } else {
            actor.stop(pick % 5 < 3);
        }
        return true;
    }

    private void reader(int pick) throws InterruptedException {
        String name = "reader-" + pick % 12;
        if (ended(name, pick / 12)) {
            return;
        }
        int kind = pick % 3;
        Map<String, Object> config = new HashMap<>(Map.of("session.timeout.ms", 3000, "heartbeat.interval.ms", 500,
                "max.poll.interval.ms", 4000, "client.id", name, "metadata.max.age.ms", 3000));
        config.put(STRATEGY, List.of(RangeAssignor.class.getName(), CooperativeStickyAssignor.class.getName(),
                StickyAssignor.class.getName()).get(kind));
        String topic = kind == 2 ? "churn-temp-.*" : STEADY.get(kind);
        start(name, new Readers.GroupMember(env, ledger, name, "group-" + kind, topic, config, pick));
    }

    /**
     * Static members; one in three starts beside the one that has its instance id, some with a twin. In a classic group
     * it fences that one, in one of the consumer protocol it is refused.
     */
    private void fixed(int pick) throws InterruptedException {
        String instance = "fixed-" + pick % 4;
        boolean fences = pick / 4 % 3 == 0;
        if (!fences && ended(instance, 1 + pick % 2)) {
            return;
        }
        Map<String, Object> config = Map.of("group.instance.id", instance, "session.timeout.ms", 6000,
                "heartbeat.interval.ms", 500, "client.id", instance);
        String name = env.modern() && lives(instance) ? instance + "-refused" : instance;
        start(name, new Readers.GroupMember(env, ledger, instance, "group-static", "churn-static", config, pick));
        if (fences && pick / 12 % 2 == 0) {
            String twin = instance + "-twin";
            start(twin, new Readers.GroupMember(env, ledger, twin, "group-static", "churn-static", config, pick));
        }
    }

    /** Commits by itself. */
    private void patient(int pick) throws InterruptedException {
        String name = "patient-" + pick % 2;
        if (ended(name, 1 + pick / 2 % 4)) {
            return;
        }
        Map<String, Object> config = Map.of("enable.auto.commit", true, "auto.commit.interval.ms", 500,
                "client.id", name, "session.timeout.ms", 3000);
        start(name, new Readers.GroupMember(env, ledger, name, "group-auto", "churn-cooperative", config, pick));
    }

    private void plain(int pick) throws InterruptedException {
        String name = "plain-" + pick % 5;
        if (ended(name, 1 + pick / 5 % 4)) {
            return;
        }
        List<String> topics = new ArrayList<>(STEADY);
        topics.addAll(PASSING);
        start(name, new Writers.Plain(env, name, topics, pick % 5, pick));
    }

    /** One in four starts beside the one that has its id and fences it. */
    private void transactional(int pick) throws InterruptedException {
        String id = "tx-" + pick % 4;
        boolean fences = pick / 4 % 4 == 0;
        if (!fences && ended(id, pick / 4)) {
            return;
        }
        String source = pick % 4 == 0 ? "churn-eager" : null;
        start(id, new Writers.Transactional(env, id, id, source, pick % 2 == 0 ? "churn-copies" : "churn-static", pick));
    }

    private void wanderer(int pick) throws InterruptedException {
        if (!ended("wanderer", 1 + pick % 4)) {
            start("wanderer", new Readers.Wanderer(env, "wanderer", STEADY, pick));
        }
    }

    /** A process that joins a group and is killed at the next turn. */
    private void victim(int pick) throws Exception {
        if (!victims.isEmpty()) {
            victims.remove(0).destroyForcibly();
            return;
        }
        String log = env.scratch.resolve("victim-" + made++ + ".log").toString();
        victims.add(new ProcessBuilder(ProcessHandle.current().info().command().orElse("java"),
                "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", System.getProperty("java.class.path"),
                "-Dorg.slf4j.simpleLogger.logFile=" + log, Victim.class.getName(), env.bootstrap, "group-0", STEADY.get(0),
                env.modern() ? "consumer" : "classic")
                .redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(ProcessBuilder.Redirect.DISCARD).start());
    }

    private void create(String topic, int count) throws Exception {
        Check.get(env.admin.createTopics(List.of(new NewTopic(topic, count, (short) 1))).all());
    }

    private void topics(int pick) {
        String topic = PASSING.get(pick % 3);
        switch (pick / 3 % 5) {
            case 0, 1 -> attempt(() -> create(topic, 1 + pick % 4));
            case 2, 3 -> attempt(() -> Check.get(env.admin.deleteTopics(List.of(topic)).all()));
            default -> attempt(() -> {
                partitions = Math.min(partitions + 1, 10);
                Check.get(env.admin.createPartitions(Map.of("churn-cooperative",
                        NewPartitions.increaseTo(partitions))).all());
            });
        }
    }

    private static void attempt(Scenario call) {
        try {
            call.run();
        } catch (Throwable error) {
            Actor.LOG.info("refused: {}", error.toString());
        }
    }

    private void administer(int pick) throws Exception {
        Admin admin = env.admin;
        TopicPartition tp = new TopicPartition("churn-copies", 0);
        Set<String> groups = Set.of("group-0", "group-1", "group-static", "no-such-group");
        switch (pick % 12) {
            case 0 -> Check.get(admin.listGroups().all());
            case 1 -> {
                for (var future : admin.describeConsumerGroups(groups).describedGroups().values()) {
                    attempt(() -> Check.get(future));
                }
            }
            case 2 -> Check.get(admin.deleteConsumerGroups(List.of("copy-tx-0")).all());
            case 3 -> Check.get(admin.alterConsumerGroupOffsets("group-never", Map.of(tp, new OffsetAndMetadata(1))).all());
            case 4 -> Check.get(admin.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(pick))).all());
            case 5 -> Check.get(admin.listTransactions().all());
            case 6 -> Check.get(admin.describeTransactions(List.of("tx-0", "tx-1")).all());
            case 7 -> Check.get(admin.incrementalAlterConfigs(Map.of(
                    new ConfigResource(ConfigResource.Type.TOPIC, "churn-eager"),
                    (Collection<AlterConfigOp>) List.of(new AlterConfigOp(
                            new ConfigEntry("retention.ms", Integer.toString(3_600_000 + pick)),
                            AlterConfigOp.OpType.SET)))).all());
            case 8 -> Check.get(admin.listOffsets(Map.of(tp, OffsetSpec.maxTimestamp())).all());
            case 9 -> Check.get(admin.listConsumerGroupOffsets("group-1").all());
            case 10 -> Check.get(admin.fenceProducers(List.of("tx-" + pick % 4)).all());
            default -> Check.get(admin.describeTopics(List.of("churn-eager", PASSING.get(0))).allTopicNames());
        }
    }
}
