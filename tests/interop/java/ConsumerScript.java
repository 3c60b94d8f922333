import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Members of groups, of Kafka's Java client, that do what the lines of standard input say. Each
 * polls on a thread of its own from "open" to "close":
 *
 *   open NAME GROUP SUBSCRIPTION [KEY=VALUE ...]   topics with commas, or ^ and a pattern that the
 *                                                  broker resolves (SubscriptionPattern)
 *   show NAME     a line "held T:P,T:P GENERATION ERROR", "-" where there is nothing
 *   told NAME     a line "assigned|revoked|lost T:P,T:P" for each callback since it was last asked
 *   values NAME   a line "value V" for each record since it was last asked
 *   doubled       a line for each partition that was assigned while another member of its group
 *                 had not let it go
 *   close NAME    as a client closes: commits, and leaves if it is no static member
 *
 * Each ends with a line "ok", or "failed" and the exception's name.
 */
public final class ConsumerScript {
    private static final List<Member> ALL = new ArrayList<>();
    private static final List<String> DOUBLED = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        Map<String, Member> members = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                run(arguments[0], members, line.split(" "));
                System.out.println("ok");
            } catch (RuntimeException error) {
                System.out.println("failed " + error.getClass().getSimpleName());
            }
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(String servers, Map<String, Member> members, String[] words)
            throws InterruptedException {
        switch (words[0]) {
            case "open":
                Member opened = new Member(servers, words);
                synchronized (ALL) {
                    ALL.add(opened);
                }
                members.put(words[1], opened);
                opened.start();
                break;
            case "show":
                System.out.println(members.get(words[1]).show());
                break;
            case "told":
                members.get(words[1]).tell();
                break;
            case "values":
                members.get(words[1]).tellValues();
                break;
            case "doubled":
                synchronized (ALL) {
                    DOUBLED.forEach(System.out::println);
                }
                break;
            case "close":
                Member closed = members.remove(words[1]);
                closed.isOver = true;
                closed.join();
                synchronized (ALL) {
                    ALL.remove(closed);
                }
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String named(Collection<TopicPartition> parts) {
        String text = parts.stream()
                .map(part -> part.topic() + ":" + part.partition())
                .sorted()
                .collect(Collectors.joining(","));
        return text.isEmpty() ? "-" : text;
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final KafkaConsumer<String, String> consumer;
        private final String name;
        private final String group;
        private final TreeSet<String> held = new TreeSet<>();
        private final List<String> told = new ArrayList<>();
        private final List<String> values = new ArrayList<>();
        private int generation = -1;
        private String error = "-";
        volatile boolean isOver;

        Member(String servers, String[] words) {
            name = words[1];
            group = words[2];
            Properties settings = new Properties();
            settings.put("bootstrap.servers", servers);
            settings.put("group.id", group);
            settings.put("auto.offset.reset", "earliest");
            settings.put("auto.commit.interval.ms", "200");
            settings.put("fetch.max.wait.ms", "100");
            for (int index = 4; index < words.length; index++) {
                String[] pair = words[index].split("=", 2);
                settings.put(pair[0], pair[1]);
            }
            consumer = new KafkaConsumer<>(
                    settings, new StringDeserializer(), new StringDeserializer());
            if (words[3].startsWith("^")) {
                consumer.subscribe(new SubscriptionPattern(words[3]), this);
            } else {
                consumer.subscribe(List.of(words[3].split(",")), this);
            }
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                while (!isOver) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(50))) {
                        synchronized (ALL) {
                            values.add(record.value());
                        }
                    }
                    synchronized (ALL) {
                        generation = consumer.groupMetadata().generationId();
                    }
                }
            } catch (RuntimeException failed) {
                synchronized (ALL) {
                    error = failed.getClass().getSimpleName();
                }
            }
            try {
                consumer.close();
            } catch (RuntimeException failed) {
                synchronized (ALL) {
                    error = failed.getClass().getSimpleName();
                }
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> parts) {
            synchronized (ALL) {
                for (TopicPartition part : parts) {
                    String where = named(List.of(part));
                    for (Member other : ALL) {
                        if (other != this && other.group.equals(group) && other.held.contains(where)) {
                            DOUBLED.add(where + " of " + other.name + " went to " + name);
                        }
                    }
                    held.add(where);
                }
                generation = consumer.groupMetadata().generationId();
                told.add("assigned " + named(parts));
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> parts) {
            letGo("revoked ", parts);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> parts) {
            letGo("lost ", parts);
        }

        private void letGo(String how, Collection<TopicPartition> parts) {
            synchronized (ALL) {
                parts.forEach(part -> held.remove(named(List.of(part))));
                told.add(how + named(parts));
            }
        }

        String show() {
            synchronized (ALL) {
                String parts = held.isEmpty() ? "-" : String.join(",", held);
                return "held " + parts + " " + generation + " " + error;
            }
        }

        void tell() {
            synchronized (ALL) {
                told.forEach(System.out::println);
                told.clear();
            }
        }

        void tellValues() {
            synchronized (ALL) {
                values.forEach(value -> System.out.println("value " + value));
                values.clear();
            }
        }
    }
}
