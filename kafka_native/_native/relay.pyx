# cython: freethreading_compatible=False
"""Record batches from a consumer to a producer.

csrc/engine/relay.h says which batches are opened.

Thread: the application's. Batches are queued without the interpreter lock. Only one thread at a
time may use a `Relay`.
"""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t

from kafka_native._native.arrow_report cimport ArrowReport
from kafka_native._native.consumer_core cimport ConsumerCore, PositionTaker
from kafka_native._native.delivery_core cimport DeliveryCore, list_of_runs
from kafka_native._native.engine cimport EngineHandle, Topic, handle_of, seconds
from kafka_native._native.kn_engine cimport *
from kafka_native._native.kn_enums cimport *
from kafka_native._native.kn_records cimport *


@cython.final
cdef class FetchedBatches:
    """Fetched record batches of one partition, and the other results of a `take_batches()`.

    Only one `Relay` may take them.
    """

    cdef kn_fetched_batches *fetched
    cdef readonly dict positions  # (topic, partition) -> the next offset
    cdef list messages  # ends of partitions
    cdef readonly bint ended  # whether wakeup() or close() ended the call

    def __dealloc__(self):
        kn_fetched_batches_free(self.fetched)

    def __bool__(self):
        """Return whether there are batches."""
        return self.fetched != NULL

    @property
    def ends(self):
        """Ends of partitions that were reached (``enable.partition.eof``):

        (topic, partition, offset).
        """
        return [(end.topic(), end.partition(), end.offset()) for end in self.messages]


@cython.final
cdef class BatchTaker(PositionTaker):
    """Takes the batches of one segment, for one call."""

    cdef FetchedBatches into

    cdef int take(self, ConsumerCore core) except -1:
        while not self.enough:
            if core.engine.notices:
                self.take_error(core)
                continue
            if core._segment != NULL and kn_segment_is_stale(core._segment):
                core._drop_segment()
            if core._segment == NULL and not core._next_segment():
                self.check_fatal(core)
                return 0
            if core._segment.kind == KN_SEGMENT_DATA:
                self._take_segment(core)
            else:
                self.take_error(core)
        return 0

    cdef int _take_segment(self, ConsumerCore core) except -1:
        cdef kn_segment *segment = core._segment
        cdef kn_fetched_batches *fetched = kn_fetched_batches_take(segment)
        if fetched == NULL:
            raise MemoryError
        self.into.fetched = fetched
        if fetched.count:
            core._cursor.position_epoch = fetched.batches[fetched.count - 1].view.partition_leader_epoch
        if segment.next_offset > core._cursor.position:
            core._cursor.position = segment.next_offset
        key = (core._cursor.topic, core._cursor.partition)
        self.first[key] = segment.fetch_offset
        self.positions[key] = core._cursor.position
        core._drop_segment()
        self.in_hand = self.enough = True
        return 0


def take_batches(ConsumerCore core not None, double timeout):
    """Return the next `FetchedBatches` of a consumer that keeps batches (`_keep_batches()`).

    ``timeout`` is in seconds. Errors of partitions are raised as in `consume_arrow()`.
    """
    cdef BatchTaker taker = BatchTaker.__new__(BatchTaker)
    cdef FetchedBatches batches = FetchedBatches.__new__(FetchedBatches)
    if not core._keeps_batches:
        raise RuntimeError("this consumer opens batches: it has none to take")
    taker.into = batches
    batches.positions = taker.positions
    batches.messages = taker.ends
    core._gather(taker, seconds(timeout), True)
    batches.ended = taker.ended
    return batches


@cython.final
cdef class Relay:
    """Queues batches for one partition of a topic, in order, with one report for all of them.

    The report comes after `close()` and the last outcome. The end of a ``with`` block closes the
    relay.
    """

    cdef DeliveryCore core
    cdef Topic topic
    cdef ArrowReport report
    cdef kn_relay relay
    cdef EngineHandle handle  # until close()
    cdef bint running

    def __cinit__(self, DeliveryCore core not None, str topic not None, int partition):
        # `core` is an open producer.
        cdef void *binding
        if partition < 0:
            raise ValueError(f"partition must be 0 or more, not {partition}")
        core._check_open()
        self.topic = core.engine.topic_at(topic)
        self.report = ArrowReport.__new__(ArrowReport)
        self.report.callback = _ignore_report
        self.handle = core.engine._alive()
        self.relay.engine = self.handle.engine
        self.relay.topic = self.topic.topic
        self.relay.partition = partition
        binding = core._callbacks.hold(self.report, 1)
        self.relay.counter = kn_delivery_counter_new(&self.handle.engine.counters, binding)
        if self.relay.counter == NULL:
            core._callbacks.take(binding)
            raise MemoryError
        self.relay.counter.keeps_runs = 1
        self.core = core

    def __dealloc__(self):
        with nogil:
            kn_relay_deinit(&self.relay)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __del__(self):
        self.close()

    cdef int _check(self) except -1:
        if self.running:
            raise RuntimeError("another thread is using this relay")
        if self.relay.counter == NULL:
            raise RuntimeError("the relay is closed")
        self.core._check_open()
        return 0

    def give(self, FetchedBatches batches not None, int64_t first, int64_t end):
        """Set the batches to queue next. `run()` must have queued the ones before.

        Only records with offsets from ``first`` to before ``end`` are queued.
        """
        cdef kn_fetched_batches *fetched = batches.fetched
        self._check()
        if self.relay.fetched != NULL:
            raise RuntimeError("the previous batches aren't queued yet")
        batches.fetched = NULL
        if fetched != NULL:
            kn_relay_give(&self.relay, fetched, first, end)

    def run(self, int64_t count_max, double timeout):
        """Queue up to ``count_max`` records of the current batches. Returns True if all are queued.

        It waits for room for at most ``timeout`` seconds.
        """
        cdef int64_t deadline = kn_deadline_us(max(timeout, 0.0))
        cdef int status
        self._check()
        self.running = True
        with nogil:
            status = kn_relay_run_waiting(&self.relay, count_max, deadline)
        self.running = False
        PyErr_CheckSignals()
        if status == KN_ERR_FULL and self.relay.never_fits:
            raise BufferError(f"Local: Queue full: the record at offset {self.relay.offset} is larger than queue.buffering.max.kbytes")
        if status != KN_OK and status != KN_ERR_FULL and status != KN_ERR_INTERRUPTED:
            raise self.core._refusal(status, None, f"the record at offset {self.relay.offset} can't be relayed")
        return self.relay.fetched == NULL

    def close(self):
        """Drop the current batches, and send the queued ones. A second call does nothing."""
        cdef kn_delivery_counter *counter = self.relay.counter
        if counter == NULL or self.running:
            return
        self.relay.counter = NULL
        kn_relay_give(&self.relay, NULL, 0, 0)
        if self.handle.engine != NULL:  # the counter is freed with its engine
            self.core._end_counter(counter, self.report, self.relay.rows, True)
        self.handle = None

    @property
    def rows(self):
        """The number of queued records."""
        return self.relay.rows

    @property
    def bytes(self):
        """The bytes of the queued records.

        A whole batch counts with its size, compressed or not. Another record counts with its key,
        value and headers.
        """
        return self.relay.bytes

    @property
    def runs(self):
        """The source offsets of the queued records: (row, offset, length).

        Row 0 is the first record.
        """
        return list_of_runs(&self.relay.runs)

    @property
    def placed(self):
        """The new offsets of the records:

        (row, offset, length), as far as the broker returned them.

        It is empty until all records have an outcome.
        """
        return self.report.placed_runs()

    @property
    def delivered(self):
        """The number of acknowledged records. It is 0 until all records have an outcome."""
        return self.report.delivered

    @property
    def error(self):
        """The KafkaError of the first record that poll() has reported as failed, or None."""
        return self.report.error


def _ignore_report(report):
    """Ignore the callback: the caller reads the relay's report itself."""
