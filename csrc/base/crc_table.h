/* Reflected 32-bit CRCs by table, eight bytes per step; the portable code behind crc32 and crc32c.
 *
 * Thread: the caller builds the table once; updates only read it. Who frees: the caller. */
#ifndef KN_BASE_CRC_TABLE_H
#define KN_BASE_CRC_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include "base/endian.h"

#define KN_CRC_POLY_IEEE 0xedb88320u
#define KN_CRC_POLY_CASTAGNOLI 0x82f63b78u

/* by[k][b]: the contribution of byte b if k more bytes follow it in the step. */
struct kn_crc_table {
    uint32_t by[8][256];
};

static inline void kn_crc_table_build(struct kn_crc_table *table, uint32_t poly)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (poly & (0u - (crc & 1)));
        table->by[0][b] = crc;
    }
    for (int k = 1; k < 8; k++) {
        for (int b = 0; b < 256; b++) {
            uint32_t crc = table->by[k - 1][b];
            table->by[k][b] = crc >> 8 ^ table->by[0][crc & 0xff];
        }
    }
}

/* `state` is the register itself: the caller inverts before and after. */
static inline uint32_t kn_crc_table_update(const struct kn_crc_table *table, uint32_t state,
                                           const void *data, size_t size_bytes)
{
    const uint8_t *at = data;

    for (; size_bytes >= 8; size_bytes -= 8, at += 8) {
        uint32_t low = state ^ kn_get_u32_le(at);
        uint32_t high = kn_get_u32_le(at + 4);
        state = table->by[7][low & 0xff] ^ table->by[6][low >> 8 & 0xff] ^
                table->by[5][low >> 16 & 0xff] ^ table->by[4][low >> 24] ^
                table->by[3][high & 0xff] ^ table->by[2][high >> 8 & 0xff] ^
                table->by[1][high >> 16 & 0xff] ^ table->by[0][high >> 24];
    }
    for (; size_bytes > 0; size_bytes--) state = state >> 8 ^ table->by[0][(state ^ *at++) & 0xff];
    return state;
}

#endif
