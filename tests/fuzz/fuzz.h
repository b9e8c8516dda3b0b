/* Helpers of the fuzz targets. A finding is a crash, a sanitizer report, or a failed FUZZ_CHECK. */
#ifndef KN_TESTS_FUZZ_H
#define KN_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/span.h"
#include "base/status.h"
#include "records/batch_writer.h"
#include "records/codec.h"
#include "records/record_reader.h"

#define FUZZ_CAP_BYTES ((size_t)256 << 10) /* small, so that inputs reach it easily */

#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

/* Reads every byte in [at, at + size), so that a wrong pointer is found. */
static inline uint32_t fuzz_touch(const uint8_t *at, int64_t size_bytes)
{
    volatile uint32_t sum = 0;
    for (int64_t i = 0; i < size_bytes; i++) sum += at[i];
    return sum;
}

/* Iterates the records of an opened batch, including the header values. Returns how many there
 * were. */
static inline int64_t fuzz_read_records(const struct kn_batch_view *opened)
{
    struct kn_record_reader reader;
    struct kn_record record, other;
    struct kn_header header;
    int64_t count = 0;

    if (kn_record_reader_init(&reader, opened) != KN_OK) return -1;
    for (;;) {
        struct kn_record_reader long_way = reader;
        int status = kn_record_reader_next(&reader, &record);
        FUZZ_CHECK(kn_record_reader_any(&long_way, &other) == status);
        if (status != KN_OK) break;
        FUZZ_CHECK(reader.span.at == long_way.span.at && record.offset == other.offset &&
                   record.timestamp_ms == other.timestamp_ms);
        FUZZ_CHECK(record.key == other.key && record.value == other.value &&
                   record.headers == other.headers);
        count++;
        FUZZ_CHECK(record.offset >= 0);
        if (record.key) fuzz_touch(record.key, record.key_bytes);
        if (record.value) fuzz_touch(record.value, record.value_bytes);
        struct kn_span span = kn_span_of(record.headers, (size_t)record.headers_bytes);
        for (int32_t i = 0; i < record.header_count; i++) {
            FUZZ_CHECK(kn_header_next(&span, &header) == KN_OK); /* next() has checked them */
            fuzz_touch(header.key, header.key_bytes);
            if (header.value) fuzz_touch(header.value, header.value_bytes);
        }
        FUZZ_CHECK(kn_span_left(&span) == 0);
    }
    return count;
}

/* Does what a fetch does with the records of a partition. */
static inline void fuzz_read_batches(const uint8_t *data, size_t size_bytes)
{
    static struct kn_codec_table codecs;
    static int ready;
    struct kn_span span = kn_span_of(data, size_bytes);
    struct kn_batch_view view;

    if (!ready) kn_codec_table_init(&codecs);
    ready = 1;
    for (;;) {
        struct kn_buffer *opened = NULL;
        view.last_offset = 0;
        int status = kn_batch_view_next(&span, &view);
        if (status != KN_OK) return;
        (void)kn_batch_view_check(&view); /* random bytes never match the checksum: go on anyway */
        status = kn_batch_view_open(&view, &codecs, FUZZ_CAP_BYTES, NULL, &opened);
        if (opened) FUZZ_CHECK(opened->size_bytes <= FUZZ_CAP_BYTES);
        if (status == KN_OK) fuzz_read_records(&view);
        FUZZ_CHECK(status == KN_OK || opened == NULL);
        kn_buffer_give(opened);
    }
}

#endif
