/* Compression contexts, one of each kind a thread.
 *
 * A fresh zstd or deflate context is hundreds of kilobytes; making one a batch would cost more than
 * compressing it.
 * Thread: each thread sees its own slots only. Lock: none. Who frees: the thread's end, through the
 * slot's release function.
 */
#ifndef KN_RECORDS_CODEC_LOCAL_H
#define KN_RECORDS_CODEC_LOCAL_H

enum kn_codec_slot_id {
    KN_SLOT_DEFLATE,
    KN_SLOT_INFLATE,
    KN_SLOT_LZ4_COMPRESS,
    KN_SLOT_LZ4_DECOMPRESS,
    KN_SLOT_ZSTD_COMPRESS,
    KN_SLOT_ZSTD_DECOMPRESS,
    KN_SLOT_COUNT
};

struct kn_codec_slot {
    void *context;           /* NULL: not made yet */
    void (*release)(void *); /* set together with context */
    int level;               /* what the context was made for, where that matters */
};

/* This thread's slot, or NULL: no memory. */
struct kn_codec_slot *kn_codec_local(enum kn_codec_slot_id id);
/* Frees what the slot holds; it can be filled again. */
void kn_codec_slot_clear(struct kn_codec_slot *slot);

#endif
