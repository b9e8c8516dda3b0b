# cython: freethreading_compatible=False
"""ConsumerCore: poll(), consume() and iteration over fetched segments. The public `kafka_native.Consumer` derives from it.

Thread: one application thread at a time, under the interpreter lock; waiting releases it.
"""
from libc.stdint cimport int64_t, uint8_t, uint64_t

from kafka_native._native.engine cimport Cursor, Engine
from kafka_native._native.kn_engine cimport *
from kafka_native._native.kn_records cimport *
from kafka_native._native.message cimport (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Batch,
    Message,
    error_message_of,
    error_of_message,
    legacy_message_of,
    message_of,
)


cdef class ConsumerCore:
    """The compiled half of `kafka_native.Consumer`."""

    cdef readonly Engine engine
    cdef object _error_for  # (end of partition?, status, error_code, cursor, offset, next_offset) -> KafkaError
    cdef object _exception_of  # (KafkaError) -> the exception that iteration raises, None to go on
    cdef bint _closed
    # The segment being handed out, and where in it we are.
    cdef kn_segment *_segment
    cdef Cursor _cursor
    cdef Batch _batch
    cdef kn_record_reader _reader
    cdef bint _reading

    def _open(self, Engine engine not None, error_for not None, exception_of not None):
        """Called once by the constructor of the public class."""
        self.engine = engine
        self._error_for = error_for
        self._exception_of = exception_of

    def __dealloc__(self):
        # The engine is still there: this object holds a reference to it.
        if self._segment != NULL and self.engine is not None and self.engine.engine != NULL:
            kn_segment_free(self._segment)

    cdef void _drop_segment(self) noexcept:
        kn_segment_free(self._segment)
        self._segment = NULL
        self._reading = False
        self._cursor = None
        self._batch = None

    cdef bint _next_segment(self) except -1:
        # Makes the next segment that isn't stale the current one; False when none is queued.
        cdef uint64_t token
        while True:
            self._segment = <kn_segment *>kn_queue_pop(&self.engine.engine.fetched)
            if self._segment == NULL:
                return False
            token = self._segment.cursor.token
            self._cursor = self.engine.cursors[token - 1]
            if self._cursor is not None and not kn_segment_is_stale(self._segment):
                return True
            self._drop_segment()

    cdef Message _notice(self):
        # An end of partition, or a batch that can't be used, as a Message with an error.
        cdef kn_segment *segment = self._segment
        cdef Message message
        at_end = segment.kind == KN_SEGMENT_EOF
        error = self._error_for(at_end, segment.status, segment.error_code, self._cursor, segment.fetch_offset, segment.next_offset)
        message = error_message_of(self._cursor.topic, self._cursor.partition, segment.fetch_offset, error)
        self._drop_segment()
        return message

    cdef bint _next_batch(self) except -1:
        # Opens the segment's next batch; False at its end, where the position moves past what was not for us (markers, gaps).
        cdef kn_segment *segment = self._segment
        cdef kn_segment_batch *batch
        if segment.batch_next == segment.batch_count:
            if segment.next_offset > self._cursor.position:
                self._cursor.position = segment.next_offset
            return False
        batch = &segment.batches[segment.batch_next]
        segment.batch_next += 1
        self._batch = Batch.of(kn_chunk_ref(batch.chunk), self._cursor.topic, self._cursor.partition)
        self._batch.base_offset = batch.view.base_offset
        self._batch.leader_epoch = batch.view.partition_leader_epoch
        self._cursor.position_epoch = batch.view.partition_leader_epoch
        at_append = batch.view.attributes & KN_ATTR_LOG_APPEND_TIME
        self._batch.timestamp_type = TIMESTAMP_LOG_APPEND_TIME if at_append else TIMESTAMP_CREATE_TIME
        if kn_record_reader_init(&self._reader, &batch.view) != KN_OK:
            return self._next_batch()
        self._reading = True
        return True

    cdef int _take(self, list into, Py_ssize_t most) except -1:
        # Appends up to `most` messages of what is queued.
        cdef kn_record record
        cdef int status
        cdef Cursor cursor
        cdef int64_t from_offset
        cdef const uint8_t *start
        cdef Batch of_batch
        while self.engine.notices and len(into) < most:
            notice = self.engine.notices.popleft()
            into.append(error_message_of(notice[0], notice[1], notice[2], notice[3]))
        if self._segment != NULL and kn_segment_is_stale(self._segment):
            self._drop_segment()
        while len(into) < most:
            if self._segment == NULL and not self._next_segment():
                return 0
            if self._segment.kind != KN_SEGMENT_DATA:
                into.append(self._notice())
                continue
            if not self._reading and not self._next_batch():
                self._drop_segment()
                continue
            cursor = self._cursor
            of_batch = self._batch
            from_offset = self._segment.fetch_offset
            while len(into) < most:
                start = self._reader.span.at
                status = kn_record_reader_next(&self._reader, &record)
                if status != KN_OK:
                    self._reading = False
                    if status != KN_ERR_TRUNCATED:
                        into.append(self._malformed(status))
                    break
                if record.offset < from_offset:
                    continue
                cursor.position = record.offset + 1
                if self._reader.view.magic == 2:
                    into.append(message_of(of_batch, start, &record))
                else:
                    into.append(legacy_message_of(of_batch, &record))
        return 0

    cdef Message _malformed(self, int status):
        # Records that don't parse although the checksum holds: the rest of the batch is unusable, the next one follows.
        cdef int64_t next_offset = self._segment.batches[self._segment.batch_next - 1].view.last_offset + 1
        cdef int64_t offset = self._cursor.position
        error = self._error_for(False, status, 0, self._cursor, offset, next_offset)
        self._cursor.position = next_offset
        return error_message_of(self._cursor.topic, self._cursor.partition, offset, error)

    cdef _check_open(self):
        if self._closed or self.engine is None or self.engine.engine == NULL:
            raise RuntimeError("Consumer closed")

    cdef _serve_callbacks(self):
        while self.engine.callbacks:
            self.engine.callbacks.popleft()()

    cdef list _collect(self, Py_ssize_t most, double timeout):
        cdef int64_t deadline_us = 0
        cdef list messages = []
        cdef double left
        self._check_open()
        self._serve_callbacks()
        self._take(messages, most)
        if len(messages) == most or timeout == 0:
            return messages
        deadline_us = kn_clock_us() + <int64_t>(timeout * 1e6)
        while len(messages) < most:
            left = -1.0 if timeout < 0 else (deadline_us - kn_clock_us()) / 1e6
            if timeout >= 0 and left <= 0:
                break
            self.engine.wait(&self.engine.engine.fetched, left)
            if self._closed or self.engine.engine == NULL:
                break
            self._serve_callbacks()
            self._take(messages, most)
        return messages

    def poll(self, timeout=None):
        """The next message.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait for it; None or negative waits for ever, 0 doesn't wait.

        Returns
        -------
        Message or None
            None when the time is up. Check `Message.error()`: ends of partition (``enable.partition.eof``) and fetch errors come as Messages, too.
        """
        cdef list messages = self._collect(1, -1.0 if timeout is None else timeout)
        return messages[0] if messages else None

    def consume(self, num_messages=1, timeout=-1):
        """Up to ``num_messages`` messages, waiting up to ``timeout`` seconds (negative: for ever) until there are that many.

        Returns
        -------
        list of Message
            Possibly empty. ValueError unless 0 <= num_messages <= 1,000,000.
        """
        if not 0 <= num_messages <= 1000000:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        return self._collect(num_messages, -1.0 if timeout is None else timeout)

    def __iter__(self):
        return self

    def __next__(self):
        """Waits for the next message that is no error; a fetch error is raised as KafkaException. Ends when the consumer is closed."""
        cdef Message message
        while not self._closed:
            message = self.poll()
            if message is None:
                continue
            if error_of_message(message) is None:
                return message
            exception = self._exception_of(error_of_message(message))
            if exception is not None:
                raise exception
        raise StopIteration

    def _mark_closed(self):
        """Ends waits; the public class's close() calls it first."""
        self._closed = True
        if self.engine is not None:
            self.engine.kick()

    def _drain(self):
        """After the engine has stopped: frees what was fetched and not handed out."""
        if self.engine is None or self.engine.engine == NULL:
            return
        if self._segment != NULL:
            self._drop_segment()
        while True:
            self._segment = <kn_segment *>kn_queue_pop(&self.engine.engine.fetched)
            if self._segment == NULL:
                break
            self._drop_segment()
