/* A connection through a proxy that the test plays: the addresses, the state UP, and the time
 * limit. The test has its own resolver. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <netdb.h>

#include "net/connection.h"
#include "net/proxy.h"
#include "net/thread.h"
#include "engine_check.h"

/* "p.test" is the proxy, "b.test" is a broker with two addresses, "nobody" doesn't exist. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **result)
{
    *result = NULL;
    if (!strcmp(host, "nobody")) return EAI_NONAME;
    int count = strcmp(host, "b.test") ? 1 : 2;
    for (int i = count; i > 0; i--) {
        struct addrinfo *link = calloc(1, sizeof *link);
        struct sockaddr_in *address = calloc(1, sizeof *address);
        *address = (struct sockaddr_in){.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)atoi(service))};
        address->sin_addr.s_addr = htonl(count == 1 ? INADDR_LOOPBACK : 0x0a000000 + (uint32_t)i);
        *link = (struct addrinfo){
            .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_protocol = hints->ai_protocol};
        link->ai_addr = (struct sockaddr *)address;
        link->ai_addrlen = sizeof *address;
        link->ai_next = *result;
        *result = link;
    }
    return 0;
}

void freeaddrinfo(struct addrinfo *head)
{
    while (head) {
        struct addrinfo *next = head->ai_next;
        free(head->ai_addr);
        free(head);
        head = next;
    }
}

static struct kn_proxy *proxy;
static struct kn_connection *connection;
static int listener, peer;

static int turn(int timeout_ms, int64_t now_us)
{
    struct pollfd fd;
    fd.fd = kn_connection_poll_fd(connection, &fd.events);
    fd.revents = 0;
    poll(&fd, 1, timeout_ms);
    return kn_connection_step(connection, fd.revents, now_us);
}

static void setup(int resolves, const char *host)
{
    uint16_t port;
    listener = peer_listen(&port, 8);
    proxy = kn_proxy_new(KN_PROXY_SOCKS5, resolves, "p.test", port, NULL, 0);
    struct kn_connection_config config = {
        .receive_max_bytes = 1000, .setup_timeout_ms = 1000, .proxy = proxy};
    connection = kn_connection_new(&config, NULL);
    CHECK_EQ(kn_connection_open(connection, host, 9092, 0), KN_OK);
    CHECK_EQ(turn(1000, 0), KN_OK);
    peer = peer_accept(listener);
}

static void teardown(void)
{
    kn_connection_free(connection);
    kn_proxy_unref(proxy);
    close(peer);
    close(listener);
}

/* Reads and answers the client's greeting, and reads its request into `request`. */
static void greet(uint8_t *request, size_t size)
{
    uint8_t greeting[3];
    peer_read(peer, greeting, sizeof greeting);
    CHECK_MEM(greeting, "\x05\x01\x00", 3);
    peer_write(peer, "\x05\x00", 2);
    CHECK_EQ(turn(1000, 0), KN_OK);
    peer_read(peer, request, size);
}

static void test_a_connection_is_up_behind_the_proxys_answer(void)
{
    uint8_t request[13];
    setup(1, "nobody"); /* the client doesn't resolve it */
    greet(request, sizeof request);
    CHECK_MEM(request, "\x05\x01\x00\x03\x06nobody\x23\x84", 13);
    CHECK_EQ(kn_connection_state(connection), KN_CONNECTION_CONNECTING);
    peer_write(peer, "\x05\x00\x00\x01\x00\x00\x00\x00\x00", 9);
    CHECK_EQ(turn(1000, 0), KN_OK);
    CHECK_EQ(kn_connection_state(connection), KN_CONNECTION_CONNECTING);
    peer_write(peer, "\x00", 1);
    CHECK_EQ(turn(1000, 0), KN_OK);
    CHECK_EQ(kn_connection_state(connection), KN_CONNECTION_UP);
    CHECK_TEXT(kn_connection_peer_text(connection), "proxy p.test at 127.0.0.1:");
    close(peer);
    peer = -1;
    CHECK_EQ(turn(1000, 0), KN_ERR_TRANSPORT);
    CHECK_TEXT(kn_connection_error_text(connection), "nobody:9092 (proxy p.test at 127.0.0.1:");
    CHECK(kn_connection_was_idle_close(connection));
    teardown();
}

static void test_each_address_of_a_broker_is_asked_for_and_the_next_round_begins_with_another(void)
{
    uint8_t request[10];
    uint8_t first[10] = "\x05\x01\x00\x01\x0a\x00\x00\x01\x23\x84";
    uint8_t second[10] = "\x05\x01\x00\x01\x0a\x00\x00\x02\x23\x84";
    setup(0, "b.test");
    greet(request, sizeof request);
    int swapped = request[7] == 2; /* the order is random */
    CHECK_MEM(request, swapped ? second : first, 10);
    peer_write(peer, "\x05\x04\x00\x01", 4);
    CHECK_EQ(turn(1000, 0), KN_OK);
    close(peer);
    peer = peer_accept(listener);
    CHECK_EQ(turn(1000, 0), KN_OK);
    greet(request, sizeof request);
    CHECK_MEM(request, swapped ? first : second, 10);
    peer_write(peer, "\x05\x02\x00\x01", 4);
    CHECK_EQ(turn(1000, 0), KN_ERR_TRANSPORT);
    CHECK_TEXT(kn_connection_error_text(connection),
               "b.test:9092: connect failed: proxy p.test at 127.0.0.1:");
    CHECK_TEXT(kn_connection_error_text(connection), "(SOCKS5 says 4); proxy p.test at ");
    CHECK_EQ(kn_connection_fd(connection), -1);
    kn_connection_close(connection, KN_ERR_TRANSPORT);
    teardown();
}

static void test_the_proxys_handshake_is_within_the_setup_timeout(void)
{
    uint8_t greeting[3];
    setup(1, "b.test");
    peer_read(peer, greeting, sizeof greeting);
    peer_write(peer, "\x05", 1);
    CHECK_EQ(turn(1000, 0), KN_OK);
    int64_t deadline_us = kn_connection_next_deadline_us(connection);
    CHECK(deadline_us >= 1000000 && deadline_us < 1500000);
    CHECK_EQ(turn(0, deadline_us - 1), KN_OK);
    CHECK_EQ(turn(0, deadline_us), KN_ERR_TRANSPORT);
    CHECK_TEXT(kn_connection_error_text(connection), ": no answer within 1000 ms");
    teardown();
}

static void test_errors_of_name_resolution_name_the_host(void)
{
    proxy = kn_proxy_new(KN_PROXY_SOCKS5, 0, "p.test", 1080, NULL, 0);
    struct kn_connection_config config = {
        .receive_max_bytes = 1000, .setup_timeout_ms = 1000, .proxy = proxy};
    connection = kn_connection_new(&config, NULL);
    CHECK_EQ(kn_connection_open(connection, "nobody", 9092, 0), KN_ERR_RESOLVE);
    CHECK_TEXT(kn_connection_error_text(connection),
               "nobody:9092 (not connected): cannot resolve the host name: ");
    CHECK_TEXT(kn_connection_error_text(connection), "; with socks5h:// the proxy does it");
    kn_connection_free(connection);
    kn_proxy_unref(proxy);
    config.proxy = proxy = kn_proxy_new(KN_PROXY_HTTP, 0, "nobody", 3128, NULL, 0);
    connection = kn_connection_new(&config, NULL);
    CHECK_EQ(kn_connection_open(connection, "b.test", 9092, 0), KN_ERR_RESOLVE);
    CHECK_TEXT(kn_connection_error_text(connection),
               "b.test:9092 (not connected): cannot resolve the proxy's name: ");
    kn_connection_free(connection);
    kn_proxy_unref(proxy);
}

int main(void)
{
    RUN(test_a_connection_is_up_behind_the_proxys_answer);
    RUN(test_each_address_of_a_broker_is_asked_for_and_the_next_round_begins_with_another);
    RUN(test_the_proxys_handshake_is_within_the_setup_timeout);
    RUN(test_errors_of_name_resolution_name_the_host);
    return check_done();
}
