# cython: freethreading_compatible=True
"""Consumption as Arrow columns.

`kafka_native.arrow` has the public classes, csrc/arrow the algorithm.

Thread: the application's, as in consumer_core.pyx. Columns are filled without the interpreter lock.
Meanwhile `ConsumerCore._acquire()` keeps other threads from taking messages, as during callbacks.
Filled records count as delivered when the positions are settled, under the lock of each cursor. A
seek() or pause() may have made a segment stale meanwhile. Then its records leave the columns.
A taker belongs to one call, or to one coroutine. Columns don't change after the call.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.exc cimport PyErr_SetInterrupt
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport EINTR, EIO, ENOMEM
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from kafka_native._native.arrow_capsules cimport array_capsule, schema_capsule, stream_capsule
from kafka_native._native.arrow_decoding cimport DecodedType, Decoding, SchemaDecoder, new_decoding
from kafka_native._native.codec_core cimport Layout
from kafka_native._native.consumer_core cimport ConsumerCore, PositionTaker
from kafka_native._native.engine cimport Cursor, EngineHandle, handle_of, seconds
from kafka_native._native.free_threading cimport *
from kafka_native._native.kn_arrow cimport *
from kafka_native._native.kn_codecs cimport kn_columns_set_decoding
from kafka_native._native.kn_engine cimport *
from kafka_native._native.kn_enums cimport *
from kafka_native._native.kn_records cimport *
from kafka_native._native.message cimport Message
from kafka_native._native.arrow_decoding import text_layout
from kafka_native._native.message import Message as NewMessage

cdef extern from "Python.h":
    int Py_IsInitialized() noexcept nogil

# The memory of freed batches that is kept for the next ones. New pages cost more than filling them.
cdef size_t KEEP_BYTES = 256 << 20
cdef size_t KEEP_IDLE_BYTES = 1 << 20

# (layout, UTF-8?, units a millisecond) by the type names of the public API.
cdef dict TYPES = {
    "int8": (KN_LAYOUT_INT8, False, 0),
    "int32": (KN_LAYOUT_INT32, False, 0),
    "int64": (KN_LAYOUT_INT64, False, 0),
    "timestamp[ms]": (KN_LAYOUT_INT64, False, 1),
    "timestamp[us]": (KN_LAYOUT_INT64, False, 1000),
    "timestamp[ns]": (KN_LAYOUT_INT64, False, 1000000),
    "binary": (KN_LAYOUT_BYTES, False, 0),
    "string": (KN_LAYOUT_BYTES, True, 0),
    "large_binary": (KN_LAYOUT_LARGE_BYTES, False, 0),
    "large_string": (KN_LAYOUT_LARGE_BYTES, True, 0),
    "binary_view": (KN_LAYOUT_VIEW, False, 0),
    "string_view": (KN_LAYOUT_VIEW, True, 0),
    "dictionary": (KN_LAYOUT_DICTIONARY, True, 0),
    "list": (KN_LAYOUT_LIST, False, 0),
}
# The columns of records that don't decode. Two columns of texts follow them.
cdef list MALFORMED_COLUMNS = [
    ("topic", "dictionary"),
    ("partition", "int32"),
    ("offset", "int64"),
    ("timestamp", "timestamp[ms]"),
    ("timestamp_type", "int32"),
    ("key", "binary"),
    ("value", "binary"),
    ("headers", "list"),
]
cdef dict FIELDS = {(<bytes>kn_column_name(<kn_column_field><int>number)).decode(): number for number in range(KN_FIELD_COUNT)}


@cython.final
cdef class ColumnPlan:
    """The columns, their types and their order. `kafka_native.arrow.plan_of` has checked them."""

    def __init__(self, columns not None, *, bint splits=False):
        """``columns`` has a (name, type) pair for each column.

        A type is a str, a `DecodedType`, or a `Layout` for what `kn_columns_split` appends.
        ``splits``: records that don't decode have no row. They are in `ColumnBatch.malformed`.
        """
        cdef DecodedType decoded
        names, types = [], []
        self.decoded = []
        for name, kind in columns:
            if isinstance(kind, Layout):
                self._add_built(name, kind, names, types)
                continue
            if not isinstance(kind, DecodedType):
                layout, is_text, ticks = TYPES[kind]
                self._add(name, layout, is_text, ticks)
                names.append(name)
                types.append(kind)
                continue
            decoded = kind
            self.decoded.append((self.count, decoded))
            self.specs[self.count].type = decoded.layout.layout
            self.specs[self.count].is_flat = decoded.is_flat
            self._add(name, KN_LAYOUT_DECODED, False, 0)
            names += decoded.column_names()
            types.append(decoded)
            if decoded.has_reasons:
                self._add_built(f"{name}_error", text_layout(), names, types)
            if decoded.keeps_bytes:
                self._add_built(f"{name}_bytes", decoded.bytes, names, types)
        if splits:
            texts = text_layout()
            self.malformed = ColumnPlan([*MALFORMED_COLUMNS, ("field", texts), ("error", texts)])
        self.names = tuple(names)
        self.types = tuple(types)

    cdef int _add_built(self, str name, Layout layout, list names, list types) except -1:
        # Add a column about records that don't decode.
        self.specs[self.count].type = layout.layout
        self._add(name, KN_LAYOUT_DECODED, False, 0)
        names.append(name)
        types.append(layout)
        return 0

    cdef void _add(self, str name, int layout, bint is_text, int ticks):
        self.specs[self.count].field = <kn_column_field><int>FIELDS[name]
        self.specs[self.count].layout = <kn_column_layout>layout
        self.specs[self.count].is_text = is_text
        self.specs[self.count].ticks = ticks
        self.count += 1

    def __arrow_c_schema__(self):
        """Return a capsule with the ArrowSchema of a struct of these columns."""
        cdef ArrowSchema *schema = <ArrowSchema *>calloc(1, sizeof(ArrowSchema))
        if schema == NULL or kn_columns_export_schema(self.specs, self.count, schema) != KN_OK:
            free(schema)
            raise MemoryError
        return schema_capsule(schema)


class UnfitError(ValueError):
    """A record does not fit the type of its column."""

    def __init__(self, problem, advice):
        super().__init__(f"{problem}; nothing is lost, {advice}")
        self.problem = problem


class MissingSchema(Exception):
    """The schema of a record has to be looked up before its column can be filled."""

    def __init__(self, source, key, place):
        super().__init__(*place)
        self.source = source
        self.key = key
        self.place = place

    def look_up(self):
        """Ask the registry. Then the next call decodes the record."""
        try:
            self.source.prepare(self.key)
        except MemoryError:
            raise
        except Exception as error:
            raise self.source.lookup_error(*self.place, self.key, error) from error


cdef object unfit_error(str topic, int32_t partition, int64_t offset, ColumnBatch batch, int column, bint is_full):
    # The exception for a record that a column can't hold.
    cdef ColumnPlan plan = batch.plan
    place = f"{topic} [{partition}] at offset {offset}"
    kind = plan.types[column]
    if is_full:
        if isinstance(kind, DecodedType):
            return UnfitError(f"{place}: a decoded column is full", "ask for fewer fields")
        return UnfitError(f"{place}: a column is full", "ask for large_binary or a view")
    if isinstance(kind, DecodedType):
        return (<Decoding>batch.decodings[column]).error(topic, partition, offset)
    why = "the time is out of its range" if kind.startswith("timestamp") else "the bytes aren't UTF-8"
    other = "timestamp[ms]" if kind.startswith("timestamp") else "binary"
    return UnfitError(f"{place}: its {plan.names[column]} can't be a {kind}: {why}", f"ask for {other} instead")


@cython.final
cdef class ColumnMemory:
    """The memory that the batches of one consumer share:

    free buffers, and the sizes of the last batch.
    """

    def __cinit__(self):
        self.pool = kn_pool_new(KEEP_BYTES)
        self.held = kn_kept_bytes_new()
        if self.pool == NULL or self.held == NULL:
            raise MemoryError

    def __dealloc__(self):
        # Existing batches return their memory to the pool. The last one frees the pool.
        if self.pool != NULL:
            kn_pool_free(self.pool)
        kn_kept_bytes_unref(self.held)

    cdef void expect(self, kn_columns *columns, ColumnPlan plan, int64_t count_max) noexcept:
        # Reserve the size of the last batch and an eighth more, scaled to the possible number of
        # rows.
        cdef int64_t rows
        cdef double size
        with cython.critical_section(self):
            rows = min(count_max, self.rows + self.rows // 8)
            for number in range(columns.column_count if self.rows else 0):
                size = <double>self.sizes[<int>plan.specs[number].field] / self.rows * rows
                kn_columns_expect(columns, number, rows, <int64_t>(size * 1.125))

    cdef void remember(self, kn_columns *columns, ColumnPlan plan) noexcept:
        if kn_columns_record_count(columns) == 0:
            kn_pool_trim(self.pool, KEEP_IDLE_BYTES)  # no records arrived: free the memory
            return
        with cython.critical_section(self):
            self.rows = columns.row_count
            for number in range(columns.column_count):
                self.sizes[<int>plan.specs[number].field] = columns.columns[number].bytes_used


cdef object BY_TAKE_COLUMNS = object()


@cython.final
cdef class ColumnBatch:
    """Columns of records, and the other results of the call. See `kafka_native.arrow.ArrowBatch`.
    """

    def __cinit__(self, by):
        if by is not BY_TAKE_COLUMNS:
            raise TypeError("a ColumnBatch is made by take_columns()")

    def __dealloc__(self):
        if self.columns != NULL:
            with nogil:
                kn_columns_unref(self.columns)

    def __len__(self):
        return self.columns.row_count

    @property
    def record_count(self):
        """The number of records, with the malformed ones."""
        return kn_columns_record_count(self.columns)

    @property
    def nbytes(self):
        """The bytes of the buffers, including the responses that views point into."""
        return kn_columns_size_bytes(self.columns)

    def __arrow_c_array__(self, requested_schema=None):
        """Return capsules with the ArrowSchema and the ArrowArray.

        A requested schema with other types is ignored. Choose the types when you consume.
        """
        cdef ArrowArray *array = <ArrowArray *>calloc(1, sizeof(ArrowArray))
        if array == NULL or kn_columns_export(self.columns, array) != KN_OK:
            free(array)
            raise MemoryError
        capsule = array_capsule(array)
        return self.plan.__arrow_c_schema__(), capsule

    def __arrow_c_stream__(self, requested_schema=None):
        """Return a capsule with an ArrowArrayStream of this one batch."""
        cdef ArrowArrayStream *stream = <ArrowArrayStream *>calloc(1, sizeof(ArrowArrayStream))
        if stream == NULL or kn_columns_export_stream(self.columns, stream) != KN_OK:
            free(stream)
            raise MemoryError
        return stream_capsule(stream)


@cython.final
cdef class ColumnTaker(PositionTaker):
    """Collects records as columns, for one call."""

    cdef ColumnBatch batch
    cdef kn_fill fill
    cdef bint defers  # unknown schemas are left to the caller
    cdef object missing  # the MissingSchema of the next record, or None
    cdef Cursor cursor  # of the segment at which the last run ended, or None

    def __dealloc__(self):
        kn_columns_unref(self.fill.columns)

    cdef int take(self, ConsumerCore core) except -1:
        cdef kn_fill_end end
        cdef unsigned long before
        cdef Message message
        while True:
            if core.engine.notices:
                if self.in_hand:
                    self.enough = True
                else:
                    self.take_error(core)
                if self.enough:
                    return 0
                continue
            if not core._acquire(&before):
                return 0  # another thread takes messages, or runs callbacks
            try:
                end = self._run(core)
            finally:
                core._release(before)
            if core._is_over():
                core._drain()  # close() may have drained the queue before the segments were put back
            self.in_hand = kn_columns_record_count(self.fill.columns) > 0 or len(self.ends) > 0
            if end == KN_FILL_PAUSED:
                if core._is_over():
                    return 0
            elif end == KN_FILL_DRAINED:
                if not self.in_hand:
                    self.check_fatal(core)
                return 0
            elif end in (KN_FILL_UNKNOWN_SCHEMA, KN_FILL_UNFIT) and self.cursor is None:
                return 0  # another thread has closed the consumer
            elif end == KN_FILL_UNKNOWN_SCHEMA:
                if not self._find_decoder(core):
                    return 0
            elif end == KN_FILL_NOTICE and (message := core._take_end()) is not None:
                self.ends.append(message)
                self.in_hand = self.enough = True  # take the queued records, but wait for no others
            elif self.in_hand:
                self.enough = True  # the next call handles the reason for this end
                return 0
            else:
                self._take_problem(core, end)
                if self.enough:
                    return 0

    cdef kn_fill_end _run(self, ConsumerCore core) except *:
        # The core is acquired.
        cdef kn_fill_end end
        cdef bint reading
        cdef bint reverted
        cdef EngineHandle handle = handle_of(core.engine)
        self.fill.queue = &handle.engine.fetched
        self.fill.segment = core._borrow_segment(&self.fill.reader, &reading)
        self.fill.is_reading = reading
        with nogil:
            end = kn_fill_run(&self.fill)
        try:
            reverted = self._settle(core)
        finally:
            kn_fill_finish(&self.fill)
            core._return_segment(handle, self.fill.segment, &self.fill.reader, self.fill.is_reading)
            self.fill.segment = NULL
            self.cursor = core._cursor
        if reverted:
            return KN_FILL_PAUSED
        return end

    cdef bint _settle(self, ConsumerCore core) except -1:
        # Move the positions as consume() does. True if a segment had become stale: then that
        # segment and the later ones were reverted.
        cdef kn_taken_segment *taken
        cdef Cursor cursor
        cdef int number
        for number in range(self.fill.taken_count):
            taken = &self.fill.taken[number]
            cursor = core.engine.cursors[taken.segment.cursor.token - 1]
            if cursor is None or not self._settle_segment(cursor, taken):
                kn_fill_revert(&self.fill, number)
                return True
        return False

    cdef bint _settle_segment(self, Cursor cursor, const kn_taken_segment *taken) except -1:
        # Move the position. False if the segment is stale.
        cdef bint is_stale
        cdef bint passes_end = False
        cdef int64_t position = -1
        kn_object_lock_take(&cursor.lock)
        # The fetch epoch doesn't change between this check and the change of the position.
        is_stale = kn_segment_is_stale(taken.segment)
        if not is_stale:
            if taken.has_batch:
                cursor._position_epoch = taken.leader_epoch
            if taken.first_offset >= 0:
                cursor._position = taken.next_offset
            passes_end = taken.is_done and taken.segment.next_offset > cursor._position
            if passes_end:
                cursor._position = taken.segment.next_offset
            position = cursor._position
        kn_object_lock_release(&cursor.lock)
        if is_stale:
            return False
        if passes_end or taken.first_offset >= 0:
            key = (cursor.topic, cursor.partition)
            self.positions[key] = position
            if taken.first_offset >= 0:
                self.first.setdefault(key, taken.first_offset)
        return True

    cdef bint _find_decoder(self, ConsumerCore core) except -1:
        # Find the decoder that the next record needs. Return whether the fill goes on now. Asking
        # the registry may take long: meanwhile this call holds no segment.
        cdef Decoding decoding = self.batch.decodings[self.fill.unfit_column]
        cdef SchemaDecoder decoder
        cdef bint holding = self.in_hand
        key, source = decoding.missing(), decoding.type.source
        place = (self.cursor.topic, self.cursor.partition, self.fill.unfit_offset)
        decoder = source.known(key)
        if decoder is not None:
            decoding.add(key, decoder)
            return True
        if self.defers:
            self.enough = True
            self.missing = MissingSchema(source, key, place)
            if not self.in_hand:
                self.batch.missing = self.missing
            return False
        kn_count_add(&core.holding, holding)
        try:
            decoder = source.look_up(key)
        except Exception as error:
            if self.in_hand:
                self.enough = True  # the next call asks again, and raises the error
                return False
            if isinstance(error, MemoryError):
                raise
            raise source.lookup_error(*place, key, error) from error
        finally:
            kn_count_add(&core.holding, -holding)
        decoding.add(key, decoder)
        return not (core._is_over() or kn_flag_is_set(&core._woken) or (core._serves and core.engine.callbacks))

    cdef int _take_problem(self, ConsumerCore core, kn_fill_end end) except -1:
        # The call has no records, so it raises the error now.
        if end == KN_FILL_NOMEM:
            raise MemoryError
        if end == KN_FILL_FULL:
            if self.fill.records_max == 0:
                self.enough = True
                return 0
            advice = "fewer fields" if self.batch.decodings else "large_binary or a view"
            raise ValueError(f"{self._place(core)}: larger than a column can be; ask for {advice}")
        if end == KN_FILL_UNFIT:
            raise unfit_error(self.cursor.topic, self.cursor.partition, self.fill.unfit_offset, self.batch, self.fill.unfit_column, False)
        return self.take_error(core)

    cdef object _place(self, ConsumerCore core):
        # The place of the record at which the reader stands.
        cdef kn_record_reader reader
        cdef kn_record record
        cdef int64_t offset = -1
        cdef Cursor cursor = None
        kn_object_lock_take(&core._lock)
        if core._segment != NULL and core._reading:
            cursor = core._cursor
            reader = core._reader
            while offset < 0 and kn_record_reader_next(&reader, &record) == KN_OK:
                if record.offset >= core._segment.fetch_offset:
                    offset = record.offset
        kn_object_lock_release(&core._lock)
        return "a record" if cursor is None else f"{cursor.topic} [{cursor.partition}] at offset {offset}"


cdef ColumnBatch empty_batch(ColumnPlan plan, ColumnMemory memory, int64_t bytes_max):
    cdef ColumnBatch batch = ColumnBatch.__new__(ColumnBatch, BY_TAKE_COLUMNS)
    batch.plan = plan
    batch.positions = {}
    batch.ends = []
    batch.columns = kn_columns_new(plan.specs, plan.count, memory.pool, bytes_max)
    if batch.columns == NULL:
        raise MemoryError
    return batch


cdef ColumnBatch new_batch(ColumnPlan plan, ColumnMemory memory, int64_t count_max, int64_t bytes_max, int64_t pinned_max):
    # Return a batch without rows, to fill.
    cdef ColumnBatch batch = empty_batch(plan, memory, bytes_max)
    if plan.malformed is not None:
        batch.malformed = empty_batch(plan.malformed, memory, bytes_max)
        kn_columns_set_malformed(batch.columns, batch.malformed.columns)
    batch.decodings = {number: new_decoding(kind, batch.columns, number) for number, kind in plan.decoded}
    kn_columns_set_kept_bytes(batch.columns, memory.held, pinned_max)
    memory.expect(batch.columns, plan, count_max)
    return batch


cdef void end_batch(ColumnBatch batch) noexcept:
    # No rows are added any more.
    for number in batch.decodings:
        kn_columns_set_decoding(batch.columns, number, NULL)
    batch.decodings = None
    with nogil:
        kn_columns_settle(batch.columns)


def take_columns(ConsumerCore core not None, ColumnPlan plan not None, ColumnMemory memory not None, int64_t count_max, double timeout, *,
                 bint return_early=False, bint iterating=False, bint defer_lookups=False, int64_t bytes_max=2147483647):
    """Return a `ColumnBatch` of up to ``count_max`` records: the body of Consumer.consume_arrow().

    The caller has checked the arguments. With ``return_early`` the call returns as soon as it has
    records. With ``iterating`` a closed consumer is no error. With ``defer_lookups`` an unknown
    schema ends the call: `ColumnBatch.missing` has it. ``bytes_max`` is the maximum size of a column
    with 32-bit offsets.
    """
    cdef ColumnTaker taker = ColumnTaker.__new__(ColumnTaker)
    cdef ColumnBatch batch
    core._check_opens()
    batch = new_batch(plan, memory, count_max, bytes_max, core.engine.pins.max_bytes)
    taker.batch = batch
    taker.defers = defer_lookups
    batch.positions = taker.positions
    batch.ends = taker.ends
    taker.fill.records_max = count_max
    taker.enough = count_max == 0
    taker.fill.columns = kn_columns_ref(batch.columns)
    if iterating and kn_flag_is_set(&core._closed):
        batch.ended = True
        return batch
    core._gather(taker, seconds(timeout), return_early)
    end_batch(batch)
    batch.ended = taker.ended
    memory.remember(batch.columns, plan)
    return batch


# --- for waiting coroutines ---

@cython.final
cdef class ColumnCollector:
    """Collects the records of one call of a coroutine. It neither waits nor runs callbacks."""

    cdef ConsumerCore core
    cdef ColumnTaker taker
    cdef ColumnMemory memory
    cdef int64_t count_max

    def __init__(self, ConsumerCore core not None, ColumnPlan plan not None, ColumnMemory memory not None, int64_t count_max):
        core._check_opens()
        self.core = core
        self.memory = memory
        self.count_max = count_max
        self.taker = ColumnTaker.__new__(ColumnTaker)
        self.taker.batch = new_batch(plan, memory, count_max, 2147483647, core.engine.pins.max_bytes)
        self.taker.defers = True
        self.taker.batch.positions = self.taker.positions
        self.taker.batch.ends = self.taker.ends
        self.taker.enough = count_max == 0
        self.taker.fill.columns = kn_columns_ref(self.taker.batch.columns)

    def take(self, int64_t step_max):
        """Take up to ``step_max`` queued records. Return whether it may take more of them at once.

        An error is raised if no record is in hand.
        """
        cdef ColumnTaker taker = self.taker
        cdef int64_t count = kn_columns_record_count(taker.fill.columns)
        taker.fill.records_max = min(self.count_max, count + step_max)
        taker.missing = None
        if not taker.enough and self.core._may_take():
            taker.take(self.core)
        if taker.in_hand:
            self.core._hand_over(taker.first)
        if taker.enough and taker.missing is None and not taker.ends and count + step_max <= kn_columns_record_count(taker.fill.columns) < self.count_max:
            taker.enough = False  # only the step is full
            return True
        return False

    @property
    def enough(self):
        """Whether the call returns now, perhaps to handle its `missing` schema."""
        return self.taker.enough

    @property
    def in_hand(self):
        """Whether it has records or ends of partitions."""
        return self.taker.in_hand

    @property
    def missing(self):
        """The `MissingSchema` that the next record needs, or None."""
        return self.taker.missing

    def resume(self):
        """Continue after the look-up of the missing schema."""
        self.taker.missing = None
        self.taker.enough = False

    def taken(self):
        """Return Messages to give back: one for each partition, with its first offset, and the ends.
        """
        return [
            *(NewMessage(topic, partition, offset) for (topic, partition), offset in self.taker.first.items()),
            *self.taker.ends,
        ]

    def batch(self):
        """Return the `ColumnBatch`. Nothing can be taken after it."""
        end_batch(self.taker.batch)
        self.memory.remember(self.taker.batch.columns, self.taker.batch.plan)
        return self.taker.batch


def descriptor(ConsumerCore core not None):
    """Return the file descriptor that an event loop watches.

    It is readable after a fetch, for a due callback, and after `wakeup()`.
    """
    cdef EngineHandle handle = handle_of(core.engine)
    core._check_open()
    return handle.engine.fetched.wake.read_fd


def is_ready(ConsumerCore core not None):
    """Return whether a call can take records or callbacks now.

    If not, the descriptor becomes readable when it can. None means that another thread is taking,
    so try again later.
    """
    cdef EngineHandle handle = handle_of(core.engine)
    core._check_open()
    if not core._may_take():
        return None
    if kn_queue_rest(&handle.engine.fetched):
        return True
    return bool(core.engine.callbacks or core.engine.notices) or kn_flag_is_set(&core._woken)


def begin_waiting(ConsumerCore core not None):
    """Note that a coroutine waits for messages from now on (``max.poll.interval.ms``).

    The descriptor stays open as long as the caller keeps the result.
    """
    core._begin_call()
    return handle_of(core.engine)


def end_waiting(ConsumerCore core not None):
    """Note that the coroutine no longer waits."""
    core._note_progress()
    kn_count_add(&core.polling, -1)


# --- a stream that a foreign library reads ---

@cython.final
cdef class Feed:
    """The private data of an ArrowArrayStream.

    The reader calls its functions without the interpreter lock, on any thread.
    """

    cdef ColumnPlan plan
    cdef object next_columns  # () -> ColumnBatch, or None at the end
    cdef object failed  # called with an exception
    cdef bytes text

    cdef int note(self, object error) noexcept:
        try:
            self.text = f"{type(error).__name__}: {error}".encode("utf-8", "replace").replace(b"\0", b" ")
            self.failed(error)
        except BaseException:
            self.text = b"an error without a readable text"
        if isinstance(error, KeyboardInterrupt):
            PyErr_SetInterrupt()
            return EINTR
        return ENOMEM if isinstance(error, MemoryError) else EIO


cdef int _feed_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept with gil:
    cdef Feed feed = <Feed>stream.private_data
    out.release = NULL
    if kn_columns_export_schema(feed.plan.specs, feed.plan.count, out) != KN_OK:
        feed.text = b"out of memory"
        return ENOMEM
    return 0


cdef int _feed_next(ArrowArrayStream *stream, ArrowArray *out) noexcept with gil:
    cdef Feed feed = <Feed>stream.private_data
    cdef ColumnBatch batch
    out.release = NULL
    feed.text = None
    try:
        batch = feed.next_columns()
        if batch is not None and kn_columns_export(batch.columns, out) != KN_OK:
            raise MemoryError
    except BaseException as error:
        return feed.note(error)
    return 0


cdef const char *_feed_error(ArrowArrayStream *stream) noexcept with gil:
    cdef Feed feed = <Feed>stream.private_data
    return NULL if feed.text is None else PyBytes_AS_STRING(feed.text)


cdef void _feed_drop(void *feed) noexcept with gil:
    Py_DECREF(<object>feed)


cdef void _feed_release(ArrowArrayStream *stream) noexcept nogil:
    cdef void *feed = stream.private_data
    stream.release = NULL
    if Py_IsInitialized():  # after the interpreter's end the feed's objects are gone too
        _feed_drop(feed)


def stream_of(ColumnPlan plan not None, next_columns not None, failed not None):
    """Return a capsule with an ArrowArrayStream.

    ``next_columns()`` makes each `ColumnBatch`, or returns None at the end. ``failed(exception)``
    gets the exceptions that it raises.
    """
    cdef Feed feed = Feed.__new__(Feed)
    cdef ArrowArrayStream *stream
    feed.plan = plan
    feed.next_columns = next_columns
    feed.failed = failed
    stream = <ArrowArrayStream *>calloc(1, sizeof(ArrowArrayStream))
    if stream == NULL:
        raise MemoryError
    stream.get_schema = _feed_schema
    stream.get_next = _feed_next
    stream.get_last_error = _feed_error
    stream.release = _feed_release
    stream.private_data = <void *>feed
    Py_INCREF(feed)
    return stream_capsule(stream)
