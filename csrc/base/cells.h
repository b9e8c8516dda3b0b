/* Allocates objects of one size in blocks. All live objects can be found by walking the blocks,
 * without a list of them.
 *
 * Thread: one at a time; for the binding's cells the interpreter lock ensures it.
 * Who frees: a block is unmapped when its last cell is given back; a few empty blocks are kept.
 *
 * The last word of a free cell links the list of free cells. The rest keeps the last user's bytes, so
 * a walk can recognize live cells by their content. */
#ifndef KN_BASE_CELLS_H
#define KN_BASE_CELLS_H

#include <stddef.h>
#include "base/list.h"

/* also the alignment of a block: the address of a cell leads to its block */
#define KN_CELLS_BLOCK_BYTES ((size_t)256 << 10)

struct kn_cells {
    size_t cell_bytes;
    long taken;          /* cells in use */
    int idle;            /* blocks without a taken cell */
    struct kn_list room; /* blocks with at least one free cell */
    struct kn_list full; /* blocks without a free cell */
};

void kn_cells_init(struct kn_cells *cells, size_t cell_bytes); /* a multiple of 16 */
void kn_cells_deinit(struct kn_cells *cells); /* all cells must have been given back */
/* content as the last user left it, or zeros; NULL: no memory */
void *kn_cells_take(struct kn_cells *cells);
void kn_cells_give(struct kn_cells *cells, void *cell);
/* Calls `each` for every cell that was taken at some time, including free ones. `each` must
 * not take or give cells. */
void kn_cells_walk(struct kn_cells *cells, void (*each)(void *cell, void *context), void *context);

#endif
