# The functions of csrc/net, produce, consume and engine for the bindings. The headers document them.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t

from kafka_native._native.kn_enums cimport kn_event_kind, kn_partitioner
from kafka_native._native.kn_records cimport (
    kn_batch_view,
    kn_batch_writer,
    kn_buffer,
    kn_codec_table,
    kn_pool,
)

cdef extern from "base/fork.h" nogil:
    unsigned kn_fork_count()


cdef extern from "base/list.h" nogil:
    struct kn_list:
        kn_list *next
        kn_list *prev
    void kn_list_init(kn_list *head)
    int kn_list_empty(const kn_list *head)
    kn_list *kn_list_pop_front(kn_list *head)

cdef extern from "base/cells.h":
    struct kn_cells:
        long taken
    void kn_cells_init(kn_cells *cells, size_t cell_bytes)
    void *kn_cells_take(kn_cells *cells)
    void kn_cells_give(kn_cells *cells, void *cell)
    void kn_cells_walk(kn_cells *cells, void (*each)(void *cell, void *context) noexcept, void *context)

cdef extern from "net/thread.h" nogil:
    const int64_t KN_NEVER
    const int KN_FOR_EVER_S
    int64_t kn_clock_us()
    int64_t kn_deadline_us(double timeout_s)
    int64_t kn_wall_ms()

cdef extern from "net/chunk.h" nogil:
    struct kn_chunk:
        kn_buffer *buffer
        int32_t message_refs
        int64_t kept_bytes
    kn_chunk *kn_chunk_new(kn_buffer *buffer)
    kn_chunk *kn_chunk_ref(kn_chunk *chunk)
    void kn_chunk_unref(kn_chunk *chunk)
    bint kn_chunk_has_only_messages(const kn_chunk *chunk)
    long kn_chunk_live()

cdef extern from "net/wake.h" nogil:
    struct kn_wake:
        int read_fd
    void kn_wake_clear(kn_wake *wake)

cdef extern from "net/queue.h" nogil:
    struct kn_queue:
        kn_wake wake
    kn_list *kn_queue_pop(kn_queue *queue)
    void kn_queue_take_all(kn_queue *queue, kn_list *into)
    void kn_queue_push(kn_queue *queue, kn_list *node)
    long kn_queue_count(kn_queue *queue)
    int kn_queue_wait(kn_queue *queue, int64_t timeout_ms) nogil
    int kn_queue_rest(kn_queue *queue)
    void kn_queue_kick(kn_queue *queue)
    void kn_queue_idle_begin(kn_queue *queue)
    void kn_queue_idle_end(kn_queue *queue)
    int64_t kn_queue_idle_us(kn_queue *queue)

cdef extern from "produce/budget.h" nogil:
    struct kn_budget:
        kn_queue room
    int kn_budget_is_empty(kn_budget *budget)

cdef extern from "net/events.h" nogil:
    struct kn_event:
        kn_list node
        kn_event_kind kind
        int32_t engine
        int32_t broker
        int32_t generation
        uint64_t token
        int status
        int16_t error_code
        int16_t api_key
        int32_t partition
        int32_t leader_id
        int32_t leader_epoch
        uint32_t epoch
        int32_t throttle_ms
        int32_t attempts
        int peer_closed
        int verify_error
        int64_t offset
        const uint8_t *body
        size_t body_bytes
        char *text
    void kn_event_free(kn_event *event)
    const int KN_THROTTLE_MAX_MS

cdef extern from "net/control_queue.h" nogil:
    struct kn_control_queue:
        kn_queue events

cdef extern from "net/log.h" nogil:
    struct kn_log:
        pass
    void kn_log_line_taken(kn_log *log)
    int64_t kn_log_take_dropped(kn_log *log)

cdef extern from "net/tls.h" nogil:
    struct kn_tls:
        pass
    kn_tls *kn_tls_new(int verify_peer, int verify_host)
    kn_tls *kn_tls_ref(kn_tls *tls)
    void kn_tls_unref(kn_tls *tls)
    int kn_tls_set_function(kn_tls *tls, const char *name, uintptr_t address)
    const char *kn_tls_missing(const kn_tls *tls)
    const char *kn_tls_function_name(int index)
    void kn_tls_set_context(kn_tls *tls, void *context)

cdef extern from "netinet/in.h" nogil:
    enum:
        AF_INET
        AF_INET6
    struct sockaddr:
        pass
    struct in_addr:
        pass
    struct sockaddr_in:
        int sin_family
        in_addr sin_addr
    struct in6_addr:
        pass
    struct sockaddr_in6:
        int sin6_family
        in6_addr sin6_addr

cdef extern from "net/transport.h" nogil:
    enum kn_stream_result:
        KN_STREAM_AGAIN
    struct kn_stream:
        short wants
    void kn_stream_init(kn_stream *stream, kn_tls *tls)
    void kn_stream_open(kn_stream *stream, int fd)

cdef extern from "net/proxy.h" nogil:
    enum kn_proxy_kind:
        KN_PROXY_SOCKS5
        KN_PROXY_HTTP
    struct kn_proxy:
        pass
    kn_proxy *kn_proxy_new(kn_proxy_kind kind, int remote_dns, const char *host, uint16_t port, const uint8_t *login, size_t login_bytes)
    kn_proxy *kn_proxy_ref(kn_proxy *proxy)
    void kn_proxy_unref(kn_proxy *proxy)
    enum:
        KN_TUNNEL_SCRATCH_BYTES
    enum kn_tunnel_stage:
        KN_TUNNEL_GREETING
        KN_TUNNEL_LOGIN
        KN_TUNNEL_REQUEST
        KN_TUNNEL_CONNECT
        KN_TUNNEL_OPEN
    struct kn_tunnel:
        kn_tunnel_stage stage
        int refused
        char *text
    void kn_tunnel_begin(kn_tunnel *tunnel, const kn_proxy *proxy, const char *host, uint16_t port, const sockaddr *target)
    int kn_tunnel_step(kn_tunnel *tunnel, kn_stream *stream, uint8_t *scratch)

cdef extern from "net/address.h" nogil:
    struct kn_socket_config:
        int32_t send_buffer_bytes
        int32_t receive_buffer_bytes
        int keepalive
        int nagle_disable
        int address_family
        int32_t address_ttl_ms

cdef extern from "net/connection.h" nogil:
    enum:
        KN_REQUEST_HANDSHAKE
        KN_REQUEST_NO_REPLY
        KN_REQUEST_RAW
    struct kn_connection_config:
        size_t receive_max_bytes
        int32_t setup_timeout_ms
        kn_socket_config socket
        kn_tls *tls
        kn_proxy *proxy

cdef extern from "net/client.h" nogil:
    struct kn_client_config:
        char *client_id
        kn_connection_config connection
        int32_t reconnect_backoff_ms
        int32_t reconnect_backoff_max_ms
        int32_t request_timeout_ms
        int32_t connections_max_idle_ms
        int statistics
        uint32_t log_contexts
    struct kn_client:
        kn_codec_table codecs
        kn_pool *pool
        kn_control_queue *control
        int32_t number
        kn_log log

cdef extern from "produce/producer.h" nogil:
    struct kn_produce_config:
        int64_t queue_messages_max
        int64_t queue_bytes_max
        int32_t linger_us
        int32_t batch_bytes
        int32_t batch_messages
        int32_t message_max_bytes
        int32_t max_in_flight
        int32_t backpressure_requests
        int16_t acks
        int32_t produce_timeout_ms
        int32_t message_timeout_ms
        int32_t retries
        int32_t retry_backoff_ms
        int32_t retry_backoff_max_ms
        int32_t codec
        int32_t codec_level
        kn_partitioner partitioner
        int32_t sticky_linger_ms
        int adaptive_partitioning
        int32_t availability_timeout_ms
        int rack_aware
        int idempotence
        int gapless
        char *transactional_id
        int report_all
        int report_errors_only
    struct kn_producer:
        kn_budget budget
    int kn_producer_configure_topic(kn_producer *producer, const char *name, int32_t name_bytes, const kn_produce_config *config)
    void kn_producer_refuse(kn_producer *producer)

cdef extern from "consume/consumer.h" nogil:
    struct kn_fetch_config:
        int32_t fetch_min_bytes
        int32_t fetch_wait_max_ms
        int32_t fetch_max_bytes
        int32_t partition_fetch_bytes
        int32_t shared_fetch_bytes
        int64_t queued_max_bytes
        int64_t queued_min_messages
        int32_t fetch_error_backoff_ms
        int check_crcs
        int partition_eof
        int partition_eof_when_empty
        int8_t isolation_level
        size_t decompressed_max_bytes
        char *rack
    struct kn_consumer:
        int keeps_batches

cdef extern from "net/heartbeat.h" nogil:
    struct kn_heartbeat_plan:
        int16_t api_key
        int16_t api_version
        int request_flexible
        int reply_flexible
        const uint8_t *body
        size_t body_bytes
        uint64_t token
        int32_t interval_ms
        int32_t timeout_ms
    long kn_heartbeat_live()

cdef extern from "base/runs.h" nogil:
    struct kn_run:
        int64_t row
        int64_t offset
        int64_t length
    struct kn_runs:
        kn_run *runs
        int64_t count

cdef extern from "produce/delivery_counter.h" nogil:
    enum:
        KN_DELIVERY_COUNTER_ROWS_MAX
    struct kn_delivery_counters:
        pass
    struct kn_delivery_counter:
        void *binding
        kn_batch *completion
        int keeps_runs
        kn_runs runs
        int64_t delivered
    void *KN_TOKEN_TAKEN
    int kn_token_is(const void *opaque)
    int64_t kn_token_row(const void *opaque)
    kn_delivery_counter *kn_delivery_counter_new(kn_delivery_counters *counters, void *binding)
    void kn_delivery_counter_free(kn_delivery_counter *counter)
    kn_delivery_counter *kn_delivery_counter_of(kn_delivery_counters *counters, const void *token)
    void kn_delivery_counter_begin(kn_delivery_counter *counter, int64_t rows)
    void kn_delivery_counter_settle(kn_delivery_counter *counter, int64_t rows, int64_t delivered)
    int kn_delivery_counter_close(kn_delivery_counter *counter)
    void kn_delivery_counter_discard(kn_delivery_counter *counter)
    long kn_delivery_counter_live()

cdef extern from "produce/accumulator.h" nogil:
    struct kn_batch:
        kn_list node
        kn_topic *topic
        kn_delivery_counter *counter
        kn_buffer *plain
        kn_buffer *wire
        kn_batch_writer writer
        void **opaques
        int32_t *partitions
        int32_t partition
        int64_t created_us
        int64_t created_ms
        int64_t acked_us
        uint8_t persistence
        int status
        int16_t error_code
        int64_t base_offset
        int64_t log_append_time_ms
        char *error_text
    int kn_batch_view_plain(const kn_batch *batch, kn_batch_view *view)
    void kn_batch_free(kn_batch *batch)
    long kn_batch_live()

cdef extern from "produce/topic.h" nogil:
    struct kn_topic:
        char *name
        int32_t name_bytes
        uint64_t token
    struct kn_message:
        const uint8_t *key
        const uint8_t *value
        const uint8_t *headers
        size_t headers_bytes
        int32_t key_bytes
        int32_t value_bytes
        int32_t header_count
        int32_t partition
        int64_t timestamp_ms
        int64_t wall_ms
        void *opaque
    int32_t kn_topic_partition_count(kn_topic *topic)
    enum:
        KN_PRODUCE_RUN_MAX
    kn_topic *kn_producer_topic(kn_producer *producer, const char *name, int32_t name_bytes, uint64_t token)
    int kn_topic_produce_run(kn_topic *topic, const kn_message *messages, int32_t count, int32_t *queued)
    int kn_topic_produce(kn_topic *topic, const kn_message *message)
    int kn_topic_set_partitions(kn_topic *topic, const uint8_t *id, int32_t count, kn_broker *const *leaders, const int32_t *leader_epochs)
    void kn_topic_fail(kn_topic *topic, int status, int16_t error_code, const char *text)
    void kn_topic_refuse(kn_topic *topic)
    int kn_topic_used_since(kn_topic *topic, int64_t since_us)
    int kn_topic_forget(kn_topic *topic)
    int kn_topic_fail_unknown(kn_topic *topic, int64_t before_us)

cdef extern from "consume/cursor.h" nogil:
    enum kn_segment_kind:
        KN_SEGMENT_DATA
        KN_SEGMENT_EOF
        KN_SEGMENT_ERROR
    struct kn_cursor:
        uint64_t token
    bint kn_cursor_is_answered(kn_cursor *cursor)
    void kn_cursor_forget_answer(kn_cursor *cursor)
    void kn_cursor_set_route(kn_cursor *cursor, kn_queue *queue)
    struct kn_segment_batch:
        kn_batch_view view
        kn_chunk *chunk
    struct kn_segment:
        kn_list node
        kn_segment_kind kind
        kn_cursor *cursor
        int64_t fetch_offset
        int64_t next_offset
        int status
        int16_t error_code
        int32_t batch_count
        int32_t batch_next
        kn_segment_batch *batches
    kn_cursor *kn_cursor_new(kn_consumer *consumer, const char *topic, int32_t topic_bytes, const uint8_t *topic_id, int32_t partition,
                             uint64_t token)
    void kn_cursor_unref(kn_cursor *cursor)
    long kn_cursor_live()
    void kn_cursor_set_epoch(kn_cursor *cursor, uint32_t epoch)
    uint32_t kn_cursor_next_epoch(kn_cursor *cursor)
    uint32_t kn_cursor_epoch(kn_cursor *cursor)
    int kn_segment_is_stale(const kn_segment *segment)
    void kn_segment_free(kn_segment *segment)
    long kn_segment_live()
    int64_t kn_cursor_high_watermark(kn_cursor *cursor)
    int64_t kn_cursor_last_stable_offset(kn_cursor *cursor)
    int64_t kn_cursor_log_start_offset(kn_cursor *cursor)

cdef extern from "engine/relay.h" nogil:
    struct kn_fetched_batches:
        int32_t count
        int32_t next
        kn_segment_batch *batches
    kn_fetched_batches *kn_fetched_batches_take(kn_segment *segment)
    void kn_fetched_batches_free(kn_fetched_batches *fetched)
    struct kn_relay:
        kn_engine *engine
        kn_topic *topic
        int32_t partition
        kn_delivery_counter *counter
        int64_t rows
        int64_t bytes
        kn_runs runs
        kn_fetched_batches *fetched
        int64_t offset
        int never_fits
    void kn_relay_deinit(kn_relay *relay)
    void kn_relay_give(kn_relay *relay, kn_fetched_batches *fetched, int64_t first, int64_t end)
    int kn_relay_run_waiting(kn_relay *relay, int64_t count_max, int64_t deadline_us)

cdef extern from "net/broker.h" nogil:
    struct kn_broker:
        pass
    int kn_broker_state_now(kn_broker *broker)
    int64_t kn_broker_heartbeat_sent_us(kn_broker *broker)
    void kn_broker_set_in_client_rack(kn_broker *broker, int in_client_rack)

cdef extern from "engine/engine.h" nogil:
    struct kn_engine_config:
        kn_client_config client
        kn_produce_config produce
        kn_fetch_config fetch
    struct kn_engine:
        kn_engine **owner
        kn_engine_config config
        kn_client client
        kn_producer producer
        kn_consumer consumer
        kn_queue deliveries
        kn_queue fetched
        kn_delivery_counters counters
    struct kn_route:
        kn_queue queue
    kn_route *kn_engine_route_open(kn_engine *engine)
    void kn_engine_route_close(kn_route *route)
    void kn_engine_kick_routes(kn_engine *engine)
    void kn_engine_config_init(kn_engine_config *config)
    kn_engine *kn_engine_new(const kn_engine_config *config, kn_control_queue *control)
    void kn_engine_stop(kn_engine *engine)
    kn_engine *kn_engine_closed()
    long kn_engine_live()
    void kn_engine_free(kn_engine *engine)
    int kn_engine_broker_add(kn_engine *engine, int32_t node_id, const char *host, uint16_t port)
    kn_broker *kn_engine_broker(kn_engine *engine, int32_t handle)
    int kn_engine_submit(kn_engine *engine, int32_t handle, int32_t generation, int16_t api_key, int16_t api_version, int request_flexible,
                         int reply_flexible, uint8_t flags, const uint8_t *body, size_t body_bytes, uint64_t token, int64_t timeout_ms)
    int kn_engine_heartbeat(kn_engine *engine, int32_t handle, int32_t generation, const kn_heartbeat_plan *plan)
    int kn_engine_stop_heartbeat(kn_engine *engine, int32_t handle)
    int kn_engine_broker_open(kn_engine *engine, int32_t handle, int32_t generation, int16_t produce_version, int16_t fetch_version)
    int kn_engine_broker_hold(kn_engine *engine, int32_t handle, int32_t generation)
    int kn_engine_broker_close(kn_engine *engine, int32_t handle, int32_t generation, int status)
    int kn_engine_broker_connect(kn_engine *engine, int32_t handle)
    int kn_engine_broker_stop(kn_engine *engine, int32_t handle)
    void kn_engine_batch_reported(kn_engine *engine, kn_batch *batch)
    int64_t kn_engine_outstanding(kn_engine *engine)
    int64_t kn_engine_unsettled(kn_engine *engine)
    void kn_engine_poll_begin(kn_engine *engine)
    void kn_engine_poll_end(kn_engine *engine)
    int64_t kn_engine_take_unreported(kn_engine *engine)
    void kn_engine_flush_begin(kn_engine *engine)
    void kn_engine_flush_end(kn_engine *engine)
    enum:
        KN_ROOM_TRIES
    void kn_engine_room_begin(kn_engine *engine)
    void kn_engine_room_end(kn_engine *engine)
    int kn_engine_purge(kn_engine *engine, int in_queue, int in_flight)
    int kn_engine_transaction_begin(kn_engine *engine, int64_t number, int implicit, int64_t hold_us)
    void kn_engine_transaction_tolerate(kn_engine *engine, int tolerant)
    void kn_engine_transaction_close(kn_engine *engine)
    void kn_engine_transaction_admit(kn_engine *engine, kn_topic *topic, int32_t partition, int64_t number)
    void kn_engine_grant(kn_engine *engine, int64_t producer_id, int16_t producer_epoch)
    void kn_engine_memory(kn_engine *engine, int64_t *queued_bytes, int64_t *idle_bytes)
    void kn_engine_expire(kn_engine *engine, int64_t now_us)
    int kn_engine_fetch_start(kn_engine *engine, kn_cursor *cursor, int32_t handle, uint32_t epoch, int64_t offset, int32_t leader_epoch)
    int kn_engine_fetch_stop(kn_engine *engine, kn_cursor *cursor, int32_t handle)
