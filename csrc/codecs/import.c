/* Arrow columns of other libraries. import.h lists the possible checks.
 *
 * Thread: the caller's. Lock: none. It allocates nothing. */
#include "codecs/import.h"

#include <limits.h>
#include "base/utf8.h"

/* limit of an array's items, so that a product with an item's size can't overflow */
#define ITEMS_MAX ((int64_t)1 << 48)
#define VIEW_BYTES 16
#define VIEW_INLINE_BYTES 12

/* --- types --- */

static struct kn_arrow_type number_type(char letter)
{
    static const char letters[] = "cCsSiIlL";
    const char *at = letter ? strchr(letters, letter) : NULL;
    struct kn_arrow_type type = {.layout = KN_ARROW_OTHER};
    if (!at) return type;
    int index = (int)(at - letters);
    type.layout = KN_ARROW_INT;
    type.width = 1 << (index / 2);
    type.is_signed = index % 2 == 0;
    return type;
}

static struct kn_arrow_type time_type(const char *format)
{
    struct kn_arrow_type type = {.layout = KN_ARROW_TIME, .width = 8, .is_signed = 1};
    switch (format[2]) {
    case 's': type.per_ms = 0; break;
    case 'm': type.per_ms = 1; break;
    case 'u': type.per_ms = 1000; break;
    case 'n': type.per_ms = 1000000; break;
    default: type.layout = KN_ARROW_OTHER; return type;
    }
    if (format[3] != ':') type.layout = KN_ARROW_OTHER;
    return type;
}

static struct kn_arrow_type fixed_type(const char *digits)
{
    struct kn_arrow_type type = {.layout = KN_ARROW_OTHER};
    int64_t width = 0;
    if (!*digits) return type;
    for (; *digits; digits++) {
        if (*digits < '0' || *digits > '9') return type;
        width = width * 10 + (*digits - '0');
        if (width > INT32_MAX) return type;
    }
    type.layout = KN_ARROW_FIXED;
    type.width = (int32_t)width;
    return type;
}

struct kn_arrow_type kn_arrow_type_of(const char *format)
{
    static const struct {
        const char *format;
        enum kn_arrow_layout layout;
    } known[] = {
        {"n", KN_ARROW_NULL},    {"z", KN_ARROW_BYTES32}, {"u", KN_ARROW_BYTES32},
        {"Z", KN_ARROW_BYTES64}, {"U", KN_ARROW_BYTES64}, {"vz", KN_ARROW_VIEWS},
        {"vu", KN_ARROW_VIEWS},  {"+l", KN_ARROW_LIST32}, {"+m", KN_ARROW_LIST32},
        {"+L", KN_ARROW_LIST64}, {"+s", KN_ARROW_STRUCT},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(format, known[i].format) == 0)
            return (struct kn_arrow_type){.layout = known[i].layout};
    }
    if (format[0] && !format[1]) return number_type(format[0]);
    if (strncmp(format, "ts", 2) == 0) return time_type(format);
    if (strncmp(format, "w:", 2) == 0) return fixed_type(format + 2);
    return (struct kn_arrow_type){.layout = KN_ARROW_OTHER};
}

static enum kn_arrow_layout layout_of(const struct ArrowSchema *schema)
{
    return kn_arrow_type_of(schema->format).layout;
}

const char *kn_arrow_check_schema(const struct ArrowSchema *schema)
{
    if (!schema->release) return "the schema was released";
    if (!schema->format) return "a schema without a format";
    if (schema->n_children < 0 || (schema->n_children > 0 && !schema->children))
        return "a schema with an impossible number of children";
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (!schema->children[i] || !schema->children[i]->format)
            return "a schema with a child that isn't there";
        if (!schema->children[i]->release) return "a column's schema was released";
    }
    return NULL;
}

/* Returns a child of a column. A schema may have been moved out of its parent, so this checks it
 * again. */
static const struct ArrowSchema *child_of(const struct ArrowSchema *schema, int64_t index)
{
    if (index >= schema->n_children || !schema->children) return NULL;
    const struct ArrowSchema *child = schema->children[index];
    return child && child->format && child->release ? child : NULL;
}

bool kn_arrow_can_be_numbers(const struct ArrowSchema *schema, int times)
{
    struct kn_arrow_type type = kn_arrow_type_of(schema->format);
    if (schema->dictionary) return 0;
    if (type.layout == KN_ARROW_NULL) return 1;
    if (times)
        return type.layout == KN_ARROW_TIME ||
               (type.layout == KN_ARROW_INT && type.width == 8 && type.is_signed);
    return type.layout == KN_ARROW_INT;
}

static int is_bytes(enum kn_arrow_layout layout)
{
    return layout == KN_ARROW_NULL || layout == KN_ARROW_BYTES32 || layout == KN_ARROW_BYTES64 ||
           layout == KN_ARROW_VIEWS || layout == KN_ARROW_FIXED;
}

bool kn_arrow_can_be_bytes(const struct ArrowSchema *schema)
{
    const struct ArrowSchema *values = schema->dictionary;
    if (!values) return is_bytes(layout_of(schema));
    return layout_of(schema) == KN_ARROW_INT && values->release && values->format &&
           !values->dictionary && is_bytes(layout_of(values));
}

bool kn_arrow_can_be_pairs(const struct ArrowSchema *schema)
{
    enum kn_arrow_layout layout = layout_of(schema);
    if (layout == KN_ARROW_NULL) return 1;
    if (schema->dictionary || (layout != KN_ARROW_LIST32 && layout != KN_ARROW_LIST64) ||
        schema->n_children != 1)
        return 0;
    const struct ArrowSchema *entries = child_of(schema, 0);
    if (!entries || entries->dictionary || layout_of(entries) != KN_ARROW_STRUCT ||
        entries->n_children != 2)
        return 0;
    const struct ArrowSchema *key = child_of(entries, 0), *value = child_of(entries, 1);
    return key && value && kn_arrow_can_be_bytes(key) && kn_arrow_can_be_bytes(value);
}

/* --- arrays --- */

int kn_arrow_check_array(const struct ArrowArray *array, int64_t skip, int64_t length,
                         int64_t buffers, struct kn_arrow_problem *problem)
{
    if (!array) return kn_arrow_wrong(problem, -1, "an array isn't there");
    if (!array->release) return kn_arrow_wrong(problem, -1, "the array was released");
    if (array->length < 0 || array->length > ITEMS_MAX || array->offset < 0 ||
        array->offset > ITEMS_MAX) {
        return kn_arrow_wrong(problem, -1, "an impossible length or offset");
    }
    if (array->null_count < -1 || array->null_count > array->length)
        return kn_arrow_wrong(problem, -1, "an impossible number of nulls");
    if (skip + length > array->length)
        return kn_arrow_wrong(problem, -1, "fewer rows than the table");
    if (buffers < 0 ? array->n_buffers < -buffers : buffers && array->n_buffers != buffers) {
        return kn_arrow_wrong(problem, -1, "a wrong number of buffers for its type");
    }
    if (array->n_buffers > 0 && !array->buffers) return kn_arrow_wrong(problem, -1, "no buffers");
    if (array->n_children < 0 || (array->n_children > 0 && !array->children))
        return kn_arrow_wrong(problem, -1, "an impossible number of children");
    return KN_OK;
}

int kn_arrow_bind_validity(const struct ArrowArray *array, int64_t skip,
                           struct kn_arrow_validity *validity, struct kn_arrow_problem *problem)
{
    validity->bits = array->null_count == 0 ? NULL : array->buffers[0];
    validity->first = array->offset + skip;
    if (!validity->bits && array->null_count > 0)
        return kn_arrow_wrong(problem, -1, "nulls, but no validity bitmap");
    return KN_OK;
}

int kn_arrow_bind_numbers(const struct ArrowSchema *schema, const struct ArrowArray *array,
                          int64_t skip, int64_t length, struct kn_arrow_numbers *numbers,
                          struct kn_arrow_problem *problem)
{
    memset(numbers, 0, sizeof *numbers);
    numbers->type = kn_arrow_type_of(schema->format);
    int status = kn_arrow_check_array(array, skip, length,
                                      numbers->type.layout == KN_ARROW_NULL ? 0 : 2, problem);
    if (status != KN_OK || numbers->type.layout == KN_ARROW_NULL) return status;
    status = kn_arrow_bind_validity(array, skip, &numbers->validity, problem);
    if (status != KN_OK || length == 0) return status;
    if (!array->buffers[1]) return kn_arrow_wrong(problem, -1, "no data buffer");
    numbers->data = (const uint8_t *)array->buffers[1] +
                    (array->offset + skip) * numbers->type.width;
    return KN_OK;
}

/* It has no branch per row, because there are many rows. */
int kn_arrow_check_offsets(const uint8_t *offsets, int wide, int64_t count,
                           struct kn_arrow_problem *problem)
{
    int64_t falls = 0;
    if (wide) {
        for (int64_t i = 0; i < count; i++)
            falls |= kn_arrow_i64(offsets + i * 8 + 8) < kn_arrow_i64(offsets + i * 8);
        falls |= kn_arrow_i64(offsets) < 0;
    } else {
        for (int64_t i = 0; i < count; i++)
            falls |= kn_arrow_i32(offsets + i * 4 + 4) < kn_arrow_i32(offsets + i * 4);
        falls |= kn_arrow_i32(offsets) < 0;
    }
    if (!falls) return KN_OK;
    int64_t row = 0, last = 0;
    for (; row < count; row++) {
        int64_t start = wide ? kn_arrow_i64(offsets + row * 8) : kn_arrow_i32(offsets + row * 4);
        int64_t end = wide ? kn_arrow_i64(offsets + row * 8 + 8)
                           : kn_arrow_i32(offsets + row * 4 + 4);
        if (start < last || end < start) break;
        last = start;
    }
    return kn_arrow_wrong(problem, row, "decreasing offsets");
}

static int bind_strings(const struct ArrowArray *array, int64_t skip, int64_t length,
                        struct kn_arrow_bytes *bytes, struct kn_arrow_problem *problem)
{
    int wide = bytes->type.layout == KN_ARROW_BYTES64;
    if (!array->buffers[1]) return kn_arrow_wrong(problem, -1, "no buffer of offsets");
    bytes->offsets = (const uint8_t *)array->buffers[1] + (array->offset + skip) * (wide ? 8 : 4);
    int status = kn_arrow_check_offsets(bytes->offsets, wide, length, problem);
    if (status != KN_OK) return status;
    bytes->data = array->buffers[2];
    bytes->data_bytes = wide ? kn_arrow_i64(bytes->offsets + length * 8)
                             : kn_arrow_i32(bytes->offsets + length * 4);
    if (!bytes->data && bytes->data_bytes > 0) return kn_arrow_wrong(problem, -1, "no data buffer");
    return KN_OK;
}

static int bind_views(const struct ArrowArray *array, int64_t skip, struct kn_arrow_bytes *bytes,
                      struct kn_arrow_problem *problem)
{
    if (!array->buffers[1]) return kn_arrow_wrong(problem, -1, "no buffer of views");
    bytes->offsets = (const uint8_t *)array->buffers[1] + (array->offset + skip) * VIEW_BYTES;
    bytes->view_count = array->n_buffers - 3;
    bytes->view_buffers = array->buffers + 2;
    bytes->view_sizes = array->buffers[array->n_buffers - 1];
    if (bytes->view_count > 0 && !bytes->view_sizes)
        return kn_arrow_wrong(problem, -1, "no sizes of its view buffers");
    return KN_OK;
}

int kn_arrow_bind_plain(struct kn_arrow_type type, const struct ArrowArray *array, int64_t skip,
                        int64_t length, struct kn_arrow_bytes *bytes,
                        struct kn_arrow_problem *problem)
{
    enum kn_arrow_layout layout = type.layout;
    int64_t buffers = layout == KN_ARROW_NULL    ? 0
                      : layout == KN_ARROW_FIXED ? 2
                      : layout == KN_ARROW_VIEWS ? -3
                                                 : 3;
    memset(bytes, 0, sizeof *bytes);
    bytes->type = type;
    bytes->length = length;
    int status = kn_arrow_check_array(array, skip, length, buffers, problem);
    if (status != KN_OK || layout == KN_ARROW_NULL) return status;
    status = kn_arrow_bind_validity(array, skip, &bytes->validity, problem);
    if (status != KN_OK || length == 0) return status;
    if (layout == KN_ARROW_VIEWS) return bind_views(array, skip, bytes, problem);
    if (layout != KN_ARROW_FIXED) return bind_strings(array, skip, length, bytes, problem);
    if (bytes->type.width > 0 && array->offset + skip + length > INT64_MAX / bytes->type.width) {
        return kn_arrow_wrong(problem, -1, "an impossible length or offset");
    }
    if (!array->buffers[1] && bytes->type.width > 0)
        return kn_arrow_wrong(problem, -1, "no data buffer");
    bytes->offsets = bytes->type.width ? (const uint8_t *)array->buffers[1] +
                                             (array->offset + skip) * bytes->type.width
                                       : NULL;
    return KN_OK;
}

int kn_arrow_bind_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array,
                        int64_t skip, int64_t length, struct kn_arrow_bytes *bytes,
                        struct kn_arrow_problem *problem)
{
    struct kn_arrow_numbers indices;
    memset(bytes, 0, sizeof *bytes);
    if (!schema->dictionary)
        return kn_arrow_bind_plain(kn_arrow_type_of(schema->format), array, skip, length, bytes,
                                   problem);
    int status = kn_arrow_bind_numbers(schema, array, skip, length, &indices, problem);
    if (status != KN_OK) return status;
    if (!array->dictionary) return kn_arrow_wrong(problem, -1, "no dictionary");
    if (array->dictionary->length < 0)
        return kn_arrow_wrong(problem, -1, "a dictionary with an impossible length");
    status = kn_arrow_bind_plain(kn_arrow_type_of(schema->dictionary->format), array->dictionary, 0,
                                 array->dictionary->length, bytes, problem);
    bytes->by_dictionary = 1;
    bytes->indices = indices;
    return status;
}

int kn_arrow_bind_pairs(const struct ArrowSchema *schema, const struct ArrowArray *array,
                        int64_t skip, int64_t length, struct kn_arrow_pairs *pairs,
                        struct kn_arrow_problem *problem)
{
    memset(pairs, 0, sizeof *pairs);
    pairs->type = kn_arrow_type_of(schema->format);
    int wide = pairs->type.layout == KN_ARROW_LIST64;
    int status = kn_arrow_check_array(array, skip, length,
                                      pairs->type.layout == KN_ARROW_NULL ? 0 : 2, problem);
    if (status != KN_OK || pairs->type.layout == KN_ARROW_NULL) return status;
    status = kn_arrow_bind_validity(array, skip, &pairs->validity, problem);
    if (status != KN_OK || length == 0) return status;
    if (!array->buffers[1]) return kn_arrow_wrong(problem, -1, "no buffer of offsets");
    pairs->offsets = (const uint8_t *)array->buffers[1] + (array->offset + skip) * (wide ? 8 : 4);
    status = kn_arrow_check_offsets(pairs->offsets, wide, length, problem);
    if (status != KN_OK) return status;
    if (array->n_children != 1) return kn_arrow_wrong(problem, -1, "a list without its entries");
    const struct ArrowArray *entries = array->children[0];
    const struct ArrowSchema *schemas = schema->children[0];
    pairs->entry_count = wide ? kn_arrow_i64(pairs->offsets + length * 8)
                              : kn_arrow_i32(pairs->offsets + length * 4);
    if (pairs->entry_count > ITEMS_MAX)
        return kn_arrow_wrong(problem, -1, "an impossible length or offset");
    if ((status = kn_arrow_check_array(entries, 0, pairs->entry_count, 1, problem)) != KN_OK)
        return status;
    if ((status = kn_arrow_bind_validity(entries, 0, &pairs->entries, problem)) != KN_OK)
        return status;
    if (entries->n_children != 2)
        return kn_arrow_wrong(problem, -1, "entries without a key and a value");
    status = kn_arrow_bind_bytes(schemas->children[0], entries->children[0], entries->offset,
                                 pairs->entry_count, &pairs->keys, problem);
    if (status == KN_OK) {
        status = kn_arrow_bind_bytes(schemas->children[1], entries->children[1], entries->offset,
                                     pairs->entry_count, &pairs->values, problem);
    }
    if (status != KN_OK) problem->row = -1; /* the row of the dictionary, not of the table */
    return status;
}

int kn_arrow_check_table(const struct ArrowSchema *schema, const struct ArrowArray *array,
                         struct kn_arrow_problem *problem)
{
    struct kn_arrow_validity validity;
    int status = kn_arrow_check_array(array, 0, 0, 1, problem);
    if (status != KN_OK) return status;
    if (array->n_children != schema->n_children)
        return kn_arrow_wrong(problem, -1, "the number of columns isn't that of its schema");
    for (int64_t i = 0; i < array->n_children; i++) {
        if (!array->children[i]) return kn_arrow_wrong(problem, -1, "a column isn't there");
    }
    if ((status = kn_arrow_bind_validity(array, 0, &validity, problem)) != KN_OK) return status;
    for (int64_t row = 0; validity.bits && row < array->length; row++) {
        if (kn_arrow_is_null(&validity, row))
            return kn_arrow_wrong(problem, row, "the struct that should be a row is null");
    }
    return KN_OK;
}

/* --- rows --- */

int kn_arrow_entry(const struct kn_arrow_bytes *bytes, int64_t row, int64_t *index)
{
    *index = -1;
    if (kn_arrow_number_is_null(&bytes->indices, row)) return KN_OK;
    int status = kn_arrow_number(&bytes->indices, row, index);
    return status != KN_OK || *index < 0 || *index >= bytes->length ? KN_ERR_INVALID : KN_OK;
}

int kn_arrow_view(const struct kn_arrow_bytes *bytes, int64_t index, const uint8_t **data,
                  int64_t *size)
{
    const uint8_t *view = bytes->offsets + index * VIEW_BYTES;
    int32_t length = kn_arrow_i32(view);
    if (length < 0) return KN_ERR_INVALID;
    *size = length;
    *data = view + 4;
    if (length <= VIEW_INLINE_BYTES) return KN_OK;
    int32_t buffer = kn_arrow_i32(view + 8);
    int64_t start = kn_arrow_i32(view + 12);
    if (buffer < 0 || buffer >= bytes->view_count || start < 0) return KN_ERR_INVALID;
    const uint8_t *from = bytes->view_buffers[buffer];
    if (!from || start + length > kn_arrow_i64(bytes->view_sizes + (int64_t)buffer * 8))
        return KN_ERR_INVALID;
    *data = from + start;
    return KN_OK;
}

int kn_arrow_check_bytes(const struct kn_arrow_bytes *bytes, int64_t length,
                         struct kn_arrow_problem *problem)
{
    const uint8_t *data;
    int64_t size;
    /* The offsets were checked by the binding, and the rest can't be wrong. */
    if (!bytes->by_dictionary && bytes->type.layout != KN_ARROW_VIEWS) return KN_OK;
    for (int64_t row = 0; row < length; row++) {
        if (kn_arrow_value(bytes, row, &data, &size) == KN_OK) continue;
        return kn_arrow_wrong(problem, row,
                              bytes->by_dictionary ? "a dictionary index that is out of range"
                                                   : "a view outside of its buffers");
    }
    return KN_OK;
}

static int check_pair(const struct kn_arrow_pairs *pairs, int64_t entry, int64_t row,
                      struct kn_arrow_problem *problem)
{
    const uint8_t *data;
    int64_t size;
    if (kn_arrow_is_null(&pairs->entries, entry))
        return kn_arrow_wrong(problem, row, "a header that is null");
    if (kn_arrow_value(&pairs->values, entry, &data, &size) != KN_OK)
        return kn_arrow_wrong(problem, row, "a header's value outside of its buffers");
    if (kn_arrow_value(&pairs->keys, entry, &data, &size) != KN_OK)
        return kn_arrow_wrong(problem, row, "a header's key outside of its buffers");
    if (!data) return kn_arrow_wrong(problem, row, "a header whose key is null");
    if (!kn_utf8_is_valid(data, (size_t)size))
        return kn_arrow_wrong(problem, row, "a header whose key isn't UTF-8");
    return KN_OK;
}

int kn_arrow_check_pairs(const struct kn_arrow_pairs *pairs, int64_t length,
                         struct kn_arrow_problem *problem)
{
    for (int64_t row = 0; row < length; row++) {
        int64_t first, end;
        if (kn_arrow_pair_range(pairs, row, &first, &end) != KN_OK)
            return kn_arrow_wrong(problem, row, "decreasing offsets");
        for (; first < end; first++) {
            int status = check_pair(pairs, first, row, problem);
            if (status != KN_OK) return status;
        }
    }
    return KN_OK;
}
