/* The messages to a proxy and its answers, over a transport of the test: bytes come in pieces of
 * any size. */
#include <errno.h>
#include <netinet/in.h>

#include "net/proxy.h"
#include "net/transport.h"
#include "engine_check.h"

#define HELD_BYTES 20000

/* --- the proxy --- */

static uint8_t written[HELD_BYTES], answer[HELD_BYTES];
/* bytes that the client has written; bytes that it may read, and has read */
static size_t written_bytes, answer_bytes, answered;
static size_t piece_bytes; /* limit of one read or write */
static int ends;           /* the connection ends after the answer */

static ssize_t fake_write(struct kn_stream *stream, const struct iovec *pieces, int count)
{
    size_t room = piece_bytes, moved = 0;
    (void)stream;
    for (int i = 0; i < count && room; i++) {
        size_t size = pieces[i].iov_len < room ? pieces[i].iov_len : room;
        CHECK(written_bytes + size <= sizeof written);
        memcpy(written + written_bytes, pieces[i].iov_base, size);
        written_bytes += size;
        moved += size;
        room -= size;
    }
    CHECK(moved > 0);
    return (ssize_t)moved;
}

static ssize_t fake_read(struct kn_stream *stream, struct iovec *pieces, int count)
{
    size_t size = answer_bytes - answered;
    (void)stream;
    CHECK_EQ(count, 1);
    if (!size) return ends ? 0 : KN_STREAM_AGAIN;
    if (size > piece_bytes) size = piece_bytes;
    if (size > pieces[0].iov_len) size = pieces[0].iov_len;
    CHECK(size > 0);
    memcpy(pieces[0].iov_base, answer + answered, size);
    answered += size;
    return (ssize_t)size;
}

static const struct kn_transport fake = {.name = "fake", .read = fake_read, .write = fake_write};

/* --- */

static struct kn_tunnel tunnel;
static struct kn_stream stream;
static uint8_t scratch[KN_TUNNEL_SCRATCH_BYTES];

static const uint8_t SOCKS_LOGIN[] = "\x01\x02me\x06secret";
static const uint8_t HTTP_LOGIN[] = "Proxy-Authorization: Basic bWU6c2VjcmV0\r\n";

static struct kn_proxy *proxy_new(enum kn_proxy_kind kind, int login)
{
    const uint8_t *bytes = kind == KN_PROXY_HTTP ? HTTP_LOGIN : SOCKS_LOGIN;
    size_t size = kind == KN_PROXY_HTTP ? sizeof HTTP_LOGIN - 1 : sizeof SOCKS_LOGIN - 1;
    return kn_proxy_new(kind, 1, "p.test", 1080, bytes, login ? size : 0);
}

/* Runs a whole dialogue. Returns the result of the last step(). */
static int talk(const struct kn_proxy *proxy, const char *host, const struct sockaddr *target,
                const void *says, size_t size, size_t pieces)
{
    memcpy(answer, says, size);
    answer_bytes = size;
    written_bytes = answered = 0;
    piece_bytes = pieces;
    stream = (struct kn_stream){.fd = -1};
    kn_tunnel_begin(&tunnel, proxy, host, 9092, target);
    tunnel.transport = &fake;
    return kn_tunnel_step(&tunnel, &stream, scratch);
}

static void check_written(const void *expected, size_t size)
{
    CHECK_EQ(written_bytes, size);
    CHECK_MEM(written, expected, size);
}

#define TALK(proxy, says) talk(proxy, "b1.test", NULL, says, sizeof(says) - 1, HELD_BYTES)
#define CHECK_WRITTEN(expected) check_written(expected, sizeof(expected) - 1)

static void test_socks_names_go_to_the_proxy_in_pieces_of_any_size(void)
{
    static const char good[] = "\x05\x00\x05\x00\x00\x01\x7f\x00\x00\x01\x04\x38";
    struct kn_proxy *proxy = proxy_new(KN_PROXY_SOCKS5, 0);
    for (size_t pieces = 1; pieces < 30; pieces++) {
        CHECK_EQ(talk(proxy, "b1.test", NULL, good, sizeof good - 1, pieces), 0);
        CHECK_WRITTEN("\x05\x01\x00\x05\x01\x00\x03\x07"
                      "b1.test\x23\x84");
        CHECK_EQ(answered, answer_bytes);
    }
    kn_proxy_unref(proxy);
}

static void test_socks_login_is_said_only_where_it_is_asked_for(void)
{
    struct kn_proxy *proxy = proxy_new(KN_PROXY_SOCKS5, 1);
    for (size_t pieces = 1; pieces < 30; pieces++) {
        static const char asks[] = "\x05\x02\x01\x00\x05\x00\x00\x03\x03xyz\x00\x01";
        CHECK_EQ(talk(proxy, "b1.test", NULL, asks, sizeof asks - 1, pieces), 0);
        CHECK_WRITTEN("\x05\x02\x00\x02\x01\x02me\x06secret\x05\x01\x00\x03\x07"
                      "b1.test\x23\x84");
    }
    CHECK_EQ(TALK(proxy, "\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"), 0);
    CHECK_WRITTEN("\x05\x02\x00\x02\x05\x01\x00\x03\x07"
                  "b1.test\x23\x84");
    kn_proxy_unref(proxy);
}

static void test_socks_addresses_are_sent_as_they_are(void)
{
    struct kn_proxy *proxy = proxy_new(KN_PROXY_SOCKS5, 0);
    struct sockaddr_in ip4 = {.sin_family = AF_INET};
    struct sockaddr_in6 ip6 = {.sin6_family = AF_INET6};
    memcpy(&ip4.sin_addr, "\x0a\x00\x00\x07", 4);
    memcpy(&ip6.sin6_addr, "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09", 16);
    static const char good4[] = "\x05\x00\x05\x00\x00\x04zzzzzzzzzzzzzzzz\x00\x01";
    CHECK_EQ(talk(proxy, "b1.test", (struct sockaddr *)&ip4, good4, sizeof good4 - 1, 5), 0);
    CHECK_WRITTEN("\x05\x01\x00\x05\x01\x00\x01\x0a\x00\x00\x07\x23\x84");
    CHECK_EQ(talk(proxy, "b1.test", (struct sockaddr *)&ip6, good4, sizeof good4 - 1, 5), 0);
    CHECK_WRITTEN("\x05\x01\x00\x05\x01\x00\x04\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00"
                  "\x00\x00\x09\x23\x84");
    kn_proxy_unref(proxy);
}

static void test_http_asks_for_host_and_port(void)
{
    static const char good[] = "HTTP/1.0 200 Fine\r\nVia: somebody\r\nContent-Length: 7\r\n\r\n";
    struct kn_proxy *proxy = proxy_new(KN_PROXY_HTTP, 0);
    for (size_t pieces = 1; pieces < 60; pieces++) {
        CHECK_EQ(talk(proxy, "b1.test", NULL, good, sizeof good - 1, pieces), 0);
        CHECK_WRITTEN("CONNECT b1.test:9092 HTTP/1.1\r\nHost: b1.test:9092\r\n\r\n");
    }
    CHECK_EQ(talk(proxy, "::1", NULL, good, sizeof good - 1, HELD_BYTES), 0);
    CHECK_WRITTEN("CONNECT [::1]:9092 HTTP/1.1\r\nHost: [::1]:9092\r\n\r\n");
    kn_proxy_unref(proxy);
    proxy = proxy_new(KN_PROXY_HTTP, 1);
    for (size_t pieces = 1; pieces < 60; pieces++) {
        CHECK_EQ(talk(proxy, "b1.test", NULL, good, sizeof good - 1, pieces), 0);
        CHECK_WRITTEN("CONNECT b1.test:9092 HTTP/1.1\r\nHost: b1.test:9092\r\nProxy-Authorization: "
                      "Basic bWU6c2VjcmV0\r\n\r\n");
    }
    kn_proxy_unref(proxy);
}

struct refusal {
    enum kn_proxy_kind kind;
    int login;
    const char *says;
    size_t size;
    const char *text;
    int refused; /* another address of the broker may work */
};

#define ANSWER(text) text, sizeof(text) - 1

static const struct refusal REFUSALS[] = {
    {KN_PROXY_SOCKS5, 0, ANSWER("\x05\xff"),
     "it wants a login: set proxy.url to socks5://user:password@host:port (SOCKS5 says 255)", 0},
    {KN_PROXY_SOCKS5, 1, ANSWER("\x05\xff"),
     "it takes neither no login nor a user and password (SOCKS5 says 255)", 0},
    {KN_PROXY_SOCKS5, 0, ANSWER("\x05\x02"), "it wants a login that wasn't offered (SOCKS5 says 2)",
     0},
    {KN_PROXY_SOCKS5, 1, ANSWER("\x05\x01"), "it wants a login that wasn't offered (SOCKS5 says 1)",
     0},
    {KN_PROXY_SOCKS5, 1, ANSWER("\x05\x02\x01\x07"),
     "it refuses the user and password of proxy.url (SOCKS5 says 7)", 0},
    {KN_PROXY_SOCKS5, 0, ANSWER("\x05\x00\x05\x01"),
     "it has failed, and its log says why (SOCKS5 says 1)", 1},
    {KN_PROXY_SOCKS5, 0, ANSWER("\x05\x00\x05\x02"),
     "its rules don't allow connections to this broker (SOCKS5 says 2)", 1},
    {KN_PROXY_SOCKS5, 0, ANSWER("\x05\x00\x05\x03\x00\x01"),
     "no route to the broker's network (SOCKS5 says 3)", 1},
    {KN_PROXY_SOCKS5, 0, ANSWER("\x05\x00\x05\x04"),
     "with socks5h:// it looks the name up itself (SOCKS5 says 4)", 1},
    {KN_PROXY_SOCKS5, 0, ANSWER("\x05\x00\x05\x05"),
     "the broker refuses its connection: see the broker's address and port (SOCKS5 says 5)", 1},
    {KN_PROXY_SOCKS5, 0, ANSWER("\x05\x00\x05\x06"), "too far away from it (TTL) (SOCKS5 says 6)",
     1},
    {KN_PROXY_SOCKS5, 0, ANSWER("\x05\x00\x05\x07"), "(command CONNECT) (SOCKS5 says 7)", 1},
    {KN_PROXY_SOCKS5, 0, ANSWER("\x05\x00\x05\x08"),
     "try the other one of socks5:// and socks5h:// (SOCKS5 says 8)", 1},
    {KN_PROXY_SOCKS5, 0, ANSWER("\x05\x00\x05\xc8"),
     "for a reason that SOCKS5 doesn't have (SOCKS5 says 200)", 1},
    {KN_PROXY_SOCKS5, 0, ANSWER("\x05\x00\x05\x00\x00\x02zzzzzzzzzzz"),
     "a kind of address that doesn't exist", 0},
    {KN_PROXY_SOCKS5, 0, ANSWER("\x05\x00\x04\x00"), "its answer isn't SOCKS5", 0},
    {KN_PROXY_SOCKS5, 0, ANSWER("HTTP/1.1 400 Bad Request"),
     "it speaks HTTP, not SOCKS5: set proxy.url to http://", 0},
    {KN_PROXY_SOCKS5, 0, ANSWER("\x15\x03\x01\x00\x02"), "it doesn't speak SOCKS5: see proxy.url",
     0},
    {KN_PROXY_SOCKS5, 0, ANSWER(""), "before it was through: does it speak SOCKS5?", 0},
    {KN_PROXY_SOCKS5, 0, ANSWER("\x05\x00\x05\x00\x00\x01zzz"),
     "before it was through: does it speak SOCKS5?", 0},
    {KN_PROXY_HTTP, 0, ANSWER("HTTP/1.1 407 secret"),
     "it wants a login: set proxy.url to http://user:password@host:port (HTTP says 407)", 0},
    {KN_PROXY_HTTP, 1, ANSWER("HTTP/1.1 407 secret"),
     "it refuses the user and password of proxy.url (HTTP says 407)", 0},
    {KN_PROXY_HTTP, 1, ANSWER("HTTP/1.1 403 secret"),
     "its rules don't allow connections to this broker (HTTP says 403)", 1},
    {KN_PROXY_HTTP, 0, ANSWER("HTTP/1.1 405 No"), "(method CONNECT): see proxy.url (HTTP says 405)",
     1},
    {KN_PROXY_HTTP, 0, ANSWER("HTTP/1.1 502 No"), "it can't reach the broker (HTTP says 502)", 1},
    {KN_PROXY_HTTP, 0, ANSWER("HTTP/1.1 504 No"), "the broker doesn't answer it (HTTP says 504)",
     1},
    {KN_PROXY_HTTP, 0, ANSWER("HTTP/1.1 302 No"), "it refuses the connection (HTTP says 302)", 1},
    {KN_PROXY_HTTP, 0, ANSWER("HTTP/1.1 2000\r\n\r\n"), "its answer isn't HTTP: see proxy.url", 0},
    {KN_PROXY_HTTP, 0, ANSWER("HTTP/1.1 2x0 OK\r\n\r\n"), "its answer isn't HTTP: see proxy.url",
     0},
    {KN_PROXY_HTTP, 0, ANSWER("HTTP/1.x 200 OK\r\n\r\n"), "its answer isn't HTTP: see proxy.url",
     0},
    {KN_PROXY_HTTP, 0, ANSWER("HTTP/2 200 OK\r\n\r\n"), "it doesn't speak HTTP: see proxy.url", 0},
    {KN_PROXY_HTTP, 0, ANSWER("\x05\xff"),
     "it speaks SOCKS5, not HTTP: set proxy.url to socks5h://", 0},
    {KN_PROXY_HTTP, 0, ANSWER("SSH-2.0-x\r\n"), "it doesn't speak HTTP: see proxy.url", 0},
    {KN_PROXY_HTTP, 0, ANSWER("HTTP/1.1 200 OK\r\n\r\n<html>"),
     "it sends more than the answer to CONNECT", 0},
    {KN_PROXY_HTTP, 0, ANSWER("HTTP/1.1 200 OK\r\nVia: x\r\n"),
     "in the middle of CONNECT: does it speak HTTP?", 0},
};

static void test_each_refusal_names_the_answer_and_the_setting(void)
{
    ends = 1;
    for (size_t i = 0; i < sizeof REFUSALS / sizeof *REFUSALS; i++) {
        const struct refusal *each = &REFUSALS[i];
        struct kn_proxy *proxy = proxy_new(each->kind, each->login);
        /* byte by byte, a too long answer is never complete */
        size_t whole = each->kind == KN_PROXY_HTTP ? HELD_BYTES : 1;
        for (size_t pieces = HELD_BYTES; pieces;
             pieces = pieces == HELD_BYTES && whole == 1 ? 1 : 0) {
            CHECK_EQ(talk(proxy, "b1.test", NULL, each->says, each->size, pieces),
                     KN_STREAM_FAILED);
            CHECK_TEXT(tunnel.text, each->text);
            CHECK_EQ(tunnel.refused, each->refused);
            CHECK(!strstr(tunnel.text, "secret"));
        }
        kn_proxy_unref(proxy);
    }
    ends = 0;
}

static void test_the_tunnel_waits_for_the_whole_answer(void)
{
    static const char socks[] = "\x05\x00\x05\x00\x00\x03\xffname",
                      http[] = "HTTP/1.1 200 OK\r\n\r";
    struct kn_proxy *proxy = proxy_new(KN_PROXY_SOCKS5, 0);
    for (size_t size = 0; size < sizeof socks; size++) {
        CHECK_EQ(talk(proxy, "b1.test", NULL, socks, size, HELD_BYTES), KN_STREAM_AGAIN);
        CHECK_EQ(stream.wants, POLLIN);
    }
    kn_proxy_unref(proxy);
    proxy = proxy_new(KN_PROXY_HTTP, 0);
    for (size_t size = 0; size < sizeof http; size++) {
        CHECK_EQ(talk(proxy, "b1.test", NULL, http, size, HELD_BYTES), KN_STREAM_AGAIN);
        CHECK_EQ(stream.wants, POLLIN);
    }
    kn_proxy_unref(proxy);
}

static void test_an_answer_without_end_is_given_up_at_the_cap(void)
{
    struct kn_proxy *proxy = proxy_new(KN_PROXY_HTTP, 0);
    static char endless[HELD_BYTES - 1] = "HTTP/1.1 200 OK\r\nX: ";
    memset(endless + 20, 'x', sizeof endless - 20);
    CHECK_EQ(talk(proxy, "b1.test", NULL, endless, sizeof endless, 1000), KN_STREAM_FAILED);
    CHECK_TEXT(tunnel.text, "its answer to CONNECT has no end");
    CHECK_EQ(answered, KN_TUNNEL_SCRATCH_BYTES);
    /* The longest answer that fits is accepted. */
    memcpy(endless + KN_TUNNEL_SCRATCH_BYTES - 4, "\r\n\r\n", 4);
    CHECK_EQ(talk(proxy, "b1.test", NULL, endless, KN_TUNNEL_SCRATCH_BYTES, 1000), 0);
    kn_proxy_unref(proxy);
}

static void test_nothing_behind_the_answer_is_read(void)
{
    static const char more[] = "\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
                               "and more";
    struct kn_proxy *proxy = proxy_new(KN_PROXY_SOCKS5, 0);
    CHECK_EQ(TALK(proxy, more), 0);
    CHECK_EQ(answer_bytes - answered, 8);
    kn_proxy_unref(proxy);
}

static void test_a_host_name_with_other_characters_is_not_sent(void)
{
    static const char *const hosts[] = {"", "b1\r\nX: y", "b 1", "b\x7f", "b\xc3\xa4"};
    char longest[300];
    memset(longest, 'b', sizeof longest);
    longest[256] = 0;
    for (enum kn_proxy_kind kind = KN_PROXY_SOCKS5; kind <= KN_PROXY_HTTP; kind++) {
        struct kn_proxy *proxy = proxy_new(kind, 0);
        for (size_t i = 0; i <= sizeof hosts / sizeof *hosts; i++) {
            const char *host = i < sizeof hosts / sizeof *hosts ? hosts[i] : longest;
            CHECK_EQ(talk(proxy, host, NULL, "\x05\x00", 2, HELD_BYTES), KN_STREAM_FAILED);
            CHECK_TEXT(tunnel.text, "the broker's host name can't be one");
            CHECK(written_bytes <= 3);
        }
        longest[255] = 0;
        CHECK_EQ(talk(proxy, longest, NULL, "\x05\x00", 2, HELD_BYTES),
                 kind == KN_PROXY_HTTP ? KN_STREAM_FAILED : KN_STREAM_AGAIN);
        CHECK(written_bytes > 255);
        longest[255] = 'b';
        kn_proxy_unref(proxy);
    }
}

static void test_too_long_settings_make_no_proxy(void)
{
    static uint8_t login[KN_PROXY_LOGIN_BYTES_MAX + 1];
    char host[KN_PROXY_HOST_BYTES + 1];
    memset(host, 'p', sizeof host);
    host[KN_PROXY_HOST_BYTES] = 0;
    CHECK(!kn_proxy_new(KN_PROXY_HTTP, 1, host, 1, NULL, 0));
    CHECK(!kn_proxy_new(KN_PROXY_HTTP, 1, "p", 1, login, sizeof login));
    host[KN_PROXY_HOST_BYTES - 1] = 0;
    struct kn_proxy *proxy = kn_proxy_new(KN_PROXY_HTTP, 0, host, 1, login, sizeof login - 1);
    CHECK(proxy && proxy->remote_dns);
    kn_proxy_unref(proxy);
    kn_proxy_unref(NULL);
}

int main(void)
{
    RUN(test_socks_names_go_to_the_proxy_in_pieces_of_any_size);
    RUN(test_socks_login_is_said_only_where_it_is_asked_for);
    RUN(test_socks_addresses_are_sent_as_they_are);
    RUN(test_http_asks_for_host_and_port);
    RUN(test_each_refusal_names_the_answer_and_the_setting);
    RUN(test_the_tunnel_waits_for_the_whole_answer);
    RUN(test_an_answer_without_end_is_given_up_at_the_cap);
    RUN(test_nothing_behind_the_answer_is_read);
    RUN(test_a_host_name_with_other_characters_is_not_sent);
    RUN(test_too_long_settings_make_no_proxy);
    return check_done();
}
