/* Runs a fuzz target that gcc has built: libFuzzer's place where there is no clang.
 *
 * It takes the options of libFuzzer that run.py uses. Every input is a changed input of the corpus.
 * The target is compiled with -fsanitize-coverage=trace-pc. A fast input that reaches a new pair of
 * basic blocks, or reaches a pair much more often, joins the corpus. An input that ends the process
 * is stored first, as PREFIXcrash-SEED-EXECUTION. */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MAP_BYTES 65536 /* a counter for each pair of basic blocks, by its hash */
#define KEPT_MAX 65536
#define CHANGES_MAX 8
#define SLOW_NS 500000 /* slower inputs don't join the corpus: their changes would take all time */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);
void __sanitizer_cov_trace_pc(void);
void __sanitizer_set_death_callback(void (*callback)(void));
const char *__ubsan_default_options(void);

struct input {
    uint8_t *data;
    size_t size_bytes;
};

static struct {
    const char *kept_folder, *artifact_prefix;
    size_t size_max_bytes;
    uint64_t runs, seed;
    unsigned timeout_s;
    time_t seconds;
} options = {.artifact_prefix = "./", .size_max_bytes = 4096, .seed = 1};

static struct input kept[KEPT_MAX];
static size_t kept_count;
static uint64_t executions, random_state;
static volatile sig_atomic_t is_stopped;
static struct input current;

/* --- coverage --- */

static uint8_t counts[MAP_BYTES], seen[MAP_BYTES];
static uint32_t touched[MAP_BYTES], touched_count;
static uintptr_t block_before;

void __sanitizer_cov_trace_pc(void)
{
    uintptr_t block = (uintptr_t)__builtin_return_address(0);
    block = (block ^ block >> 16) * 0x9e3779b1u;
    uint32_t at = (uint32_t)((block ^ block_before) >> 8) % MAP_BYTES;
    if (!counts[at]) touched[touched_count++] = at;
    counts[at] = (uint8_t)(counts[at] + (counts[at] < 255));
    block_before = block >> 1;
}

/* Clears the counters. Returns whether one of them was higher than before, in powers of two. A slow
 * execution doesn't count. */
static int is_new(int is_slow)
{
    int found = 0;
    for (uint32_t i = 0; i < touched_count; i++) {
        uint8_t level = 0;
        for (uint8_t count = counts[touched[i]]; count; count >>= 1) level++;
        if (!is_slow && level > seen[touched[i]]) {
            seen[touched[i]] = level;
            found = 1;
        }
        counts[touched[i]] = 0;
    }
    touched_count = 0;
    block_before = 0;
    return found;
}

/* --- findings --- */

static void write_file(const char *path, const uint8_t *data, size_t size_bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size_bytes, file) != size_bytes || fclose(file))
        fprintf(stderr, "can't write %s\n", path);
}

static void store_finding(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%scrash-%" PRIu64 "-%" PRIu64, options.artifact_prefix,
             options.seed, executions);
    write_file(path, current.data, current.size_bytes);
    fprintf(stderr, "the input is stored as %s\n", path);
}

/* gcc links UBSan beside ASan. The death callback is ASan's; UBSan raises a signal instead. */
const char *__ubsan_default_options(void) { return "abort_on_error=1:print_stacktrace=1"; }

static void on_signal(int number)
{
    if (number == SIGPROF) fprintf(stderr, "an execution takes longer than the time limit\n");
    store_finding();
    _exit(1);
}

static void on_stop(int number)
{
    (void)number;
    is_stopped = 1;
}

static int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Begins the time limit again once a second: a system call for each execution would be slow. The
 * limit is CPU time, because the machine may be busy. */
static void renew_limit(int64_t now_ns)
{
    static int64_t last_ns;
    struct itimerval limit = {.it_value = {.tv_sec = options.timeout_s}};
    if (!options.timeout_s || now_ns - last_ns < 1000000000) return;
    last_ns = now_ns;
    setitimer(ITIMER_PROF, &limit, NULL);
}

/* Returns whether the input has reached something new in a short time. */
static int execute(struct input input)
{
    /* exactly as large as the input, so that the sanitizer sees each byte behind it */
    uint8_t *copy = malloc(input.size_bytes ? input.size_bytes : 1);
    if (!copy) abort();
    memcpy(copy, input.data, input.size_bytes);
    current = input;
    int64_t from_ns = clock_ns();
    renew_limit(from_ns);
    LLVMFuzzerTestOneInput(copy, input.size_bytes);
    executions++;
    free(copy);
    return is_new(clock_ns() - from_ns > SLOW_NS);
}

/* --- the corpus --- */

static void keep(const uint8_t *data, size_t size_bytes)
{
    if (kept_count == KEPT_MAX) return;
    struct input *input = &kept[kept_count];
    input->data = malloc(size_bytes ? size_bytes : 1);
    if (!input->data) abort();
    memcpy(input->data, data, size_bytes);
    input->size_bytes = size_bytes;
    kept_count++;
}

static void read_file(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *file = fopen(path, "rb");
    if (!file) return;
    size_t size_bytes = fread(data, 1, options.size_max_bytes, file);
    fclose(file);
    keep(data, size_bytes);
}

/* Reads a file, or a folder of files. The first folder gets the new inputs. */
static void read_corpus(const char *path)
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0) {
        read_file(path);
        return;
    }
    if (!options.kept_folder) options.kept_folder = path;
    for (int i = 0; i < count; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') read_file(name);
        free(entries[i]);
    }
    free(entries);
}

static void keep_and_write(struct input input)
{
    char path[4096];
    keep(input.data, input.size_bytes);
    snprintf(path, sizeof path, "%s/%016" PRIx64 "-%" PRIu64, options.kept_folder, options.seed,
             executions);
    write_file(path, input.data, input.size_bytes);
}

/* --- changes --- */

static uint64_t random_number(void) /* xorshift64* */
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1du;
}

static size_t random_below(size_t limit)
{
    return limit ? (size_t)(random_number() >> 11) % limit : 0;
}

/* Opens a gap of `gap` bytes at `at`. Returns 0 if the input would be too large. */
static int open_gap(struct input *input, size_t at, size_t gap)
{
    if (input->size_bytes + gap > options.size_max_bytes) return 0;
    memmove(input->data + at + gap, input->data + at, input->size_bytes - at);
    input->size_bytes += gap;
    return 1;
}

static size_t put_varint(uint8_t *out, uint64_t number)
{
    size_t size = 0;
    for (; number > 127; number >>= 7) out[size++] = (uint8_t)(number | 128);
    out[size++] = (uint8_t)number;
    return size;
}

/* Numbers at the limits of types, as varints, zigzag varints, and words of either byte order. */
static void put_number(struct input *input)
{
    static const uint64_t limits[] = {0,          1,
                                      2,          3,
                                      63,         64,
                                      127,        128,
                                      255,        256,
                                      8191,       16383,
                                      32767,      65535,
                                      65536,      1u << 20,
                                      0x7fffffff, 0x80000000,
                                      0xffffffff, 0x100000000,
                                      INT64_MAX,  (uint64_t)INT64_MAX + 1,
                                      UINT64_MAX};
    uint64_t number = limits[random_below(sizeof limits / sizeof *limits)];
    uint8_t bytes[10];
    size_t size = (size_t)1 << random_below(4), at = random_below(input->size_bytes + 1);
    if (random_below(4) == 0) number = (uint64_t)0 - number;
    if (random_below(2)) {
        size = put_varint(bytes,
                          random_below(2) ? number : number << 1 ^ (uint64_t)-(number >> 63));
    } else {
        for (size_t i = 0, is_big = random_below(2); i < size; i++)
            bytes[i] = (uint8_t)(number >> 8 * (is_big ? size - 1 - i : i));
    }
    if (random_below(2) && !open_gap(input, at, size)) return;
    if (at + size > input->size_bytes) return;
    memcpy(input->data + at, bytes, size);
}

static void splice(struct input *input)
{
    const struct input *other = &kept[random_below(kept_count)];
    size_t from = random_below(other->size_bytes), at = random_below(input->size_bytes + 1);
    size_t size = random_below(other->size_bytes - from) + 1;
    if (from + size > other->size_bytes) return;
    if (random_below(2)) {
        if (!open_gap(input, at, size)) return;
    } else if (at + size > options.size_max_bytes) {
        return;
    } else if (at + size > input->size_bytes) {
        input->size_bytes = at + size;
    }
    memcpy(input->data + at, other->data + from, size);
}

static void cut_out(struct input *input)
{
    size_t at = random_below(input->size_bytes), size = random_below(input->size_bytes - at) + 1;
    if (at + size > input->size_bytes) return;
    if (random_below(2) && size > 4) size = 1 + size % 4; /* mostly a few bytes */
    memmove(input->data + at, input->data + at + size, input->size_bytes - at - size);
    input->size_bytes -= size;
}

static void repeat(struct input *input)
{
    size_t at = random_below(input->size_bytes), size = random_below(16) + 1;
    if (at + size > input->size_bytes || !open_gap(input, at, size)) return;
    memcpy(input->data + at, input->data + at + size, size);
}

static void change(struct input *input)
{
    size_t at = random_below(input->size_bytes);
    switch (input->size_bytes ? random_below(9) : 5) {
    case 0: input->data[at] ^= (uint8_t)(1u << random_below(8)); break;
    case 1: input->data[at] = (uint8_t)random_number(); break;
    case 2: input->data[at] = (uint8_t)(input->data[at] + random_below(9) - 4); break;
    case 3: cut_out(input); break;
    case 4: repeat(input); break;
    case 5:
        if (open_gap(input, at, 1)) input->data[at] = (uint8_t)random_number();
        break;
    case 6: splice(input); break;
    default: put_number(input); break;
    }
}

/* --- the run --- */

static int has_option(const char *argument, const char *name, uint64_t *number)
{
    size_t size = strlen(name);
    if (strncmp(argument, name, size) != 0) return 0;
    *number = strtoull(argument + size, NULL, 10);
    return 1;
}

static void read_option(const char *argument)
{
    uint64_t number;
    if (has_option(argument, "-runs=", &number)) options.runs = number;
    if (has_option(argument, "-seed=", &number)) options.seed = number;
    if (has_option(argument, "-max_len=", &number)) options.size_max_bytes = number;
    if (has_option(argument, "-timeout=", &number)) options.timeout_s = (unsigned)number;
    if (has_option(argument, "-max_total_time=", &number)) options.seconds = (time_t)number;
    if (has_option(argument, "-artifact_prefix=", &number))
        options.artifact_prefix = strchr(argument, '=') + 1;
}

static int is_done(time_t started)
{
    if (is_stopped || (options.runs && executions >= options.runs)) return 1;
    return options.seconds && executions % 256 == 0 && time(NULL) - started >= options.seconds;
}

int main(int argc, char **argv)
{
    time_t started = time(NULL);
    for (int i = 1; i < argc; i++)
        if (argv[i][0] == '-') read_option(argv[i]);
    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-') read_corpus(argv[i]);
    if (!kept_count) keep((const uint8_t *)"", 0);
    random_state = options.seed * 0x9e3779b97f4a7c15u | 1;
    signal(SIGABRT, on_signal);
    signal(SIGPROF, on_signal);
    signal(SIGTERM, on_stop); /* the run ends with its figures */
    __sanitizer_set_death_callback(store_finding);
    for (size_t i = 0, count = kept_count; i < count; i++) execute(kept[i]);

    struct input input = {.data = malloc(options.size_max_bytes)};
    if (!input.data) abort();
    while (!is_done(started)) {
        const struct input *origin = &kept[random_below(kept_count)];
        input.size_bytes = origin->size_bytes;
        memcpy(input.data, origin->data, origin->size_bytes);
        for (size_t left = random_below(CHANGES_MAX) + 1; left; left--) change(&input);
        if (execute(input) && options.kept_folder) keep_and_write(input);
    }
    free(input.data);
    for (size_t i = 0; i < kept_count; i++) free(kept[i].data);
    fprintf(stderr, "stat::number_of_executed_units: %" PRIu64 "\nkept inputs: %zu\n", executions,
            kept_count);
    return 0;
}
