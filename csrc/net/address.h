/* The addresses of a host name, and a non-blocking connect to one of them.
 *
 * Thread: the connection's only; resolving blocks, so no lock may be held. Who frees:
 * kn_address_list_clear().
 */
#ifndef KN_NET_ADDRESS_H
#define KN_NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct addrinfo;

struct kn_socket_config {
    int32_t send_buffer_bytes, receive_buffer_bytes; /* 0: the system's */
    bool keepalive, nagle_disable;
    int address_family;     /* 0 any, 4, 6 */
    int32_t address_ttl_ms; /* broker.address.ttl: how long a name's addresses are good */
};

#define KN_ADDRESS_TEXT_BYTES 72 /* "[" IPv6 "%" scope "]:" port */

struct kn_address_list {
    struct addrinfo *head; /* as getaddrinfo gave it */
    int count;
    /* where this round starts: rotates, so that a bad first address isn't tried first for ever */
    int first;
    int tried;
    int64_t fresh_until_us;
};

/* Begins a round over the host's addresses; those of a moment ago are good for address_ttl_ms. The
 * same host and port each time, or kn_address_list_clear() before. KN_OK, or KN_ERR_RESOLVE with
 * the resolver's phrase in *why. */
int kn_address_resolve(struct kn_address_list *list, const char *host, uint16_t port,
                       const struct kn_socket_config *config, const char **why);
/* The next address of this round, NULL when all were tried. */
const struct addrinfo *kn_address_next(struct kn_address_list *list);
/* the round is over: the next one starts after the last address that was tried */
void kn_address_list_rewind(struct kn_address_list *list);
void kn_address_list_clear(struct kn_address_list *list); /* keeps the rotation */
void kn_address_text(const struct sockaddr *address, socklen_t address_bytes,
                     char text[KN_ADDRESS_TEXT_BYTES]);
/* A non-blocking socket with a connect under way. Returns the descriptor or -errno; *connected is 1
 * when it is up already. */
int kn_address_connect(const struct addrinfo *address, const struct kn_socket_config *config,
                       int *connected);

#endif
