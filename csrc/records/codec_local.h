/* Compression contexts: each thread has one of each kind. A new zstd or deflate context has
 * hundreds of kilobytes; to make one per batch would cost more than the compression.
 *
 * Thread: each thread uses its own slots only. Lock: none.
 * Who frees: the end of the thread, with the slot's release function. */
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
    void (*release)(void *); /* frees the context; set together with it */
    int level;               /* the level of the context, for codecs that need it */
};

/* Returns this thread's slot; NULL: no memory. */
struct kn_codec_slot *kn_codec_local(enum kn_codec_slot_id id);
/* Frees the context of the slot; the slot can be filled again. */
void kn_codec_slot_clear(struct kn_codec_slot *slot);

#endif
