/* The transaction that a client is in, as far as broker threads and produce() need to know.
 *
 * Thread: set by the control thread (kn_engine_transaction_*), read by application threads (`open`)
 * and broker threads. All of it is atomic: what a broker thread reads a moment late is a partition
 * that asks once more. A partition's batches are sent once it is in the transaction: its leader's
 * thread asks for that with KN_EVENT_TXN_PARTITION, once a transaction, when it has a batch to
 * take; kn_accumulator_admit() answers. With KIP-890 (`implicit`) writing adds it, and the event
 * only tells.
 */
#ifndef KN_PRODUCE_TRANSACTION_H
#define KN_PRODUCE_TRANSACTION_H

#include <stdatomic.h>
#include <stdint.h>

struct kn_event;

#define KN_TRANSACTIONAL_ID_BYTES_MAX 512

struct kn_transaction {
    _Atomic int64_t number; /* rises with each; 0: there was none yet */
    atomic_int open;        /* messages are taken */
    /* until then nothing of it is sent: the markers of the last one are being written (see
     * control/transactions.py) */
    _Atomic int64_t held_us;
    atomic_int implicit;
    /* what tells of the first batch of it that isn't written; NULL: that was told */
    struct kn_event *_Atomic failure;
};

#endif
