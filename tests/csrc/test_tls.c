/* The TLS transport over fake functions in place of OpenSSL's: their arguments, the pieces, and
 * their results. Python tests use the real OpenSSL. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine_check.h"
#include "base/status.h"
#include "net/chunk.h"
#include "net/tls.h"
#include "net/transport.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- the fake library: one session at a time --- */

enum {
    NONE = 0,
    SSL_FAILED = 1,
    WANT_READ = 2,
    WANT_WRITE = 3,
    SYSCALL_FAILED = 5,
    ZERO_RETURN = 6
};

static struct {
    int handshakes_left; /* handshake calls before it succeeds */
    int outcome;         /* result of the next call that can't go on */
    const char *reason;  /* reason of SSL_FAILED */
    int error_queued;
    size_t room;    /* bytes that SSL_write() takes before it returns WANT_WRITE */
    size_t pending; /* bytes of the call that returned it */
    uint8_t written[200000];
    size_t written_bytes;
    const uint8_t *last; /* argument of the last SSL_write() */
    size_t calls[64];
    int call_count;
    const uint8_t *incoming;
    size_t incoming_bytes, record_bytes;
    int verify_fails, verify_mode;
    int (*verify)(int ok, void *store);
    const char *name;
    char host[300], ip_bytes, sni[300];
    int sessions, tickets, contexts_used, resumed, shutdowns, bios, host_refused, certificates;
    unsigned int host_flags;
    int takes_up;       /* this handshake resumes a session */
    int cipher_bits;    /* 0: a suite that doesn't encrypt */
    int no_certificate; /* the peer sent none and was accepted */
    long verify_result;
    void *current; /* the certificate that failed the verification; NULL: the peer's own */
    char der[40];  /* written to the BIO and not read yet */
    void *context;
} lib;

static int ssl_object, ticket_object, certificate_object, issuer_object, cipher_object, bio_object,
    param_object;

static void *f_SSL_new(void *context)
{
    lib.sessions++;
    lib.takes_up = 0;
    lib.context = context;
    return &ssl_object;
}
static void f_SSL_free(void *ssl) { (void)ssl, lib.sessions--; }
static int f_SSL_set_fd(void *ssl, int fd) { return (void)ssl, fd >= 0; }
static long f_SSL_set_mode(void *ssl, long mode) { return (void)ssl, mode; }
static void f_SSL_set_connect_state(void *ssl) { (void)ssl; }
static long f_SSL_set_tlsext_host_name(void *ssl, const char *name)
{
    return (void)ssl, snprintf(lib.sni, sizeof lib.sni, "%s", name) > 0;
}
static void f_SSL_set_verify(void *ssl, int mode, int (*callback)(int, void *))
{
    (void)ssl;
    lib.verify_mode = mode;
    lib.verify = callback;
}
static void *f_SSL_get0_param(void *ssl) { return (void)ssl, &param_object; }
static int f_X509_VERIFY_PARAM_set1_host(void *param, const char *name, size_t size)
{
    (void)param;
    snprintf(lib.host, sizeof lib.host, "%.*s", (int)size, name);
    return !lib.host_refused;
}
static int f_X509_VERIFY_PARAM_set1_ip(void *param, const unsigned char *ip, size_t size)
{
    return (void)param, (void)ip, lib.ip_bytes = (char)size, 1;
}
static void f_X509_VERIFY_PARAM_set_hostflags(void *param, unsigned int flags)
{
    (void)param, lib.host_flags = flags;
}
static const void *f_SSL_get_current_cipher(const void *ssl) { return (void)ssl, &cipher_object; }
static int f_SSL_CIPHER_get_bits(const void *cipher, int *algorithm_bits)
{
    CHECK(cipher == &cipher_object && !algorithm_bits);
    return lib.cipher_bits;
}
static void *f_SSL_get_peer_certificate(const void *ssl)
{
    (void)ssl;
    if (lib.no_certificate) return NULL;
    lib.certificates++;
    return &certificate_object;
}
static long f_SSL_get_verify_result(const void *ssl) { return (void)ssl, lib.verify_result; }
static void f_X509_free(void *certificate)
{
    lib.certificates -= certificate == &certificate_object;
}
static int failed(void)
{
    lib.error_queued = lib.outcome == SSL_FAILED;
    return lib.outcome == ZERO_RETURN ? 0 : -1;
}
static int f_SSL_do_handshake(void *ssl)
{
    (void)ssl;
    if (lib.verify_fails) {
        if (lib.verify && lib.verify(0, NULL) == 0) {
            lib.outcome = SSL_FAILED;
            lib.reason = "certificate verify failed";
            return failed();
        }
    }
    if (lib.handshakes_left-- > 0) return failed();
    /* a resumed session verifies nothing */
    if (lib.verify && !lib.takes_up) CHECK_EQ(lib.verify(1, NULL), 1);
    return 1;
}
static int f_SSL_read(void *ssl, void *to, int size)
{
    (void)ssl;
    if (!lib.incoming_bytes) return failed();
    size_t taken = lib.incoming_bytes < (size_t)size ? lib.incoming_bytes : (size_t)size;
    if (taken > lib.record_bytes) taken = lib.record_bytes;
    memcpy(to, lib.incoming, taken);
    lib.incoming += taken;
    lib.incoming_bytes -= taken;
    return (int)taken;
}
static int f_SSL_write(void *ssl, const void *from, int size)
{
    (void)ssl;
    CHECK(size > 0);
    lib.calls[lib.call_count++ % 64] = (size_t)size;
    lib.last = from;
    size_t taken = (size_t)size < KN_TLS_RECORD_BYTES ? (size_t)size : KN_TLS_RECORD_BYTES;
    if (lib.pending) CHECK_EQ((size_t)size, lib.pending); /* OpenSSL: bad write retry */
    if (lib.room < taken) {
        lib.pending = (size_t)size;
        return failed();
    }
    lib.pending = 0;
    lib.room -= taken;
    memcpy(lib.written + lib.written_bytes, from, taken);
    lib.written_bytes += taken;
    return (int)taken;
}
static int f_SSL_shutdown(void *ssl) { return (void)ssl, lib.shutdowns++, 0; }
static int f_SSL_get_error(const void *ssl, int result)
{
    return (void)ssl, (void)result, lib.outcome;
}
static void *f_SSL_get1_session(void *ssl) { return (void)ssl, lib.tickets++, &ticket_object; }
static int f_SSL_set_session(void *ssl, void *session)
{
    (void)ssl;
    lib.resumed += lib.takes_up = session == &ticket_object;
    return 1;
}
static void f_SSL_SESSION_free(void *session) { (void)session, lib.tickets--; }
static unsigned long f_ERR_get_error(void) { return (unsigned long)lib.error_queued; }
static void f_ERR_clear_error(void) { lib.error_queued = 0; }
static const char *f_ERR_reason_error_string(unsigned long error)
{
    return (void)error, lib.reason;
}
static int f_X509_STORE_CTX_get_error(void *store) { return (void)store, 62; }
static void *f_X509_STORE_CTX_get0_cert(void *store) { return (void)store, &certificate_object; }
static void *f_X509_STORE_CTX_get_current_cert(void *store)
{
    return (void)store, lib.current ? lib.current : &certificate_object;
}
static int f_i2d_X509_bio(void *bio, void *certificate)
{
    (void)bio;
    CHECK(certificate == &certificate_object || certificate == &issuer_object);
    strcat(lib.der, certificate == &certificate_object ? "DER" : "CAUSE");
    return 1;
}
static const void *f_BIO_s_mem(void) { return &bio_object; }
static void *f_BIO_new(const void *method)
{
    return (void)method, lib.bios++, lib.der[0] = 0, &bio_object;
}
static int f_BIO_read(void *bio, void *to, int size)
{
    (void)bio;
    int got = (int)strlen(lib.der);
    CHECK(size >= got);
    memcpy(to, lib.der, (size_t)got);
    return got;
}
static int f_BIO_free(void *bio) { return (void)bio, lib.bios--, 1; }

static struct kn_tls *tls_new(int verifies, int identifies)
{
    memset(&lib, 0, sizeof lib);
    lib.cipher_bits = 128;
    struct kn_tls *tls = kn_tls_new(verifies, identifies);
    CHECK(tls);
    CHECK(kn_tls_missing(tls) != NULL);
#define SET(name, result, parameters)                                                              \
    CHECK_EQ(kn_tls_set_function(tls, #name, (uintptr_t)f_##name), 0);
    KN_TLS_FUNCTIONS(SET)
#undef SET
    CHECK_EQ(kn_tls_set_function(tls, "SSL_of_another_age", 1), -1);
    CHECK(kn_tls_missing(tls) == NULL);
    kn_tls_set_context(tls, &lib);
    return tls;
}

static void stream_up(struct kn_stream *stream, struct kn_tls *tls, const char *host)
{
    if (!stream->transport) kn_stream_init(stream, tls);
    kn_stream_open(stream, socket(AF_INET, SOCK_STREAM, 0));
    CHECK_EQ(stream->transport->start(stream, host), 0);
}

static void stream_down(struct kn_stream *stream, struct kn_tls *tls)
{
    kn_stream_close(stream);
    kn_stream_deinit(stream);
    kn_tls_unref(tls);
    CHECK_EQ(lib.sessions, 0);
    CHECK_EQ(lib.tickets, 0);
    CHECK_EQ(lib.bios, 0);
    CHECK_EQ(lib.certificates, 0);
    CHECK_EQ(kn_chunk_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
}

/* --- guarantees --- */

static void test_the_handshake_waits_for_the_events_that_openssl_needs(void)
{
    struct kn_tls *tls = tls_new(1, 1);
    struct kn_stream stream = {0};
    kn_stream_init(&stream, tls);
    kn_stream_open(&stream, socket(AF_INET, SOCK_STREAM, 0));
    lib.handshakes_left = 2;
    lib.outcome = WANT_READ;
    CHECK_EQ(stream.transport->start(&stream, "b1.example."), KN_STREAM_AGAIN);
    CHECK_EQ(stream.wants, POLLIN);
    lib.outcome = WANT_WRITE;
    CHECK_EQ(stream.transport->start(&stream, "b1.example."), KN_STREAM_AGAIN);
    CHECK_EQ(stream.wants, POLLOUT);
    CHECK_EQ(stream.transport->start(&stream, "b1.example."), 0);
    CHECK_EQ(stream.wants, 0);
    CHECK_EQ(lib.sessions, 1);
    CHECK(strcmp(lib.sni, "b1.example") == 0);
    CHECK(strcmp(lib.host, "b1.example") == 0);
    CHECK_EQ(lib.verify_mode, 1);
    CHECK(lib.context == &lib);
    kn_stream_close(&stream);
    CHECK_EQ(lib.shutdowns, 1);
    stream_down(&stream, tls);
}

static void test_an_address_is_verified_as_an_address_and_sends_no_name(void)
{
    struct kn_tls *tls = tls_new(1, 1);
    struct kn_stream stream = {0};
    stream_up(&stream, tls, "10.1.2.3");
    CHECK_EQ(lib.ip_bytes, 4);
    kn_stream_close(&stream);
    stream_up(&stream, tls, "2001:db8::1");
    CHECK_EQ(lib.ip_bytes, 16);
    CHECK_EQ(lib.sni[0], 0);
    CHECK_EQ(lib.host[0], 0);
    stream_down(&stream, tls);
}

/* No wildcard inside a label, and no common name instead of subjectAltName: for names and for
 * addresses. */
static void test_a_host_is_looked_for_in_the_alternative_names_alone(void)
{
    const char *hosts[3] = {"b1.example", "10.1.2.3", "2001:db8::1"};
    for (int i = 0; i < 3; i++) {
        struct kn_tls *tls = tls_new(1, 1);
        struct kn_stream stream = {0};
        stream_up(&stream, tls, hosts[i]);
        CHECK_EQ(lib.host_flags, 0x4 | 0x20);
        stream_down(&stream, tls);
    }
}

static void test_an_unverifiable_host_is_refused(void)
{
    struct kn_tls *tls = tls_new(1, 1);
    struct kn_stream stream = {0};
    char long_name[400];
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    const char *hosts[3] = {"b1.example", long_name, "..."};
    lib.host_refused = 1;
    kn_stream_init(&stream, tls);
    for (int i = 0; i < 3; i++) {
        kn_stream_open(&stream, socket(AF_INET, SOCK_STREAM, 0));
        CHECK_EQ(stream.transport->start(&stream, hosts[i]), KN_STREAM_FAILED);
        CHECK(stream.text[0] != 0);
        kn_stream_close(&stream);
        CHECK_EQ(lib.shutdowns, 0);
    }
    stream_down(&stream, tls);
    tls = tls_new(0, 1); /* without verification there is no callback */
    stream = (struct kn_stream){0};
    stream_up(&stream, tls, "b1.example");
    CHECK_EQ(lib.verify_mode, 0);
    CHECK(lib.verify == NULL);
    CHECK_EQ(lib.host[0], 0);
    stream_down(&stream, tls);
}

static void test_a_refused_certificate_is_kept_for_the_error(void)
{
    struct kn_tls *tls = tls_new(1, 1);
    struct kn_stream stream = {0};
    kn_stream_init(&stream, tls);
    kn_stream_open(&stream, socket(AF_INET, SOCK_STREAM, 0));
    lib.verify_fails = 1;
    CHECK_EQ(stream.transport->start(&stream, "b1.example"), KN_STREAM_FAILED);
    CHECK(strcmp(stream.text, "certificate verify failed") == 0);
    CHECK_EQ(stream.verify_error, 62);
    kn_stream_close(&stream); /* and is valid after the connection's end */
    CHECK_EQ(stream.certificate->buffer->size_bytes, 3);
    CHECK(memcmp(stream.certificate->buffer->data, "DER", 3) == 0);
    CHECK_EQ(lib.shutdowns, 0); /* not after a fatal error */
    kn_stream_open(&stream, socket(AF_INET, SOCK_STREAM, 0));
    CHECK(stream.certificate == NULL);
    CHECK_EQ(stream.verify_error, 0);
    stream_down(&stream, tls);
}

static void test_the_issuers_certificate_follows_the_peers(void)
{
    struct kn_tls *tls = tls_new(1, 1);
    struct kn_stream stream = {0};
    kn_stream_init(&stream, tls);
    kn_stream_open(&stream, socket(AF_INET, SOCK_STREAM, 0));
    lib.verify_fails = 1;
    lib.current = &issuer_object;
    CHECK_EQ(stream.transport->start(&stream, "b1.example"), KN_STREAM_FAILED);
    CHECK_EQ(stream.certificate->buffer->size_bytes, 8);
    CHECK(memcmp(stream.certificate->buffer->data, "DERCAUSE", 8) == 0);
    stream_down(&stream, tls);
}

/* However the library came to accept it: its configuration file, a suite of a later version, a bug
 * of ours. */
static void test_a_handshake_without_protection_is_refused(void)
{
    for (int flaw = 0; flaw < 3; flaw++) {
        for (int verifies = 0; verifies < 2; verifies++) {
            struct kn_tls *tls = tls_new(verifies, verifies);
            struct kn_stream stream = {0};
            kn_stream_init(&stream, tls);
            kn_stream_open(&stream, socket(AF_INET, SOCK_STREAM, 0));
            if (flaw == 0) lib.cipher_bits = 0;
            if (flaw == 1) lib.no_certificate = 1;
            if (flaw == 2) lib.verify_result = 20;
            int is_refused = flaw == 0 || verifies;
            CHECK_EQ(stream.transport->start(&stream, "b1.example"),
                     is_refused ? KN_STREAM_FAILED : 0);
            CHECK_EQ(stream.text[0] != 0, is_refused);
            kn_stream_close(&stream);
            CHECK_EQ(lib.tickets, !is_refused); /* and isn't resumed */
            stream_down(&stream, tls);
        }
    }
}

static void test_a_close_in_the_handshake_is_reported(void)
{
    struct kn_tls *tls = tls_new(1, 1);
    struct kn_stream stream = {0};
    kn_stream_init(&stream, tls);
    int outcomes[3] = {ZERO_RETURN, SYSCALL_FAILED, SSL_FAILED};
    for (int i = 0; i < 3; i++) {
        kn_stream_open(&stream, socket(AF_INET, SOCK_STREAM, 0));
        lib.handshakes_left = 1;
        lib.outcome = outcomes[i];
        lib.reason = "unexpected eof while reading";
        CHECK_EQ(stream.transport->start(&stream, "b1.example"), KN_STREAM_FAILED);
        CHECK(strstr(stream.text, "closed the connection in the TLS handshake") != NULL);
        kn_stream_close(&stream);
    }
    stream_down(&stream, tls);
}

static void test_small_pieces_share_a_record_and_large_ones_are_not_copied(void)
{
    struct kn_tls *tls = tls_new(0, 0);
    struct kn_stream stream = {0};
    stream_up(&stream, tls, "h");
    static uint8_t bytes[60000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7 >> 2);
    struct iovec pieces[6] = {{bytes, 10},          {bytes + 10, 0},    {bytes + 10, 90},
                              {bytes + 100, 50000}, {bytes + 50100, 5}, {bytes + 50105, 9895}};
    lib.room = sizeof bytes;
    CHECK_EQ(stream.transport->write(&stream, pieces, 6), 60000);
    CHECK_EQ(lib.written_bytes, 60000);
    CHECK(memcmp(lib.written, bytes, sizeof bytes) == 0);
    CHECK_EQ(lib.calls[0], KN_TLS_RECORD_BYTES); /* the small ones, up to a full record */
    /* the rest of the large one, in place */
    CHECK_EQ(lib.calls[1], 50100 - KN_TLS_RECORD_BYTES);
    CHECK_EQ(lib.call_count, 4);
    stream_down(&stream, tls);
}

/* A login's password is a small piece: the collecting buffer keeps nothing of it, even if the
 * socket takes no bytes yet. */
static void test_gathered_pieces_are_wiped(void)
{
    static char secret[] = "s3cret-of-alice";
    static const char nothing[sizeof secret] = {0};
    struct kn_tls *tls = tls_new(0, 0);
    struct kn_stream stream = {0};
    stream_up(&stream, tls, "h");
    struct iovec pieces[2] = {{secret, 8}, {secret + 8, sizeof secret - 8}};
    lib.room = 0;
    lib.outcome = WANT_WRITE;
    CHECK_EQ(stream.transport->write(&stream, pieces, 2), KN_STREAM_AGAIN);
    CHECK_MEM(lib.last, nothing, sizeof nothing);
    lib.room = 1000;
    CHECK_EQ(stream.transport->write(&stream, pieces, 2), (long)sizeof secret);
    CHECK_MEM(lib.written, secret, sizeof secret);
    CHECK_MEM(lib.last, nothing, sizeof nothing);
    stream_down(&stream, tls);
}

/* However many calls the socket needs: the bytes come in order, each once, and a retry gets the
 * same bytes. */
static void test_writing_goes_on_where_the_socket_was_full(void)
{
    static uint8_t bytes[120000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 13 >> 3);
    for (unsigned seed = 1; seed < 60; seed++) {
        struct kn_tls *tls = tls_new(0, 0);
        struct kn_stream stream = {0};
        stream_up(&stream, tls, "h");
        lib.outcome = WANT_WRITE;
        size_t sizes[12], from = 0, sent = 0;
        for (int i = 0; i < 12; i++)
            sizes[i] = (seed * 2654435761u >> (i % 16)) % (i % 3 ? 300 : 33000) + 1;
        size_t total = 0;
        for (int i = 0; i < 12; i++) total += sizes[i];
        CHECK(total <= sizeof bytes);
        while (sent < total) {
            struct iovec pieces[12];
            int count = 0;
            /* the caller may have queued more meanwhile: the last pieces exist from the third try
             * on */
            from = 0;
            for (int i = 0; i < (lib.call_count < 3 ? 9 : 12); i++) {
                size_t begin = from < sent ? sent : from, end = from + sizes[i];
                if (end > begin) pieces[count++] = (struct iovec){bytes + begin, end - begin};
                from = end;
            }
            lib.room = (seed * 7919 + sent) % 40000;
            if (lib.call_count > 40) lib.room = sizeof bytes;
            ssize_t moved = count ? stream.transport->write(&stream, pieces, count) : 0;
            CHECK(moved > 0 || moved == KN_STREAM_AGAIN || !count);
            if (moved > 0) sent += (size_t)moved;
            if (!count) lib.call_count = 3;
        }
        CHECK_EQ(lib.written_bytes, total);
        CHECK(memcmp(lib.written, bytes, total) == 0);
        stream_down(&stream, tls);
    }
}

static void test_reading_fills_the_pieces_and_reports_drained(void)
{
    struct kn_tls *tls = tls_new(0, 0);
    struct kn_stream stream = {0};
    stream_up(&stream, tls, "h");
    static uint8_t bytes[50000], first[30000], second[10000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 3 >> 1);
    lib.incoming = bytes;
    lib.incoming_bytes = sizeof bytes;
    lib.record_bytes = 16384;
    lib.outcome = WANT_READ;
    struct iovec pieces[2] = {{first, sizeof first}, {second, sizeof second}};
    CHECK_EQ(stream.transport->read(&stream, pieces, 2), 40000);
    CHECK(!stream.drained); /* the library holds bytes that poll(2) doesn't see */
    CHECK(memcmp(first, bytes, 30000) == 0 && memcmp(second, bytes + 30000, 10000) == 0);
    CHECK_EQ(stream.transport->read(&stream, pieces, 2), 10000);
    CHECK(stream.drained);
    CHECK_EQ(stream.transport->read(&stream, pieces, 2), KN_STREAM_AGAIN);
    lib.outcome = WANT_WRITE; /* a response to a key update while the socket is full */
    CHECK_EQ(stream.transport->read(&stream, pieces, 2), KN_STREAM_AGAIN);
    CHECK_EQ(stream.wants, POLLOUT);
    stream_down(&stream, tls);
}

static void test_bytes_before_the_end_are_returned_first(void)
{
    struct kn_tls *tls = tls_new(0, 0);
    struct kn_stream stream = {0};
    int outcomes[2] = {ZERO_RETURN, SSL_FAILED};
    for (int i = 0; i < 2; i++) {
        stream_up(&stream, tls, "h");
        lib.incoming = (const uint8_t *)"last words";
        lib.incoming_bytes = lib.record_bytes = 10;
        lib.outcome = outcomes[i];
        lib.reason = "bad record mac";
        char got[100];
        struct iovec piece = {got, sizeof got};
        CHECK_EQ(stream.transport->read(&stream, &piece, 1), 10);
        CHECK(!stream.drained);
        lib.outcome = NONE; /* the library isn't called again */
        CHECK_EQ(stream.transport->read(&stream, &piece, 1), i == 0 ? 0 : KN_STREAM_FAILED);
        CHECK(strcmp(stream.text, i == 0 ? "" : "bad record mac") == 0);
        kn_stream_close(&stream);
    }
    stream_down(&stream, tls);
}

static void test_a_session_is_resumed_until_the_context_is_another_one(void)
{
    struct kn_tls *tls = tls_new(0, 0);
    struct kn_stream stream = {0};
    stream_up(&stream, tls, "h");
    kn_stream_close(&stream);
    CHECK_EQ(lib.tickets, 1);
    stream_up(&stream, tls, "h");
    CHECK_EQ(lib.resumed, 1);
    kn_stream_close(&stream);
    kn_tls_set_context(tls, &ssl_object);
    stream_up(&stream, tls, "h");
    CHECK(lib.context == &ssl_object);
    CHECK_EQ(lib.resumed, 1);
    kn_stream_close(&stream);
    kn_stream_open(&stream, socket(AF_INET, SOCK_STREAM, 0));
    lib.handshakes_left = 1;
    lib.outcome = SSL_FAILED;
    lib.reason = "tlsv1 alert internal error";
    CHECK_EQ(stream.transport->start(&stream, "h"), KN_STREAM_FAILED);
    CHECK_EQ(lib.resumed, 2);
    kn_stream_close(&stream);
    /* the peer may have refused the ticket: the next handshake is a full one */
    CHECK_EQ(lib.tickets, 0);
    stream_down(&stream, tls);
}

/* A resumed session has no certificate: it relies on one that was verified for this host, not long
 * ago. */
static void test_a_session_is_not_resumed_in_place_of_verifying(void)
{
    struct kn_tls *tls = tls_new(1, 1);
    struct kn_stream stream = {0};
    stream_up(&stream, tls, "b1.example");
    kn_stream_close(&stream);
    stream_up(&stream, tls, "b1.example");
    CHECK_EQ(lib.resumed, 1);
    kn_stream_close(&stream);
    stream_up(&stream, tls, "b2.example"); /* the broker has another host now */
    CHECK_EQ(lib.resumed, 1);
    kn_stream_close(&stream);
    stream_up(&stream, tls, "b2.example");
    CHECK_EQ(lib.resumed, 2);
    kn_stream_close(&stream);
    int64_t hour_us = KN_TLS_TICKET_MAX_S * INT64_C(1000000);
    stream.verified_us -= hour_us - 60 * 1000000;
    stream_up(&stream, tls, "b2.example");
    CHECK_EQ(lib.resumed, 3);
    kn_stream_close(&stream);
    /* resuming verifies nothing, so the time counts from the first handshake */
    stream.verified_us -= 60 * 1000000;
    stream_up(&stream, tls, "b2.example");
    CHECK_EQ(lib.resumed, 3);
    CHECK(kn_clock_us() - stream.verified_us < 60 * 1000000);
    stream_down(&stream, tls);
}

int main(void)
{
    RUN(test_the_handshake_waits_for_the_events_that_openssl_needs);
    RUN(test_an_address_is_verified_as_an_address_and_sends_no_name);
    RUN(test_a_host_is_looked_for_in_the_alternative_names_alone);
    RUN(test_an_unverifiable_host_is_refused);
    RUN(test_a_refused_certificate_is_kept_for_the_error);
    RUN(test_the_issuers_certificate_follows_the_peers);
    RUN(test_a_handshake_without_protection_is_refused);
    RUN(test_a_close_in_the_handshake_is_reported);
    RUN(test_small_pieces_share_a_record_and_large_ones_are_not_copied);
    RUN(test_gathered_pieces_are_wiped);
    RUN(test_writing_goes_on_where_the_socket_was_full);
    RUN(test_reading_fills_the_pieces_and_reports_drained);
    RUN(test_bytes_before_the_end_are_returned_first);
    RUN(test_a_session_is_resumed_until_the_context_is_another_one);
    RUN(test_a_session_is_not_resumed_in_place_of_verifying);
    return check_done();
}
