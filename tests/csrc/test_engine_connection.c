/* A connection that the test drives against a peer that it plays: frames, matching, partial reads
 * and writes, bad peers, timeouts. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine_check.h"
#include "net/connection.h"
#include "net/events.h"
#include "net/frame.h"
#include "net/thread.h"

#define LATER_US INT64_C(60000000)

/* A request of the test, and its outcome. */
struct call {
    struct kn_request request;
    struct iovec pieces[600];
    uint8_t *frame;
    int done, status, order;
    uint8_t *body;
    size_t body_bytes;
};

static int done_count;

static void call_done(struct kn_request *request, int status, struct kn_chunk *chunk,
                      struct kn_span body)
{
    struct call *call = request->context;
    CHECK(!call->done);
    call->done = 1;
    call->status = status;
    call->order = done_count++;
    CHECK(chunk == NULL || status == KN_OK);
    if (chunk) {
        call->body_bytes = kn_span_left(&body);
        call->body = malloc(call->body_bytes + 1);
        memcpy(call->body, body.at, call->body_bytes);
    }
}

/* Makes a request with `body_bytes` of a pattern, in pieces of at most piece_bytes. */
static struct call *call_new(uint8_t flags, size_t body_bytes, size_t piece_bytes)
{
    struct call *call = calloc(1, sizeof *call);
    call->frame = malloc(KN_FRAME_HEADER_MAX_BYTES + 4 + body_bytes);
    size_t at = kn_frame_header_write(call->frame, 3, 9, "test", 1);
    for (size_t i = 0; i < body_bytes; i++) call->frame[at + i] = (uint8_t)(i * 31 >> 3);
    size_t total = at + body_bytes;
    int count = 0;
    for (size_t from = 0; from < total; from += piece_bytes) {
        CHECK(count < 600);
        size_t size = total - from < piece_bytes ? total - from : piece_bytes;
        call->pieces[count++] = (struct iovec){call->frame + from, size};
    }
    kn_list_init(&call->request.node);
    call->request.api_key = 3;
    call->request.api_version = 9;
    call->request.flags = flags;
    call->request.deadline_us = LATER_US;
    call->request.pieces = call->pieces;
    call->request.piece_count = count;
    call->request.frame_bytes = total;
    call->request.on_done = call_done;
    call->request.context = call;
    return call;
}

static void call_free(struct call *call)
{
    CHECK(call->done);
    free(call->frame);
    free(call->body);
    free(call);
}

/* A connection and its peer. */
struct pair {
    struct kn_pool *pool;
    struct kn_connection *connection;
    int listener;
    uint16_t port;
    int peer;
};

static const struct kn_connection_config CONFIG = {.receive_max_bytes = 1000000,
                                                   .setup_timeout_ms = 1000,
                                                   .socket = {.nagle_disable = 1, .keepalive = 1}};

/* Runs one step, as a broker thread does. */
static int turn(struct kn_connection *connection, int timeout_ms, int64_t now_us)
{
    struct pollfd fd;
    fd.fd = kn_connection_poll_fd(connection, &fd.events);
    fd.revents = 0;
    poll(&fd, 1, timeout_ms);
    return kn_connection_step(connection, fd.revents, now_us);
}

static struct pair pair_new(const struct kn_connection_config *config)
{
    struct pair pair;
    pair.pool = kn_pool_new(1 << 20);
    pair.listener = peer_listen(&pair.port, 8);
    pair.connection = kn_connection_new(config, pair.pool);
    CHECK_EQ(kn_connection_open(pair.connection, "127.0.0.1", pair.port, 0), KN_OK);
    for (int i = 0; i < 100 && kn_connection_state(pair.connection) != KN_CONNECTION_UP; i++)
        CHECK_EQ(turn(pair.connection, 100, 0), KN_OK);
    CHECK_EQ(kn_connection_state(pair.connection), KN_CONNECTION_UP);
    pair.peer = peer_accept(pair.listener);
    return pair;
}

static void pair_free(struct pair *pair)
{
    long live = kn_buffer_live();
    kn_connection_free(pair->connection);
    CHECK(kn_buffer_live() <= live);
    kn_pool_free(pair->pool);
    if (pair->peer >= 0) close(pair->peer);
    close(pair->listener);
    CHECK_EQ(kn_chunk_live(), 0);
}

/* Steps until `call` is done or the connection fails. */
static int turns_until_done(struct kn_connection *connection, struct call *call)
{
    for (int i = 0; i < 10000; i++) {
        if (call->done) return KN_OK;
        int status = turn(connection, 1000, 0);
        if (status) return status;
    }
    return KN_ERR_TIMED_OUT;
}

static struct call *send_call(struct pair *pair, uint8_t flags)
{
    struct call *call = call_new(flags, 10, 1000);
    kn_connection_send(pair->connection, &call->request, 0);
    return call;
}

/* --- connecting --- */

static void test_a_refused_connect_names_host_address_and_cause(void)
{
    struct kn_connection *connection = kn_connection_new(&CONFIG, NULL);
    uint16_t port = peer_closed_port();
    int status = kn_connection_open(connection, "127.0.0.1", port, 0);
    for (int i = 0; status == KN_OK && i < 100; i++) status = turn(connection, 100, 0);
    CHECK_EQ(status, KN_ERR_TRANSPORT);
    char expected[96];
    snprintf(expected, sizeof expected,
             "127.0.0.1:%u: connect failed: 127.0.0.1:%u: Connection refused", port, port);
    CHECK_TEXT(kn_connection_error_text(connection), expected);
    CHECK_EQ(kn_connection_fd(connection), -1);
    kn_connection_close(connection, status);
    kn_connection_free(connection);
}

static void test_a_host_without_an_address_of_the_family_is_a_resolve_error(void)
{
    struct kn_connection_config config = CONFIG;
    config.socket.address_family = 6;
    struct kn_connection *connection = kn_connection_new(&config, NULL);
    CHECK_EQ(kn_connection_open(connection, "127.0.0.1", 9092, 0), KN_ERR_RESOLVE);
    CHECK_TEXT(kn_connection_error_text(connection),
               "127.0.0.1:9092 (not connected): cannot resolve the host name: ");
    kn_connection_free(connection);
}

static void test_the_next_address_is_tried_when_one_fails(void)
{
    /* On most machines localhost is ::1 and 127.0.0.1, and the listener has only the second. If it
     * is only one address, this still connects. */
    uint16_t port;
    int listener = peer_listen(&port, 8);
    struct kn_connection *connection = kn_connection_new(&CONFIG, NULL);
    for (int round = 0; round < 3; round++) { /* every address at which the rotation can begin */
        CHECK_EQ(kn_connection_open(connection, "localhost", port, 0), KN_OK);
        for (int i = 0; i < 100 && kn_connection_state(connection) != KN_CONNECTION_UP; i++)
            CHECK_EQ(turn(connection, 100, 0), KN_OK);
        CHECK_EQ(kn_connection_state(connection), KN_CONNECTION_UP);
        CHECK_TEXT(kn_connection_peer_text(connection), "127.0.0.1:");
        kn_connection_close(connection, KN_ERR_CLOSED);
    }
    kn_connection_free(connection);
    close(listener);
}

static void test_a_connect_without_answer_ends_at_the_setup_timeout(void)
{
    /* A listener with a full queue drops new connections, so the connect hangs. */
    uint16_t port;
    int listener = peer_listen(&port, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fillers[4];
    for (int i = 0; i < 4; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(fillers[i], (struct sockaddr *)&address, sizeof address))
            CHECK_EQ(errno, EINPROGRESS);
    }
    struct kn_connection *connection = kn_connection_new(&CONFIG, NULL);
    CHECK_EQ(kn_connection_open(connection, "127.0.0.1", port, 5000000), KN_OK);
    CHECK_EQ(turn(connection, 10, 5000000), KN_OK);
    CHECK_EQ(kn_connection_state(connection), KN_CONNECTION_CONNECTING);
    int64_t deadline_us = kn_connection_next_deadline_us(connection);
    CHECK(deadline_us >= 6000000 && deadline_us < 6500000);
    CHECK_EQ(kn_connection_step(connection, 0, deadline_us - 1), KN_OK);
    CHECK_EQ(kn_connection_step(connection, 0, deadline_us), KN_ERR_TRANSPORT);
    CHECK_TEXT(kn_connection_error_text(connection), "no answer within 1000 ms");
    kn_connection_free(connection);
    for (int i = 0; i < 4; i++) close(fillers[i]);
    close(listener);
}

/* --- requests and responses --- */

static void test_a_request_goes_out_framed_and_its_response_comes_back(void)
{
    struct pair pair = pair_new(&CONFIG);
    struct call *call = send_call(&pair, 0);
    CHECK_EQ(kn_connection_in_flight(pair.connection), 1);
    CHECK_EQ(kn_connection_unsent_bytes(pair.connection), call->request.frame_bytes);
    CHECK_EQ(kn_connection_unsent_requests(pair.connection), 1);
    CHECK_EQ(kn_connection_step(pair.connection, 0, 17), KN_OK);
    CHECK_EQ(kn_connection_unsent_requests(pair.connection), 0);
    CHECK_EQ(kn_connection_unsent_bytes(pair.connection), 0);
    CHECK_EQ(call->request.sent_us, 17);
    CHECK_EQ(call->request.was_written, 1);

    size_t size;
    int32_t correlation_id;
    uint8_t *frame = peer_read_request(pair.peer, &size, &correlation_id);
    static const uint8_t head[] = {0, 3, 0, 9, 0, 0, 0, 0, 0, 4, 't', 'e', 's', 't', 0};
    CHECK_EQ(size, sizeof head + 10);
    CHECK(memcmp(frame, head, sizeof head) == 0);
    free(frame);
    peer_reply(pair.peer, correlation_id, "pong", 4);
    CHECK_EQ(turns_until_done(pair.connection, call), KN_OK);
    CHECK_EQ(call->status, KN_OK);
    CHECK_EQ(call->body_bytes, 4);
    CHECK(memcmp(call->body, "pong", 4) == 0);
    CHECK_EQ(kn_connection_in_flight(pair.connection), 0);
    CHECK_EQ(kn_connection_next_deadline_us(pair.connection), KN_NEVER);
    call_free(call);
    pair_free(&pair);
}

static void test_correlation_ids_rise_and_a_close_fails_in_order(void)
{
    struct pair pair = pair_new(&CONFIG);
    struct call *calls[3];
    for (int i = 0; i < 3; i++) calls[i] = send_call(&pair, 0);
    for (int i = 0; i < 3; i++) CHECK_EQ(calls[i]->request.correlation_id, i);
    kn_connection_close(pair.connection, KN_ERR_CLOSED);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(calls[i]->status, KN_ERR_CLOSED);
        CHECK_EQ(calls[i]->request.was_written, 0);
        if (i) CHECK(calls[i]->order > calls[i - 1]->order);
    }
    for (int i = 0; i < 3; i++) call_free(calls[i]);
    pair_free(&pair);
}

static void test_a_response_may_be_split_at_every_byte(void)
{
    struct pair pair = pair_new(&CONFIG);
    struct call *call = send_call(&pair, 0);
    CHECK_EQ(turn(pair.connection, 0, 0), KN_OK);
    uint8_t reply[8 + 20];
    set_u32(reply, sizeof reply - 4);
    set_u32(reply + 4, (uint32_t)call->request.correlation_id);
    for (size_t i = 8; i < sizeof reply; i++) reply[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof reply; i++) {
        CHECK(!call->done);
        peer_write(pair.peer, reply + i, 1);
        CHECK_EQ(turn(pair.connection, 1000, 0), KN_OK);
    }
    CHECK(call->done);
    CHECK_EQ(call->body_bytes, 20);
    CHECK(memcmp(call->body, reply + 8, 20) == 0);
    call_free(call);
    pair_free(&pair);
}

static void test_many_small_responses_cost_one_read(void)
{
    struct pair pair = pair_new(&CONFIG);
    struct call *calls[100];
    uint8_t all[100 * 12];
    for (int i = 0; i < 100; i++) calls[i] = send_call(&pair, 0);
    CHECK_EQ(turn(pair.connection, 0, 0), KN_OK);
    CHECK_EQ(kn_connection_stats(pair.connection)->writes, 1);
    for (int i = 0; i < 100; i++) {
        set_u32(all + 12 * i, 8);
        set_u32(all + 12 * i + 4, (uint32_t)i);
        set_u32(all + 12 * i + 8, (uint32_t)i * 7);
    }
    peer_write(pair.peer, all, sizeof all);
    CHECK_EQ(turn(pair.connection, 1000, 0), KN_OK);
    CHECK_EQ(kn_connection_stats(pair.connection)->reads, 1);
    CHECK_EQ(kn_connection_stats(pair.connection)->rx, 100);
    for (int i = 0; i < 100; i++) {
        CHECK(calls[i]->done);
        CHECK_EQ(get_u32(calls[i]->body), (uint32_t)i * 7);
        call_free(calls[i]);
    }
    pair_free(&pair);
}

/* Writes from the peer. The connection reads whenever the sockets are full: nobody else would. */
static void feed(struct pair *pair, const uint8_t *at, size_t size_bytes)
{
    while (size_bytes) {
        ssize_t sent = send(pair->peer, at, size_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        CHECK(sent > 0 || errno == EAGAIN);
        if (sent > 0) {
            at += sent;
            size_bytes -= (size_t)sent;
        }
        CHECK_EQ(turn(pair->connection, sent > 0 ? 0 : 10, 0), KN_OK);
    }
}

/* Small, large, small responses back to back, written in pieces of `step` bytes. */
static void exchange_large(size_t step)
{
    struct pair pair = pair_new(&CONFIG);
    struct call *small = send_call(&pair, 0), *large = send_call(&pair, 0),
                *last = send_call(&pair, 0);
    size_t large_bytes = 300000, total = 12 + 8 + large_bytes + 12;
    uint8_t *all = malloc(total);
    set_u32(all, 8);
    set_u32(all + 4, 0);
    set_u32(all + 8, 0x01020304);
    set_u32(all + 12, (uint32_t)(4 + large_bytes));
    set_u32(all + 16, 1);
    for (size_t i = 0; i < large_bytes; i++) all[20 + i] = (uint8_t)(i * 131 >> 5);
    set_u32(all + total - 12, 8);
    set_u32(all + total - 8, 2);
    set_u32(all + total - 4, 0x05060708);
    CHECK_EQ(turn(pair.connection, 0, 0), KN_OK);
    /* a step may find that too few bytes have come */
    for (size_t at = 0; at < total; at += step)
        feed(&pair, all + at, total - at < step ? total - at : step);
    CHECK_EQ(turns_until_done(pair.connection, last), KN_OK);
    CHECK_EQ(get_u32(small->body), 0x01020304);
    CHECK_EQ(large->body_bytes, large_bytes);
    CHECK(memcmp(large->body, all + 20, large_bytes) == 0);
    CHECK_EQ(get_u32(last->body), 0x05060708);
    free(all);
    call_free(small);
    call_free(large);
    call_free(last);
    pair_free(&pair);
}

static void test_large_responses_arrive_whole_between_small_ones(void)
{
    static const size_t steps[] = {1000003, 50000, 32768, 32775, 32776, 32777, 4099};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) exchange_large(steps[i]);
}

static int64_t reads_of(const struct pair *pair)
{
    return kn_connection_stats(pair->connection)->reads;
}

static void test_a_large_response_wakes_the_thread_for_many_bytes_only(void)
{
    struct pair pair = pair_new(&CONFIG);
    struct call *call = send_call(&pair, 0);
    enum { BODY_BYTES = 400000, PIECE_BYTES = 10000, LOW_BYTES = 131072 };
    uint8_t *all = calloc(1, 8 + BODY_BYTES);
    set_u32(all, 4 + BODY_BYTES);
    CHECK_EQ(turn(pair.connection, 0, 0), KN_OK);
    peer_write(pair.peer, all, 8);
    CHECK_EQ(turn(pair.connection, 1000, 0), KN_OK);
    int64_t before = reads_of(&pair);
    CHECK(before > 0);
    size_t at = 8;
    for (; at < LOW_BYTES - PIECE_BYTES; at += PIECE_BYTES) {
        peer_write(pair.peer, all + at, PIECE_BYTES);
        CHECK_EQ(turn(pair.connection, 0, 0), KN_OK);
    }
    CHECK_EQ(reads_of(&pair), before);
    peer_write(pair.peer, all + at, 8 + BODY_BYTES - at - 1);
    CHECK_EQ(turn(pair.connection, 1000, 0), KN_OK);
    CHECK(reads_of(&pair) > before);
    CHECK(!call->done);
    /* the last byte comes alone and still wakes the thread */
    peer_write(pair.peer, all + 8 + BODY_BYTES - 1, 1);
    CHECK_EQ(turns_until_done(pair.connection, call), KN_OK);
    free(all);
    call_free(call);
    pair_free(&pair);
}

#ifdef __linux__
#ifdef __SANITIZE_THREAD__
#define SHADOW_TIMES 5 /* ThreadSanitizer uses memory for each written byte */
#else
#define SHADOW_TIMES 1
#endif

static size_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    size_t pages = 0;
    CHECK(file != NULL);
    CHECK_EQ(fscanf(file, "%*u %zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* A peer that announces 99 MB costs little more memory than it has sent: at first, and after a part
 * has come. */
static void test_memory_follows_the_bytes_that_arrived(void)
{
    enum { ANNOUNCED_BYTES = 99000000, PIECE_BYTES = 1 << 16, PIECES = 96, SLACK_BYTES = 3 << 20 };
    struct kn_connection_config config = CONFIG;
    config.receive_max_bytes = 100000000;
    struct pair pair = pair_new(&config);
    struct call *call = send_call(&pair, 0);
    uint8_t head[8], *piece = calloc(1, PIECE_BYTES);
    set_u32(head, ANNOUNCED_BYTES);
    set_u32(head + 4, 0);
    memset(piece, 1, PIECE_BYTES);
    CHECK_EQ(turn(pair.connection, 0, 0), KN_OK);
    size_t before = resident_bytes();
    peer_write(pair.peer, head, sizeof head);
    for (int i = 0; i < 10; i++) CHECK_EQ(turn(pair.connection, 10, 0), KN_OK);
    CHECK(kn_connection_is_receiving(pair.connection));
    CHECK(resident_bytes() < before + SLACK_BYTES);
    for (int i = 0; i < PIECES; i++) feed(&pair, piece, PIECE_BYTES);
    for (int i = 0; i < 10; i++) CHECK_EQ(turn(pair.connection, 10, 0), KN_OK);
    CHECK(resident_bytes() < before + SHADOW_TIMES * (2 * PIECES * PIECE_BYTES + SLACK_BYTES));
    free(piece);
    kn_connection_close(pair.connection, KN_ERR_CLOSED);
    call_free(call);
    pair_free(&pair);
}
#endif

static void test_a_peer_that_closes_within_a_large_response_is_noticed_at_once(void)
{
    struct pair pair = pair_new(&CONFIG);
    struct call *call = send_call(&pair, 0);
    uint8_t head[8 + 1000] = {0, 6, 0, 0};
    CHECK_EQ(turn(pair.connection, 0, 0), KN_OK);
    peer_write(pair.peer, head, 8);
    CHECK_EQ(turn(pair.connection, 1000, 0), KN_OK);
    peer_write(pair.peer, head + 8, 1000); /* too few bytes to wake up for */
    CHECK_EQ(shutdown(pair.peer, SHUT_WR), 0);
    int status = KN_OK;
    for (int i = 0; status == KN_OK && i < 10; i++) status = turn(pair.connection, 1000, 0);
    CHECK_EQ(status, KN_ERR_TRANSPORT);
    CHECK(strstr(kn_connection_error_text(pair.connection),
                 "within a response: 1004 of 393216 bytes had come"));
    kn_connection_close(pair.connection, status);
    call_free(call);
    pair_free(&pair);
}

static void test_a_request_of_many_pieces_survives_partial_writes(void)
{
    struct kn_connection_config config = CONFIG;
    config.socket.send_buffer_bytes = 65536;
    struct pair pair = pair_new(&config);
    size_t body_bytes = 3000000;
    struct call *call = call_new(0, body_bytes, 5501); /* more pieces than one write takes */
    CHECK(call->request.piece_count > 512);
    kn_connection_send(pair.connection, &call->request, 0);
    size_t total = call->request.frame_bytes, got = 0;
    uint8_t *received = malloc(total);
    CHECK_EQ(fcntl(pair.peer, F_SETFL, O_NONBLOCK), 0);
    CHECK_EQ(kn_connection_step(pair.connection, 0, 0), KN_OK);
    short events;
    kn_connection_poll_fd(pair.connection, &events);
    CHECK(events & POLLOUT);
    for (int64_t until_us = kn_clock_us() + 10000000; got < total && kn_clock_us() < until_us;) {
        ssize_t now = recv(pair.peer, received + got, total - got < 70001 ? total - got : 70001, 0);
        if (now > 0) got += (size_t)now;
        CHECK_EQ(turn(pair.connection, now > 0 ? 0 : 1, 0), KN_OK);
    }
    CHECK_EQ(got, total);
    CHECK_EQ(kn_connection_unsent_bytes(pair.connection), 0);
    CHECK_EQ(get_u32(received), total - 4);
    CHECK(memcmp(received, call->frame, total) == 0);
    CHECK(kn_connection_stats(pair.connection)->writes > 10);
    peer_reply(pair.peer, 0, "", 0);
    CHECK_EQ(turns_until_done(pair.connection, call), KN_OK);
    free(received);
    call_free(call);
    pair_free(&pair);
}

static void test_tagged_fields_of_a_flexible_header_are_skipped(void)
{
    struct pair pair = pair_new(&CONFIG);
    struct call *call = send_call(&pair, KN_REQUEST_FLEXIBLE_REPLY);
    static const uint8_t reply[] = {2, 1, 3, 'a', 'b', 'c', 0x80, 0x01, 0, 'B', 'O', 'D', 'Y'};
    CHECK_EQ(turn(pair.connection, 0, 0), KN_OK);
    peer_reply(pair.peer, 0, reply, sizeof reply);
    CHECK_EQ(turns_until_done(pair.connection, call), KN_OK);
    CHECK_EQ(call->body_bytes, 4);
    CHECK(memcmp(call->body, "BODY", 4) == 0);
    call_free(call);
    pair_free(&pair);
}

static void test_a_request_without_reply_is_done_once_written(void)
{
    struct pair pair = pair_new(&CONFIG);
    struct call *call = send_call(&pair, KN_REQUEST_NO_REPLY);
    CHECK(!call->done);
    CHECK_EQ(kn_connection_step(pair.connection, 0, 5), KN_OK);
    CHECK(call->done);
    CHECK_EQ(call->status, KN_OK);
    CHECK(call->body == NULL);
    CHECK_EQ(call->request.sent_us, 5);
    call_free(call);
    pair_free(&pair);
}

/* A request without a header, as SASL has it before Kafka 1.0. */
static struct call *raw_call(struct pair *pair, uint8_t flags)
{
    struct call *call = call_new(KN_REQUEST_RAW | KN_REQUEST_HANDSHAKE | flags, 0, 600);
    memcpy(call->frame + KN_FRAME_LENGTH_BYTES, "token", 5);
    call->pieces[0].iov_len = call->request.frame_bytes = KN_FRAME_LENGTH_BYTES + 5;
    kn_connection_send(pair->connection, &call->request, 0);
    CHECK_EQ(turn(pair->connection, 0, 0), KN_OK);
    uint8_t received[KN_FRAME_LENGTH_BYTES + 5];
    CHECK_EQ(recv(pair->peer, received, sizeof received, MSG_WAITALL), (ssize_t)sizeof received);
    CHECK(memcmp(received, "\0\0\0\5token", sizeof received) == 0);
    return call;
}

static void test_a_raw_request_and_its_reply_have_no_header(void)
{
    static const char *const replies[] = {"", "a", "abc", "challenge of the broker"};
    struct pair pair = pair_new(&CONFIG);
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        struct call *call = raw_call(&pair, 0);
        size_t length = strlen(replies[i]);
        uint8_t frame[64] = {0, 0, 0, (uint8_t)length};
        memcpy(frame + KN_FRAME_LENGTH_BYTES, replies[i], length);
        peer_write(pair.peer, frame, KN_FRAME_LENGTH_BYTES + length);
        CHECK_EQ(turns_until_done(pair.connection, call), KN_OK);
        CHECK_EQ(call->body_bytes, length);
        CHECK(memcmp(call->body, replies[i], length) == 0);
        call_free(call);
    }
    struct call *last = raw_call(&pair, KN_REQUEST_NO_REPLY);
    CHECK(last->done);
    call_free(last);
    struct call *call = send_call(&pair, 0); /* headers again */
    CHECK_EQ(turn(pair.connection, 0, 0), KN_OK);
    peer_reply(pair.peer, call->request.correlation_id, "BODY", 4);
    CHECK_EQ(turns_until_done(pair.connection, call), KN_OK);
    CHECK_EQ(call->body_bytes, 4);
    call_free(call);
    pair_free(&pair);
}

/* --- bad peers: each has its own error, and costs no memory --- */

static void bad_peer(const void *bytes, size_t size_bytes, uint8_t flags, int expected,
                     const char *text)
{
    struct pair pair = pair_new(&CONFIG);
    struct call *call = send_call(&pair, flags);
    CHECK_EQ(turn(pair.connection, 0, 0), KN_OK);
    long live = kn_buffer_live();
    peer_write(pair.peer, bytes, size_bytes);
    CHECK_EQ(turns_until_done(pair.connection, call), expected);
    CHECK_TEXT(kn_connection_error_text(pair.connection), text);
    char where[64];
    snprintf(where, sizeof where, "127.0.0.1:%u (127.0.0.1:%u): ", pair.port, pair.port);
    CHECK_TEXT(kn_connection_error_text(pair.connection), where);
    CHECK_EQ(kn_buffer_live(), live);
    CHECK(!call->done);
    kn_connection_close(pair.connection, expected);
    CHECK_EQ(call->status, expected);
    call_free(call);
    pair_free(&pair);
}

static void test_bad_peers_get_their_own_errors(void)
{
    bad_peer("HTTP/1.1 400 Bad Request\r\n", 26, 0, KN_ERR_PROTOCOL, "HTTP");
    bad_peer("\x15\x03\x03\x00\x02\x02\x46", 7, 0, KN_ERR_PROTOCOL, "TLS alert");
    bad_peer("\xff\xff\xff\xff", 4, 0, KN_ERR_PROTOCOL, "impossible frame length");
    bad_peer("\x00\x00\x00\x00", 4, 0, KN_ERR_PROTOCOL, "impossible frame length");
    bad_peer("\x00\x00\x00\x03\x00\x00\x00\x00", 8, 0, KN_ERR_PROTOCOL, "impossible frame length");
    bad_peer("\x00\x0f\x42\x41", 4, 0, KN_ERR_TOO_LARGE,
             "1000001 bytes is over the limit of 1000000 (receive.message.max.bytes)");
    bad_peer("\x00\x08\x00\x01", 4, KN_REQUEST_HANDSHAKE, KN_ERR_TOO_LARGE,
             "over the limit of 524288");
    bad_peer("\x00\x00\x10\x00\x00\x00\x00\x05", 8, 0, KN_ERR_PROTOCOL,
             "correlation id 5 came where 0 was due");
    bad_peer("\x00\x00\x00\x05\x00\x00\x00\x00\x05", 9, KN_REQUEST_FLEXIBLE_REPLY, KN_ERR_PROTOCOL,
             "malformed");
    bad_peer("\x00\x00\x00\x07\x00\x00\x00\x00\x01\x00\x09", 11, KN_REQUEST_FLEXIBLE_REPLY,
             KN_ERR_PROTOCOL, "malformed");
    bad_peer("\x00\x00\x00\x04\x00\x00\x00\x00", 8, KN_REQUEST_FLEXIBLE_REPLY, KN_ERR_PROTOCOL,
             "malformed");
}

/* Each byte of a good response is replaced by each edge value. The call is answered, or the
 * connection fails with a text, or it waits for more bytes. */
static void test_a_damaged_response_is_never_more_than_an_error(void)
{
    static const uint8_t good[] = {0,   0,   0,   17, 0, 0,   0,   0,   2,   1,  3,
                                   'a', 'b', 'c', 5,  0, 'b', 'o', 'd', 'y', '!'};
    static const uint8_t edges[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    int answered = 0, failed = 0, waiting = 0;
    for (size_t at = 0; at < sizeof good; at++) {
        for (size_t edge = 0; edge < sizeof edges; edge++) {
            uint8_t reply[sizeof good];
            memcpy(reply, good, sizeof good);
            reply[at] = edges[edge];
            struct pair pair = pair_new(&CONFIG);
            struct call *call = send_call(&pair, KN_REQUEST_FLEXIBLE_REPLY);
            CHECK_EQ(turn(pair.connection, 0, 0), KN_OK);
            peer_write(pair.peer, reply, sizeof reply);
            int status = turn(pair.connection, 1000, 0);
            if (status) failed++;
            else if (call->done) answered++;
            else waiting++;
            CHECK(status == KN_OK || kn_connection_error_text(pair.connection)[0]);
            if (call->done) CHECK(call->status == KN_OK && call->body_bytes <= sizeof good);
            kn_connection_close(pair.connection, status);
            call_free(call);
            pair_free(&pair);
        }
    }
    CHECK(answered > 0 && failed > 0 && waiting > 0);
}

static void test_a_response_without_a_request_is_an_error(void)
{
    struct pair pair = pair_new(&CONFIG);
    peer_reply(pair.peer, 0, "x", 1);
    CHECK_EQ(turn(pair.connection, 1000, 0), KN_ERR_PROTOCOL);
    CHECK_TEXT(kn_connection_error_text(pair.connection), "nobody asked for");
    pair_free(&pair);
}

static void closing_peer(size_t bytes_before, const char *text, enum kn_peer_closed how)
{
    int idle = how == KN_PEER_CLOSED_IDLE;
    struct pair pair = pair_new(&CONFIG);
    struct call *call = idle ? NULL : send_call(&pair, 0);
    uint8_t reply[1000];
    memset(reply, 0, sizeof reply);
    set_u32(reply, 100000);
    CHECK_EQ(turn(pair.connection, 0, 0), KN_OK);
    if (bytes_before) peer_write(pair.peer, reply, bytes_before);
    if (call) { /* an unread request would turn the close into a reset */
        size_t size;
        int32_t correlation_id;
        free(peer_read_request(pair.peer, &size, &correlation_id));
    }
    close(pair.peer);
    pair.peer = -1;
    int status = KN_OK;
    for (int i = 0; status == KN_OK && i < 100; i++) status = turn(pair.connection, 1000, 0);
    CHECK_EQ(status, KN_ERR_TRANSPORT);
    CHECK_TEXT(kn_connection_error_text(pair.connection), text);
    CHECK_EQ(kn_connection_was_idle_close(pair.connection), idle);
    CHECK_EQ(kn_connection_peer_closed(pair.connection), how);
    kn_connection_close(pair.connection, status);
    if (call) {
        CHECK_EQ(call->status, KN_ERR_TRANSPORT);
        CHECK_EQ(call->request.was_written, 1);
        call_free(call);
    }
    pair_free(&pair);
}

static void test_an_error_shows_where_the_peer_closed(void)
{
    closing_peer(0, "closed the idle connection", KN_PEER_CLOSED_IDLE);
    closing_peer(0, "closed the connection with 1 requests unanswered", KN_PEER_CLOSED_IN_FLIGHT);
    closing_peer(3, "3 bytes into a response's header", KN_PEER_CLOSED_IN_FLIGHT);
    closing_peer(504, "500 of 100000 bytes had come", KN_PEER_CLOSED_IN_FLIGHT);
}

/* --- time --- */

static void test_the_first_deadline_ends_the_connection_and_only_the_late_are_timed_out(void)
{
    struct pair pair = pair_new(&CONFIG);
    struct call *patient = call_new(0, 10, 1000), *hasty = call_new(0, 10, 1000),
                *unsent = call_new(0, 10, 1000);
    patient->request.deadline_us = 9000;
    hasty->request.deadline_us = 5000;
    unsent->request.deadline_us = 8000;
    kn_connection_send(pair.connection, &patient->request, 0);
    kn_connection_send(pair.connection, &hasty->request, 0);
    CHECK_EQ(kn_connection_step(pair.connection, 0, 100), KN_OK);
    CHECK_EQ(kn_connection_next_deadline_us(pair.connection), 5000);
    CHECK_EQ(kn_connection_step(pair.connection, 0, 4999), KN_OK);
    kn_connection_send(pair.connection, &unsent->request, 0);
    CHECK_EQ(kn_connection_step(pair.connection, 0, 5000), KN_ERR_TIMED_OUT);
    CHECK_TEXT(kn_connection_error_text(pair.connection),
               "no response in time (API 3 v9, correlation id 1, sent, 3 requests waiting)");
    kn_connection_close(pair.connection, KN_ERR_TIMED_OUT);
    CHECK_EQ(patient->status, KN_ERR_TRANSPORT);
    CHECK_EQ(hasty->status, KN_ERR_TIMED_OUT);
    CHECK_EQ(unsent->status, KN_ERR_TRANSPORT);
    CHECK(patient->order < hasty->order && hasty->order < unsent->order);
    call_free(patient);
    call_free(hasty);
    call_free(unsent);
    pair_free(&pair);
}

static void test_an_answered_request_has_no_deadline_any_more(void)
{
    struct pair pair = pair_new(&CONFIG);
    struct call *first = call_new(0, 10, 1000), *second = call_new(0, 10, 1000);
    first->request.deadline_us = 5000;
    second->request.deadline_us = 7000;
    kn_connection_send(pair.connection, &first->request, 0);
    kn_connection_send(pair.connection, &second->request, 0);
    CHECK_EQ(turn(pair.connection, 0, 0), KN_OK);
    peer_reply(pair.peer, 0, "", 0);
    CHECK_EQ(turns_until_done(pair.connection, first), KN_OK);
    CHECK_EQ(kn_connection_step(pair.connection, 0, 6000), KN_OK);
    CHECK_EQ(kn_connection_next_deadline_us(pair.connection), 7000);
    CHECK_EQ(kn_connection_step(pair.connection, 0, 7000), KN_ERR_TIMED_OUT);
    kn_connection_close(pair.connection, KN_ERR_TIMED_OUT);
    CHECK_EQ(second->status, KN_ERR_TIMED_OUT);
    call_free(first);
    call_free(second);
    pair_free(&pair);
}

static void test_a_connection_can_be_opened_again(void)
{
    struct pair pair = pair_new(&CONFIG);
    for (int round = 0; round < 3; round++) {
        struct call *call = send_call(&pair, 0);
        CHECK_EQ(turn(pair.connection, 0, 0), KN_OK);
        peer_write(pair.peer, "\0\0\0\x20\0", 5); /* half a response stays behind */
        CHECK_EQ(turn(pair.connection, 1000, 0), KN_OK);
        kn_connection_close(pair.connection, KN_ERR_TRANSPORT);
        CHECK_EQ(call->status, KN_ERR_TRANSPORT);
        call_free(call);
        close(pair.peer);
        CHECK_EQ(kn_connection_open(pair.connection, "127.0.0.1", pair.port, 0), KN_OK);
        pair.peer = peer_accept(pair.listener);
        CHECK_EQ(turn(pair.connection, 1000, 0), KN_OK);
        CHECK_EQ(kn_connection_state(pair.connection), KN_CONNECTION_UP);
        struct call *again = send_call(&pair, 0);
        CHECK_EQ(turn(pair.connection, 0, 0), KN_OK);
        peer_reply(pair.peer, again->request.correlation_id, "ok", 2);
        CHECK_EQ(turns_until_done(pair.connection, again), KN_OK);
        CHECK_EQ(again->body_bytes, 2);
        call_free(again);
    }
    pair_free(&pair);
}

int main(void)
{
    RUN(test_a_refused_connect_names_host_address_and_cause);
    RUN(test_a_host_without_an_address_of_the_family_is_a_resolve_error);
    RUN(test_the_next_address_is_tried_when_one_fails);
    RUN(test_a_connect_without_answer_ends_at_the_setup_timeout);
    RUN(test_a_request_goes_out_framed_and_its_response_comes_back);
    RUN(test_correlation_ids_rise_and_a_close_fails_in_order);
    RUN(test_a_response_may_be_split_at_every_byte);
    RUN(test_many_small_responses_cost_one_read);
    RUN(test_large_responses_arrive_whole_between_small_ones);
    RUN(test_a_large_response_wakes_the_thread_for_many_bytes_only);
#ifdef __linux__
    RUN(test_memory_follows_the_bytes_that_arrived);
#endif
    RUN(test_a_peer_that_closes_within_a_large_response_is_noticed_at_once);
    RUN(test_a_request_of_many_pieces_survives_partial_writes);
    RUN(test_tagged_fields_of_a_flexible_header_are_skipped);
    RUN(test_a_raw_request_and_its_reply_have_no_header);
    RUN(test_a_request_without_reply_is_done_once_written);
    RUN(test_bad_peers_get_their_own_errors);
    RUN(test_a_damaged_response_is_never_more_than_an_error);
    RUN(test_a_response_without_a_request_is_an_error);
    RUN(test_an_error_shows_where_the_peer_closed);
    RUN(test_the_first_deadline_ends_the_connection_and_only_the_late_are_timed_out);
    RUN(test_an_answered_request_has_no_deadline_any_more);
    RUN(test_a_connection_can_be_opened_again);
    CHECK_EQ(kn_buffer_live(), 0);
    return check_done();
}
