# cython: freethreading_compatible=False
"""DeliveryCore: poll(), flush() and delivery reports; `producing.ProducerCore` derives from it.

Thread: any, under the interpreter lock; waiting releases it.
"""
cimport cython
from cpython.ref cimport Py_DECREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafka_native._native.kn_engine cimport *
from kafka_native._native.kn_records cimport *
from kafka_native._native.message cimport (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Batch,
    Message,
    message_of,
)


@cython.no_gc_clear
cdef class DeliveryCore:
    """What a producer does with the outcome of messages."""

    cdef bint _next_batch(self) except -1:
        # Opens the next delivered batch; False when there is none.
        cdef kn_batch_view view
        cdef kn_chunk *chunk
        cdef kn_batch *batch = <kn_batch *>kn_queue_pop(&self.engine.engine.deliveries)
        if batch == NULL:
            return False
        self._batch = batch
        self._index = 0
        self._batch_topic = (<bytes>batch.topic.name[:batch.topic.name_bytes]).decode()
        self._batch_error = None
        if batch.status != KN_OK or batch.error_code != 0:
            text = None if batch.error_text == NULL else (<bytes>batch.error_text).decode("utf-8", "replace")
            self._batch_error = self.engine.error_of(batch.status, batch.error_code, text)
        # Not by the header: a batch that failed early never got one.
        if kn_batch_view_plain(batch, &view) != KN_OK or kn_record_reader_init(&self._reader, &view) != KN_OK:
            raise SystemError("a delivered batch can't be read back")
        chunk = kn_chunk_new(batch.plain)
        if chunk == NULL:
            raise MemoryError
        self._shared = Batch.of(chunk, self._batch_topic, batch.partition)
        self._shared.error = self._batch_error
        self._shared.latency_s = (batch.acked_us - batch.created_us) / 1e6
        if batch.log_append_time_ms < 0:
            self._shared.created_ms = batch.created_ms
        self._shared.timestamp_type = TIMESTAMP_CREATE_TIME if batch.log_append_time_ms < 0 else TIMESTAMP_LOG_APPEND_TIME
        if batch.base_offset >= 0:
            self._shared.base_offset = batch.base_offset
        # The chunk's now: Messages may outlive the batch.
        if batch.wire == batch.plain:
            batch.wire = NULL
        batch.plain = NULL
        return True

    cdef _finish_batch(self):
        cdef kn_batch *batch = self._batch
        self._batch = NULL
        self._shared = None
        self._batch_error = None
        kn_engine_delivered(self.engine.engine, batch)

    cdef Message _message_of(self, kn_batch *batch, int32_t index, const uint8_t *start, kn_record *record):
        cdef Batch shared = self._shared
        if batch.partitions != NULL and batch.partitions[index] != shared.partition:
            # Staged messages that never got to a partition's own batch: the partition is each one's own.
            self._shared = shared = shared.copy()
            shared.partition = batch.partitions[index]
        if batch.log_append_time_ms >= 0:
            record.timestamp_ms = batch.log_append_time_ms
        record.offset = shared.base_offset + index if batch.base_offset >= 0 else shared.base_offset
        return message_of(shared, start, record)

    cdef int _serve(self) except -1:
        # Runs every callback that is due. A callback that raises ends it: the rest waits for the next call.
        cdef int served = 0
        cdef kn_batch *batch
        cdef kn_record record
        cdef const uint8_t *start
        cdef int32_t index
        while self.engine.callbacks:
            self.engine.callbacks.popleft()()
            served += 1
        while self.engine.engine != NULL:
            if self._batch == NULL and not self._next_batch():
                return served
            batch = self._batch
            index = self._index
            if index >= batch.writer.record_count:
                self._finish_batch()
                continue
            start = self._reader.span.at
            if kn_record_reader_next(&self._reader, &record) != KN_OK:
                raise SystemError("a delivered batch can't be read back")
            self._index = index + 1
            callback = self._on_delivery
            if batch.opaques != NULL and batch.opaques[index] != NULL:
                callback = <object><PyObject *>batch.opaques[index]
                Py_DECREF(callback)  # the engine's reference
                batch.opaques[index] = NULL
            if callback is None or (self.engine.engine.config.report_errors_only and self._batch_error is None):
                continue
            served += 1
            callback(self._batch_error, self._message_of(batch, index, start, &record))
        return served

    def poll(self, double timeout=-1):
        """Serves delivery reports and other callbacks.

        Parameters
        ----------
        timeout : float
            Seconds to wait for the first event; 0 doesn't wait, negative waits for ever.

        Returns
        -------
        int
            How many callbacks were made. An exception raised in a callback comes out of here; the remaining reports wait for the next call.
        """
        cdef int served
        cdef int64_t deadline_us
        self._check_open()
        served = self._serve()
        if served or timeout == 0:
            return served
        deadline_us = kn_clock_us() + <int64_t>(timeout * 1e6)
        while not served:
            left = -1.0 if timeout < 0 else (deadline_us - kn_clock_us()) / 1e6
            if timeout >= 0 and left <= 0:
                break
            self.engine.wait(&self.engine.engine.deliveries, left)
            if self.engine.engine == NULL or self.engine.closed:
                break
            served = self._serve()
        return served

    def flush(self, double timeout=-1):
        """Sends everything that is queued without lingering, and serves callbacks until nothing is outstanding.

        Parameters
        ----------
        timeout : float
            Seconds; negative waits for ever.

        Returns
        -------
        int
            Messages still queued or in flight.
        """
        cdef int64_t deadline_us
        self._check_open()
        deadline_us = kn_clock_us() + <int64_t>(timeout * 1e6)
        kn_engine_flush_begin(self.engine.engine)
        try:
            while True:
                self._serve()
                if kn_engine_outstanding(self.engine.engine) == 0:
                    break
                left = -1.0 if timeout < 0 else (deadline_us - kn_clock_us()) / 1e6
                if timeout >= 0 and left <= 0:
                    break
                self.engine.wait(&self.engine.engine.deliveries, left)
                if self.engine.engine == NULL:
                    return 0
                if self.engine.closed:
                    break
        finally:
            if self.engine.engine != NULL:
                kn_engine_flush_end(self.engine.engine)
                if self.engine.waiting:
                    self.engine.kick()  # a wake-up ends one wait: pass it on
        return kn_engine_outstanding(self.engine.engine)

    cdef _check_open(self):
        if self._closed or self.engine is None or self.engine.engine == NULL:
            raise RuntimeError("Producer has been closed")

    def _mark_closed(self):
        """No further produce(), and none that waits for room; the public class's close() calls it first."""
        self._closed = True
        if self.engine is not None:
            self.engine.kick()

    def _serve_last(self):
        """After the engine has stopped: makes the callbacks of what was given up."""
        self._serve()

    def _drain(self):
        """After the engine has stopped: gives every callback's reference back and frees the batches. Nothing is called."""
        cdef kn_batch *batch
        cdef int32_t i
        while self.engine is not None and self.engine.engine != NULL:
            batch = self._batch if self._batch != NULL else <kn_batch *>kn_queue_pop(&self.engine.engine.deliveries)
            if batch == NULL:
                break
            self._batch = NULL
            if batch.opaques != NULL:
                for i in range(batch.writer.record_count):
                    if batch.opaques[i] != NULL:
                        callback = <object><PyObject *>batch.opaques[i]
                        batch.opaques[i] = NULL
                        Py_DECREF(callback)
            kn_engine_delivered(self.engine.engine, batch)
        self._shared = None

    def __len__(self):
        """Messages queued or in flight, and delivery reports not served yet."""
        return 0 if self.engine is None else self.engine.outstanding

    def __bool__(self):
        return True
