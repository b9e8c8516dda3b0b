/* The TCP transport: gather writes and scatter reads on a non-blocking socket.
 *
 * Thread: the connection's. Lock: none. Who frees: kn_stream_close() closes the descriptor.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/transport.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/chunk.h"
#include "net/tls.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* macOS: SO_NOSIGPIPE is set on the socket instead */
#endif

static int tcp_start(struct kn_stream *stream, const char *host)
{
    (void)stream;
    (void)host;
    return 0;
}

static size_t total_bytes(const struct iovec *pieces, int count)
{
    size_t total = 0;
    for (int i = 0; i < count; i++) total += pieces[i].iov_len;
    return total;
}

static ssize_t tcp_result(struct kn_stream *stream, ssize_t moved)
{
    if (moved >= 0) return moved;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return KN_STREAM_AGAIN;
    stream->error = errno;
    return KN_STREAM_FAILED;
}

static ssize_t tcp_read(struct kn_stream *stream, struct iovec *pieces, int count)
{
    ssize_t got;
    do {
        got = count == 1 ? recv(stream->fd, pieces[0].iov_base, pieces[0].iov_len, 0)
                         : readv(stream->fd, pieces, count);
    } while (got < 0 && errno == EINTR);
    /* a short read: poll(2) reports when there are more bytes */
    stream->drained = got < (ssize_t)total_bytes(pieces, count);
    return tcp_result(stream, got);
}

static ssize_t tcp_write(struct kn_stream *stream, const struct iovec *pieces, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
    ssize_t sent;
    do {
        sent = sendmsg(stream->fd, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return tcp_result(stream, sent);
}

static void tcp_stop(struct kn_stream *stream) { (void)stream; }

const struct kn_transport kn_transport_tcp = {
    .name = "tcp", .start = tcp_start, .read = tcp_read, .write = tcp_write, .stop = tcp_stop};

void kn_stream_init(struct kn_stream *stream, struct kn_tls *tls)
{
    *stream = (struct kn_stream){
        .transport = tls ? &kn_transport_tls : &kn_transport_tcp, .tls = tls, .fd = -1};
}

static void stream_forget(struct kn_stream *stream)
{
    kn_chunk_unref(stream->certificate);
    stream->certificate = NULL;
    stream->verify_error = stream->error = 0;
    stream->text[0] = 0;
}

void kn_stream_open(struct kn_stream *stream, int fd)
{
    stream_forget(stream);
    stream->fd = fd;
    stream->drained = 0;
}

void kn_stream_close(struct kn_stream *stream)
{
    if (stream->fd < 0) return;
    stream->transport->stop(stream);
    int fd = stream->fd;
    /* before close(): a forked child closes the descriptor that it finds here, and after close() the
     * number may belong to another file */
    stream->fd = -1;
    close(fd);
    stream->wants = 0;
}

void kn_stream_deinit(struct kn_stream *stream)
{
    stream_forget(stream);
    if (stream->tls) kn_tls_forget_ticket(stream);
}
