/* Preloaded into a program with a client: fails one call that kafka_native's own shared objects
 * make, an allocation or a system call.
 *
 * The return address says whose call it is. So Python, OpenSSL and the codecs' libraries keep their
 * memory and their sockets. A call is named by its site, the hash of the frames of ours that lead
 * to it, and by how many came from there before. A number alone would mean another call in each
 * run, because threads take turns. `oom_watch()` begins to count; before it every call succeeds.
 *
 * A failing system call does nothing, except for close(), which closes, and an interrupted
 * connect(), which goes on.
 *
 * Thread: any. Lock: `lock`, for the table; nothing is allocated under it. It needs glibc, whose
 * own functions are underneath.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE /* it defines some of the functions below, as inline ones */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
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
    const char *call; /* the function of the C library */
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
static long wanted_left; /* calls from there until the one that fails */
static int wanted_error;
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
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X) || module_count == MODULES_MAX)
            continue;
        uintptr_t begin = info->dlpi_addr + header->p_vaddr;
        modules[module_count++] = (struct module){
            info->dlpi_addr, begin, begin + header->p_memsz, strrchr(info->dlpi_name, '/') + 1};
    }
    return 0;
}

static uint64_t mix(uint64_t hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const uint8_t *)data)[i]) * UINT64_C(1099511628211);
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

/* Counts a call of ours. Returns whether it has to fail. Then errno is the error. */
static int fails(const char *call, void *caller)
{
    struct site site;
    if (!watching || !module_of((uintptr_t)caller - 1)) return 0;
    look_at_stack(&site);
    pthread_mutex_lock(&lock);
    int at = 0;
    while (at < site_count && sites[at].id != site.id) at++;
    if (at == site_count && site_count < SITES_MAX) {
        site.count = 0;
        site.call = call;
        sites[site_count++] = site;
    }
    if (at < site_count) sites[at].count++;
    int fail = armed && site.id == wanted_site && wanted_left-- == 0;
    if (fail) {
        armed = 0;
        has_failed = 1;
        errno = wanted_error;
    }
    pthread_mutex_unlock(&lock);
    return fail;
}

/* Whether the call of the C library that this is in the place of has to fail. */
#define FAILS(call) fails(call, __builtin_return_address(0))

/* --- allocations --- */

void *malloc(size_t size_bytes) { return FAILS("malloc") ? NULL : __libc_malloc(size_bytes); }

void *calloc(size_t count, size_t size_bytes)
{
    return FAILS("calloc") ? NULL : __libc_calloc(count, size_bytes);
}

void *realloc(void *data, size_t size_bytes)
{
    return FAILS("realloc") ? NULL : __libc_realloc(data, size_bytes);
}

void *aligned_alloc(size_t alignment, size_t size_bytes)
{
    return FAILS("aligned_alloc") ? NULL : __libc_memalign(alignment, size_bytes);
}

int posix_memalign(void **out, size_t alignment, size_t size_bytes)
{
    if (FAILS("posix_memalign")) return ENOMEM;
    void *memory = __libc_memalign(alignment, size_bytes);
    if (!memory) return ENOMEM;
    *out = memory;
    return 0;
}

char *strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = FAILS("strdup") ? NULL : __libc_malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (FAILS("mmap")) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

/* A thread needs memory, too: its stack. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument)
{
    static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!create) create = (typeof(create))dlsym(RTLD_NEXT, "pthread_create");
    return FAILS("pthread_create") ? EAGAIN : create(thread, attributes, start, argument);
}

/* --- system calls --- */

int socket(int family, int type, int protocol)
{
    return FAILS("socket") ? -1 : (int)syscall(SYS_socket, family, type, protocol);
}

int connect(int fd, const struct sockaddr *address, socklen_t size_bytes)
{
    int fail = FAILS("connect");
    if (fail && errno != EINTR) return -1;
    int result = (int)syscall(SYS_connect, fd, address, size_bytes);
    if (!fail) return result;
    errno = EINTR;
    return -1;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    return FAILS("sendmsg") ? -1 : syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t recv(int fd, void *to, size_t size_bytes, int flags)
{
    return FAILS("recv") ? -1 : syscall(SYS_recvfrom, fd, to, size_bytes, flags, NULL, NULL);
}

/* The name that _FORTIFY_SOURCE gives to recv(). There are more of them below. */
ssize_t __recv_chk(int fd, void *to, size_t size_bytes, size_t room_bytes, int flags)
{
    (void)room_bytes;
    return FAILS("recv") ? -1 : syscall(SYS_recvfrom, fd, to, size_bytes, flags, NULL, NULL);
}

ssize_t readv(int fd, const struct iovec *pieces, int count)
{
    return FAILS("readv") ? -1 : syscall(SYS_readv, fd, pieces, count);
}

ssize_t read(int fd, void *to, size_t size_bytes)
{
    return FAILS("read") ? -1 : syscall(SYS_read, fd, to, size_bytes);
}

ssize_t __read_chk(int fd, void *to, size_t size_bytes, size_t room_bytes)
{
    (void)room_bytes;
    return FAILS("read") ? -1 : syscall(SYS_read, fd, to, size_bytes);
}

ssize_t write(int fd, const void *from, size_t size_bytes)
{
    return FAILS("write") ? -1 : syscall(SYS_write, fd, from, size_bytes);
}

static int wait_for_events(struct pollfd *fds, nfds_t count, const struct timespec *limit,
                           const sigset_t *mask)
{
    struct timespec left; /* the kernel writes the rest of the time there */
    if (limit) left = *limit;
    return (int)syscall(SYS_ppoll, fds, count, limit ? &left : NULL, mask, _NSIG / 8);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask)
{
    return FAILS("ppoll") ? -1 : wait_for_events(fds, count, limit, mask);
}

int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *limit,
                const sigset_t *mask, size_t room_bytes)
{
    (void)room_bytes;
    return FAILS("ppoll") ? -1 : wait_for_events(fds, count, limit, mask);
}

int eventfd(unsigned int value, int flags)
{
    return FAILS("eventfd") ? -1 : (int)syscall(SYS_eventfd2, value, flags);
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *size_bytes)
{
    return FAILS("getsockopt") ? -1
                               : (int)syscall(SYS_getsockopt, fd, level, name, value, size_bytes);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t size_bytes)
{
    return FAILS("setsockopt") ? -1
                               : (int)syscall(SYS_setsockopt, fd, level, name, value, size_bytes);
}

int madvise(void *at, size_t bytes, int advice)
{
    return FAILS("madvise") ? -1 : (int)syscall(SYS_madvise, at, bytes, advice);
}

int close(int fd)
{
    int fail = FAILS("close"), error = errno;
    int result = (int)syscall(SYS_close, fd);
    if (!fail) return result;
    errno = error;
    return -1;
}

/* Its errors have numbers of their own. They are below 0. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    static int (*look_up)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (!look_up) look_up = (typeof(look_up))dlsym(RTLD_NEXT, "getaddrinfo");
    return FAILS("getaddrinfo") ? errno : look_up(host, service, hints, found);
}

/* --- for the program, through ctypes --- */

/* Begins to count, with the modules that are loaded by now. Returns how many they are. */
int oom_watch(void)
{
    void *stack[2];
    backtrace(stack, 2); /* the first one loads a library */
    module_count = 0;
    dl_iterate_phdr(note_module, NULL);
    watching = 1;
    return module_count;
}

/* Lets the nth call from now on fail that comes from this site. The first is number 0. */
void oom_fail(uint64_t site, long nth, int error)
{
    pthread_mutex_lock(&lock);
    wanted_site = site;
    wanted_left = nth;
    wanted_error = error;
    armed = 1;
    pthread_mutex_unlock(&lock);
}

int oom_has_failed(void) { return has_failed; }

static void write_site(FILE *out, const struct site *site)
{
    fprintf(out, "%016llx %s %ld", (unsigned long long)site->id, site->call, site->count);
    for (int i = 0; i < site->frame_count; i++) {
        const struct module *module = module_of(site->frames[i]);
        fprintf(out, " %s+0x%lx", module->name, (unsigned long)(site->frames[i] - module->base));
    }
    fputc('\n', out);
}

/* Writes a line for each site: its id, its call, how many there were, and its frames. Returns
 * whether it could be written. */
int oom_write(const char *path)
{
    FILE *out = fopen(path, "w");
    if (!out) return 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < site_count; i++) write_site(out, &sites[i]);
    pthread_mutex_unlock(&lock);
    return fclose(out) == 0;
}
