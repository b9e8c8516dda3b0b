/* Speed of base and records: append, iterate, checksum, compress. Prints the best of several
 * rounds, in nanoseconds per record or GB/s.
 *
 * tests/native/test_bench_records.py builds this program with the flags of a release, and runs it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/crc32c.h"
#include "base/status.h"
#include "records/batch_writer.h"
#include "records/record_reader.h"

#define RECORDS 9000 /* about a megabyte of 100-byte values */
#define VALUE_BYTES 100
#define ROUNDS 30

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void keep_best(double *best_ns, double since_ns)
{
    double took = now_ns() - since_ns;
    if (*best_ns == 0 || took < *best_ns) *best_ns = took;
}

static void append_all(struct kn_buffer *buffer, const uint8_t *value)
{
    struct kn_batch_writer writer;
    if (kn_batch_writer_init(&writer, buffer) != KN_OK) abort();
    for (int i = 0; i < RECORDS; i++) {
        if (kn_batch_writer_append(&writer, buffer, 1700000000000 + i / 100, NULL, -1, value,
                                   VALUE_BYTES, NULL, 0, 0) != KN_OK)
            abort();
    }
    kn_batch_close(buffer, &writer, &(struct kn_batch_meta){0, -1, 0, -1, -1, -1});
}

static int64_t iterate_all(const struct kn_batch_view *view)
{
    struct kn_record_reader reader;
    struct kn_record record;
    int64_t sum = 0;
    if (kn_record_reader_init(&reader, view) != KN_OK) abort();
    while (kn_record_reader_next(&reader, &record) == KN_OK)
        sum += record.value_bytes + record.offset;
    return sum;
}

static void bench_codecs(const struct kn_buffer *plain)
{
    struct kn_codec_table table;
    size_t size_bytes = plain->size_bytes - KN_BATCH_HEADER_BYTES;
    kn_codec_table_init(&table);
    for (int id = 1; id < KN_CODEC_COUNT; id++) {
        const struct kn_codec *codec = &table.codecs[id];
        double pack_ns = 0, unpack_ns = 0;
        struct kn_buffer *packed = kn_buffer_take(NULL, 2 * size_bytes),
                         *out = kn_buffer_take(NULL, 2 * size_bytes);
        for (int round = 0; codec->compress && round < 5; round++) {
            packed->size_bytes = out->size_bytes = 0;
            double start = now_ns();
            if (codec->compress(plain->data + KN_BATCH_HEADER_BYTES, size_bytes, -1, &packed) !=
                KN_OK)
                abort();
            keep_best(&pack_ns, start);
            start = now_ns();
            if (codec->decompress(packed->data, packed->size_bytes, size_bytes, &out) != KN_OK)
                abort();
            keep_best(&unpack_ns, start);
        }
        if (codec->compress)
            printf("%s_pack_gb_s %.2f\n%s_unpack_gb_s %.2f\n", codec->name,
                   (double)size_bytes / pack_ns, codec->name, (double)size_bytes / unpack_ns);
        kn_buffer_give(packed);
        kn_buffer_give(out);
    }
}

int main(void)
{
    uint8_t value[VALUE_BYTES];
    double append_ns = 0, iterate_ns = 0, crc_ns = 0, portable_ns = 0;
    volatile int64_t sum = 0;
    volatile uint32_t crc = 0;
    struct kn_buffer *buffer = kn_buffer_take(
        NULL, RECORDS * (VALUE_BYTES + KN_RECORD_OVERHEAD_MAX_BYTES));
    for (int i = 0; i < VALUE_BYTES; i++) value[i] = (uint8_t)(i * 37);
    for (int round = 0; round < ROUNDS; round++) {
        struct kn_batch_view view;
        double start = now_ns();
        append_all(buffer, value);
        keep_best(&append_ns, start);
        start = now_ns();
        crc = kn_crc32c(0, buffer->data, buffer->size_bytes);
        keep_best(&crc_ns, start);
        start = now_ns();
        crc ^= kn_crc32c_portable(0, buffer->data, buffer->size_bytes);
        keep_best(&portable_ns, start);
        struct kn_span span = kn_span_of(buffer->data, buffer->size_bytes);
        if (kn_batch_view_next(&span, &view) != KN_OK) abort();
        start = now_ns();
        sum += iterate_all(&view);
        keep_best(&iterate_ns, start);
    }
    printf("backend %s\n", kn_crc32c_backend());
    printf("append_ns %.1f\niterate_ns %.1f\n", append_ns / RECORDS, iterate_ns / RECORDS);
    printf("crc_gb_s %.2f\nportable_crc_gb_s %.2f\n", (double)buffer->size_bytes / crc_ns,
           (double)buffer->size_bytes / portable_ns);
    bench_codecs(buffer);
    kn_buffer_give(buffer);
    return crc == 0 ? 0 : 1; /* both checksums agree */
}
