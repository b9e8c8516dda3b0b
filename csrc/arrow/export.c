/* Exports columns: see export.h. */
#include "arrow/export.h"

#include <errno.h>
#include <stdlib.h>

#include "codecs/slab.h"

static const char *const NAMES[KN_FIELD_COUNT] = {
    [KN_FIELD_TOPIC] = "topic",
    [KN_FIELD_PARTITION] = "partition",
    [KN_FIELD_OFFSET] = "offset",
    [KN_FIELD_TIMESTAMP] = "timestamp",
    [KN_FIELD_TIMESTAMP_TYPE] = "timestamp_type",
    [KN_FIELD_KEY] = "key",
    [KN_FIELD_VALUE] = "value",
    [KN_FIELD_HEADERS] = "headers",
    [KN_FIELD_LEADER_EPOCH] = "leader_epoch",
    [KN_FIELD_DELIVERY_COUNT] = "delivery_count",
    [KN_FIELD_KEY_ERROR] = "key_error",
    [KN_FIELD_VALUE_ERROR] = "value_error",
    [KN_FIELD_KEY_BYTES] = "key_bytes",
    [KN_FIELD_VALUE_BYTES] = "value_bytes",
    [KN_FIELD_FIELD] = "field",
    [KN_FIELD_ERROR] = "error",
};

const char *kn_column_name(enum kn_column_field field) { return NAMES[field]; }

const char *kn_column_format(const struct kn_column_spec *spec)
{
    switch (spec->layout) {
    case KN_LAYOUT_INT8: return "c";
    case KN_LAYOUT_INT32:
    case KN_LAYOUT_DICTIONARY: return "i";
    case KN_LAYOUT_INT64:
        return spec->ticks == 0      ? "l"
               : spec->ticks == 1    ? "tsm:UTC"
               : spec->ticks == 1000 ? "tsu:UTC"
                                     : "tsn:UTC";
    case KN_LAYOUT_BYTES: return spec->is_text ? "u" : "z";
    case KN_LAYOUT_LARGE_BYTES: return spec->is_text ? "U" : "Z";
    case KN_LAYOUT_VIEW: return spec->is_text ? "vu" : "vz";
    case KN_LAYOUT_LIST: return "+l";
    case KN_LAYOUT_DECODED: return spec->type->nodes[0].format;
    }
    return NULL;
}

/* Returns how many exported columns a column has. */
static int32_t width_of(const struct kn_column_spec *spec)
{
    return spec->is_flat ? spec->type->nodes[0].child_count : 1;
}

/* --- schemas --- */

static void schema_release(struct ArrowSchema *schema)
{
    for (int64_t i = 0; i < schema->n_children; i++) kn_arrow_release_schema(schema->children[i]);
    free(schema->children);
    if (schema->dictionary) kn_arrow_release_schema(schema->dictionary);
    free(schema->dictionary);
    schema->release = NULL;
}

/* Texts are static. On failure *out is released. */
static int schema_make(struct ArrowSchema *out, const char *format, const char *name, int64_t flags,
                       int64_t child_count)
{
    *out = (struct ArrowSchema){
        .format = format, .name = name, .flags = flags, .release = schema_release};
    if (!child_count) return KN_OK;
    /* pointers, then the structs behind them */
    out->children = calloc((size_t)child_count, sizeof *out->children + sizeof **out->children);
    if (!out->children) {
        schema_release(out);
        return KN_ERR_NOMEM;
    }
    struct ArrowSchema *child = (struct ArrowSchema *)(void *)(out->children + child_count);
    while (out->n_children < child_count) out->children[out->n_children++] = child++;
    return KN_OK;
}

static int schema_of_headers(struct ArrowSchema *out)
{
    int status = schema_make(out, "+l", NAMES[KN_FIELD_HEADERS], ARROW_FLAG_NULLABLE, 1);
    if (status == KN_OK)
        status = schema_make(out->children[0], "+s", "item", ARROW_FLAG_NULLABLE, 2);
    if (status == KN_OK) status = schema_make(out->children[0]->children[0], "u", "key", 0, 0);
    if (status == KN_OK)
        status = schema_make(out->children[0]->children[1], "z", "value", ARROW_FLAG_NULLABLE, 0);
    return status;
}

static int schema_of(const struct kn_column_spec *spec, struct ArrowSchema *out)
{
    if (spec->layout == KN_LAYOUT_LIST) return schema_of_headers(out);
    if (spec->layout == KN_LAYOUT_DECODED) {
        int made = kn_layout_export(spec->type, out);
        if (made == KN_OK) out->name = NAMES[spec->field];
        return made;
    }
    int status = schema_make(out, kn_column_format(spec), NAMES[spec->field], ARROW_FLAG_NULLABLE,
                             0);
    if (status != KN_OK || spec->layout != KN_LAYOUT_DICTIONARY) return status;
    if (!(out->dictionary = calloc(1, sizeof *out->dictionary))) return KN_ERR_NOMEM;
    return schema_make(out->dictionary, "u", "", ARROW_FLAG_NULLABLE, 0);
}

/* Exports the fields of a struct. */
static int schemas_of_fields(struct kn_layout *type, struct ArrowSchema **out)
{
    int status = KN_OK;
    for (int32_t node = 1; node < type->node_count && status == KN_OK; out++) {
        status = kn_layout_export_field(type, node, *out);
        node = type->nodes[node].end;
    }
    return status;
}

int kn_columns_export_schema(const struct kn_column_spec *specs, int32_t column_count,
                             struct ArrowSchema *out)
{
    int64_t width = 0;
    for (int32_t i = 0; i < column_count; i++) width += width_of(&specs[i]);
    int status = schema_make(out, "+s", "", 0, width);
    struct ArrowSchema **child = out->children;
    for (int32_t i = 0; i < column_count && status == KN_OK; i++) {
        status = specs[i].is_flat ? schemas_of_fields(specs[i].type, child)
                                  : schema_of(&specs[i], *child);
        child += width_of(&specs[i]);
    }
    if (status != KN_OK) kn_arrow_release_schema(out);
    return status;
}

/* --- arrays --- */

struct exported {               /* the private data of one ArrowArray */
    struct kn_columns *columns; /* a reference */
    int64_t *lengths;           /* sizes of the memory that views point into */
    const void *buffers[];
};

/* An empty buffer isn't NULL, because some importers don't accept NULL. */
static const uint8_t *data_or_nothing(const struct kn_slab *slab)
{
    static const _Alignas(KN_SLAB_ALIGNMENT) uint8_t nothing[KN_SLAB_ALIGNMENT];
    return slab->data ? slab->data : nothing;
}

static void array_release(struct ArrowArray *array)
{
    struct exported *exported = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) kn_arrow_release_array(array->children[i]);
    free(array->children);
    if (array->dictionary) kn_arrow_release_array(array->dictionary);
    free(array->dictionary);
    array->release = NULL;
    kn_columns_unref(exported->columns);
    free(exported->lengths);
    free(exported);
}

/* On failure *out is released. */
static int array_make(struct ArrowArray *out, struct kn_columns *columns, int64_t length,
                      int64_t buffer_count, int64_t child_count)
{
    memset(out, 0, sizeof *out);
    struct exported *exported = calloc(1, sizeof *exported +
                                              (size_t)buffer_count * sizeof exported->buffers[0]);
    if (!exported) return KN_ERR_NOMEM;
    exported->columns = kn_columns_ref(columns);
    *out = (struct ArrowArray){.length = length,
                               .n_buffers = buffer_count,
                               .buffers = exported->buffers,
                               .release = array_release};
    out->private_data = exported;
    if (!child_count) return KN_OK;
    /* pointers, then the structs behind them */
    out->children = calloc((size_t)child_count, sizeof *out->children + sizeof **out->children);
    if (!out->children) {
        array_release(out);
        return KN_ERR_NOMEM;
    }
    struct ArrowArray *child = (struct ArrowArray *)(void *)(out->children + child_count);
    while (out->n_children < child_count) out->children[out->n_children++] = child++;
    return KN_OK;
}

/* Exports offsets and bytes, of the topic names or of a column. */
static int array_of_bytes(struct kn_columns *columns, int64_t length, const struct kn_slab *offsets,
                          const struct kn_slab *bytes, struct ArrowArray *out)
{
    int status = array_make(out, columns, length, 3, 0);
    if (status != KN_OK) return status;
    out->buffers[1] = data_or_nothing(offsets);
    out->buffers[2] = data_or_nothing(bytes);
    return KN_OK;
}

static int array_of_views(struct kn_columns *columns, const struct kn_column *column,
                          struct ArrowArray *out)
{
    int32_t count = column->source_count;
    int status = array_make(out, columns, column->length, 3 + count, 0);
    if (status != KN_OK) return status;
    struct exported *exported = out->private_data;
    if (!(exported->lengths = calloc((size_t)count + 1, sizeof *exported->lengths))) {
        array_release(out);
        return KN_ERR_NOMEM;
    }
    out->buffers[1] = data_or_nothing(&column->items);
    for (int32_t i = 0; i < count; i++) {
        const struct kn_view_source *source = &column->sources[i];
        out->buffers[2 + i] = source->base ? source->base : data_or_nothing(&columns->names.bytes);
        exported->lengths[i] = source->base ? source->size_bytes : columns->names.bytes_used;
    }
    out->buffers[2 + count] = exported->lengths;
    return KN_OK;
}

static int array_of(struct kn_columns *columns, const struct kn_column *column,
                    struct ArrowArray *out);

static int array_of_headers(struct kn_columns *columns, const struct kn_column *column,
                            struct ArrowArray *out)
{
    int status = array_make(out, columns, column->length, 2, 1);
    if (status != KN_OK) return status;
    out->buffers[1] = data_or_nothing(&column->items);
    status = array_make(out->children[0], columns, column->parts[0].length, 1, 2);
    for (int i = 0; i < 2 && status == KN_OK; i++)
        status = array_of(columns, &column->parts[i], out->children[0]->children[i]);
    if (status != KN_OK) array_release(out);
    return status;
}

static int array_of_dictionary(struct kn_columns *columns, const struct kn_column *column,
                               struct ArrowArray *out)
{
    int status = array_make(out, columns, column->length, 2, 0);
    if (status != KN_OK) return status;
    out->buffers[1] = data_or_nothing(&column->items);
    out->dictionary = calloc(1, sizeof *out->dictionary);
    status = out->dictionary ? KN_OK : KN_ERR_NOMEM;
    if (status == KN_OK)
        status = array_of_bytes(columns, columns->names.count, &columns->names.offsets,
                                &columns->names.bytes, out->dictionary);
    if (status != KN_OK) array_release(out);
    return status;
}

static int array_of(struct kn_columns *columns, const struct kn_column *column,
                    struct ArrowArray *out)
{
    int status;
    switch (column->spec.layout) {
    case KN_LAYOUT_DECODED: return kn_builder_export(column->builder, out);
    case KN_LAYOUT_LIST: status = array_of_headers(columns, column, out); break;
    case KN_LAYOUT_DICTIONARY: status = array_of_dictionary(columns, column, out); break;
    case KN_LAYOUT_VIEW: status = array_of_views(columns, column, out); break;
    case KN_LAYOUT_BYTES:
    case KN_LAYOUT_LARGE_BYTES:
        status = array_of_bytes(columns, column->length, &column->items, &column->bytes, out);
        break;
    default:
        status = array_make(out, columns, column->length, 2, 0);
        if (status == KN_OK) out->buffers[1] = data_or_nothing(&column->items);
    }
    if (status != KN_OK) return status;
    out->null_count = column->null_count;
    out->buffers[0] = column->null_count ? column->validity.data : NULL;
    return KN_OK;
}

/* Exports the fields of a struct. */
static int arrays_of_fields(struct kn_builder *builder, struct ArrowArray **out)
{
    const struct kn_layout *type = builder->layout;
    int status = KN_OK;
    for (int32_t node = 1; node < type->node_count && status == KN_OK; out++) {
        status = kn_builder_export_field(builder, node, *out);
        node = type->nodes[node].end;
    }
    return status;
}

int kn_columns_export(struct kn_columns *columns, struct ArrowArray *out)
{
    int64_t width = 0;
    for (int32_t i = 0; i < columns->column_count; i++)
        width += width_of(&columns->columns[i].spec);
    int status = array_make(out, columns, columns->row_count, 1, width);
    struct ArrowArray **child = out->children;
    for (int32_t i = 0; i < columns->column_count && status == KN_OK; i++) {
        struct kn_column *column = &columns->columns[i];
        status = column->spec.is_flat ? arrays_of_fields(column->builder, child)
                                      : array_of(columns, column, *child);
        child += width_of(&column->spec);
    }
    if (status != KN_OK) kn_arrow_release_array(out);
    return status;
}

/* --- a stream of one array --- */

struct single {
    struct kn_columns *columns; /* a reference */
    int done;
};

static int single_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    const struct kn_columns *columns = ((struct single *)stream->private_data)->columns;
    struct kn_column_spec specs[KN_FIELD_COUNT];
    for (int32_t i = 0; i < columns->column_count; i++) specs[i] = columns->columns[i].spec;
    return kn_columns_export_schema(specs, columns->column_count, out) == KN_OK ? 0 : ENOMEM;
}

static int single_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    struct single *single = stream->private_data;
    out->release = NULL;
    if (single->done) return 0;
    if (kn_columns_export(single->columns, out) != KN_OK) return ENOMEM;
    single->done = 1;
    return 0;
}

static const char *single_error(struct ArrowArrayStream *stream)
{
    (void)stream;
    return "out of memory"; /* there is no other error */
}

static void single_release(struct ArrowArrayStream *stream)
{
    struct single *single = stream->private_data;
    stream->release = NULL;
    kn_columns_unref(single->columns);
    free(single);
}

int kn_columns_export_stream(struct kn_columns *columns, struct ArrowArrayStream *out)
{
    memset(out, 0, sizeof *out);
    struct single *single = malloc(sizeof *single);
    if (!single) return KN_ERR_NOMEM;
    *single = (struct single){kn_columns_ref(columns), 0};
    *out = (struct ArrowArrayStream){single_schema, single_next, single_error, single_release,
                                     single};
    return KN_OK;
}
