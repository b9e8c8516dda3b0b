/* Decoders by schema: see schema_decoders.h. */
#include "codecs/schema_decoders.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/endian.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "records/record_reader.h"

#define FIRST_SLOTS 16
#define MAGIC_ID 0
#define MAGIC_GUID 1
#define ID_FRAMING_BYTES 5
#define GUID_FRAMING_BYTES 17
#define INDEX_MAX_BYTES 5

void kn_schema_decoders_init(struct kn_schema_decoders *decoders, enum kn_framing framing,
                             bool is_key)
{
    *decoders = (struct kn_schema_decoders){.framing = framing, .is_key = is_key};
}

void kn_schema_decoders_deinit(struct kn_schema_decoders *decoders)
{
    free(decoders->items);
    free(decoders->slots);
    *decoders = (struct kn_schema_decoders){0};
}

void kn_schema_decoders_clear(struct kn_schema_decoders *decoders)
{
    if (decoders->slots)
        memset(decoders->slots, 0, ((size_t)decoders->mask + 1) * sizeof *decoders->slots);
    decoders->count = decoders->last = 0;
}

/* Returns the slot of a key, or the free slot for it. */
static int32_t *slot_of(const struct kn_schema_decoders *decoders, int32_t *slots, uint32_t mask,
                        const struct kn_schema_key *key)
{
    size_t size = (size_t)key->size_bytes;
    for (uint32_t at = kn_murmur2(key->bytes, size) & mask;; at = (at + 1) & mask) {
        if (!slots[at]) return &slots[at];
        const struct kn_schema_key *found = &decoders->items[slots[at] - 1].key;
        if (found->size_bytes == key->size_bytes && !memcmp(found->bytes, key->bytes, size))
            return &slots[at];
    }
}

/* Keeps at least half of the slots free. */
static int grow_slots(struct kn_schema_decoders *decoders)
{
    if (decoders->slots && (uint32_t)decoders->count * 2 <= decoders->mask) return KN_OK;
    uint32_t size = decoders->slots ? (decoders->mask + 1) * 2 : FIRST_SLOTS;
    int32_t *slots = calloc(size, sizeof *slots);
    if (!slots) return KN_ERR_NOMEM;
    for (int32_t i = 0; i < decoders->count; i++)
        *slot_of(decoders, slots, size - 1, &decoders->items[i].key) = i + 1;
    free(decoders->slots);
    decoders->slots = slots;
    decoders->mask = size - 1;
    return KN_OK;
}

int kn_schema_decoders_add(struct kn_schema_decoders *decoders,
                           const struct kn_schema_decoder *decoder)
{
    if (decoders->count == KN_SCHEMA_DECODERS_MAX) return KN_ERR_FULL;
    if (decoders->count == decoders->capacity) {
        int32_t capacity = decoders->capacity ? decoders->capacity * 2 : 4;
        struct kn_schema_decoder *items = realloc(decoders->items,
                                                  (size_t)capacity * sizeof *items);
        if (!items) return KN_ERR_NOMEM;
        decoders->items = items;
        decoders->capacity = capacity;
    }
    int status = grow_slots(decoders);
    if (status != KN_OK) return status;
    decoders->items[decoders->count] = *decoder;
    *slot_of(decoders, decoders->slots, decoders->mask, &decoder->key) = ++decoders->count;
    return KN_OK;
}

/* --- the framing --- */

/* Returns the size of the message indexes, or 0 if they are malformed, or longer than `size`. */
static int32_t indexes_bytes(const uint8_t *data, int32_t size)
{
    int32_t used = 0;
    int64_t left = 1; /* the number of indexes, then the indexes */
    for (bool is_count = 1; left; is_count = 0, left--) {
        uint64_t number = 0;
        for (int i = 0;; i++) {
            if (i == INDEX_MAX_BYTES || used == size) return 0;
            uint8_t byte = data[used++];
            number |= (uint64_t)(byte & 0x7f) << (7 * i);
            if (byte < 0x80) break;
        }
        if (number & 1 || number >> 1 > INT32_MAX) return 0; /* a zigzag number below 0 */
        if (is_count) left += (int64_t)(number >> 1);
    }
    return used;
}

/* Reads the key from the start of some bytes. Returns NULL, or the problem. */
static const char *read_key(enum kn_framing framing, const uint8_t *data, int64_t size_bytes,
                            struct kn_schema_key *key)
{
    key->size_bytes = 0;
    if (framing == KN_FRAMING_NONE) return NULL;
    if (size_bytes < 1 || data[0] > MAGIC_GUID)
        return "there is no schema framing, which is the byte 0 and a schema id, or the byte 1 and "
               "a GUID";
    int32_t size = data[0] == MAGIC_ID ? ID_FRAMING_BYTES : GUID_FRAMING_BYTES;
    if (size_bytes < size)
        return data[0] == MAGIC_ID ? "the bytes end within the schema id"
                                   : "the bytes end within the schema GUID";
    if (framing == KN_FRAMING_INDEXES) {
        int64_t left = size_bytes - size, room = KN_SCHEMA_KEY_MAX_BYTES - size;
        int32_t indexes = indexes_bytes(data + size, (int32_t)(left < room ? left : room));
        if (!indexes) return "the message indexes after the schema id are malformed or too many";
        size += indexes;
    }
    memcpy(key->bytes, data, (size_t)size);
    key->size_bytes = size;
    return NULL;
}

/* Finds the header that has the framing: the last one of its name, as in Java. */
static bool find_header(const struct kn_record *record, bool is_key, struct kn_header *found)
{
    const char *name = is_key ? "__key_schema_id" : "__value_schema_id";
    int32_t size = (int32_t)strlen(name);
    struct kn_span span = kn_span_of(record->headers, (size_t)record->headers_bytes);
    struct kn_header header;
    found->value = NULL;
    for (int32_t i = 0; i < record->header_count && kn_header_next(&span, &header) == KN_OK; i++) {
        if (header.key_bytes == size && !memcmp(header.key, name, (size_t)size)) *found = header;
    }
    return found->value != NULL;
}

/* Returns the decoder of the framing at `data`, or NULL. */
static const struct kn_schema_decoder *find(struct kn_schema_decoders *decoders,
                                            const uint8_t *data, int64_t size_bytes, int *status,
                                            struct kn_schema_failure *failure)
{
    if (__builtin_expect(decoders->count != 0, 1)) {
        /* No framing is the start of another one. */
        const struct kn_schema_decoder *last = &decoders->items[decoders->last];
        if (size_bytes >= last->key.size_bytes &&
            !memcmp(data, last->key.bytes, (size_t)last->key.size_bytes))
            return last;
    }
    failure->path = NULL;
    failure->position = -1;
    failure->text = read_key(decoders->framing, data, size_bytes, &failure->key);
    *status = failure->text ? KN_ERR_INVALID : KN_ERR_UNKNOWN_SCHEMA;
    if (failure->text || !decoders->count) return NULL;
    int32_t index = *slot_of(decoders, decoders->slots, decoders->mask, &failure->key);
    if (!index) return NULL;
    decoders->last = index - 1;
    return &decoders->items[index - 1];
}

/* --- rows --- */

static int append_null(struct kn_builder *builder)
{
    int status = kn_builder_reserve(builder, 0, 1);
    if (status == KN_OK) kn_builder_append_null(builder, 0);
    return status;
}

int kn_schema_decoders_decode(struct kn_schema_decoders *decoders, struct kn_builder *builder,
                              const struct kn_record *record, struct kn_schema_failure *failure)
{
    const uint8_t *data = decoders->is_key ? record->key : record->value;
    int64_t size = decoders->is_key ? record->key_bytes : record->value_bytes;
    struct kn_header header;
    struct kn_decode_problem problem;
    int status = KN_OK;

    if (!data) return append_null(builder);
    bool in_header = decoders->framing != KN_FRAMING_NONE && record->header_count &&
                     find_header(record, decoders->is_key, &header);
    const struct kn_schema_decoder *found = find(decoders, in_header ? header.value : data,
                                                 in_header ? header.value_bytes : size, &status,
                                                 failure);
    if (!found) return status;
    int32_t skipped = in_header ? 0 : found->key.size_bytes;
    if (found->decoder.decode) {
        status = kn_decode(&found->decoder, builder, data + skipped, size - skipped, &problem);
        if (status == KN_OK || status == KN_ERR_FULL || status == KN_ERR_NOMEM) return status;
        *failure = (struct kn_schema_failure){found->key, found->paths[problem.instruction],
                                              problem.position + skipped, problem.text};
    } else {
        *failure = (struct kn_schema_failure){found->key, NULL, -1, found->reason};
    }
    return KN_ERR_INVALID;
}

/* --- texts --- */

/* Appends formatted text and returns the new size, at most the room for a text. */
static int32_t add(char *out, int32_t used, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int32_t add(char *out, int32_t used, const char *format, ...)
{
    int32_t room = KN_SCHEMA_FAILURE_TEXT_BYTES - used;
    va_list values;
    va_start(values, format);
    int wanted = vsnprintf(out + used, (size_t)room, format, values);
    va_end(values);
    return used + (wanted < room ? wanted : room - 1);
}

static int32_t add_schema(char *out, const struct kn_schema_key *key)
{
    const uint8_t *bytes = key->bytes;
    if (!key->size_bytes) return 0;
    if (bytes[0] == MAGIC_ID) return add(out, 0, "schema id %" PRIu32 ", ", kn_get_u32(bytes + 1));
    int32_t used = add(out, 0, "schema ");
    for (int i = 1; i < GUID_FRAMING_BYTES; i++)
        used = add(out, used, i == 5 || i == 7 || i == 9 || i == 11 ? "-%02x" : "%02x", bytes[i]);
    return add(out, used, ", ");
}

int32_t kn_schema_failure_text(const struct kn_schema_failure *failure,
                               char out[KN_SCHEMA_FAILURE_TEXT_BYTES])
{
    int32_t used = add_schema(out, &failure->key);
    if (failure->path && *failure->path) used = add(out, used, "field %s, ", failure->path);
    if (failure->position >= 0) used = add(out, used, "byte %" PRId64 ", ", failure->position);
    if (used) memcpy(out + used - 2, ": ", 2);
    used = add(out, used, "%s", failure->text);
    /* The room may have ended within a character. */
    while (used && !kn_utf8_is_valid((const uint8_t *)out, (size_t)used)) used--;
    return used;
}
