/* A program that runs scenarios of bench/ with librdkafka, without Python.
 *
 * librdkafka PRODUCE|CALLBACK|CONSUME TOPIC COUNT PARTITIONS THREADS name=value...
 *
 * It reads values from stdin, one on each line, and prints the figures as JSON. The library is in the
 * confluent_kafka wheel, which has no headers. So the functions are declared here.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_topic_partition_list_s rd_kafka_topic_partition_list_t;
typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private_part;
} rd_kafka_message_t;
typedef struct {
    char *topic;
    int32_t partition;
    int64_t offset;
} rd_kafka_topic_partition_head_t;

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
void rd_kafka_destroy(rd_kafka_t *);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, void *);
void rd_kafka_topic_destroy(rd_kafka_topic_t *);
int rd_kafka_produce(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
int rd_kafka_poll(rd_kafka_t *, int);
int rd_kafka_flush(rd_kafka_t *, int);
int rd_kafka_last_error(void);
const char *rd_kafka_err2str(int);
rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int);
rd_kafka_topic_partition_head_t *rd_kafka_topic_partition_list_add(rd_kafka_topic_partition_list_t *, const char *, int32_t);
void rd_kafka_topic_partition_list_destroy(rd_kafka_topic_partition_list_t *);
int rd_kafka_assign(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *);
void rd_kafka_queue_destroy(rd_kafka_queue_t *);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
void rd_kafka_message_destroy(rd_kafka_message_t *);
int rd_kafka_consumer_close(rd_kafka_t *);

enum { PRODUCER = 0, CONSUMER = 1, COPY = 2, UNASSIGNED = -1, QUEUE_FULL = -184, OFFSET_BEGINNING = -2 };
#define STEP 10000
#define STEP_BYTES 10000000 /* take() keeps all messages of a call in memory */
#define THREADS_MAX 64
#define VALUES_MAX 20000
#define POLL_EVERY 1000
#define TIMEOUT_MS 120000

static char *values[VALUES_MAX];
static size_t sizes[VALUES_MAX];
static int value_count;
static long delivered;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void read_values(void)
{
    size_t room = 0;
    ssize_t got;
    while (value_count < VALUES_MAX && (got = getline(&values[value_count], &room, stdin)) > 0) {
        if (values[value_count][got - 1] == '\n') got--;
        sizes[value_count++] = (size_t)got;
        room = 0;
    }
    if (!value_count) die("stdin", "no values");
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_s(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void print_figures(long count, double started, double cpu)
{
    double seconds = now_s() - started, used = cpu_s() - cpu;
    printf("{\"count\": %ld, \"seconds\": %.9f, \"cpu_seconds\": %.9f}\n", count, seconds, used);
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
    (void)client;
    (void)opaque;
    if (!message->err) delivered++;
}

static rd_kafka_t *new_client(int kind, char **settings, int with_reports)
{
    char error[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    for (; *settings; settings++) {
        char *value = strchr(*settings, '=');
        if (!value) die(*settings, "not name=value");
        *value++ = '\0';
        if (rd_kafka_conf_set(conf, *settings, value, error, sizeof error)) die(*settings, error);
    }
    if (with_reports) rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *client = rd_kafka_new(kind, conf, error, sizeof error);
    if (!client) die("rd_kafka_new", error);
    return client;
}

static void produce_one(rd_kafka_t *client, rd_kafka_topic_t *topic, long number)
{
    int i = (int)(number % value_count);
    while (rd_kafka_produce(topic, UNASSIGNED, COPY, values[i], sizes[i], NULL, 0, NULL)) {
        if (rd_kafka_last_error() != QUEUE_FULL) die("rd_kafka_produce", rd_kafka_err2str(rd_kafka_last_error()));
        rd_kafka_poll(client, 10);
    }
}

struct part {
    rd_kafka_t *client;
    rd_kafka_topic_t *topic;
    long first, end;
    int polls;
};

static void *produce_part(void *argument)
{
    struct part *part = argument;
    for (long number = part->first; number < part->end; number++) {
        produce_one(part->client, part->topic, number);
        if (part->polls && number % POLL_EVERY == 0) rd_kafka_poll(part->client, 0);
    }
    return NULL;
}

/* Only this thread polls, because the counter of the reports is not atomic. */
static void produce_all(rd_kafka_t *client, rd_kafka_topic_t *topic, long count, int threads)
{
    pthread_t others[THREADS_MAX];
    struct part parts[THREADS_MAX];
    for (int i = 0; i < threads; i++) {
        parts[i] = (struct part){client, topic, count * i / threads, count * (i + 1) / threads, i == 0};
        if (i && pthread_create(&others[i], NULL, produce_part, &parts[i])) die("pthread_create", "failed");
    }
    produce_part(&parts[0]);
    for (int i = 1; i < threads; i++) pthread_join(others[i], NULL);
}

static void produce(const char *name, long count, int threads, char **settings, int with_reports)
{
    rd_kafka_t *client = new_client(PRODUCER, settings, with_reports);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, name, NULL);
    produce_one(client, topic, 0);
    /* The first message: the client is connected before the clock starts. */
    if (rd_kafka_flush(client, TIMEOUT_MS)) die("rd_kafka_flush", "the first message wasn't delivered");
    count--;
    delivered = 0;
    double cpu = cpu_s(), started = now_s();
    produce_all(client, topic, count, threads);
    int left = rd_kafka_flush(client, TIMEOUT_MS);
    print_figures(count, started, cpu);
    if (left || (with_reports && delivered != count)) die("rd_kafka_flush", "messages were not delivered");
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
}

static long take(rd_kafka_queue_t *queue, size_t count_max, size_t *bytes)
{
    static rd_kafka_message_t *messages[STEP];
    ssize_t got = rd_kafka_consume_batch_queue(queue, 5000, messages, count_max);
    if (got <= 0) die("consume", "no more messages");
    for (ssize_t i = 0; i < got; i++) {
        if (messages[i]->err) die("consume", rd_kafka_err2str(messages[i]->err));
        *bytes += messages[i]->len;
        rd_kafka_message_destroy(messages[i]);
    }
    return (long)got;
}

static void consume(const char *name, long count, int partitions, char **settings)
{
    rd_kafka_t *client = new_client(CONSUMER, settings, 0);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    for (int i = 0; i < partitions; i++) rd_kafka_topic_partition_list_add(list, name, i)->offset = OFFSET_BEGINNING;
    if (rd_kafka_assign(client, list)) die("rd_kafka_assign", "failed");
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);
    size_t bytes = 0;
    long first = take(queue, 1, &bytes), taken = first, step = STEP;
    if (bytes > STEP_BYTES / STEP) step = bytes < STEP_BYTES ? (long)(STEP_BYTES / bytes) : 1;
    double cpu = cpu_s(), started = now_s();
    /* take() waits until it has all the messages. */
    while (taken < count) taken += take(queue, (size_t)(count - taken < step ? count - taken : step), &bytes);
    print_figures(taken - first, started, cpu);
    rd_kafka_queue_destroy(queue);
    rd_kafka_consumer_close(client);
    rd_kafka_destroy(client);
}

int main(int argc, char **argv)
{
    if (argc < 7) die(argv[0], "PRODUCE|CALLBACK|CONSUME TOPIC COUNT PARTITIONS THREADS name=value...");
    long count = strtol(argv[3], NULL, 10);
    int threads = atoi(argv[5]);
    if (threads < 1 || threads > THREADS_MAX) die(argv[5], "not a number of threads");
    if (strcmp(argv[1], "CONSUME") == 0) {
        consume(argv[2], count, atoi(argv[4]), argv + 6);
    } else {
        read_values();
        produce(argv[2], count, threads, argv + 6, strcmp(argv[1], "CALLBACK") == 0);
    }
    return 0;
}
