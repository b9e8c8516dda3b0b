/* Compression contexts per thread: see codec_local.h.
 *
 * Thread: any. Lock: none (the key is made once). Who frees: free_slots at the end of the thread.
 */
#include "records/codec_local.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_key_t slots_key;
static int slots_key_made;
static pthread_once_t slots_once = PTHREAD_ONCE_INIT;

void kn_codec_slot_clear(struct kn_codec_slot *slot)
{
    if (slot->context) slot->release(slot->context);
    slot->context = NULL;
}

static void free_slots(void *memory)
{
    struct kn_codec_slot *slots = memory;
    for (int id = 0; id < KN_SLOT_COUNT; id++) kn_codec_slot_clear(&slots[id]);
    free(slots);
}

static void make_key(void) { slots_key_made = pthread_key_create(&slots_key, free_slots) == 0; }

struct kn_codec_slot *kn_codec_local(enum kn_codec_slot_id id)
{
    pthread_once(&slots_once, make_key);
    if (!slots_key_made) return NULL;

    struct kn_codec_slot *slots = pthread_getspecific(slots_key);
    if (!slots) {
        slots = calloc(KN_SLOT_COUNT, sizeof *slots);
        if (!slots) return NULL;
        if (pthread_setspecific(slots_key, slots) != 0) {
            free(slots);
            return NULL;
        }
    }
    return &slots[id];
}
