package ottla.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.SslAuthenticationException;

/** A broker that asks who comes: by SASL over TLS, and by certificate. SECURED_... in the environment says how. */
final class Secured {
    private static final String MODULES = "org.apache.kafka.common.security.";
    private static final String ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls";
    private static final Duration REFUSED_WITHIN = Duration.ofSeconds(15);
    private static final int COUNT = 20;
    private final Env env;

    /** Settings of a client: the right ones, or those with something wrong. */
    @FunctionalInterface
    private interface Settings {
        Map<String, Object> of(boolean right) throws Exception;
    }

    Secured(Env env) {
        this.env = env;
    }

    void into(Map<String, Scenario> all) {
        all.put("secured_scram", () -> secured(this::scram, SaslAuthenticationException.class));
        all.put("secured_plain", () -> secured(this::plain, SaslAuthenticationException.class));
        all.put("secured_oauthbearer", () -> secured(this::token, SaslAuthenticationException.class));
        all.put("secured_mutual_tls", () -> secured(this::certificate, SslAuthenticationException.class));
        all.put("secured_reauthentication", this::renewed);
    }

    private static String told(String name) {
        String value = System.getenv("SECURED_" + name);
        if (value == null) {
            throw new Scenario.Skipped("there is no secured broker");
        }
        return value;
    }

    private static Map<String, Object> trusting(String listener, String protocol) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", told(listener));
        config.put("security.protocol", protocol);
        config.put("ssl.truststore.type", "PEM");
        config.put("ssl.truststore.location", told("CA"));
        return config;
    }

    private static Map<String, Object> password(String listener, String mechanism, String module, boolean right) {
        Map<String, Object> config = trusting(listener, "SASL_SSL");
        config.put("sasl.mechanism", mechanism);
        config.put("sasl.jaas.config", String.format("%s%s required username=\"%s\" password=\"%s\";", MODULES, module,
                told("USER"), right ? told("PASSWORD") : "wrong"));
        return config;
    }

    private Map<String, Object> scram(boolean right) {
        return password("SAFE", "SCRAM-SHA-512", "scram.ScramLoginModule", right);
    }

    private Map<String, Object> plain(boolean right) {
        return password("SAFE", "PLAIN", "plain.PlainLoginModule", right);
    }

    private Map<String, Object> token(boolean right) throws Exception {
        Map<String, Object> config = trusting("SAFE", "SASL_SSL");
        Path file = env.scratch.resolve(right ? "token" : "wrong-token");
        Files.writeString(file, told(right ? "TOKEN" : "WRONG_TOKEN"));
        String url = file.toUri().toString();
        // The client takes tokens from where the JVM permits it.
        System.setProperty(ALLOWED_URLS, System.getProperty(ALLOWED_URLS, url) + "," + url);
        config.put("sasl.mechanism", "OAUTHBEARER");
        config.put("sasl.jaas.config", MODULES + "oauthbearer.OAuthBearerLoginModule required;");
        config.put("sasl.login.callback.handler.class", MODULES + "oauthbearer.OAuthBearerLoginCallbackHandler");
        config.put("sasl.oauthbearer.jwt.retriever.class", MODULES + "oauthbearer.FileJwtRetriever");
        config.put("sasl.oauthbearer.token.endpoint.url", url);
        return config;
    }

    private Map<String, Object> certificate(boolean right) throws Exception {
        Map<String, Object> config = trusting("MUTUAL", "SSL");
        if (right) {
            config.put("ssl.keystore.type", "PEM");
            config.put("ssl.keystore.certificate.chain", Files.readString(Path.of(told("CERT"))));
            config.put("ssl.keystore.key", Files.readString(Path.of(told("KEY"))));
        }
        return config;
    }

    /** Write, read in a group that commits, have another member go on from there; and be refused. */
    private void secured(Settings settings, Class<? extends AuthenticationException> refusal) throws Exception {
        String topic = env.name("secured");
        String group = env.name("secured");
        for (int round = 0; round < 2; round++) {
            List<String> values = values(round * COUNT, COUNT);
            try (Producer<String, String> producer = env.producer(settings.of(true));
                    Consumer<String, String> consumer = env.consumer(group, settings.of(true))) {
                for (String value : values) {
                    Check.get(producer.send(new ProducerRecord<>(topic, value)));
                }
                consumer.subscribe(List.of(topic));
                List<String> seen = new ArrayList<>();
                readUpTo(COUNT, consumer, seen);
                Check.same(values, seen, "what member " + round + " read");
                consumer.commitSync();
            }
        }
        try (Producer<String, String> refused = env.producer(settings.of(false))) {
            long began = System.nanoTime();
            Check.fails(refusal, () -> refused.partitionsFor(topic));
            Check.that(System.nanoTime() - began < REFUSED_WITHIN.toNanos(), "it is told in time");
        }
    }

    /** Read in groups of both protocols for some lifetimes of a session; nothing is lost or comes twice. */
    private void renewed() throws Exception {
        Map<String, Object> settings = password("BRIEF", "SCRAM-SHA-512", "scram.ScramLoginModule", true);
        Map<String, Object> modern = new HashMap<>(settings);
        modern.put("group.protocol", "consumer");
        String topic = env.name("renewed");
        List<String> first = new ArrayList<>();
        List<String> second = new ArrayList<>();
        try (Producer<String, String> producer = env.producer(settings);
                Consumer<String, String> classic = env.consumer(env.name("renewed"), settings);
                Consumer<String, String> consumer = env.consumer(env.name("renewed"), modern)) {
            List<Future<?>> sent = new ArrayList<>();
            Check.get(producer.send(new ProducerRecord<>(topic, "0")));
            classic.subscribe(List.of(topic));
            consumer.subscribe(List.of(topic));
            long end = System.nanoTime() + Duration.ofMillis(Long.parseLong(told("READING_MS"))).toNanos();
            while (System.nanoTime() < end) {
                sent.add(producer.send(new ProducerRecord<>(topic, Integer.toString(sent.size() + 1))));
                poll(classic, first);
                poll(consumer, second);
                if (sent.size() % 10 == 0) {
                    classic.commitSync();
                    consumer.commitSync();
                }
            }
            for (Future<?> one : sent) {
                Check.get(one);
            }
            List<String> values = values(0, sent.size() + 1);
            readUpTo(values.size(), classic, first);
            readUpTo(values.size(), consumer, second);
            Check.same(values, first, "what the member of the classic group read");
            Check.same(values, second, "what the member of the consumer group read");
        }
    }

    private static List<String> values(int from, int count) {
        return IntStream.range(from, from + count).mapToObj(Integer::toString).toList();
    }

    private static void poll(Consumer<String, String> consumer, List<String> seen) {
        consumer.poll(Duration.ofMillis(20)).forEach(record -> seen.add(record.value()));
    }

    private static void readUpTo(int count, Consumer<String, String> consumer, List<String> seen) throws Exception {
        Check.until(count + " records", () -> {
            poll(consumer, seen);
            return seen.size() >= count;
        });
    }
}
