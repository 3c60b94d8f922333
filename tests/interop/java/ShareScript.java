import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Share consumers of Kafka's Java client that do what the lines of standard input say, in order:
 *
 *   open NAME GROUP TOPIC [KEY=VALUE ...]
 *   poll NAME TIMEOUT-MS             a line "record PARTITION OFFSET DELIVERY-COUNT VALUE" for each
 *   ack NAME TYPE PARTITION OFFSET   accept, release, reject or renew, of the last poll
 *   commit NAME                      waits for the answers; a line "kept" or "refused" for each
 *   close NAME
 *
 * Each ends with a line "ok", or "failed" and the exception's name.
 */
public final class ShareScript {
    private final String bootstrapServers;
    private final Map<String, KafkaShareConsumer<String, String>> consumers = new HashMap<>();
    private final Map<String, Map<String, ConsumerRecord<String, String>>> polled = new HashMap<>();

    private ShareScript(String bootstrapServers) {
        this.bootstrapServers = bootstrapServers;
    }

    public static void main(String[] arguments) throws Exception {
        ShareScript script = new ShareScript(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                script.run(line.split(" "));
                System.out.println("ok");
            } catch (KafkaException | IllegalStateException error) {
                System.out.println("failed " + error.getClass().getSimpleName());
            }
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private void run(String[] words) {
        String name = words[1];
        switch (words[0]) {
            case "open":
                open(name, words);
                break;
            case "poll":
                poll(name, Long.parseLong(words[2]));
                break;
            case "ack":
                consumers.get(name).acknowledge(
                        polled.get(name).get(words[3] + " " + words[4]),
                        AcknowledgeType.valueOf(words[2].toUpperCase()));
                break;
            case "commit":
                commit(name);
                break;
            case "close":
                consumers.remove(name).close(Duration.ofSeconds(10));
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private void open(String name, String[] words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrapServers);
        settings.put("group.id", words[2]);
        settings.put("share.acknowledgement.mode", "explicit");
        for (int index = 4; index < words.length; index++) {
            String[] pair = words[index].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(words[3]));
        consumers.put(name, consumer);
        polled.put(name, new HashMap<>());
    }

    private void poll(String name, long timeoutMs) {
        ConsumerRecords<String, String> records =
                consumers.get(name).poll(Duration.ofMillis(timeoutMs));
        polled.get(name).clear();
        for (ConsumerRecord<String, String> record : records) {
            polled.get(name).put(record.partition() + " " + record.offset(), record);
            System.out.println("record " + record.partition() + " " + record.offset() + " "
                    + record.deliveryCount().orElse((short) -1) + " " + record.value());
        }
    }

    private void commit(String name) {
        Map<TopicIdPartition, Optional<KafkaException>> told = consumers.get(name).commitSync();
        for (Map.Entry<TopicIdPartition, Optional<KafkaException>> each : told.entrySet()) {
            String outcome = each.getValue()
                    .map(error -> "refused " + error.getClass().getSimpleName())
                    .orElse("kept");
            System.out.println(outcome + " " + each.getKey().partition());
        }
    }
}
