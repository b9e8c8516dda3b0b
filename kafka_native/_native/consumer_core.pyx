# cython: freethreading_compatible=False
"""ConsumerCore: poll(), consume() and iteration over fetched segments. The public `kafka_native.Consumer` derives from it.

Thread: one application thread at a time, under the interpreter lock; waiting releases it. Several at once are safe: each message goes to one of them.
Wherever Python code may run (a callback, making a KafkaError, a wait), another thread, a signal handler or a nested call may take messages or end the
consumer, so nothing of the segment being handed out is kept in local variables across such a place.

Callbacks that are due are made before messages are taken, and never while messages are in hand: a partition that a callback gives away has no message
underway to the application.
"""
cimport cython
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kafka_native._native.engine cimport Cursor, Engine, seconds
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
    may_make_message,
    message_of,
    messages_of,
)

from kafka_native._native.message import Message as NewMessage

cdef unsigned long NOBODY = 0


cdef class Taker:
    """See consumer_core.pxd."""

    cdef int take(self, ConsumerCore core) except -1:
        raise NotImplementedError

    cdef int give_back(self, ConsumerCore core) except -1:
        raise NotImplementedError


cdef class PositionTaker(Taker):
    """See consumer_core.pxd."""

    def __cinit__(self):
        self.positions = {}
        self.first = {}
        self.ends = []

    cdef int check_fatal(self, ConsumerCore core) except -1:
        exception = core._fatal_of()
        if exception is not None:
            raise exception
        return 0

    cdef int take_error(self, ConsumerCore core) except -1:
        # The error that is next, raised; an end of partition that was given back is taken again.
        cdef Message message = core._one()
        if message is None:
            return 0
        error = error_of_message(message)
        if error is None:
            core._give_back([message])
            return 0
        exception = core._exception_of(error)
        if exception is not None:
            raise exception
        self.ends.append(message)
        self.in_hand = self.enough = True
        return 0

    cdef int give_back(self, ConsumerCore core) except -1:
        # One Message for each partition: where it goes on.
        core._give_back([*(NewMessage(topic, partition, offset) for (topic, partition), offset in self.first.items()), *self.ends])
        return 0


@cython.final
cdef class MessageTaker(Taker):
    """Collects Messages, for consume()."""

    cdef list messages
    cdef Py_ssize_t max

    cdef int take(self, ConsumerCore core) except -1:
        try:
            core._take(self.messages, self.max)
        finally:
            self.in_hand = len(self.messages) > 0
            self.enough = len(self.messages) == self.max
        return 0

    cdef int give_back(self, ConsumerCore core) except -1:
        core._give_back(self.messages)
        return 0


@cython.no_gc_clear  # the end takes the engine
cdef class ConsumerCore:
    """The compiled half of `kafka_native.Consumer`; its fields are in consumer_core.pxd."""

    def _open(self, Engine engine not None, error_for not None, exception_of not None, check_usable not None, fatal_of not None, give_back not None,
              Py_ssize_t most):
        """Called once by the constructor of the public class."""
        self.engine = engine
        self._error_for = error_for
        self._exception_of = exception_of
        self._check_usable = check_usable
        self._fatal_of = fatal_of
        self._give_back = give_back
        self._max = most
        self._segments_end = -1

    def __dealloc__(self):
        if self._segment != NULL and self.engine.engine != NULL:
            kn_segment_free(self._segment)
            self.engine.unuse()

    cdef inline void _own(self, kn_segment *segment) noexcept:
        # A segment can't be freed without its engine.
        self._segment = segment
        if segment != NULL:
            self.engine.users += 1

    cdef inline kn_segment *_disown(self) noexcept:
        cdef kn_segment *segment = self._segment
        self._segment = NULL
        if segment != NULL:
            self.engine.users -= 1  # nobody waits for that: close() comes by itself
        return segment

    # --- the segment being handed out ---

    cdef void _drop_segment(self) noexcept:
        kn_segment_free(self._disown())
        self._reading = False
        self._cursor = None
        self._batch = None

    cdef kn_segment *_borrow_segment(self, kn_record_reader *reader, bint *reading) noexcept:
        # Gives the segment being handed out to who takes on from there without the interpreter lock; NULL: there is none, or it is stale.
        cdef kn_segment *segment
        if self._segment != NULL and kn_segment_is_stale(self._segment):
            self._drop_segment()
        reading[0] = self._reading
        if self._reading:
            reader[0] = self._reader
        segment = self._disown()
        self._reading = False
        self._cursor = None
        self._batch = None
        return segment

    cdef int _return_segment(self, kn_segment *segment, const kn_record_reader *reader, bint reading) except -1:
        # Takes it, or the one that came after it, back.
        self._own(segment)
        if segment == NULL:
            return 0
        self._cursor = self.engine.cursors[segment.cursor.token - 1]
        if self._cursor is None:
            self._drop_segment()
        elif reading:
            self._batch = self._batch_at(segment.batch_next - 1)
            self._reader = reader[0]
            self._reading = True
        return 0

    cdef bint _next_segment(self) except -1:
        # Makes the next segment that isn't stale the current one; False when none is queued.
        cdef uint64_t token
        while self._segments != self._segments_end:
            self._own(<kn_segment *>kn_queue_pop(&self.engine.engine.fetched))
            if self._segment == NULL:
                return False
            self._segments += 1
            token = self._segment.cursor.token
            self._cursor = self.engine.cursors[token - 1]
            if self._cursor is not None and not kn_segment_is_stale(self._segment):
                return True
            self._drop_segment()
        return False

    cdef Message _notice(self):
        # An end of partition, or a batch that can't be used, as a Message with an error.
        cdef kn_segment *segment = self._segment
        cdef Cursor cursor = self._cursor
        cdef bint at_end = segment.kind == KN_SEGMENT_EOF
        cdef int status = segment.status
        cdef int error_code = segment.error_code
        cdef int64_t offset = segment.fetch_offset
        cdef int64_t next_offset = segment.next_offset
        self._drop_segment()  # before Python code runs
        error = self._error_for(at_end, status, error_code, cursor, offset, next_offset)
        return error_message_of(cursor.topic, cursor.partition, offset, error)

    cdef Batch _batch_at(self, int32_t number):
        # What the Messages of this batch of the segment share.
        cdef kn_segment_batch *batch = &self._segment.batches[number]
        cdef Batch made = Batch.of(kn_chunk_ref(batch.chunk), self._cursor.topic, self._cursor.partition, self.engine.pins)
        made.base_offset = batch.view.base_offset
        made.leader_epoch = batch.view.partition_leader_epoch
        at_append = batch.view.attributes & KN_ATTR_LOG_APPEND_TIME
        made.timestamp_type = TIMESTAMP_LOG_APPEND_TIME if at_append else TIMESTAMP_CREATE_TIME
        return made

    def _keep_batches(self):
        """Before anything is assigned: batches stay as they are fetched, for relay.take_batches(). Nothing else can be had from this consumer then."""
        self._check_open()
        self._keeps_batches = True
        self.engine.engine.consumer.keeps_batches = 1

    cdef int _check_opens(self) except -1:
        if self._keeps_batches:
            raise RuntimeError("this consumer keeps batches as they are: it has no messages")
        return 0

    cdef bint _next_batch(self) except -1:
        # Opens the segment's next batch; False at its end, where the position moves past what was not for us (markers, gaps).
        cdef kn_segment *segment = self._segment
        cdef kn_segment_batch *batch
        self._check_opens()
        while segment.batch_next < segment.batch_count:
            batch = &segment.batches[segment.batch_next]
            segment.batch_next += 1
            if kn_record_reader_init(&self._reader, &batch.view) != KN_OK:
                continue
            self._batch = self._batch_at(segment.batch_next - 1)
            self._cursor.position_epoch = batch.view.partition_leader_epoch
            self._reading = True
            return True
        if segment.next_offset > self._cursor.position:
            self._cursor.position = segment.next_offset
        return False

    cdef Message _malformed(self, int status):
        # Records that don't parse although the checksum holds: the rest of the batch is unusable, the next one follows.
        cdef int64_t next_offset = self._segment.batches[self._segment.batch_next - 1].view.last_offset + 1
        cdef Cursor cursor = self._cursor
        cdef int64_t offset = cursor.position
        cursor.position = next_offset
        error = self._error_for(False, status, 0, cursor, offset, next_offset)
        return error_message_of(cursor.topic, cursor.partition, offset, error)

    cdef Message _one(self):
        # The next message of what is queued, None when nothing is.
        cdef kn_record record
        cdef const uint8_t *start
        cdef int status
        # First, also where a notice is the answer: whoever has got it may go on with the batch that is open.
        if self._segment != NULL and kn_segment_is_stale(self._segment):
            self._drop_segment()
        if self.engine.notices:
            notice = self.engine.notices.popleft()
            return error_message_of(notice[0], notice[1], notice[2], notice[3])
        while True:
            if not self._reading:
                if self._segment == NULL and not self._next_segment():
                    return None
                if self._segment.kind != KN_SEGMENT_DATA:
                    return self._notice()
                if not self._next_batch():
                    self._drop_segment()
                    continue
            if not may_make_message():
                raise MemoryError
            start = self._reader.span.at
            status = kn_record_reader_next(&self._reader, &record)
            if status == KN_OK:
                if record.offset < self._segment.fetch_offset:
                    continue
                self._cursor.position = record.offset + 1
                if self._reader.view.magic == 2:
                    return message_of(self._batch, start, &record)
                return legacy_message_of(self._batch, &record)
            self._reading = False
            if status != KN_ERR_TRUNCATED:
                return self._malformed(status)

    @cython.final
    cdef Message _quick(self):
        # The next message, if it is in the batch that is open and nothing else has to be seen to; else None. No clock, no allocation but the Message's.
        cdef kn_record record
        cdef const uint8_t *start
        # An end that isn't clean is read again by _one(), which knows what to do: the reader stands where it stood.
        if not self._reading or self._woken or self._server != NOBODY or self._closed or self.engine.engine == NULL:
            return None
        if kn_segment_is_stale(self._segment) or self._reader.view.magic != 2 or self.engine.callbacks or self.engine.notices:
            return None
        if not may_make_message():
            return None
        start = self._reader.span.at
        if kn_record_reader_next(&self._reader, &record) != KN_OK or record.offset < self._segment.fetch_offset:
            return None
        self._cursor.position = record.offset + 1
        self.polls += 1
        return message_of(self._batch, start, &record)

    cdef int _take(self, list into, Py_ssize_t most) except -1:
        # Appends up to `most` messages of what is queued.
        cdef Message message
        while len(into) < most:
            message = self._one()  # the first of a batch, which it opens, or an error
            if message is None:
                return 0
            into.append(message)
            if self._reading and self._reader.view.magic == 2:
                messages_of(into, most, self._batch, &self._reader, self._segment.fetch_offset, &self._cursor.position)
        return 0

    # --- callbacks and waiting ---

    cdef _check_open(self):
        if self.engine is None:
            raise RuntimeError("Consumer is not initialised: call super().__init__(conf)")
        if self._closed or self.engine.engine == NULL:
            self._check_usable()
            raise self.engine.closed_error("Consumer closed")

    cdef bint _is_over(self):
        return self._closed or self.engine.engine == NULL

    cdef _serve_callbacks(self):
        # Makes the callbacks that are due. What they raise comes out of here; those behind wait for the next call. A callback's own poll() makes none: they
        # wait for this one to return.
        if self._server != NOBODY or not self.engine.callbacks:
            return
        self.polling -= 1
        try:
            self._call_back(False)
        finally:
            self.polls += 1
            self.polling += 1

    cdef _call_back(self, bint closing):
        self._server = <unsigned long>PyThread_get_thread_ident()
        try:
            while self.engine.callbacks and (closing or not self._is_over()) and self._later is None:
                callback = self.engine.callbacks.popleft()
                callback()
                self.polls += 1
        finally:
            self._server = NOBODY
            if self._patient:
                self.engine.kick()
            if self._later is not None:
                later, self._later = self._later, None
                later()

    cdef bint _may_take(self):
        # Not while another thread makes callbacks, which may give partitions away.
        return self._server == NOBODY or self._server == <unsigned long>PyThread_get_thread_ident()

    cdef unsigned long _acquire(self):
        # For a while without the interpreter lock in which this thread takes: the others wait, as they do while it makes callbacks.
        cdef unsigned long before = self._server
        self._server = <unsigned long>PyThread_get_thread_ident()
        return before

    cdef void _release(self, unsigned long before):
        self._server = before
        if before == NOBODY and self._patient:
            self.engine.kick()

    cdef bint _wait(self, int64_t deadline) except -1:
        # Sleeps until there may be something; False when the time is up. A signal handler that raises ends it.
        if self._may_take():
            return self.engine.wait(&self.engine.engine.fetched, deadline)
        # For the end of another thread's callbacks, which kicks; whatever is fetched meanwhile would end a wait for that at once.
        self._patient += 1
        try:
            return self.engine.wait(&self.engine.engine.deliveries, deadline)
        finally:
            self._patient -= 1

    cdef Message _await_one(self, double timeout, bint iterating):
        cdef Message message
        cdef int64_t deadline = 0
        cdef bint first = True
        while True:
            self._serve_callbacks()
            if self._is_over():
                return None
            if self._woken:
                self._woken = False
                return None
            if self._may_take():
                message = self._one()
                if message is not None or timeout == 0:
                    return message
            elif timeout == 0:
                return None
            if iterating:
                exception = self._fatal_of()
                if exception is not None:
                    raise exception
            if first:
                deadline = kn_deadline_us(timeout)
                first = False
            if not self._wait(deadline):
                return None

    cdef Message _next_message(self, double timeout, bint iterating):
        # The slow way to a message: callbacks, opening batches, waiting.
        self._check_open()
        self.polls += 1
        self.polling += 1
        try:
            return self._await_one(timeout, iterating)
        finally:
            self.polling -= 1

    cdef int _gather(self, Taker taker, double timeout, bint first_will_do) except -1:
        self._check_open()
        self.polls += 1
        self.polling += 1
        try:
            self._gather_into(taker, timeout, first_will_do)
        except BaseException:
            # A signal handler has raised. What is in hand must neither be lost nor count as handed out.
            if taker.in_hand:
                taker.give_back(self)
            raise
        finally:
            self.polling -= 1
        return 0

    cdef int _gather_into(self, Taker taker, double timeout, bint first_will_do) except -1:
        cdef int64_t deadline = 0
        cdef bint first = True
        while True:
            if not taker.in_hand:
                self._serve_callbacks()
            elif self.engine.callbacks:
                return 0  # for the next call: they may be about what is in hand
            if self._is_over():
                taker.ended = True
                return 0
            if self._woken:
                self._woken = False
                taker.ended = True
                return 0
            if self._may_take():
                taker.take(self)
            if taker.enough or timeout == 0 or (first_will_do and taker.in_hand):
                return 0
            if first:
                deadline = kn_deadline_us(timeout)
                first = False
            if taker.in_hand:
                self.holding += 1
                try:
                    in_time = self._wait(deadline)
                finally:
                    self.holding -= 1
            else:
                in_time = self._wait(deadline)
            if not in_time:
                return 0

    cdef list _collect(self, Py_ssize_t most, double timeout, bint first_will_do):
        cdef MessageTaker taker = MessageTaker.__new__(MessageTaker)
        taker.messages = []
        taker.max = most
        self._gather(taker, timeout, first_will_do)
        return taker.messages

    # --- the public methods: consumer.py has their texts ---

    def poll(self, timeout=None):
        cdef double timeout_s = -1.0 if timeout is None else seconds(timeout)
        cdef Message message = self._quick()
        if message is not None:
            return message
        return self._next_message(timeout_s, False)

    def consume(self, num_messages=1, timeout=-1):
        cdef double timeout_s = -1.0 if timeout is None else seconds(timeout)
        if num_messages is None:
            return self._collect(self._max, timeout_s, True)
        if not 0 <= num_messages <= 1000000:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        return self._collect(num_messages, timeout_s, False)

    def _consume_each(self, callback, Py_ssize_t most, double timeout):
        """Consumer.consume_callback(), its arguments checked."""
        cdef Py_ssize_t count = 0
        cdef int64_t end
        cdef Message message = self._next_message(seconds(timeout), False)
        if message is None:
            return 0
        # What is queued by now, and no more: a busy topic must not keep the caller for ever.
        end = self._segments + kn_queue_count(&self.engine.engine.fetched)
        while message is not None:
            count += 1
            self.polls += 1  # the one before has been dealt with
            callback(message)
            if self._woken:
                self._woken = False
                break
            if count == most or self._is_over() or not self._may_take() or self.engine.callbacks:
                break
            message = self._quick()
            if message is None:
                self._segments_end = end
                try:
                    message = self._one()
                finally:
                    self._segments_end = -1
        return count

    def __iter__(self):
        return self

    def __next__(self):
        cdef Message message = self._quick()
        if message is not None:
            return message
        while not self._closed:
            message = self._next_message(-1.0, True)
            if message is None:
                break
            if error_of_message(message) is None:
                return message
            exception = self._exception_of(error_of_message(message))
            if exception is not None:
                raise exception
        raise StopIteration

    def wakeup(self):
        self._woken = True
        if self.engine is not None:
            self.engine.kick()

    def _poll_counts(self):
        """How often the application has polled, how many threads poll now, and how many of these wait with messages in hand."""
        return self.polls, self.polling, self.holding

    # --- the end ---

    def _in_callback(self):
        """Whether this thread runs one of the callbacks that poll() makes."""
        return self._server != NOBODY and self._may_take()

    def _after_callback(self, later not None):
        """In a callback: does this once it has returned, before messages are taken."""
        self._later = later

    def _serve_until(self, done, double timeout):
        """For close(): makes callbacks until ``done()`` or the time is up, which it returns; what they raise ends it. Whoever makes done() true kicks."""
        cdef int64_t deadline = kn_deadline_us(timeout)
        cdef bint in_time = True
        while self.engine.engine != NULL:
            if self._server == NOBODY and self.engine.callbacks:
                self._call_back(True)
            if done():
                if self._server == NOBODY:
                    self._call_back(True)  # what became due together with it
                return True
            if not in_time or self.engine.closed:
                return False  # closed by another thread: nobody is left to make it true
            self._patient += 1
            try:
                in_time = self.engine.wait(&self.engine.engine.deliveries, deadline)
            finally:
                self._patient -= 1
        return False

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
            self._own(<kn_segment *>kn_queue_pop(&self.engine.engine.fetched))
            if self._segment == NULL:
                break
            self._drop_segment()
