/* Rows of Arrow columns as messages. See rows.h. */
#include "arrow/rows.h"

#include <stdlib.h>
#include "base/hash.h"
#include "base/status.h"
#include "base/utf8.h"
#include "records/batch_writer.h"

#define RUN KN_PRODUCE_RUN_MAX
#define SCRATCH_RUN_BYTES ((size_t)256 << 10) /* limit of a run's headers: more end it early */
#define HEADER_VARINTS_BYTES 10
#define FIRST_TOPICS 16
#define STEP_ROWS 65536 /* between two checks for signals */
/* the year 287396: a larger value has a wrong unit */
#define TIMESTAMP_MAX_MS ((int64_t)1 << 53)

void kn_rows_init(struct kn_rows *rows)
{
    memset(rows, 0, sizeof *rows);
    for (int i = 0; i < KN_ROWS_ROLES; i++) rows->columns[i] = -1;
    rows->partition = -1;
}

void kn_rows_deinit(struct kn_rows *rows)
{
    for (int role = 0; role <= KN_ROWS_KEY; role++) {
        free(rows->added_headers[role].data);
        rows->added_headers[role].data = NULL;
    }
    free(rows->scratch);
    free(rows->table);
    rows->scratch = NULL;
    rows->table = NULL;
}

int kn_rows_add_header(struct kn_rows *rows, enum kn_rows_role role, const uint8_t *name,
                       int32_t name_bytes, const uint8_t *value, int32_t value_bytes)
{
    uint8_t *data = malloc(HEADER_VARINTS_BYTES + (size_t)name_bytes + (size_t)value_bytes);
    if (!data) return KN_ERR_NOMEM;
    uint8_t *end = kn_header_encode(data, name, name_bytes, value, value_bytes);
    rows->added_headers[role] = (struct kn_rows_header){data, (size_t)(end - data)};
    return KN_OK;
}

const char *kn_rows_check_type(const struct ArrowSchema *schema, enum kn_rows_role role)
{
    switch (role) {
    case KN_ROWS_HEADERS:
        return kn_arrow_can_be_pairs(schema)
                   ? NULL
                   : "list<struct<key, value>> or map, of strings or binary";
    case KN_ROWS_TIMESTAMP:
        return kn_arrow_can_be_numbers(schema, 1) ? NULL : "timestamp, or int64 milliseconds";
    case KN_ROWS_PARTITION: return kn_arrow_can_be_numbers(schema, 0) ? NULL : "integer";
    default:
        return kn_arrow_can_be_bytes(schema)
                   ? NULL
                   : "binary or string (large, view, fixed-size or dictionary, too)";
    }
}

/* --- numbers --- */

/* Milliseconds since 1970; 0 for a null: now. */
static int timestamp_at(const struct kn_arrow_numbers *numbers, int64_t row, int64_t *ms)
{
    int64_t value, per_ms = numbers->type.layout == KN_ARROW_TIME ? numbers->type.per_ms : 1;
    *ms = 0;
    if (kn_arrow_number_is_null(numbers, row)) return KN_OK;
    if (kn_arrow_number(numbers, row, &value) != KN_OK || value < 0) return KN_ERR_INVALID;
    if (!per_ms && value > TIMESTAMP_MAX_MS / 1000) return KN_ERR_INVALID;
    *ms = per_ms ? value / per_ms : value * 1000;
    return *ms <= TIMESTAMP_MAX_MS ? KN_OK : KN_ERR_INVALID;
}

static int partition_at(const struct kn_arrow_numbers *numbers, int64_t row, int32_t *partition)
{
    int64_t value;
    *partition = -1;
    if (kn_arrow_number_is_null(numbers, row)) return KN_OK;
    if (kn_arrow_number(numbers, row, &value) != KN_OK || value < -1 || value > INT32_MAX)
        return KN_ERR_INVALID;
    *partition = (int32_t)value;
    return KN_OK;
}

static int check_numbers(const struct kn_rows *rows, enum kn_rows_role role,
                         struct kn_arrow_problem *problem)
{
    int64_t ms;
    int32_t partition;
    for (int64_t row = 0; row < rows->length; row++) {
        if (role == KN_ROWS_TIMESTAMP) {
            if (timestamp_at(&rows->timestamp, row, &ms) == KN_OK) continue;
            return kn_arrow_wrong(problem, row,
                                  "a timestamp out of range: before 1970, or in another unit");
        }
        if (partition_at(&rows->partitions, row, &partition) != KN_OK)
            return kn_arrow_wrong(problem, row, "a partition out of range");
        if (partition < 0 && rows->needs_partition)
            return kn_arrow_wrong(problem, row,
                                  "no partition, and partitioner_cb isn't called for rows");
    }
    return KN_OK;
}

/* --- a chunk --- */

static int check_topics(const struct kn_rows *rows, struct kn_arrow_problem *problem)
{
    const uint8_t *name;
    int64_t size;
    int status = kn_arrow_check_bytes(&rows->topics, rows->length, problem);
    for (int64_t row = 0; status == KN_OK && row < rows->length; row++) {
        kn_arrow_value(&rows->topics, row, &name, &size);
        if (!name && !rows->topic) return kn_arrow_wrong(problem, row, "no topic");
        if (!name) continue;
        if (size < 1 || size > INT16_MAX)
            return kn_arrow_wrong(problem, row, "a topic's name has 1 to 249 characters");
        if (!kn_utf8_is_valid(name, (size_t)size))
            return kn_arrow_wrong(problem, row, "a topic's name that isn't UTF-8");
    }
    return status;
}

/* Binds one column and checks its rows. */
static int bind_column(struct kn_rows *rows, enum kn_rows_role role,
                       const struct ArrowSchema *schema, const struct ArrowArray *array,
                       int64_t skip, struct kn_arrow_problem *problem)
{
    int64_t length = rows->length;
    int status;
    switch (role) {
    case KN_ROWS_HEADERS:
        status = kn_arrow_bind_pairs(schema, array, skip, length, &rows->headers, problem);
        return status == KN_OK ? kn_arrow_check_pairs(&rows->headers, length, problem) : status;
    case KN_ROWS_TIMESTAMP:
    case KN_ROWS_PARTITION:
        status = kn_arrow_bind_numbers(
            schema, array, skip, length,
            role == KN_ROWS_TIMESTAMP ? &rows->timestamp : &rows->partitions, problem);
        return status == KN_OK ? check_numbers(rows, role, problem) : status;
    case KN_ROWS_TOPIC:
        status = kn_arrow_bind_bytes(schema, array, skip, length, &rows->topics, problem);
        return status == KN_OK ? check_topics(rows, problem) : status;
    default: {
        struct kn_arrow_bytes *bytes = role == KN_ROWS_KEY ? &rows->key : &rows->value;
        status = kn_arrow_bind_bytes(schema, array, skip, length, bytes, problem);
        return status == KN_OK ? kn_arrow_check_bytes(bytes, length, problem) : status;
    }
    }
}

int kn_rows_bind(struct kn_rows *rows, const struct ArrowSchema *schema,
                 const struct ArrowArray *array, struct kn_arrow_problem *problem, int *role)
{
    rows->before += rows->length;
    rows->length = rows->at = 0;
    *role = -1;
    int status = KN_OK;
    if (!array->release) return kn_arrow_wrong(problem, -1, "the array was released");
    if (!rows->table_is_column) status = kn_arrow_check_table(schema, array, problem);
    if (status == KN_OK && array->length < 0)
        status = kn_arrow_wrong(problem, -1, "an impossible length or offset");
    if (status == KN_OK && rows->before + array->length > KN_DELIVERY_COUNTER_ROWS_MAX)
        status = kn_arrow_wrong(problem, -1, "too many rows for one call");
    if (status == KN_OK) rows->length = array->length;
    for (int i = 0; status == KN_OK && i < KN_ROWS_ROLES; i++) {
        int32_t column = rows->columns[i];
        if (column < 0) continue;
        *role = i;
        status = rows->table_is_column
                     ? bind_column(rows, i, schema, array, 0, problem)
                     : bind_column(rows, i, schema->children[column], array->children[column],
                                   array->offset, problem);
    }
    if (status == KN_OK) return KN_OK;
    rows->length = 0; /* no row of it may be queued */
    if (problem->row >= 0) problem->row += rows->before;
    return status;
}

/* --- topics by name --- */

static struct kn_rows_topic *topic_place(struct kn_rows_topic *table, uint32_t size, uint32_t hash,
                                         const uint8_t *name, int64_t name_bytes)
{
    uint32_t at = hash & (size - 1);
    for (;; at = (at + 1) & (size - 1)) {
        const struct kn_topic *topic = table[at].topic;
        if (!topic || (table[at].hash == hash && topic->name_bytes == name_bytes &&
                       memcmp(topic->name, name, (size_t)name_bytes) == 0))
            return &table[at];
    }
}

int kn_rows_add_topic(struct kn_rows *rows, struct kn_topic *topic)
{
    if (rows->table_count * 2 >= rows->table_size) {
        uint32_t size = rows->table_size ? rows->table_size * 2 : FIRST_TOPICS;
        struct kn_rows_topic *larger = calloc(size, sizeof *larger);
        if (!larger) return KN_ERR_NOMEM;
        for (uint32_t i = 0; i < rows->table_size; i++) {
            const struct kn_rows_topic *old = &rows->table[i];
            if (old->topic)
                *topic_place(larger, size, old->hash, (const uint8_t *)old->topic->name,
                             old->topic->name_bytes) = *old;
        }
        free(rows->table);
        rows->table = larger;
        rows->table_size = size;
    }
    uint32_t hash = kn_fnv1a(topic->name, (size_t)topic->name_bytes);
    struct kn_rows_topic *place = topic_place(rows->table, rows->table_size, hash,
                                              (const uint8_t *)topic->name, topic->name_bytes);
    if (!place->topic) rows->table_count++;
    *place = (struct kn_rows_topic){hash, topic};
    return KN_OK;
}

void kn_rows_topic_name(const struct kn_rows *rows, const uint8_t **name, int64_t *size)
{
    if (kn_arrow_value(&rows->topics, rows->at, name, size) != KN_OK || !*name)
        *name = (const uint8_t *)"", *size = 0;
}

/* Returns the topic of a row. KN_ERR_STALE: the binding must create the topic. */
static int topic_at(struct kn_rows *rows, int64_t row, struct kn_topic **topic)
{
    const uint8_t *name;
    int64_t size;
    *topic = rows->topic;
    if (rows->columns[KN_ROWS_TOPIC] < 0) return KN_OK;
    int status = kn_arrow_value(&rows->topics, row, &name, &size);
    if (status != KN_OK || !name) return status == KN_OK && *topic ? KN_OK : KN_ERR_INVALID;
    struct kn_topic *last = rows->last_topic;
    if (last && last->name_bytes == size && memcmp(last->name, name, (size_t)size) == 0) {
        *topic = last;
        return KN_OK;
    }
    if (!rows->table_size) return KN_ERR_STALE;
    *topic =
        topic_place(rows->table, rows->table_size, kn_fnv1a(name, (size_t)size), name, size)->topic;
    if (*topic) rows->last_topic = *topic;
    return *topic ? KN_OK : KN_ERR_STALE;
}

/* --- rows to messages --- */

static inline int piece_at(const struct kn_arrow_bytes *bytes, int64_t row, const uint8_t **data,
                           int32_t *size)
{
    int64_t whole;
    int status = kn_arrow_value(bytes, row, data, &whole);
    if (status == KN_OK && whole > INT32_MAX) return KN_ERR_TOO_LARGE;
    *size = (int32_t)whole;
    return status;
}

static int reserve_scratch(struct kn_rows *rows, size_t wanted)
{
    if (wanted <= rows->scratch_bytes) return KN_OK;
    uint8_t *larger = realloc(rows->scratch, wanted * 2);
    if (!larger) return KN_ERR_NOMEM;
    rows->scratch = larger;
    rows->scratch_bytes = wanted * 2;
    return KN_OK;
}

/* Encodes the headers of a row behind *used bytes of scratch. The pointer is set later, because the
 * scratch may move. */
static int headers_at(struct kn_rows *rows, int64_t row, struct kn_message *message, size_t *used)
{
    int64_t first, end;
    size_t start = *used;
    int status = kn_arrow_pair_range(&rows->headers, row, &first, &end);
    if (status != KN_OK) return status;
    if (end - first > INT32_MAX / 2) return KN_ERR_TOO_LARGE;
    message->header_count = (int32_t)(end - first);
    for (; first < end; first++) {
        const uint8_t *key, *value;
        int32_t key_bytes, value_bytes;
        if ((status = piece_at(&rows->headers.keys, first, &key, &key_bytes)) != KN_OK)
            return status;
        if ((status = piece_at(&rows->headers.values, first, &value, &value_bytes)) != KN_OK)
            return status;
        if (!key || kn_arrow_is_null(&rows->headers.entries, first)) return KN_ERR_INVALID;
        size_t wanted = *used + HEADER_VARINTS_BYTES + (size_t)key_bytes + (size_t)value_bytes;
        if (wanted - start > INT32_MAX) return KN_ERR_TOO_LARGE;
        if ((status = reserve_scratch(rows, wanted)) != KN_OK) return status;
        uint8_t *to = kn_header_encode(rows->scratch + *used, key, key_bytes, value,
                                       value ? value_bytes : -1);
        *used = (size_t)(to - rows->scratch);
    }
    message->headers_bytes = *used - start;
    return KN_OK;
}

/* Adds a header for the value or key behind *used bytes of scratch. */
static int add_header(struct kn_rows *rows, enum kn_rows_role role, struct kn_message *message,
                      size_t *used)
{
    const struct kn_rows_header *header = &rows->added_headers[role];
    size_t wanted = *used + header->size_bytes;
    if (message->headers_bytes + header->size_bytes > INT32_MAX) return KN_ERR_TOO_LARGE;
    int status = reserve_scratch(rows, wanted);
    if (status != KN_OK) return status;
    memcpy(rows->scratch + *used, header->data, header->size_bytes);
    *used = wanted;
    message->header_count++;
    message->headers_bytes += header->size_bytes;
    return KN_OK;
}

static inline int message_at(struct kn_rows *rows, int64_t row, struct kn_message *message,
                             size_t *used)
{
    int status = KN_OK;
    message->key = message->value = message->headers = NULL;
    message->headers_bytes = 0;
    message->key_bytes = message->value_bytes = message->header_count = 0;
    message->partition = rows->partition;
    message->timestamp_ms = rows->timestamp_ms;
    message->opaque = rows->counter ? kn_delivery_counter_token(rows->counter, rows->before + row)
                                    : NULL;
    if (rows->columns[KN_ROWS_VALUE] >= 0)
        status = piece_at(&rows->value, row, &message->value, &message->value_bytes);
    if (status == KN_OK && rows->columns[KN_ROWS_KEY] >= 0)
        status = piece_at(&rows->key, row, &message->key, &message->key_bytes);
    if (status == KN_OK && rows->columns[KN_ROWS_TIMESTAMP] >= 0)
        status = timestamp_at(&rows->timestamp, row, &message->timestamp_ms);
    if (status == KN_OK && rows->columns[KN_ROWS_PARTITION] >= 0)
        status = partition_at(&rows->partitions, row, &message->partition);
    if (status == KN_OK && rows->columns[KN_ROWS_HEADERS] >= 0)
        status = headers_at(rows, row, message, used);
    if (status == KN_OK && rows->added_headers[KN_ROWS_KEY].data && message->key)
        status = add_header(rows, KN_ROWS_KEY, message, used);
    if (status == KN_OK && rows->added_headers[KN_ROWS_VALUE].data && message->value)
        status = add_header(rows, KN_ROWS_VALUE, message, used);
    return status;
}

/* Collects messages from `at` on that go to one topic; *count is their number. The status is the
 * reason why row at + *count isn't among them. */
static int gather(struct kn_rows *rows, int64_t rows_max, struct kn_message *messages,
                  int32_t *count, struct kn_topic **topic)
{
    struct kn_topic *next;
    size_t used = 0;
    int status = topic_at(rows, rows->at, topic);
    int timed = rows->columns[KN_ROWS_TIMESTAMP] >= 0 || rows->timestamp_ms > 0;
    int64_t wall_ms = timed ? 0 : kn_wall_ms();
    int32_t limit = rows_max < RUN ? (int32_t)rows_max : RUN;
    *count = 0;
    while (status == KN_OK && *count < limit && used < SCRATCH_RUN_BYTES) {
        int64_t row = rows->at + *count;
        struct kn_message *message = &messages[*count];
        if (*count > 0 && rows->columns[KN_ROWS_TOPIC] >= 0) {
            status = topic_at(rows, row, &next);
            if (status != KN_OK || next != *topic) break;
        }
        status = message_at(rows, row, message, &used);
        if (status != KN_OK) break;
        message->wall_ms = rows->zero_is_time && !kn_arrow_number_is_null(&rows->timestamp, row)
                               ? KN_TIMESTAMP_GIVEN
                               : wall_ms;
        if (!timed) message->timestamp_ms = wall_ms;
        ++*count;
    }
    const uint8_t *at = rows->scratch;
    for (int32_t i = 0; i < *count && used; i++) {
        if (!messages[i].header_count) continue;
        messages[i].headers = at;
        at += messages[i].headers_bytes;
    }
    return status;
}

int kn_rows_append(struct kn_rows *rows, int64_t rows_max)
{
    struct kn_message messages[RUN];
    struct kn_topic *topic;
    int64_t end = rows->length - rows->at < rows_max ? rows->length : rows->at + rows_max;
    int status = KN_OK;
    while (status == KN_OK && rows->at < end) {
        int32_t count, queued = 0;
        status = gather(rows, end - rows->at, messages, &count, &topic);
        if (count == 0) return status;
        /* Counted before the first of them can have its outcome. */
        if (rows->counter) kn_delivery_counter_begin(rows->counter, count);
        status = kn_topic_produce_run(topic, messages, count, &queued);
        if (rows->counter && queued < count)
            kn_delivery_counter_settle(rows->counter, count - queued, 0);
        rows->at += queued;
        /* An error of gather() is returned when its row is the first of a run. */
    }
    return status;
}

static int append_again(void *context)
{
    struct kn_rows *rows = context;
    int64_t before = rows->at;
    int status = kn_rows_append(rows, RUN);
    return status == KN_ERR_FULL && rows->at > before ? KN_OK : status;
}

int kn_rows_append_waiting(struct kn_rows *rows, struct kn_engine *engine, int64_t *deadline_us,
                           int64_t stall_us)
{
    int64_t stop = rows->at + STEP_ROWS;
    int status = KN_OK, tries = 0;
    while (status == KN_OK && rows->at < stop && rows->at < rows->length) {
        int64_t before = rows->at;
        status = kn_rows_append(rows, stop - rows->at);
        if (rows->at > before && stall_us > 0) *deadline_us = kn_clock_us() + stall_us;
        if (status == KN_ERR_FULL)
            status = kn_engine_wait_for_room(engine, append_again, rows, *deadline_us, &tries);
    }
    return status;
}
