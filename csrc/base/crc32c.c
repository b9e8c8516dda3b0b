/* CRC32C: chooses an implementation once, then calls it.
 *
 * Thread: any. The choice and the tables are made under pthread_once and never change afterwards.
 * Lock: none. Who frees: everything is static.
 *
 * Why the hardware versions are fast: the crc32 instruction has a latency of three cycles and a
 * throughput of one, so one chain of dependent steps uses a third of the unit. Three chains run in
 * parallel over three adjacent lanes. At the end of a block their registers are combined: to append
 * n zero bytes to a message multiplies its register by x^(8n) modulo the polynomial. So crc(A|B|C)
 * = A*x^(16n) + B*x^(8n) + C for lanes of n bytes.
 *
 * With a carry-less multiplication of 256 bits the message itself is folded: 128 bytes are
 * multiplied by the factor that moves them 128 bytes further, modulo the polynomial, and added to
 * the 128 bytes there. The rest goes through the crc32 instruction. From the cache this is as fast
 * as the lanes. It reads one stream of bytes instead of three, so from memory it is up to twice as
 * fast. It nearly reaches the speed of memory, so 512 bits wouldn't be faster there. */
#include "base/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include "base/crc_table.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define KN_CRC_X86 1
#include <cpuid.h>
#include <immintrin.h>
/* For clang the crc32 instruction is a feature of its own, which zig turns off. */
#if defined(__clang__) && __clang_major__ >= 14
#define CRC_FEATURES "sse4.2,crc32,pclmul"
#else
#define CRC_FEATURES "sse4.2,pclmul"
#endif
#define CRC_TARGET __attribute__((target(CRC_FEATURES)))
#define CRC_TARGET_WIDE __attribute__((target(CRC_FEATURES ",avx2,vpclmulqdq")))
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#define KN_CRC_ARM 1
/* clang declares the intrinsics of arm_acle.h only in files that are compiled for the extension. */
#if defined(__clang__)
#define crc_u64 __builtin_arm_crc32cd
#define crc_u8 __builtin_arm_crc32cb
#define CRC_TARGET __attribute__((target("crc")))
#else
#include <arm_acle.h>
#define crc_u64 __crc32cd
#define crc_u8 __crc32cb
#define CRC_TARGET __attribute__((target("+crc")))
#endif
#if defined(__linux__)
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#endif
#endif

/* Lane lengths: long ones for whole batches, short ones for the rest. */
#define LONG_LANE_BYTES 2048
#define SHORT_LANE_BYTES 128

typedef uint32_t crc_update_fn(uint32_t state, const uint8_t *at, size_t size_bytes);

/* x^(8n) and x^(16n), in the form that the backend's combining step needs. */
struct lane_shift {
    uint32_t once;
    uint32_t twice;
};

static struct {
    struct kn_crc_table table;
    struct lane_shift long_lane;
    struct lane_shift short_lane;
    /* factors for 128 and for 32 bytes: for the first and the last eight bytes of sixteen */
    uint64_t fold_far[2], fold_near[2];
    crc_update_fn *update;
    crc_update_fn *lanes; /* the same without the widest instructions */
    const char *name;
} chosen;
static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;

static uint32_t update_portable(uint32_t state, const uint8_t *at, size_t size_bytes)
{
    return kn_crc_table_update(&chosen.table, state, at, size_bytes);
}

#if defined(KN_CRC_X86) || defined(KN_CRC_ARM)

/* x^bits modulo the polynomial, reflected: bit 31 is x^0. */
static uint32_t power_of_x(size_t bits)
{
    uint32_t value = 0x80000000u;
    while (bits-- > 0) value = value >> 1 ^ (KN_CRC_POLY_CASTAGNOLI & (0u - (value & 1)));
    return value;
}

static uint64_t load_u64(const uint8_t *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return v; /* both processors are little-endian, as the instruction needs */
}
#endif

#if defined(KN_CRC_X86)

/* A*B*x^33: the product of two reflected 32-bit polynomials has 63 bits, and the crc32 instruction
 * reduces 64 message bits and multiplies by x^32; the bit of difference is one more x. So the
 * factor for n bytes is x^(8n - 33). */
CRC_TARGET static inline uint32_t shift_x86(uint32_t state, uint32_t factor)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)state),
                                           _mm_cvtsi32_si128((int)factor), 0);
    return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

CRC_TARGET static inline uint32_t three_lanes_x86(uint32_t state, const uint8_t *at,
                                                  size_t lane_bytes, const struct lane_shift *shift)
{
    uint64_t a = state, b = 0, c = 0;
    const uint8_t *lane_b = at + lane_bytes;
    const uint8_t *lane_c = lane_b + lane_bytes;
    for (size_t i = 0; i < lane_bytes; i += 8) {
        a = _mm_crc32_u64(a, load_u64(at + i));
        b = _mm_crc32_u64(b, load_u64(lane_b + i));
        c = _mm_crc32_u64(c, load_u64(lane_c + i));
    }
    return shift_x86((uint32_t)a, shift->twice) ^ shift_x86((uint32_t)b, shift->once) ^ (uint32_t)c;
}

CRC_TARGET static uint32_t update_x86(uint32_t state, const uint8_t *at, size_t size_bytes)
{
    for (; size_bytes >= 3 * LONG_LANE_BYTES;
         size_bytes -= 3 * LONG_LANE_BYTES, at += 3 * LONG_LANE_BYTES)
        state = three_lanes_x86(state, at, LONG_LANE_BYTES, &chosen.long_lane);
    for (; size_bytes >= 3 * SHORT_LANE_BYTES;
         size_bytes -= 3 * SHORT_LANE_BYTES, at += 3 * SHORT_LANE_BYTES)
        state = three_lanes_x86(state, at, SHORT_LANE_BYTES, &chosen.short_lane);

    uint64_t wide = state;
    for (; size_bytes >= 8; size_bytes -= 8, at += 8) wide = _mm_crc32_u64(wide, load_u64(at));
    state = (uint32_t)wide;
    for (; size_bytes > 0; size_bytes--) state = _mm_crc32_u8(state, *at++);
    return state;
}

#define VECTOR_BYTES 32
#define FOLD_BYTES (4 * VECTOR_BYTES)
#define FOLD_MIN_BYTES 512 /* below this size the lanes are as fast */

CRC_TARGET_WIDE static inline __m256i load_vector(const uint8_t *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

CRC_TARGET_WIDE static inline __m256i fold(__m256i bytes, __m256i factors, __m256i onto)
{
    __m256i first = _mm256_clmulepi64_epi128(bytes, factors, 0x00),
            last = _mm256_clmulepi64_epi128(bytes, factors, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(first, last), onto);
}

CRC_TARGET_WIDE static inline __m256i factors_of(const uint64_t factors[2])
{
    return _mm256_set_epi64x((long long)factors[1], (long long)factors[0], (long long)factors[1],
                             (long long)factors[0]);
}

CRC_TARGET_WIDE static uint32_t fold_x86(uint32_t state, const uint8_t *at, size_t size_bytes)
{
    __m256i far = factors_of(chosen.fold_far), near = factors_of(chosen.fold_near), v[4];
    uint8_t rest[VECTOR_BYTES];
    for (int i = 0; i < 4; i++) v[i] = load_vector(at + i * VECTOR_BYTES);
    v[0] = _mm256_xor_si256(v[0], _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)state)));
    for (at += FOLD_BYTES, size_bytes -= FOLD_BYTES; size_bytes > 0;
         at += FOLD_BYTES, size_bytes -= FOLD_BYTES) {
        for (int i = 0; i < 4; i++) v[i] = fold(v[i], far, load_vector(at + i * VECTOR_BYTES));
    }
    for (int i = 0; i < 3; i++) v[i + 1] = fold(v[i], near, v[i + 1]);
    _mm256_storeu_si256((__m256i *)(void *)rest, v[3]);
    uint64_t wide = 0;
    for (int i = 0; i < VECTOR_BYTES; i += 8) wide = _mm_crc32_u64(wide, load_u64(rest + i));
    return (uint32_t)wide;
}

static uint32_t update_wide(uint32_t state, const uint8_t *at, size_t size_bytes)
{
    if (size_bytes < FOLD_MIN_BYTES) return update_x86(state, at, size_bytes);
    /* loads across two cache lines cost twice as much */
    size_t before = (0 - (uintptr_t)at) % VECTOR_BYTES;
    state = update_x86(state, at, before);
    size_t folded = (size_bytes - before) / FOLD_BYTES * FOLD_BYTES;
    state = fold_x86(state, at + before, folded);
    return update_x86(state, at + before + folded, size_bytes - before - folded);
}

/* Sets the factors that move sixteen bytes this much further. A product of two reflected 64-bit
 * polynomials has 127 bits, so it needs one more factor x. */
static void set_fold(uint64_t factors[2], size_t bytes)
{
    factors[0] = (uint64_t)power_of_x(8 * bytes + 63) << 32;
    factors[1] = (uint64_t)power_of_x(8 * bytes - 1) << 32;
}

/* Whether the operating system saves the wide registers: bits 1 and 2 of the register XCR0. */
static bool saves_wide_registers(void)
{
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6) == 6;
}

/* Not __builtin_cpu_supports(): it needs a table of the compiler's runtime library, and zig's has
 * none. */
static void choose_hardware(void)
{
    uint32_t eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return;
    if (!(ecx & bit_SSE4_2) || !(ecx & bit_PCLMUL)) return;
    chosen.long_lane = (struct lane_shift){power_of_x(8 * LONG_LANE_BYTES - 33),
                                           power_of_x(16 * LONG_LANE_BYTES - 33)};
    chosen.short_lane = (struct lane_shift){power_of_x(8 * SHORT_LANE_BYTES - 33),
                                            power_of_x(16 * SHORT_LANE_BYTES - 33)};
    chosen.update = chosen.lanes = update_x86;
    chosen.name = "sse4.2+pclmul";
    if (!(ecx & bit_OSXSAVE) || !(ecx & bit_AVX) || !saves_wide_registers()) return;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return;
    if (!(ebx & bit_AVX2) || !(ecx & bit_VPCLMULQDQ)) return;
    set_fold(chosen.fold_far, FOLD_BYTES);
    set_fold(chosen.fold_near, VECTOR_BYTES);
    chosen.update = update_wide;
    chosen.name = "avx2+vpclmulqdq";
}

#elif defined(KN_CRC_ARM)

/* A*B in software: 32 steps per block of 6 KiB aren't worth the optional PMULL instruction. */
static uint32_t shift_arm(uint32_t state, uint32_t factor)
{
    uint32_t product = 0;
    for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
        if (factor & bit) product ^= state;
        state = state >> 1 ^ (KN_CRC_POLY_CASTAGNOLI & (0u - (state & 1)));
    }
    return product;
}

CRC_TARGET static uint32_t update_arm(uint32_t state, const uint8_t *at, size_t size_bytes)
{
    for (; size_bytes >= 3 * LONG_LANE_BYTES;
         size_bytes -= 3 * LONG_LANE_BYTES, at += 3 * LONG_LANE_BYTES) {
        uint32_t a = state, b = 0, c = 0;
        for (size_t i = 0; i < LONG_LANE_BYTES; i += 8) {
            a = crc_u64(a, load_u64(at + i));
            b = crc_u64(b, load_u64(at + LONG_LANE_BYTES + i));
            c = crc_u64(c, load_u64(at + 2 * LONG_LANE_BYTES + i));
        }
        state = shift_arm(a, chosen.long_lane.twice) ^ shift_arm(b, chosen.long_lane.once) ^ c;
    }
    for (; size_bytes >= 8; size_bytes -= 8, at += 8) state = crc_u64(state, load_u64(at));
    for (; size_bytes > 0; size_bytes--) state = crc_u8(state, *at++);
    return state;
}

static void choose_hardware(void)
{
#if defined(__linux__)
    if (!(getauxval(AT_HWCAP) & HWCAP_CRC32)) return;
#elif !defined(__APPLE__) /* every Apple arm64 has the instructions */
    return;
#endif
    chosen.long_lane = (struct lane_shift){power_of_x(8 * LONG_LANE_BYTES),
                                           power_of_x(16 * LONG_LANE_BYTES)};
    chosen.update = chosen.lanes = update_arm;
    chosen.name = "armv8";
}

#else
static void choose_hardware(void) {}
#endif

static void choose(void)
{
    kn_crc_table_build(&chosen.table, KN_CRC_POLY_CASTAGNOLI);
    chosen.update = chosen.lanes = update_portable;
    chosen.name = "portable";
    choose_hardware();
}

uint32_t kn_crc32c(uint32_t crc, const void *data, size_t size_bytes)
{
    pthread_once(&chosen_once, choose);
    return ~chosen.update(~crc, data, size_bytes);
}

const char *kn_crc32c_backend(void)
{
    pthread_once(&chosen_once, choose);
    return chosen.name;
}

uint32_t kn_crc32c_lanes(uint32_t crc, const void *data, size_t size_bytes)
{
    pthread_once(&chosen_once, choose);
    return ~chosen.lanes(~crc, data, size_bytes);
}

uint32_t kn_crc32c_portable(uint32_t crc, const void *data, size_t size_bytes)
{
    pthread_once(&chosen_once, choose);
    return ~update_portable(~crc, data, size_bytes);
}
