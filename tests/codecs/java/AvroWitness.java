import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/**
 * Reads Avro records and writes them again. Each line of the input is JSON: the writer's and the
 * reader's schema, and records in hexadecimal digits. Each line of the output has a list for them:
 * null if Java can't read the record with these schemas, else the record as the reader's schema
 * writes it, with whole arrays and maps, and with arrays and maps in small blocks.
 */
final class AvroWitness {
    private static final int BLOCK_BYTES = 64;
    private static final ObjectMapper JSON = new ObjectMapper();

    private AvroWitness() {}

    public static void main(String[] args) throws IOException {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        String line;
        while ((line = input.readLine()) != null) {
            JsonNode asked = JSON.readTree(line);
            Schema writer = parsed(asked.get("writer")), reader = parsed(asked.get("reader"));
            ArrayNode answers = JSON.createArrayNode();
            for (JsonNode record : asked.get("records")) {
                answers.add(answer(HexFormat.of().parseHex(record.asText()), writer, reader));
            }
            output.println(JSON.writeValueAsString(answers));
        }
    }

    private static Schema parsed(JsonNode schema) {
        return new Schema.Parser(NameValidator.STRICT_VALIDATOR).parse(schema.toString());
    }

    private static JsonNode answer(byte[] record, Schema writer, Schema reader) throws IOException {
        Object value;
        try {
            var decoder = DecoderFactory.get().binaryDecoder(record, null);
            value = new GenericDatumReader<Object>(writer, reader).read(null, decoder);
        } catch (AvroRuntimeException | IOException error) {
            return JSON.nullNode();
        }
        ObjectNode made = JSON.createObjectNode();
        made.put("whole", written(value, reader, false));
        made.put("blocks", written(value, reader, true));
        return made;
    }

    private static String written(Object value, Schema schema, boolean inBlocks) throws IOException {
        var bytes = new ByteArrayOutputStream();
        var factory = new EncoderFactory().configureBlockSize(BLOCK_BYTES);
        BinaryEncoder encoder = inBlocks
                ? factory.blockingBinaryEncoder(bytes, null)
                : factory.binaryEncoder(bytes, null);
        new GenericDatumWriter<Object>(schema).write(value, encoder);
        encoder.flush();
        return HexFormat.of().formatHex(bytes.toByteArray());
    }
}
