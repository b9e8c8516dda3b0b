/* A small broker for the tests with threads. It answers API 18 with an empty response, Produce v3,
 * and Fetch v4 from a synthetic log. Tests can make it break connections.
 *
 * It has one thread and any number of connections. `stored` counts how often each message id (the
 * first 4 bytes of a value) was written. */
#ifndef KN_TESTS_ENGINE_SERVER_H
#define KN_TESTS_ENGINE_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include "engine_check.h"
#include "base/endian.h"
#include "records/batch_writer.h"
#include "records/record_reader.h"

#define SERVER_CONNECTIONS_MAX 32
#define SERVER_FRAME_MAX_BYTES (4 << 20)
#define SERVER_IDS_MAX 200000

struct server {
    int listener;
    uint16_t port;
    pthread_t thread;
    int fds[SERVER_CONNECTIONS_MAX];
    int count;
    int64_t log_end; /* Fetch: records 0 .. log_end - 1 exist */
    _Atomic int stop;
    /* n: doesn't answer about every n-th request and cuts its connection; 0: never */
    _Atomic int break_every;
    _Atomic int mute; /* reads requests and answers none */
    _Atomic long requests, breaks;
    _Atomic int stored[SERVER_IDS_MAX];
};

/* Counts the records of a batch in a Produce request. */
__attribute__((unused)) static void server_store(struct server *server, const uint8_t *records,
                                                 size_t records_bytes)
{
    struct kn_span span = kn_span_of(records, records_bytes);
    struct kn_batch_view view;
    while (kn_batch_view_next(&span, &view) == KN_OK) {
        struct kn_record_reader reader;
        struct kn_record record;
        CHECK_EQ(kn_batch_view_check(&view), KN_OK);
        CHECK_EQ(kn_record_reader_init(&reader, &view), KN_OK);
        while (kn_record_reader_next(&reader, &record) == KN_OK) {
            uint32_t id = get_u32(record.value);
            CHECK(id < SERVER_IDS_MAX);
            atomic_fetch_add(&server->stored[id], 1);
        }
    }
}

/* Answers Produce v3: transactional id, acks, timeout, topics of partitions. */
__attribute__((unused)) static uint8_t *server_produce(struct server *server,
                                                       struct kn_span *request, uint8_t *to)
{
    int16_t id_bytes = kn_span_i16(request);
    if (id_bytes > 0) kn_span_take(request, (size_t)id_bytes);
    kn_span_i16(request);
    kn_span_i32(request);
    int32_t topic_count = kn_span_i32(request);
    to = kn_put_i32(to, topic_count);
    for (int32_t t = 0; t < topic_count; t++) {
        int16_t name_bytes = kn_span_i16(request);
        to = kn_put_i16(to, name_bytes);
        memcpy(to, kn_span_take(request, (size_t)name_bytes), (size_t)name_bytes);
        to += name_bytes;
        int32_t partition_count = kn_span_i32(request);
        to = kn_put_i32(to, partition_count);
        for (int32_t p = 0; p < partition_count; p++) {
            to = kn_put_i32(to, kn_span_i32(request));
            int32_t records_bytes = kn_span_i32(request);
            const uint8_t *records = kn_span_take(request, (size_t)records_bytes);
            CHECK(records != NULL);
            server_store(server, records, (size_t)records_bytes);
            to = kn_put_i16(to, 0);
            to = kn_put_i64(to, 77);
            to = kn_put_i64(to, -1);
        }
    }
    CHECK(!request->failed);
    return kn_put_i32(to, 0);
}

/* Writes up to 10 records from `offset` on; each value is the offset as 4 bytes. */
__attribute__((unused)) static uint8_t *server_batch(uint8_t *to, int64_t offset, int64_t log_end)
{
    struct kn_buffer *buffer = kn_buffer_take(NULL, 4096);
    struct kn_batch_writer writer;
    struct kn_batch_meta meta = {
        .base_offset = offset, .producer_id = -1, .producer_epoch = -1, .base_sequence = -1};
    kn_batch_writer_init(&writer, buffer);
    for (int64_t i = offset; i < log_end && i < offset + 10; i++) {
        uint8_t value[4];
        set_u32(value, (uint32_t)i);
        CHECK_EQ(kn_batch_writer_append(&writer, buffer, 1000, NULL, -1, value, 4, NULL, 0, 0),
                 KN_OK);
    }
    kn_batch_close(buffer, &writer, &meta);
    to = kn_put_i32(to, (int32_t)buffer->size_bytes);
    memcpy(to, buffer->data, buffer->size_bytes);
    to += buffer->size_bytes;
    kn_buffer_give(buffer);
    return to;
}

/* Answers Fetch v4. */
__attribute__((unused)) static uint8_t *server_fetch(struct server *server, struct kn_span *request,
                                                     uint8_t *to)
{
    kn_span_take(request, 4 + 4 + 4 + 4 + 1);
    int32_t topic_count = kn_span_i32(request);
    to = kn_put_i32(to, 0);
    to = kn_put_i32(to, topic_count);
    for (int32_t t = 0; t < topic_count; t++) {
        int16_t name_bytes = kn_span_i16(request);
        to = kn_put_i16(to, name_bytes);
        memcpy(to, kn_span_take(request, (size_t)name_bytes), (size_t)name_bytes);
        to += name_bytes;
        int32_t partition_count = kn_span_i32(request);
        to = kn_put_i32(to, partition_count);
        for (int32_t p = 0; p < partition_count; p++) {
            to = kn_put_i32(to, kn_span_i32(request));
            int64_t offset = kn_span_i64(request);
            kn_span_i32(request);
            to = kn_put_i16(to, 0);
            to = kn_put_i64(to, server->log_end);
            to = kn_put_i64(to, server->log_end);
            to = kn_put_i32(to, -1);
            if (offset < server->log_end) to = server_batch(to, offset, server->log_end);
            else to = kn_put_i32(to, 0);
        }
    }
    CHECK(!request->failed);
    return to;
}

/* Handles one request. 0: the connection has ended. */
__attribute__((unused)) static int server_serve(struct server *server, int fd, unsigned *seed)
{
    uint8_t head[4];
    if (recv(fd, head, 4, MSG_WAITALL) != 4) return 0;
    size_t size = get_u32(head);
    CHECK(size >= 10 && size < SERVER_FRAME_MAX_BYTES);
    uint8_t *frame = malloc(size), *out = malloc(SERVER_FRAME_MAX_BYTES);
    int alive = recv(fd, frame, size, MSG_WAITALL) == (ssize_t)size;
    if (alive) {
        struct kn_span request = kn_span_of(frame, size);
        int16_t api_key = kn_span_i16(&request);
        kn_span_i16(&request);
        int32_t correlation_id = kn_span_i32(&request);
        int16_t client_bytes = kn_span_i16(&request);
        kn_span_take(&request, (size_t)client_bytes);
        uint8_t *to = kn_put_i32(out + 4, correlation_id);
        if (api_key == 0) to = server_produce(server, &request, to);
        if (api_key == 1) to = server_fetch(server, &request, to);
        kn_put_i32(out, (int32_t)(to - out - 4));
        size_t reply_bytes = (size_t)(to - out);
        int break_every = atomic_load(&server->break_every);
        atomic_fetch_add(&server->requests, 1);
        if (api_key != 18 && break_every && rand_r(seed) % break_every == 0) {
            atomic_fetch_add(&server->breaks, 1);
            /* the records stay written, but the response is cut off */
            reply_bytes = (size_t)rand_r(seed) % reply_bytes;
            alive = 0;
        }
        if (atomic_load(&server->mute)) reply_bytes = 0;
        if (reply_bytes) send(fd, out, reply_bytes, MSG_NOSIGNAL);
    }
    free(frame);
    free(out);
    return alive;
}

__attribute__((unused)) static void *server_main(void *argument)
{
    struct server *server = argument;
    unsigned seed = 12345;
    while (!atomic_load(&server->stop)) {
        struct pollfd fds[SERVER_CONNECTIONS_MAX + 1] = {
            {.fd = server->listener, .events = POLLIN}};
        for (int i = 0; i < server->count; i++)
            fds[i + 1] = (struct pollfd){.fd = server->fds[i], .events = POLLIN};
        int polled = server->count;
        poll(fds, (nfds_t)polled + 1, 20);
        if (fds[0].revents) {
            CHECK(server->count < SERVER_CONNECTIONS_MAX);
            server->fds[server->count++] = peer_accept(server->listener);
        }
        for (int i = polled - 1; i >= 0; i--) {
            if (!fds[i + 1].revents || server_serve(server, server->fds[i], &seed)) continue;
            close(server->fds[i]);
            server->fds[i] = server->fds[--server->count];
        }
    }
    for (int i = 0; i < server->count; i++) close(server->fds[i]);
    close(server->listener);
    return NULL;
}

__attribute__((unused)) static struct server *server_start(int64_t log_end)
{
    struct server *server = calloc(1, sizeof *server);
    server->listener = peer_listen(&server->port, 64);
    server->log_end = log_end;
    CHECK_EQ(pthread_create(&server->thread, NULL, server_main, server), 0);
    return server;
}

__attribute__((unused)) static void server_stop(struct server *server)
{
    atomic_store(&server->stop, 1);
    pthread_join(server->thread, NULL);
    free(server);
}

#endif
