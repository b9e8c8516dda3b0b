/* Memory kept in reserve: reserve.h. */
#include "net/reserve.h"

#include <stdlib.h>
#include <string.h>
#include "base/status.h"

int kn_reserve_init(struct kn_reserve *reserve, size_t piece_bytes, int count)
{
    kn_mutex_init(&reserve->lock, KN_RANK_LEAF);
    kn_list_init(&reserve->pieces);
    reserve->piece_bytes = piece_bytes;
    atomic_init(&reserve->missing, 0);
    for (int i = 0; i < count; i++) {
        struct kn_list *piece = malloc(piece_bytes);
        if (!piece) {
            kn_reserve_deinit(reserve);
            return KN_ERR_NOMEM;
        }
        kn_list_push_back(&reserve->pieces, piece);
    }
    return KN_OK;
}

void kn_reserve_deinit(struct kn_reserve *reserve)
{
    struct kn_list *piece;
    while ((piece = kn_list_pop_front(&reserve->pieces))) free(piece);
    kn_mutex_deinit(&reserve->lock);
}

void *kn_reserve_take(struct kn_reserve *reserve)
{
    void *piece = calloc(1, reserve->piece_bytes);
    if (piece) return piece;
    kn_mutex_lock(&reserve->lock);
    piece = kn_list_pop_front(&reserve->pieces);
    kn_mutex_unlock(&reserve->lock);
    if (!piece) return NULL;
    atomic_fetch_add(&reserve->missing, 1);
    return memset(piece, 0, reserve->piece_bytes);
}

void kn_reserve_give(struct kn_reserve *reserve, void *piece)
{
    int missing = atomic_load_explicit(&reserve->missing, memory_order_relaxed);
    while (missing > 0 && !atomic_compare_exchange_weak(&reserve->missing, &missing, missing - 1)) {
    }
    if (missing <= 0) {
        free(piece);
        return;
    }
    kn_mutex_lock(&reserve->lock);
    kn_list_push_back(&reserve->pieces, piece);
    kn_mutex_unlock(&reserve->lock);
}
