/* Foreign columns (codecs/import.c). The target builds a column from the input, in blocks of exactly
 * the size that its counts promise. It makes one value wrong, and then binds, checks and reads the
 * column. The size of a plain buffer is always right, because the C data interface doesn't have it.
 */
#include "fuzz.h"

#include <string.h>

#include "codecs/import.h"

#define ROWS_MAX 40
#define OFFSET_MAX 9
#define DATA_MAX 4096 /* an input that promises more is skipped */
#define NODES_MAX 8
#define BLOCKS_MAX 64

struct node {
    struct ArrowSchema schema, *schemas[2];
    struct ArrowArray array, *arrays[2];
    const void *buffers[8];
    char format[8];
};

static struct {
    struct kn_span input;
    struct node nodes[NODES_MAX];
    void *blocks[BLOCKS_MAX];
    int node_count, block_count, is_too_large;
} made;

static uint8_t next_byte(void)
{
    const uint8_t *at = kn_span_left(&made.input) ? kn_span_take(&made.input, 1) : NULL;
    return at ? *at : 0;
}

/* Makes memory of exactly this size, so that a read of one byte too many is found, and fills it
 * from the input. */
static uint8_t *block(int64_t size_bytes)
{
    if (size_bytes > DATA_MAX) made.is_too_large = 1;
    if (made.is_too_large) return NULL;
    uint8_t *at = malloc((size_t)size_bytes);
    FUZZ_CHECK(at && made.block_count < BLOCKS_MAX);
    made.blocks[made.block_count++] = at;
    for (int64_t i = 0; i < size_bytes; i++) at[i] = next_byte();
    return at;
}

/* Makes n + 1 offsets that rise by amounts from the input, or are any values from it. Returns the
 * largest. */
static int64_t offsets(struct node *node, int64_t n, int width)
{
    int rising = next_byte() & 3;
    uint8_t *at = block((n + 1) * width);
    int64_t largest = 0, sum = 0;
    for (int64_t i = 0; at && i <= n; i++) {
        if (rising) {
            sum += at[i * width] & 15;
            memcpy(at + i * width, &sum, (size_t)width); /* little endian */
        }
        int64_t value = width == 8 ? kn_arrow_i64(at + i * 8) : kn_arrow_i32(at + i * 4);
        if (value > largest) largest = value;
    }
    node->buffers[1] = at;
    return largest;
}

static void views(struct node *node, int64_t n)
{
    int64_t count = next_byte() & 3, sizes[3];
    /* a plausible length, buffer and place, or any values from the input */
    int near = next_byte() & 3;
    uint8_t *at = block(n * 16);
    for (int64_t i = 0; near && at && i < n; i++) {
        int32_t view[4] = {at[i * 16] & 31, at[i * 16 + 4], at[i * 16 + 8] & 3,
                           at[i * 16 + 12] & 63};
        memcpy(at + i * 16, view, sizeof view);
    }
    node->buffers[1] = at;
    for (int64_t i = 0; i < count; i++) {
        sizes[i] = next_byte() & 127;
        node->buffers[2 + i] = block(sizes[i]);
    }
    node->buffers[2 + count] = block(count * 8);
    if (node->buffers[2 + count])
        memcpy((void *)(uintptr_t)node->buffers[2 + count], sizes, (size_t)count * 8);
    node->array.n_buffers = 3 + count;
}

static struct node *column(int depth);

static void add_children(struct node *node, int count, int depth)
{
    for (int i = 0; i < count; i++) {
        struct node *child = depth > 0 ? column(depth - 1) : NULL;
        if (!child) return;
        node->schemas[i] = &child->schema;
        node->arrays[i] = &child->array;
        node->schema.n_children = node->array.n_children = i + 1;
    }
}

static void add_buffers(struct node *node, int64_t n, int depth)
{
    struct kn_arrow_type type = kn_arrow_type_of(node->schema.format);
    node->array.n_buffers = 2;
    if (next_byte() & 1) node->buffers[0] = block((n + 7) / 8);
    switch (type.layout) {
    case KN_ARROW_NULL: node->array.n_buffers = 0; break;
    case KN_ARROW_BYTES32:
    case KN_ARROW_BYTES64:
        node->array.n_buffers = 3;
        node->buffers[2] = block(offsets(node, n, type.layout == KN_ARROW_BYTES64 ? 8 : 4));
        break;
    case KN_ARROW_VIEWS: views(node, n); break;
    case KN_ARROW_LIST32:
    case KN_ARROW_LIST64:
        offsets(node, n, type.layout == KN_ARROW_LIST64 ? 8 : 4);
        add_children(node, 1, depth);
        break;
    case KN_ARROW_STRUCT:
        node->array.n_buffers = 1;
        add_children(node, 2, depth);
        break;
    case KN_ARROW_OTHER: break;
    default: node->buffers[1] = block(n * type.width); break;
    }
}

static void release_schema(struct ArrowSchema *schema) { (void)schema; }
static void release_array(struct ArrowArray *array) { (void)array; }

static struct node *column(int depth)
{
    static const char *const formats[] = {"n",  "z",  "u",  "Z",    "U",    "vz",  "vu", "+l",
                                          "+m", "+L", "+s", "c",    "C",    "s",   "S",  "i",
                                          "I",  "l",  "L",  "tsm:", "tss:", "w:5", "w:0"};
    if (made.node_count == NODES_MAX || made.is_too_large) return NULL;
    struct node *node = &made.nodes[made.node_count++];
    uint8_t which = next_byte();
    if (which < sizeof formats / sizeof *formats) {
        memcpy(node->format, formats[which], strlen(formats[which]));
    } else {
        for (size_t i = 0; i + 1 < sizeof node->format; i++) node->format[i] = (char)next_byte();
    }
    node->schema = (struct ArrowSchema){
        .format = node->format, .name = "", .children = node->schemas, .release = release_schema};
    node->array = (struct ArrowArray){.length = next_byte() % ROWS_MAX,
                                      .null_count = (next_byte() % 3) - 1,
                                      .offset = next_byte() % OFFSET_MAX};
    node->array.buffers = node->buffers;
    node->array.children = node->arrays;
    node->array.release = release_array;
    add_buffers(node, node->array.length + node->array.offset, depth);
    if (depth > 0 && next_byte() % 4 == 1) {
        struct node *values = column(0);
        if (values)
            node->schema.dictionary = &values->schema, node->array.dictionary = &values->array;
    }
    return node;
}

/* Makes one value wrong that the import can find. */
static void spoil(void)
{
    struct node *node = &made.nodes[next_byte() % made.node_count];
    struct ArrowArray *array = &node->array;
    switch (next_byte() % 32) {
    case 0: array->length = -1; break;
    case 1: array->length = INT64_MAX; break;
    case 2: array->offset = -1; break;
    case 3: array->offset = INT64_MAX; break;
    case 4: array->null_count = -2; break;
    case 5: array->null_count = array->length + 1; break;
    case 6: array->n_buffers = 0; break;
    case 7: array->n_buffers = INT64_MIN; break;
    case 8: array->buffers = NULL; break;
    case 9: node->buffers[0] = NULL; break;
    case 10: node->buffers[1] = NULL; break;
    case 11: node->buffers[2] = NULL; break;
    case 12: array->n_children = -1; break;
    case 13: array->n_children = 0; break;
    case 14: array->children = NULL; break;
    case 15: node->arrays[0] = NULL; break;
    case 16: node->arrays[1] = NULL; break;
    case 17: array->release = NULL; break;
    case 18: array->dictionary = NULL; break;
    case 19: node->schema.release = NULL; break;
    case 20: node->schema.format = NULL; break;
    case 21: node->schema.n_children = -1; break;
    case 22: node->schema.children = NULL; break;
    case 23: node->schemas[0] = NULL; break;
    default: break;
    }
}

static void read_bytes(const struct kn_arrow_bytes *bytes, int64_t length)
{
    const uint8_t *data;
    int64_t size;
    for (int64_t row = 0; row < length; row++) {
        FUZZ_CHECK(kn_arrow_value(bytes, row, &data, &size) == KN_OK); /* it was checked before */
        if (data) fuzz_touch(data, size);
    }
}

static void read_numbers(const struct kn_arrow_numbers *numbers, int64_t length)
{
    int64_t value;
    for (int64_t row = 0; row < length; row++) {
        if (!kn_arrow_number_is_null(numbers, row)) (void)kn_arrow_number(numbers, row, &value);
    }
}

static void read_pairs(const struct kn_arrow_pairs *pairs, int64_t length)
{
    const uint8_t *data;
    int64_t first, end, size;
    for (int64_t row = 0; row < length; row++) {
        FUZZ_CHECK(kn_arrow_pair_range(pairs, row, &first, &end) == KN_OK);
        for (; first < end; first++) {
            FUZZ_CHECK(kn_arrow_value(&pairs->keys, first, &data, &size) == KN_OK && data);
            fuzz_touch(data, size);
            FUZZ_CHECK(kn_arrow_value(&pairs->values, first, &data, &size) == KN_OK);
            if (data) fuzz_touch(data, size);
        }
    }
}

static void use(const struct node *node, int64_t skip, int64_t length)
{
    const struct ArrowSchema *schema = &node->schema;
    struct kn_arrow_problem problem = {0};
    struct kn_arrow_numbers numbers;
    struct kn_arrow_bytes bytes;
    struct kn_arrow_pairs pairs;
    if (!schema->release || !schema->format || kn_arrow_check_schema(schema)) return;
    if (kn_arrow_can_be_numbers(schema, (int)(length & 1)) &&
        kn_arrow_bind_numbers(schema, &node->array, skip, length, &numbers, &problem) == KN_OK) {
        read_numbers(&numbers, length);
    }
    if (kn_arrow_can_be_bytes(schema) &&
        kn_arrow_bind_bytes(schema, &node->array, skip, length, &bytes, &problem) == KN_OK &&
        kn_arrow_check_bytes(&bytes, length, &problem) == KN_OK) {
        read_bytes(&bytes, length);
    }
    if (kn_arrow_can_be_pairs(schema) &&
        kn_arrow_bind_pairs(schema, &node->array, skip, length, &pairs, &problem) == KN_OK &&
        kn_arrow_check_pairs(&pairs, length, &problem) == KN_OK) {
        read_pairs(&pairs, length);
    }
    (void)kn_arrow_check_table(schema, &node->array, &problem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    memset(&made, 0, sizeof made);
    made.input = kn_span_of(data, size_bytes);
    int64_t skip = next_byte() % OFFSET_MAX, length = next_byte() % (ROWS_MAX + 1);
    uint8_t spoiled = next_byte();
    struct node *root = column(3);
    if (spoiled & 1) spoil();
    if (!made.is_too_large) use(root, skip, length);
    for (int i = 0; i < made.block_count; i++) free(made.blocks[i]);
    return 0;
}
