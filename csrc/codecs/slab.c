/* Growing memory of a column: see slab.h. */
#include "codecs/slab.h"

static size_t padding_of(const uint8_t *data)
{
    return (size_t)(-(uintptr_t)data & (KN_SLAB_ALIGNMENT - 1));
}

int kn_slab_grow(struct kn_pool *pool, struct kn_slab *slab, size_t used_bytes, size_t size_bytes)
{
    size_t wanted = slab->capacity_bytes * 2 > size_bytes ? slab->capacity_bytes * 2 : size_bytes;
    struct kn_buffer *buffer = kn_buffer_take(pool, wanted + KN_SLAB_ALIGNMENT);
    if (!buffer && wanted > size_bytes)
        buffer = kn_buffer_take(pool, size_bytes + KN_SLAB_ALIGNMENT);
    if (!buffer) return KN_ERR_NOMEM;
    size_t padding = padding_of(buffer->data);
    if (used_bytes) memcpy(buffer->data + padding, slab->data, used_bytes);
    kn_buffer_give(slab->buffer);
    slab->buffer = buffer;
    slab->data = buffer->data + padding;
    slab->capacity_bytes = buffer->capacity_bytes - padding;
    return KN_OK;
}

void kn_slab_deinit(struct kn_slab *slab)
{
    kn_buffer_give(slab->buffer);
    *slab = (struct kn_slab){0};
}
