// What Java's assignors decide, for tests/control/test_assignors_java.py.
//
//   java -cp DEPENDENCIES Assignors.java < CASES
//
// A case is some lines, fields separated by tabs, an empty field for "none":
//   case ASSIGNOR
//   topic NAME RACKS...              racks of a partition separated by commas, one field a partition
//   member ID INSTANCE RACK TOPICS GENERATION OWNED USERDATA
//                                    topics by commas, owned as topic:number by commas, user data in hexadecimal
//   end
// Prints a line for each member, "ID<tab>topic:number,...", then "end".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

public class Assignors {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        StringBuilder out = new StringBuilder();
        ConsumerPartitionAssignor assignor = null;
        List<PartitionInfo> partitions = new ArrayList<>();
        Map<String, Subscription> members = new LinkedHashMap<>();
        Map<String, Node> nodes = new TreeMap<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\t", -1);
            switch (fields[0]) {
                case "case":
                    assignor = assignor(fields[1]);
                    partitions.clear();
                    members.clear();
                    break;
                case "topic":
                    for (int i = 2; i < fields.length; i++)
                        partitions.add(partition(fields[1], i - 2, fields[i], nodes));
                    break;
                case "member":
                    members.put(fields[1], member(fields));
                    break;
                case "end":
                    Set<String> none = new HashSet<>();
                    Cluster cluster = new Cluster("c", nodes.values(), partitions, none, none);
                    Map<String, Assignment> found = new TreeMap<>(
                        assignor.assign(cluster, new GroupSubscription(members)).groupAssignment());
                    found.forEach((id, assignment) -> {
                        List<String> names = new ArrayList<>();
                        for (TopicPartition each : assignment.partitions())
                            names.add(each.topic() + ":" + each.partition());
                        out.append(id).append('\t').append(String.join(",", names)).append('\n');
                    });
                    out.append("end\n");
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
        }
        System.out.write(out.toString().getBytes("UTF-8"));
        System.out.flush();
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    private static PartitionInfo partition(String topic, int number, String racks, Map<String, Node> nodes) {
        List<Node> replicas = new ArrayList<>();
        for (String rack : racks.isEmpty() ? new String[] {""} : racks.split(","))
            replicas.add(nodes.computeIfAbsent(
                rack, r -> new Node(nodes.size(), "h", 1, r.isEmpty() ? null : r)));
        Node[] all = replicas.toArray(new Node[0]);
        return new PartitionInfo(topic, number, all[0], all, all);
    }

    private static Subscription member(String[] f) {
        List<String> topics = f[4].isEmpty() ? new ArrayList<>() : Arrays.asList(f[4].split(","));
        List<TopicPartition> owned = new ArrayList<>();
        for (String each : f[6].isEmpty() ? new String[0] : f[6].split(","))
            owned.add(new TopicPartition(each.split(":")[0], Integer.parseInt(each.split(":")[1])));
        byte[] data = new byte[f[7].length() / 2];
        for (int i = 0; i < data.length; i++) data[i] = (byte) Integer.parseInt(f[7].substring(2 * i, 2 * i + 2), 16);
        ByteBuffer userData = f[7].isEmpty() ? null : ByteBuffer.wrap(data);
        Optional<String> rack = f[3].isEmpty() ? Optional.empty() : Optional.of(f[3]);
        Subscription made = new Subscription(topics, userData, owned, Integer.parseInt(f[5]), rack);
        made.setGroupInstanceId(f[2].isEmpty() ? Optional.empty() : Optional.of(f[2]));
        return made;
    }
}
