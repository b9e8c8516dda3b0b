/* What programs have besides their instructions: a table of numbers, and constant bytes. The
 * instructions refer to both by index.
 *
 * Thread: the program's; it never changes. Who frees: kn_program_data_deinit(). */
#ifndef KN_CODECS_PROGRAM_DATA_H
#define KN_CODECS_PROGRAM_DATA_H

#include <stdbool.h>
#include <stdint.h>
#include "base/copy.h"
#include "base/status.h"

struct kn_program_data {
    const int32_t *table;
    int32_t table_count;
    int32_t constant_bytes;
    const uint8_t *constants;
};

/* Copies the table and the constants; NULL: there are none. KN_OK, KN_ERR_INVALID (a size below
 * zero) or KN_ERR_NOMEM. After a failure, too, kn_program_data_deinit() is allowed. */
static inline int kn_program_data_init(struct kn_program_data *data,
                                       const struct kn_program_data *from)
{
    static const struct kn_program_data NONE = {0};
    if (!from) from = &NONE;
    *data = NONE;
    if (from->table_count < 0 || from->constant_bytes < 0) return KN_ERR_INVALID;
    data->table_count = from->table_count;
    data->constant_bytes = from->constant_bytes;
    data->table = kn_copy_of(from->table, (size_t)from->table_count * sizeof *from->table);
    data->constants = kn_copy_of(from->constants, (size_t)from->constant_bytes);
    return data->table && data->constants ? KN_OK : KN_ERR_NOMEM;
}

static inline void kn_program_data_deinit(struct kn_program_data *data)
{
    free((void *)(uintptr_t)data->table);
    free((void *)(uintptr_t)data->constants);
}

/* Returns whether the table has `count` groups of `size` entries from `first` on. */
static inline bool kn_program_has_entries(const struct kn_program_data *data, int32_t first,
                                          int32_t count, int32_t size)
{
    return first >= 0 && count >= 0 && first + (int64_t)count * size <= data->table_count;
}

/* Returns whether the constants have `size_bytes` from `first` on. */
static inline bool kn_program_has_constant(const struct kn_program_data *data, int32_t first,
                                           int32_t size_bytes)
{
    return first >= 0 && size_bytes >= 0 && first + (int64_t)size_bytes <= data->constant_bytes;
}

#endif
