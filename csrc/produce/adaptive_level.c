/* Chooses a form of the default level: adaptive_level.h. */
#include "produce/adaptive_level.h"

#include "base/status.h"

static int compress_form(const struct kn_codec *codec, int form, const uint8_t *src,
                         size_t size_bytes, struct kn_buffer **out)
{
    return codec->compress(src, size_bytes, KN_CODEC_LEVEL_DEFAULT - form, out);
}

/* Tries all forms. Leaves the output of the chosen one in *out. */
static int try_forms(struct kn_adaptive_level *adaptive_level, const struct kn_codec *codec,
                     const uint8_t *src, size_t size_bytes, struct kn_buffer **out)
{
    size_t before = (*out)->size_bytes, allowed = 0;
    int chosen = 0, last = codec->quicker_forms;

    for (int form = 0; form <= last; form++) {
        (*out)->size_bytes = before;
        int status = compress_form(codec, form, src, size_bytes, out);
        if (status != KN_OK) return status;
        size_t made = (*out)->size_bytes - before;
        if (form == 0) allowed = made + made / KN_ADAPTIVE_LEVEL_LOSS;
        if (made <= allowed) chosen = form;
    }
    atomic_store_explicit(&adaptive_level->form, chosen, memory_order_relaxed);
    if (chosen == last) return KN_OK;
    (*out)->size_bytes = before;
    return compress_form(codec, chosen, src, size_bytes, out);
}

int kn_adaptive_level_compress(struct kn_adaptive_level *adaptive_level,
                               const struct kn_codec *codec, const uint8_t *src, size_t size_bytes,
                               struct kn_buffer **out)
{
    if (codec->quicker_forms == 0 || size_bytes < KN_ADAPTIVE_LEVEL_BYTES)
        return compress_form(codec, 0, src, size_bytes, out);
    unsigned number = atomic_fetch_add_explicit(&adaptive_level->batches, 1, memory_order_relaxed);
    if (number % KN_ADAPTIVE_LEVEL_BATCHES == 0)
        return try_forms(adaptive_level, codec, src, size_bytes, out);
    return compress_form(codec, atomic_load_explicit(&adaptive_level->form, memory_order_relaxed),
                         src, size_bytes, out);
}
