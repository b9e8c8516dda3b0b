/* The TLS transport: one session per connection, directly on the socket's descriptor.
 *
 * Thread: the connection's, except as tls.h says.
 * Lock: `lock` of struct kn_tls while a session is made from the context.
 * Who frees: kn_stream_close() the session, kn_stream_deinit() the ticket.
 *
 * Writing. Each SSL_write() makes at least one record, so small pieces are collected up to the size
 * of a record. Larger pieces are encrypted in place. After AGAIN, OpenSSL holds a complete record
 * that isn't fully sent, and requires the same bytes again. None of these bytes were reported as
 * written, so the caller passes them again first. The same rule splits them in the same way
 * (`retry_bytes` is their number).
 *
 * Failing safely. A session doesn't start if its host can't be set for verification. The verify
 * callback only notes OpenSSL's result and never changes a refusal. After the handshake the result
 * is checked again: the cipher suite must encrypt, and the certificate must be verified.
 *
 * Resuming. The peer of a resumed session sends no certificate, so OpenSSL verifies none. So a
 * ticket is used only for the host whose certificate was verified, under the same context
 * (`epoch`), and for at most KN_TLS_TICKET_MAX_S. Otherwise the next handshake is a full one. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/wipe.h"
#include "net/chunk.h"

/* OpenSSL's constants: part of its interface, unchanged since 1.1 */
#define ERROR_SSL 1
#define ERROR_WANT_READ 2
#define ERROR_WANT_WRITE 3
#define ERROR_SYSCALL 5
#define ERROR_ZERO_RETURN 6
#define MODE_ENABLE_PARTIAL_WRITE 1
#define MODE_ACCEPT_MOVING_WRITE_BUFFER 2
#define VERIFY_NONE 0
#define VERIFY_PEER 1
#define VERIFY_OK 0
#define HOST_NO_PARTIAL_WILDCARDS 4
/* the common name doesn't count as a host name, only subjectAltName */
#define HOST_NEVER_CHECK_SUBJECT 0x20

#define CERTIFICATE_BYTES_MAX 32768 /* limit of the two certificates, which are only reported */
#define HOST_BYTES_MAX 256

struct tls_session {
    void *ssl;
    int is_up;
    int is_broken; /* after a fatal error: send no close_notify */
    int has_ended; /* `end` is set; the next call reports it, because this one had bytes */
    int end;       /* 0 or FAILED */
    /* how many bytes the SSL_write() that returned AGAIN was called with; 0: none did */
    size_t retry_bytes;
    uint8_t stage[KN_TLS_RECORD_BYTES];
};

/* The stream of the handshake that this thread runs: OpenSSL's verify callback can't pass it. */
static _Thread_local struct kn_stream *verifying;

/* --- the client's --- */

static const char *const function_names[] = {
#define KN_TLS_NAME(name, result, parameters) #name,
    KN_TLS_FUNCTIONS(KN_TLS_NAME)
#undef KN_TLS_NAME
};
#define FUNCTION_COUNT ((int)(sizeof function_names / sizeof *function_names))

const char *kn_tls_function_name(int index)
{
    return index >= 0 && index < FUNCTION_COUNT ? function_names[index] : NULL;
}

struct kn_tls *kn_tls_new(int verify_peer, int verify_host)
{
    struct kn_tls *tls = calloc(1, sizeof *tls);
    if (!tls) return NULL;
    tls->verify_peer = verify_peer;
    tls->verify_host = verify_host;
    atomic_init(&tls->refs, 1);
    kn_mutex_init(&tls->lock, KN_RANK_LEAF);
    return tls;
}

struct kn_tls *kn_tls_ref(struct kn_tls *tls)
{
    if (tls) atomic_fetch_add_explicit(&tls->refs, 1, memory_order_relaxed);
    return tls;
}

void kn_tls_unref(struct kn_tls *tls)
{
    if (!tls || atomic_fetch_sub_explicit(&tls->refs, 1, memory_order_acq_rel) != 1) return;
    kn_mutex_deinit(&tls->lock);
    free(tls);
}

/* The functions are pointers of one size, in the order of their names. */
_Static_assert(sizeof(struct kn_tls_functions) ==
                   sizeof function_names / sizeof *function_names * sizeof(uintptr_t),
               "function pointers");

int kn_tls_set_function(struct kn_tls *tls, const char *name, uintptr_t address)
{
    for (int i = 0; i < FUNCTION_COUNT; i++) {
        if (strcmp(function_names[i], name)) continue;
        memcpy((uint8_t *)&tls->call + (size_t)i * sizeof address, &address, sizeof address);
        return 0;
    }
    return -1;
}

const char *kn_tls_missing(const struct kn_tls *tls)
{
    for (int i = 0; i < FUNCTION_COUNT; i++) {
        uintptr_t address;
        memcpy(&address, (const uint8_t *)&tls->call + (size_t)i * sizeof address, sizeof address);
        if (!address) return function_names[i];
    }
    return NULL;
}

void kn_tls_set_context(struct kn_tls *tls, void *context)
{
    kn_mutex_lock(&tls->lock);
    tls->context = context;
    tls->epoch++;
    kn_mutex_unlock(&tls->lock);
}

/* --- failing --- */

static int tls_fail(struct kn_stream *stream, const char *text)
{
    struct tls_session *session = stream->session;
    if (session) session->is_broken = 1;
    snprintf(stream->text, sizeof stream->text, "%s", text);
    return KN_STREAM_FAILED;
}

/* Returns the result for an SSL_ function's failure; 0: the peer has ended the stream. Empties the
 * thread's error queue. */
static int tls_outcome(struct kn_stream *stream, int result)
{
    const struct kn_tls_functions *call = &stream->tls->call;
    struct tls_session *session = stream->session;
    int system_error = errno;
    int kind = call->SSL_get_error(session->ssl, result);
    if (kind == ERROR_WANT_READ || kind == ERROR_WANT_WRITE) {
        stream->wants = kind == ERROR_WANT_READ ? POLLIN : POLLOUT;
        return KN_STREAM_AGAIN;
    }
    if (kind == ERROR_ZERO_RETURN) return 0;
    session->is_broken = 1;
    unsigned long error = call->ERR_get_error();
    const char *reason = error ? call->ERR_reason_error_string(error) : NULL;
    call->ERR_clear_error();
    /* The peer closed without close_notify. This is accepted: Kafka's frames show whether bytes are
     * missing. */
    if (kind == ERROR_SYSCALL && !error && (result == 0 || system_error == 0)) return 0;
    if (reason && strstr(reason, "unexpected eof")) return 0;
    if (kind == ERROR_SYSCALL && !error) {
        stream->error = system_error;
        stream->text[0] = 0;
        return KN_STREAM_FAILED;
    }
    return tls_fail(stream, reason ? reason : "a TLS error without a reason");
}

/* Keeps the peer's refused certificate, and then the issuer's that is the cause, so that the error
 * can name both. */
static void keep_certificates(struct kn_stream *stream, void *certificate, void *cause)
{
    const struct kn_tls_functions *call = &stream->tls->call;
    void *bio = certificate && !stream->certificate ? call->BIO_new(call->BIO_s_mem()) : NULL;
    struct kn_buffer *buffer = bio && call->i2d_X509_bio(bio, certificate) > 0
                                   ? kn_buffer_take(NULL, CERTIFICATE_BYTES_MAX)
                                   : NULL;
    if (buffer) {
        /* if this fails, the error names only the peer's */
        if (cause && cause != certificate) call->i2d_X509_bio(bio, cause);
        int got = call->BIO_read(bio, buffer->data, CERTIFICATE_BYTES_MAX);
        buffer->size_bytes = got > 0 ? (size_t)got : 0;
        stream->certificate = kn_chunk_new(buffer);
        if (!stream->certificate) kn_buffer_give(buffer);
    }
    if (bio) call->BIO_free(bio);
}

static int on_verify(int ok, void *store)
{
    struct kn_stream *stream = verifying;
    if (!stream) return ok;
    const struct kn_tls_functions *call = &stream->tls->call;
    stream->verified_us = kn_clock_us();
    if (!ok) {
        stream->verify_error = call->X509_STORE_CTX_get_error(store);
        keep_certificates(stream, call->X509_STORE_CTX_get0_cert(store),
                          call->X509_STORE_CTX_get_current_cert(store));
    }
    return ok;
}

/* --- beginning --- */

static int set_host(struct kn_stream *stream, void *ssl, const char *host)
{
    const struct kn_tls_functions *call = &stream->tls->call;
    unsigned char ip[16];
    char name[HOST_BYTES_MAX];
    int is_ip4 = inet_pton(AF_INET, host, ip) == 1,
        is_ip6 = !is_ip4 && inet_pton(AF_INET6, host, ip) == 1;
    size_t size = strlen(host);
    /* host names in certificates have no trailing dot */
    while (size && host[size - 1] == '.') size--;
    if (!size || size >= sizeof name)
        return tls_fail(stream, "the host name can't be one of a certificate");
    memcpy(name, host, size);
    name[size] = 0;
    if (!is_ip4 && !is_ip6 && call->SSL_set_tlsext_host_name(ssl, name) != 1)
        return tls_fail(stream, "SNI can't be set");
    if (!stream->tls->verify_peer || !stream->tls->verify_host) return 0;
    void *param = call->SSL_get0_param(ssl);
    if (!param) return tls_fail(stream, "the host to verify can't be set");
    call->X509_VERIFY_PARAM_set_hostflags(param,
                                          HOST_NO_PARTIAL_WILDCARDS | HOST_NEVER_CHECK_SUBJECT);
    int set = is_ip4 || is_ip6 ? call->X509_VERIFY_PARAM_set1_ip(param, ip, is_ip4 ? 4 : 16)
                               : call->X509_VERIFY_PARAM_set1_host(param, name, size);
    return set == 1 ? 0 : tls_fail(stream, "the host to verify can't be set");
}

/* Makes a session from the client's current context. */
static void *new_ssl(struct kn_stream *stream)
{
    struct kn_tls *tls = stream->tls;
    kn_mutex_lock(&tls->lock);
    void *ssl = tls->context ? tls->call.SSL_new(tls->context) : NULL;
    uint32_t epoch = tls->epoch;
    kn_mutex_unlock(&tls->lock);
    /* it may belong to certificates that were replaced */
    if (epoch != stream->ticket_epoch) kn_tls_forget_ticket(stream);
    stream->ticket_epoch = epoch;
    return ssl;
}

/* A ticket is valid for the host whose certificate was verified, and for a limited time. */
static void check_ticket(struct kn_stream *stream, const char *host)
{
    int is_other = strncmp(stream->ticket_host, host, sizeof stream->ticket_host - 1) != 0;
    int is_old = stream->tls->verify_peer &&
                 kn_clock_us() - stream->verified_us >= KN_TLS_TICKET_MAX_S * INT64_C(1000000);
    if (is_other || is_old) kn_tls_forget_ticket(stream);
    snprintf(stream->ticket_host, sizeof stream->ticket_host, "%s", host);
}

static int tls_begin(struct kn_stream *stream, const char *host)
{
    const struct kn_tls_functions *call = &stream->tls->call;
    struct tls_session *session = malloc(sizeof *session);
    if (!session) return tls_fail(stream, "no memory for a TLS session");
    session->is_up = session->is_broken = session->has_ended = 0;
    session->retry_bytes = 0;
    session->ssl = new_ssl(stream);
    stream->session = session;
    if (!session->ssl) return tls_fail(stream, "no memory for a TLS session");
    /* Without verification no callback is needed. */
    call->SSL_set_verify(session->ssl, stream->tls->verify_peer ? VERIFY_PEER : VERIFY_NONE,
                         stream->tls->verify_peer ? on_verify : NULL);
    if (set_host(stream, session->ssl, host)) return KN_STREAM_FAILED;
    if (call->SSL_set_fd(session->ssl, stream->fd) != 1)
        return tls_fail(stream, "the socket can't be used for TLS");
    call->SSL_set_mode(session->ssl, MODE_ENABLE_PARTIAL_WRITE | MODE_ACCEPT_MOVING_WRITE_BUFFER);
    call->SSL_set_connect_state(session->ssl);
    check_ticket(stream, host);
    /* if this fails, the handshake is a full one */
    if (stream->ticket) call->SSL_set_session(session->ssl, stream->ticket);
    return 0;
}

/* Returns the reason to refuse a handshake that OpenSSL has accepted, in any configuration; NULL:
 * none. */
static const char *handshake_flaw(const struct kn_tls *tls, void *ssl)
{
    const struct kn_tls_functions *call = &tls->call;
    const void *cipher = call->SSL_get_current_cipher(ssl);
    if (!cipher || call->SSL_CIPHER_get_bits(cipher, NULL) <= 0)
        return "the negotiated cipher suite has no encryption";
    if (!tls->verify_peer) return NULL;
    void *certificate = call->SSL_get_peer_certificate(ssl);
    if (!certificate) return "the peer showed no certificate";
    call->X509_free(certificate);
    return call->SSL_get_verify_result(ssl) == VERIFY_OK ? NULL
                                                         : "the peer's certificate wasn't verified";
}

static int tls_start(struct kn_stream *stream, const char *host)
{
    const struct kn_tls_functions *call = &stream->tls->call;
    if (!stream->session && tls_begin(stream, host)) return KN_STREAM_FAILED;
    struct tls_session *session = stream->session;
    call->ERR_clear_error();
    errno = 0;
    verifying = stream;
    int result = call->SSL_do_handshake(session->ssl);
    verifying = NULL;
    if (result == 1) {
        const char *flaw = handshake_flaw(stream->tls, session->ssl);
        if (flaw) return tls_fail(stream, flaw);
        stream->wants = 0;
        session->is_up = 1;
        return 0;
    }
    int outcome = tls_outcome(stream, result);
    int is_closed = outcome == 0 || (outcome == KN_STREAM_FAILED && !stream->text[0] &&
                                     (stream->error == ECONNRESET || stream->error == EPIPE));
    if (is_closed) return tls_fail(stream, "the peer closed the connection in the TLS handshake");
    return outcome;
}

/* --- bytes --- */

/* Returns the result of a call that moved `moved` bytes and then got `outcome`: the bytes first.
 * The next call reports the end of the stream. */
static ssize_t tls_moved(struct tls_session *session, ssize_t moved, int outcome)
{
    if (!moved) return outcome;
    session->has_ended = outcome != KN_STREAM_AGAIN;
    session->end = outcome;
    return moved;
}

/* Fills the pieces with the available bytes: SSL_read() returns at most one record. */
static ssize_t tls_read(struct kn_stream *stream, struct iovec *pieces, int count)
{
    const struct kn_tls_functions *call = &stream->tls->call;
    struct tls_session *session = stream->session;
    ssize_t moved = 0;
    stream->drained = 0;
    stream->wants = 0;
    if (session->has_ended) return session->end;
    for (int i = 0; i < count; i++) {
        for (size_t at = 0; at < pieces[i].iov_len;) {
            size_t room = pieces[i].iov_len - at;
            call->ERR_clear_error();
            errno = 0;
            int got = call->SSL_read(session->ssl, (uint8_t *)pieces[i].iov_base + at,
                                     room > INT32_MAX ? INT32_MAX : (int)room);
            if (got > 0) {
                at += (size_t)got;
                moved += got;
                continue;
            }
            int outcome = tls_outcome(stream, got);
            /* the connection polls for it anyway */
            if (outcome == KN_STREAM_AGAIN && stream->wants == POLLIN) stream->wants = 0;
            stream->drained = outcome == KN_STREAM_AGAIN;
            return tls_moved(session, moved, outcome);
        }
    }
    return moved;
}

/* Chooses the next bytes to encrypt, from byte `skip` of pieces[0] on: large pieces in place, small
 * ones collected. */
static size_t tls_next(struct tls_session *session, const struct iovec *pieces, int count,
                       size_t skip, const uint8_t **from)
{
    size_t size_max = session->retry_bytes ? session->retry_bytes : KN_TLS_RECORD_BYTES;
    size_t first = pieces[0].iov_len - skip;
    if (first >= KN_TLS_RECORD_BYTES) {
        *from = (const uint8_t *)pieces[0].iov_base + skip;
        return session->retry_bytes ? session->retry_bytes : first > INT32_MAX ? INT32_MAX : first;
    }
    size_t used = 0;
    for (int i = 0; i < count && used < size_max; i++, skip = 0) {
        size_t size = pieces[i].iov_len - skip < size_max - used ? pieces[i].iov_len - skip
                                                                 : size_max - used;
        memcpy(session->stage + used, (const uint8_t *)pieces[i].iov_base + skip, size);
        used += size;
    }
    *from = session->stage;
    return used;
}

static ssize_t tls_write(struct kn_stream *stream, const struct iovec *pieces, int count)
{
    const struct kn_tls_functions *call = &stream->tls->call;
    struct tls_session *session = stream->session;
    ssize_t moved = 0;
    size_t skip = 0;
    if (session->has_ended && session->end == KN_STREAM_FAILED) return session->end;
    for (;;) {
        while (count && skip >= pieces[0].iov_len) {
            skip -= pieces[0].iov_len;
            pieces++;
            count--;
        }
        if (!count) return moved;
        const uint8_t *from;
        size_t size = tls_next(session, pieces, count, skip, &from);
        call->ERR_clear_error();
        errno = 0;
        int sent = call->SSL_write(session->ssl, from, (int)size);
        /* these bytes may contain a login (a small piece); bytes to retry are collected again */
        if (from == session->stage) kn_wipe(session->stage, size);
        session->retry_bytes = 0;
        if (sent <= 0) {
            int outcome = tls_outcome(stream, sent);
            if (outcome == KN_STREAM_AGAIN) session->retry_bytes = size;
            stream->wants = 0; /* the connection polls for POLLOUT by itself */
            if (outcome == 0) stream->error = EPIPE;
            return tls_moved(session, moved, outcome == 0 ? KN_STREAM_FAILED : outcome);
        }
        moved += sent;
        skip += (size_t)sent;
    }
}

/* --- ending --- */

void kn_tls_forget_ticket(struct kn_stream *stream)
{
    if (stream->ticket) stream->tls->call.SSL_SESSION_free(stream->ticket);
    stream->ticket = NULL;
}

static void tls_stop(struct kn_stream *stream)
{
    const struct kn_tls_functions *call = &stream->tls->call;
    struct tls_session *session = stream->session;
    if (!session) return;
    stream->session = NULL;
    /* After a failure of TLS itself the next handshake is a full one: the peer may have refused the
     * ticket. */
    kn_tls_forget_ticket(stream);
    if (session->is_up && !stream->text[0]) stream->ticket = call->SSL_get1_session(session->ssl);
    /* Sends close_notify and doesn't wait for the peer's. */
    if (session->is_up && !session->is_broken && !session->retry_bytes)
        call->SSL_shutdown(session->ssl);
    call->ERR_clear_error(); /* so that this thread's next call starts without old errors */
    if (session->ssl) call->SSL_free(session->ssl);
    free(session);
}

const struct kn_transport kn_transport_tls = {
    .name = "tls", .start = tls_start, .read = tls_read, .write = tls_write, .stop = tls_stop};
