# cython: freethreading_compatible=True
"""Engine: the binding of csrc/engine/engine.h.

The control plane uses it directly. Producer and Consumer use it through their cores. It contains no
policy: it owns lifetimes, releases the interpreter lock where the engine may wait, checks statuses
and converts values.
"""
cimport cython
from collections import deque

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from kafka_native._native.free_threading cimport *
from kafka_native._native.kn_arrow cimport kn_columns_live
from kafka_native._native.kn_codecs cimport kn_builder_live, kn_layout_live, kn_nested_type_live
from kafka_native._native.kn_engine cimport *
from kafka_native._native.kn_enums cimport *
from kafka_native._native.kn_records cimport *
from kafka_native._native.message cimport Pins
from kafka_native._native.primitives cimport exact_text
from kafka_native._native.records cimport codecs_fill

# Larger bodies are copied without the interpreter lock.
cdef enum:
    UNLOCK_BYTES = 1 << 20


def fork_count():
    """Return the number of forks between the process that loaded this library and this one.

    It includes forks that no Python hook sees.
    """
    return kn_fork_count()


cdef unsigned long exit_thread = 0


def begin_exit():
    """Note that the interpreter exits, and that this thread is about to close the clients."""
    kn_thread_set(&exit_thread, <unsigned long>PyThread_get_thread_ident())


cpdef bint exits_elsewhere() noexcept:
    """Return whether another thread is ending the interpreter.

    Then this is a daemon thread whose client was closed. SystemExit ends it without a traceback.
    """
    cdef unsigned long thread = kn_thread_of(&exit_thread)
    return thread != 0 and thread != <unsigned long>PyThread_get_thread_ident()


cdef class Event:
    """An event of the engine for the control plane.

    csrc/net/events.h has the fields of each kind.
    """

    cdef readonly int kind, engine, broker, generation
    cdef readonly uint64_t token
    cdef readonly int status, error_code, api_key
    cdef readonly int partition, leader_id, leader_epoch
    cdef readonly unsigned int epoch
    cdef readonly int throttle_ms, attempts, peer_closed, verify_error
    cdef readonly int64_t offset
    cdef readonly object body
    cdef readonly str text

    def __repr__(self):
        return f"Event(kind={self.kind}, broker={self.broker}, token={self.token}, status={self.status}, text={self.text!r})"


cdef bytes _body_of(kn_event *source):
    cdef bytes body
    cdef char *to
    if source.body_bytes < UNLOCK_BYTES:
        return PyBytes_FromStringAndSize(<const char *>source.body, source.body_bytes)
    body = PyBytes_FromStringAndSize(NULL, source.body_bytes)
    to = PyBytes_AS_STRING(body)
    with nogil:
        memcpy(to, source.body, source.body_bytes)
    return body


cdef Event _event_of(kn_event *source):
    cdef Event event = Event.__new__(Event)
    event.kind = source.kind
    event.engine = source.engine
    event.broker = source.broker
    event.generation = source.generation
    event.token = source.token
    event.status = source.status
    event.error_code = source.error_code
    event.api_key = source.api_key
    event.partition = source.partition
    event.leader_id = source.leader_id
    event.leader_epoch = source.leader_epoch
    event.epoch = source.epoch
    event.throttle_ms = source.throttle_ms
    event.attempts = source.attempts
    event.peer_closed = source.peer_closed
    event.verify_error = source.verify_error
    event.offset = source.offset
    event.body = _body_of(source) if source.body != NULL else None
    event.text = (<bytes>source.text).decode("ascii", "replace")
    return event


cdef void _fill_text(char *to, size_t room, text) except *:
    cdef bytes data = text.encode()
    if <size_t>len(data) >= room:
        raise ValueError(f"longer than {room - 1} bytes: {text[:40]!r}...")
    memcpy(to, PyBytes_AS_STRING(data), len(data) + 1)


cdef void _fill_connection(kn_connection_config *to, dict settings) except *:
    to.receive_max_bytes = settings["receive_max_bytes"]
    to.setup_timeout_ms = settings["setup_timeout_ms"]
    to.socket.send_buffer_bytes = settings["send_buffer_bytes"]
    to.socket.receive_buffer_bytes = settings["receive_buffer_bytes"]
    to.socket.keepalive = settings["keepalive"]
    to.socket.nagle_disable = settings["nagle_disable"]
    to.socket.address_family = settings["address_family"]
    to.socket.address_ttl_ms = settings["address_ttl_ms"]


cdef kn_tls *_new_tls(settings) except? NULL:
    # None: plain connections. Otherwise (addresses of OpenSSL's functions by name, address of the
    # context, verify_peer, verify_host).
    if settings is None:
        return NULL
    functions, context, verify_peer, verify_host = settings
    cdef kn_tls *tls = kn_tls_new(verify_peer, verify_host)
    if tls == NULL:
        raise MemoryError()
    for name, address in functions.items():
        kn_tls_set_function(tls, name.encode(), address)
    missing = kn_tls_missing(tls)
    if missing != NULL:
        kn_tls_unref(tls)
        raise LookupError(f"no address of {missing.decode()}()")
    kn_tls_set_context(tls, <void *><uintptr_t>context)
    return tls


cdef kn_proxy *_new_proxy(settings) except? NULL:
    # None: direct connections to the brokers. Otherwise (scheme, host, port, login). The caller
    # also keeps the login as a bytes object.
    if settings is None:
        return NULL
    scheme, host, port, login = settings
    cdef kn_proxy_kind kind = KN_PROXY_HTTP if scheme == "http" else KN_PROXY_SOCKS5
    cdef kn_proxy *proxy = kn_proxy_new(kind, scheme != "socks5", host.encode(), port, <const uint8_t *><bytes>login, len(login))
    if proxy == NULL:
        raise ValueError("a proxy's host or login is too long")
    return proxy


@cython.final
cdef class Tunnel:
    """A tunnel through a proxy on a Python socket, the same as in the engine's connections.

    The caller runs it step by step.
    """

    cdef kn_proxy *proxy
    cdef kn_tunnel tunnel
    cdef kn_stream stream
    cdef bytes host
    cdef bint in_use  # a flag
    cdef sockaddr_in address4
    cdef sockaddr_in6 address6
    cdef uint8_t scratch[KN_TUNNEL_SCRATCH_BYTES]

    def __cinit__(self, proxy, int fd, str host, uint16_t port, bytes address):
        # `address` is the broker's packed address. If it is empty, the proxy resolves the host
        # name.
        cdef const sockaddr *target = NULL
        self.proxy = _new_proxy(proxy)
        self.host = host.encode()
        if len(address) == 4:
            self.address4.sin_family = AF_INET
            memcpy(&self.address4.sin_addr, PyBytes_AS_STRING(address), 4)
            target = <const sockaddr *>&self.address4
        elif len(address) == 16:
            self.address6.sin6_family = AF_INET6
            memcpy(&self.address6.sin6_addr, PyBytes_AS_STRING(address), 16)
            target = <const sockaddr *>&self.address6
        elif address:
            raise ValueError("an address has 4 or 16 bytes")
        kn_stream_init(&self.stream, NULL)
        kn_stream_open(&self.stream, fd)  # never closed: the caller owns the socket
        kn_tunnel_begin(&self.tunnel, self.proxy, PyBytes_AS_STRING(self.host), port, target)

    def __dealloc__(self):
        kn_proxy_unref(self.proxy)

    @property
    def logged_in(self):
        """Whether the proxy has accepted the client's login.

        An answer about the broker also proves that, because the proxy sends it only after the
        login.
        """
        return self.tunnel.refused or self.tunnel.stage == KN_TUNNEL_REQUEST or self.tunnel.stage == KN_TUNNEL_OPEN

    @property
    def refused(self):
        """Whether the connection from the proxy to the broker has failed."""
        return bool(self.tunnel.refused)

    def step(self):
        """Send and receive as much as the socket allows.

        Returns the events of poll(2) to wait for, or 0 when the tunnel is open. Raises
        ConnectionError with the reason of a failure. Only one thread at a time may call it.
        """
        cdef int done
        if kn_flag_exchange(&self.in_use, True):
            raise RuntimeError("another thread is using this tunnel")
        with nogil:
            done = kn_tunnel_step(&self.tunnel, &self.stream, self.scratch)
        kn_flag_set(&self.in_use, False)
        if done == 0:
            return 0
        if done == KN_STREAM_AGAIN:
            return self.stream.wants
        raise ConnectionError((<bytes>self.tunnel.text).decode("ascii", "replace"))


def tls_functions():
    """Return the names of OpenSSL's functions whose addresses an engine with TLS needs."""
    names = []
    while (name := kn_tls_function_name(len(names))) != NULL:
        names.append(name.decode())
    return names


cdef void _fill(kn_engine_config *to, dict settings) except *:
    _fill_text(to.client.client_id, 256, settings["client_id"])
    _fill_text(to.fetch.rack, 256, settings["rack"])
    _fill_connection(&to.client.connection, settings)
    to.client.reconnect_backoff_ms = settings["reconnect_backoff_ms"]
    to.client.reconnect_backoff_max_ms = settings["reconnect_backoff_max_ms"]
    to.client.request_timeout_ms = settings["request_timeout_ms"]
    to.client.connections_max_idle_ms = settings["connections_max_idle_ms"]
    to.produce.queue_messages_max = settings["queue_messages_max"]
    to.produce.queue_bytes_max = settings["queue_bytes_max"]
    to.produce.linger_us = settings["linger_us"]
    to.produce.batch_bytes = settings["batch_bytes"]
    to.produce.batch_messages = settings["batch_messages"]
    to.produce.message_max_bytes = settings["message_max_bytes"]
    to.produce.max_in_flight = settings["max_in_flight"]
    to.produce.backpressure_requests = settings["backpressure_requests"]
    to.produce.acks = settings["acks"]
    to.produce.produce_timeout_ms = settings["produce_timeout_ms"]
    to.produce.message_timeout_ms = settings["message_timeout_ms"]
    to.produce.retries = settings["retries"]
    to.produce.retry_backoff_ms = settings["retry_backoff_ms"]
    to.produce.retry_backoff_max_ms = settings["retry_backoff_max_ms"]
    to.produce.codec = settings["codec"]
    to.produce.codec_level = settings["codec_level"]
    to.produce.partitioner = <kn_partitioner><int>settings["partitioner"]
    to.produce.sticky_linger_ms = settings["sticky_linger_ms"]
    to.produce.adaptive_partitioning = settings["adaptive_partitioning"]
    to.produce.availability_timeout_ms = settings["availability_timeout_ms"]
    to.produce.rack_aware = settings["rack_aware"]
    to.produce.idempotence = settings["idempotence"]
    to.produce.gapless = settings["gapless"]
    _fill_text(to.produce.transactional_id, 512, settings["transactional_id"])
    to.produce.report_all = settings["report_all"]
    to.produce.report_errors_only = settings["report_errors_only"]
    to.fetch.fetch_min_bytes = settings["fetch_min_bytes"]
    to.fetch.fetch_wait_max_ms = settings["fetch_wait_max_ms"]
    to.fetch.fetch_max_bytes = settings["fetch_max_bytes"]
    to.fetch.partition_fetch_bytes = settings["partition_fetch_bytes"]
    to.fetch.shared_fetch_bytes = settings["shared_fetch_bytes"]
    to.fetch.queued_max_bytes = settings["queued_max_bytes"]
    to.fetch.queued_min_messages = settings["queued_min_messages"]
    to.fetch.fetch_error_backoff_ms = settings["fetch_error_backoff_ms"]
    to.fetch.check_crcs = settings["check_crcs"]
    to.fetch.partition_eof = settings["partition_eof"]
    to.fetch.partition_eof_when_empty = settings["partition_eof_when_empty"]
    to.fetch.isolation_level = settings["isolation_level"]
    to.fetch.decompressed_max_bytes = settings["decompressed_max_bytes"]
    to.client.statistics = settings["statistics"]
    to.client.log_contexts = settings["log_contexts"]


cdef int _configure_topic(kn_engine *engine, kn_produce_config config, bytes name, dict own) except -1:
    config.acks = own["acks"]
    config.produce_timeout_ms = own["produce_timeout_ms"]
    config.message_timeout_ms = own["message_timeout_ms"]
    config.codec = own["codec"]
    config.codec_level = own["codec_level"]
    config.partitioner = <kn_partitioner><int>own["partitioner"]
    if kn_producer_configure_topic(&engine.producer, name, <int32_t>len(name), &config) != KN_OK:
        raise MemoryError("no memory for the settings of a topic")
    return 0


FOR_EVER_S = KN_FOR_EVER_S
THROTTLE_MAX_MS = KN_THROTTLE_MAX_MS

# the constructor argument of objects that only the engine may make; Python code can't access it
cdef object BY_THE_ENGINE = object()


@cython.final
cdef class EngineHandle:
    """Owns the C engine, and refers to no Python object.

    A call that uses the C engine holds a reference, which it gets from `handle_of()`. An object that
    uses it for longer has one too. So the reference count is the number of users. The thread that
    drops the last reference frees the engine. A sleeping control thread holds only this object, so
    it keeps no client alive.

    Thread: any. Only `Engine` makes handles.
    """

    def __dealloc__(self):
        if self.engine != NULL and not self.is_shared:
            with nogil:
                kn_engine_stop(self.engine)
                kn_engine_free(self.engine)

    def wait_for_events(self, double timeout_s):
        """Sleep until an event, a kick or the timeout (control thread).

        The timeout is in seconds, and negative for none. Returns False in a forked child.
        """
        cdef int64_t timeout_ms = -1 if timeout_s < 0 or timeout_s > KN_FOR_EVER_S else <int64_t>(timeout_s * 1000 + 0.999)
        cdef kn_engine *engine = self.engine
        if engine == NULL:
            return False
        with nogil:
            kn_queue_wait(&engine.client.control.events, timeout_ms)
        return True


cdef class Engine:
    """One client's broker threads and queues.

    ``settings`` has one entry for each field of struct kn_engine_config (see
    `kafka_native.control.settings`). ``error_of(status, error_code, text, topic, partition)`` makes
    the KafkaError for a failed delivery. Broker threads start with `broker_add()` and end with `close()`.

    With a ``host``, the engine shares its control queue, its TLS context and its proxy: the host's
    `next_events()` has the events of both, and each names its engine's ``number``.

    Thread: any, except for methods that name theirs. Each method holds the `EngineHandle`, so that
    `release()` in another thread doesn't free the C engine meanwhile.
    """

    def __cinit__(self, dict settings, error_of, Engine host=None):
        cdef kn_engine_config config
        cdef kn_control_queue *control = NULL
        cdef EngineHandle handle
        kn_engine_config_init(&config)
        _fill(&config, settings)
        if host is not None:
            handle = host._alive()
            control = handle.engine.client.control
            config.client.connection.proxy = kn_proxy_ref(handle.engine.config.client.connection.proxy)
            config.client.connection.tls = kn_tls_ref(handle.engine.config.client.connection.tls)
        else:
            config.client.connection.proxy = _new_proxy(settings["proxy"])
            try:
                config.client.connection.tls = _new_tls(settings["tls"])
            except BaseException:
                kn_proxy_unref(config.client.connection.proxy)
                raise
        self._handle = EngineHandle.__new__(EngineHandle)
        self._handle.engine = kn_engine_new(&config, control)
        if self._handle.engine == NULL:
            kn_proxy_unref(config.client.connection.proxy)
            kn_tls_unref(config.client.connection.tls)
            raise MemoryError("no memory or file descriptors for a client")
        for name, own in settings["topics"].items():
            _configure_topic(self._handle.engine, config.produce, name.encode(), own)
        self._handle.engine.owner = &self._handle.engine
        self.number = self._handle.engine.client.number
        self.fork_count = kn_fork_count()
        codecs_fill(&self._handle.engine.client.codecs)
        self.error_of = error_of
        self.pins = Pins(settings["pinned_max_bytes"])
        self.topics = []
        self.topics_by_name = {}
        self.cursors = []
        self.free_tokens = []
        self.callbacks = deque()
        self.notices = deque()

    @property
    def handle(self):
        """The `EngineHandle`. Its holder keeps the C engine alive, also after `release()`."""
        return handle_of(self)

    @property
    def closed(self):
        """Whether `close()` was called."""
        return kn_flag_is_set(&self.is_closed)

    def close(self):
        """Stop and join every broker thread. Queued messages are delivered with an error.

        A second call does nothing.
        """
        cdef EngineHandle handle = handle_of(self)
        cdef kn_engine *engine = handle.engine
        kn_flag_set(&self.is_closed, True)
        if engine != NULL:
            with nogil:
                kn_engine_stop(engine)
            kn_flag_set(&self.is_stopped, True)
            self.kick()

    @property
    def forked(self):
        """Whether this is a forked child of the process that made the engine.

        The engine's threads don't exist there. Nothing is joined or freed, and every call fails.
        """
        return self.is_forked()

    cdef bint is_forked(self) noexcept:
        return self.fork_count != kn_fork_count()

    def release(self):
        """Free the C engine, its descriptors and its queues when no other thread uses them.

        Call it after `close()` and the last report. Later calls use the closed engine of the
        process. Without memory for that one, the C engine lives as long as this object.
        """
        cdef EngineHandle closed
        cdef EngineHandle own
        cdef kn_engine *engine = kn_engine_closed()
        kn_flag_set(&self.is_released, True)
        if engine == NULL or not kn_flag_is_set(&self.is_stopped):
            return
        closed = EngineHandle.__new__(EngineHandle)
        closed.engine = engine
        closed.is_shared = True
        kn_guard_lock(&self.guard)
        own = self._handle
        if own.engine != NULL:
            self._handle = closed
        kn_guard_unlock(&self.guard)

    cpdef object closed_error(self, str text):
        """Return the exception for a call of a closed client, with ``text``.

        A client of the parent process of a fork has its own text. The exception is SystemExit if
        `exits_elsewhere()`.
        """
        if self.is_forked():
            return RuntimeError("this client belongs to the parent process: make a new one after fork()")
        if exits_elsewhere():
            return SystemExit()
        return RuntimeError(text)

    cdef bint wait(self, kn_queue *queue, int64_t deadline) except -1:
        # Sleep until an item is queued, the deadline or a signal, whose handler then runs. Returns
        # False if the deadline was already over, so the caller needs no further check. The caller
        # holds the handle of the engine whose queue it is.
        cdef int status
        cdef int64_t left_us = 0
        if kn_flag_is_set(&self.is_released):
            return False
        if deadline != KN_NEVER:
            left_us = deadline - kn_clock_us()
            if left_us <= 0:
                return False
        with nogil:
            status = kn_queue_wait(queue, -1 if deadline == KN_NEVER else (left_us + 999) // 1000)
        if status == KN_ERR_INTERRUPTED:
            PyErr_CheckSignals()
        return True

    def kick(self):
        """End one wait in poll(), flush() or consume(), and make produce() check its wait."""
        cdef EngineHandle handle = handle_of(self)
        if handle.engine != NULL:
            kn_queue_kick(&handle.engine.deliveries)
            kn_queue_kick(&handle.engine.fetched)
            kn_queue_kick(&handle.engine.producer.budget.room)
            kn_engine_kick_routes(handle.engine)

    def kick_control(self):
        """End a wait in `wait_for_events()`."""
        cdef EngineHandle handle = handle_of(self)
        if handle.engine != NULL:
            kn_queue_kick(&handle.engine.client.control.events)

    def next_events(self):
        """Return the list of new `Event`s (control thread).

        They include those of engines that share this one's control queue.
        """
        cdef kn_list items
        cdef kn_list *node
        cdef EngineHandle handle = handle_of(self)
        if handle.engine == NULL:
            return []
        kn_list_init(&items)
        kn_queue_take_all(&handle.engine.client.control.events, &items)
        events = []
        while not kn_list_empty(&items):
            node = kn_list_pop_front(&items)
            events.append(_event_of(<kn_event *>node))
            if (<kn_event *>node).kind == KN_EVENT_LOG:
                kn_log_line_taken(&handle.engine.client.log)
            kn_event_free(<kn_event *>node)
        return events

    def take_dropped_lines(self):
        """Return the number of log lines dropped since the last call (control thread)."""
        cdef EngineHandle handle = handle_of(self)
        return 0 if handle.engine == NULL else kn_log_take_dropped(&handle.engine.client.log)

    cdef _check(self, int status):
        if status == KN_ERR_NOMEM:
            raise MemoryError("no memory, file descriptor (ulimit -n) or thread (ulimit -u) is left")
        if status < 0:
            raise RuntimeError((<bytes>kn_status_text(status)).decode())

    cdef EngineHandle _alive(self):
        # Return the handle of an engine that isn't closed.
        cdef EngineHandle handle = handle_of(self)
        if handle.engine == NULL or kn_flag_is_set(&self.is_closed):
            raise self.closed_error("the client is closed")
        return handle

    # --- brokers: control thread ---

    def broker_add(self, int node_id, str host, int port):
        """Add a broker with its own thread, and return its handle. It connects when it needs to."""
        cdef EngineHandle alive = self._alive()
        cdef kn_engine *engine = alive.engine
        cdef bytes name = host.encode("idna") if not host.isascii() else host.encode()
        cdef const char *host_text = name
        cdef int handle
        with nogil:
            handle = kn_engine_broker_add(engine, node_id, host_text, <uint16_t>port)
        self._check(handle)
        return handle

    def broker_set_in_client_rack(self, int handle, bint in_client_rack):
        """Set whether the broker's rack is the client's. A rack-aware producer prefers its partitions (KIP-1123)."""
        cdef EngineHandle alive = self._alive()
        kn_broker_set_in_client_rack(kn_engine_broker(alive.engine, handle), in_client_rack)

    def broker_connect(self, int handle):
        """Connect now, even if there is nothing to send."""
        cdef EngineHandle alive = self._alive()
        self._check(kn_engine_broker_connect(alive.engine, handle))

    def broker_state(self, int handle):
        """Return the broker's state as a number: enum kn_broker_state."""
        cdef EngineHandle alive = self._alive()
        return kn_broker_state_now(kn_engine_broker(alive.engine, handle))

    def submit(self, int handle, int api_key, int api_version, bint request_flexible, bint reply_flexible, bytes body not None,
               uint64_t token, int64_t timeout_ms, *, int generation=0, bint handshake=False, bint raw=False, bint replied=True):
        """Send a request body to a broker. The outcome is one REPLY event with ``token``.

        ``raw``: neither the request nor its reply has a header. Not ``replied``: the broker sends
        no reply, and the event comes when the request is written.
        """
        cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(body)
        cdef int flags = KN_REQUEST_HANDSHAKE if handshake else 0
        if raw:
            flags |= KN_REQUEST_RAW
        if not replied:
            flags |= KN_REQUEST_NO_REPLY
        cdef EngineHandle alive = self._alive()
        self._check(kn_engine_submit(alive.engine, handle, generation, api_key, api_version, request_flexible, reply_flexible,
                                     <uint8_t>flags, data, len(body), token, timeout_ms))

    def heartbeat(self, int handle, int generation, int api_key, int api_version, bint request_flexible, bint reply_flexible, bytes body not None,
                  uint64_t token, int interval_ms, int timeout_ms):
        """Make the broker's thread repeat this request every ``interval_ms`` on this connection.

        The thread needs no Python for it. The first request follows after one interval. A later
        call replaces the request. An outcome is a REPLY event with ``token`` if its body differs
        from the one before. An outcome with a status is the last one.
        """
        cdef kn_heartbeat_plan plan
        plan.api_key = api_key
        plan.api_version = api_version
        plan.request_flexible = request_flexible
        plan.reply_flexible = reply_flexible
        plan.body = <const uint8_t *>PyBytes_AS_STRING(body)
        plan.body_bytes = len(body)
        plan.token = token
        plan.interval_ms = interval_ms
        plan.timeout_ms = timeout_ms
        cdef EngineHandle alive = self._alive()
        self._check(kn_engine_heartbeat(alive.engine, handle, generation, &plan))

    def stop_heartbeat(self, int handle):
        """End `heartbeat()`. The outcome of a request in flight is still reported."""
        cdef EngineHandle alive = self._alive()
        self._check(kn_engine_stop_heartbeat(alive.engine, handle))

    def heartbeat_age_s(self, int handle):
        """Return the seconds since the last answered heartbeat was sent, or infinity."""
        cdef EngineHandle alive = self._alive()
        cdef int64_t sent_us = kn_broker_heartbeat_sent_us(kn_engine_broker(alive.engine, handle))
        return (kn_clock_us() - sent_us) / 1e6 if sent_us else float("inf")

    def broker_open(self, int handle, int generation, int produce_version, int fetch_version):
        """Allow data on this connection after its handshake, in these versions.

        -1 means that the broker lacks the API.
        """
        cdef EngineHandle alive = self._alive()
        self._check(kn_engine_broker_open(alive.engine, handle, generation, produce_version, fetch_version))

    def broker_hold(self, int handle, int generation):
        """Return an open connection to its handshake (KIP-368).

        Until the next `broker_open()` it sends only handshake requests.
        """
        cdef EngineHandle alive = self._alive()
        self._check(kn_engine_broker_hold(alive.engine, handle, generation))

    def broker_close(self, int handle, int generation, int status):
        """Close this connection. The broker reconnects when it needs to, after its back-off."""
        cdef EngineHandle alive = self._alive()
        self._check(kn_engine_broker_close(alive.engine, handle, generation, status))

    def broker_stop(self, int handle):
        """Close the connection for good."""
        cdef EngineHandle alive = self._alive()
        self._check(kn_engine_broker_stop(alive.engine, handle))

    def set_tls_context(self, uintptr_t context):
        """Use this context (the address of an SSL_CTX) for new connections.

        The caller keeps it alive until it sets the next one.
        """
        cdef EngineHandle alive = self._alive()
        kn_tls_set_context(alive.engine.config.client.connection.tls, <void *>context)

    # --- producing ---

    cdef Topic topic_at(self, text, bint may_be_empty=False):
        cdef str name = exact_text(text)
        cdef Topic topic = self._known_topic(name)
        cdef Topic made
        if topic is not None:
            return topic
        if not (name or may_be_empty):
            raise ValueError("a topic's name has 1 to 249 characters, this one 0")
        # Before the lock, and with another look-up under it: on CPython 3.10 and 3.11 making an object may
        # collect garbage, which runs Python code, and so another thread that makes the same topic.
        made = Topic.__new__(Topic, BY_THE_ENGINE)
        kn_object_lock_take(&self.lock)
        try:
            topic = self.topics_by_name.get(name)
            if topic is None:
                topic = _bind_topic(made, self, name)
                self.topics.append(topic)
                self.topics_by_name[name] = topic
        finally:
            kn_object_lock_release(&self.lock)
        return topic

    cdef Topic _known_topic(self, str name):
        kn_object_lock_take(&self.lock)
        try:
            return self.topics_by_name.get(name)
        finally:
            kn_object_lock_release(&self.lock)

    def topic(self, str name not None):
        """Return the `Topic` of this name. The first use makes it."""
        return self.topic_at(name)

    def purge(self, bint in_queue, bint in_flight):
        """Fail the waiting messages, and those in flight, as selected (control thread).

        The connections of messages in flight are closed.
        """
        cdef EngineHandle alive = self._alive()
        cdef kn_engine *engine = alive.engine
        cdef int status
        with nogil:
            status = kn_engine_purge(engine, in_queue, in_flight)
        if status != 0:
            raise MemoryError

    def refuse(self):
        """Fail the waiting messages and refuse new ones, after a fatal error (any thread).

        Messages in flight still get their outcome.
        """
        cdef EngineHandle handle = handle_of(self)
        if handle.engine == NULL or kn_flag_is_set(&self.is_closed):
            return
        kn_producer_refuse(&handle.engine.producer)
        self.purge(True, False)

    def grant(self, int64_t producer_id, int16_t producer_epoch):
        """Number batches under this producer id and epoch from now on (control thread).

        With the id PRODUCER_WAIVED (`_native.enums`) batches have no numbers.
        """
        cdef EngineHandle alive = self._alive()
        cdef kn_engine *engine = alive.engine
        with nogil:
            kn_engine_grant(engine, producer_id, producer_epoch)

    def transaction_begin(self, int64_t number, bint implicit, double hold_s):
        """Accept messages in transaction ``number`` from now on (control thread).

        They are sent after ``hold_s`` seconds. With ``implicit`` no partition needs
        `transaction_admit()`.
        """
        cdef EngineHandle alive = self._alive()
        if kn_engine_transaction_begin(alive.engine, number, implicit, <int64_t>(hold_s * 1e6)) != 0:
            raise MemoryError

    def transaction_tolerate(self, bint tolerant):
        """Whether transactions continue without the messages that the broker refuses for their
        content (control thread)."""
        cdef EngineHandle alive = self._alive()
        kn_engine_transaction_tolerate(alive.engine, tolerant)

    def transaction_close(self):
        """Accept no further messages (control thread). The accepted ones are still sent."""
        cdef EngineHandle alive = self._alive()
        kn_engine_transaction_close(alive.engine)

    def transaction_admit(self, str topic not None, int32_t partition, int64_t number):
        """Allow the partition's queued messages to be sent in this transaction (control thread).

        It has no effect if the transaction is no longer the current one.
        """
        cdef Topic found = self.topic_at(topic)
        cdef EngineHandle alive = self._alive()
        cdef kn_engine *engine = alive.engine
        with nogil:
            kn_engine_transaction_admit(engine, found.topic, partition, number)

    def expire(self):
        """Fail messages that are older than message.timeout.ms, and trim idle memory.

        The control thread calls it about once a second.
        """
        cdef EngineHandle alive = self._alive()
        cdef kn_engine *engine = alive.engine
        with nogil:
            kn_engine_expire(engine, kn_clock_us())

    @property
    def outstanding(self):
        """The number of messages queued or in flight, plus unserved delivery reports."""
        cdef EngineHandle handle = handle_of(self)
        return 0 if handle.engine == NULL else kn_engine_outstanding(handle.engine)

    @property
    def unsettled(self):
        """The number of messages queued or in flight."""
        cdef EngineHandle handle = handle_of(self)
        return 0 if handle.engine == NULL else kn_engine_unsettled(handle.engine)

    @property
    def memory(self):
        """``(queued, idle)``: the bytes of fetched and unconsumed data, and of unused buffers."""
        cdef int64_t queued = 0
        cdef int64_t idle = 0
        cdef EngineHandle handle = handle_of(self)
        if handle.engine != NULL:
            kn_engine_memory(handle.engine, &queued, &idle)
        return queued, idle

    # --- consuming ---

    def cursor(self, str topic not None, bytes topic_id not None, int32_t partition):
        """Return a new `Cursor`, which doesn't fetch yet (control thread)."""
        cdef Cursor cursor
        if not self.free_tokens:
            cursor = _new_cursor(self, topic, topic_id, partition, len(self.cursors) + 1)
            self.cursors.append(cursor)
            return cursor
        token, epoch = self.free_tokens[-1]
        cursor = _new_cursor(self, topic, topic_id, partition, token)
        # An event of the token's last cursor has an older epoch. A segment refers to its own
        # cursor.
        kn_cursor_set_epoch(cursor.cursor, epoch)
        self.free_tokens.pop()
        self.cursors[token - 1] = cursor
        return cursor

    def drop_cursor(self, Cursor cursor not None):
        """Stop a cursor for good and forget it (control thread)."""
        if self.cursors[cursor.token - 1] is not cursor:
            return
        cursor.stop()
        self.cursors[cursor.token - 1] = None
        self.free_tokens.append((cursor.token, cursor.epoch + 1 & 0xFFFFFFFF))


cdef Topic _bind_topic(Topic topic, Engine owner, str name):
    # Under the engine's lock. It makes no object.
    cdef EngineHandle alive
    cdef Py_ssize_t size
    cdef const char *text = PyUnicode_AsUTF8AndSize(name, &size)
    if size > 32767:
        raise ValueError(f"a topic's name has 1 to 249 characters, this one {len(name)}")
    topic.owner = owner
    topic.name = name
    alive = owner._alive()
    topic.topic = kn_producer_topic(&alive.engine.producer, text, <int32_t>size, len(owner.topics) + 1)
    if topic.topic == NULL:
        raise MemoryError
    return topic


@cython.final
cdef class Topic:
    """A topic of the producer. `Engine.topic()` makes it.

    The control plane sets the leaders of its partitions.
    """

    def __cinit__(self, by):
        if by is not BY_THE_ENGINE:
            raise TypeError("a Topic is made by Engine.topic()")

    def set_partitions(self, bytes topic_id not None, list leaders not None, list epochs not None):
        """Set the partitions. ``leaders`` has a broker handle for each, or -1 for none.

        Staged records move to their partitions.
        """
        cdef EngineHandle alive = self.owner._alive()
        cdef kn_engine *engine = alive.engine
        cdef int32_t count = len(leaders)
        cdef kn_broker **brokers
        cdef int32_t *leader_epochs
        cdef const uint8_t *id_data = <const uint8_t *>PyBytes_AS_STRING(topic_id)
        cdef int status
        if len(topic_id) != 16 or len(epochs) != count:
            raise ValueError("a topic id has 16 bytes, and each partition has a leader and an epoch")
        brokers = <kn_broker **>malloc((count + 1) * sizeof(kn_broker *))
        leader_epochs = <int32_t *>malloc((count + 1) * sizeof(int32_t))
        try:
            if brokers == NULL or leader_epochs == NULL:
                raise MemoryError
            for i in range(count):
                brokers[i] = NULL if leaders[i] < 0 else kn_engine_broker(engine, leaders[i])
                leader_epochs[i] = epochs[i]
            with nogil:
                status = kn_topic_set_partitions(self.topic, id_data, count, brokers, leader_epochs)
        finally:
            free(brokers)
            free(leader_epochs)
        self.owner._check(status)

    def fail(self, int status, int error_code, str text not None):
        """Deliver all messages that wait for the topic with this error."""
        cdef bytes data = text.encode()
        cdef const char *error_text = data
        cdef EngineHandle _alive = self.owner._alive()
        with nogil:
            kn_topic_fail(self.topic, status, error_code, error_text)

    def refuse(self):
        """Refuse further messages with _UNKNOWN_TOPIC until the topic has partitions."""
        cdef EngineHandle _alive = self.owner._alive()
        kn_topic_refuse(self.topic)

    def fail_unknown(self, double before):
        """Fail messages that were staged before a time for partitions that don't exist.

        ``before`` is in `time.monotonic()`. The error is _UNKNOWN_PARTITION. Returns whether
        messages are left.
        """
        cdef int64_t before_us = <int64_t>(before * 1e6)
        cdef int left
        cdef EngineHandle _alive = self.owner._alive()
        with nogil:
            left = kn_topic_fail_unknown(self.topic, before_us)
        return bool(left)

    def used_since(self, double since):
        """Whether messages wait, or some were queued since a time (`time.monotonic()`)."""
        cdef int64_t since_us = <int64_t>(since * 1e6)
        cdef EngineHandle _alive = self.owner._alive()
        return bool(kn_topic_used_since(self.topic, since_us))

    def forget(self):
        """Withdraw the partitions until the next `set_partitions()`: later messages are staged.

        False, and nothing happens, if messages wait.
        """
        cdef EngineHandle _alive = self.owner._alive()
        return bool(kn_topic_forget(self.topic))

    def __repr__(self):
        return f"Topic({self.name!r})"


cdef Cursor _new_cursor(Engine owner, str topic, bytes topic_id, int32_t partition, uint64_t token):
    cdef Cursor cursor = Cursor.__new__(Cursor, BY_THE_ENGINE)
    cdef EngineHandle alive
    cdef Py_ssize_t size
    cdef const char *text = PyUnicode_AsUTF8AndSize(topic, &size)
    if len(topic_id) != 16:
        raise ValueError("a topic id has 16 bytes")
    cursor.owner = owner
    cursor.topic = topic
    cursor.partition = partition
    cursor.topic_id = topic_id
    cursor._position = -1001
    cursor._position_epoch = -1
    cursor.broker = -1
    cursor.token = token
    alive = owner._alive()
    cursor.cursor = kn_cursor_new(&alive.engine.consumer, text, <int32_t>size, <const uint8_t *>PyBytes_AS_STRING(topic_id), partition, token)
    if cursor.cursor == NULL:
        raise MemoryError
    return cursor


@cython.final
cdef class Cursor:
    """A partition that is consumed. `Engine.cursor()` makes it.

    Thread: the control thread. The application's thread moves the position, unless a new fetch
    epoch has begun.
    """

    def __cinit__(self, by):
        if by is not BY_THE_ENGINE:
            raise TypeError("a Cursor is made by Engine.cursor()")

    def __dealloc__(self):
        kn_cursor_unref(self.cursor)

    @property
    def position(self):
        """The next offset that the application gets, or -1001 before the first."""
        cdef int64_t position
        kn_object_lock_take(&self.lock)
        position = self._position
        kn_object_lock_release(&self.lock)
        return position

    @position.setter
    def position(self, int64_t position):
        kn_object_lock_take(&self.lock)
        self._position = position
        kn_object_lock_release(&self.lock)

    @property
    def position_epoch(self):
        """The leader epoch of the last delivered batch, or -1 if unknown."""
        cdef int epoch
        kn_object_lock_take(&self.lock)
        epoch = self._position_epoch
        kn_object_lock_release(&self.lock)
        return epoch

    @position_epoch.setter
    def position_epoch(self, int epoch):
        kn_object_lock_take(&self.lock)
        self._position_epoch = epoch
        kn_object_lock_release(&self.lock)

    cdef unsigned int _next_epoch(self) noexcept:
        # Later calls of `move_position()` for older segments have no effect.
        cdef unsigned int epoch
        kn_object_lock_take(&self.lock)
        epoch = kn_cursor_next_epoch(self.cursor)
        kn_object_lock_release(&self.lock)
        return epoch

    def start(self, int broker, int64_t offset, int leader_epoch):
        """Fetch from ``offset`` at ``broker`` from now on, and return the fetch epoch.

        Data that was fetched before is dropped.
        """
        cdef EngineHandle alive = self.owner._alive()
        cdef kn_engine *engine = alive.engine
        cdef unsigned int epoch
        if self.broker >= 0 and self.broker != broker:
            self.owner._check(kn_engine_fetch_stop(engine, self.cursor, self.broker))
        epoch = self._next_epoch()
        self.broker = broker
        self.owner._check(kn_engine_fetch_start(engine, self.cursor, broker, epoch, offset, leader_epoch))
        return epoch

    def stop(self):
        """Stop fetching. Fetched data that was not delivered is dropped."""
        cdef EngineHandle handle = handle_of(self.owner)
        self._next_epoch()
        if self.broker >= 0 and handle.engine != NULL and not kn_flag_is_set(&self.owner.is_closed):
            kn_engine_fetch_stop(handle.engine, self.cursor, self.broker)
        self.broker = -1

    def move(self, int broker, int64_t offset, int leader_epoch, unsigned int epoch):
        """Continue to fetch at ``offset`` in the same fetch epoch, for a new leader or a retry.

        Fetched data stays valid. Returns False if the epoch is no longer current.
        """
        cdef EngineHandle alive = self.owner._alive()
        cdef kn_engine *engine = alive.engine
        if epoch != kn_cursor_epoch(self.cursor):
            return False
        if self.broker >= 0 and self.broker != broker:
            self.owner._check(kn_engine_fetch_stop(engine, self.cursor, self.broker))
        self.broker = broker
        self.owner._check(kn_engine_fetch_start(engine, self.cursor, broker, epoch, offset, leader_epoch))
        return True

    @property
    def epoch(self):
        """The current fetch epoch."""
        return kn_cursor_epoch(self.cursor)

    @property
    def answered(self):
        """Whether a leader has answered since `start()`, so that its offset belongs to this topic.
        """
        return kn_cursor_is_answered(self.cursor)

    def leave_route(self):
        """Send later segments to the consumer again, not to a partition's queue."""
        kn_cursor_set_route(self.cursor, NULL)

    def forget_answer(self):
        """Make `answered` False until a leader answers again. Only while the cursor is stopped."""
        kn_cursor_forget_answer(self.cursor)

    @property
    def high_watermark(self):
        """The high watermark of the last fetch, or -1001 before it."""
        return kn_cursor_high_watermark(self.cursor)

    @property
    def last_stable_offset(self):
        """The last stable offset of the last fetch, or -1001 before it.

        No transaction before it is open.
        """
        return kn_cursor_last_stable_offset(self.cursor)

    @property
    def log_start_offset(self):
        """The log start offset of the last fetch, or -1001 before it."""
        return kn_cursor_log_start_offset(self.cursor)

    def __repr__(self):
        return f"Cursor({self.topic!r}, {self.partition}, position={self._position})"


def live_objects():
    """Return the number of live C objects of each kind in this process, for leak checks."""
    return {
        "batches": kn_batch_live(),
        "buffers": kn_buffer_live(),
        "builders": kn_builder_live(),
        "chunks": kn_chunk_live(),
        "columns": kn_columns_live(),
        "cursors": kn_cursor_live(),
        "engines": kn_engine_live(),
        "layouts": kn_layout_live(),
        "nested_types": kn_nested_type_live(),
        "segments": kn_segment_live(),
        "counters": kn_delivery_counter_live(),
    }
