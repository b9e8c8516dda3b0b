/* Cells: take, give, walk. */
#include "check.h"

#include <stdint.h>
#include <string.h>

#include "base/cells.h"

#define CELL_BYTES 64
#define MANY 20000 /* several blocks */

struct object {
    int alive;
    int number;
    /* the last bytes belong to kn_cells while the cell is free */
    char rest[CELL_BYTES - 2 * sizeof(int)];
};

struct seen {
    long count;
    long sum;
};

static void see(void *cell, void *context)
{
    const struct object *object = cell;
    struct seen *seen = context;
    if (!object->alive) return;
    seen->count++;
    seen->sum += object->number;
}

static struct object *take(struct kn_cells *cells, int number)
{
    struct object *object = kn_cells_take(cells);
    CHECK_EQ((uintptr_t)object % 16, 0);
    CHECK_EQ(object->alive, 0);
    memset(object, 0xff, sizeof *object);
    object->alive = 1;
    object->number = number;
    return object;
}

static void give(struct kn_cells *cells, struct object *object)
{
    object->alive = 0;
    kn_cells_give(cells, object);
}

static void check_walk(struct kn_cells *cells, long count, long sum)
{
    struct seen seen = {0, 0};
    kn_cells_walk(cells, see, &seen);
    CHECK_EQ(seen.count, count);
    CHECK_EQ(seen.sum, sum);
    CHECK_EQ(cells->taken, count);
}

static void test_a_walk_visits_exactly_the_live_cells(void)
{
    static struct object *objects[MANY];
    struct kn_cells cells;
    long sum = 0, kept = 0, kept_sum = 0;
    kn_cells_init(&cells, CELL_BYTES);
    check_walk(&cells, 0, 0);
    for (int i = 0; i < MANY; i++) sum += (objects[i] = take(&cells, i))->number;
    check_walk(&cells, MANY, sum);
    for (int i = 0; i < MANY; i++) {
        if (i % 777 == 0) {
            kept++;
            kept_sum += i;
        } else give(&cells, objects[i]);
    }
    check_walk(&cells, kept, kept_sum);
    for (int i = 0; i < MANY; i++) {
        if (i % 777) objects[i] = take(&cells, i);
    }
    check_walk(&cells, MANY, sum);
    for (int i = MANY; i-- > 0;) give(&cells, objects[i]);
    check_walk(&cells, 0, 0);
    kn_cells_deinit(&cells);
}

static void test_a_returned_cell_is_taken_first(void)
{
    struct kn_cells cells;
    kn_cells_init(&cells, CELL_BYTES);
    struct object *first = take(&cells, 1), *second = take(&cells, 2);
    give(&cells, first);
    CHECK(take(&cells, 3) == first);
    give(&cells, first);
    give(&cells, second);
    kn_cells_deinit(&cells);
}

static long blocks_of(struct kn_list *blocks)
{
    long count = 0;
    for (struct kn_list *node = blocks->next; node != blocks; node = node->next) count++;
    return count;
}

static void test_blocks_go_back_to_the_kernel_but_for_a_few(void)
{
    static struct object *objects[MANY];
    struct kn_cells cells;
    kn_cells_init(&cells, CELL_BYTES);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) objects[i] = take(&cells, i);
        CHECK(blocks_of(&cells.room) + blocks_of(&cells.full) ==
              (long)(MANY / (KN_CELLS_BLOCK_BYTES / CELL_BYTES - 1) + 1));
        for (int i = 0; i < MANY; i++) give(&cells, objects[i]);
        CHECK(blocks_of(&cells.room) <= 4);
        CHECK_EQ(blocks_of(&cells.full), 0);
        CHECK_EQ(cells.idle, blocks_of(&cells.room));
    }
    kn_cells_deinit(&cells);
    CHECK_EQ(cells.idle, 0);
}

int main(void)
{
    RUN(test_a_walk_visits_exactly_the_live_cells);
    RUN(test_a_returned_cell_is_taken_first);
    RUN(test_blocks_go_back_to_the_kernel_but_for_a_few);
    return check_done();
}
