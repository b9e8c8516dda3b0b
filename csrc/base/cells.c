/* Cells in blocks: see cells.h. */
#include "base/cells.h"

#include <stdint.h>
#include <sys/mman.h>

#define HEAD_BYTES 64
#define IDLE_BLOCKS_MAX 4

struct block {
    struct kn_list node;
    char *free; /* the first of the block's free cells, a linked list */
    size_t
        carved; /* bytes of the cells that were taken at some time; the bytes behind them are zeros */
    size_t taken;
};

static struct block *block_of(void *cell)
{
    return (struct block *)((uintptr_t)cell & ~(uintptr_t)(KN_CELLS_BLOCK_BYTES - 1));
}

static char **link_of(const struct kn_cells *cells, void *cell)
{
    return (char **)cell + cells->cell_bytes / sizeof(char *) - 1;
}

static size_t room_bytes(const struct kn_cells *cells)
{
    return (KN_CELLS_BLOCK_BYTES - HEAD_BYTES) / cells->cell_bytes * cells->cell_bytes;
}

/* Maps twice the size for the alignment, and unmaps the bytes beside the block. If the block will
 * be filled soon, asks for its pages at once, to avoid a page fault each; this is only a hint. */
static struct block *block_new(int is_first)
{
    char *data = mmap(NULL, 2 * KN_CELLS_BLOCK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return NULL;
    size_t before = (size_t)(-(uintptr_t)data & (KN_CELLS_BLOCK_BYTES - 1));
    if (before) munmap(data, before);
    munmap(data + before + KN_CELLS_BLOCK_BYTES, KN_CELLS_BLOCK_BYTES - before);
#ifdef MADV_POPULATE_WRITE
    if (!is_first) (void)madvise(data + before, KN_CELLS_BLOCK_BYTES, MADV_POPULATE_WRITE);
#else
    (void)is_first;
#endif
    return (struct block *)(void *)(data + before);
}

static void block_free(struct kn_cells *cells, struct block *block)
{
    kn_list_remove(&block->node);
    munmap(block, KN_CELLS_BLOCK_BYTES);
    cells->idle--;
}

void kn_cells_init(struct kn_cells *cells, size_t cell_bytes)
{
    *cells = (struct kn_cells){.cell_bytes = cell_bytes};
    kn_list_init(&cells->room);
    kn_list_init(&cells->full);
}

void kn_cells_deinit(struct kn_cells *cells)
{
    struct kn_list *node;
    while ((node = kn_list_first(&cells->room)) != NULL)
        block_free(cells, KN_LIST_ENTRY(node, struct block, node));
}

void *kn_cells_take(struct kn_cells *cells)
{
    struct kn_list *node = kn_list_first(&cells->room);
    struct block *block = node ? KN_LIST_ENTRY(node, struct block, node)
                               : block_new(cells->taken == 0);
    if (!block) return NULL;
    if (!node) {
        kn_list_push_front(&cells->room, &block->node);
        cells->idle++;
    }
    char *cell = block->free;
    if (cell) {
        block->free = *link_of(cells, cell);
    } else {
        cell = (char *)block + HEAD_BYTES + block->carved;
        block->carved += cells->cell_bytes;
    }
    if (block->taken++ == 0) cells->idle--;
    cells->taken++;
    if (!block->free && block->carved == room_bytes(cells)) {
        kn_list_remove(&block->node);
        kn_list_push_back(&cells->full, &block->node);
    }
    return cell;
}

void kn_cells_give(struct kn_cells *cells, void *cell)
{
    struct block *block = block_of(cell);
    if (!block->free && block->carved == room_bytes(cells)) {
        kn_list_remove(&block->node);
        kn_list_push_front(&cells->room, &block->node);
    }
    *link_of(cells, cell) = block->free;
    block->free = cell;
    cells->taken--;
    if (--block->taken) return;
    if (++cells->idle > IDLE_BLOCKS_MAX) block_free(cells, block);
}

static void walk_blocks(struct kn_list *blocks, size_t cell_bytes,
                        void (*each)(void *cell, void *context), void *context)
{
    for (struct kn_list *node = blocks->next; node != blocks; node = node->next) {
        struct block *block = KN_LIST_ENTRY(node, struct block, node);
        char *first = (char *)block + HEAD_BYTES;
        for (char *cell = first; cell < first + block->carved; cell += cell_bytes)
            each(cell, context);
    }
}

void kn_cells_walk(struct kn_cells *cells, void (*each)(void *cell, void *context), void *context)
{
    walk_blocks(&cells->room, cells->cell_bytes, each, context);
    walk_blocks(&cells->full, cells->cell_bytes, each, context);
}
