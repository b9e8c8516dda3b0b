/* The fetcher's slots: see fetch_slots.h. */
#include "engine/fetch_slots.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "engine/engine.h"

#define BUCKETS_AT_FIRST 16

static int has_id(const struct kn_cursor *cursor)
{
    static const uint8_t zeros[16];
    return memcmp(cursor->topic_id, zeros, sizeof zeros) != 0;
}

static uint32_t bucket_of(const struct kn_fetcher *fetcher, const void *topic, size_t topic_bytes, int32_t partition)
{
    return (kn_fnv1a(topic, topic_bytes) + (uint32_t)partition * 0x9e3779b1u) & (fetcher->bucket_count - 1);
}

static const void *key_of(const struct kn_fetcher *fetcher, const struct kn_cursor *cursor, size_t *bytes)
{
    *bytes = fetcher->by_id ? sizeof cursor->topic_id : (size_t)cursor->topic_bytes;
    return fetcher->by_id ? (const void *)cursor->topic_id : cursor->topic;
}

static void link_slot(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot)
{
    size_t bytes;
    const void *key = key_of(fetcher, slot->cursor, &bytes);
    struct kn_fetch_slot **bucket = &fetcher->buckets[bucket_of(fetcher, key, bytes, slot->cursor->partition)];
    slot->next = *bucket;
    *bucket = slot;
}

static void relink_all(struct kn_fetcher *fetcher)
{
    struct kn_list *lists[2] = {&fetcher->slots, &fetcher->forgotten};
    memset(fetcher->buckets, 0, fetcher->bucket_count * sizeof fetcher->buckets[0]);
    for (int i = 0; i < 2; i++)
        for (struct kn_list *node = lists[i]->next; node != lists[i]; node = node->next)
            link_slot(fetcher, KN_LIST_ENTRY(node, struct kn_fetch_slot, node));
}

static struct kn_fetch_slot *find(struct kn_fetcher *fetcher, const void *topic, size_t topic_bytes, int32_t partition, int gone)
{
    if (!fetcher->bucket_count) return NULL;
    struct kn_fetch_slot *slot = fetcher->buckets[bucket_of(fetcher, topic, topic_bytes, partition)];
    for (; slot; slot = slot->next) {
        size_t bytes;
        const void *key = key_of(fetcher, slot->cursor, &bytes);
        if (slot->gone == gone && slot->cursor->partition == partition && bytes == topic_bytes && memcmp(key, topic, bytes) == 0) return slot;
    }
    return NULL;
}

static int grow(struct kn_fetcher *fetcher)
{
    uint32_t count = fetcher->bucket_count ? fetcher->bucket_count * 2 : BUCKETS_AT_FIRST;
    struct kn_fetch_slot **buckets = realloc(fetcher->buckets, count * sizeof buckets[0]);
    if (!buckets) return KN_ERR_NOMEM;
    fetcher->buckets = buckets;
    fetcher->bucket_count = count;
    relink_all(fetcher);
    return KN_OK;
}

int kn_fetch_slots_add(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot)
{
    if ((uint32_t)fetcher->slot_count >= fetcher->bucket_count && grow(fetcher) != KN_OK) return KN_ERR_NOMEM;
    kn_list_push_back(&fetcher->slots, &slot->node);
    if (fetcher->slot_count++ == 0) atomic_fetch_add_explicit(&fetcher->broker->engine->fetcher_count, 1, memory_order_relaxed);
    fetcher->idless_count += !has_id(slot->cursor);
    link_slot(fetcher, slot);
    return KN_OK;
}

/* Out of its bucket. */
static void unlink_slot(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot)
{
    size_t bytes;
    const void *key = key_of(fetcher, slot->cursor, &bytes);
    struct kn_fetch_slot **at = &fetcher->buckets[bucket_of(fetcher, key, bytes, slot->cursor->partition)];
    while (*at != slot) at = &(*at)->next;
    *at = slot->next;
}

void kn_fetch_slots_remove(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot)
{
    kn_fetch_slots_unfile(fetcher, slot);
    kn_list_remove(&slot->node);
    if (--fetcher->slot_count == 0) atomic_fetch_sub_explicit(&fetcher->broker->engine->fetcher_count, 1, memory_order_relaxed);
    fetcher->resting_count -= slot->resting;
    fetcher->idless_count -= !has_id(slot->cursor);
    if (kn_fetch_slot_in_session(fetcher, slot)) {
        slot->gone = 1;
        kn_list_push_back(&fetcher->forgotten, &slot->node);
        fetcher->forgotten_count++;
    } else {
        unlink_slot(fetcher, slot);
        kn_fetch_slot_free(slot);
    }
}

void kn_fetch_slots_unfile(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot)
{
    if (slot->file == KN_FETCH_FILE_CHANGED) fetcher->changed_count--;
    if (slot->file == KN_FETCH_FILE_LEAVING) fetcher->leaving_count--;
    kn_list_remove(&slot->file_node);
    slot->file = KN_FETCH_FILE_NONE;
}

void kn_fetch_slots_file(struct kn_fetcher *fetcher, struct kn_fetch_slot *slot)
{
    int known = kn_fetch_slot_in_session(fetcher, slot);
    enum kn_fetch_file file = KN_FETCH_FILE_NONE;
    if (slot->resting && known) file = KN_FETCH_FILE_LEAVING;
    if (!slot->resting && (!known || slot->sent_offset != slot->offset)) file = KN_FETCH_FILE_CHANGED;
    if (file == slot->file) return;
    kn_fetch_slots_unfile(fetcher, slot);
    slot->file = file;
    if (file == KN_FETCH_FILE_CHANGED) {
        kn_list_push_back(&fetcher->changed, &slot->file_node);
        fetcher->changed_count++;
    } else if (file == KN_FETCH_FILE_LEAVING) {
        kn_list_push_back(&fetcher->leaving, &slot->file_node);
        fetcher->leaving_count++;
    }
}

int kn_fetch_slots_unforget(struct kn_fetcher *fetcher, const struct kn_cursor *cursor)
{
    size_t bytes;
    const void *key = key_of(fetcher, cursor, &bytes);
    struct kn_fetch_slot *old = find(fetcher, key, bytes, cursor->partition, 1);
    if (!old) return 0;
    unlink_slot(fetcher, old);
    kn_list_remove(&old->node);
    fetcher->forgotten_count--;
    kn_fetch_slot_free(old);
    return 1;
}

void kn_fetch_slot_free(struct kn_fetch_slot *slot)
{
    kn_cursor_unref(slot->cursor);
    free(slot);
}

struct kn_fetch_slot *kn_fetch_slots_find(struct kn_fetcher *fetcher, const void *topic, size_t topic_bytes, int32_t partition)
{
    return find(fetcher, topic, topic_bytes, partition, 0);
}

struct kn_fetch_slot *kn_fetch_slots_find_cursor(struct kn_fetcher *fetcher, const struct kn_cursor *cursor)
{
    size_t bytes;
    const void *key = key_of(fetcher, cursor, &bytes);
    if (!fetcher->bucket_count) return NULL;
    struct kn_fetch_slot *slot = fetcher->buckets[bucket_of(fetcher, key, bytes, cursor->partition)];
    while (slot && (slot->cursor != cursor || slot->gone)) slot = slot->next;
    return slot;
}

void kn_fetch_slots_key_by(struct kn_fetcher *fetcher, int by_id)
{
    if (fetcher->by_id == by_id) return;
    fetcher->by_id = by_id;
    if (fetcher->bucket_count) relink_all(fetcher);
}

void kn_fetch_slots_drop_forgotten(struct kn_fetcher *fetcher)
{
    struct kn_list *node;
    while ((node = kn_list_pop_front(&fetcher->forgotten))) {
        struct kn_fetch_slot *slot = KN_LIST_ENTRY(node, struct kn_fetch_slot, node);
        unlink_slot(fetcher, slot);
        kn_fetch_slot_free(slot);
    }
    fetcher->forgotten_count = 0;
}
