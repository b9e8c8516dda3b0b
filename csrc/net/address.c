/* Name resolution and non-blocking connects.
 *
 * Thread: the connection's. Lock: none may be held, because getaddrinfo blocks.
 * Who frees: kn_address_list_clear() the list, the caller the descriptor. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/address.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/status.h"
#include "net/thread.h"

/* Without it, all clients would use the address that the resolver returns first. */
static void address_list_shuffle(struct kn_address_list *list)
{
    for (int i = 0; i < list->count; i++) {
        int j = (int)kn_random_below((uint32_t)i + 1);
        list->order[i] = list->order[j];
        list->order[j] = (uint8_t)i;
    }
    list->ordered = list->count;
    list->first = 0;
}

int kn_address_resolve(struct kn_address_list *list, const char *host, uint16_t port,
                       const struct kn_socket_config *config, const char **why)
{
    kn_address_list_rewind(list);
    if (list->head && kn_clock_us() < list->fresh_until_us) return KN_OK;
    kn_address_list_clear(list);
    char service[8];
    snprintf(service, sizeof service, "%u", (unsigned)port);
    struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_TCP, .ai_flags = AI_NUMERICSERV};
    hints.ai_family = config->address_family == 4   ? AF_INET
                      : config->address_family == 6 ? AF_INET6
                                                    : AF_UNSPEC;
    int failed = getaddrinfo(host, service, &hints, &list->head);
    if (failed) {
        list->head = NULL;
        *why = gai_strerror(failed);
        return KN_ERR_RESOLVE;
    }
    for (const struct addrinfo *at = list->head; at && list->count < KN_ADDRESSES_MAX;
         at = at->ai_next)
        list->count++;
    if (list->ordered != list->count) address_list_shuffle(list);
    list->fresh_until_us = kn_clock_us() + (int64_t)config->address_ttl_ms * 1000;
    return KN_OK;
}

const struct addrinfo *kn_address_next(struct kn_address_list *list)
{
    if (list->tried >= list->count) return NULL;
    const struct addrinfo *at = list->head;
    for (int skip = list->order[(list->first + list->tried) % list->count]; skip > 0; skip--)
        at = at->ai_next;
    list->tried++;
    return at;
}

void kn_address_list_rewind(struct kn_address_list *list)
{
    if (list->count) list->first = (list->first + list->tried) % list->count;
    list->tried = 0;
}

void kn_address_list_clear(struct kn_address_list *list)
{
    kn_address_list_rewind(list);
    if (list->head) freeaddrinfo(list->head);
    list->head = NULL;
    list->count = 0;
}

void kn_address_text(const struct sockaddr *address, socklen_t address_bytes,
                     char text[KN_ADDRESS_TEXT_BYTES])
{
    char host[56];
    char port[8];
    if (getnameinfo(address, address_bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV)) {
        snprintf(text, KN_ADDRESS_TEXT_BYTES, "unknown address");
        return;
    }
    snprintf(text, KN_ADDRESS_TEXT_BYTES, address->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
             host, port);
}

/* Errors are ignored: without an option the connection still works. */
static void socket_options(int fd, const struct kn_socket_config *config)
{
    int on = 1;
    if (config->nagle_disable) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (config->keepalive) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    if (config->send_buffer_bytes > 0) {
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &config->send_buffer_bytes,
                   sizeof config->send_buffer_bytes);
    }
    if (config->receive_buffer_bytes > 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &config->receive_buffer_bytes,
                   sizeof config->receive_buffer_bytes);
    }
#ifdef SO_NOSIGPIPE
    setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
}

static int socket_new(const struct addrinfo *address)
{
#ifdef SOCK_CLOEXEC
    return socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                  address->ai_protocol);
#else
    int fd = socket(address->ai_family, address->ai_socktype, address->ai_protocol);
    if (fd >= 0) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        fcntl(fd, F_SETFL, O_NONBLOCK);
    }
    return fd;
#endif
}

int kn_address_connect(const struct addrinfo *address, const struct kn_socket_config *config,
                       int *connected)
{
    *connected = 0;
    int fd = socket_new(address);
    if (fd < 0) return -errno;
    socket_options(fd, config);
    if (connect(fd, address->ai_addr, address->ai_addrlen) == 0) {
        *connected = 1;
        return fd;
    }
    /* EINTR: the connect goes on by itself, as with EINPROGRESS. */
    if (errno == EINPROGRESS || errno == EINTR) return fd;
    int error = errno;
    close(fd);
    return -error;
}
