import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A program that runs scenarios of bench/ with Apache Kafka's own client. The task is JSON on stdin,
 * the figures are JSON on stdout. Java compiles hot code while it runs, so long scenarios do a part
 * of their work once before the clock starts.
 */
public final class Bench {
    private static final int STEP = 10_000;
    private static final int WARM_UP = 300_000;
    private static final int SHORT_WARM_UP = 2_000; // for scenarios that measure each message
    private static final Duration WAIT = Duration.ofSeconds(30);
    private static final OperatingSystemMXBean SYSTEM =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final JsonNode task;
    private final String topic;
    private final int count;
    private final List<byte[]> values = new ArrayList<>();
    private final Map<String, Object> figures = new LinkedHashMap<>();
    private long cpu;
    private long started;

    private Bench(JsonNode task) throws Exception {
        this.task = task;
        topic = task.get("topic").asText();
        count = task.get("count").asInt();
        for (JsonNode value : task.get("values")) {
            values.add(value.asText().getBytes("UTF-8"));
        }
    }

    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        Bench bench = new Bench(json.readTree(System.in));
        bench.run();
        System.out.println(json.writeValueAsString(bench.figures));
    }

    private void run() throws Exception {
        String scenario = task.get("scenario").asText();
        switch (scenario) {
            case "produce" -> produce(false);
            case "callback" -> produce(true);
            case "latency" -> latency();
            case "round_trip" -> roundTrip();
            case "consume" -> consume(byHand(STEP));
            case "poll" -> consume(byHand(1));
            case "group" -> consume(inGroup(0));
            case "cold" -> cold();
            case "end_to_end" -> endToEnd();
            case "transaction" -> transaction();
            default -> throw new IllegalArgumentException("no scenario " + scenario);
        }
    }

    private void start() {
        cpu = SYSTEM.getProcessCpuTime();
        started = System.nanoTime();
    }

    private void stop(int done) {
        figures.put("count", done);
        figures.put("seconds", (System.nanoTime() - started) / 1e9);
        figures.put("cpu_seconds", (SYSTEM.getProcessCpuTime() - cpu) / 1e9);
    }

    private static Map<String, Double> percentiles(double[] times) {
        double[] ordered = times.clone();
        Arrays.sort(ordered);
        Map<String, Double> found = new LinkedHashMap<>();
        for (Map.Entry<String, Double> each
                : Map.of("p50", 0.5, "p99", 0.99, "p99.9", 0.999).entrySet()) {
            int at = Math.min(ordered.length - 1, (int) (ordered.length * each.getValue()));
            found.put(each.getKey(), ordered[at]);
        }
        return found;
    }

    private static double millisSince(long nanos) {
        return (System.nanoTime() - nanos) / 1e6;
    }

    /** The properties of the connection. */
    private Map<String, Object> servers() {
        String tls = task.get("tls").asText();
        Map<String, Object> conf = new HashMap<>();
        conf.put("bootstrap.servers", tls.isEmpty() ? task.get("bootstrap").asText() : tls);
        if (!tls.isEmpty()) {
            conf.put("security.protocol", "SSL");
            conf.put("ssl.truststore.type", "PEM");
            conf.put("ssl.truststore.location", task.get("ca").asText());
        }
        return conf;
    }

    /** How many messages run before the clock starts: none if the whole process is measured. */
    private int warmUp() {
        return task.get("whole").asBoolean() ? 0 : Math.min(WARM_UP, count);
    }

    /** How many messages a steady sender sends first: up to two seconds of them. */
    private int steadyWarmUp() {
        return Math.min(SHORT_WARM_UP, 2 * task.get("rate").asInt());
    }

    private Producer<byte[], byte[]> producer(Map<String, Object> changes) {
        Map<String, Object> conf = servers();
        boolean idempotent = task.get("idempotent").asBoolean();
        conf.put("acks", idempotent ? "all" : task.get("acks").asText());
        conf.put("enable.idempotence", idempotent);
        conf.put("compression.type", task.get("codec").asText());
        conf.put("linger.ms", 5);
        conf.put("batch.size", 262_144);
        conf.put("buffer.memory", 256L * 1024 * 1024);
        conf.putAll(changes);
        return new KafkaProducer<>(conf, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private void produce(boolean report) throws Exception {
        AtomicLong delivered = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        Callback callback = (metadata, error) -> {
            if (error != null) {
                failed.incrementAndGet();
            } else if (report) {
                delivered.incrementAndGet();
            }
        };
        try (Producer<byte[], byte[]> producer = producer(Map.of())) {
            sendAll(producer, warmUp(), callback);
            delivered.set(0);
            start();
            sendAll(producer, count, callback);
            stop(count);
        }
        if (failed.get() > 0 || (report && delivered.get() != count)) {
            throw new IllegalStateException(
                failed + " messages failed, " + delivered + " of " + count + " were reported");
        }
    }

    private void sendAll(Producer<byte[], byte[]> producer, int wanted, Callback callback)
            throws InterruptedException {
        int threads = task.get("threads").asInt();
        List<Thread> others = new ArrayList<>();
        for (int part = 1; part < threads; part++) {
            Thread thread = new Thread(() -> sendPart(producer, wanted / threads, callback));
            thread.start();
            others.add(thread);
        }
        sendPart(producer, wanted - wanted / threads * (threads - 1), callback);
        for (Thread thread : others) {
            thread.join();
        }
        producer.flush();
    }

    private void sendPart(Producer<byte[], byte[]> producer, int wanted, Callback callback) {
        for (int number = 0; number < wanted; number++) {
            byte[] value = values.get(number % values.size());
            producer.send(new ProducerRecord<>(topic, value), callback);
        }
    }

    private void latency() throws Exception {
        byte[] value = new byte[task.get("size").asInt()];
        double[] times = new double[count];
        try (Producer<byte[], byte[]> producer = producer(Map.of("linger.ms", 0))) {
            for (int number = -SHORT_WARM_UP; number < count; number++) {
                if (number == 0) {
                    start();
                }
                long began = System.nanoTime();
                producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
                if (number >= 0) {
                    times[number] = millisSince(began);
                }
            }
            stop(count);
        }
        figures.put("percentiles", percentiles(times));
    }

    private void roundTrip() throws Exception {
        int warmUp = steadyWarmUp();
        int wanted = count + warmUp;
        long pause = 1_000_000_000L / task.get("rate").asLong();
        byte[] value = new byte[task.get("size").asInt()];
        double[] times = new double[wanted];
        AtomicLong failed = new AtomicLong();
        try (Producer<byte[], byte[]> producer = producer(Map.of("linger.ms", 0))) {
            producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
            start();
            long next = System.nanoTime();
            for (int sent = 0; sent < wanted; sent++) {
                LockSupport.parkNanos(next - System.nanoTime());
                next += pause;
                int number = sent;
                long began = System.nanoTime();
                producer.send(new ProducerRecord<>(topic, 0, null, value), (metadata, error) -> {
                    times[number] = millisSince(began);
                    if (error != null) {
                        failed.incrementAndGet();
                    }
                });
            }
            producer.flush();
            stop(wanted);
        }
        if (failed.get() > 0) {
            throw new IllegalStateException(failed + " messages failed");
        }
        figures.put("percentiles", percentiles(Arrays.copyOfRange(times, warmUp, wanted)));
    }

    private Consumer<byte[], byte[]> consumer(int records, Map<String, Object> changes) {
        Map<String, Object> conf = servers();
        conf.put("auto.offset.reset", "earliest");
        conf.put("max.poll.records", records);
        conf.put("max.partition.fetch.bytes", 8 * 1024 * 1024);
        conf.putAll(changes);
        return new KafkaConsumer<>(conf, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private Consumer<byte[], byte[]> byHand(int records) {
        Consumer<byte[], byte[]> consumer = consumer(records, Map.of("enable.auto.commit", false));
        List<TopicPartition> partitions = new ArrayList<>();
        for (int number = 0; number < task.get("partitions").asInt(); number++) {
            partitions.add(new TopicPartition(topic, number));
        }
        consumer.assign(partitions);
        return consumer;
    }

    private Consumer<byte[], byte[]> inGroup(int number) {
        String group = topic + "-java-" + number;
        String protocol = task.get("protocol").asText();
        Consumer<byte[], byte[]> consumer =
            consumer(STEP, Map.of("group.id", group, "group.protocol", protocol));
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    private void consume(Consumer<byte[], byte[]> consumer) {
        try (consumer) {
            if (warmUp() > 0) {
                take(consumer, warmUp());
                consumer.seekToBeginning(consumer.assignment());
            }
            int first = take(consumer, 1);
            start();
            stop(take(consumer, count - first));
        }
    }

    private int take(Consumer<byte[], byte[]> consumer, int wanted) {
        int taken = 0;
        long bytes = 0;
        while (taken < wanted) {
            var records = consumer.poll(WAIT);
            if (records.isEmpty()) {
                throw new IllegalStateException("only " + taken + " of " + wanted + " came");
            }
            for (ConsumerRecord<byte[], byte[]> record : records) {
                bytes += record.value().length;
            }
            taken += records.count();
        }
        if (bytes == 0) {
            throw new IllegalStateException("empty messages");
        }
        return taken;
    }

    private void cold() throws Exception {
        try (Producer<byte[], byte[]> producer = producer(Map.of())) {
            producer.send(new ProducerRecord<>(topic, values.get(0))).get();
        }
        int starts = task.get("starts").asInt();
        double[] times = new double[starts];
        take(inGroup(-1), 1); // loads the classes
        start();
        for (int number = 0; number < starts; number++) {
            long began = System.nanoTime();
            try (Consumer<byte[], byte[]> consumer = inGroup(number)) {
                take(consumer, 1);
                times[number] = millisSince(began);
            }
        }
        stop(starts);
        Arrays.sort(times);
        figures.put("more", Map.of("first ms", times[starts / 2]));
    }

    private void endToEnd() throws Exception {
        int warmUp = steadyWarmUp();
        int wanted = count + warmUp;
        int size = Math.max(task.get("size").asInt(), Long.BYTES);
        long pause = 1_000_000_000L / task.get("rate").asLong();
        double[] times = new double[wanted];
        int taken = 0;
        try (Producer<byte[], byte[]> producer = producer(Map.of("linger.ms", 0));
                Consumer<byte[], byte[]> consumer = byHand(STEP)) {
            producer.send(new ProducerRecord<>(topic, 0, null, new byte[size])).get();
            take(consumer, 1);
            Thread sender = new Thread(() -> {
                long next = System.nanoTime();
                for (int sent = 0; sent < wanted; sent++) {
                    LockSupport.parkNanos(next - System.nanoTime());
                    next += pause;
                    byte[] value =
                        ByteBuffer.allocate(size).putLong(System.nanoTime()).array();
                    producer.send(new ProducerRecord<>(topic, 0, null, value));
                }
            });
            start();
            sender.start();
            while (taken < wanted) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(WAIT)) {
                    times[taken++] = millisSince(ByteBuffer.wrap(record.value()).getLong());
                }
            }
            stop(wanted);
        }
        figures.put("percentiles", percentiles(Arrays.copyOfRange(times, warmUp, wanted)));
    }

    private void transaction() {
        byte[] value = new byte[task.get("size").asInt()];
        double[] times = new double[count];
        double[] empty = new double[count];
        Map<String, Object> conf =
            Map.of("transactional.id", topic, "acks", "all", "enable.idempotence", true, "linger.ms", 0);
        try (Producer<byte[], byte[]> producer = producer(conf)) {
            producer.initTransactions();
            for (int number = -SHORT_WARM_UP; number < count; number++) {
                if (number == 0) {
                    start();
                }
                long began = System.nanoTime();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, value));
                producer.commitTransaction();
                if (number >= 0) {
                    times[number] = millisSince(began);
                }
            }
            stop(count);
            for (int number = 0; number < count; number++) {
                long began = System.nanoTime();
                producer.beginTransaction();
                producer.commitTransaction();
                empty[number] = millisSince(began);
            }
        }
        figures.put("percentiles", percentiles(times));
        figures.put("more", Map.of("empty p50 ms", percentiles(empty).get("p50")));
    }
}
