/* Puts a block of records into columns, in three steps: count the records that every column can
 * take, make room for them (this may fail), copy the bytes (this can't fail). So a block is in
 * every column or in none. See columns.h.
 *
 * The loops over a block are specialised for one field and one width (always_inline with
 * constants), because they are most of the cost of consuming columns. */
#include "arrow/columns.h"

#include <stdlib.h>

#include "base/utf8.h"

#define INLINE static inline __attribute__((always_inline))
#define VIEW_INLINE_BYTES 12

struct view { /* in Arrow's layout */
    int32_t size_bytes;
    /* the first bytes of the value; a short value goes on in the rest, padded with zeros */
    uint8_t start[4];
    int32_t source;
    int32_t offset;
};

struct verdict { /* how many records of the block fit, and the reason for the limit */
    int32_t count;
    int status;
    int32_t column;
};

static void cut(struct verdict *verdict, int32_t count, int status, int32_t column)
{
    if (count < verdict->count) *verdict = (struct verdict){count, status, column};
}

INLINE int32_t piece_of(const struct kn_record *record, enum kn_column_field field,
                        const uint8_t **data)
{
    *data = field == KN_FIELD_KEY ? record->key : record->value;
    int32_t size = field == KN_FIELD_KEY ? record->key_bytes : record->value_bytes;
    return *data ? size : 0;
}

static int has_pieces(const struct kn_column *column)
{
    return !column->builder &&
           (column->spec.field == KN_FIELD_KEY || column->spec.field == KN_FIELD_VALUE);
}

static int64_t room_of(const struct kn_columns *columns, const struct kn_column *column)
{
    return column->spec.layout == KN_LAYOUT_BYTES ? columns->bytes_max : INT64_MAX;
}

/* --- counting --- */

INLINE struct kn_pieces sum(const struct kn_record *records, int32_t count,
                            enum kn_column_field field)
{
    struct kn_pieces pieces = {0, 0, 0};
    for (int32_t i = 0; i < count; i++) {
        const uint8_t *data;
        int32_t size = piece_of(&records[i], field, &data);
        pieces.size_bytes += size;
        pieces.null_count += !data;
        if (size > pieces.size_max_bytes) pieces.size_max_bytes = size;
    }
    return pieces;
}

static void sum_pieces(struct kn_column *column, const struct kn_column_block *block, int32_t count)
{
    if (column->spec.field == KN_FIELD_KEY)
        column->pieces = sum(block->records, count, KN_FIELD_KEY);
    else column->pieces = sum(block->records, count, KN_FIELD_VALUE);
}

static void measure_pieces(struct kn_columns *columns, int32_t number,
                           const struct kn_column_block *block, struct verdict *verdict)
{
    struct kn_column *column = &columns->columns[number];
    int64_t used = column->bytes_used, room = room_of(columns, column);
    sum_pieces(column, block, verdict->count);
    if (column->pieces.size_bytes <= room - used && !column->spec.is_text) return;
    for (int32_t i = 0; i < verdict->count; i++) {
        const uint8_t *data;
        int32_t size = piece_of(&block->records[i], column->spec.field, &data);
        used += size;
        if (used > room) cut(verdict, i, KN_ERR_FULL, number);
        if (column->spec.is_text && !kn_utf8_is_valid(data, (size_t)size))
            cut(verdict, i, KN_ERR_INVALID, number);
    }
}

/* Size of a header's name in its column. */
static int64_t name_bytes(const struct kn_column *column, const struct kn_header *header)
{
    return column->replaces ? (int64_t)kn_utf8_replace(NULL, header->key, (size_t)header->key_bytes)
                            : header->key_bytes;
}

static void measure_headers(struct kn_columns *columns, int32_t number,
                            const struct kn_column_block *block, struct verdict *verdict)
{
    struct kn_column *column = &columns->columns[number];
    column->replaces = 0;
    int64_t items = column->parts[0].length, names = column->parts[0].bytes_used,
            values = column->parts[1].bytes_used;
    for (int32_t i = 0; i < verdict->count; i++) {
        const struct kn_record *record = &block->records[i];
        struct kn_span span = kn_span_of(record->headers,
                                         record->header_count ? (size_t)record->headers_bytes : 0);
        struct kn_header header;
        for (int32_t h = 0; h < record->header_count && kn_header_next(&span, &header) == KN_OK;
             h++) {
            if (!kn_utf8_is_valid(header.key, (size_t)header.key_bytes)) column->replaces = 1;
            names += name_bytes(column, &header);
            if (header.value) values += header.value_bytes;
        }
        items += record->header_count;
        if (names > columns->bytes_max || values > columns->bytes_max || items > INT32_MAX)
            cut(verdict, i, KN_ERR_FULL, number);
        /* the reader has walked the headers, so they can't fail here */
        if (span.failed) cut(verdict, i, KN_ERR_INVALID, number);
    }
}

static void measure(struct kn_columns *columns, int32_t number, const struct kn_column_block *block,
                    struct verdict *verdict)
{
    const struct kn_column *column = &columns->columns[number];
    const struct kn_column_spec *spec = &column->spec;
    if (spec->field == KN_FIELD_HEADERS) {
        measure_headers(columns, number, block, verdict);
    } else if (has_pieces(column)) {
        measure_pieces(columns, number, block, verdict);
    } else if (spec->field == KN_FIELD_TOPIC && spec->layout == KN_LAYOUT_BYTES &&
               block->topic_bytes) {
        int64_t room = (room_of(columns, column) - column->bytes_used) / block->topic_bytes;
        if (room < verdict->count) cut(verdict, (int32_t)room, KN_ERR_FULL, number);
    } else if (spec->field == KN_FIELD_TIMESTAMP && spec->ticks > 1) {
        int64_t ms_max = INT64_MAX / spec->ticks;
        for (int32_t i = 0; i < verdict->count; i++) {
            int64_t at = block->records[i].timestamp_ms;
            if (at > ms_max || at < -ms_max) cut(verdict, i, KN_ERR_INVALID, number);
        }
    }
}

/* --- room --- */

static int reserve_items(struct kn_columns *columns, struct kn_column *column, int64_t count)
{
    size_t width = column->spec.layout == KN_LAYOUT_INT8   ? 1
                   : column->spec.layout == KN_LAYOUT_VIEW ? sizeof(struct view)
                                                           : 0;
    int has_offsets = column->spec.layout == KN_LAYOUT_BYTES ||
                      column->spec.layout == KN_LAYOUT_LARGE_BYTES ||
                      column->spec.layout == KN_LAYOUT_LIST;
    if (!width)
        width = column->spec.layout == KN_LAYOUT_INT64 ||
                        column->spec.layout == KN_LAYOUT_LARGE_BYTES
                    ? 8
                    : 4;
    int64_t length = column->length + count, first = !column->items.data;
    if (first && length < column->length_hint) length = column->length_hint;
    size_t used = first ? 0 : (size_t)(column->length + has_offsets) * width;
    int status = kn_slab_reserve(columns->pool, &column->items, used,
                                 (size_t)(length + has_offsets) * width);
    if (status == KN_OK && first && has_offsets) memset(column->items.data, 0, width);
    return status;
}

static int reserve_bytes(struct kn_columns *columns, struct kn_column *column, int64_t more_bytes)
{
    int64_t size = column->bytes_used + more_bytes;
    if (!column->bytes.data && more_bytes && size < column->bytes_hint) size = column->bytes_hint;
    return kn_slab_reserve(columns->pool, &column->bytes, (size_t)column->bytes_used, (size_t)size);
}

/* Makes room for `count` more validity bits; they are needed from the first null on. */
static int reserve_validity(struct kn_columns *columns, struct kn_column *column, int64_t count,
                            int has_null)
{
    if (!column->validity.data && !has_null) return KN_OK;
    int first = !column->validity.data;
    int64_t length = column->length + count;
    if (first && length < column->length_hint) length = column->length_hint;
    int status = kn_slab_reserve(columns->pool, &column->validity,
                                 first ? 0 : kn_bits_bytes(column->length), kn_bits_bytes(length));
    if (status == KN_OK && first) kn_bits_fill(column->validity.data, 0, column->length, 1);
    return status;
}

/* Makes this the last source of the column. */
static int reserve_source(struct kn_column *column, const uint8_t *base, int64_t size_bytes,
                          const struct kn_chunk *chunk)
{
    if (column->source_count && column->sources[column->source_count - 1].chunk == chunk)
        return KN_OK;
    if (column->source_count == column->source_capacity) {
        int32_t capacity = column->source_capacity ? column->source_capacity * 2 : 8;
        struct kn_view_source *sources = realloc(column->sources,
                                                 (size_t)capacity * sizeof *sources);
        if (!sources) return KN_ERR_NOMEM;
        column->sources = sources;
        column->source_capacity = capacity;
    }
    column->sources[column->source_count++] = (struct kn_view_source){base, size_bytes, chunk};
    return KN_OK;
}

static int keep_chunk(struct kn_columns *columns, struct kn_chunk *chunk)
{
    if (columns->chunk_count && columns->chunks[columns->chunk_count - 1] == chunk) return KN_OK;
    if (columns->chunk_count == columns->chunk_capacity) {
        int32_t capacity = columns->chunk_capacity ? columns->chunk_capacity * 2 : 8;
        struct kn_chunk **chunks = realloc(columns->chunks, (size_t)capacity * sizeof *chunks);
        if (!chunks) return KN_ERR_NOMEM;
        columns->chunks = chunks;
        columns->chunk_capacity = capacity;
    }
    kn_columns_add_chunk(columns, chunk);
    return KN_OK;
}

static int reserve_pieces(struct kn_columns *columns, struct kn_column *column,
                          const struct kn_column_block *block, int32_t count)
{
    int status = reserve_validity(columns, column, count, column->pieces.null_count != 0);
    if (status != KN_OK) return status;
    if (column->spec.layout != KN_LAYOUT_VIEW)
        return reserve_bytes(columns, column, column->pieces.size_bytes);
    if (column->pieces.size_max_bytes <= VIEW_INLINE_BYTES) return KN_OK;
    /* a response or a decompressed batch is smaller than 2 GiB */
    const struct kn_buffer *buffer = block->chunk->buffer;
    status = keep_chunk(columns, block->chunk);
    return status != KN_OK
               ? status
               : reserve_source(column, buffer->data, (int64_t)buffer->size_bytes, block->chunk);
}

static int reserve_headers(struct kn_columns *columns, struct kn_column *column,
                           const struct kn_column_block *block, int32_t count)
{
    int64_t items = 0, names = 0, values = 0;
    int has_null = 0, has_null_value = 0;
    for (int32_t i = 0; i < count; i++) {
        const struct kn_record *record = &block->records[i];
        struct kn_span span = kn_span_of(record->headers,
                                         record->header_count ? (size_t)record->headers_bytes : 0);
        struct kn_header header;
        for (int32_t h = 0; h < record->header_count && kn_header_next(&span, &header) == KN_OK;
             h++) {
            names += name_bytes(column, &header);
            if (header.value) values += header.value_bytes;
            has_null_value |= !header.value;
        }
        items += record->header_count;
        has_null |= !record->header_count;
    }
    int status = reserve_validity(columns, column, count, has_null);
    for (int i = 0; i < 2 && status == KN_OK; i++) {
        struct kn_column *part = &column->parts[i];
        status = reserve_items(columns, part, items);
        if (status == KN_OK) status = reserve_bytes(columns, part, i ? values : names);
        if (status == KN_OK) status = reserve_validity(columns, part, items, i && has_null_value);
    }
    return status;
}

/* Returns whether record i has no value in a column of numbers. */
INLINE int is_null(enum kn_column_field field, const struct kn_column_block *block, int32_t i)
{
    switch (field) {
    case KN_FIELD_LEADER_EPOCH: return block->leader_epoch < 0;
    case KN_FIELD_DELIVERY_COUNT: return block->delivery_count == 0;
    case KN_FIELD_TIMESTAMP: return block->records[i].timestamp_ms == -1;
    case KN_FIELD_TIMESTAMP_TYPE: return block->records[i].timestamp_type < 0;
    default: return 0;
    }
}

static int has_null(enum kn_column_field field, const struct kn_column_block *block, int32_t count)
{
    int found = 0;
    if (field == KN_FIELD_PARTITION || field == KN_FIELD_OFFSET) return 0;
    for (int32_t i = 0; i < count; i++) found |= is_null(field, block, i);
    return found;
}

static int reserve_topic(struct kn_columns *columns, struct kn_column *column,
                         const struct kn_column_block *block, int32_t count)
{
    int32_t index;
    if (column->spec.layout == KN_LAYOUT_BYTES || column->spec.layout == KN_LAYOUT_LARGE_BYTES)
        return reserve_bytes(columns, column, (int64_t)block->topic_bytes * count);
    int status = kn_names_find(&columns->names, columns->pool, block->topic, block->topic_bytes,
                               &index);
    if (status == KN_OK && column->spec.layout == KN_LAYOUT_VIEW)
        status = reserve_source(column, NULL, 0, NULL);
    return status;
}

static int reserve(struct kn_columns *columns, struct kn_column *column,
                   const struct kn_column_block *block, int32_t count)
{
    if (column->builder) return KN_OK; /* decoded already */
    int status = reserve_items(columns, column, count);
    if (status != KN_OK) return status;
    switch (column->spec.field) {
    case KN_FIELD_TOPIC: return reserve_topic(columns, column, block, count);
    case KN_FIELD_KEY:
    case KN_FIELD_VALUE: return reserve_pieces(columns, column, block, count);
    case KN_FIELD_HEADERS: return reserve_headers(columns, column, block, count);
    default:
        return reserve_validity(columns, column, count, has_null(column->spec.field, block, count));
    }
}

/* --- the bytes --- */

#define OF_ITEMS(type, column) ((type *)(void *)(column)->items.data + (column)->length)
#define PUT_EACH(type, value)                                                                      \
    do {                                                                                           \
        type *to = OF_ITEMS(type, column);                                                         \
        for (int32_t i = 0; i < count; i++) to[i] = (type)(value);                                 \
    } while (0)

static void put_fixed(struct kn_column *column, const struct kn_column_block *block, int32_t count)
{
    const struct kn_record *records = block->records;
    int64_t ticks = column->spec.ticks;
    switch (column->spec.field) {
    case KN_FIELD_PARTITION: PUT_EACH(int32_t, block->partition); break;
    case KN_FIELD_OFFSET: PUT_EACH(int64_t, records[i].offset); break;
    case KN_FIELD_TIMESTAMP: PUT_EACH(int64_t, records[i].timestamp_ms *ticks); break;
    case KN_FIELD_TIMESTAMP_TYPE:
        if (column->spec.layout == KN_LAYOUT_INT8)
            PUT_EACH(int8_t, records[i].timestamp_type < 0 ? 0 : records[i].timestamp_type);
        else PUT_EACH(int32_t, records[i].timestamp_type < 0 ? 0 : records[i].timestamp_type);
        break;
    case KN_FIELD_DELIVERY_COUNT: PUT_EACH(int32_t, block->delivery_count); break;
    default: PUT_EACH(int32_t, block->leader_epoch < 0 ? 0 : block->leader_epoch); break;
    }
    if (!column->validity.data) return;
    for (int32_t i = 0; i < count; i++) {
        int null = is_null(column->spec.field, block, i);
        kn_bit_put(column->validity.data, column->length + i, !null);
        column->null_count += null;
    }
}

INLINE void put_pieces(struct kn_column *column, const struct kn_record *records, int32_t count,
                       enum kn_column_field field, int wide)
{
    int32_t *offsets = wide ? NULL : OF_ITEMS(int32_t, column) + 1;
    int64_t *wide_offsets = wide ? OF_ITEMS(int64_t, column) + 1 : NULL;
    uint8_t *to = column->bytes.data;
    int64_t used = column->bytes_used;
    if (column->pieces.size_bytes == 0) { /* messages without keys */
        for (int32_t i = 0; i < count && wide; i++) wide_offsets[i] = used;
        for (int32_t i = 0; i < count && !wide; i++) offsets[i] = (int32_t)used;
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        const uint8_t *data;
        int32_t size = piece_of(&records[i], field, &data);
        if (size) memcpy(to + used, data, (size_t)size);
        used += size;
        if (wide) wide_offsets[i] = used;
        else offsets[i] = (int32_t)used;
    }
    column->bytes_used = used;
}

static void put_validity(struct kn_column *column, const struct kn_record *records, int32_t count)
{
    int64_t from = column->length;
    column->null_count += column->pieces.null_count;
    if (column->pieces.null_count == 0 || column->pieces.null_count == count) {
        kn_bits_fill(column->validity.data, from, from + count, column->pieces.null_count == 0);
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        const uint8_t *data;
        piece_of(&records[i], column->spec.field, &data);
        kn_bit_put(column->validity.data, from + i, data != NULL);
    }
}

static struct view view_of(const uint8_t *data, int32_t size_bytes, int32_t source, int64_t offset)
{
    struct view view = {size_bytes, {0}, 0, 0};
    if (size_bytes <= VIEW_INLINE_BYTES) {
        if (size_bytes)
            memcpy((uint8_t *)&view + offsetof(struct view, start), data, (size_t)size_bytes);
        return view;
    }
    memcpy(view.start, data, sizeof view.start);
    view.source = source;
    view.offset = (int32_t)offset;
    return view;
}

static void put_views(struct kn_column *column, const struct kn_record *records, int32_t count)
{
    struct view *to = OF_ITEMS(struct view, column);
    int32_t source = column->source_count - 1;
    const uint8_t *base = source < 0 ? NULL : column->sources[source].base;
    for (int32_t i = 0; i < count; i++) {
        const uint8_t *data;
        int32_t size = piece_of(&records[i], column->spec.field, &data);
        to[i] = view_of(data, size, source, size > VIEW_INLINE_BYTES ? data - base : 0);
    }
}

static void put_key_or_value(struct kn_column *column, const struct kn_column_block *block,
                             int32_t count)
{
    int is_key = column->spec.field == KN_FIELD_KEY;
    if (column->spec.layout == KN_LAYOUT_VIEW) {
        put_views(column, block->records, count);
    } else if (column->spec.layout == KN_LAYOUT_BYTES) {
        if (is_key) put_pieces(column, block->records, count, KN_FIELD_KEY, 0);
        else put_pieces(column, block->records, count, KN_FIELD_VALUE, 0);
    } else {
        if (is_key) put_pieces(column, block->records, count, KN_FIELD_KEY, 1);
        else put_pieces(column, block->records, count, KN_FIELD_VALUE, 1);
    }
    if (column->validity.data) put_validity(column, block->records, count);
}

/* Ends a part of a header here. */
static void end_part(struct kn_column *part, const uint8_t *data, int64_t size_bytes)
{
    part->bytes_used += size_bytes;
    *(OF_ITEMS(int32_t, part) + 1) = (int32_t)part->bytes_used;
    if (part->validity.data) kn_bit_put(part->validity.data, part->length, data != NULL);
    part->null_count += !data;
    part->length++;
}

/* Appends one name or value of a header. */
static void put_part(struct kn_column *part, const uint8_t *data, int32_t size_bytes)
{
    int32_t size = data ? size_bytes : 0;
    if (size) memcpy(part->bytes.data + part->bytes_used, data, (size_t)size);
    end_part(part, data, size);
}

/* Appends a name that may not be UTF-8. */
static void put_replaced(struct kn_column *part, const uint8_t *data, int32_t size_bytes)
{
    end_part(
        part, data,
        (int64_t)kn_utf8_replace(part->bytes.data + part->bytes_used, data, (size_t)size_bytes));
}

static void put_headers(struct kn_column *column, const struct kn_column_block *block,
                        int32_t count)
{
    int32_t *offsets = OF_ITEMS(int32_t, column) + 1;
    for (int32_t i = 0; i < count; i++) {
        const struct kn_record *record = &block->records[i];
        struct kn_span span = kn_span_of(record->headers,
                                         record->header_count ? (size_t)record->headers_bytes : 0);
        struct kn_header header;
        for (int32_t h = 0; h < record->header_count && kn_header_next(&span, &header) == KN_OK;
             h++) {
            if (column->replaces) put_replaced(&column->parts[0], header.key, header.key_bytes);
            else put_part(&column->parts[0], header.key, header.key_bytes);
            put_part(&column->parts[1], header.value, header.value_bytes);
        }
        offsets[i] = (int32_t)column->parts[0].length;
        if (column->validity.data)
            kn_bit_put(column->validity.data, column->length + i, record->header_count != 0);
        column->null_count += !record->header_count;
    }
}

static void put_topic(struct kn_columns *columns, struct kn_column *column,
                      const struct kn_column_block *block, int32_t count)
{
    int32_t index;
    const uint8_t *name = (const uint8_t *)block->topic;
    if (column->spec.layout == KN_LAYOUT_BYTES || column->spec.layout == KN_LAYOUT_LARGE_BYTES) {
        for (int32_t i = 0; i < count; i++) {
            if (block->topic_bytes)
                memcpy(column->bytes.data + column->bytes_used, name, (size_t)block->topic_bytes);
            column->bytes_used += block->topic_bytes;
            if (column->spec.layout == KN_LAYOUT_BYTES)
                OF_ITEMS(int32_t, column)[i + 1] = (int32_t)column->bytes_used;
            else OF_ITEMS(int64_t, column)[i + 1] = column->bytes_used;
        }
        return;
    }
    /* the name was added before */
    (void)kn_names_find(&columns->names, columns->pool, block->topic, block->topic_bytes, &index);
    if (column->spec.layout == KN_LAYOUT_DICTIONARY) {
        PUT_EACH(int32_t, index);
    } else {
        struct view view = view_of(
            name, block->topic_bytes, 0,
            ((const int32_t *)(const void *)columns->names.offsets.data)[index]);
        struct view *to = OF_ITEMS(struct view, column);
        for (int32_t i = 0; i < count; i++) to[i] = view;
    }
}

static void put(struct kn_columns *columns, struct kn_column *column,
                const struct kn_column_block *block, int32_t count)
{
    switch (column->builder ? KN_FIELD_COUNT : column->spec.field) {
    case KN_FIELD_COUNT: break; /* decoded already */
    case KN_FIELD_TOPIC: put_topic(columns, column, block, count); break;
    case KN_FIELD_KEY:
    case KN_FIELD_VALUE: put_key_or_value(column, block, count); break;
    case KN_FIELD_HEADERS: put_headers(column, block, count); break;
    default: put_fixed(column, block, count); break;
    }
    column->length += count;
}

/* Decodes the records that the other columns can take. Afterwards every builder has the rows of the
 * verdict. Without memory it has none. */
static void decode(struct kn_columns *columns, const struct kn_column_block *block,
                   struct verdict *verdict)
{
    for (int32_t i = 0; i < columns->column_count; i++) {
        int status;
        if (!columns->columns[i].decoding) continue;
        int32_t count = kn_columns_decode(columns, i, block, verdict->count, &status);
        if (status == KN_ERR_NOMEM) count = 0;
        if (status != KN_OK) cut(verdict, count, status, i);
    }
    if (verdict->count < block->count)
        kn_columns_truncate_decoded(columns, columns->row_count + verdict->count);
}

struct split {                    /* a block without its malformed records */
    struct kn_column_block block; /* the records that decode; count: of the verdict's records */
    int32_t malformed[KN_BLOCK_RECORDS]; /* the indices of the others */
    int32_t malformed_count;
    struct kn_record records[KN_BLOCK_RECORDS]; /* first those that decode, then the others */
};

/* Copies the first `count` records of a block, the malformed ones behind the others. */
static void part_records(struct split *split, const struct kn_column_block *block, int32_t count)
{
    int32_t good = 0, malformed = 0, first = count - split->malformed_count;
    for (int32_t i = 0; i < count; i++) {
        bool is_malformed = malformed < split->malformed_count && split->malformed[malformed] == i;
        split->records[is_malformed ? first + malformed++ : good++] = block->records[i];
    }
}

/* Appends the malformed records to their columns. If these have no more room, the verdict ends. */
static void append_malformed(struct kn_columns *columns, struct split *split,
                             const struct kn_column_block *block, struct verdict *verdict)
{
    struct kn_column_block malformed = *block;
    int32_t taken, column;
    part_records(split, block, verdict->count);
    malformed.records = split->records + verdict->count - split->malformed_count;
    malformed.count = split->malformed_count;
    int status = kn_columns_append(columns->malformed, &malformed, &taken, &column);
    if (status == KN_OK) return;
    cut(verdict, status == KN_ERR_NOMEM ? 0 : split->malformed[taken], status, -1);
    split->malformed_count = taken;
    kn_columns_truncate_decoded(columns, columns->row_count + verdict->count - taken);
}

/* Decodes the records that the other columns can take. Afterwards every builder has the rows of
 * split->block, and columns->malformed has the other records of the verdict. */
static void split_block(struct kn_columns *columns, const struct kn_column_block *block,
                        struct verdict *verdict, struct split *split)
{
    int status;
    int32_t column = -1;
    int32_t count = kn_columns_split(columns, block, verdict->count, split->malformed,
                                     &split->malformed_count, &status, &column);
    if (status == KN_ERR_NOMEM) {
        count = split->malformed_count = 0;
        kn_columns_truncate_decoded(columns, columns->row_count);
        kn_columns_truncate_decoded(columns->malformed, columns->malformed->row_count);
    }
    if (status != KN_OK) cut(verdict, count, status, column);
    split->block = *block;
    split->block.count = verdict->count;
    if (!split->malformed_count) return;
    append_malformed(columns, split, block, verdict);
    split->block.records = split->records;
    split->block.count = verdict->count - split->malformed_count;
}

/* Puts the records of a block that every column can take into the columns. The builders have their
 * rows already. KN_OK or KN_ERR_NOMEM. */
static int put_block(struct kn_columns *columns, const struct kn_column_block *block)
{
    for (int32_t i = 0; i < columns->column_count; i++) {
        int status = reserve(columns, &columns->columns[i], block, block->count);
        if (status == KN_OK) continue;
        if (columns->decoded_count) kn_columns_truncate_decoded(columns, columns->row_count);
        return status;
    }
    for (int32_t i = 0; i < columns->column_count; i++)
        put(columns, &columns->columns[i], block, block->count);
    columns->row_count += block->count;
    return KN_OK;
}

int kn_columns_append(struct kn_columns *columns, const struct kn_column_block *block,
                      int32_t *taken, int32_t *column)
{
    struct verdict verdict = {block->count, KN_OK, -1};
    struct split split;
    int64_t malformed_count = columns->malformed ? columns->malformed->row_count : 0;
    *taken = 0;
    for (int32_t i = 0; i < columns->column_count; i++) measure(columns, i, block, &verdict);
    if (columns->malformed) {
        split_block(columns, block, &verdict, &split);
    } else {
        if (columns->decoded_count) decode(columns, block, &verdict);
        split.block = *block;
        split.block.count = verdict.count;
    }
    *column = verdict.column;
    if (verdict.status == KN_ERR_NOMEM) return KN_ERR_NOMEM;
    for (int32_t i = 0; i < columns->column_count && split.block.count < block->count; i++) {
        /* the sums were for more records */
        if (has_pieces(&columns->columns[i]))
            sum_pieces(&columns->columns[i], &split.block, split.block.count);
    }
    int status = split.block.count ? put_block(columns, &split.block) : KN_OK;
    if (status != KN_OK) {
        if (columns->malformed) kn_columns_truncate(columns->malformed, malformed_count);
        return status;
    }
    *taken = verdict.count;
    return verdict.status;
}

/* --- copies of views --- */

/* views are copied if their chunks are at least so many times larger: then copying is cheap */
#define PART_MIN 4

static int borrows(const struct kn_column *column)
{
    return column->spec.layout == KN_LAYOUT_VIEW && has_pieces(column) && column->source_count;
}

/* Counts the bytes of the long views, up to `enough`. */
static int64_t long_bytes(const struct kn_column *column, int64_t enough)
{
    const struct view *views = (const struct view *)(const void *)column->items.data;
    int64_t size = 0;
    for (int64_t i = 0; i < column->length && size < enough; i++)
        size += views[i].size_bytes > VIEW_INLINE_BYTES ? views[i].size_bytes : 0;
    return size;
}

/* Copies them into a slab that has room. */
static void own_views(struct kn_column *column)
{
    struct view *views = (struct view *)(void *)column->items.data;
    int64_t used = 0;
    for (int64_t i = 0; i < column->length; i++) {
        struct view *view = &views[i];
        if (view->size_bytes <= VIEW_INLINE_BYTES) continue;
        memcpy(column->bytes.data + used, column->sources[view->source].base + view->offset,
               (size_t)view->size_bytes);
        view->source = 0;
        view->offset = (int32_t)used;
        used += view->size_bytes;
    }
    column->sources[0] = (struct kn_view_source){column->bytes.data, used, NULL};
    column->source_count = used ? 1 : 0;
}

void kn_columns_settle(struct kn_columns *columns)
{
    int64_t held = 0, used = 0;
    const struct kn_kept_bytes *kept = columns->held;
    if (kept && atomic_load_explicit(&kept->size_bytes, memory_order_relaxed) <=
                    atomic_load_explicit(&kept->max_bytes, memory_order_relaxed))
        return;
    for (int32_t i = 0; i < columns->chunk_count; i++)
        held += (int64_t)columns->chunks[i]->buffer->capacity_bytes;
    /* offsets of views have 32 bits */
    int64_t enough = held / PART_MIN < INT32_MAX ? held / PART_MIN : INT32_MAX;
    for (int32_t i = 0; i < columns->column_count && used < enough; i++) {
        if (borrows(&columns->columns[i])) used += long_bytes(&columns->columns[i], enough);
    }
    if (used >= enough) return;
    for (int32_t i = 0; i < columns->column_count; i++) {
        struct kn_column *column = &columns->columns[i];
        if (borrows(column) && kn_slab_reserve(columns->pool, &column->bytes, 0,
                                               (size_t)long_bytes(column, INT64_MAX)) != KN_OK)
            return;
    }
    for (int32_t i = 0; i < columns->column_count; i++) {
        if (borrows(&columns->columns[i])) own_views(&columns->columns[i]);
    }
    kn_columns_drop_chunks(columns);
}
