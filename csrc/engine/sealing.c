/* Requests to be: see sealing.h for threads and owners. */
#include "engine/sealing.h"

#include "engine/batch_seal.h"
#include "engine/engine.h"

#define SEAL_HERE_BYTES ((size_t)32 << 10) /* a tenth of a millisecond, or gzip's half: not worth another thread's waking up */

/* Any thread of the crew: it notes in the batch what can't be, and the sender's thread acts on it. */
static void seal(struct kn_task *task)
{
    struct kn_sealing *sealing = KN_LIST_ENTRY(task, struct kn_sealing, task);
    for (int32_t i = 0; i < sealing->picks.count; i++) {
        struct kn_batch *batch = sealing->picks.batches[i];
        batch->status = kn_batch_prepare(sealing->broker->engine, batch, sealing->produce_version);
    }
}

static void wake(void *broker) { kn_broker_wake(broker); }

void kn_sealings_begin(struct kn_sealings *sealings, struct kn_broker *broker, int16_t produce_version)
{
    struct kn_engine *engine = broker->engine;
    struct kn_sealing *sealing = KN_LIST_ENTRY(kn_sealings_next(sealings), struct kn_sealing, picks);
    sealing->task.work = seal;
    sealing->task.tell = wake;
    sealing->task.whom = sealing->broker = broker;
    sealing->produce_version = produce_version;
    sealings->count++;
    if (engine->config.codec == KN_CODEC_NONE || sealing->picks.size_bytes < SEAL_HERE_BYTES) kn_task_do_here(&sealing->task);
    else kn_crew_begin(&engine->crew, &sealing->task);
}

struct kn_picks *kn_sealings_take_sealed(struct kn_sealings *sealings)
{
    struct kn_sealing *oldest = &sealings->ring[sealings->first];
    if (sealings->count == 0 || !kn_task_is_done(&oldest->task)) return NULL;
    sealings->first = (sealings->first + 1) % KN_SEALINGS_MAX;
    sealings->count--;
    return &oldest->picks;
}

struct kn_picks *kn_sealings_take(struct kn_sealings *sealings, struct kn_crew *crew)
{
    if (sealings->count > 0) kn_crew_finish(crew, &sealings->ring[sealings->first].task);
    return kn_sealings_take_sealed(sealings);
}
