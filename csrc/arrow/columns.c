/* Columns: creation, memory and end. column_put.c fills them. See columns.h. */
#include "arrow/columns.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static atomic_long live_count;

long kn_columns_live(void) { return atomic_load(&live_count); }

/* --- the names of topics --- */

#define NAMES_FIRST_SLOTS 16

static const uint8_t *name_at(const struct kn_names *names, int32_t index, int32_t *size_bytes)
{
    const int32_t *offsets = (const int32_t *)names->offsets.data;
    *size_bytes = offsets[index + 1] - offsets[index];
    return names->bytes.data + offsets[index];
}

/* Returns the slot of this name, or the free slot for it. */
static int32_t *slot_of(const struct kn_names *names, int32_t *slots, uint32_t mask,
                        const void *name, int32_t size_bytes)
{
    for (uint32_t at = kn_murmur2(name, (size_t)size_bytes) & mask;; at = (at + 1) & mask) {
        if (!slots[at]) return &slots[at];
        int32_t found_bytes;
        const uint8_t *found = name_at(names, slots[at] - 1, &found_bytes);
        if (found_bytes == size_bytes && memcmp(found, name, (size_t)size_bytes) == 0)
            return &slots[at];
    }
}

static int names_rehash(struct kn_names *names)
{
    uint32_t size = names->slots ? (names->mask + 1) * 2 : NAMES_FIRST_SLOTS;
    int32_t *slots = calloc(size, sizeof *slots);
    if (!slots) return KN_ERR_NOMEM;
    for (int32_t i = 0; i < names->count; i++) {
        int32_t size_bytes;
        const uint8_t *name = name_at(names, i, &size_bytes);
        *slot_of(names, slots, size - 1, name, size_bytes) = i + 1;
    }
    free(names->slots);
    names->slots = slots;
    names->mask = size - 1;
    return KN_OK;
}

static int names_add(struct kn_names *names, struct kn_pool *pool, const char *name,
                     int32_t size_bytes, int32_t *slot)
{
    size_t used = (size_t)names->count * sizeof(int32_t) + sizeof(int32_t);
    if (size_bytes > INT32_MAX - names->bytes_used) return KN_ERR_FULL;
    if (kn_slab_reserve(pool, &names->offsets, names->count ? used : 0, used + sizeof(int32_t)) !=
        KN_OK)
        return KN_ERR_NOMEM;
    size_t bytes = (size_t)names->bytes_used + (size_t)size_bytes;
    if (kn_slab_reserve(pool, &names->bytes, (size_t)names->bytes_used, bytes) != KN_OK)
        return KN_ERR_NOMEM;
    memcpy(names->bytes.data + names->bytes_used, name, (size_t)size_bytes);
    int32_t *offsets = (int32_t *)names->offsets.data;
    offsets[names->count] = names->bytes_used;
    names->bytes_used += size_bytes;
    offsets[++names->count] = names->bytes_used;
    *slot = names->count;
    return KN_OK;
}

int kn_names_find(struct kn_names *names, struct kn_pool *pool, const char *name,
                  int32_t size_bytes, int32_t *index)
{
    int32_t last_bytes;
    if (names->count) {
        const uint8_t *last = name_at(names, names->last, &last_bytes);
        *index = names->last;
        if (last_bytes == size_bytes && memcmp(last, name, (size_t)size_bytes) == 0) return KN_OK;
    }
    if (!names->slots || (uint32_t)names->count * 2 > names->mask) {
        int status = names_rehash(names);
        if (status != KN_OK) return status;
    }
    int32_t *slot = slot_of(names, names->slots, names->mask, name, size_bytes);
    if (!*slot) {
        int status = names_add(names, pool, name, size_bytes, slot);
        if (status != KN_OK) return status;
    }
    *index = names->last = *slot - 1;
    return KN_OK;
}

static void names_deinit(struct kn_names *names)
{
    kn_slab_deinit(&names->offsets);
    kn_slab_deinit(&names->bytes);
    free(names->slots);
}

/* --- columns --- */

static void column_deinit(struct kn_column *column)
{
    kn_slab_deinit(&column->validity);
    kn_slab_deinit(&column->items);
    kn_slab_deinit(&column->bytes);
    free(column->sources);
    for (int i = 0; column->parts && i < 2; i++) column_deinit(&column->parts[i]);
    free(column->parts);
    kn_builder_unref(column->builder);
}

struct kn_kept_bytes *kn_kept_bytes_new(void)
{
    struct kn_kept_bytes *held = calloc(1, sizeof *held);
    if (held) atomic_init(&held->refs, 1);
    return held;
}

void kn_kept_bytes_unref(struct kn_kept_bytes *held)
{
    if (held && atomic_fetch_sub_explicit(&held->refs, 1, memory_order_acq_rel) == 1) free(held);
}

void kn_columns_set_kept_bytes(struct kn_columns *columns, struct kn_kept_bytes *held,
                               int64_t max_bytes)
{
    atomic_store_explicit(&held->max_bytes, max_bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&held->refs, 1, memory_order_relaxed);
    columns->held = held;
}

/* Adds one reference for all columns: batches of few rows share a chunk. */
void kn_columns_add_chunk(struct kn_columns *columns, struct kn_chunk *chunk)
{
    if (atomic_fetch_add(&chunk->in_columns, 1) == 0 && columns->held)
        atomic_fetch_add(&columns->held->size_bytes, (int64_t)chunk->buffer->capacity_bytes);
    columns->chunks[columns->chunk_count++] = kn_chunk_ref(chunk);
}

void kn_columns_drop_chunks(struct kn_columns *columns)
{
    while (columns->chunk_count) {
        struct kn_chunk *chunk = columns->chunks[--columns->chunk_count];
        if (atomic_fetch_sub(&chunk->in_columns, 1) == 1 && columns->held)
            atomic_fetch_sub(&columns->held->size_bytes, (int64_t)chunk->buffer->capacity_bytes);
        kn_chunk_unref(chunk);
    }
}

static void columns_free(struct kn_columns *columns)
{
    for (int32_t i = 0; i < columns->column_count; i++) column_deinit(&columns->columns[i]);
    kn_columns_unref(columns->malformed);
    kn_columns_drop_chunks(columns);
    free(columns->chunks);
    kn_kept_bytes_unref(columns->held);
    names_deinit(&columns->names);
    free(columns);
    atomic_fetch_sub(&live_count, 1);
}

/* Makes the parts or the builder of a column. */
static int column_init(struct kn_columns *columns, struct kn_column *column)
{
    if (column->spec.layout == KN_LAYOUT_LIST) {
        if (!(column->parts = calloc(2, sizeof *column->parts))) return KN_ERR_NOMEM;
        column->parts[0].spec = (struct kn_column_spec){
            .field = KN_FIELD_KEY, .layout = KN_LAYOUT_BYTES, .is_text = 1};
        column->parts[1].spec = (struct kn_column_spec){.field = KN_FIELD_VALUE,
                                                        .layout = KN_LAYOUT_BYTES};
    } else if (column->spec.layout == KN_LAYOUT_DECODED) {
        column->builder = kn_builder_new(column->spec.type, columns->pool, columns->bytes_max);
        if (!column->builder) return KN_ERR_NOMEM;
        columns->decoded_count++;
    }
    return KN_OK;
}

struct kn_columns *kn_columns_new(const struct kn_column_spec *specs, int32_t column_count,
                                  struct kn_pool *pool, int64_t bytes_max)
{
    struct kn_columns *columns = calloc(1, sizeof *columns +
                                               (size_t)column_count * sizeof columns->columns[0]);
    if (!columns) return NULL;
    atomic_fetch_add(&live_count, 1);
    atomic_init(&columns->refs, 1);
    columns->pool = pool;
    columns->bytes_max = bytes_max < INT32_MAX ? bytes_max : INT32_MAX;
    columns->column_count = column_count;
    for (int32_t i = 0; i < column_count; i++) {
        struct kn_column *column = &columns->columns[i];
        column->spec = specs[i];
        if (column_init(columns, column) != KN_OK) {
            columns_free(columns);
            return NULL;
        }
    }
    return columns;
}

struct kn_columns *kn_columns_ref(struct kn_columns *columns)
{
    atomic_fetch_add_explicit(&columns->refs, 1, memory_order_relaxed);
    return columns;
}

void kn_columns_unref(struct kn_columns *columns)
{
    if (columns && atomic_fetch_sub_explicit(&columns->refs, 1, memory_order_acq_rel) == 1)
        columns_free(columns);
}

void kn_columns_expect(struct kn_columns *columns, int32_t column, int64_t row_count,
                       int64_t size_bytes)
{
    columns->columns[column].length_hint = row_count;
    columns->columns[column].bytes_hint = size_bytes;
}

static void column_truncate(struct kn_column *column, int64_t length)
{
    if (length == column->length) return;
    if (column->validity.data) {
        for (int64_t i = length; i < column->length; i++)
            column->null_count -= !kn_bit(column->validity.data, i);
    }
    column->length = length;
    if (column->spec.layout == KN_LAYOUT_BYTES)
        column->bytes_used = ((const int32_t *)column->items.data)[length];
    if (column->spec.layout == KN_LAYOUT_LARGE_BYTES)
        column->bytes_used = ((const int64_t *)column->items.data)[length];
    for (int i = 0; column->parts && i < 2; i++)
        column_truncate(&column->parts[i], ((const int32_t *)column->items.data)[length]);
    if (column->builder) kn_builder_truncate(column->builder, length);
}

void kn_columns_truncate(struct kn_columns *columns, int64_t row_count)
{
    for (int32_t i = 0; i < columns->column_count; i++)
        column_truncate(&columns->columns[i], row_count);
    columns->row_count = row_count;
}

static int64_t column_size_bytes(const struct kn_column *column)
{
    static const int8_t width[] = {
        [KN_LAYOUT_INT8] = 1,       [KN_LAYOUT_INT32] = 4,       [KN_LAYOUT_INT64] = 8,
        [KN_LAYOUT_BYTES] = 4,      [KN_LAYOUT_LARGE_BYTES] = 8, [KN_LAYOUT_VIEW] = 16,
        [KN_LAYOUT_DICTIONARY] = 4, [KN_LAYOUT_LIST] = 4,        [KN_LAYOUT_DECODED] = 0};
    int64_t size = column->length * width[column->spec.layout] + column->bytes_used;
    if (column->validity.data) size += (int64_t)kn_bits_bytes(column->length);
    for (int32_t i = 0; i < column->source_count; i++) size += column->sources[i].size_bytes;
    for (int i = 0; column->parts && i < 2; i++) size += column_size_bytes(&column->parts[i]);
    if (column->builder) size += kn_builder_size_bytes(column->builder);
    return size;
}

int64_t kn_columns_size_bytes(const struct kn_columns *columns)
{
    int64_t size = columns->names.bytes_used;
    for (int32_t i = 0; i < columns->column_count; i++)
        size += column_size_bytes(&columns->columns[i]);
    return size;
}

/* --- decoded columns --- */

void kn_columns_set_decoding(struct kn_columns *columns, int32_t column,
                             struct kn_decoding *decoding)
{
    columns->columns[column].decoding = decoding;
}

void kn_columns_set_malformed(struct kn_columns *columns, struct kn_columns *malformed)
{
    columns->malformed = kn_columns_ref(malformed);
}

void kn_columns_truncate_decoded(struct kn_columns *columns, int64_t row_count)
{
    for (int32_t i = 0; i < columns->column_count; i++) {
        if (columns->columns[i].builder)
            kn_builder_truncate(columns->columns[i].builder, row_count);
    }
}

/* Appends some bytes, or a null if `data` is NULL. */
static int put_bytes(struct kn_builder *builder, const void *data, int32_t size_bytes)
{
    struct kn_built *column = &builder->columns[0];
    int status = kn_builder_reserve(builder, 0, 1);
    if (status != KN_OK) return status;
    if (!data) {
        kn_builder_append_null(builder, 0);
        return KN_OK;
    }
    if ((status = kn_builder_reserve_bytes(builder, column, size_bytes)) != KN_OK) return status;
    /* There may be no memory yet for empty bytes. */
    if (size_bytes) memcpy(column->bytes + column->bytes_used, data, (size_t)size_bytes);
    kn_built_end_bytes(column, size_bytes);
    return KN_OK;
}

/* Appends the text of a failure, or a null if there is none. */
static int put_reason(struct kn_builder *reasons, const struct kn_schema_failure *failure)
{
    char text[KN_SCHEMA_FAILURE_TEXT_BYTES];
    return failure ? put_bytes(reasons, text, kn_schema_failure_text(failure, text))
                   : put_bytes(reasons, NULL, 0);
}

/* Appends a row for one record, and its reason and its bytes if these columns exist. */
static int decode_record(struct kn_decoding *decoding, const struct kn_columns *columns,
                         struct kn_builder *builder, const struct kn_record *record)
{
    bool is_key = decoding->decoders.is_key;
    int status = kn_schema_decoders_decode(&decoding->decoders, builder, record,
                                           &decoding->failure);
    bool has_failed = status == KN_ERR_INVALID && decoding->skips_errors;
    if (has_failed) {
        status = kn_builder_reserve(builder, 0, 1);
        if (status == KN_OK) kn_builder_append_null(builder, 0);
    }
    if (status != KN_OK || decoding->reason_column < 0) return status;
    const struct kn_column *reasons = &columns->columns[decoding->reason_column];
    status = put_reason(reasons->builder, has_failed ? &decoding->failure : NULL);
    if (status != KN_OK || !decoding->keeps_bytes) return status;
    const uint8_t *bytes = is_key ? record->key : record->value;
    int32_t size_bytes = is_key ? record->key_bytes : record->value_bytes;
    return put_bytes(reasons[1].builder, has_failed ? bytes : NULL, size_bytes);
}

/* Makes room for the expected rows. Without it the columns grow as they need it. */
static void reserve_expected(struct kn_column *decoded)
{
    if (!decoded->length && decoded->length_hint)
        (void)kn_builder_reserve(decoded->builder, 0, decoded->length_hint);
}

int32_t kn_columns_decode(struct kn_columns *columns, int32_t column,
                          const struct kn_column_block *block, int32_t count, int *status)
{
    struct kn_column *decoded = &columns->columns[column];
    struct kn_decoding *decoding = decoded->decoding;
    reserve_expected(decoded);
    *status = KN_OK;
    for (int32_t i = 0; i < count; i++) {
        *status = decode_record(decoding, columns, decoded->builder, &block->records[i]);
        if (*status != KN_OK) return i;
    }
    return count;
}

/* --- malformed records --- */

struct decoded_columns { /* the columns of the value and of the key */
    int32_t columns[2];
    int32_t count;
};

/* Finds the columns that decode. The value's comes first, because its reason counts. */
static struct decoded_columns find_decoded(struct kn_columns *columns)
{
    struct decoded_columns found = {.count = 0};
    for (int is_key = 0; is_key < 2; is_key++) {
        for (int32_t i = 0; i < columns->column_count; i++) {
            const struct kn_decoding *decoding = columns->columns[i].decoding;
            if (!decoding || decoding->decoders.is_key != is_key) continue;
            reserve_expected(&columns->columns[i]);
            found.columns[found.count++] = i;
        }
    }
    return found;
}

/* Appends a row for one record to all builders, or to none of them: then *column has failed. A row
 * that is removed again doesn't count as expanded. */
static int decode_whole(struct kn_columns *columns, const struct decoded_columns *decoded,
                        const struct kn_record *record, int32_t *column)
{
    int64_t expansion_left_bytes[2];
    for (int32_t i = 0; i < decoded->count; i++) {
        *column = decoded->columns[i];
        struct kn_column *each = &columns->columns[*column];
        int64_t rows = each->builder->columns[0].length;
        expansion_left_bytes[i] = each->builder->expansion_left_bytes;
        int status = kn_schema_decoders_decode(&each->decoding->decoders, each->builder, record,
                                               &each->decoding->failure);
        if (status == KN_OK) continue;
        while (i--) {
            struct kn_builder *builder = columns->columns[decoded->columns[i]].builder;
            kn_builder_truncate(builder, rows);
            builder->expansion_left_bytes = expansion_left_bytes[i];
        }
        return status;
    }
    return KN_OK;
}

/* Appends which field doesn't decode, and why. */
static int put_failure(struct kn_columns *malformed, const struct kn_decoding *decoding)
{
    const struct kn_column *texts = &malformed->columns[malformed->column_count - 2];
    const char *field = decoding->decoders.is_key ? "key" : "value";
    int64_t rows = texts->builder->columns[0].length;
    int status = put_bytes(texts[0].builder, field, (int32_t)strlen(field));
    if (status == KN_OK) status = put_reason(texts[1].builder, &decoding->failure);
    if (status != KN_OK) kn_builder_truncate(texts[0].builder, rows);
    return status;
}

int32_t kn_columns_split(struct kn_columns *columns, const struct kn_column_block *block,
                         int32_t count, int32_t malformed[KN_BLOCK_RECORDS],
                         int32_t *malformed_count, int *status, int32_t *column)
{
    struct decoded_columns decoded = find_decoded(columns);
    *malformed_count = 0;
    *status = KN_OK;
    for (int32_t i = 0; i < count; i++) {
        *status = decode_whole(columns, &decoded, &block->records[i], column);
        if (*status == KN_ERR_INVALID) {
            *status = put_failure(columns->malformed, columns->columns[*column].decoding);
            if (*status == KN_OK) malformed[(*malformed_count)++] = i;
        }
        if (*status != KN_OK) return i;
    }
    return count;
}
