/* Each allocation of base and records fails once: the status reports it, nothing is lost, nothing
 * leaks. */
#include "check.h"

#include <pthread.h>
#include <stdlib.h>

#include "failing_alloc.h"
#include "../../csrc/base/buffer.c"
#include "../../csrc/records/codec_local.c"
#undef malloc
#undef calloc
#undef realloc

#include "base/endian.h"
#include "records/batch_writer.h"
#include "records/record_reader.h"

#define VALUE_BYTES 20000

/* Writes a batch, compresses it and reads it back, as the engine does; all buffers come from one
 * pool. */
static int both_ways(struct kn_pool *pool, const struct kn_codec_table *codecs, int codec)
{
    static uint8_t value[VALUE_BYTES];
    struct kn_buffer *plain = kn_buffer_take(pool, 100), *packed = kn_buffer_take(pool, 100),
                     *opened = NULL;
    struct kn_batch_writer writer;
    struct kn_batch_view view;
    struct kn_record_reader reader;
    struct kn_record record;
    int status = plain && packed ? kn_batch_writer_init(&writer, plain) : KN_ERR_NOMEM;
    for (int i = 0; status == KN_OK && i < 10; i++) {
        status = kn_buffer_reserve(&plain, kn_record_bound_bytes(-1, VALUE_BYTES, 0));
        if (status == KN_OK)
            status = kn_batch_writer_append(&writer, plain, i, NULL, -1, value, VALUE_BYTES, NULL,
                                            0, 0);
    }
    if (status == KN_OK) {
        packed->size_bytes = KN_BATCH_HEADER_BYTES;
        status = codecs->codecs[codec].compress(plain->data + KN_BATCH_HEADER_BYTES,
                                                plain->size_bytes - KN_BATCH_HEADER_BYTES, 1,
                                                &packed);
    }
    if (status == KN_OK) {
        kn_batch_close(packed, &writer, &(struct kn_batch_meta){0, -1, (int16_t)codec, -1, -1, -1});
        struct kn_span span = kn_span_of(packed->data, packed->size_bytes);
        status = kn_batch_view_next(&span, &view);
    }
    if (status == KN_OK) status = kn_batch_view_open(&view, codecs, 1 << 20, pool, &opened);
    if (status == KN_OK) CHECK_EQ(kn_record_reader_init(&reader, &view), KN_OK);
    for (int i = 0; status == KN_OK && i < 10; i++) {
        CHECK_EQ(kn_record_reader_next(&reader, &record), KN_OK);
        CHECK_MEM(record.value, value, VALUE_BYTES);
    }
    kn_buffer_give(opened);
    kn_buffer_give(packed);
    kn_buffer_give(plain);
    return status;
}

struct attempt {
    const struct kn_codec_table *codecs;
    int codec;
    long fail_at;
    int status;
    int failed;
};

/* In a thread of its own, so that it makes new codec contexts each time. */
static void *attempt(void *argument)
{
    struct attempt *attempt = argument;
    allocations_left = attempt->fail_at;
    failed = 0;
    struct kn_pool *pool = kn_pool_new(1 << 20);
    attempt->status = pool ? both_ways(pool, attempt->codecs, attempt->codec) : KN_ERR_NOMEM;
    kn_pool_free(pool);
    attempt->failed = failed;
    allocations_left = -1;
    return NULL;
}

static void test_each_failed_allocation_is_reported_and_leaks_nothing(void)
{
    struct kn_codec_table codecs;
    kn_codec_table_init(&codecs);
    for (int codec = 1; codec < KN_CODEC_COUNT; codec++) {
        if (!codecs.codecs[codec].compress) continue;
        struct attempt one = {&codecs, codec, 0, 0, 1};
        for (; one.failed; one.fail_at++) {
            pthread_t thread;
            CHECK_EQ(pthread_create(&thread, NULL, attempt, &one), 0);
            pthread_join(thread, NULL);
            CHECK_EQ(one.status, one.failed ? KN_ERR_NOMEM : KN_OK);
            CHECK_EQ(kn_buffer_live(), 0);
        }
        CHECK(one.fail_at > 5); /* there were allocations to fail */
    }
}

int main(void)
{
    RUN(test_each_failed_allocation_is_reported_and_leaks_nothing);
    return check_done();
}
