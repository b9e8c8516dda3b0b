// Record batches by the Java client, for tests/golden/test_golden.py.
//
//   java -cp DEPENDENCIES Golden.java write DIRECTORY   writes NAME.bin files
//   java -cp DEPENDENCIES Golden.java read FILE...      prints, as JSON, what the Java client reads in each file
//
// The description of a golden file is what Java reads back, so that nothing in it comes from this project.

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;

public class Golden {
    private static final long TIME = 1_700_000_000_000L;

    public static void main(String[] args) throws IOException {
        if (args[0].equals("write")) {
            for (Map.Entry<String, MemoryRecords> entry : golden().entrySet())
                write(Path.of(args[1], entry.getKey() + ".bin"), entry.getValue());
            return;
        }
        List<String> described = new ArrayList<>();
        for (int i = 1; i < args.length; i++) {
            Path path = Path.of(args[i]);
            described.add(text(path.getFileName().toString()) + ": " + describe(Files.readAllBytes(path)));
        }
        System.out.println("{\n" + String.join(",\n", described) + "\n}");
    }

    private static Map<String, MemoryRecords> golden() {
        Map<String, MemoryRecords> made = new TreeMap<>();
        for (CompressionType type : CompressionType.values()) {
            Compression codec = Compression.of(type).build();
            made.put("v2-" + type.name, MemoryRecords.withRecords(1000L, codec, 7, records(true)));
            if (type != CompressionType.NONE) made.put("v2-" + type.name + "-large", large((byte) 2, codec));
            if (type == CompressionType.ZSTD) continue; // the old formats never had it
            for (byte magic = 0; magic <= 1; magic++) {
                made.put("v" + magic + "-" + type.name, legacy(magic, codec, TimestampType.CREATE_TIME));
                if (type != CompressionType.NONE) made.put("v" + magic + "-" + type.name + "-large", large(magic, codec));
            }
            made.put("v1-" + type.name + "-log-append", legacy((byte) 1, codec, TimestampType.LOG_APPEND_TIME));
        }
        made.put("v2-idempotent", MemoryRecords.withIdempotentRecords(5L, Compression.NONE, 4711L, (short) 3, 99, 1, records(true)));
        made.put("v2-transactional", MemoryRecords.withTransactionalRecords(5L, Compression.NONE, 4711L, (short) 3, 99, 1, records(true)));
        made.put("v2-commit", marker(ControlRecordType.COMMIT));
        made.put("v2-abort", marker(ControlRecordType.ABORT));
        made.put("v2-log-append", logAppend());
        made.put("v2-gap-in-offsets", gap());
        return made;
    }

    private static SimpleRecord[] records(boolean headers) {
        Header[] some = {new RecordHeader("trace", bytes("abc")), new RecordHeader("null", (byte[]) null), new RecordHeader("", new byte[0])};
        return new SimpleRecord[] {
            new SimpleRecord(TIME, bytes("key"), bytes("value"), headers ? some : new Header[0]),
            new SimpleRecord(TIME - 5, null, bytes("earlier, without a key")),
            new SimpleRecord(TIME + 70_000, bytes("deleted"), null),
            new SimpleRecord(TIME, new byte[0], new byte[0]),
            new SimpleRecord(TIME + 1, bytes("k"), new byte[300]),
        };
    }

    private static MemoryRecords large(byte magic, Compression codec) {
        ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
        TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
        MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, magic, codec, type, 50L);
        for (int i = 0; i < 24; i++) { // 160 KB: several blocks of the framings
            long time = magic == 0 ? RecordBatch.NO_TIMESTAMP : TIME + i;
            builder.append(time, bytes("key-" + i % 7), bytes(("value " + i + ' ').repeat(800)));
        }
        return builder.build();
    }

    private static MemoryRecords legacy(byte magic, Compression codec, TimestampType type) {
        ByteBuffer buffer = ByteBuffer.allocate(4096);
        TimestampType used = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : type;
        MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, magic, codec, used, 1000L, TIME + 5);
        for (SimpleRecord record : records(false))
            builder.append(magic == 0 ? RecordBatch.NO_TIMESTAMP : record.timestamp(), record.key(), record.value());
        return builder.build();
    }

    private static MemoryRecords marker(ControlRecordType type) {
        return MemoryRecords.withEndTransactionMarker(77L, TIME, 4, 4711L, (short) 3, new EndTransactionMarker(type, 12));
    }

    private static MemoryRecords logAppend() {
        MemoryRecords made = MemoryRecords.withRecords(9L, Compression.NONE, 7, records(false));
        for (MutableRecordBatch batch : made.batches()) batch.setMaxTimestamp(TimestampType.LOG_APPEND_TIME, TIME + 123);
        return made;
    }

    private static MemoryRecords gap() { // as compaction leaves it
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(4096), Compression.NONE, TimestampType.CREATE_TIME, 100L);
        builder.appendWithOffset(100L, TIME, bytes("a"), bytes("1"));
        builder.appendWithOffset(117L, TIME, bytes("b"), bytes("2"));
        builder.appendWithOffset(4000L, TIME, bytes("c"), bytes("3"));
        builder.overrideLastOffset(5000L);
        return builder.build();
    }

    private static void write(Path path, MemoryRecords records) throws IOException {
        byte[] data = new byte[records.sizeInBytes()];
        records.buffer().duplicate().get(data);
        Files.write(path, data);
    }

    private static String describe(byte[] data) {
        List<String> batches = new ArrayList<>();
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
            batch.ensureValid();
            List<String> records = new ArrayList<>();
            for (Record record : batch) records.add("    " + describe(record, batch));
            batches.add(" {\"magic\": " + batch.magic() + ", \"base_offset\": " + batch.baseOffset() + ", \"last_offset\": " + batch.lastOffset()
                + ", \"codec\": " + text(batch.compressionType().name) + ", \"timestamp_type\": " + batch.timestampType().id
                + ", \"max_timestamp\": " + batch.maxTimestamp() + ", \"producer_id\": " + batch.producerId() + ", \"producer_epoch\": "
                + batch.producerEpoch() + ", \"base_sequence\": " + batch.baseSequence() + ", \"partition_leader_epoch\": "
                + batch.partitionLeaderEpoch() + ", \"is_transactional\": " + batch.isTransactional() + ", \"is_control\": "
                + batch.isControlBatch() + ", \"size_bytes\": " + batch.sizeInBytes() + ", \"records\": [\n" + String.join(",\n", records) + "]}");
        }
        return "[\n" + String.join(",\n", batches) + "]";
    }

    private static String describe(Record record, RecordBatch batch) {
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers())
            headers.add("[" + text(header.key()) + ", " + hex(header.value() == null ? null : ByteBuffer.wrap(header.value())) + "]");
        return "[" + record.offset() + ", " + record.timestamp() + ", " + hex(record.key()) + ", " + hex(record.value()) + ", ["
            + String.join(", ", headers) + "]]";
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(String text) {
        return '"' + text + '"';
    }

    private static String sha256(ByteBuffer data) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update(data.duplicate());
            return hex(ByteBuffer.wrap(digest.digest())).replace("\"", "");
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    private static String hex(ByteBuffer data) {
        if (data == null) return "null";
        if (data.remaining() > 1000) return text("sha256 " + sha256(data));
        StringBuilder made = new StringBuilder("\"");
        for (ByteBuffer rest = data.duplicate(); rest.hasRemaining(); ) made.append(String.format("%02x", rest.get()));
        return made.append('"').toString();
    }
}
