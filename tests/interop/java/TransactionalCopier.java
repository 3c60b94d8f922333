import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies a topic to another, exactly once: bootstrap, input, output, group, transactional id,
 * records per transaction, pause between transactions in ms, and after how many seconds without a
 * record it ends (two unless told). Made to be killed at any moment; every other transaction or so
 * is aborted on purpose and done again. Tells the input offset after each commit.
 */
public final class TransactionalCopier {
    public static void main(String[] arguments) throws InterruptedException {
        String bootstrap = arguments[0];
        String output = arguments[2];
        int perTransaction = Integer.parseInt(arguments[5]);
        long quietMs = arguments.length > 7 ? 1000 * Long.parseLong(arguments[7]) : 2000;
        Properties written = new Properties();
        written.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        written.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, arguments[4]);
        written.put(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, "10000");
        Properties read = new Properties();
        read.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        read.put(ConsumerConfig.GROUP_ID_CONFIG, arguments[3]);
        read.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        read.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        read.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        read.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, "1500");
        read.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, "300");
        read.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, "" + perTransaction);
        try (KafkaProducer<String, String> producer =
                    new KafkaProducer<>(written, new StringSerializer(), new StringSerializer());
                KafkaConsumer<String, String> consumer =
                    new KafkaConsumer<>(read, new StringDeserializer(), new StringDeserializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(arguments[1]));
            long quietSince = System.currentTimeMillis();
            boolean hasRead = false;
            int round = 0;
            while (!hasRead || System.currentTimeMillis() - quietSince < quietMs) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                hasRead = true;
                quietSince = System.currentTimeMillis();
                round++;
                copy(producer, consumer, records, output, round % 5 == 4);
                Thread.sleep(Long.parseLong(arguments[6]));
            }
            System.out.println("done");
        }
    }

    private static void copy(
            KafkaProducer<String, String> producer,
            KafkaConsumer<String, String> consumer,
            ConsumerRecords<String, String> records,
            String output,
            boolean isAborted) {
        try {
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<String, String> record : records) {
                producer.send(new ProducerRecord<>(output, record.partition(), null, record.value()));
                offsets.put(
                    new TopicPartition(record.topic(), record.partition()),
                    new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            if (isAborted) {
                producer.flush();
                throw new KafkaException("aborted on purpose");
            }
            producer.commitTransaction();
            offsets.values().forEach(offset -> System.out.println(offset.offset()));
            System.out.flush();
        } catch (ProducerFencedException fenced) {
            throw fenced;
        } catch (KafkaException error) {
            producer.abortTransaction();
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
            for (TopicPartition partition : consumer.assignment()) {
                OffsetAndMetadata last = committed.get(partition);
                consumer.seek(partition, last == null ? 0 : last.offset());
            }
        }
    }
}
