/* Objects of one size, in blocks that can be walked: so whoever wants all of those that are alive
 * needs no list of them.
 *
 * Thread: one at a time; the binding's cells are its interpreter lock's. Who frees: a block is
 * unmapped when its last cell comes back, but for a few.
 *
 * While a cell is free, its last word is the list of free cells'; the rest stays as its user left
 * it, which is how a walk knows what is alive.
 */
#ifndef KN_BASE_CELLS_H
#define KN_BASE_CELLS_H

#include <stddef.h>
#include "base/list.h"

/* and on such a boundary: a cell's address leads to its block */
#define KN_CELLS_BLOCK_BYTES ((size_t)256 << 10)

struct kn_cells {
    size_t cell_bytes;
    long taken;          /* cells out there */
    int idle;            /* blocks without a taken cell */
    struct kn_list room; /* blocks with a free cell */
    struct kn_list full; /* the others */
};

void kn_cells_init(struct kn_cells *cells, size_t cell_bytes); /* a multiple of 16 */
void kn_cells_deinit(struct kn_cells *cells);                  /* none may be taken */
/* as it was left, or zeros; NULL: no memory */
void *kn_cells_take(struct kn_cells *cells);
void kn_cells_give(struct kn_cells *cells, void *cell);
/* All cells that were ever taken of the blocks that are there, free ones included. `each` takes and
 * gives none. */
void kn_cells_walk(struct kn_cells *cells, void (*each)(void *cell, void *context), void *context);

#endif
