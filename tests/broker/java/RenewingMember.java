import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group: BOOTSTRAP GROUP TOPIC. It prints "got", the value and the delivery
 * count of each record. It renews the locks of all its records until a line arrives on its input.
 * Then it accepts them, prints "accepted" and ends.
 */
final class RenewingMember {
    private RenewingMember() {}

    public static void main(String[] args) throws IOException {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("group.id", args[1]);
        config.put("share.acknowledgement.mode", "explicit");
        var text = new StringDeserializer();
        try (var consumer = new KafkaShareConsumer<>(config, text, text)) {
            consumer.subscribe(List.of(args[2]));
            boolean isLast = false;
            int accepted = 0;
            while (!isLast || accepted == 0) {
                isLast = System.in.available() > 0;
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(300))) {
                    System.out.println("got " + each.value() + " " + each.deliveryCount().get());
                    consumer.acknowledge(
                            each, isLast ? AcknowledgeType.ACCEPT : AcknowledgeType.RENEW);
                    accepted += isLast ? 1 : 0;
                }
            }
            for (var error : consumer.commitSync().values()) {
                error.ifPresent(each -> { throw each; });
            }
            System.out.println("accepted");
        }
    }
}
