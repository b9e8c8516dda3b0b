# cython: freethreading_compatible=True
"""ConsumerCore: poll(), consume() and iteration over fetched segments.

The public `kafka_native.Consumer` derives from it.

Thread: any. Usually one application thread takes messages. Several threads at once are safe: each
message goes to one of them. Some operations can run Python code: a callback, the construction of a
KafkaError, a wait. Meanwhile another thread, a signal handler or a nested call may take messages or
end the consumer. So no local variable keeps a part of the current segment across such an operation.

Without an interpreter lock, the core's own lock guards the current segment, `_callback_thread`,
`_callback_waiters` and the times of calls. No Python code runs under it. So a call first takes what
it needs, and then makes the error for it.

Due callbacks run before the call takes messages, and never while it holds messages. So when a
callback gives a partition away, the call holds no message of it.
"""
cimport cython
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kafka_native._native.engine cimport Cursor, Engine, EngineHandle, handle_of, move_position, note_epoch, pass_end, seconds
from kafka_native._native.free_threading cimport *
from kafka_native._native.kn_engine cimport *
from kafka_native._native.kn_enums cimport *
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
    messages_of,
)

from kafka_native._native.message import Message as NewMessage

cdef unsigned long NO_THREAD = 0
cdef double TIMEOUT_MAX_S = 2147483.648


cdef class Taker:
    """See consumer_core.pxd."""

    def __cinit__(self):
        self.first = {}

    cdef int take(self, ConsumerCore core) except -1:
        raise NotImplementedError

    cdef int give_back(self, ConsumerCore core) except -1:
        raise NotImplementedError


cdef class PositionTaker(Taker):
    """See consumer_core.pxd."""

    def __cinit__(self):
        self.positions = {}
        self.ends = []

    cdef int check_fatal(self, ConsumerCore core) except -1:
        exception = core._fatal_of()
        if exception is not None:
            raise exception
        return 0

    cdef int take_error(self, ConsumerCore core) except -1:
        # Raise the next error. An end of partition that was given back is taken again.
        cdef Message message = core._take_message()
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
        # One Message for each partition, with the offset at which it continues.
        core._give_back([*(NewMessage(topic, partition, offset) for (topic, partition), offset in self.first.items()), *self.ends])
        return 0


@cython.final
cdef class MessageTaker(Taker):
    """Collects Messages for consume()."""

    cdef list messages
    cdef Py_ssize_t max

    cdef int take(self, ConsumerCore core) except -1:
        try:
            core._take_messages(self.messages, self.max, self.first)
        finally:
            self.in_hand = len(self.messages) > 0
            self.enough = len(self.messages) == self.max
        return 0

    cdef int give_back(self, ConsumerCore core) except -1:
        core._give_back(self.messages)
        return 0


@cython.final
@cython.no_gc  # made under the lock: a collection would run Python code there
cdef class Notice:
    """What a segment has instead of messages: the end of a partition, or an error."""


@cython.no_gc_clear  # __dealloc__ needs the engine
cdef class ConsumerCore:
    """The compiled half of `kafka_native.Consumer`. consumer_core.pxd has its fields."""

    _message_type = Message

    def _open(self, Engine engine not None, error_for not None, exception_of not None, check_usable not None, fatal_of not None, give_back not None,
              Py_ssize_t count_max):
        """Initialize the core. The constructor of the public class calls it once."""
        self.engine = engine
        self._serves = True
        self._error_for = error_for
        self._exception_of = exception_of
        self._check_usable = check_usable
        self._fatal_of = fatal_of
        self._give_back = give_back
        self._max = count_max
        kn_flag_set(&self._woken, False)
        kn_flag_set(&self._closed, False)  # it may have been closed before
        engine.pins.message_type = self._message_type

    def __dealloc__(self):
        if self._segment != NULL and self._held.engine != NULL:
            kn_segment_free(self._segment)

    cdef EngineHandle _handle(self):
        # The engine of `_source()`. Take it first: it keeps that queue alive.
        return handle_of(self.engine)

    # --- the current segment ---

    cdef void _drop_segment(self) noexcept:
        # Under the lock.
        cdef EngineHandle _held = self._held  # freeing a segment needs its engine
        cdef kn_segment *segment = self._segment
        self._segment = NULL
        self._held = None
        self._reading = False
        self._cursor = None
        self._batch = None
        kn_segment_free(segment)

    cdef kn_segment *_borrow_segment(self, kn_record_reader *reader, bint *reading) noexcept:
        # Pass the current segment to a caller that continues without the interpreter lock. NULL if
        # there is none, or if it is stale.
        cdef kn_segment *segment
        kn_object_lock_take(&self._lock)
        if self._segment != NULL and kn_segment_is_stale(self._segment):
            self._drop_segment()
        reading[0] = self._reading
        if self._reading:
            reader[0] = self._reader
        segment = self._segment
        self._segment = NULL
        self._held = None  # the caller holds the engine
        self._reading = False
        self._cursor = None
        self._batch = None
        kn_object_lock_release(&self._lock)
        return segment

    cdef int _return_segment(self, EngineHandle handle, kn_segment *segment, const kn_record_reader *reader, bint reading) except -1:
        # Take the segment, or its successor, back.
        if segment == NULL:
            return 0
        kn_object_lock_take(&self._lock)
        try:
            self._segment = segment
            self._held = handle
            self._cursor = self.engine.cursors[segment.cursor.token - 1]
            if self._cursor is None:
                self._drop_segment()
            elif reading:
                self._batch = self._batch_at(segment.batch_next - 1)
                self._reader = reader[0]
                self._reading = True
        finally:
            kn_object_lock_release(&self._lock)
        return 0

    cdef kn_queue *_source(self, EngineHandle handle) noexcept:
        # The queue of the segments, in the engine of this handle.
        return &handle.engine.fetched

    cdef bint _next_segment(self, int64_t segments_end) except -1:
        # Make the next segment that isn't stale the current one. False if none is queued. Under the
        # lock.
        cdef uint64_t token
        cdef EngineHandle handle = self._handle()
        while segments_end < 0 or self._segments < segments_end:
            self._segment = <kn_segment *>kn_queue_pop(self._source(handle))
            if self._segment == NULL:
                return False
            self._held = handle
            self._segments += 1
            token = self._segment.cursor.token
            self._cursor = self.engine.cursors[token - 1]
            if self._cursor is not None and not kn_segment_is_stale(self._segment):
                return True
            self._drop_segment()
        return False

    cdef Message _error_message(self, object topic, object partition, int64_t offset, object error):
        cdef Message message = error_message_of(self.engine.pins, topic, partition, offset, error)
        if isinstance(self, ConfluentConsumerCore):  # as in confluent_kafka, the value is the text
            message.set_value(error.str().encode())
            message._timestamp_ms = -1
        return message

    cdef Notice _notice(self):
        # Take an end of partition, or an unusable batch. Under the lock.
        cdef Notice notice = Notice.__new__(Notice)
        notice.cursor = self._cursor
        notice.at_end = self._segment.kind == KN_SEGMENT_EOF
        notice.status = self._segment.status
        notice.error_code = self._segment.error_code
        notice.offset = self._segment.fetch_offset
        notice.next_offset = self._segment.next_offset
        self._drop_segment()
        return notice

    cdef Message _notice_message(self, Notice notice):
        cdef Cursor cursor = notice.cursor
        error = self._error_for(notice.at_end, notice.status, notice.error_code, cursor, notice.offset, notice.next_offset)
        return self._error_message(cursor.topic, cursor.partition, notice.offset, error)

    cdef Message _take_end(self):
        # Return the end of a partition if it is the current segment, else None.
        cdef Notice notice = None
        kn_object_lock_take(&self._lock)
        try:
            if self._segment != NULL and self._segment.kind == KN_SEGMENT_EOF and not kn_segment_is_stale(self._segment):
                notice = self._notice()
        finally:
            kn_object_lock_release(&self._lock)
        return None if notice is None else self._notice_message(notice)

    cdef Batch _batch_at(self, int32_t number):
        # The data that all Messages of this batch share.
        cdef kn_segment_batch *batch = &self._segment.batches[number]
        cdef Batch made = Batch.of(kn_chunk_ref(batch.chunk), self._cursor.topic, self._cursor.partition, self.engine.pins)
        made.base_offset = batch.view.base_offset
        made.leader_epoch = batch.view.partition_leader_epoch
        at_append = batch.view.attributes & KN_ATTR_LOG_APPEND_TIME
        made.timestamp_type = TIMESTAMP_LOG_APPEND_TIME if at_append else TIMESTAMP_CREATE_TIME
        return made

    def _keep_batches(self):
        """Keep batches as they were fetched, for relay.take_batches().

        Call it before the assignment. The consumer then returns no messages.
        """
        self._check_open()
        self._keeps_batches = True
        cdef EngineHandle handle = handle_of(self.engine)
        handle.engine.consumer.keeps_batches = 1

    cdef int _check_opens(self) except -1:
        if self._keeps_batches:
            raise RuntimeError("this consumer keeps batches as they are: it has no messages")
        return 0

    cdef bint _next_batch(self) except -1:
        # Open the segment's next batch. At the segment's end return False, and move the position
        # past markers and gaps. Under the lock.
        cdef kn_segment *segment = self._segment
        cdef kn_segment_batch *batch
        self._check_opens()
        while segment.batch_next < segment.batch_count:
            batch = &segment.batches[segment.batch_next]
            segment.batch_next += 1
            if kn_record_reader_init(&self._reader, &batch.view) != KN_OK:
                continue
            self._batch = self._batch_at(segment.batch_next - 1)
            note_epoch(self._cursor, segment, batch.view.partition_leader_epoch)
            self._reading = True
            return True
        pass_end(self._cursor, segment)
        return False

    cdef Notice _malformed(self, int status):
        # A record is malformed although the checksum is correct. The rest of the batch is unusable,
        # and the next batch follows. Under the lock.
        cdef Notice notice = Notice.__new__(Notice)
        notice.cursor = self._cursor
        notice.status = status
        notice.offset = self._cursor._position
        notice.next_offset = self._segment.batches[self._segment.batch_next - 1].view.last_offset + 1
        move_position(self._cursor, self._segment, notice.next_offset)
        return notice

    cdef Message _take_message(self):
        # Return the next queued message, or None.
        return self._take_upto(-1)

    cdef Message _take_upto(self, int64_t segments_end):
        # Return the next queued message, or None. Begin no segment after `segments_end` of them.
        cdef object taken
        # Check this first, even if a notice is returned: the caller may then continue in the open
        # batch.
        kn_object_lock_take(&self._lock)
        if self._segment != NULL and kn_segment_is_stale(self._segment):
            self._drop_segment()
        kn_object_lock_release(&self._lock)
        if self._serves and self.engine.notices:
            try:
                notice = self.engine.notices.popleft()
            except IndexError:
                pass  # another thread has taken it
            else:
                return self._error_message(notice[0], notice[1], notice[2], notice[3])
        kn_object_lock_take(&self._lock)
        try:
            taken = self._take_next(segments_end)
        finally:
            kn_object_lock_release(&self._lock)
        if type(taken) is Notice:
            return self._notice_message(<Notice>taken)
        return <Message>taken

    cdef object _take_next(self, int64_t segments_end):
        # Return a Message, a Notice or None. Under the lock, so it runs no Python code.
        cdef kn_record record
        cdef const uint8_t *start
        cdef int status
        if FREE_THREADED and not self._may_take():
            return None
        while True:
            if not self._reading:
                if self._segment == NULL and not self._next_segment(segments_end):
                    return None
                if self._segment.kind != KN_SEGMENT_DATA:
                    return self._notice()
                if not self._next_batch():
                    self._drop_segment()
                    continue
            start = self._reader.span.at
            status = kn_record_reader_next(&self._reader, &record)
            if status == KN_OK:
                if record.offset < self._segment.fetch_offset:
                    continue
                if self._reader.view.magic == 2:
                    message = message_of(self._batch, &self._reader, start, &record)
                else:
                    message = legacy_message_of(self._batch, &self._reader, start, &record)
                if not move_position(self._cursor, self._segment, record.offset + 1):
                    self._drop_segment()
                    continue
                return message
            self._reading = False
            if status != KN_ERR_TRUNCATED:
                return self._malformed(status)

    @cython.final
    cdef Message _next_in_batch(self):
        # Return the next message if it is in the open batch and nothing else is due, else None.
        # Reads no clock, and allocates only the Message.
        if not FREE_THREADED:
            return self._read_in_batch()
        if self.engine is None or self.engine.is_forked():
            return None  # a thread of the parent may have had the lock
        kn_object_lock_take(&self._lock)
        try:
            return self._read_in_batch()
        finally:
            kn_object_lock_release(&self._lock)

    @cython.final
    cdef inline Message _read_in_batch(self):
        # Under the lock. The reader stays before an invalid record. `_take_message()` reads it again
        # and handles the error.
        cdef kn_record record
        cdef const uint8_t *start
        if not self._reading or kn_flag_is_set(&self._woken) or self._callback_thread != NO_THREAD or kn_flag_is_set(&self._closed):
            return None
        if self._held.engine == NULL:
            return None
        if kn_segment_is_stale(self._segment) or self._reader.view.magic != 2 or self.engine.callbacks or self.engine.notices:
            return None
        start = self._reader.span.at
        if kn_record_reader_next(&self._reader, &record) != KN_OK or record.offset < self._segment.fetch_offset:
            return None
        message = message_of(self._batch, &self._reader, start, &record)
        if not FREE_THREADED:
            self._cursor._position = record.offset + 1  # a call would count a reference
        elif not move_position(self._cursor, self._segment, record.offset + 1):
            return None
        kn_count_add64(&self.polls, 1)
        kn_flag_set(&self._has_message, True)
        return message

    cdef int _take_messages(self, list into, Py_ssize_t count_max, dict first) except -1:
        # Append up to `count_max` queued messages, and the first offset of each partition to `first`.
        cdef Message message
        while len(into) < count_max:
            message = self._take_message()  # the first message of a batch, which it opens, or an error
            if message is None:
                return 0
            into.append(message)
            if error_of_message(message) is None:
                key = (message.topic(), message.partition())
                if key not in first:
                    first[key] = message.offset()
            kn_object_lock_take(&self._lock)
            try:
                self._take_rest(into, count_max)
            finally:
                kn_object_lock_release(&self._lock)
        return 0

    cdef int _take_rest(self, list into, Py_ssize_t count_max) except -1:
        # Append messages of the open batch, all at once. Under the lock.
        cdef Cursor cursor = self._cursor
        if not self._reading or self._reader.view.magic != 2:
            return 0
        if FREE_THREADED and not self._may_take():
            return 0
        kn_object_lock_take(&cursor.lock)
        try:
            if not (FREE_THREADED and kn_segment_is_stale(self._segment)):
                messages_of(into, count_max, self._batch, &self._reader, self._segment.fetch_offset, &cursor._position)
        finally:
            kn_object_lock_release(&cursor.lock)
        return 0

    # --- callbacks and waiting ---

    cdef _check_open(self):
        if self.engine is None:
            client = getattr(self, "_client", None)  # it raises if the class calls no super().__init__()
            if client is not None:
                client.check_open("Consumer closed")
            raise RuntimeError("Consumer is not initialised: call super().__init__(conf)")
        if kn_flag_is_set(&self._closed) or self.engine.is_forked():
            self._check_usable()
            raise self.engine.closed_error("Consumer closed")

    cdef bint _is_over(self):
        return kn_flag_is_set(&self._closed) or self.engine.is_forked()

    cdef _serve_callbacks(self):
        # Run the due callbacks. The call raises a callback's exception, and the later callbacks
        # wait for the next call. A nested poll() in a callback runs none: they wait for the outer
        # call.
        if not self._serves or kn_thread_of(&self._callback_thread) != NO_THREAD or not self.engine.callbacks:
            return
        kn_count_add(&self.polling, -1)
        try:
            self._call_back(False)
        finally:
            self._note_progress()
            kn_count_add(&self.polling, 1)

    cdef _call_back(self, bint closing):
        cdef unsigned long before
        if not self._acquire(&before):
            return  # another thread runs them
        try:
            while self.engine.callbacks and (closing or not self._is_over()) and self._later is None:
                callback = self.engine.callbacks.popleft()
                callback()
                self._note_progress()
        finally:
            later, self._later = self._later, None
            self._release(before)
            if later is not None:
                later()

    cdef void _note_progress(self) noexcept:
        # The application has finished something other than a call.
        kn_count_add64(&self.polls, 1)
        kn_count_add64(&self._progress, 1)

    cdef bint _may_take(self) noexcept:
        # False while another thread runs callbacks, because they may give partitions away.
        cdef unsigned long thread = kn_thread_of(&self._callback_thread)
        return thread == NO_THREAD or thread == <unsigned long>PyThread_get_thread_ident()

    cdef bint _acquire(self, unsigned long *before) noexcept:
        # Make other threads wait while this thread runs callbacks, or takes messages without the
        # interpreter lock. Returns False if another thread has done that.
        cdef bint is_free
        kn_object_lock_take(&self._lock)
        is_free = self._may_take()
        if is_free:
            before[0] = self._callback_thread
            kn_thread_set(&self._callback_thread, <unsigned long>PyThread_get_thread_ident())
        kn_object_lock_release(&self._lock)
        return is_free

    cdef int _release(self, unsigned long before) except -1:
        cdef bint is_awaited
        kn_object_lock_take(&self._lock)
        kn_thread_set(&self._callback_thread, before)
        is_awaited = before == NO_THREAD and self._callback_waiters > 0
        kn_object_lock_release(&self._lock)
        if is_awaited:
            self.engine.kick()
        return 0

    cdef bint _await_callbacks(self) noexcept:
        # If another thread keeps this one waiting, note that: its `_release()` kicks the engine.
        cdef bint waits
        kn_object_lock_take(&self._lock)
        waits = not self._may_take()
        if waits:
            self._callback_waiters += 1
        kn_object_lock_release(&self._lock)
        return waits

    cdef void _count_waiter(self, int more) noexcept:
        kn_object_lock_take(&self._lock)
        self._callback_waiters += more
        kn_object_lock_release(&self._lock)

    cdef bint _wait(self, int64_t deadline) except -1:
        # Sleep until there may be something. False after the deadline. A signal handler that raises
        # ends the wait.
        cdef EngineHandle handle = self._handle()
        if not self._await_callbacks():
            return self.engine.wait(self._source(handle), deadline)
        # Wait for the end of another thread's callbacks, which kicks this queue. A wait on the
        # fetch queue would end at once with each fetch.
        try:
            return self.engine.wait(&handle.engine.deliveries, deadline)
        finally:
            self._count_waiter(-1)

    cdef Message _wait_for_message(self, double timeout, bint iterating):
        cdef Message message
        cdef int64_t deadline = 0
        cdef bint first = True
        while True:
            self._serve_callbacks()
            if self._is_over():
                return None
            if kn_flag_take(&self._woken):
                return None
            if self._may_take():
                message = self._take_message()
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

    cdef void _note_call(self) noexcept:
        # Take the time of a call, for statistics. `_next_in_batch()` takes none.
        cdef int64_t now_us = kn_clock_us()
        cdef int64_t calls
        kn_object_lock_take(&self._lock)
        calls = kn_count_of64(&self.polls) - kn_count_of64(&self._progress) - self._between_calls
        if self._called_us == 0:
            kn_count_add64(&self._progress, calls)  # the first one: no time before it
        elif calls > 0:
            self._between_us += now_us - self._called_us
            self._between_calls += calls
            self._between_max_us = max(self._between_max_us, (now_us - self._called_us) // calls)
        self._called_us = now_us
        kn_object_lock_release(&self._lock)

    cdef Message _next_message(self, double timeout, bint iterating):
        # The slow way to a message: callbacks, opening batches, waiting.
        self._check_open()
        cdef Message message
        self._begin_call()
        try:
            message = self._wait_for_message(timeout, iterating)
        finally:
            kn_count_add(&self.polling, -1)
        kn_flag_set(&self._has_message, message is not None and error_of_message(message) is None)
        return message

    cdef void _begin_call(self) noexcept:
        self._hand_over(None)
        kn_count_add64(&self.polls, 1)
        self._note_call()
        kn_count_add(&self.polling, 1)

    cdef void _hand_over(self, dict first) noexcept:
        # Note what the call returns. None: nothing, or one message (then set `_has_message`).
        cdef dict _before  # it is freed after the lock
        kn_object_lock_take(&self._lock)
        _before, self._first = self._first, first
        kn_flag_set(&self._has_message, False)
        kn_object_lock_release(&self._lock)

    def _in_hand(self):
        """Return the offsets of the messages of the last call, the first one of each partition.

        The application may not have processed them.
        """
        cdef Cursor cursor
        cdef dict first
        cdef bint has_message
        kn_object_lock_take(&self._lock)
        cursor, first, has_message = self._cursor, self._first, kn_flag_is_set(&self._has_message)
        kn_object_lock_release(&self._lock)
        if has_message and cursor is not None:
            return {(cursor.topic, cursor.partition): cursor.position - 1}
        return dict(first or ())

    cdef int _gather(self, Taker taker, double timeout, bint return_early) except -1:
        self._check_open()
        self._begin_call()
        try:
            self._gather_into(taker, timeout, return_early)
        except BaseException:
            # A signal handler has raised. Give the taken messages back: they must neither be lost
            # nor count as delivered.
            if taker.in_hand:
                taker.give_back(self)
            raise
        finally:
            kn_count_add(&self.polling, -1)
        self._hand_over(taker.first)
        return 0

    cdef int _gather_into(self, Taker taker, double timeout, bint return_early) except -1:
        cdef int64_t deadline = 0
        cdef bint first = True
        while True:
            if not taker.in_hand:
                self._serve_callbacks()
            elif self._serves and self.engine.callbacks:
                return 0  # they may concern these messages, so the next call runs them
            if self._is_over():
                taker.ended = True
                return 0
            if kn_flag_take(&self._woken):
                taker.ended = True
                return 0
            if self._may_take():
                taker.take(self)
            if taker.enough or timeout == 0 or (return_early and taker.in_hand):
                return 0
            if first:
                deadline = kn_deadline_us(timeout)
                first = False
            if taker.in_hand:
                kn_count_add(&self.holding, 1)
                try:
                    in_time = self._wait(deadline)
                finally:
                    kn_count_add(&self.holding, -1)
            else:
                in_time = self._wait(deadline)
            if not in_time:
                return 0

    cdef list _collect(self, Py_ssize_t count_max, double timeout, bint return_early):
        cdef MessageTaker taker = MessageTaker.__new__(MessageTaker)
        taker.messages = []
        taker.max = count_max
        self._gather(taker, timeout, return_early)
        return taker.messages

    # --- the public methods: consumer.py has their docstrings ---

    def poll(self, timeout=None):
        cdef double timeout_s = -1.0 if timeout is None else seconds(timeout)
        cdef Message message = self._next_in_batch()
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

    def _consume_each(self, callback, Py_ssize_t count_max, double timeout):
        """The body of Consumer.consume_callback(). The caller has checked the arguments."""
        cdef Py_ssize_t count = 0
        cdef int64_t end
        cdef EngineHandle handle
        cdef Message message = self._next_message(seconds(timeout), False)
        if message is None:
            return 0
        # Take only the messages that are queued now. Otherwise the call might never return on a busy
        # topic.
        handle = self._handle()
        kn_object_lock_take(&self._lock)
        end = self._segments + kn_queue_count(self._source(handle))
        kn_object_lock_release(&self._lock)
        while message is not None:
            count += 1
            self._note_progress()  # the previous message is processed
            callback(message)
            if kn_flag_take(&self._woken):
                break
            if count == count_max or self._is_over() or not self._may_take() or (self._serves and self.engine.callbacks):
                break
            message = self._next_in_batch()
            if message is None:
                message = self._take_upto(end)
        return count

    def __iter__(self):
        return self

    def __next__(self):
        cdef Message message = self._next_in_batch()
        if message is not None:
            return message
        while not kn_flag_is_set(&self._closed):
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
        kn_flag_set(&self._woken, True)
        if self.engine is not None:
            self.engine.kick()

    def _poll_counts(self):
        """Return the number of polls, of threads that poll now, and of those that hold messages."""
        return kn_count_of64(&self.polls), kn_count_of(&self.polling), kn_count_of(&self.holding)

    def _poll_times(self, bint end):
        """Return the time of the last call that left its open batch, and the times between calls.

        The times are their sum, the number of calls and the longest one since the last
        ``_poll_times(True)``, in microseconds of the monotonic clock.
        """
        cdef int64_t called_us, between_us, calls, longest_us
        kn_object_lock_take(&self._lock)
        called_us, between_us, calls, longest_us = self._called_us, self._between_us, self._between_calls, self._between_max_us
        if end:
            self._between_max_us = 0
        kn_object_lock_release(&self._lock)
        return called_us, between_us, calls, longest_us

    # --- close ---

    def _in_callback(self):
        """Return whether this thread runs one of the callbacks of poll()."""
        return kn_thread_of(&self._callback_thread) == <unsigned long>PyThread_get_thread_ident()

    def _after_callback(self, later not None):
        """Call ``later`` after the current callback has returned, before messages are taken."""
        self._later = later

    def _serve_until(self, done, double timeout):
        """Run callbacks until ``done()`` is true or the timeout is over. For close().

        Returns whether it is done. An exception of a callback ends it. The thread that makes
        ``done()`` true kicks the engine.
        """
        cdef int64_t deadline = kn_deadline_us(timeout)
        cdef bint in_time = True
        cdef EngineHandle handle = handle_of(self.engine)
        self._count_waiter(1)  # from here on the end of another thread's callbacks ends a wait
        try:
            while handle.engine != NULL:
                if kn_thread_of(&self._callback_thread) == NO_THREAD and self.engine.callbacks:
                    self._call_back(True)
                if done():
                    if kn_thread_of(&self._callback_thread) == NO_THREAD:
                        self._call_back(True)  # run the callbacks that became due with it
                    return True
                if not in_time or kn_flag_is_set(&self.engine.is_closed):
                    # another thread closed the client, so no thread will make it true
                    return False
                in_time = self.engine.wait(&handle.engine.deliveries, deadline)
        finally:
            self._count_waiter(-1)
        return False

    def _mark_closed(self):
        """End all waits. The public class's close() calls it first."""
        kn_flag_set(&self._closed, True)
        if self.engine is not None:
            self.engine.kick()

    def _drain(self):
        """Free the fetched segments that were not delivered, after the engine has stopped."""
        cdef EngineHandle handle
        cdef kn_segment *segment
        if self.engine is None or self.engine.is_forked():
            return
        handle = self._handle()
        kn_object_lock_take(&self._lock)
        if self._segment != NULL:
            self._drop_segment()
        while True:
            segment = <kn_segment *>kn_queue_pop(self._source(handle))
            if segment == NULL:
                break
            kn_segment_free(segment)
        kn_object_lock_release(&self._lock)


cdef class PartitionCore(ConsumerCore):
    """The compiled half of `kafka_native.PartitionQueue`: the messages of one partition.

    It runs no callbacks, and returns no errors of the client: the consumer's own poll() does.
    """

    def _open_route(self, ConsumerCore main not None, lost_error not None):
        """Take a route of the engine. `_attach()` sends a cursor's segments there."""
        main._check_open()
        cdef EngineHandle handle = handle_of(main.engine)
        self._route = kn_engine_route_open(handle.engine)
        if self._route == NULL:
            raise MemoryError("no memory or file descriptors for the queue of a partition")
        self.engine = main.engine
        self._route_handle = handle
        self._lost_error = lost_error
        self._main = main
        self._error_for = main._error_for
        self._exception_of = main._exception_of
        self._check_usable = main._check_usable
        self._fatal_of = main._fatal_of
        self._give_back = main._give_back
        self._max = main._max
        self._keeps_batches = main._keeps_batches
        self._held_from = -1

    cdef _check_open(self):
        if self._main is None:
            raise RuntimeError("Consumer.partition_queue() makes the queues of partitions")
        self._main._check_open()
        if kn_flag_is_set(&self._lost):
            raise self._lost_error()
        if kn_flag_is_set(&self._closed):
            raise RuntimeError("the partition's queue is closed")

    cdef kn_queue *_source(self, EngineHandle handle) noexcept:
        cdef kn_engine *closed
        cdef kn_route *route = self._route_now()
        if route != NULL:
            return &route.queue
        closed = kn_engine_closed()  # its queue is empty; NULL without memory for it
        return &handle.engine.fetched if closed == NULL else &closed.fetched

    cdef EngineHandle _handle(self):
        cdef EngineHandle handle
        kn_guard_lock(&self._guard)
        handle = self._route_handle
        kn_guard_unlock(&self._guard)
        return handle_of(self.engine) if handle is None else handle

    cdef kn_route *_route_now(self) noexcept:
        # NULL after _end(). The caller has taken `_handle()` before.
        cdef kn_route *route
        kn_guard_lock(&self._guard)
        route = self._route
        kn_guard_unlock(&self._guard)
        return route

    cdef bint _is_over(self):
        return kn_flag_is_set(&self._closed) or kn_flag_is_set(&self._lost) or self.engine.is_forked()

    def _attach(self, Cursor cursor not None):
        """Send the cursor's later segments to this queue. The caller begins a new fetch epoch."""
        cdef EngineHandle handle = self._handle()
        cdef kn_route *route = self._route_now()
        if route != NULL and handle.engine != NULL:
            kn_cursor_set_route(cursor.cursor, &route.queue)

    def _lose(self):
        """End all waits: the partition isn't assigned any more. Control thread."""
        kn_flag_set(&self._lost, True)
        self._kick()

    def _kick(self):
        cdef EngineHandle handle = self._handle()
        cdef kn_route *route = self._route_now()
        if route != NULL and handle.engine != NULL:
            kn_queue_kick(&route.queue)

    def _end(self):
        """End all waits and free the segments. Then no cursor may be attached any more."""
        cdef EngineHandle handle = self._handle()
        cdef kn_route *route
        kn_flag_set(&self._closed, True)
        kn_object_lock_take(&self._lock)
        if self._segment != NULL:
            self._drop_segment()
        # Under the lock: another thread takes no segment from a route that serves the next queue.
        kn_guard_lock(&self._guard)
        route = self._route
        self._route = NULL
        self._route_handle = None
        kn_guard_unlock(&self._guard)
        kn_object_lock_release(&self._lock)
        if route == NULL:
            return
        if handle.engine != NULL:  # not in a forked child
            kn_queue_kick(&route.queue)
            kn_engine_route_close(route)

    def _mark_closed(self):
        """End all waits."""
        kn_flag_set(&self._closed, True)
        self._kick()

    def _processed(self, int64_t position):
        """Return the position up to which the application has processed the messages.

        A message is processed when the next call begins. ``position``: the cursor's.
        """
        cdef int64_t held_from
        kn_object_lock_take(&self._lock)
        held_from = self._held_from
        kn_object_lock_release(&self._lock)
        return position if held_from < 0 else min(position, held_from)

    cdef void _hold(self, Message message):
        # The application has this message, and maybe later ones, in its hands.
        self._hold_from(-1 if message is None or error_of_message(message) is not None else message.offset())

    cdef void _hold_from(self, int64_t offset) noexcept:
        kn_object_lock_take(&self._lock)
        self._held_from = offset
        kn_object_lock_release(&self._lock)

    def poll(self, timeout=None):
        cdef double timeout_s = -1.0 if timeout is None else seconds(timeout)
        cdef Message message
        self._hold_from(-1)
        message = self._next_in_batch()
        if message is None:
            message = self._next_message(timeout_s, False)
        self._hold(message)
        return message

    def consume(self, num_messages=1, timeout=-1):
        self._hold_from(-1)
        messages = ConsumerCore.consume(self, num_messages, timeout)
        self._hold(messages[0] if messages else None)
        return messages

    def __next__(self):
        self._hold_from(-1)
        message = ConsumerCore.__next__(self)
        self._hold(message)
        return message


cdef class ConfluentConsumerCore(ConsumerCore):
    """ConsumerCore with the argument checks of confluent_kafka."""

    # A class with a field is the base of the layout of all derived classes. Without one, it may be
    # ConsumerCore, and then Python refuses ``Consumer.__new__(Consumer)``.
    cdef bint _unused

    def poll(self, double timeout=-1.0):
        cdef Message message
        if self.engine is not None:
            message = self._next_in_batch()
            if message is not None:
                return message
        # confluent_kafka casts the timeout to int milliseconds: NaN and huge numbers are negative
        return self._next_message(timeout if timeout < TIMEOUT_MAX_S else -1.0, False)
