/* Preloaded into a program with a client: fails one allocation that kafka_native's own shared objects make.
 *
 * Whose an allocation is, its return address says, so Python, OpenSSL and the codecs' libraries keep their memory. An allocation is named by its site, the
 * hash of the frames of ours that lead to it, and by how many came from there before: threads take turns as they like, so a number alone would mean
 * another allocation in each run. `oom_watch()` begins to count; before it nothing is looked at.
 *
 * Thread: any. Lock: `lock`, for the table; nothing is allocated under it. glibc alone, whose own functions are underneath.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OURS "/kafka_native/_native/"
#define MODULES_MAX 64
#define SITES_MAX 4096
#define STACK_MAX 24 /* frames that are looked at */
#define FRAMES_MAX 8 /* frames of ours that name a site */

struct module {
    uintptr_t base, begin, end; /* executable addresses */
    const char *name;
};

struct site {
    uint64_t id;
    long count;
    int frame_count;
    uintptr_t frames[FRAMES_MAX];
};

extern void *__libc_malloc(size_t size_bytes);
extern void *__libc_calloc(size_t count, size_t size_bytes);
extern void *__libc_realloc(void *data, size_t size_bytes);
extern void *__libc_memalign(size_t alignment, size_t size_bytes);

static struct module modules[MODULES_MAX];
static int module_count;
static volatile int watching;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* under lock */
static struct site sites[SITES_MAX];
static int site_count;
static int armed;
static uint64_t wanted_site;
static long wanted_left; /* allocations from there until the one that fails */
static volatile int has_failed;

static const struct module *module_of(uintptr_t address)
{
    for (int i = 0; i < module_count; i++)
        if (address >= modules[i].begin && address < modules[i].end) return &modules[i];
    return NULL;
}

static int note_module(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size, (void)context;
    if (!strstr(info->dlpi_name, OURS)) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X) || module_count == MODULES_MAX) continue;
        uintptr_t begin = info->dlpi_addr + header->p_vaddr;
        modules[module_count++] = (struct module){info->dlpi_addr, begin, begin + header->p_memsz, strrchr(info->dlpi_name, '/') + 1};
    }
    return 0;
}

static uint64_t mix(uint64_t hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * UINT64_C(1099511628211);
    return hash;
}

static void look_at_stack(struct site *site)
{
    void *stack[STACK_MAX];
    int depth = backtrace(stack, STACK_MAX);
    site->id = UINT64_C(14695981039346656037);
    site->frame_count = 0;
    for (int i = 0; i < depth && site->frame_count < FRAMES_MAX; i++) {
        uintptr_t address = (uintptr_t)stack[i] - 1; /* within the call */
        const struct module *module = module_of(address);
        if (!module) continue;
        uintptr_t offset = address - module->base;
        site->id = mix(mix(site->id, module->name, strlen(module->name)), &offset, sizeof offset);
        site->frames[site->frame_count++] = address;
    }
}

/* Counts an allocation of ours; whether it is the one that has to fail. */
static int fails(void *caller)
{
    struct site site;
    if (!watching || !module_of((uintptr_t)caller - 1)) return 0;
    look_at_stack(&site);
    pthread_mutex_lock(&lock);
    int at = 0;
    while (at < site_count && sites[at].id != site.id) at++;
    if (at == site_count && site_count < SITES_MAX) {
        site.count = 0;
        sites[site_count++] = site;
    }
    if (at < site_count) sites[at].count++;
    int fail = armed && site.id == wanted_site && wanted_left-- == 0;
    if (fail) {
        armed = 0;
        has_failed = 1;
    }
    pthread_mutex_unlock(&lock);
    if (fail) errno = ENOMEM;
    return fail;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t size_bytes) { return fails(CALLER) ? NULL : __libc_malloc(size_bytes); }
void *calloc(size_t count, size_t size_bytes) { return fails(CALLER) ? NULL : __libc_calloc(count, size_bytes); }
void *realloc(void *data, size_t size_bytes) { return fails(CALLER) ? NULL : __libc_realloc(data, size_bytes); }
void *aligned_alloc(size_t alignment, size_t size_bytes) { return fails(CALLER) ? NULL : __libc_memalign(alignment, size_bytes); }

int posix_memalign(void **out, size_t alignment, size_t size_bytes)
{
    if (fails(CALLER)) return ENOMEM;
    void *memory = __libc_memalign(alignment, size_bytes);
    if (!memory) return ENOMEM;
    *out = memory;
    return 0;
}

char *strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = fails(CALLER) ? NULL : __libc_malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (fails(CALLER)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

/* A thread needs memory, too: its stack. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!create) create = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
    return fails(CALLER) ? EAGAIN : create(thread, attributes, start, argument);
}

/* --- for the program, through ctypes --- */

/* Begins to count, with the modules that are loaded by now; how many. */
int oom_watch(void)
{
    void *stack[2];
    backtrace(stack, 2); /* the first one loads a library */
    module_count = 0;
    dl_iterate_phdr(note_module, NULL);
    watching = 1;
    return module_count;
}

/* Has the nth allocation from now on fail that comes from this site; the first is number 0. */
void oom_fail(uint64_t site, long nth)
{
    pthread_mutex_lock(&lock);
    wanted_site = site;
    wanted_left = nth;
    armed = 1;
    pthread_mutex_unlock(&lock);
}

int oom_has_failed(void) { return has_failed; }

static void write_site(FILE *out, const struct site *site)
{
    fprintf(out, "%016llx %ld", (unsigned long long)site->id, site->count);
    for (int i = 0; i < site->frame_count; i++) {
        const struct module *module = module_of(site->frames[i]);
        fprintf(out, " %s+0x%lx", module->name, (unsigned long)(site->frames[i] - module->base));
    }
    fputc('\n', out);
}

/* A line for each site: its id, how many allocations, and its frames. Returns whether it could be written. */
int oom_write(const char *path)
{
    FILE *out = fopen(path, "w");
    if (!out) return 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < site_count; i++) write_site(out, &sites[i]);
    pthread_mutex_unlock(&lock);
    return fclose(out) == 0;
}
