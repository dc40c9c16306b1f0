package ottla.tools;

import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Leaves a transaction open for tools to end: BOOTSTRAP TRANSACTIONAL-ID TOPIC. */
public final class OpenTransaction {
    /** Kept, or its end would be told to the broker. */
    private static Producer<String, String> producer;

    private OpenTransaction() {}

    public static void main(String[] args) {
        producer = new KafkaProducer<>(Map.of("bootstrap.servers", args[0], "transactional.id", args[1]),
                new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(args[2], "open"));
        producer.flush();
    }
}
