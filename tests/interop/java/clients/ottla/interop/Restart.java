package ottla.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** A broker that is killed and comes back in the middle. Whoever runs this does that when a file asks for it. */
final class Restart {
    private final Env env;
    private final Path restarts;

    /** Without a directory nobody restarts it. */
    Restart(Env env, Path restarts) {
        this.env = env;
        this.restarts = restarts;
    }

    void into(Map<String, Scenario> all) {
        all.put("broker_restart", this::restart);
    }

    private void restart() throws Exception {
        if (restarts == null) {
            throw new Scenario.Skipped("this broker is not ours to restart");
        }
        String topic = env.topic("restart", 2);
        String group = env.name("restarted");
        Member first = new Member(env, group, topic, Map.of("session.timeout.ms", 6000));
        Member second = new Member(env, group, topic, Map.of("session.timeout.ms", 6000));
        Map<String, Object> config = Map.of("transactional.id", env.name("tx"), "max.block.ms", 20_000);
        List<String> sent = new ArrayList<>();
        try (Producer<String, String> producer = env.producer(Map.of("batch.size", 200));
                Producer<String, String> transactional = env.producer(config)) {
            transactional.initTransactions();
            Check.until("both have a partition", () -> first.count() == 1 && second.count() == 1);
            List<Future<RecordMetadata>> answers = new ArrayList<>();
            transactional.beginTransaction();
            transactional.send(new ProducerRecord<>(topic, "within"));
            transactional.flush();
            Files.createFile(restarts.resolve("wanted-java"));
            for (int i = 0; i < 1000; i++) {
                sent.add(Integer.toString(i));
                answers.add(producer.send(new ProducerRecord<>(topic, i % 2, null, sent.get(i))));
                Thread.sleep(2);
            }
            Check.until("the broker is back", () -> Files.exists(restarts.resolve("done-java")));
            Check.same("", Files.readString(restarts.resolve("done-java")), "what went wrong at the restart");
            for (var answer : answers) {
                Check.get(answer);
            }
            transactional.send(new ProducerRecord<>(topic, "too"));
            transactional.commitTransaction();
            sent.add("within");
            sent.add("too");
        }
        Check.until("everything is read", () -> seen(first, second).containsAll(sent));
        Check.same(new HashSet<>(sent), seen(first, second), "what was read");
        // A commit is answered before its markers are written everywhere.
        Map<String, String> committed = Map.of("isolation.level", "read_committed");
        Check.until("every record is committed", () -> env.values(topic, 2, committed).size() == 1002);
        first.stop();
        second.stop();
        Check.same(null, first.failure, "failure of the first");
        Check.same(null, second.failure, "failure of the second");
    }

    private static Set<String> seen(Member... members) {
        Set<String> values = new HashSet<>();
        for (Member member : members) {
            member.records.forEach(record -> values.add(record.value()));
        }
        return values;
    }
}
