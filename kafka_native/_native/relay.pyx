# cython: freethreading_compatible=True
"""Record batches from a consumer to a producer.

csrc/engine/relay.h says which batches are opened.

Thread: the application's. Batches are queued without the interpreter lock. Only one thread at a
time may use a `Relay`: a call in a second thread raises a RuntimeError.
"""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t

from kafka_native._native.arrow_report cimport ArrowReport
from kafka_native._native.consumer_core cimport ConsumerCore, PositionTaker
from kafka_native._native.delivery_core cimport DeliveryCore, list_of_runs
from kafka_native._native.engine cimport Cursor, EngineHandle, Topic, note_epoch, pass_end, seconds
from kafka_native._native.free_threading cimport *
from kafka_native._native.kn_engine cimport *
from kafka_native._native.kn_enums cimport *
from kafka_native._native.kn_records cimport *


@cython.final
cdef class FetchedBatches:
    """Fetched record batches of one partition, and the other results of a `take_batches()`.

    Only one `Relay` may take them.
    """

    cdef kn_fetched_batches *fetched
    cdef char guard  # of `fetched`
    cdef readonly dict positions  # (topic, partition) -> the next offset
    cdef list messages  # ends of partitions
    cdef readonly bint ended  # whether wakeup() or close() ended the call

    def __dealloc__(self):
        kn_fetched_batches_free(self.fetched)

    cdef kn_fetched_batches *exchange(self, kn_fetched_batches *fetched) noexcept:
        # Set other batches, and return the ones before.
        cdef kn_fetched_batches *before
        kn_guard_lock(&self.guard)
        before = self.fetched
        self.fetched = fetched
        kn_guard_unlock(&self.guard)
        return before

    def __bool__(self):
        """Return whether there are batches."""
        cdef bint found
        kn_guard_lock(&self.guard)
        found = self.fetched != NULL
        kn_guard_unlock(&self.guard)
        return found

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
        cdef bint found
        while not self.enough:
            if core.engine.notices:
                self.take_error(core)
                continue
            kn_object_lock_take(&core._lock)
            try:
                found = core._may_take() and self._find_segment(core)
                if found and core._segment.kind == KN_SEGMENT_DATA:
                    self._take_segment(core)
            finally:
                kn_object_lock_release(&core._lock)
            if not found:
                self.check_fatal(core)
                return 0
            if not self.enough:
                self.take_error(core)
        return 0

    cdef bint _find_segment(self, ConsumerCore core) except -1:
        # Under the core's lock, as _take_segment().
        if core._segment != NULL and kn_segment_is_stale(core._segment):
            core._drop_segment()
        return core._segment != NULL or core._next_segment(-1)

    cdef int _take_segment(self, ConsumerCore core) except -1:
        cdef kn_segment *segment = core._segment
        cdef Cursor cursor = core._cursor
        cdef kn_fetched_batches *fetched = kn_fetched_batches_take(segment)
        if fetched == NULL:
            raise MemoryError
        self.into.exchange(fetched)
        if fetched.count:
            note_epoch(cursor, segment, fetched.batches[fetched.count - 1].view.partition_leader_epoch)
        pass_end(cursor, segment)
        key = (cursor.topic, cursor.partition)
        self.first[key] = segment.fetch_offset
        self.positions[key] = cursor._position
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
    cdef bint in_use  # a flag: a thread uses the relay

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

    cdef int _acquire(self) except -1:
        if kn_flag_exchange(&self.in_use, True):
            raise RuntimeError("another thread is using this relay")
        return 0

    cdef void _release(self) noexcept:
        kn_flag_set(&self.in_use, False)

    cdef int _check(self) except -1:
        # The relay is acquired.
        if self.relay.counter == NULL:
            raise RuntimeError("the relay is closed")
        self.core._check_open()
        return 0

    def give(self, FetchedBatches batches not None, int64_t first, int64_t end):
        """Set the batches to queue next. `run()` must have queued the ones before.

        Only records with offsets from ``first`` to before ``end`` are queued.
        """
        cdef kn_fetched_batches *fetched
        self._acquire()
        try:
            self._check()
            if self.relay.fetched != NULL:
                raise RuntimeError("the previous batches aren't queued yet")
            fetched = batches.exchange(NULL)
            if fetched != NULL:
                kn_relay_give(&self.relay, fetched, first, end)
        finally:
            self._release()

    def run(self, int64_t count_max, double timeout):
        """Queue up to ``count_max`` records of the current batches. Returns True if all are queued.

        It waits for room for at most ``timeout`` seconds.
        """
        cdef int64_t deadline = kn_deadline_us(max(timeout, 0.0))
        cdef int status
        cdef bint never_fits, done
        cdef int64_t offset
        self._acquire()
        try:
            self._check()
            with nogil:
                status = kn_relay_run_waiting(&self.relay, count_max, deadline)
            done = self.relay.fetched == NULL
            offset = self.relay.offset
            never_fits = self.relay.never_fits
        finally:
            self._release()
        PyErr_CheckSignals()  # a handler may close the relay
        if status == KN_ERR_FULL and never_fits:
            raise BufferError(f"Local: Queue full: the record at offset {offset} is larger than queue.buffering.max.kbytes")
        if status != KN_OK and status != KN_ERR_FULL and status != KN_ERR_INTERRUPTED:
            raise self.core._refusal(status, None, f"the record at offset {offset} can't be relayed")
        return done

    def close(self):
        """Drop the current batches, and send the queued ones. A second call does nothing."""
        cdef kn_delivery_counter *counter
        cdef EngineHandle handle
        if kn_flag_exchange(&self.in_use, True):
            return
        try:
            counter = self.relay.counter
            if counter == NULL:
                return
            self.relay.counter = NULL
            kn_relay_give(&self.relay, NULL, 0, 0)
            handle, self.handle = self.handle, None
            if handle.engine != NULL:  # the counter is freed with its engine
                self.core._end_counter(counter, self.report, self.relay.rows, True)
        finally:
            self._release()

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
        self._acquire()
        try:
            return list_of_runs(&self.relay.runs)
        finally:
            self._release()

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
