/* TLS over TCP, with the OpenSSL that Python has loaded: csrc links none. Python makes the context
 * (certificates, trust, ciphers, versions). It passes the addresses of the context and of the
 * functions below. Each connection makes a session from it on the broker thread, without the
 * interpreter.
 *
 * Thread: the client owns struct kn_tls, which its broker threads share. A connection owns its
 * session and ticket.
 * Lock: `lock` (leaf) guards the context.
 * Who frees: kn_tls has a reference count; engines may share it. Python owns the context and keeps it until it sets another
 * one. */
#ifndef KN_NET_TLS_H
#define KN_NET_TLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "net/stream.h"
#include "net/thread.h"

#define KN_TLS_RECORD_BYTES 16384 /* maximum of plain bytes in a record */
/* how long sessions may be resumed before the peer's certificate is verified again */
#define KN_TLS_TICKET_MAX_S 3600

// clang-format off
/* OpenSSL's names and types: (name, result, parameters). Its opaque structs are void here. */
#define KN_TLS_FUNCTIONS(X)                                                                       \
    X(SSL_new, void *, (void *context))                                                           \
    X(SSL_free, void, (void *ssl))                                                                \
    X(SSL_set_fd, int, (void *ssl, int fd))                                                       \
    X(SSL_set_mode, long, (void *ssl, long mode))                                                 \
    X(SSL_set_connect_state, void, (void *ssl))                                                   \
    X(SSL_set_tlsext_host_name, long, (void *ssl, const char *name))                              \
    X(SSL_set_verify, void, (void *ssl, int mode, int (*callback)(int ok, void *store)))          \
    X(SSL_get0_param, void *, (void *ssl))                                                        \
    X(X509_VERIFY_PARAM_set1_host, int, (void *param, const char *name, size_t name_bytes))       \
    X(X509_VERIFY_PARAM_set1_ip, int, (void *param, const unsigned char *ip, size_t ip_bytes))    \
    X(X509_VERIFY_PARAM_set_hostflags, void, (void *param, unsigned int flags))                   \
    X(SSL_do_handshake, int, (void *ssl))                                                         \
    X(SSL_get_current_cipher, const void *, (const void *ssl))                                    \
    X(SSL_CIPHER_get_bits, int, (const void *cipher, int *algorithm_bits))                        \
    X(SSL_get_peer_certificate, void *, (const void *ssl))                                        \
    X(SSL_get_verify_result, long, (const void *ssl))                                             \
    X(X509_free, void, (void *certificate))                                                       \
    X(SSL_read, int, (void *ssl, void *to, int size))                                             \
    X(SSL_write, int, (void *ssl, const void *from, int size))                                    \
    X(SSL_shutdown, int, (void *ssl))                                                             \
    X(SSL_get_error, int, (const void *ssl, int result))                                          \
    X(SSL_get1_session, void *, (void *ssl))                                                      \
    X(SSL_set_session, int, (void *ssl, void *session))                                           \
    X(SSL_SESSION_free, void, (void *session))                                                    \
    X(ERR_get_error, unsigned long, (void))                                                       \
    X(ERR_clear_error, void, (void))                                                              \
    X(ERR_reason_error_string, const char *, (unsigned long error))                               \
    X(X509_STORE_CTX_get_error, int, (void *store))                                               \
    X(X509_STORE_CTX_get0_cert, void *, (void *store))                                            \
    X(X509_STORE_CTX_get_current_cert, void *, (void *store))                                     \
    X(i2d_X509_bio, int, (void *bio, void *certificate))                                          \
    X(BIO_s_mem, const void *, (void))                                                            \
    X(BIO_new, void *, (const void *method))                                                      \
    X(BIO_read, int, (void *bio, void *to, int size))                                             \
    X(BIO_free, int, (void *bio))
// clang-format on

struct kn_tls_functions {
#define KN_TLS_MEMBER(name, result, parameters) result(*name) parameters;
    KN_TLS_FUNCTIONS(KN_TLS_MEMBER)
#undef KN_TLS_MEMBER
};

struct kn_tls {
    /* immutable */
    struct kn_tls_functions call;
    bool verify_peer; /* enable.ssl.certificate.verification */
    /* ssl.endpoint.identification.algorithm=https: the certificate must name the host */
    bool verify_host;
    atomic_int refs;
    /* under lock */
    struct kn_mutex lock;
    void *context;  /* SSL_CTX */
    uint32_t epoch; /* number of the context: a ticket of another context isn't used */
};

extern const struct kn_transport kn_transport_tls;

/* NULL: no memory. No function is set yet. The caller has the first reference. */
struct kn_tls *kn_tls_new(int verify_peer, int verify_host);
struct kn_tls *kn_tls_ref(struct kn_tls *tls); /* NULL is allowed */
void kn_tls_unref(struct kn_tls *tls);         /* NULL is allowed */
/* Call before the first connection: sets the address of a function of KN_TLS_FUNCTIONS. 0, or -1
 * for an unknown name. */
int kn_tls_set_function(struct kn_tls *tls, const char *name, uintptr_t address);
/* the name of a function that isn't set yet; NULL: all are set */
const char *kn_tls_missing(const struct kn_tls *tls);
const char *kn_tls_function_name(int index); /* NULL: index is behind the last function */
/* Any thread: later connections use this context. After the call Python may free the previous one.
 */
void kn_tls_set_context(struct kn_tls *tls, void *context);
void kn_tls_forget_ticket(struct kn_stream *stream);

#endif
