/* The network of the simulated machine, and the calls for sockets.
 *
 * A TCP connection is two pairs of UNIX sockets. Their inner ends belong to the network. */
#include "machine.h"

enum {
    LINKS_MAX = 1024,
    WAITING_MAX = 128,       /* connections that a listener hasn't accepted */
    IN_FLIGHT_MAX = 1 << 18, /* bytes of a direction; more stay in the sender's socket */
    PIECE_MAX = 1 << 16,
    WIRE_FD_MIN = 2048, /* the program's descriptors stay below */
    FIRST_PORT = 30000,
    FIRST_CLIENT_PORT = 40000,
    SEGMENT_MAX = 1448, /* bytes of a TCP segment, if bandwidth or losses matter */
    LOSSES_MAX = 6,     /* a segment that is lost so often ends its connection */
    FIRST_RTO_US = 200000,
};

struct piece {
    struct piece *next;
    int64_t due_us;
    size_t size, done;
    bool is_end;
    char bytes[];
};

struct direction {
    int from, to; /* inner ends of the two pairs */
    struct piece *first, **last;
    size_t in_flight;
    int64_t last_due_us, stalled_until_us, busy_until_us;
    bool has_ended, is_lost;
};

struct link {
    bool used, changed;
    int port;                   /* of the listener */
    int group;                  /* of the client */
    struct direction out, back; /* from the client, and to it */
};

enum kind { NONE, UNBOUND, BOUND, LISTENER, CONNECTED };

struct outer { /* what the program's descriptor is */
    enum kind kind;
    int port, peer_port;
    struct link *link;
    int waiting[WAITING_MAX], waiting_peers[WAITING_MAX], waiting_count;
    struct link *waiting_links[WAITING_MAX];
};

static struct outer outers[FDS_MAX];
static struct link links[LINKS_MAX];
static int link_count, last_port = FIRST_PORT, last_client_port = FIRST_CLIENT_PORT;
static bool some_changed;
static int64_t next_due_us = NEVER;
static int64_t delay_min_us = 50, delay_max_us = 500;
static int64_t piece_max = PIECE_MAX;
static int64_t bytes_carried;
static int64_t bytes_per_s, lost_per_million; /* of each direction of a connection; 0: none */
static int64_t limited_count, lost_count;     /* segments */
static int64_t refused_until_us[65536], lost_until_us[65536]; /* by the listener's port */

static struct outer *outer_of(int fd)
{
    if (!self || fd < 0 || fd >= FDS_MAX || outers[fd].kind == NONE) return NULL;
    return &outers[fd];
}

static void note_change(int fd)
{
    struct outer *outer = outer_of(fd);
    changes++;
    if (outer && outer->link) outer->link->changed = some_changed = true;
}

/* Returns by how much a segment comes later: it waits for those before it, and is lost and sent
 * again, after twice the time each time. */
static int64_t segment_delay(struct direction *way, size_t size)
{
    int64_t late_us = 0, rto_us = FIRST_RTO_US;
    if (bytes_per_s) {
        if (way->busy_until_us < now_us) way->busy_until_us = now_us;
        way->busy_until_us += (int64_t)size * 1000000 / bytes_per_s;
        late_us = way->busy_until_us - now_us;
        if (late_us > delay_max_us) limited_count++;
    }
    for (int i = 0; lost_per_million && below(1000000) < lost_per_million; i++) {
        lost_count++;
        late_us += rto_us;
        rto_us *= 2;
        if (i + 1 == LOSSES_MAX) way->is_lost = true;
        if (way->is_lost) break;
    }
    return late_us;
}

static void piece_add(struct direction *way, const char *bytes, size_t size)
{
    struct piece *piece = malloc(sizeof *piece + size);
    int64_t due_us = now_us + delay_min_us + below(delay_max_us - delay_min_us + 1);
    if (!piece) abort();
    due_us += segment_delay(way, size);
    *piece = (struct piece){.size = size, .is_end = !size};
    if (size) memcpy(piece->bytes, bytes, size);
    way->last_due_us = piece->due_us = due_us > way->last_due_us ? due_us : way->last_due_us;
    *way->last = piece;
    way->last = &piece->next;
    way->in_flight += size;
}

static void direction_drop(struct direction *way)
{
    struct piece *next;
    for (struct piece *piece = way->first; piece; piece = next) {
        next = piece->next;
        free(piece);
    }
    way->first = NULL;
    way->last = &way->first;
    way->in_flight = 0;
}

static void direction_take(struct direction *way)
{
    static char bytes[PIECE_MAX];
    while (!way->has_ended && way->in_flight < IN_FLIGHT_MAX) {
        ssize_t size = syscall(SYS_recvfrom, way->from, bytes, sizeof bytes, MSG_DONTWAIT, NULL,
                               NULL);
        if (size < 0 && errno == EAGAIN) return;
        if (size <= 0) {
            way->has_ended = true;
            piece_add(way, NULL, 0);
            return;
        }
        for (ssize_t done = 0; done < size;) {
            int64_t part = piece_max >= PIECE_MAX ? size - done : 1 + below(piece_max);
            if (part > size - done) part = size - done;
            if (part > SEGMENT_MAX && (bytes_per_s || lost_per_million)) part = SEGMENT_MAX;
            piece_add(way, bytes + done, (size_t)part);
            done += part;
        }
    }
}

static int64_t direction_due(const struct direction *way)
{
    if (!way->first) return NEVER;
    int64_t due_us = way->first->due_us;
    return due_us > way->stalled_until_us ? due_us : way->stalled_until_us;
}

/* Returns false if the receiver's socket is full, or there is nothing to deliver now. */
static bool direction_deliver(struct direction *way)
{
    struct piece *piece = way->first;
    if (direction_due(way) > now_us) return false;
    if (piece->is_end) {
        syscall(SYS_shutdown, way->to, SHUT_WR);
        piece->done = 0;
    } else {
        ssize_t size = syscall(SYS_sendto, way->to, piece->bytes + piece->done,
                               piece->size - piece->done, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
        if (size < 0 && errno == EAGAIN) return false;
        if (size < 0) { /* the receiver has closed: so has the connection */
            syscall(SYS_shutdown, way->from, SHUT_RDWR);
            direction_drop(way);
            changes++;
            return false;
        }
        for (ssize_t i = 0; i < size; i++) mix((uint8_t)piece->bytes[piece->done + (size_t)i]);
        bytes_carried += size;
        piece->done += (size_t)size;
        way->in_flight -= (size_t)size;
        changes++;
        if (piece->done < piece->size) return false;
    }
    changes++;
    way->first = piece->next;
    if (!way->first) way->last = &way->first;
    free(piece);
    return true;
}

static void link_free(struct link *link)
{
    direction_drop(&link->out);
    direction_drop(&link->back);
    real_close(link->out.from);
    real_close(link->back.from);
    for (int fd = 0; fd < FDS_MAX; fd++) {
        struct outer *outer = &outers[fd];
        if (outer->link == link) outer->link = NULL;
        for (int i = 0; i < outer->waiting_count; i++) {
            if (outer->waiting_links[i] == link) outer->waiting_links[i] = NULL;
        }
    }
    link->used = false;
    changes++;
}

/* Takes what programs have sent. */
void network_take(void)
{
    if (!some_changed) return;
    some_changed = false;
    next_due_us = NEVER;
    for (int i = 0; i < link_count; i++) {
        struct link *link = &links[i];
        if (!link->used) continue;
        if (link->changed) {
            link->changed = false;
            direction_take(&link->out);
            direction_take(&link->back);
        }
        if (link->out.is_lost || link->back.is_lost) {
            link_free(link);
            continue;
        }
        int64_t out_us = direction_due(&link->out), back_us = direction_due(&link->back);
        if (out_us < next_due_us) next_due_us = out_us;
        if (back_us < next_due_us) next_due_us = back_us;
    }
}

void network_deliver(void)
{
    if (next_due_us > now_us) return;
    next_due_us = NEVER;
    for (int i = 0; i < link_count; i++) {
        struct link *link = &links[i];
        if (!link->used) continue;
        struct direction *ways[] = {&link->out, &link->back};
        for (int j = 0; j < 2; j++) {
            while (direction_deliver(ways[j])) direction_take(ways[j]);
            int64_t due_us = direction_due(ways[j]);
            /* a full socket is tried again when its program has read */
            if (due_us > now_us && due_us < next_due_us) next_due_us = due_us;
        }
        if (link->out.has_ended && link->back.has_ended && !link->out.first && !link->back.first)
            link_free(link);
    }
}

int64_t network_next(void) { return next_due_us; }

static int inner_end(int fd)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, WIRE_FD_MIN);
    if (moved < 0) give_up("too many connections");
    real_close(fd);
    return moved;
}

static struct link *new_link(int port, int client_end, int server_end)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        struct link *link = &links[i];
        if (link->used) continue;
        if (i >= link_count) link_count = i + 1;
        *link = (struct link){.used = true, .port = port, .group = self->group};
        link->out.from = link->back.to = client_end;
        link->back.from = link->out.to = server_end;
        link->out.last = &link->out.first;
        link->back.last = &link->back.first;
        if (lost_until_us[port] > now_us)
            link->out.stalled_until_us = link->back.stalled_until_us = lost_until_us[port];
        return link;
    }
    give_up("too many connections");
    return NULL;
}

/* Makes a descriptor another file, with the same O_NONBLOCK. */
static void become(int fd, int other)
{
    int flags = fcntl(fd, F_GETFL);
    dup3(other, fd, O_CLOEXEC);
    fcntl(fd, F_SETFL, flags);
    real_close(other);
}

/* --- sockets of the program --- */

SHOWN int socket(int domain, int type, int protocol)
{
    bool is_tcp = self && domain == AF_INET && (type & 0xF) == SOCK_STREAM;
    if (is_tcp && fails_with((int[]){EMFILE, ENFILE, ENOBUFS, ENOMEM}, 4)) return -1;
    int fd = (int)syscall(SYS_socket, is_tcp ? AF_UNIX : domain, type, is_tcp ? 0 : protocol);
    if (is_tcp && fd >= 0) {
        if (fd >= FDS_MAX) give_up("too many descriptors");
        outers[fd] = (struct outer){.kind = UNBOUND};
    }
    return fd;
}

static int fail(int error)
{
    errno = error;
    return -1;
}

static struct outer *bound_to(int port)
{
    for (int fd = 0; fd < FDS_MAX; fd++) {
        if ((outers[fd].kind == BOUND || outers[fd].kind == LISTENER) && outers[fd].port == port)
            return &outers[fd];
    }
    return NULL;
}

SHOWN int bind(int fd, const struct sockaddr *address, socklen_t size)
{
    struct outer *outer = outer_of(fd);
    if (!outer) return (int)syscall(SYS_bind, fd, address, size);
    int port = ntohs(((const struct sockaddr_in *)address)->sin_port);
    if (port && bound_to(port)) return fail(EADDRINUSE);
    outer->port = port ? port : ++last_port;
    outer->kind = BOUND;
    return 0;
}

SHOWN int listen(int fd, int backlog)
{
    struct outer *outer = outer_of(fd);
    if (!outer) return (int)syscall(SYS_listen, fd, backlog);
    become(fd, eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC));
    outer->kind = LISTENER;
    return 0;
}

SHOWN int connect(int fd, const struct sockaddr *address, socklen_t size)
{
    struct outer *outer = outer_of(fd);
    if (!outer) return (int)syscall(SYS_connect, fd, address, size);
    int port = ntohs(((const struct sockaddr_in *)address)->sin_port);
    struct outer *listener = bound_to(port);
    if (fails_with((int[]){ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL, ETIMEDOUT}, 4)) return -1;
    if (!listener || listener->kind != LISTENER || refused_until_us[port] > now_us ||
        listener->waiting_count == WAITING_MAX)
        return fail(ECONNREFUSED);
    int client[2], server[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, client)) return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, server)) return -1;
    struct link *link = new_link(port, inner_end(client[1]), inner_end(server[1]));
    become(fd, client[0]);
    outer->kind = CONNECTED;
    outer->port = ++last_client_port;
    outer->peer_port = port;
    outer->link = link;
    int place = listener->waiting_count++;
    listener->waiting[place] = server[0];
    listener->waiting_peers[place] = outer->port;
    listener->waiting_links[place] = link;
    uint64_t one = 1;
    syscall(SYS_write, (int)(listener - outers), &one, sizeof one);
    changes++;
    preempt();
    return 0;
}

static void put_address(int port, struct sockaddr *address, socklen_t *size)
{
    struct sockaddr_in found = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (!address) return;
    found.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(address, &found, *size < sizeof found ? *size : sizeof found);
    *size = sizeof found;
}

SHOWN int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    struct outer *outer = outer_of(fd);
    if (!outer) return (int)syscall(SYS_accept4, fd, address, size, flags);
    struct pollfd own = {fd, POLLIN, 0};
    if (!outer->waiting_count && fcntl(fd, F_GETFL) & O_NONBLOCK) return fail(EAGAIN);
    while (!outer->waiting_count) wait_for_fds(&own, 1, NEVER);
    uint64_t one;
    syscall(SYS_read, fd, &one, sizeof one);
    int found = outer->waiting[0], peer = outer->waiting_peers[0];
    struct link *link = outer->waiting_links[0];
    size_t left = (size_t)--outer->waiting_count;
    memmove(outer->waiting, outer->waiting + 1, left * sizeof outer->waiting[0]);
    memmove(outer->waiting_peers, outer->waiting_peers + 1, left * sizeof outer->waiting_peers[0]);
    memmove(outer->waiting_links, outer->waiting_links + 1, left * sizeof outer->waiting_links[0]);
    outers[found] = (struct outer){CONNECTED, outer->port, peer, link, {0}, {0}, 0, {NULL}};
    if (flags & SOCK_NONBLOCK) fcntl(found, F_SETFL, O_NONBLOCK);
    put_address(peer, address, size);
    changes++;
    return found;
}

SHOWN int accept(int fd, struct sockaddr *address, socklen_t *size)
{
    return accept4(fd, address, size, 0);
}

SHOWN int getsockname(int fd, struct sockaddr *address, socklen_t *size)
{
    struct outer *outer = outer_of(fd);
    if (!outer) return (int)syscall(SYS_getsockname, fd, address, size);
    put_address(outer->port, address, size);
    return 0;
}

SHOWN int getpeername(int fd, struct sockaddr *address, socklen_t *size)
{
    struct outer *outer = outer_of(fd);
    if (!outer) return (int)syscall(SYS_getpeername, fd, address, size);
    if (outer->kind != CONNECTED) return fail(ENOTCONN);
    put_address(outer->peer_port, address, size);
    return 0;
}

SHOWN int setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
    if (outer_of(fd)) return 0;
    return (int)syscall(SYS_setsockopt, fd, level, option, value, size);
}

SHOWN int getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
    if (outer_of(fd) && level != SOL_SOCKET) {
        memset(value, 0, *size);
        return 0;
    }
    return (int)syscall(SYS_getsockopt, fd, level, option, value, size);
}

SHOWN int shutdown(int fd, int how)
{
    int status = (int)syscall(SYS_shutdown, fd, how);
    note_change(fd);
    return status;
}

SHOWN int close(int fd)
{
    struct outer *outer = outer_of(fd);
    if (!real_close) find_functions();
    note_change(fd);
    if (outer && outer->kind == LISTENER) {
        for (int i = 0; i < outer->waiting_count; i++) {
            if (outer->waiting_links[i]) outer->waiting_links[i]->changed = some_changed = true;
            real_close(outer->waiting[i]);
        }
    }
    if (outer) memset(outer, 0, sizeof *outer);
    return real_close(fd);
}

/* Before a call that may wait. Returns false if it would block a descriptor that doesn't. */
static bool wait_until(int fd, short events)
{
    struct pollfd own = {fd, events, 0};
    if (!self || fd <= STDERR_FILENO || poll_now(&own, 1)) return true;
    if (fcntl(fd, F_GETFL) & O_NONBLOCK) return false;
    wait_for_fds(&own, 1, NEVER);
    return true;
}

/* A call is interrupted, or a descriptor that doesn't block would. */
static bool is_interrupted(int fd)
{
    bool may_block = outer_of(fd) && fcntl(fd, F_GETFL) & O_NONBLOCK;
    return fd > STDERR_FILENO && fails_with((int[]){EINTR, EAGAIN}, may_block ? 2 : 1);
}

static bool cannot_send(int fd)
{
    return is_interrupted(fd) || (outer_of(fd) && fails_with((int[]){ENOBUFS}, 1));
}

/* A part of the bytes, if the call is to be a short one. */
static size_t part_of(int fd, size_t size)
{
    return size > 1 && outer_of(fd) && fails() ? 1 + (size_t)below((int64_t)size - 1) : size;
}

/* After a call that moved bytes. */
static ssize_t moved(int fd, ssize_t result)
{
    if (!self) return result;
    int error = errno;
    note_change(fd);
    preempt_outside();
    errno = error;
    return result;
}

SHOWN ssize_t read(int fd, void *bytes, size_t size)
{
    if (is_interrupted(fd)) return -1;
    if (!wait_until(fd, POLLIN)) return fail(EAGAIN);
    return moved(fd, syscall(SYS_read, fd, bytes, part_of(fd, size)));
}

SHOWN ssize_t readv(int fd, const struct iovec *parts, int count)
{
    if (is_interrupted(fd)) return -1;
    if (!wait_until(fd, POLLIN)) return fail(EAGAIN);
    struct iovec part = {parts[0].iov_base, part_of(fd, parts[0].iov_len)};
    if (part.iov_len < parts[0].iov_len) return moved(fd, syscall(SYS_readv, fd, &part, 1));
    return moved(fd, syscall(SYS_readv, fd, parts, count));
}

SHOWN ssize_t recvfrom(int fd, void *restrict bytes, size_t size, int flags,
                       struct sockaddr *restrict address, socklen_t *restrict length)
{
    if (!self) return syscall(SYS_recvfrom, fd, bytes, size, flags, address, length);
    bool waits = !(flags & MSG_DONTWAIT), takes_all = waits && flags & MSG_WAITALL;
    size_t taken = 0;
    if (is_interrupted(fd)) return -1;
    if (!takes_all) size = part_of(fd, size);
    for (;;) {
        if (waits && !wait_until(fd, POLLIN)) return taken ? (ssize_t)taken : fail(EAGAIN);
        ssize_t result = moved(fd, syscall(SYS_recvfrom, fd, (char *)bytes + taken, size - taken,
                                           (flags & ~MSG_WAITALL) | MSG_DONTWAIT, address, length));
        if (result <= 0) return taken ? (ssize_t)taken : result;
        taken += (size_t)result;
        if (!takes_all || taken == size) return (ssize_t)taken;
    }
}

SHOWN ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
    return recvfrom(fd, bytes, size, flags, NULL, NULL);
}

SHOWN ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    if (!(flags & MSG_DONTWAIT) && !wait_until(fd, POLLIN)) return fail(EAGAIN);
    return moved(fd, syscall(SYS_recvmsg, fd, message, flags));
}

/* A blocking descriptor takes all bytes: the caller goes on after each part. Python and the client
 * send the rest themselves. */
SHOWN ssize_t write(int fd, const void *bytes, size_t size)
{
    if (cannot_send(fd)) return -1;
    if (!wait_until(fd, POLLOUT)) return fail(EAGAIN);
    return moved(fd, syscall(SYS_write, fd, bytes, part_of(fd, size)));
}

SHOWN ssize_t sendto(int fd, const void *bytes, size_t size, int flags,
                     const struct sockaddr *address, socklen_t length)
{
    if (cannot_send(fd)) return -1;
    if (!(flags & MSG_DONTWAIT) && !wait_until(fd, POLLOUT)) return fail(EAGAIN);
    flags |= outer_of(fd) ? MSG_DONTWAIT : 0;
    return moved(fd, syscall(SYS_sendto, fd, bytes, part_of(fd, size), flags, address, length));
}

SHOWN ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    return sendto(fd, bytes, size, flags, NULL, 0);
}

SHOWN ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (cannot_send(fd)) return -1;
    if (!(flags & MSG_DONTWAIT) && !wait_until(fd, POLLOUT)) return fail(EAGAIN);
    flags |= outer_of(fd) ? MSG_DONTWAIT : 0;
    struct iovec part = {message->msg_iov[0].iov_base, part_of(fd, message->msg_iov[0].iov_len)};
    struct msghdr short_one = {.msg_iov = &part, .msg_iovlen = 1};
    if (part.iov_len < message->msg_iov[0].iov_len) message = &short_one;
    return moved(fd, syscall(SYS_sendmsg, fd, message, flags));
}

/* --- for tests --- */

SHOWN int64_t machine_bytes(void) { return bytes_carried; }
SHOWN int64_t machine_limited(void) { return limited_count; }
SHOWN int64_t machine_lost(void) { return lost_count; }

/* Ends the connections of clients of a group; silently: brokers get no sign. */
void network_end_group(int group, bool silently)
{
    for (int i = 0; i < link_count; i++) {
        struct link *link = &links[i];
        if (!link->used || link->group != group) continue;
        if (!silently) link_free(link);
        else link->out.stalled_until_us = link->back.stalled_until_us = NEVER;
    }
    some_changed = true;
}

SHOWN void machine_set_delay(int64_t min_us, int64_t max_us)
{
    delay_min_us = min_us;
    delay_max_us = max_us;
}

/* Bytes arrive in pieces of 1 to `size`; 0: as they were sent. */
SHOWN void machine_split(int64_t size) { piece_max = size > 0 ? size : PIECE_MAX; }

/* A connection carries this many bytes a second in each direction; 0: any number. */
SHOWN void machine_limit(int64_t bytes) { bytes_per_s = bytes; }

/* So many of a million segments are lost at each try. */
SHOWN void machine_lose(int64_t per_million) { lost_per_million = per_million; }

/* Cuts the connections of a listener's port. What is in flight is lost. */
SHOWN int machine_cut(int port)
{
    int count = 0;
    for (int i = 0; i < link_count; i++) {
        struct link *link = &links[i];
        if (!link->used || link->port != port) continue;
        link_free(link);
        count++;
    }
    return count;
}

/* Nothing reaches the port (1), leaves it (2) or both (3) for some time. Connections stay open. New
 * ones can be opened, and stall as well. */
SHOWN void machine_stall(int port, int ways, int64_t length_us)
{
    int64_t until_us = now_us + length_us;
    for (int i = 0; i < link_count; i++) {
        struct link *link = &links[i];
        if (!link->used || link->port != port) continue;
        if (ways & 1) link->out.stalled_until_us = until_us;
        if (ways & 2) link->back.stalled_until_us = until_us;
    }
    if (ways == 3) lost_until_us[port] = until_us;
    some_changed = true;
}

/* The port refuses connections for some time. */
SHOWN void machine_refuse(int port, int64_t length_us)
{
    refused_until_us[port] = now_us + length_us;
}
