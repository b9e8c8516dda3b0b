/* From segments to columns: where it stops, where it goes on, and how stale segments are undone. */
#include "check.h"
#include "arrow/fill.h"
#include "base/status.h"
#include "engine/engine.h"
#include "records/batch_writer.h"

static const struct kn_column_spec SPECS[] = {{KN_FIELD_OFFSET, KN_LAYOUT_INT64, 0, 0},
                                              {KN_FIELD_VALUE, KN_LAYOUT_VIEW, 0, 0}};

static struct kn_engine *engine;
static struct kn_cursor *cursors[2];
static struct kn_fill fill;

static void begin(int64_t records_max)
{
    static const uint8_t no_id[16];
    struct kn_engine_config config;
    kn_engine_config_init(&config);
    engine = kn_engine_new(&config, NULL);
    for (int i = 0; i < 2; i++)
        cursors[i] = kn_cursor_new(&engine->consumer, i ? "second" : "first", i ? 6 : 5, no_id, i,
                                   (uint64_t)i + 1);
    memset(&fill, 0, sizeof fill);
    fill.columns = kn_columns_new(SPECS, 2, NULL, INT32_MAX);
    fill.queue = &engine->fetched;
    fill.records_max = records_max;
}

static void end(void)
{
    kn_segment_free(fill.segment);
    struct kn_list *node;
    while ((node = kn_queue_pop(fill.queue)))
        kn_segment_free(KN_LIST_ENTRY(node, struct kn_segment, node));
    kn_columns_unref(fill.columns);
    for (int i = 0; i < 2; i++) kn_cursor_unref(cursors[i]);
    kn_engine_stop(engine);
    kn_engine_free(engine);
    CHECK_EQ(kn_segment_live(), 0);
    CHECK_EQ(kn_cursor_live(), 0);
    CHECK_EQ(kn_chunk_live(), 0);
    CHECK_EQ(kn_columns_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
}

/* Makes a batch of `count` records from `offset` on, like a response. */
static struct kn_segment_batch batch_of(int64_t offset, int32_t count)
{
    struct kn_buffer *buffer = kn_buffer_take(NULL, 4096);
    struct kn_batch_writer writer;
    struct kn_batch_meta meta = {.base_offset = offset,
                                 .partition_leader_epoch = 3,
                                 .producer_id = -1,
                                 .producer_epoch = -1,
                                 .base_sequence = -1};
    CHECK_EQ(kn_batch_writer_init(&writer, buffer), KN_OK);
    for (int32_t i = 0; i < count; i++) {
        uint8_t value[20] = {'v'};
        CHECK_EQ(kn_buffer_reserve(&buffer, kn_record_bound_bytes(-1, sizeof value, 0)), KN_OK);
        CHECK_EQ(kn_batch_writer_append(&writer, buffer, 1000, NULL, -1, value, sizeof value, NULL,
                                        0, 0),
                 KN_OK);
    }
    kn_batch_close(buffer, &writer, &meta);
    struct kn_segment_batch batch = {.chunk = kn_chunk_new(buffer)};
    struct kn_span span = kn_span_of(buffer->data, buffer->size_bytes);
    CHECK_EQ(kn_batch_view_next(&span, &batch.view), KN_OK);
    return batch;
}

static struct kn_segment *push(int number, enum kn_segment_kind kind, int64_t offset,
                               int32_t batches, int32_t records)
{
    struct kn_segment *segment = kn_segment_new(kind, cursors[number],
                                                kn_cursor_epoch(cursors[number]), batches);
    segment->fetch_offset = offset;
    for (int32_t i = 0; i < batches; i++)
        segment->batches[segment->batch_count++] = batch_of(offset + (int64_t)i * records, records);
    segment->next_offset = offset + (int64_t)batches * records;
    kn_segment_account(segment, 100);
    kn_queue_push(&engine->fetched, &segment->node);
    return segment;
}

static void check_offsets(int64_t from, int64_t row_begin, int64_t count)
{
    const int64_t *offsets = (const int64_t *)(const void *)fill.columns->columns[0].items.data;
    CHECK(fill.columns->row_count >= row_begin + count);
    for (int64_t i = 0; i < count; i++) CHECK_EQ(offsets[row_begin + i], from + i);
}

static void test_takes_all_queued_segments(void)
{
    begin(10000);
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_DRAINED);
    push(0, KN_SEGMENT_DATA, 0, 3, 300);
    push(1, KN_SEGMENT_DATA, 50, 1, 10);
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_DRAINED);
    CHECK_EQ(fill.taken_count, 2);
    CHECK_EQ(fill.taken[0].first_offset, 0);
    CHECK_EQ(fill.taken[0].next_offset, 900);
    CHECK_EQ(fill.taken[0].leader_epoch, 3);
    CHECK(fill.taken[0].is_done && fill.taken[1].is_done && !fill.segment);
    CHECK_EQ(fill.columns->row_count, 910);
    check_offsets(0, 0, 900);
    check_offsets(50, 900, 10);
    kn_fill_finish(&fill);
    CHECK_EQ(kn_segment_live(), 0);
    end();
}

static void test_goes_on_in_the_middle_of_a_batch(void)
{
    begin(100);
    push(0, KN_SEGMENT_DATA, 0, 2, 300);
    for (int64_t done = 100; done <= 600; done += 100) {
        fill.records_max = done;
        CHECK_EQ(kn_fill_run(&fill), KN_FILL_FULL);
        CHECK_EQ(fill.columns->row_count, done);
        CHECK_EQ(fill.taken[fill.taken_count - 1].next_offset, done);
        kn_fill_finish(&fill);
    }
    fill.records_max = 700;
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_DRAINED);
    CHECK_EQ(fill.taken[0].first_offset, -1);
    CHECK(fill.taken[0].is_done);
    kn_fill_finish(&fill);
    check_offsets(0, 0, 600);
    end();
}

static void test_records_before_the_fetch_offset_are_left_out(void)
{
    begin(1000);
    push(0, KN_SEGMENT_DATA, 0, 1, 300)->fetch_offset = 290;
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_DRAINED);
    kn_fill_finish(&fill);
    CHECK_EQ(fill.columns->row_count, 10);
    check_offsets(290, 0, 10);
    end();
}

static void test_a_notice_stops_it(void)
{
    begin(1000);
    push(0, KN_SEGMENT_DATA, 0, 1, 10);
    struct kn_segment *notice = push(0, KN_SEGMENT_EOF, 10, 0, 0);
    push(1, KN_SEGMENT_DATA, 0, 1, 10);
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_NOTICE);
    CHECK(fill.segment == notice);
    CHECK_EQ(fill.columns->row_count, 10);
    kn_fill_finish(&fill);
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_NOTICE);
    CHECK_EQ(fill.taken_count, 0);
    end();
}

static void test_stale_segments_are_left_out(void)
{
    begin(1000);
    push(0, KN_SEGMENT_DATA, 0, 1, 10);
    kn_cursor_next_epoch(cursors[0]);
    push(0, KN_SEGMENT_DATA, 500, 1, 10);
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_DRAINED);
    CHECK_EQ(fill.taken_count, 1);
    kn_fill_finish(&fill);
    CHECK_EQ(fill.columns->row_count, 10);
    check_offsets(500, 0, 10);
    end();
}

static void test_stale_segments_are_reverted_and_the_rest_is_taken_again(void)
{
    begin(1000);
    push(0, KN_SEGMENT_DATA, 0, 1, 10);
    push(1, KN_SEGMENT_DATA, 0, 2, 10);
    push(0, KN_SEGMENT_DATA, 10, 2, 10);
    push(1, KN_SEGMENT_DATA, 20, 2, 300);
    push(1, KN_SEGMENT_EOF, 620, 0, 0);
    fill.records_max = 400; /* in the middle of the fourth */
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_FULL);
    CHECK_EQ(fill.taken_count, 4);
    kn_cursor_next_epoch(cursors[0]);
    kn_fill_revert(&fill, 0);
    CHECK_EQ(fill.columns->row_count, 0);
    CHECK(!fill.segment);
    kn_fill_finish(&fill);
    fill.records_max = 1000;
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_NOTICE);
    CHECK_EQ(fill.columns->row_count, 620);
    check_offsets(0, 0, 620);
    CHECK_EQ(fill.taken_count, 2);
    kn_cursor_next_epoch(cursors[1]);
    kn_fill_revert(&fill, 1);
    CHECK_EQ(fill.columns->row_count, 20);
    kn_fill_finish(&fill);
    /* the notice also went back to the queue, and is stale now */
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_DRAINED);
    CHECK_EQ(fill.taken_count, 0);
    end();
}

static void test_broken_records_are_said_again_and_again(void)
{
    begin(1000);
    struct kn_segment *segment = push(0, KN_SEGMENT_DATA, 0, 2, 10);
    segment->batches[0].view.record_count = 12; /* more than the batch has */
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_BROKEN);
    CHECK_EQ(fill.columns->row_count, 10);
    CHECK_EQ(fill.taken[0].next_offset, 10);
    CHECK(fill.segment == segment && fill.is_reading);
    kn_fill_finish(&fill);
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_BROKEN);
    CHECK_EQ(fill.columns->row_count, 10);
    kn_fill_finish(&fill);
    fill.is_reading = 0; /* as the binding does: go on with the next batch */
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_DRAINED);
    CHECK_EQ(fill.columns->row_count, 20);
    kn_fill_finish(&fill);
    end();
}

static void test_pauses_for_settling(void)
{
    begin(100000);
    for (int i = 0; i < KN_FILL_SEGMENTS + 5; i++) push(0, KN_SEGMENT_DATA, (int64_t)i * 10, 1, 10);
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_PAUSED);
    CHECK_EQ(fill.taken_count, KN_FILL_SEGMENTS);
    kn_fill_finish(&fill);
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_DRAINED);
    CHECK_EQ(fill.taken_count, 5);
    kn_fill_finish(&fill);
    check_offsets(0, 0, (KN_FILL_SEGMENTS + 5) * 10);
    end();
}

/* Appends a row, but only while decoded_max isn't reached. */
static int64_t decoded_max;

static int decode_row(const void *program, struct kn_builder *builder, const uint8_t *data,
                      int64_t size_bytes, struct kn_decode_problem *problem)
{
    (void)program;
    (void)data;
    CHECK_EQ(size_bytes, 20);
    *problem = (struct kn_decode_problem){0, 3, "enough"};
    if (builder->columns[0].length == decoded_max) return KN_ERR_INVALID;
    CHECK_EQ(kn_builder_reserve(builder, 0, 1), KN_OK);
    kn_builder_append_null(builder, 0);
    return KN_OK;
}

static void test_decoded_columns_stop_it_and_go_back(void)
{
    static const struct kn_node node = {.kind = KN_NODE_BYTES, .format = "u", .name = ""};
    static const char *const paths[] = {"field"};
    struct kn_layout *layout;
    struct kn_decoding decoding = {.reason_column = -1};
    const struct kn_schema_decoder decoder = {.decoder = {NULL, decode_row}, .paths = paths};
    begin(1000);
    CHECK_EQ(kn_layout_new(&node, 1, &layout), KN_OK);
    struct kn_column_spec specs[] = {
        SPECS[0], {.field = KN_FIELD_VALUE, .layout = KN_LAYOUT_DECODED, .type = layout}};
    kn_columns_unref(fill.columns);
    fill.columns = kn_columns_new(specs, 2, NULL, INT32_MAX);
    kn_schema_decoders_init(&decoding.decoders, KN_FRAMING_NONE, 0);
    kn_columns_set_decoding(fill.columns, 1, &decoding);
    const struct kn_builder *builder = fill.columns->columns[1].builder;
    push(0, KN_SEGMENT_DATA, 0, 1, 100);
    push(1, KN_SEGMENT_DATA, 0, 1, 100);

    CHECK_EQ(kn_fill_run(&fill), KN_FILL_UNKNOWN_SCHEMA);
    CHECK_EQ(fill.unfit_column, 1);
    CHECK_EQ(fill.unfit_offset, 0);
    CHECK_EQ(fill.columns->row_count, 0);
    kn_fill_finish(&fill);
    CHECK_EQ(kn_schema_decoders_add(&decoding.decoders, &decoder), KN_OK);
    decoded_max = 170;
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_UNFIT);
    CHECK_EQ(fill.unfit_offset, 70);
    CHECK_EQ(fill.columns->row_count, 170);
    CHECK_STR(decoding.failure.path, "field");
    kn_cursor_next_epoch(cursors[0]);
    kn_fill_revert(&fill, 0);
    CHECK_EQ(builder->columns[0].length, 0);
    kn_fill_finish(&fill);
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_DRAINED);
    CHECK_EQ(fill.columns->row_count, 100);
    CHECK_EQ(builder->columns[0].length, 100);
    kn_fill_finish(&fill);
    check_offsets(0, 0, 100);
    kn_schema_decoders_deinit(&decoding.decoders);
    kn_layout_unref(layout);
    end();
}

static void test_malformed_records_count_and_go_back(void)
{
    static const struct kn_node node = {.kind = KN_NODE_BYTES, .format = "u", .name = ""};
    static const char *const paths[] = {"field"};
    struct kn_layout *layout;
    struct kn_decoding decoding = {.skips_errors = 1, .reason_column = -1};
    const struct kn_schema_decoder decoder = {.decoder = {NULL, decode_row}, .paths = paths};
    begin(150);
    CHECK_EQ(kn_layout_new(&node, 1, &layout), KN_OK);
    struct kn_column_spec specs[] = {
        SPECS[0], {.field = KN_FIELD_VALUE, .layout = KN_LAYOUT_DECODED, .type = layout}};
    struct kn_column_spec malformed_specs[] = {
        {.field = KN_FIELD_OFFSET, .layout = KN_LAYOUT_INT64},
        {.field = KN_FIELD_FIELD, .layout = KN_LAYOUT_DECODED, .type = layout},
        {.field = KN_FIELD_ERROR, .layout = KN_LAYOUT_DECODED, .type = layout},
    };
    kn_columns_unref(fill.columns);
    fill.columns = kn_columns_new(specs, 2, NULL, INT32_MAX);
    struct kn_columns *malformed = kn_columns_new(malformed_specs, 3, NULL, INT32_MAX);
    kn_columns_set_malformed(fill.columns, malformed);
    kn_schema_decoders_init(&decoding.decoders, KN_FRAMING_NONE, 0);
    CHECK_EQ(kn_schema_decoders_add(&decoding.decoders, &decoder), KN_OK);
    kn_columns_set_decoding(fill.columns, 1, &decoding);
    push(0, KN_SEGMENT_DATA, 0, 1, 100);
    push(1, KN_SEGMENT_DATA, 0, 1, 100);

    decoded_max = 70; /* later records are malformed */
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_FULL);
    CHECK_EQ(fill.taken_count, 2);
    CHECK_EQ(fill.taken[1].next_offset, 50);
    CHECK_EQ(fill.columns->row_count, 70);
    CHECK_EQ(malformed->row_count, 80);
    kn_cursor_next_epoch(cursors[1]);
    kn_fill_revert(&fill, 1);
    CHECK_EQ(fill.columns->row_count, 70);
    CHECK_EQ(malformed->row_count, 30);
    CHECK_EQ(malformed->columns[2].builder->columns[0].length, 30);
    kn_fill_finish(&fill);
    CHECK_EQ(kn_fill_run(&fill), KN_FILL_DRAINED);
    kn_columns_unref(malformed);
    kn_schema_decoders_deinit(&decoding.decoders);
    kn_layout_unref(layout);
    end();
}

int main(void)
{
    RUN(test_takes_all_queued_segments);
    RUN(test_goes_on_in_the_middle_of_a_batch);
    RUN(test_records_before_the_fetch_offset_are_left_out);
    RUN(test_a_notice_stops_it);
    RUN(test_stale_segments_are_left_out);
    RUN(test_stale_segments_are_reverted_and_the_rest_is_taken_again);
    RUN(test_broken_records_are_said_again_and_again);
    RUN(test_pauses_for_settling);
    RUN(test_decoded_columns_stop_it_and_go_back);
    RUN(test_malformed_records_count_and_go_back);
    return check_done();
}
