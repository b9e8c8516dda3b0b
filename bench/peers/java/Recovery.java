import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.FileWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer or a consumer of bench/recovery with Apache Kafka's own client and its default
 * settings. Its standard input is a line of settings; it ends with the next line.
 */
public final class Recovery {
    private static final Duration POLL = Duration.ofMillis(20);
    private static final Duration CLOSE = Duration.ofSeconds(5);

    private final JsonNode settings;
    private final String topic;
    private final Writer log;
    private volatile boolean ended;

    private Recovery(JsonNode settings) throws IOException {
        this.settings = settings;
        topic = settings.get("topic").asText();
        log = new FileWriter(settings.get("output").asText(), StandardCharsets.US_ASCII, true);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Recovery program = new Recovery(new ObjectMapper().readTree(input.readLine()));
        Thread reader = new Thread(() -> program.waitForTheEnd(input));
        reader.setDaemon(true);
        reader.start();
        if (program.settings.get("role").asText().equals("produce")) {
            program.produce();
        } else {
            program.consume();
        }
    }

    private void waitForTheEnd(BufferedReader input) {
        try {
            input.readLine();
        } catch (IOException error) {
            System.err.println(error);
        }
        ended = true;
    }

    /** Write a line of the log. System.nanoTime() is the monotonic clock of the machine. */
    private synchronized void write(String kind, int partition, long begin, String text) {
        String more = text.isEmpty() ? "" : " " + text.replace('\n', ' ').replaceAll("[^ -~]", "?");
        try {
            log.write(kind + " " + partition + " " + begin + " " + System.nanoTime() + more + "\n");
            log.flush();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private void produce() throws InterruptedException {
        Map<String, Object> conf =
            Map.of("bootstrap.servers", settings.get("servers").asText(), "acks", "all");
        int partitions = settings.get("partitions").asInt();
        long everyNs = settings.get("every_ms").asLong() * 1_000_000;
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(conf, new StringSerializer(), new StringSerializer());
        long nextAt = System.nanoTime();
        while (!ended) {
            for (int number = 0; number < partitions; number++) {
                int partition = number;
                long begin = System.nanoTime();
                producer.send(
                    new ProducerRecord<>(topic, partition, null, Long.toString(begin)),
                    (metadata, error) ->
                        write(error == null ? "a" : "f", partition, begin, error == null ? "" : error.toString()));
            }
            nextAt += everyNs;
            long leftNs = nextAt - System.nanoTime();
            if (leftNs > 0) {
                Thread.sleep(leftNs / 1_000_000, (int) (leftNs % 1_000_000));
            }
        }
        producer.close(CLOSE);
    }

    private void consume() {
        Map<String, Object> conf = Map.of(
            "bootstrap.servers", settings.get("servers").asText(),
            "group.id", settings.get("group").asText(),
            "auto.offset.reset", "latest",
            "enable.auto.commit", false);
        boolean commits = settings.get("commits").asBoolean();
        long everyNs = settings.get("commit_every_ms").asLong() * 1_000_000;
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(conf, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long commitAt = System.nanoTime();
            while (!ended) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    write("m", record.partition(), Long.parseLong(record.value()), "");
                }
                if (commits && System.nanoTime() - commitAt >= 0) {
                    commit(consumer);
                    commitAt = System.nanoTime() + everyNs;
                }
            }
        }
    }

    private void commit(KafkaConsumer<String, String> consumer) {
        long begin = System.nanoTime();
        try {
            consumer.commitSync();
            write("c", -1, begin, "");
        } catch (KafkaException error) {
            write("x", -1, begin, error.toString());
        }
    }
}
