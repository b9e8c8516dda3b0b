/* The sticky partition. See sticky.h. */
#include "produce/sticky.h"

#include "net/broker.h"

#define LEADER_TRIES 4 /* how many random partitions to try for one with a leader; then */
#define LEADER_SCAN 32 /* how many neighbours of the last one */
/* partitions weighed for one choice; for a larger topic, this many in a row from a random one on */
#define CANDIDATES_MAX 64

int32_t kn_sticky_random(const struct kn_partition_table *table, int32_t not)
{
    int32_t choice = 0;
    if (table->count == 1) return 0;
    for (int i = 0; i < LEADER_TRIES; i++) {
        choice = (int32_t)kn_random_below((uint32_t)table->count);
        if (choice == not)
            choice = (choice + 1 + (int32_t)kn_random_below((uint32_t)table->count - 1)) %
                     table->count;
        if (kn_accumulator_leader(table->partitions[choice])) return choice;
    }
    for (int32_t i = 1; i <= table->count && i <= LEADER_SCAN; i++) {
        int32_t other = (choice + i) % table->count;
        if (other != not &&kn_accumulator_leader(table->partitions[other])) return other;
    }
    return choice;
}

/* Returns the length of the partition's queue; -1: it should get no messages. */
static int32_t queue_of(struct kn_accumulator *accumulator, int64_t not_blocked_before_us)
{
    const struct kn_broker *leader = kn_accumulator_leader(accumulator);
    if (!leader) return -1;
    int64_t blocked_us = atomic_load_explicit(&leader->blocked_since_us, memory_order_relaxed);
    if (blocked_us && blocked_us < not_blocked_before_us) return -1;
    return atomic_load_explicit(&accumulator->batches, memory_order_relaxed) +
           atomic_load_explicit(&leader->in_flight, memory_order_relaxed);
}

/* Partitions to choose from, and their queues. */
struct candidates {
    int32_t count, longest;
    int32_t partitions[CANDIDATES_MAX], queues[CANDIDATES_MAX];
};

static bool is_in_rack(const struct kn_accumulator *accumulator)
{
    const struct kn_broker *leader = kn_accumulator_leader(accumulator);
    return leader && atomic_load_explicit(&leader->in_client_rack, memory_order_relaxed);
}

static void add_candidate(struct candidates *found, int32_t partition, int32_t queue)
{
    found->partitions[found->count] = partition;
    found->queues[found->count++] = queue;
    if (queue > found->longest) found->longest = queue;
}

/* Collects partitions that should get messages. in_rack: only those with a leader in the client's
 * rack, and then all partitions are tried. */
static void collect_by_queue(const struct kn_sticky *sticky, const struct kn_partition_table *table,
                             bool in_rack, struct candidates *found)
{
    int64_t timeout_us = (int64_t)sticky->config->availability_timeout_ms * 1000;
    int64_t not_blocked_before_us = timeout_us > 0 ? kn_clock_us() - timeout_us : INT64_MIN;
    int32_t first = 0, tried_max = table->count;
    found->count = found->longest = 0;
    if (table->count > CANDIDATES_MAX) {
        first = (int32_t)kn_random_below((uint32_t)table->count);
        if (!in_rack) tried_max = CANDIDATES_MAX;
    }
    for (int32_t i = 0; i < tried_max && found->count < CANDIDATES_MAX; i++) {
        int32_t partition = (first + i) % table->count;
        struct kn_accumulator *accumulator = table->partitions[partition];
        if (in_rack && !is_in_rack(accumulator)) continue;
        int32_t queue = queue_of(accumulator, not_blocked_before_us);
        if (queue >= 0) add_candidate(found, partition, queue);
    }
}

/* Returns one of the candidates, at least one; the shorter its queue, the more probable. */
static int32_t choose_by_queue(const struct candidates *found)
{
    uint32_t total = 0;
    for (int32_t i = 0; i < found->count; i++)
        total += (uint32_t)(found->longest - found->queues[i] + 1);
    uint32_t at = kn_random_below(total);
    for (int32_t i = 0;; i++) {
        uint32_t weight = (uint32_t)(found->longest - found->queues[i] + 1);
        if (at < weight) return found->partitions[i];
        at -= weight;
    }
}

int32_t kn_sticky_draw(const struct kn_sticky *sticky, const struct kn_partition_table *table,
                       int32_t last)
{
    struct candidates found = {.count = 0};
    if (!sticky->config->rack_aware || table->count == 1) return kn_sticky_random(table, last);
    int32_t first = table->count > CANDIDATES_MAX ? (int32_t)kn_random_below((uint32_t)table->count)
                                                  : 0;
    for (int32_t i = 0; i < table->count && found.count < CANDIDATES_MAX; i++) {
        int32_t partition = (first + i) % table->count;
        if (partition != last && is_in_rack(table->partitions[partition]))
            add_candidate(&found, partition, 0);
    }
    if (found.count) return found.partitions[kn_random_below((uint32_t)found.count)];
    bool last_is_only_one = last >= 0 && is_in_rack(table->partitions[last]);
    return last_is_only_one ? last : kn_sticky_random(table, last);
}

int32_t kn_sticky_choose(const struct kn_sticky *sticky, const struct kn_partition_table *table,
                         int32_t not)
{
    struct candidates found;
    if (table->count == 1) return 0;
    if (!sticky->config->adaptive_partitioning) return kn_sticky_draw(sticky, table, not);
    found.count = 0;
    if (sticky->config->rack_aware) collect_by_queue(sticky, table, true, &found);
    if (!found.count) collect_by_queue(sticky, table, false, &found);
    return found.count ? choose_by_queue(&found) : kn_sticky_draw(sticky, table, not);
}

static struct kn_accumulator *next_of(const struct kn_sticky *sticky,
                                      const struct kn_partition_table *table,
                                      const struct kn_accumulator *last)
{
    return table->partitions[kn_sticky_choose(sticky, table, last ? last->partition : -1)];
}

static struct kn_accumulator *exchange_sticky(struct kn_sticky *sticky, struct kn_accumulator *last,
                                              struct kn_accumulator *next, int64_t wall_ms)
{
    if (!atomic_compare_exchange_strong(&sticky->accumulator, &last, next)) return last;
    if (!wall_ms) wall_ms = kn_wall_ms();
    atomic_store_explicit(&sticky->until_ms, wall_ms + sticky->linger_ms, memory_order_relaxed);
    return next;
}

struct kn_accumulator *kn_sticky_next(struct kn_sticky *sticky,
                                      const struct kn_partition_table *table,
                                      struct kn_accumulator *last, int64_t wall_ms)
{
    return exchange_sticky(sticky, last, next_of(sticky, table, last), wall_ms);
}

/* Returns since when a due batch waits for the broker; 0: none waits. */
static int64_t behind_since_us(const struct kn_accumulator *accumulator, int64_t now_us)
{
    const struct kn_broker *leader = kn_accumulator_leader(accumulator);
    int64_t blocked_us = leader
                             ? atomic_load_explicit(&leader->blocked_since_us, memory_order_relaxed)
                             : 0;
    return blocked_us <= now_us ? blocked_us : 0;
}

struct kn_accumulator *kn_sticky_renew(struct kn_sticky *sticky,
                                       const struct kn_partition_table *table,
                                       struct kn_accumulator *last, int64_t wall_ms)
{
    struct kn_accumulator *next = next_of(sticky, table, last);
    if (last && sticky->config->adaptive_partitioning) {
        int64_t now_us = kn_clock_us();
        int64_t since_us = behind_since_us(last, now_us),
                next_since_us = behind_since_us(next, now_us);
        bool enters_rack = sticky->config->rack_aware && is_in_rack(next) && !is_in_rack(last);
        if (since_us && next_since_us && since_us >= next_since_us && !enters_rack) next = last;
    }
    return exchange_sticky(sticky, last, next, wall_ms);
}

void kn_sticky_move_on(struct kn_sticky *sticky, const struct kn_partition_table *table,
                       struct kn_accumulator *from)
{
    if (!table || table->count < 2 ||
        atomic_load_explicit(&sticky->accumulator, memory_order_relaxed) != from)
        return;
    kn_sticky_next(sticky, table, from, 0);
}

void kn_sticky_check(struct kn_sticky *sticky, const struct kn_partition_table *table,
                     struct kn_accumulator *from)
{
    if (!table || table->count < 2 ||
        atomic_load_explicit(&sticky->accumulator, memory_order_relaxed) != from)
        return;
    if (kn_sticky_is_over(sticky, kn_wall_ms())) kn_sticky_renew(sticky, table, from, 0);
}
