import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A producer: TOPIC NAME=VALUE ... It reads messages from its input: the partition and the size, 4
 * bytes each, then the value. It writes the report of each to its output: the message's number in
 * the input, from 0 on, and the offset, 8 bytes each. The offset is -1 after an error. The end of
 * the input ends it at once.
 */
final class AckedProducer {
    private final DataOutputStream reports;
    private final KafkaProducer<byte[], byte[]> producer;

    private AckedProducer(Properties config, OutputStream output) {
        reports = new DataOutputStream(new BufferedOutputStream(output));
        var bytes = new ByteArraySerializer();
        producer = new KafkaProducer<>(config, bytes, bytes);
    }

    private synchronized void report(long number, long offset) {
        try {
            reports.writeLong(number);
            reports.writeLong(offset);
            reports.flush();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private void send(long number, String topic, int partition, byte[] value) {
        try {
            producer.send(
                    new ProducerRecord<>(topic, partition, null, value),
                    (metadata, error) -> report(number, error == null ? metadata.offset() : -1));
        } catch (RuntimeException error) {
            System.err.println(error);
            report(number, -1);
        }
    }

    public static void main(String[] args) throws IOException {
        Properties config = new Properties();
        for (int i = 1; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            config.put(pair[0], pair[1]);
        }
        OutputStream output = System.out;
        System.setOut(System.err); // for log lines
        var acked = new AckedProducer(config, output);
        var messages = new DataInputStream(new BufferedInputStream(System.in));
        try {
            for (long number = 0; ; number++) {
                int partition = messages.readInt();
                byte[] value = new byte[messages.readInt()];
                messages.readFully(value);
                acked.send(number, args[0], partition, value);
            }
        } catch (EOFException end) {
            Runtime.getRuntime().halt(0);
        }
    }
}
