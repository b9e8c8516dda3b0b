/* The engine with its real threads against a small server: no message is lost or settled twice, the
 * end is clean, and an idle engine sleeps. Run it under TSan and ASan. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine_server.h"
#include "engine/engine.h"
#include "engine/stats.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#define BROKERS 2
#define PARTITIONS 4
#define PRODUCERS 3
#define PER_PRODUCER 6000
#define HANDSHAKE_TOKEN UINT64_C(1000000)

struct rig {
    struct kn_engine *engine;
    struct server *servers[BROKERS];
    struct kn_topic *topic;
    pthread_t control, reporter;
    _Atomic int stop;
    _Atomic int opened; /* OPENs sent */
    _Atomic long reports_ok, reports_failed;
    _Atomic int *reported;                        /* by message id, for messages with an opaque */
    int64_t reported_latencies, reported_batches; /* messages in the statistics' windows so far */
    int64_t reported_tx;
};

/* Takes statistics during the traffic, as the control plane does. */
static void take_statistics(struct rig *rig)
{
    struct kn_broker_snapshot broker;
    struct kn_topic_snapshot topic;
    struct kn_partition_snapshot partition;
    struct kn_client_snapshot client;
    for (int i = 0; i < BROKERS; i++) {
        kn_stats_broker(kn_engine_broker(rig->engine, i), kn_clock_us(), 1, &broker);
        rig->reported_latencies += broker.int_latency.cnt;
        CHECK(broker.stateage >= 0 && broker.outbuf_cnt >= 0 && broker.waitresp_cnt >= 0);
        CHECK(broker.rtt.min <= broker.rtt.p50 && broker.rtt.p50 <= broker.rtt.p99_99 &&
              broker.rtt.p99_99 <= broker.rtt.max);
    }
    kn_stats_client(rig->engine, &client);
    CHECK(client.tx >= rig->reported_tx);
    rig->reported_tx = client.tx;
    kn_stats_topic(rig->topic, kn_clock_us(), 1, &topic);
    rig->reported_batches += topic.batchcnt.sum;
    for (int32_t i = KN_STAGING; i < (int32_t)topic.partition_count; i++) {
        kn_stats_partition(rig->topic, i, &partition);
        CHECK(partition.msgs >= partition.txmsgs + partition.msgq_cnt &&
              partition.msgs_inflight >= 0);
    }
}

/* Plays the control plane: sends one request on each connection and opens it, and expires
 * messages. */
static void *control_main(void *argument)
{
    struct rig *rig = argument;
    int64_t expire_us = 0;
    while (!atomic_load(&rig->stop)) {
        kn_queue_wait(&rig->engine->client.control->events, 20);
        if (kn_clock_us() > expire_us) {
            kn_engine_expire(rig->engine, kn_clock_us());
            take_statistics(rig);
            expire_us = kn_clock_us() + 100000;
        }
        struct kn_list *node;
        while ((node = kn_queue_pop(&rig->engine->client.control->events))) {
            struct kn_event *event = KN_LIST_ENTRY(node, struct kn_event, node);
            if (event->kind == KN_EVENT_CONNECTED) {
                kn_engine_submit(rig->engine, event->broker, event->generation, 18, 0, 0, 0,
                                 KN_REQUEST_HANDSHAKE, NULL, 0,
                                 HANDSHAKE_TOKEN + (uint64_t)event->generation, 10000);
            } else if (event->kind == KN_EVENT_REPLY && event->token >= HANDSHAKE_TOKEN &&
                       event->status == KN_OK) {
                kn_engine_broker_open(rig->engine, event->broker,
                                      (int32_t)(event->token - HANDSHAKE_TOKEN), 3, 4);
                atomic_fetch_add(&rig->opened, 1);
            }
            kn_event_free(event);
        }
    }
    return NULL;
}

static void serve_reports(struct rig *rig)
{
    struct kn_list *node;
    while ((node = kn_queue_pop(&rig->engine->deliveries))) {
        struct kn_batch *batch = KN_LIST_ENTRY(node, struct kn_batch, node);
        int failed = batch->status || batch->error_code;
        for (int32_t i = 0; i < batch->writer.record_count; i++) {
            atomic_fetch_add(failed ? &rig->reports_failed : &rig->reports_ok, 1);
            uintptr_t token = batch->opaques ? (uintptr_t)batch->opaques[i] : 0;
            /* exactly once */
            if (token) CHECK_EQ(atomic_fetch_add(&rig->reported[token - 1], 1), 0);
            if (batch->opaques) batch->opaques[i] = NULL;
        }
        kn_engine_batch_reported(rig->engine, batch);
    }
}

static void *reporter_main(void *argument)
{
    struct rig *rig = argument;
    while (!atomic_load(&rig->stop)) {
        kn_queue_wait(&rig->engine->deliveries, 20);
        serve_reports(rig);
    }
    return NULL;
}

static struct rig *rig_new(int64_t log_end, void (*configure)(struct kn_engine_config *config))
{
    struct rig *rig = calloc(1, sizeof *rig);
    struct kn_engine_config config;
    struct kn_broker *leaders[PARTITIONS];
    int32_t epochs[PARTITIONS] = {0};
    kn_engine_config_init(&config);
    config.produce.linger_us = 1000;
    config.produce.batch_bytes = 16384;
    config.produce.queue_messages_max = 3000;
    config.produce.report_all = 1;
    config.client.statistics = 1;
    config.client.reconnect_backoff_ms = 5;
    config.client.reconnect_backoff_max_ms = 20;
    config.produce.retry_backoff_ms = 2;
    config.produce.retry_backoff_max_ms = 10;
    if (configure) configure(&config);
    rig->engine = kn_engine_new(&config, NULL);
    rig->reported = calloc(SERVER_IDS_MAX, sizeof *rig->reported);
    for (int i = 0; i < BROKERS; i++) {
        rig->servers[i] = server_start(log_end);
        CHECK_EQ(kn_engine_broker_add(rig->engine, i, "127.0.0.1", rig->servers[i]->port), i);
    }
    rig->topic = kn_producer_topic(&rig->engine->producer, "topic", 5, 1);
    CHECK(kn_producer_topic(&rig->engine->producer, "topic", 5, 9) == rig->topic);
    for (int i = 0; i < PARTITIONS; i++) leaders[i] = kn_engine_broker(rig->engine, i % BROKERS);
    CHECK_EQ(kn_topic_set_partitions(rig->topic, NULL, PARTITIONS, leaders, epochs), KN_OK);
    CHECK_EQ(pthread_create(&rig->control, NULL, control_main, rig), 0);
    CHECK_EQ(pthread_create(&rig->reporter, NULL, reporter_main, rig), 0);
    return rig;
}

static void rig_end_threads(struct rig *rig)
{
    atomic_store(&rig->stop, 1);
    pthread_join(rig->control, NULL);
    pthread_join(rig->reporter, NULL);
}

static void rig_free(struct rig *rig)
{
    kn_engine_stop(rig->engine);
    serve_reports(rig);
    kn_engine_free(rig->engine);
    for (int i = 0; i < BROKERS; i++) server_stop(rig->servers[i]);
    free(rig->reported);
    free(rig);
    CHECK_EQ(kn_engine_live(), 0);
    CHECK_EQ(kn_broker_thread_live(), 0);
    CHECK_EQ(kn_event_live(), 0);
    CHECK_EQ(kn_chunk_live(), 0);
    CHECK_EQ(kn_batch_live(), 0);
    CHECK_EQ(kn_cursor_live(), 0);
    CHECK_EQ(kn_segment_live(), 0);
    CHECK_EQ(kn_control_request_live(), 0);
    CHECK_EQ(kn_buffer_live(), 0);
}

/* Produces the ids from .. from + count - 1, and waits while the queue is full. Every second
 * message has an opaque. */
struct producer {
    struct rig *rig;
    uint32_t from, count;
    uint32_t accepted;
};

static void *producer_main(void *argument)
{
    struct producer *producer = argument;
    for (uint32_t i = 0; i < producer->count; i++) {
        uint32_t id = producer->from + i;
        uint8_t value[40] = {0};
        set_u32(value, id);
        struct kn_message message = {
            .value = value, .value_bytes = sizeof value, .partition = (int32_t)(id % PARTITIONS)};
        if (id % 2) message.opaque = (void *)(uintptr_t)(id + 1);
        int status;
        while ((status = kn_topic_produce(producer->rig->topic, &message)) == KN_ERR_FULL)
            usleep(200);
        if (status == KN_ERR_CLOSED) break;
        CHECK_EQ(status, KN_OK);
        producer->accepted++;
    }
    return NULL;
}

static uint32_t produce_all(struct rig *rig, struct producer producers[PRODUCERS],
                            pthread_t threads[PRODUCERS], int wait)
{
    uint32_t accepted = 0;
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){rig, (uint32_t)i * PER_PRODUCER, PER_PRODUCER, 0};
        CHECK_EQ(pthread_create(&threads[i], NULL, producer_main, &producers[i]), 0);
    }
    for (int i = 0; wait && i < PRODUCERS; i++) {
        pthread_join(threads[i], NULL);
        accepted += producers[i].accepted;
    }
    return accepted;
}

static void flush(struct rig *rig)
{
    int64_t until_us = kn_clock_us() + 30000000;
    kn_engine_flush_begin(rig->engine);
    while (kn_engine_outstanding(rig->engine) && kn_clock_us() < until_us)
        kn_queue_wait(&rig->engine->deliveries, 100);
    kn_engine_flush_end(rig->engine);
    CHECK_EQ(kn_engine_outstanding(rig->engine), 0);
}

static int times_stored(struct rig *rig, uint32_t id)
{
    int times = 0;
    for (int i = 0; i < BROKERS; i++) times += atomic_load(&rig->servers[i]->stored[id]);
    return times;
}

static void test_every_record_is_stored_once_and_reported_once(void)
{
    struct rig *rig = rig_new(0, NULL);
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    CHECK_EQ(produce_all(rig, producers, threads, 1), PRODUCERS * PER_PRODUCER);
    flush(rig);
    CHECK_EQ(atomic_load(&rig->reports_ok), PRODUCERS * PER_PRODUCER);
    for (uint32_t id = 0; id < PRODUCERS * PER_PRODUCER; id++) CHECK_EQ(times_stored(rig, id), 1);
    CHECK_EQ(atomic_load(&kn_engine_broker(rig->engine, 0)->connects), 1);
    rig_end_threads(rig);
    take_statistics(rig);
    CHECK_EQ(rig->reported_latencies, PRODUCERS * PER_PRODUCER);
    CHECK_EQ(rig->reported_batches, PRODUCERS * PER_PRODUCER);
    rig_free(rig);
}

static void test_every_record_is_settled_once_while_connections_break(void)
{
    struct rig *rig = rig_new(0, NULL);
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    for (int i = 0; i < BROKERS; i++) atomic_store(&rig->servers[i]->break_every, 10);
    CHECK_EQ(produce_all(rig, producers, threads, 1), PRODUCERS * PER_PRODUCER);
    for (int i = 0; i < BROKERS; i++) atomic_store(&rig->servers[i]->break_every, 0);
    flush(rig);
    CHECK(atomic_load(&rig->servers[0]->breaks) > 0);
    CHECK_EQ(atomic_load(&rig->reports_ok), PRODUCERS * PER_PRODUCER);
    CHECK_EQ(atomic_load(&rig->reports_failed), 0);
    for (uint32_t id = 0; id < PRODUCERS * PER_PRODUCER; id++) CHECK(times_stored(rig, id) >= 1);
    rig_end_threads(rig);
    take_statistics(rig);
    CHECK_EQ(rig->reported_latencies, PRODUCERS * PER_PRODUCER); /* a retry isn't another message */
    CHECK(rig->reported_batches >= PRODUCERS * PER_PRODUCER);
    rig_free(rig);
}

static void test_stop_in_full_flight_reports_every_accepted_record_once(void)
{
    for (int round = 0; round < 3; round++) {
        struct rig *rig = rig_new(0, NULL);
        struct producer producers[PRODUCERS];
        pthread_t threads[PRODUCERS];
        for (int i = 0; i < BROKERS; i++) atomic_store(&rig->servers[i]->mute, round == 1);
        produce_all(rig, producers, threads, 0);
        usleep(5000 * (useconds_t)(round + 1));
        kn_engine_stop(rig->engine);
        uint32_t accepted = 0, with_opaque = 0;
        for (int i = 0; i < PRODUCERS; i++) {
            pthread_join(threads[i], NULL);
            accepted += producers[i].accepted;
        }
        rig_end_threads(rig);
        /* A produce() that ran while stop() failed the topics may come a moment later: the second
         * stop settles it. */
        kn_engine_stop(rig->engine);
        serve_reports(rig);
        CHECK_EQ(atomic_load(&rig->reports_ok) + atomic_load(&rig->reports_failed), accepted);
        for (uint32_t id = 0; id < SERVER_IDS_MAX; id++)
            with_opaque += (uint32_t)atomic_load(&rig->reported[id]);
        /* every second of each producer's */
        CHECK(with_opaque + PRODUCERS >= accepted / 2 && with_opaque <= accepted / 2 + PRODUCERS);
        rig_free(rig);
    }
}

/* Fetches every partition from its beginning, from the brokers in turn. */
static void start_reading(struct rig *rig, struct kn_cursor **cursors)
{
    static const uint8_t no_id[16] = {0};
    for (int i = 0; i < PARTITIONS; i++) {
        cursors[i] = kn_cursor_new(&rig->engine->consumer, "topic", 5, no_id, i, (uint64_t)i);
        CHECK_EQ(kn_engine_fetch_start(rig->engine, cursors[i], i % BROKERS,
                                       kn_cursor_next_epoch(cursors[i]), 0, -1),
                 KN_OK);
    }
}

static void end_reading(struct rig *rig, struct kn_cursor **cursors)
{
    rig_end_threads(rig);
    kn_engine_stop(rig->engine);
    struct kn_list *node;
    while ((node = kn_queue_pop(&rig->engine->fetched)))
        kn_segment_free(KN_LIST_ENTRY(node, struct kn_segment, node));
    for (int i = 0; i < PARTITIONS; i++) kn_cursor_unref(cursors[i]);
    rig_free(rig);
}

/* Takes fetched segments off the queue. Returns how many records they had. */
static long consume_some(struct rig *rig, struct kn_cursor **cursors, int64_t *positions)
{
    long records = 0;
    struct kn_list *node;
    kn_queue_wait(&rig->engine->fetched, 100);
    while ((node = kn_queue_pop(&rig->engine->fetched))) {
        struct kn_segment *segment = KN_LIST_ENTRY(node, struct kn_segment, node);
        int partition = segment->cursor->partition;
        if (segment->kind == KN_SEGMENT_DATA && !kn_segment_is_stale(segment)) {
            CHECK(segment->cursor == cursors[partition]);
            for (int32_t i = 0; i < segment->batch_count; i++) {
                struct kn_record_reader reader;
                struct kn_record record;
                CHECK_EQ(kn_record_reader_init(&reader, &segment->batches[i].view), KN_OK);
                while (kn_record_reader_next(&reader, &record) == KN_OK) {
                    if (record.offset < positions[partition]) continue;
                    CHECK_EQ(record.offset, positions[partition]); /* none skipped */
                    CHECK_EQ(get_u32(record.value), record.offset);
                    positions[partition]++;
                    records++;
                }
            }
        }
        kn_segment_free(segment);
    }
    return records;
}

static void small_fetch_queue(struct kn_engine_config *config)
{
    config->fetch.queued_max_bytes = 20000;
    config->fetch.fetch_error_backoff_ms = 5;
    config->fetch.fetch_wait_max_ms = 5;
}

static void test_a_consumer_reads_every_offset_in_order_while_connections_break(void)
{
    enum { LOG_END = 1500 };
    struct rig *rig = rig_new(LOG_END, small_fetch_queue);
    struct kn_cursor *cursors[PARTITIONS];
    int64_t positions[PARTITIONS] = {0};
    for (int i = 0; i < BROKERS; i++) atomic_store(&rig->servers[i]->break_every, 40);
    start_reading(rig, cursors);
    long records = 0;
    int64_t until_us = kn_clock_us() + 30000000;
    for (int turn = 0; records < (long)PARTITIONS * LOG_END && kn_clock_us() < until_us; turn++) {
        records += consume_some(rig, cursors, positions);
        if (turn % 20 == 19) { /* the leader moves */
            int i = turn / 20 % PARTITIONS;
            CHECK_EQ(kn_engine_fetch_stop(rig->engine, cursors[i], 0), KN_OK);
            CHECK_EQ(kn_engine_fetch_stop(rig->engine, cursors[i], 1), KN_OK);
            CHECK_EQ(kn_engine_fetch_start(rig->engine, cursors[i], turn % BROKERS,
                                           kn_cursor_next_epoch(cursors[i]), positions[i], -1),
                     KN_OK);
        }
    }
    CHECK_EQ(records, (long)PARTITIONS * LOG_END);
    CHECK_EQ(atomic_load(&rig->engine->consumer.queued_bytes) >= 0, 1);
    end_reading(rig, cursors);
}

static void small_queue(struct kn_engine_config *config)
{
    config->fetch.queued_min_messages = 100;
    config->fetch.fetch_wait_max_ms = 5;
}

static int everything_rests(struct kn_cursor **cursors)
{
    int resting = 0;
    for (int i = 0; i < PARTITIONS; i++)
        resting += atomic_load(&cursors[i]->resting_broker) != NULL;
    return resting == PARTITIONS;
}

static void test_a_partition_rests_while_enough_of_it_is_queued(void)
{
    enum { LOG_END = 1500, SERVED_AT_ONCE_MAX = 10 };
    struct rig *rig = rig_new(LOG_END, small_queue);
    struct kn_cursor *cursors[PARTITIONS];
    int64_t positions[PARTITIONS] = {0};
    start_reading(rig, cursors);
    int64_t until_us = kn_clock_us() + 30000000;
    while (!everything_rests(cursors) && kn_clock_us() < until_us) usleep(1000);
    usleep(20000); /* segments in flight have come */
    long requests = 0, after = 0;
    for (int i = 0; i < BROKERS; i++) requests += atomic_load(&rig->servers[i]->requests);
    usleep(50000);
    for (int i = 0; i < BROKERS; i++) after += atomic_load(&rig->servers[i]->requests);
    CHECK_EQ(after, requests);
    for (int i = 0; i < PARTITIONS; i++) {
        CHECK(atomic_load(&cursors[i]->queued_messages) >= 100);
        CHECK(atomic_load(&cursors[i]->queued_messages) < 100 + SERVED_AT_ONCE_MAX);
    }
    long records = 0; /* and every partition is read to its end: each one that rested is woken */
    while (records < (long)PARTITIONS * LOG_END && kn_clock_us() < until_us)
        records += consume_some(rig, cursors, positions);
    CHECK_EQ(records, (long)PARTITIONS * LOG_END);
    for (int i = 0; i < PARTITIONS; i++) CHECK_EQ(atomic_load(&cursors[i]->queued_messages), 0);
    end_reading(rig, cursors);
}

static void test_an_idle_client_sleeps(void)
{
    struct rig *rig = rig_new(0, NULL);
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    produce_all(rig, producers, threads, 1);
    flush(rig);
    int64_t until_us = kn_clock_us() + 30000000, woken = 1;
    while (woken && kn_clock_us() < until_us) {
        /* on a busy machine the last iterations may come late; a periodic wake-up would never
         * end */
        woken = 0;
        for (int i = 0; i < BROKERS; i++)
            woken -= atomic_load(&kn_engine_broker(rig->engine, i)->wakeups);
        usleep(300000);
        for (int i = 0; i < BROKERS; i++)
            woken += atomic_load(&kn_engine_broker(rig->engine, i)->wakeups);
    }
    CHECK_EQ(woken, 0);
    rig_end_threads(rig);
    rig_free(rig);
}

static void test_broker_threads_take_no_signals(void)
{
#ifdef __linux__
    struct rig *rig = rig_new(0, NULL);
    usleep(20000); /* until the threads have set their names */
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int seen = 0;
    while ((task = readdir(tasks))) {
        char path[320], line[256], name[64] = "";
        unsigned long long blocked = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "r");
        if (!status) continue;
        while (fgets(line, sizeof line, status)) {
            sscanf(line, "Name: %63s", name);
            sscanf(line, "SigBlk: %llx", &blocked);
        }
        fclose(status);
        if (strncmp(name, "kn-broker-", 10) != 0) continue;
        seen++;
        CHECK(blocked >> (SIGINT - 1) & 1);
        CHECK(blocked >> (SIGTERM - 1) & 1);
        CHECK(blocked >> (SIGUSR1 - 1) & 1);
    }
    closedir(tasks);
    CHECK_EQ(seen, BROKERS);
    rig_end_threads(rig);
    rig_free(rig);
#endif
}

/* Takes every lock that a thread of the engine or of the application may hold at a fork. */
static void hold_all(struct kn_engine *engine, struct kn_topic *topic, int hold)
{
    struct kn_mutex *locks[] = {&engine->lock,
                                &engine->client.control->events.lock,
                                &engine->deliveries.lock,
                                &engine->fetched.lock,
                                &engine->producer.budget.room.lock,
                                &engine->counters.lock,
                                &engine->producer.workers.lock,
                                &topic->lock,
                                &topic->staging.lock,
                                &engine->brokers[0]->lock};
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) {
        if (hold) pthread_mutex_lock(&locks[i]->mutex);
        else pthread_mutex_unlock(&locks[i]->mutex);
    }
}

static void test_a_forked_child_takes_no_lock_and_the_parent_goes_on(void)
{
    struct rig *rig = rig_new(0, NULL);
    struct producer half = {rig, 0, 500, 0}, rest = {rig, 500, 500, 0};
    struct kn_engine *binding = rig->engine;
    rig->engine->owner = &binding;
    producer_main(&half);
    hold_all(rig->engine, rig->topic, 1);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        struct kn_message message = {.value = (const uint8_t *)"xxxx", .value_bytes = 4};
        int status = kn_topic_produce(rig->topic, &message);
        _exit(!binding && status == KN_ERR_CLOSED ? 42 : 1);
    }
    hold_all(rig->engine, rig->topic, 0);
    int result;
    CHECK_EQ(waitpid(pid, &result, 0), pid);
    CHECK(WIFEXITED(result));
    CHECK_EQ(WEXITSTATUS(result), 42);
    producer_main(&rest);
    flush(rig);
    for (uint32_t id = 0; id < 1000; id++) CHECK_EQ(times_stored(rig, id), 1);
    CHECK(binding == rig->engine);
    rig_end_threads(rig);
    rig_free(rig);
}

static void no_reports(struct kn_engine_config *config) { config->produce.report_all = 0; }

/* Without reports only the kick of the last settled batch wakes flush(). */
static void test_flush_without_reports_wakes_up_at_the_end(void)
{
    struct rig *rig = rig_new(0, no_reports);
    for (int round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < 100; i++) {
            uint8_t value[4];
            set_u32(value, (uint32_t)round * 100 + i);
            struct kn_message message = {
                .value = value, .value_bytes = 4, .partition = (int32_t)(i % PARTITIONS)};
            CHECK_EQ(kn_topic_produce(rig->topic, &message), KN_OK);
        }
        int64_t before_us = kn_clock_us();
        kn_engine_flush_begin(rig->engine);
        while (kn_engine_outstanding(rig->engine))
            CHECK_EQ(kn_queue_wait(&rig->engine->deliveries, 20000), KN_OK);
        kn_engine_flush_end(rig->engine);
        CHECK(kn_clock_us() - before_us < 10000000);
    }
    CHECK_EQ(atomic_load(&rig->reports_ok), 0);
    rig_end_threads(rig);
    rig_free(rig);
}

/* A broker leaves and comes back many times while the client lives. */
static void test_a_returning_broker_keeps_one_descriptor_and_connection(void)
{
    struct kn_engine_config config;
    kn_engine_config_init(&config);
    struct kn_engine *engine = kn_engine_new(&config, NULL);
    for (int i = 0; i < 20; i++) {
        int handle = kn_engine_broker_add(engine, 1, "127.0.0.1", 9);
        CHECK_EQ(handle, i);
        CHECK_EQ(kn_engine_broker_stop(engine, handle), KN_OK);
        struct kn_broker *broker = kn_engine_broker(engine, handle);
        while (kn_broker_state_now(broker) != KN_BROKER_STOPPED) usleep(1000);
    }
    int open = 0, connections = 0;
    for (int i = 0; i < 20; i++) {
        open += engine->brokers[i]->wake.read_fd >= 0;
        connections += kn_engine_broker(engine, i)->connection != NULL;
    }
    CHECK_EQ(open, 1);
    CHECK_EQ(connections, 1);
    kn_engine_stop(engine);
    kn_engine_free(engine);
    CHECK_EQ(kn_broker_thread_live(), 0);
}

/* The binding's replacement for an engine that was freed. */
static void test_the_closed_engine_takes_and_holds_nothing(void)
{
    struct kn_engine *engine = kn_engine_closed();
    CHECK(engine == kn_engine_closed());
    CHECK_EQ(kn_engine_broker_add(engine, 1, "127.0.0.1", 9), KN_ERR_CLOSED);
    kn_queue_wait(&engine->fetched, 0); /* returns for an old kick */
    CHECK_EQ(kn_queue_wait(&engine->fetched, 60000), KN_ERR_CLOSED);
    CHECK(kn_queue_pop(&engine->deliveries) == NULL);
    kn_queue_kick(&engine->client.control->events);
    kn_engine_flush_begin(engine);
    kn_engine_flush_end(engine);
    CHECK_EQ(kn_engine_outstanding(engine), 0);
    CHECK_EQ(kn_engine_live(), 0);
}

int main(void)
{
    RUN(test_every_record_is_stored_once_and_reported_once);
    RUN(test_every_record_is_settled_once_while_connections_break);
    RUN(test_stop_in_full_flight_reports_every_accepted_record_once);
    RUN(test_a_returning_broker_keeps_one_descriptor_and_connection);
    RUN(test_the_closed_engine_takes_and_holds_nothing);
    RUN(test_a_consumer_reads_every_offset_in_order_while_connections_break);
    RUN(test_a_partition_rests_while_enough_of_it_is_queued);
    RUN(test_an_idle_client_sleeps);
    RUN(test_broker_threads_take_no_signals);
    RUN(test_a_forked_child_takes_no_lock_and_the_parent_goes_on);
    RUN(test_flush_without_reports_wakes_up_at_the_end);
    return check_done();
}
