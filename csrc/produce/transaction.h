/* The transaction state that broker threads and produce() need.
 *
 * Thread: the control thread writes it (kn_engine_transaction_*); application threads read `open`,
 * and broker threads read the rest. All fields are atomic: if a broker thread reads an old value,
 * its partition only sends one more event.
 *
 * A partition's batches are sent after the partition has joined the transaction. Once per
 * transaction, when it has a batch to take, the leader's thread asks for that with
 * KN_EVENT_TXN_PARTITION; kn_accumulator_admit() is the answer. With KIP-890 (`implicit`) the first
 * write joins, and the event is only a notice. */
#ifndef KN_PRODUCE_TRANSACTION_H
#define KN_PRODUCE_TRANSACTION_H

#include <stdatomic.h>
#include <stdint.h>

struct kn_event;

#define KN_TRANSACTIONAL_ID_BYTES_MAX 512

struct kn_transaction {
    _Atomic int64_t number; /* rises with each transaction; 0: there was none yet */
    atomic_int open;        /* messages are accepted */
    /* nothing of the transaction is sent before this time: the coordinator still writes the markers
     * of the previous one (see control/transactions.py) */
    _Atomic int64_t held_us;
    atomic_int implicit;
    /* a batch that the broker refuses because of its records doesn't fail the transaction, see
     * kn_accumulator_tolerates() */
    atomic_int tolerant;
    /* the event that reports the first batch of the transaction that failed; NULL: it was sent
     * already */
    struct kn_event *_Atomic failure;
};

#endif
