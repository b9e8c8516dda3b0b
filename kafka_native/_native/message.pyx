# cython: freethreading_compatible=False
"""Message: one record, consumed or reported as delivered.

A Message uses the bytes of the chunk in which it arrived, until it is copied out (see the end of
this file). It makes Python objects only for the fields that you read. A Message has 64 bytes. Its
Batch has the data that is the same for a whole batch. Fields that you read less often than the
value are parsed again from the record. Consumption makes a Message for every record. So Messages
take no part in garbage collection, and are made and freed by hand (see there too).
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

# The partition, offset and leader epoch of a Message that has none.
cdef int32_t NO_PARTITION = -1
cdef int64_t NO_OFFSET = -1001
cdef int32_t NO_EPOCH = -1
cdef int NO_STATUS = -1
cdef int NO_COUNT = -1


class MessageStatus(IntEnum):
    """Whether a produced message is in the log, as far as the producer knows.

    It shows the risk of producing the message again. librdkafka's type is rd_kafka_msg_status_t.
    """

    # It was never sent, or the broker refused it. A new attempt may come after later messages.
    NOT_PERSISTED = KN_NOT_PERSISTED
    # It was sent, but not acknowledged. A new attempt may write it twice.
    POSSIBLY_PERSISTED = KN_POSSIBLY_PERSISTED
    # It is in the log.
    PERSISTED = KN_PERSISTED


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
        # Takes the caller's reference to the chunk, if any. The caller must hold another one
        # meanwhile. No Python code runs.
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
        # Return a copy, for a field that differs between records of the batch.
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
        other.hides_headers = self.hides_headers
        return other


cdef inline object _bytes_of(const uint8_t *data, int32_t size_bytes):
    return None if data == NULL else PyBytes_FromStringAndSize(<const char *>data, size_bytes)


cdef object _headers_kept(kn_chunk *chunk, const kn_record *record):
    # A new list may let other code run, and that code may copy the record out. An own reference
    # keeps the chunk alive.
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

    `Consumer.poll()` and `Consumer.consume()` return consumed Messages. Delivery callbacks get
    produced ones. Methods return all fields, as in confluent_kafka. `key()` and `value()` make a
    new ``bytes`` object at each call, so keep the result instead of calling twice.

    A Message keeps the response in which it arrived in memory. When the Messages that you keep hold
    more memory than ``message.pinned.max.kbytes`` (64 MiB), they are copied out of their responses.
    This has no visible effect.
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
        """Return the topic's name, or None."""
        return self._batch.topic

    def partition(self):
        """Return the partition's number.

        It is None for a message that failed before it got a partition.
        """
        return None if self._batch.partition == NO_PARTITION else self._batch.partition

    def offset(self):
        """Return the record's offset in its partition.

        It is None for a failed or unacknowledged delivery.
        """
        return None if self._batch.base_offset == NO_OFFSET else self._batch.base_offset + self._offset_delta

    def key(self):
        """Return the key as bytes, or None if the record has none. `set_key()` replaces it."""
        cdef kn_record record
        if self._own != NULL and (<Own>self._own).has_key:
            return (<Own>self._own).key
        if self._record == NULL:
            return None
        kn_record_reread(self._record, &record)
        return _bytes_of(record.key, record.key_bytes)

    def value(self):
        """Return the value as bytes, or None for a null value. `set_value()` replaces it."""
        if self._own != NULL and (<Own>self._own).has_value:
            return (<Own>self._own).value
        return _bytes_of(self._value_data, self._value_bytes)

    def headers(self):
        """Return the headers as a list of (name, bytes or None), or None if there are none.

        The list keeps the order and duplicates. A byte of a name that isn't UTF-8 becomes a
        surrogate (``surrogateescape``). `Producer.produce()` turns it into that byte again.
        """
        cdef kn_record record
        if self._own != NULL and (<Own>self._own).has_headers:
            return (<Own>self._own).headers
        if self._record == NULL or self._batch.hides_headers:
            return None
        kn_record_reread(self._record, &record)
        return _headers_kept(self._batch.chunk, &record) if record.header_count else None

    def timestamp(self):
        """Return the timestamp type and the milliseconds since 1970.

        The type is TIMESTAMP_NOT_AVAILABLE, TIMESTAMP_CREATE_TIME or TIMESTAMP_LOG_APPEND_TIME.
        """
        return (self._batch.timestamp_type, self._timestamp_ms)

    def error(self):
        """Return the KafkaError that this Message reports, or None for a record."""
        return error_of_message(self)

    def latency(self):
        """Return the seconds from `produce()` to the outcome, or None for consumed records.

        The resolution is a millisecond. If you set the timestamps, or the broker uses log append
        time, each message has the latency of the first of its batch, which is the longest.
        """
        cdef Batch batch = self._batch
        cdef double later_s
        if batch.latency_s < 0:
            return None
        if batch.created_ms < 0:
            return batch.latency_s
        later_s = (self._timestamp_ms - batch.created_ms) / 1000.0
        # the clock may have been set meanwhile
        return batch.latency_s - min(max(later_s, 0.0), <double>batch.latency_s)

    def status(self):
        """Return the `MessageStatus` of a produced message: whether it is in the log.

        It is None for a message that wasn't produced here.
        """
        return None if self._batch.status == NO_STATUS else MessageStatus(self._batch.status)

    def leader_epoch(self):
        """Return the leader epoch of the record (KIP-320), or None if it is unknown."""
        return None if self._batch.leader_epoch == NO_EPOCH else self._batch.leader_epoch

    def delivery_count(self):
        """Return how often a share group has delivered this record, including this time (KIP-932).

        It is None for other messages.
        """
        return None if self._batch.delivery_count == NO_COUNT else self._batch.delivery_count

    def set_topic(self, topic, /):
        """Replace the return value of `topic()`."""
        if topic is not None and not isinstance(topic, str):
            raise TypeError(f"topic must be a str or None, not {type(topic).__name__}")
        self._batch = self._batch.copy()  # the other messages of the batch keep their topic
        self._batch.topic = topic

    def set_key(self, key, /):
        """Replace the return value of `key()`. For deserializers."""
        own = _owning(self)
        own.key = key
        own.has_key = True

    def set_value(self, value, /):
        """Replace the return value of `value()`. For deserializers."""
        own = _owning(self)
        own.value = value
        own.has_value = True

    def set_headers(self, headers, /):
        """Replace the return value of `headers()`."""
        own = _owning(self)
        own.headers = headers
        own.has_headers = True

    def set_error(self, error, /):
        """Replace the return value of `error()`."""
        own = _owning(self)
        own.error = error
        own.has_error = True

    def __len__(self):
        """Return the value's length, or 0 for a null value."""
        if self._own != NULL and (<Own>self._own).has_value:
            return 0 if (<Own>self._own).value is None else len((<Own>self._own).value)
        return 0 if self._value_data == NULL else self._value_bytes

    def __bool__(self):
        return True

    def __eq__(self, other):
        # Compare the whole record, but not its delivery. A mutable object with equality has no
        # hash.
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
    # Hot: append the rest of the batch, up to `most` messages in the list, and move the position
    # behind it. Stop before an invalid record. No Python code runs.
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
    # A record of a message set (magic 0 and 1). Its start is not enough to find its key again.
    cdef Message self = Message.__new__(Message)
    cdef Own own = _owning(self)
    self._batch = batch.copy()
    self._batch.base_offset = record.offset
    self._batch.timestamp_type = record.timestamp_type + 1
    self._value_data = record.value
    self._value_bytes = record.value_bytes
    # none: as in confluent_kafka
    self._timestamp_ms = record.timestamp_ms if record.timestamp_type >= 0 else 0
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
    """Return the number of referenced receive buffers in this process, for leak checks."""
    return kn_chunk_live()


def live_messages():
    """Return the number of Messages in this process, for leak checks."""
    return cells.taken - shell_count


# --- allocation and deallocation of Messages ---
#
# It is handwritten because of the reference counts. Cython's code sets and clears fields to None:
# four changes of one word for each Message, and each waits for the one before. It also fills a list
# that has room.

cdef extern from *:
    """
    #define SET_BATCH(message, batch) ((message)->_batch = (batch))
    #define SET_ALLOC(type, allocate) ((type)->tp_alloc = (allocate))
    #define BATCH_OF(message) ((PyObject *)(message)->_batch)
    #ifdef Py_GIL_DISABLED
    enum { LISTS_CAN_BE_GROWN = 0 }; /* the items of a list have a header there */
    #else
    enum { LISTS_CAN_BE_GROWN = 1 };
    #endif
    """
    # overwrites the field without a release; takes the reference
    void SET_BATCH(Message message, Batch batch)
    void SET_ALLOC(PyTypeObject *kind, PyObject *(*allocate)(PyTypeObject *, Py_ssize_t) noexcept)
    PyObject *BATCH_OF(Message message)
    bint LISTS_CAN_BE_GROWN

cdef enum:
    # While consume() replaces a list of 10,000 by another, both are alive. The Messages of the
    # older list come from here.
    SHELLS = 10240

# freed Messages: they hold no references, and their fields are undefined
cdef PyObject *shells[SHELLS]
cdef int shell_count = 0
cdef kn_cells cells  # the memory of all Messages


cdef bint may_make_message() noexcept:
    # Make sure that the next Message needs no memory. Call it before the record is taken, because a
    # MemoryError would lose the record.
    global shell_count
    if shell_count == 0:
        made = <PyObject *>kn_cells_take(&cells)
        if made == NULL:
            return False
        shells[0] = PyObject_Init(made, <PyTypeObject *>Message)
        shell_count = 1
    return True


cdef inline PyObject *_shell(Batch batch, const uint8_t *start, const kn_record *record) except NULL:
    # Hot: runs once for each record consumed or reported. Returns a new reference to a Message.
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
    # The type's tp_alloc, for Message(). The memory is zeroed.
    global shell_count
    cdef PyObject *made
    if not may_make_message():
        return PyErr_NoMemory()
    shell_count -= 1
    made = shells[shell_count]
    memset(made, 0, kind.tp_basicsize)
    return PyObject_Init(made, kind)


cdef int _reserve(list into, Py_ssize_t more, Py_ssize_t most) except -1:
    # Make room for so many more items, or for twice the old room if that is at most `most`.
    # Otherwise the list grows by an eighth, and each growth may copy it.
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
    # Takes the reference. It has no try, because that would cost messages_of() a frame slot for
    # each Message.
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


# --- memory that kept Messages pin ---
#
# All of it runs under the interpreter lock, and no Python code runs in it.

cdef enum:
    OWN_BYTES = 192  # about the size of a copied-out Message without its record
    FILLED_BYTES = 256  # if each Message pins no more than this, copying out saves almost nothing


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
    # Half as much again as is pinned now: so the data since the last check shares the cost of a
    # check.
    return max(pins.max_bytes, pins.size_bytes + pins.size_bytes // 2)


cdef void _relieve(Pins pins) noexcept:
    # Copy out the Messages of chunks in which they use little, and release these chunks.
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
    # Return the chunk that this Message pins. NULL if it has ended, or belongs to another client.
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
    # Keep a chunk that others refer to, because it wouldn't be freed. Keep one whose copy saves too
    # little.
    if not kn_chunk_is_left(chunk) or 2 * chunk.kept_bytes > <int64_t>chunk.buffer.capacity_bytes:
        chunk.kept_bytes = -1


cdef void _copy_kept(void *cell, void *pins) noexcept:
    cdef kn_chunk *chunk = _kept_of(cell, pins)
    if chunk == NULL or chunk.kept_bytes < 0:
        return
    try:
        _copy_out(<Message>cell)
    except MemoryError:
        chunk.kept_bytes = -1  # the chunk stays, and a later check tries again


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
