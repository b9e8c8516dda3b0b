/* Helpers of the engine's C tests: a check, and a peer on a loopback socket that the test plays. */
#ifndef KN_TESTS_ENGINE_CHECK_H
#define KN_TESTS_ENGINE_CHECK_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/status.h"
#include "check.h"

#define CHECK_TEXT(text, part)                                                                     \
    do {                                                                                           \
        const char *check_text = (text);                                                           \
        atomic_fetch_add(&check_count, 1);                                                         \
        if (!strstr(check_text, (part))) {                                                         \
            fprintf(stderr, "%s:%d: %s: '%s' is not in '%s'\n", __FILE__, __LINE__, __func__,      \
                    (part), check_text);                                                           \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Opens a listener on 127.0.0.1, at a port that the system chooses. */
__attribute__((unused)) static int peer_listen(uint16_t *port, int backlog)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t address_bytes = sizeof address;
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(listen(fd, backlog), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&address, &address_bytes), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* Returns a port without a listener. */
__attribute__((unused)) static uint16_t peer_closed_port(void)
{
    uint16_t port;
    close(peer_listen(&port, 1));
    return port;
}

__attribute__((unused)) static int peer_accept(int listener)
{
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    return fd;
}

__attribute__((unused)) static void peer_write(int fd, const void *data, size_t size_bytes)
{
    const uint8_t *at = data;
    while (size_bytes) {
        ssize_t sent = send(fd, at, size_bytes, MSG_NOSIGNAL);
        CHECK(sent > 0);
        at += sent;
        size_bytes -= (size_t)sent;
    }
}

__attribute__((unused)) static void peer_read(int fd, void *data, size_t size_bytes)
{
    uint8_t *at = data;
    while (size_bytes) {
        ssize_t got = recv(fd, at, size_bytes, 0);
        CHECK(got > 0);
        at += got;
        size_bytes -= (size_t)got;
    }
}

__attribute__((unused)) static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

__attribute__((unused)) static void set_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Reads one request frame. Returns its bytes without the length, from malloc(). */
__attribute__((unused)) static uint8_t *peer_read_request(int fd, size_t *size_bytes,
                                                          int32_t *correlation_id)
{
    uint8_t length[4];
    peer_read(fd, length, sizeof length);
    *size_bytes = get_u32(length);
    CHECK(*size_bytes >= 10 && *size_bytes < ((size_t)64 << 20));
    uint8_t *frame = malloc(*size_bytes);
    peer_read(fd, frame, *size_bytes);
    *correlation_id = (int32_t)get_u32(frame + 4);
    return frame;
}

__attribute__((unused)) static void peer_reply(int fd, int32_t correlation_id, const void *body,
                                               size_t body_bytes)
{
    uint8_t *frame = malloc(8 + body_bytes);
    set_u32(frame, (uint32_t)(4 + body_bytes));
    set_u32(frame + 4, (uint32_t)correlation_id);
    if (body_bytes) memcpy(frame + 8, body, body_bytes);
    peer_write(fd, frame, 8 + body_bytes);
    free(frame);
}

#endif
