# cython: freethreading_compatible=False
"""Message: one record, consumed or reported as delivered.

A Message borrows its bytes from the chunk it arrived in, until it is copied out (see the end of this file), and makes Python objects only for the
fields that are asked for. It has 64 bytes and little in them: what is the same for a whole batch is in its Batch, what is asked for less often than
the value is read from the record again. It takes no part in garbage collection, and is made and ended by hand (see there, too), because consuming makes
one for every record.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.list cimport PyList_GET_SIZE
from cpython.mem cimport PyMem_Realloc
from cpython.object cimport PyObject, PyTypeObject, destructor
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from enum import IntEnum

from kafka_native._native.kn_enums cimport KN_NOT_PERSISTED, KN_PERSISTED, KN_POSSIBLY_PERSISTED
from kafka_native._native.kn_engine cimport (
    kn_cells,
    kn_cells_give,
    kn_cells_init,
    kn_cells_take,
    kn_cells_walk,
    kn_chunk,
    kn_chunk_is_left,
    kn_chunk_live,
    kn_chunk_ref,
    kn_chunk_unref,
)
from kafka_native._native.kn_records cimport (
    KN_OK,
    kn_header,
    kn_header_next,
    kn_record,
    kn_record_reader,
    kn_record_reader_next,
    kn_record_reread,
    kn_span,
    kn_span_of,
)

cdef extern from "Python.h":
    ctypedef struct PyListObject:
        PyObject **ob_item
        Py_ssize_t allocated

    PyObject *PyErr_NoMemory()
    PyObject *PyObject_Init(void *, PyTypeObject *)
    Py_ssize_t Py_REFCNT(PyObject *)
    void Py_SET_REFCNT(void *, Py_ssize_t)
    void Py_SET_SIZE(void *, Py_ssize_t)
    int PyList_Append(PyObject *, PyObject *) noexcept  # -1 with an exception set

# Partition, offset and leader epoch of a Message that has none.
cdef int32_t NO_PARTITION = -1
cdef int64_t NO_OFFSET = -1001
cdef int32_t NO_EPOCH = -1
cdef int NO_STATUS = -1
cdef int NO_COUNT = -1


class MessageStatus(IntEnum):
    """Whether a produced message is in the log, as far as the producer knows (librdkafka's rd_kafka_msg_status_t).

    It says what producing the message once more would risk.
    """

    NOT_PERSISTED = KN_NOT_PERSISTED  # It isn't: it was never sent, or refused. Another try may come behind younger messages.
    POSSIBLY_PERSISTED = KN_POSSIBLY_PERSISTED  # It was sent, but not acknowledged. Another try may also write it twice.
    PERSISTED = KN_PERSISTED  # It is.


@cython.final
@cython.no_gc
cdef class Pins:
    """See message.pxd."""

    def __init__(self, int64_t max_bytes):
        self.max_bytes = self.limit_bytes = max_bytes


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Batch:
    """See message.pxd."""

    def __dealloc__(self):
        if self.chunk != NULL:
            _unpin(<PyObject *>self)

    @staticmethod
    cdef Batch of(kn_chunk *chunk, object topic, int32_t partition, Pins pins):
        # Takes the caller's reference to the chunk, if there is one: another one of the caller's keeps it meanwhile. No Python code runs.
        cdef Batch self = Batch.__new__(Batch)
        if chunk != NULL:
            _pin(self, chunk, pins)
            if pins.size_bytes > pins.limit_bytes:
                _relieve(pins)
        self.topic = topic
        self.partition = partition
        self.base_offset = NO_OFFSET
        self.leader_epoch = NO_EPOCH
        self.latency_s = -1.0
        self.created_ms = -1
        self.status = NO_STATUS
        self.delivery_count = NO_COUNT
        return self

    cdef Batch copy(self):
        # For what varies from record to record after all.
        cdef Batch other = Batch.of(NULL, self.topic, self.partition, None)
        if self.chunk != NULL:
            _pin(other, kn_chunk_ref(self.chunk), self.pins)
        other.error = self.error
        other.base_offset = self.base_offset
        other.leader_epoch = self.leader_epoch
        other.timestamp_type = self.timestamp_type
        other.latency_s = self.latency_s
        other.created_ms = self.created_ms
        other.status = self.status
        other.delivery_count = self.delivery_count
        return other


cdef inline object _bytes_of(const uint8_t *data, int32_t size_bytes):
    return None if data == NULL else PyBytes_FromStringAndSize(<const char *>data, size_bytes)


cdef object _headers_kept(kn_chunk *chunk, const kn_record *record):
    # Making a list may let other code in, and that may copy the record out: with a reference of its own, the chunk stays.
    if chunk == NULL:
        return _headers_of(record)
    kn_chunk_ref(chunk)
    try:
        return _headers_of(record)
    finally:
        kn_chunk_unref(chunk)


cdef object _headers_of(const kn_record *record):
    cdef kn_span span = kn_span_of(record.headers, record.headers_bytes)
    cdef kn_header header
    headers = []
    for _ in range(record.header_count):
        if kn_header_next(&span, &header) != KN_OK:
            raise ValueError("malformed record headers")
        headers.append((
            PyUnicode_DecodeUTF8(<const char *>header.key, header.key_bytes, "surrogateescape"),
            _bytes_of(header.value, header.value_bytes),
        ))
    return headers


cdef Batch NO_BATCH = Batch.of(NULL, None, NO_PARTITION, None)


@cython.final
@cython.no_gc
cdef class Own:
    """See message.pxd."""


@cython.final
@cython.no_gc
@cython.always_allow_keywords(False)  # methods without arguments are called faster
cdef class Message:
    """A record of a topic, or an error in its place.

    Consumed Messages come from `Consumer.poll()` and `Consumer.consume()`, produced ones are handed to delivery callbacks. All fields are read by
    methods, as in confluent_kafka. `key()` and `value()` make a new ``bytes`` object at each call: keep the result rather than calling twice.

    A Message keeps the response it arrived in alive. Those that you keep for long are copied out of theirs once they hold more memory than
    ``message.pinned.max.kbytes`` (64 MiB): that changes nothing that can be seen.
    """

    def __cinit__(self):
        self._batch = NO_BATCH  # __init__() may never be called

    def __init__(
        self,
        topic=None,
        partition=None,
        offset=None,
        key=None,
        value=None,
        headers=None,
        error=None,
        timestamp=None,
        latency=None,
        leader_epoch=None,
        delivery_count=None,
        status=None,
    ):
        cdef Batch batch = Batch.of(NULL, topic, NO_PARTITION if partition is None or partition < 0 else partition, None)
        if offset is not None and offset >= 0:
            batch.base_offset = offset
        if latency is not None:
            batch.latency_s = latency
        if leader_epoch is not None:
            batch.leader_epoch = leader_epoch
        if delivery_count is not None:
            batch.delivery_count = delivery_count
        if status is not None:
            batch.status = MessageStatus(status)
        if timestamp is not None:
            batch.timestamp_type, self._timestamp_ms = timestamp
        self._batch = batch
        self._offset_delta = 0
        self._record = self._value_data = NULL
        own = _owning(self)
        own.key, own.value, own.headers, own.error = key, value, headers, error
        own.has_key = own.has_value = own.has_headers = own.has_error = True

    def topic(self):
        """The topic's name, or None."""
        return self._batch.topic

    def partition(self):
        """The partition's number, or None when it has none (a message that was given up before it got one)."""
        return None if self._batch.partition == NO_PARTITION else self._batch.partition

    def offset(self):
        """The record's offset in its partition, or None when it isn't known (a failed or unacknowledged delivery)."""
        return None if self._batch.base_offset == NO_OFFSET else self._batch.base_offset + self._offset_delta

    def key(self):
        """The key as bytes, None when the record has none (or what `set_key()` put in its place)."""
        cdef kn_record record
        if self._own != NULL and (<Own>self._own).has_key:
            return (<Own>self._own).key
        if self._record == NULL:
            return None
        kn_record_reread(self._record, &record)
        return _bytes_of(record.key, record.key_bytes)

    def value(self):
        """The value as bytes, None for a null value (or what `set_value()` put in its place)."""
        if self._own != NULL and (<Own>self._own).has_value:
            return (<Own>self._own).value
        return _bytes_of(self._value_data, self._value_bytes)

    def headers(self):
        """The headers as a list of (name, bytes or None) in their order, duplicates included; None when there are none.

        A byte of a name that isn't UTF-8 is a surrogate in it (``surrogateescape``), which `Producer.produce()` takes for that byte again.
        """
        cdef kn_record record
        if self._own != NULL and (<Own>self._own).has_headers:
            return (<Own>self._own).headers
        if self._record == NULL:
            return None
        kn_record_reread(self._record, &record)
        return _headers_kept(self._batch.chunk, &record) if record.header_count else None

    def timestamp(self):
        """(type, milliseconds since 1970): TIMESTAMP_NOT_AVAILABLE, TIMESTAMP_CREATE_TIME or TIMESTAMP_LOG_APPEND_TIME, and the time."""
        return (self._batch.timestamp_type, self._timestamp_ms)

    def error(self):
        """None for a record, else the KafkaError that this Message reports."""
        return error_of_message(self)

    def latency(self):
        """Seconds from `produce()` until the delivery's outcome was known; None for consumed records.

        To the millisecond. Where timestamps don't say when messages were produced (the application's own, or the broker's log append time), each
        message has the latency of the first of its batch, the longest.
        """
        cdef Batch batch = self._batch
        cdef double later_s
        if batch.latency_s < 0:
            return None
        if batch.created_ms < 0:
            return batch.latency_s
        later_s = (self._timestamp_ms - batch.created_ms) / 1000.0
        return batch.latency_s - min(max(later_s, 0.0), <double>batch.latency_s)  # the clock may have been set meanwhile

    def status(self):
        """Whether a produced message is in the log: a `MessageStatus`; None for a message that wasn't produced here."""
        return None if self._batch.status == NO_STATUS else MessageStatus(self._batch.status)

    def leader_epoch(self):
        """The leader epoch under which the record was written, None when it isn't known (KIP-320)."""
        return None if self._batch.leader_epoch == NO_EPOCH else self._batch.leader_epoch

    def delivery_count(self):
        """How often a share group has delivered this record, 1 for the first time (KIP-932); None for other messages."""
        return None if self._batch.delivery_count == NO_COUNT else self._batch.delivery_count

    def set_topic(self, topic, /):
        """Replaces what `topic()` returns."""
        if topic is not None and not isinstance(topic, str):
            raise TypeError(f"topic must be a str or None, not {type(topic).__name__}")
        self._batch = self._batch.copy()  # the other messages of the batch keep theirs
        self._batch.topic = topic

    def set_key(self, key, /):
        """Replaces what `key()` returns, for deserializers."""
        own = _owning(self)
        own.key = key
        own.has_key = True

    def set_value(self, value, /):
        """Replaces what `value()` returns, for deserializers."""
        own = _owning(self)
        own.value = value
        own.has_value = True

    def set_headers(self, headers, /):
        """Replaces what `headers()` returns."""
        own = _owning(self)
        own.headers = headers
        own.has_headers = True

    def set_error(self, error, /):
        """Replaces what `error()` returns."""
        own = _owning(self)
        own.error = error
        own.has_error = True

    def __len__(self):
        """The value's length, 0 for a null value."""
        if self._own != NULL and (<Own>self._own).has_value:
            return 0 if (<Own>self._own).value is None else len((<Own>self._own).value)
        return 0 if self._value_data == NULL else self._value_bytes

    def __bool__(self):
        return True

    def __eq__(self, other):
        # All that the record is, not how its delivery went. What can be equal and changed has no hash.
        return _identity_of(self) == _identity_of(other) if isinstance(other, Message) else NotImplemented

    def __repr__(self):
        if error_of_message(self) is not None:
            return f"Message(topic={self.topic()!r}, partition={self.partition()}, offset={self.offset()}, error={self.error()!r})"
        key = self.key()
        return (
            f"Message(topic={self.topic()!r}, partition={self.partition()}, offset={self.offset()}, "
            f"key={_short(key)}, value={_short(self.value())})"
        )

    def __reduce__(self):
        return Message, (
            self.topic(),
            self.partition(),
            self.offset(),
            self.key(),
            self.value(),
            self.headers(),
            self.error(),
            self.timestamp(),
            self.latency(),
            self.leader_epoch(),
            self.delivery_count(),
            self.status(),
        )


cdef Message message_of(Batch batch, const uint8_t *start, const kn_record *record):
    cdef Message self = <Message>_shell(batch, start, record)
    Py_DECREF(self)  # the cast has counted it once more
    return self


cdef int messages_of(list into, Py_ssize_t most, Batch batch, kn_record_reader *reader, int64_t from_offset, int64_t *position) except -1:
    # Hot: appends what is left of the batch, until there are `most`, and moves the position behind it. Ends before what is no record. No Python code runs.
    cdef kn_record record
    cdef const uint8_t *start
    cdef int64_t next_offset = position[0]
    cdef Py_ssize_t count = PyList_GET_SIZE(into)
    _reserve(into, min(most - count, <Py_ssize_t>reader.left), most)
    while count < most and (shell_count > 0 or may_make_message()):
        start = reader.span.at
        if kn_record_reader_next(reader, &record) != KN_OK:
            break
        if record.offset >= from_offset:
            next_offset = record.offset + 1
            _put(into, count, _shell(batch, start, &record))
            count += 1
    position[0] = next_offset
    return 0


cdef Message legacy_message_of(Batch batch, const kn_record *record):
    # A record of a message set (magic 0 and 1), whose key can't be found again from where it starts.
    cdef Message self = Message.__new__(Message)
    cdef Own own = _owning(self)
    self._batch = batch.copy()
    self._batch.base_offset = record.offset
    self._batch.timestamp_type = record.timestamp_type + 1
    self._value_data = record.value
    self._value_bytes = record.value_bytes
    self._timestamp_ms = record.timestamp_ms if record.timestamp_type >= 0 else 0  # none: as confluent_kafka shows it
    own.key = _bytes_of(record.key, record.key_bytes)
    own.has_key = own.has_headers = True
    return self


cdef Own _owning(Message self):
    cdef Own own
    if self._own == NULL:
        own = Own.__new__(Own)
        Py_INCREF(own)
        self._own = <PyObject *>own
    return <Own>self._own


cdef object error_of_message(Message self):
    if self._own != NULL and (<Own>self._own).has_error:
        return (<Own>self._own).error
    return None if self._batch is None else self._batch.error


cdef Message error_message_of(object topic, object partition, int64_t offset, object error):
    cdef Message self = Message.__new__(Message)
    self._batch = Batch.of(NULL, topic, NO_PARTITION if partition is None else partition, None)
    self._batch.base_offset = offset
    self._batch.error = error
    return self


cdef tuple _identity_of(Message self):
    return (
        self.topic(), self.partition(), self.offset(), self.key(), self.value(), self.headers(), self.error(), self.timestamp(), self.leader_epoch()
    )


def _short(data, limit=40):
    if isinstance(data, (bytes, str)) and len(data) > limit:
        return f"{data[:limit]!r}... ({len(data)} bytes)"
    return repr(data)


def live_chunks():
    """How many receive buffers are referenced in this process, for leak checks."""
    return kn_chunk_live()


def live_messages():
    """How many Messages there are in this process, likewise."""
    return cells.taken - shell_count


# --- how a Message is made and ended ---
#
# By hand, for its counts: what Cython makes of a Message sets and clears fields to None, which changes one word four times for each, and each time waits
# for the time before. And into a list that has room.

cdef extern from *:
    """
    #define SET_BATCH(message, batch) ((message)->_batch = (batch))
    #define SET_ALLOC(type, allocate) ((type)->tp_alloc = (allocate))
    #define BATCH_OF(message) ((PyObject *)(message)->_batch)
    #ifdef Py_GIL_DISABLED
    enum { LISTS_CAN_BE_GROWN = 0 }; /* their items have a head there */
    #else
    enum { LISTS_CAN_BE_GROWN = 1 };
    #endif
    """
    void SET_BATCH(Message message, Batch batch)  # whatever was there; takes the reference
    void SET_ALLOC(PyTypeObject *kind, PyObject *(*allocate)(PyTypeObject *, Py_ssize_t) noexcept)
    PyObject *BATCH_OF(Message message)
    bint LISTS_CAN_BE_GROWN

cdef enum:
    SHELLS = 10240  # two lists of 10,000 are alive while consume() makes one in place of another: the Messages of the one before come from here

cdef PyObject *shells[SHELLS]  # Messages that ended: no references, fields not to be relied on
cdef int shell_count = 0
cdef kn_cells cells  # the memory of all Messages


cdef bint may_make_message() noexcept:
    # Sees to it that the next Message needs no memory. Asked before its record is taken, which would be lost with the MemoryError.
    global shell_count
    if shell_count == 0:
        made = <PyObject *>kn_cells_take(&cells)
        if made == NULL:
            return False
        shells[0] = PyObject_Init(made, <PyTypeObject *>Message)
        shell_count = 1
    return True


cdef inline PyObject *_shell(Batch batch, const uint8_t *start, const kn_record *record) except NULL:
    # Hot: one a record consumed or reported. A new reference to a Message.
    global shell_count
    cdef PyObject *made
    if shell_count > 0:
        shell_count -= 1
        made = shells[shell_count]
        Py_SET_REFCNT(made, 1)
    else:
        made = <PyObject *>kn_cells_take(&cells)
        if made == NULL:
            raise MemoryError
        PyObject_Init(made, <PyTypeObject *>Message)
    Py_INCREF(batch)
    SET_BATCH(<Message>made, batch)
    (<Message>made)._own = NULL
    (<Message>made)._record = start
    (<Message>made)._value_data = record.value
    (<Message>made)._value_bytes = record.value_bytes
    (<Message>made)._timestamp_ms = record.timestamp_ms
    (<Message>made)._offset_delta = <int32_t>(record.offset - batch.base_offset)
    return made


cdef void _end(PyObject *self) noexcept:
    # The type's tp_dealloc.
    global shell_count
    Py_XDECREF(<PyObject *>(<Message>self)._batch)
    Py_XDECREF((<Message>self)._own)
    if shell_count < SHELLS:
        shells[shell_count] = self
        shell_count += 1
    else:
        kn_cells_give(&cells, self)


cdef PyObject *_allocate(PyTypeObject *kind, Py_ssize_t items) noexcept:
    # The type's tp_alloc, for Message(): all zeros.
    global shell_count
    cdef PyObject *made
    if not may_make_message():
        return PyErr_NoMemory()
    shell_count -= 1
    made = shells[shell_count]
    memset(made, 0, kind.tp_basicsize)
    return PyObject_Init(made, kind)


cdef int _reserve(list into, Py_ssize_t more, Py_ssize_t most) except -1:
    # Room for so many more, and for twice what there was if that isn't above `most`: the list grows by steps of an eighth otherwise, and each may copy it.
    cdef PyListObject *to = <PyListObject *>into
    cdef Py_ssize_t wanted = PyList_GET_SIZE(into) + more
    cdef PyObject **items
    if not LISTS_CAN_BE_GROWN or wanted <= to.allocated:
        return 0
    wanted = max(wanted, min(2 * to.allocated, most))
    items = <PyObject **>PyMem_Realloc(to.ob_item, wanted * sizeof(PyObject *))
    if items == NULL:
        raise MemoryError
    to.ob_item = items
    to.allocated = wanted
    return 0


cdef inline int _put(list into, Py_ssize_t count, PyObject *item) except -1:
    # Takes the reference. No try here: its exception would have a place in the frame of messages_of(), set anew for each Message.
    cdef int status
    if count < (<PyListObject *>into).allocated:
        (<PyListObject *>into).ob_item[count] = item
        Py_SET_SIZE(<PyObject *>into, count + 1)
        return 0
    status = PyList_Append(<PyObject *>into, item)
    Py_XDECREF(item)
    return status


kn_cells_init(&cells, (<PyTypeObject *>Message).tp_basicsize)
SET_ALLOC(<PyTypeObject *>Message, _allocate)
(<PyTypeObject *>Message).tp_dealloc = <destructor>_end


# --- what kept Messages hold ---
#
# All under the interpreter lock, and no Python code runs in here.

cdef enum:
    OWN_BYTES = 192  # about what a Message that was copied out takes, the record apart
    FILLED_BYTES = 256  # where each Message keeps no more than that, copying out saves next to nothing


cdef void _pin(Batch batch, kn_chunk *chunk, Pins pins) noexcept:
    # Takes the reference.
    if chunk.lent == 0:
        pins.size_bytes += chunk.buffer.capacity_bytes
    chunk.lent += 1
    batch.chunk = chunk
    batch.pins = pins
    batch.older = pins.batches
    if pins.batches != NULL:
        (<Batch>pins.batches).younger = <PyObject *>batch
    pins.batches = <PyObject *>batch


cdef void _unpin(PyObject *batch) noexcept:
    cdef kn_chunk *chunk = (<Batch>batch).chunk
    cdef PyObject *older = (<Batch>batch).older
    cdef PyObject *younger = (<Batch>batch).younger
    cdef Pins pins = (<Batch>batch).pins
    if older != NULL:
        (<Batch>older).younger = younger
    if younger != NULL:
        (<Batch>younger).older = older
    else:
        pins.batches = older
    (<Batch>batch).chunk = NULL
    (<Batch>batch).older = (<Batch>batch).younger = NULL
    chunk.lent -= 1
    if chunk.lent == 0:
        pins.size_bytes -= chunk.buffer.capacity_bytes
        pins.limit_bytes = min(pins.limit_bytes, _limit_of(pins))
    kn_chunk_unref(chunk)


cdef inline int64_t _limit_of(Pins pins) noexcept:
    # Half as much again as there is: what a look costs is shared by what has come since the last one.
    return max(pins.max_bytes, pins.size_bytes + pins.size_bytes // 2)


cdef void _relieve(Pins pins) noexcept:
    # Copies out the Messages that are few in what they keep, and lets go of that.
    cdef PyObject *batch = pins.batches
    cdef PyObject *older
    cdef int64_t messages = 0
    while batch != NULL:
        messages += Py_REFCNT(batch)
        (<Batch>batch).chunk.kept_bytes = 0
        batch = (<Batch>batch).older
    if pins.size_bytes > messages * FILLED_BYTES:
        kn_cells_walk(&cells, _count_kept, <PyObject *>pins)
        batch = pins.batches
        while batch != NULL:
            _judge((<Batch>batch).chunk)
            batch = (<Batch>batch).older
        kn_cells_walk(&cells, _copy_kept, <PyObject *>pins)
        batch = pins.batches
        while batch != NULL:
            older = (<Batch>batch).older
            if (<Batch>batch).chunk.kept_bytes >= 0:
                _unpin(batch)
            batch = older
    pins.limit_bytes = _limit_of(pins)


cdef inline kn_chunk *_kept_of(void *cell, void *pins) noexcept:
    # The chunk that this Message keeps, if it is one of these and hasn't ended.
    cdef PyObject *batch
    if Py_REFCNT(<PyObject *>cell) == 0:
        return NULL
    batch = BATCH_OF(<Message>cell)
    if batch == NULL or batch == <PyObject *>None or <void *>(<Batch>batch).pins != pins:
        return NULL
    return (<Batch>batch).chunk


cdef void _count_kept(void *cell, void *pins) noexcept:
    cdef kn_chunk *chunk = _kept_of(cell, pins)
    if chunk != NULL:
        chunk.kept_bytes += (<Message>cell)._value_bytes + OWN_BYTES


cdef void _judge(kn_chunk *chunk) noexcept:
    # What others have references to wouldn't be freed; and it has to be worth it.
    if not kn_chunk_is_left(chunk) or 2 * chunk.kept_bytes > <int64_t>chunk.buffer.capacity_bytes:
        chunk.kept_bytes = -1


cdef void _copy_kept(void *cell, void *pins) noexcept:
    cdef kn_chunk *chunk = _kept_of(cell, pins)
    if chunk == NULL or chunk.kept_bytes < 0:
        return
    try:
        _copy_out(<Message>cell)
    except MemoryError:
        chunk.kept_bytes = -1  # it stays as it is, and is asked again some time


cdef int _copy_out(Message self) except -1:
    cdef kn_record record
    cdef const uint8_t *start = self._record
    cdef Own own = _owning(self)
    if own.copy is not None:
        return 0
    if start != NULL:
        kn_record_reread(start, &record)
        own.copy = _bytes_of(start, <int32_t>(record.headers + record.headers_bytes - start))
        self._record = <const uint8_t *>PyBytes_AS_STRING(own.copy)
        if self._value_data != NULL:
            self._value_data = self._record + (self._value_data - start)
    elif self._value_data != NULL:
        own.copy = _bytes_of(self._value_data, self._value_bytes)
        self._value_data = <const uint8_t *>PyBytes_AS_STRING(own.copy)
    return 0
