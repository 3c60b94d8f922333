import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A transactional producer of Kafka's Java client that does what its arguments say, in order:
 *
 *   bootstrap transactional-id timeout-ms
 *   init | begin | commit | abort | flush
 *   send:TOPIC:PARTITION:VALUE      waits for the acknowledgement, tells the offset
 *   offsets:GROUP:TOPIC:PARTITION:OFFSET
 *   other:init                      a second producer with the same id takes over
 *   leave                           ends without closing anything properly
 *
 * Tells a line for each: the word and its result, or "refused" and the exception's name.
 */
public final class TransactionScript {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, arguments[1]);
        settings.put(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, arguments[2]);
        settings.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, "20000");
        settings.put(ProducerConfig.LINGER_MS_CONFIG, "0");
        try (KafkaProducer<String, String> producer = made(settings);
                KafkaProducer<String, String> other = made(settings)) {
            for (int index = 3; index < arguments.length; index++) {
                String word = arguments[index];
                if (word.equals("leave")) {
                    Runtime.getRuntime().halt(0);
                }
                try {
                    System.out.println(word + " " + run(producer, other, word));
                } catch (Exception error) {
                    Throwable cause = error.getCause() == null ? error : error.getCause();
                    System.out.println(word + " refused " + cause.getClass().getSimpleName());
                }
            }
        }
    }

    private static KafkaProducer<String, String> made(Properties settings) {
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static String run(
            KafkaProducer<String, String> producer,
            KafkaProducer<String, String> other,
            String word) throws Exception {
        String[] parts = word.split(":");
        switch (parts[0]) {
            case "init":
                producer.initTransactions();
                return "ok";
            case "begin":
                producer.beginTransaction();
                return "ok";
            case "commit":
                producer.commitTransaction();
                return "ok";
            case "abort":
                producer.abortTransaction();
                return "ok";
            case "flush":
                producer.flush();
                return "ok";
            case "send":
                int partition = Integer.parseInt(parts[2]);
                return "" + producer
                    .send(new ProducerRecord<>(parts[1], partition, null, parts[3]))
                    .get()
                    .offset();
            case "offsets":
                TopicPartition where = new TopicPartition(parts[2], Integer.parseInt(parts[3]));
                producer.sendOffsetsToTransaction(
                    Map.of(where, new OffsetAndMetadata(Long.parseLong(parts[4]))),
                    new ConsumerGroupMetadata(parts[1]));
                return "ok";
            case "other":
                other.initTransactions();
                return "ok";
            default:
                throw new IllegalArgumentException(word);
        }
    }
}
