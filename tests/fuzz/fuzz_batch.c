/* The record bytes of a fetched partition, unchanged: batches and messages of any magic. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    fuzz_read_batches(data, size_bytes);
    return 0;
}
