# cython: freethreading_compatible=True
"""DeliveryCore: poll(), flush() and delivery reports.

`producer_core.ProducerCore` derives from it.

Thread: any. Two locks, which are critical sections: the CallbackTable's own, and that of the core,
which guards `_reports`, each Report in it and `_last_served`. A Python with an interpreter lock
needs neither. Both ends for a while when code in them waits, as the interpreter lock does when
Python code runs. Waiting for messages releases all of them.

A thread takes one message under the lock, and calls its callback without a lock. So a thread gets a
partition's reports in order, but another thread may run the next callback at the same time.
"""
cimport cython
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, realloc

from kafka_native._native.arrow_report cimport ArrowReport
from kafka_native._native.delivery cimport Delivery
from kafka_native._native.engine cimport EngineHandle, handle_of, seconds
from kafka_native._native.free_threading cimport FREE_THREADED, kn_count_add, kn_count_of, kn_flag_is_set, kn_flag_set
from kafka_native._native.kn_engine cimport *
from kafka_native._native.kn_enums cimport *
from kafka_native._native.kn_records cimport *
from kafka_native._native.message cimport (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Batch,
    Message,
    message_of,
)

from kafka_native.cleaning import error_text

cdef extern from "sched.h":
    int sched_yield() nogil


cdef enum:
    FIRST_SLOTS = 8


cdef enum TakenKind:
    NOTHING
    MESSAGE
    COUNTER
    ALL
    AGAIN


cdef inline int32_t _slot_of(const void *token) noexcept:
    return <int32_t>(<uintptr_t>token >> 1) - 1


@cython.final
@cython.no_gc_clear  # clearing the list breaks the cycles
cdef class CallbackTable:
    """The callbacks of queued messages. The engine stores tokens instead of references.

    These tokens are even. The tokens of a counter's rows are odd. The references are in a list,
    where the garbage collector sees them, so a message that is never reported keeps no cycle alive.
    The same callback for many messages has one slot.

    Thread: any. A method holds the table's lock. In it no thread waits, so it never ends early.
    """

    def __cinit__(self):
        self.objects = []
        self.first_free = self.last = -1

    def __dealloc__(self):
        free(self.slots)

    cdef void *hold(self, callback, int64_t count) except NULL:
        # Return the token of a callback, and count so many more messages for it.
        return self._hold_locked(callback, count) if FREE_THREADED else self._hold(callback, count)

    @cython.critical_section
    cdef void *_hold_locked(self, callback, int64_t count) except NULL:
        return self._hold(callback, count)

    cdef inline void *_hold(self, callback, int64_t count) except NULL:
        cdef int32_t slot = self.last
        if slot < 0 or slot >= PyList_GET_SIZE(self.objects) or PyList_GET_ITEM(self.objects, slot) != <PyObject *>callback:
            return self._hold_new(callback, count)
        self.slots[slot].uses += count
        return <void *>((<uintptr_t>slot + 1) << 1)

    cdef void *_hold_new(self, callback, int64_t count) except NULL:
        cdef int32_t slot
        if self.first_free < 0:
            self._grow()
        slot = self.first_free
        self.first_free = self.slots[slot].next_free
        self.slots[slot].uses = count
        self.last = slot
        self.objects[slot] = callback
        return <void *>((<uintptr_t>slot + 1) << 1)

    cdef int _grow(self) except -1:
        cdef int32_t capacity = self.capacity * 2 if self.capacity else FIRST_SLOTS
        cdef CallbackSlot *larger = <CallbackSlot *>realloc(self.slots, <size_t>capacity * sizeof(CallbackSlot))
        if larger == NULL:
            raise MemoryError
        self.slots = larger
        self.objects += [None] * (capacity - len(self.objects))
        for slot in range(self.capacity, capacity):
            larger[slot].uses = 0
            larger[slot].next_free = slot + 1 if slot + 1 < capacity else -1
        self.first_free = self.capacity
        self.capacity = capacity
        return 0

    cdef object take(self, const void *token):
        # Return the callback of a message that needs it no more.
        return self._take_locked(token) if FREE_THREADED else self._take(token)

    @cython.critical_section
    cdef object _take_locked(self, const void *token):
        return self._take(token)

    cdef inline object _take(self, const void *token):
        cdef int32_t slot = _slot_of(token)
        if slot >= PyList_GET_SIZE(self.objects):
            return None  # the garbage collector has cleared the list
        if self.slots[slot].uses > 1:
            self.slots[slot].uses -= 1
            return <object>PyList_GET_ITEM(self.objects, slot)
        return self._give_back(token, 1)

    @cython.critical_section
    cdef object peek(self, const void *token):
        # Return the callback of a message that still needs it.
        cdef int32_t slot = _slot_of(token)
        return <object>PyList_GET_ITEM(self.objects, slot) if slot < PyList_GET_SIZE(self.objects) else None

    @cython.critical_section
    cdef object give_back(self, const void *token, int64_t count):
        # Count so many messages less. Returns the callback, so that its deallocation, which may run
        # code, comes last.
        return self._give_back(token, count)

    cdef object _give_back(self, const void *token, int64_t count):
        cdef int32_t slot = _slot_of(token)
        self.slots[slot].uses -= count
        if self.slots[slot].uses or slot >= PyList_GET_SIZE(self.objects):
            return None
        callback = <object>PyList_GET_ITEM(self.objects, slot)
        self.slots[slot].next_free = self.first_free
        self.first_free = slot
        if self.last == slot:
            self.last = -1
        self.objects[slot] = None
        return callback

    cdef void clear(self):
        # No message needs a callback any more. The slots stay, because a thread may be about to
        # give one back.
        cdef list gone = self._clear()
        gone.clear()

    @cython.critical_section
    cdef list _clear(self):
        cdef list gone = self.objects
        cdef int32_t slot
        self.objects = [None] * self.capacity
        for slot in range(self.capacity):
            self.slots[slot].uses = 0
            self.slots[slot].next_free = slot + 1 if slot + 1 < self.capacity else -1
        self.first_free = 0 if self.capacity else -1
        self.last = -1
        return gone


@cython.final
@cython.no_gc
cdef class Report:
    """A delivered batch whose messages are being reported, or the completion of a counter.

    Several threads may report it, each with a different message. It is in the list of reports
    before Python code runs for it: constructing a KafkaError, or a garbage collection, may let
    another thread run. A thread that finds it not `ready` prepares it, even if another thread has
    begun to.

    Its fields are under the lock of the core. `error` and `chunk` never change once it is `ready`.
    """

    def __dealloc__(self):
        kn_chunk_unref(self.chunk)
        kn_batch_free(self.batch)  # left over from a producer that no thread polls any more

    cdef int open(self) except -1:
        # No Python code runs in this method.
        cdef kn_batch_view view
        # Don't read the header: a batch that failed early never got one.
        if kn_batch_view_plain(self.batch, &view) != KN_OK or kn_record_reader_init(&self.reader, &view) != KN_OK:
            raise SystemError("a delivered batch can't be read back")
        self.chunk = kn_chunk_new(self.batch.plain)
        if self.chunk == NULL:
            raise MemoryError  # the batch has kept its bytes: the next call opens it
        # The chunk owns the bytes now: Messages may outlive the batch.
        if self.batch.wire == self.batch.plain:
            self.batch.wire = NULL
        self.batch.plain = NULL
        return 0

    cdef int prepare(self, DeliveryCore core, EngineHandle handle) except -1:
        cdef kn_batch *batch = self.batch
        cdef int32_t partition = batch.partition
        cdef Batch shared
        if batch.counter != NULL:
            self.ready = True
            return 0
        if self.chunk == NULL and batch.plain != NULL:
            self.open()
        topic = (<bytes>batch.topic.name[:batch.topic.name_bytes]).decode()
        error = None
        if batch.status != KN_OK or batch.error_code != 0:
            text = None if batch.error_text == NULL else error_text((<bytes>batch.error_text).decode("utf-8", "replace"))
            error = core.engine.error_of(batch.status, batch.error_code, text, topic, partition)
            if self.ready or self.batch == NULL:
                return 0  # another thread has prepared it meanwhile, and the batch may be freed
        if batch.opaques != NULL:
            self.take_tokens(core, handle, error)
        if self.chunk == NULL:
            # It has only rows of counters, and they are reported.
            if self.batch != NULL:
                self.index = batch.writer.record_count
            self.ready = True
            return 0
        shared = Batch.of(kn_chunk_ref(self.chunk), topic, partition, core.engine.pins)
        if self.ready or self.batch == NULL:
            # another thread has prepared it, and the batch may be freed; from here on no other thread
            # runs
            return 0
        shared.error = error
        shared.status = batch.persistence
        shared.latency_s = max(-1.0, (batch.acked_us - batch.created_us) / 1e6)  # -1: never sent
        if batch.log_append_time_ms < 0:
            shared.created_ms = batch.created_ms
        shared.timestamp_type = TIMESTAMP_CREATE_TIME if batch.log_append_time_ms < 0 else TIMESTAMP_LOG_APPEND_TIME
        if batch.base_offset >= 0:
            shared.base_offset = batch.base_offset
        if core._confluent:
            shared.hides_headers = True
            if batch.acked_us < batch.created_us:
                shared.latency_s = (kn_clock_us() - batch.created_us) / 1e6
            if error is not None:
                shared.timestamp_type = TIMESTAMP_NOT_AVAILABLE
        self.error = error
        self.shared = shared
        self.ready = True
        return 0

    cdef int take_tokens(self, DeliveryCore core, EngineHandle handle, error) except -1:
        # Report the rows among the messages to their counters. The method takes each token before
        # it makes an object for it, because that may let another thread run. So no row is reported
        # twice, and a counter lives until its last row is reported.
        cdef kn_delivery_counter *counter
        cdef void *token
        while self.batch != NULL and self.token < self.batch.writer.record_count:
            token = self.batch.opaques[self.token]
            self.token += 1
            if not kn_token_is(token):
                continue
            self.batch.opaques[self.token - 1] = KN_TOKEN_TAKEN
            counter = kn_delivery_counter_of(&handle.engine.counters, token)
            if counter == NULL:
                continue
            report = None if error is None else core._callbacks.peek(counter.binding)
            if report is not None:
                (<ArrowReport>report).add(kn_token_row(token), error)
            kn_delivery_counter_settle(counter, 1, error is None)
        return 0

    cdef int use_partition(self, int32_t partition) except -1:
        # Staged messages that never reached a partition's batch have a partition each. A new Batch
        # may let another thread run.
        cdef Batch other = self.shared.copy()
        other.partition = partition
        self.shared = other
        return 0

    cdef Message read(self, bint wanted):
        # Move to the next message, and return its Message if it is wanted. If there is no memory,
        # it doesn't move. No Python code runs.
        cdef Batch shared = self.shared
        cdef kn_batch *batch = self.batch
        cdef Message message = None
        cdef kn_record record
        cdef const uint8_t *start = self.reader.span.at
        if kn_record_reader_next(&self.reader, &record) != KN_OK:
            raise SystemError("a delivered batch can't be read back")
        if wanted:
            if batch.log_append_time_ms >= 0:
                record.timestamp_ms = batch.log_append_time_ms
            if shared.timestamp_type == TIMESTAMP_NOT_AVAILABLE:
                record.timestamp_ms = -1
            record.offset = shared.base_offset + self.index if batch.base_offset >= 0 else shared.base_offset
            message = message_of(shared, &self.reader, start, &record)
        self.index += 1
        return message


cdef list list_of_runs(const kn_runs *runs):
    # Return (row, offset, length) tuples.
    cdef int64_t i
    return [(runs.runs[i].row, runs.runs[i].offset, runs.runs[i].length) for i in range(runs.count)]


@cython.no_gc_clear
cdef class DeliveryCore:
    """Reports the outcomes of messages. The base class of a producer."""

    _uninitialized_text = "Producer is not initialised: call super().__init__(conf)"

    def __cinit__(self):
        self._reports = []
        self._callbacks = CallbackTable.__new__(CallbackTable)

    cdef bint _queue_at_once(self, topic, value, key, partition, timestamp, headers, Delivery delivery) except -1:
        # Do what produce() does, but return False if there is no room. ProducerCore has it. There
        # must be no partitioner_cb.
        raise NotImplementedError

    @cython.critical_section
    cdef Report _next_report(self, EngineHandle handle):
        # Return the first report in the list, ready, or None.
        cdef Report report
        cdef kn_batch *batch
        while True:
            if self._reports:
                report = <Report>self._reports[0]
                if report.ready:
                    return report
                report.prepare(self, handle)
                continue
            # before the pop: an allocation error after it would lose the batch
            report = Report.__new__(Report)
            batch = <kn_batch *>kn_queue_pop(&handle.engine.deliveries)
            if batch == NULL:
                return None
            report.batch = batch
            self._reports.append(report)

    cdef int _serve(self) except -1:
        # Run every callback that is due now. Later ones wait, or a busy producer would never return
        # to its caller. A callback that raises ends the call, and the others wait for the next
        # call. Returns the number of events. A settled batch is one event.
        cdef int served = 0
        cdef long batches
        cdef Report report
        cdef EngineHandle handle = handle_of(self.engine)
        while self.engine.callbacks:
            try:
                callback = self.engine.callbacks.popleft()
            except IndexError:
                break  # another thread has taken it
            callback()
            served += 1
        if handle.engine == NULL:
            return served
        served += <int>kn_engine_take_unreported(handle.engine)
        batches = kn_queue_count(&handle.engine.deliveries) + len(self._reports)
        while handle.engine != NULL and batches > 0:
            report = self._next_report(handle)
            if report is None:
                return served
            batches -= 1
            served += self._serve_report(report, handle)
        return served

    cdef int _serve_report(self, Report report, EngineHandle handle) except -1:
        # Report the remaining messages of a batch. During a callback another thread, or a nested
        # poll(), may take messages from it too. The one that finds none left frees the batch.
        # Returns 1 if this call reported something.
        cdef int served = 0
        cdef Taken taken
        cdef Message message
        cdef bint quiet = handle.engine.config.produce.report_errors_only and report.error is None
        cdef bint by_default = self._on_delivery is not None and not quiet
        while True:
            message = self._take_locked(report, by_default, quiet, &taken) if FREE_THREADED else self._take(report, by_default, quiet, &taken)
            if taken.kind == MESSAGE:
                callback = self._on_delivery if taken.token == NULL else None if kn_token_is(taken.token) else self._callbacks.take(taken.token)
                if FREE_THREADED:
                    kn_count_add(&self._taking, -1)
                if message is None or callback is None:
                    continue
                served = 1
                if type(callback) is Delivery:
                    (<Delivery>callback).settle(report.error, message)
                else:
                    callback(report.error, message)
                if handle.engine == NULL:  # it has forked
                    return served
            elif taken.kind == COUNTER:
                served = 1
                callback = self._callbacks.take(taken.counter.binding)
                if FREE_THREADED:
                    kn_count_add(&self._taking, -1)
                self._serve_counter(taken.counter, callback)
            elif taken.kind == ALL:
                if handle.engine != NULL:  # a callback may have forked
                    kn_engine_batch_reported(handle.engine, taken.batch)
                return 1
            elif taken.kind == NOTHING:
                return served

    @cython.critical_section
    cdef Message _take_locked(self, Report report, bint by_default, bint quiet, Taken *taken):
        cdef Message message = self._take(report, by_default, quiet, taken)
        if taken.kind == MESSAGE or taken.kind == COUNTER:
            kn_count_add(&self._taking, 1)
        return message

    @cython.nonecheck(False)
    cdef inline Message _take(self, Report report, bint by_default, bint quiet, Taken *taken):
        # Take the next message of a report, and everything that its callback needs: the callback
        # may raise, call poll(), or let another thread poll, and then the batch may be freed.
        # Returns None if no callback gets the message.
        cdef kn_batch *batch = report.batch
        cdef Message message
        taken.kind = NOTHING
        if batch == NULL:
            return None  # another thread has freed it
        if report.index >= batch.writer.record_count:
            report.batch = NULL
            self._reports.remove(report)
            taken.batch = batch
            taken.kind = ALL
            return None
        if batch.counter != NULL:
            report.index = 1
            taken.counter = batch.counter
            taken.kind = COUNTER
            return None
        if batch.partitions != NULL and batch.partitions[report.index] != report.shared.partition:
            report.use_partition(batch.partitions[report.index])
            taken.kind = AGAIN
            return None
        taken.token = NULL if batch.opaques == NULL else batch.opaques[report.index]
        message = report.read(by_default if taken.token == NULL else not (quiet or kn_token_is(taken.token)))
        if taken.token != NULL:
            batch.opaques[report.index - 1] = NULL
        taken.kind = MESSAGE
        return message

    cdef int _take_counter(self, kn_delivery_counter *counter, ArrowReport report) except -1:
        # Fill the report of a finished counter, and free the counter.
        if report is not None:
            report.finish(counter.delivered, list_of_runs(&counter.runs))
        kn_delivery_counter_free(counter)
        return 0

    cdef int _serve_counter(self, kn_delivery_counter *counter, ArrowReport report) except -1:
        # Run the callback of a produce_arrow(). The counter is freed first, because the callback
        # may let another thread finish the completion.
        self._take_counter(counter, report)
        if report is None:
            return 0  # close() has finished it
        callback = report.callback
        report.callback = None
        callback(report)
        return 0

    cdef int _end_counter(self, kn_delivery_counter *counter, ArrowReport report, int64_t rows, bint discard) except -1:
        # Close the counter to new rows. The report comes after the last outcome, perhaps now. With
        # `discard` a counter without rows is dropped.
        cdef kn_batch *completion = counter.completion
        cdef bint last_served
        cdef EngineHandle handle = handle_of(self.engine)
        report.rows = rows
        if discard and rows == 0:
            self._callbacks.take(counter.binding)
            kn_delivery_counter_discard(counter)
            return 0
        if not kn_delivery_counter_close(counter):
            return 0
        with cython.critical_section(self):
            last_served = self._last_served
            if not last_served:
                kn_queue_push(&handle.engine.deliveries, &completion.node)
        if not last_served:
            return 0
        # close() in another thread has run its last callback, so no other thread runs this one.
        try:
            self._callbacks.take(counter.binding)
            self._serve_counter(counter, report)
        finally:
            if handle.is_shared:  # after release(): nobody reads the counts of the engine any more
                kn_batch_free(completion)
            else:
                kn_engine_batch_reported(handle.engine, completion)
        return 0

    def poll(self, double timeout=-1):
        cdef int served
        self._check_open()
        seconds(timeout)
        served = self._serve()
        if served or timeout == 0:
            return served
        return self._serve_first(kn_deadline_us(timeout))

    cdef int _serve_first(self, int64_t deadline) except -1:
        # Wait for the first event, and serve the events that are due then.
        cdef int served = 0
        cdef bint was_full = kn_flag_is_set(&self._was_full)
        cdef EngineHandle handle = handle_of(self.engine)
        if was_full:
            kn_flag_set(&self._was_full, False)
        kn_engine_poll_begin(handle.engine)
        if was_full:
            kn_engine_flush_begin(handle.engine)
        try:
            while True:
                served = self._serve()
                if served or handle.engine == NULL or kn_flag_is_set(&self.engine.is_closed) or not self.engine.wait(&handle.engine.deliveries, deadline):
                    return served
        finally:
            if handle.engine != NULL:
                kn_engine_poll_end(handle.engine)
                if was_full:
                    kn_engine_flush_end(handle.engine)

    def flush(self, double timeout=-1):
        cdef int64_t deadline = kn_deadline_us(seconds(timeout))
        cdef EngineHandle handle
        self._check_open()
        handle = handle_of(self.engine)
        kn_engine_flush_begin(handle.engine)
        try:
            while True:
                self._serve()
                if handle.engine == NULL:
                    return 0  # a callback has forked
                if kn_engine_outstanding(handle.engine) == 0:
                    kn_engine_take_unreported(handle.engine)  # events since _serve()
                    break
                if not self.engine.wait(&handle.engine.deliveries, deadline):
                    break
                if handle.engine == NULL:
                    return 0
                if kn_flag_is_set(&self.engine.is_closed):
                    break
        finally:
            if handle.engine != NULL:
                kn_engine_flush_end(handle.engine)
        return kn_engine_outstanding(handle.engine)

    cdef object _refusal(self, int status, text=None, where=None):
        # Return the exception for a status. `where` names the message, if there were several.
        if status == KN_ERR_FULL:
            kn_flag_set(&self._was_full, True)
            return BufferError("Local: Queue full")
        if status == KN_ERR_NOMEM:
            return MemoryError()
        if status == KN_ERR_CLOSED:
            return self.engine.closed_error("Producer has been closed")
        return self._exception_of(status, text, where)

    cdef _check_open(self):
        if self.engine is None:
            raise RuntimeError(self._uninitialized_text)
        if kn_flag_is_set(&self._closed) or self.engine.is_forked():
            raise self.engine.closed_error("Producer has been closed")

    def _mark_closed(self):
        """Refuse further produce() calls, also waiting ones.

        The public class's close() calls it first.
        """
        kn_flag_set(&self._closed, True)
        if self.engine is not None:
            self.engine.kick()

    def _serve_last(self):
        """Run the callbacks of the messages that failed in close(), after the engine has stopped."""
        cdef EngineHandle handle = handle_of(self.engine)
        while not self._are_served(handle):
            if not self._serve() and FREE_THREADED:
                with nogil:
                    sched_yield()  # another thread is about to take its callback from the table

    @cython.critical_section
    cdef bint _are_served(self, EngineHandle handle):
        # Return whether no report is left, and no thread needs the table for one. Then a thread
        # that ends a produce_arrow() makes its report itself.
        self._last_served = handle.engine == NULL or not (
            self._reports or kn_queue_count(&handle.engine.deliveries) > 0 or (FREE_THREADED and kn_count_of(&self._taking)))
        return self._last_served

    def _drain(self):
        """Drop all unserved reports and callbacks, without calling them."""
        cdef kn_batch *batch
        cdef kn_delivery_counter *counter
        cdef int32_t i, served
        cdef EngineHandle handle = None if self.engine is None else handle_of(self.engine)
        while handle is not None and handle.engine != NULL:
            batch = self._take_unserved(handle, &served)
            if batch == NULL:
                break
            if batch.counter != NULL and served == 0:
                kn_delivery_counter_free(batch.counter)
            if batch.opaques != NULL:
                for i in range(batch.writer.record_count):
                    if kn_token_is(batch.opaques[i]):
                        counter = kn_delivery_counter_of(&handle.engine.counters, batch.opaques[i])
                        if counter != NULL:
                            kn_delivery_counter_settle(counter, 1, 0)
            kn_engine_batch_reported(handle.engine, batch)
        self._callbacks.clear()

    @cython.critical_section
    cdef kn_batch *_take_unserved(self, EngineHandle handle, int32_t *served) except? NULL:
        # Take a batch whose reports are dropped. `served` is the number of its messages that have
        # been reported.
        cdef Report report
        cdef kn_batch *batch
        if not self._reports:
            served[0] = 0
            return <kn_batch *>kn_queue_pop(&handle.engine.deliveries)
        report = <Report>self._reports.pop(0)
        served[0] = report.index
        batch = report.batch
        report.batch = NULL
        return batch

    def __len__(self):
        return 0 if self.engine is None else self.engine.outstanding

    def __bool__(self):
        return True
