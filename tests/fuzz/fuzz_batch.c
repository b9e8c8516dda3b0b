/* The records bytes of a fetched partition, as they come: batches and messages of any magic. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    fuzz_read_batches(data, size_bytes);
    return 0;
}
