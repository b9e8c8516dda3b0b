/* Message sets: every message gets magic 0 or 1 and a size that fits, so that the fuzzer needn't
 * find them. */
#include "fuzz.h"

#include "base/endian.h"

#define AT_SIZE 8
#define AT_MAGIC 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (size_bytes < AT_MAGIC + 3) return 0;
    uint8_t *set = malloc(size_bytes);
    memcpy(set, data, size_bytes);
    set[0] &= 0x7f;
    set[AT_MAGIC] &= 1;
    kn_put_i32(set + AT_SIZE, (int32_t)(size_bytes - 12));
    fuzz_read_batches(set, size_bytes);
    memcpy(set, data, size_bytes);
    set[AT_MAGIC] &= 1; /* once more with the input's sizes */
    fuzz_read_batches(set, size_bytes);
    free(set);
    return 0;
}
