/* A proxy's answers, in pieces of any size, over a transport of the target. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <string.h>
#include <sys/socket.h>

/* only this file: the other targets link none of the engine, so stubs below replace what it
 * needs */
#include "net/proxy.c"
#include "fuzz.h"

static const uint8_t *left;
static size_t left_bytes, piece_bytes;

static ssize_t fuzz_write(struct kn_stream *stream, const struct iovec *pieces, int count)
{
    size_t total = 0;
    (void)stream;
    for (int i = 0; i < count; i++) {
        fuzz_touch(pieces[i].iov_base, (int64_t)pieces[i].iov_len);
        total += pieces[i].iov_len;
    }
    FUZZ_CHECK(total > 0);
    return (ssize_t)(total < piece_bytes ? total : piece_bytes);
}

static ssize_t fuzz_read(struct kn_stream *stream, struct iovec *pieces, int count)
{
    (void)stream;
    FUZZ_CHECK(count == 1 && pieces[0].iov_len > 0);
    memset(pieces[0].iov_base, 0xdd, pieces[0].iov_len); /* the tunnel may fill all of it */
    size_t size = left_bytes < piece_bytes ? left_bytes : piece_bytes;
    if (size > pieces[0].iov_len) size = pieces[0].iov_len;
    memcpy(pieces[0].iov_base, left, size);
    left += size;
    left_bytes -= size;
    return (ssize_t)size;
}

const struct kn_transport kn_transport_tcp = {
    .name = "fuzz", .read = fuzz_read, .write = fuzz_write};

const char *kn_errno_text(int error, char *buffer, size_t size_bytes)
{
    snprintf(buffer, size_bytes, "error %d", error);
    return buffer;
}

/* The input has the kind of proxy, whether there is a login, an address or a name, the size of
 * pieces, and the answers. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static const uint8_t login[] = "the login";
    static uint8_t scratch[KN_TUNNEL_SCRATCH_BYTES];
    struct sockaddr_in6 target = {.sin6_family = AF_INET6};
    struct kn_stream stream = {.fd = -1};
    struct kn_tunnel tunnel;
    if (size_bytes < 2) return 0;
    struct kn_proxy *proxy = kn_proxy_new(data[0] & 1 ? KN_PROXY_HTTP : KN_PROXY_SOCKS5, 1, "p",
                                          1080, login, data[0] & 2 ? sizeof login : 0);
    FUZZ_CHECK(proxy != NULL);
    piece_bytes = 1 + (size_t)data[1];
    left = data + 2;
    left_bytes = size_bytes - 2;
    kn_tunnel_begin(&tunnel, proxy, "broker", 9092,
                    data[0] & 4 ? (const struct sockaddr *)(const void *)&target : NULL);
    int result = kn_tunnel_step(&tunnel, &stream, scratch);
    FUZZ_CHECK(result == 0 || result == KN_STREAM_FAILED); /* the transport never returns AGAIN */
    FUZZ_CHECK((result == 0) == (tunnel.stage == KN_TUNNEL_OPEN));
    FUZZ_CHECK((result == 0) == (tunnel.text[0] == 0));
    FUZZ_CHECK(!strstr(tunnel.text, "the login"));
    kn_proxy_unref(proxy);
    return 0;
}
