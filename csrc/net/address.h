/* Resolves a host name to addresses, and starts a non-blocking connect to one of them.
 *
 * Thread: the connection's only. Resolving blocks, so the thread must hold no lock.
 * Who frees: kn_address_list_clear(). */
#ifndef KN_NET_ADDRESS_H
#define KN_NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct addrinfo;

struct kn_socket_config {
    int32_t send_buffer_bytes, receive_buffer_bytes; /* 0: the system's default */
    bool keepalive, nagle_disable;
    int address_family;     /* 0: any, or 4, or 6 */
    int32_t address_ttl_ms; /* broker.address.ttl: how long resolved addresses are valid */
};

#define KN_ADDRESS_TEXT_BYTES 72 /* "[" IPv6 "%" scope "]:" port */
#define KN_ADDRESSES_MAX 128     /* further addresses of a name are ignored */

struct kn_address_list {
    struct addrinfo *head; /* result of getaddrinfo() */
    int count;
    /* the random order in which clients try the addresses; it stays while their number does */
    uint8_t order[KN_ADDRESSES_MAX];
    int ordered;
    /* index in `order` at which this round begins: it rotates, so that a bad address isn't always
     * first */
    int first;
    int tried;
    int64_t fresh_until_us;
};

/* Begins a round over the host's addresses, in random order. Resolves the name again only after
 * address_ttl_ms. To change host or port, call kn_address_list_clear() before. KN_OK, or
 * KN_ERR_RESOLVE with the resolver's error text in *why. */
int kn_address_resolve(struct kn_address_list *list, const char *host, uint16_t port,
                       const struct kn_socket_config *config, const char **why);
/* Returns the next address of this round; NULL after the last one. */
const struct addrinfo *kn_address_next(struct kn_address_list *list);
/* ends the round: the next one begins behind the last address that was tried */
void kn_address_list_rewind(struct kn_address_list *list);
void kn_address_list_clear(struct kn_address_list *list); /* keeps the rotation */
void kn_address_text(const struct sockaddr *address, socklen_t address_bytes,
                     char text[KN_ADDRESS_TEXT_BYTES]);
/* Makes a non-blocking socket and starts a connect. Returns the descriptor or -errno. *connected is
 * 1 if it is connected already. */
int kn_address_connect(const struct addrinfo *address, const struct kn_socket_config *config,
                       int *connected);

#endif
