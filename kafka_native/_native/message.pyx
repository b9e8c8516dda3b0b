# cython: freethreading_compatible=True
"""Message: one record, consumed or reported as delivered.

A Message uses the bytes of the chunk in which it arrived, until it is copied out (see the end of
this file). It makes Python objects only for the fields that you read. A Message has 64 bytes. Its
Batch has the data that is the same for a whole batch. Fields that you read less often than the
value are parsed again from the record. Consumption makes a Message for every record. So Messages
take no part in garbage collection, and are made and freed by hand (see there too).

Thread: any. A Python without an interpreter lock locks a Message while one of its methods runs, and
a client's Pins while a chunk is pinned or unpinned. There Python allocates Messages, and a Message
isn't copied out later, but when it is made (see the end of this file). A Batch doesn't change once
it has a Message.

A client makes Messages of one type: `Message`, or `ConfluentMessage` under the name confluent_kafka.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.list cimport PyList_GET_SIZE
from cpython.mem cimport PyMem_Realloc
from cpython.object cimport PyObject, PyTypeObject, destructor
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MIN, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memset

from enum import IntEnum
from operator import index
from types import GenericAlias

from kafka_native._native.free_threading cimport FREE_THREADED
from kafka_native._native.kn_enums cimport KN_NOT_PERSISTED, KN_OFFSET_UNKNOWN, KN_OK, KN_PERSISTED, KN_POSSIBLY_PERSISTED
from kafka_native._native.kn_engine cimport (
    kn_cells,
    kn_cells_give,
    kn_cells_init,
    kn_cells_take,
    kn_cells_walk,
    kn_chunk,
    kn_chunk_has_only_messages,
    kn_chunk_live,
    kn_chunk_ref,
    kn_chunk_unref,
)
from kafka_native._native.kn_records cimport (
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

    void PyErr_Clear()
    PyObject *PyErr_NoMemory()
    int Py_EnterRecursiveCall(const char *) noexcept  # not 0 with an exception set
    void Py_LeaveRecursiveCall()
    PyObject *PyObject_Init(void *, PyTypeObject *)
    Py_ssize_t Py_REFCNT(PyObject *)
    void Py_SET_REFCNT(void *, Py_ssize_t)
    void Py_SET_TYPE(void *, PyTypeObject *)
    PyTypeObject *Py_TYPE(PyObject *)
    PyObject *PyType_GenericAlloc(PyTypeObject *, Py_ssize_t)  # NULL with an exception set
    int PyType_HasFeature(PyTypeObject *, unsigned long)
    unsigned long Py_TPFLAGS_HEAPTYPE
    void Py_SET_SIZE(void *, Py_ssize_t)
    int PyList_Append(PyObject *, PyObject *) noexcept  # -1 with an exception set

# The partition, offset and leader epoch of a Message that has none.
cdef int32_t NO_PARTITION = -1
cdef int64_t NO_OFFSET = KN_OFFSET_UNKNOWN
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

    def __cinit__(self):
        self.kind = <PyTypeObject *>Message

    def __init__(self, int64_t max_bytes):
        self.max_bytes = self.limit_bytes = max_bytes

    @property
    def message_type(self):
        """The type of the client's messages: `Message` or `ConfluentMessage`."""
        return <object>self.kind

    @message_type.setter
    def message_type(self, kind):
        if kind is not Message and kind is not ConfluentMessage:
            raise TypeError("message_type must be Message or ConfluentMessage")
        self.kind = <PyTypeObject *>kind


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
        if chunk != NULL and FREE_THREADED and _are_full(pins):
            self.pins = pins  # without a chunk: its Messages are copied out when they are made
            kn_chunk_unref(chunk)
        elif chunk != NULL:
            _pin(self, chunk, pins)
            if not FREE_THREADED and pins.size_bytes > pins.limit_bytes:
                _release_chunks(pins)
        self.kind = <PyTypeObject *>Message if pins is None else pins.kind
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
        elif FREE_THREADED:
            other.pins = self.pins
        other.kind = self.kind
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
cdef Batch ZERO_BATCH = Batch.of(NULL, None, 0, None)
ZERO_BATCH.base_offset = ZERO_BATCH.leader_epoch = 0
ZERO_BATCH.latency_s = 0.0


@cython.final
@cython.no_gc
cdef class Overrides:
    """See message.pxd."""


@cython.critical_section
cdef object _locked(Message self, object (*read)(Message)):
    # With an interpreter lock even an empty critical section would cost a call 6%.
    return read(self)


cdef inline object _topic_of(Message self):
    return self._batch.topic


cdef inline object _partition_of(Message self):
    return None if self._batch.partition == NO_PARTITION else self._batch.partition


cdef inline object _offset_of(Message self):
    return None if self._batch.base_offset == NO_OFFSET else self._batch.base_offset + self._offset_delta


cdef inline object _key_of(Message self):
    cdef kn_record record
    if self._overrides != NULL and (<Overrides>self._overrides).has_key:
        return (<Overrides>self._overrides).key
    if self._record == NULL:
        return None
    kn_record_reread(self._record, &record)
    return _bytes_of(record.key, record.key_bytes)


cdef inline object _value_of(Message self):
    if self._overrides != NULL and (<Overrides>self._overrides).has_value:
        return (<Overrides>self._overrides).value
    return _bytes_of(self._value_data, self._value_bytes)


cdef inline object _own_headers_of(Message self):
    cdef kn_record record
    if self._overrides != NULL and (<Overrides>self._overrides).has_headers:
        return (<Overrides>self._overrides).headers
    if self._record == NULL or self._batch.hides_headers:
        return None
    kn_record_reread(self._record, &record)
    return _headers_kept(self._batch.chunk, &record) if record.header_count else None


cdef inline object _timestamp_of(Message self):
    return (self._batch.timestamp_type, self._timestamp_ms)


@cython.no_gc
@cython.always_allow_keywords(False)  # methods without arguments are called faster
cdef class Message:
    """A record of a topic, or an error in its place.

    `Consumer.poll()` and `Consumer.consume()` return consumed Messages. Delivery callbacks get
    produced ones. Methods return all fields, as in confluent_kafka. `key()` and `value()` make a
    new ``bytes`` object at each call, so keep the result instead of calling twice. A Message is
    true even if its value has no bytes.

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
        cdef Batch batch = Batch.of(NULL, topic, NO_PARTITION if partition is None else max(<int32_t>index(partition), NO_PARTITION), None)
        cdef int64_t timestamp_ms = 0
        cdef int64_t given_offset = NO_OFFSET if offset is None else index(offset)
        if given_offset >= 0:
            batch.base_offset = given_offset
        if latency is not None:
            batch.latency_s = _whole_us(latency)
        if leader_epoch is not None:
            batch.leader_epoch = max(<int32_t>index(leader_epoch), NO_EPOCH)
        if delivery_count is not None and <int16_t>index(delivery_count) > 0:
            batch.delivery_count = index(delivery_count)
        if status is not None:
            batch.status = MessageStatus(status)
        if timestamp is not None:
            if not isinstance(timestamp, (tuple, list)) or len(timestamp) != 2:
                raise TypeError("timestamp must be a tuple of (int, int)")
            batch.timestamp_type, timestamp_ms = index(timestamp[0]), index(timestamp[1])
        with cython.critical_section(self):
            self._timestamp_ms = timestamp_ms
            self._offset_delta = 0
            # First: the release of an old value may run code that uses this Message.
            self._record = self._value_data = NULL
            self._batch = batch
            overrides = _overrides_of(self)
            overrides.key, overrides.value, overrides.headers, overrides.error = key, value, headers, error
            overrides.has_key = overrides.has_value = overrides.has_headers = overrides.has_error = True

    def topic(self):
        """Return the topic's name, or None."""
        return _locked(self, _topic_of) if FREE_THREADED else _topic_of(self)

    def partition(self):
        """Return the partition's number.

        It is None for a message that failed before it got a partition.
        """
        return _locked(self, _partition_of) if FREE_THREADED else _partition_of(self)

    def offset(self):
        """Return the record's offset in its partition.

        It is None for a failed or unacknowledged delivery.
        """
        return _locked(self, _offset_of) if FREE_THREADED else _offset_of(self)

    def key(self):
        """Return the key as bytes, or None if the record has none. `set_key()` replaces it."""
        return _locked(self, _key_of) if FREE_THREADED else _key_of(self)

    def value(self):
        """Return the value as bytes, or None for a null value. `set_value()` replaces it."""
        return _locked(self, _value_of) if FREE_THREADED else _value_of(self)

    def is_tombstone(self):
        """Return True if the record's value is null: in a compacted topic it deletes its key.

        A Message with an `error()` is not a tombstone.
        """
        return self.value() is None and self.error() is None

    def deserialized_key(self):
        """Return `key()`, which a deserializing client has replaced by an object."""
        return self.key()

    def deserialized_value(self):
        """Return `value()`, which a deserializing client has replaced by an object."""
        return self.value()

    def headers(self):
        """Return the headers as a list of (name, bytes or None), or None if there are none.

        The list keeps the order and duplicates. A byte of a name that isn't UTF-8 becomes a
        surrogate (``surrogateescape``). `Producer.produce()` turns it into that byte again.
        """
        return _locked(self, _own_headers_of) if FREE_THREADED else _own_headers_of(self)

    def timestamp(self):
        """Return the timestamp type and the milliseconds since 1970.

        The type is TIMESTAMP_NOT_AVAILABLE, TIMESTAMP_CREATE_TIME or TIMESTAMP_LOG_APPEND_TIME.
        """
        return _locked(self, _timestamp_of) if FREE_THREADED else _timestamp_of(self)

    def error(self):
        """Return the KafkaError that this Message reports, or None for a record."""
        return error_of_message(self)

    @cython.critical_section
    def latency(self):
        """Return the seconds from `produce()` to the outcome, or None for consumed records.

        The resolution is a millisecond. If you set the timestamps, or the broker uses log append
        time, each message has the latency of the first of its batch, which is the longest.
        """
        cdef Batch batch = self._batch
        cdef double later_s
        if batch.latency_s == -1.0:
            return None
        if batch.created_ms < 0:
            return batch.latency_s
        later_s = (self._timestamp_ms - batch.created_ms) / 1000.0
        # the clock may have been set meanwhile
        return batch.latency_s - min(max(later_s, 0.0), <double>batch.latency_s)

    @cython.critical_section
    def status(self):
        """Return the `MessageStatus` of a produced message: whether it is in the log.

        It is None for a message that wasn't produced here.
        """
        return None if self._batch.status == NO_STATUS else MessageStatus(self._batch.status)

    @cython.critical_section
    def leader_epoch(self):
        """Return the leader epoch of the record (KIP-320), or None if it is unknown."""
        return None if self._batch.leader_epoch == NO_EPOCH else self._batch.leader_epoch

    @cython.critical_section
    def delivery_count(self):
        """Return how often a share group has delivered this record, including this time (KIP-932).

        It is None for other messages.
        """
        return None if self._batch.delivery_count == NO_COUNT else self._batch.delivery_count

    @cython.critical_section
    def set_topic(self, topic, /):
        """Replace the return value of `topic()`."""
        batch = self._batch.copy()  # the other messages of the batch keep their topic
        batch.topic = topic
        self._batch = batch

    @cython.critical_section
    def set_key(self, key, /):
        """Replace the return value of `key()`. For deserializers."""
        overrides = _overrides_of(self)
        overrides.key = key
        overrides.has_key = True

    @cython.critical_section
    def set_value(self, value, /):
        """Replace the return value of `value()`. For deserializers."""
        overrides = _overrides_of(self)
        overrides.value = value
        overrides.has_value = True

    @cython.critical_section
    def set_headers(self, headers, /):
        """Replace the return value of `headers()`."""
        overrides = _overrides_of(self)
        overrides.headers = headers
        overrides.has_headers = True

    @cython.critical_section
    def set_error(self, error, /):
        """Replace the return value of `error()`."""
        overrides = _overrides_of(self)
        overrides.error = error
        overrides.has_error = True

    def __len__(self):
        """Return the value's length, or 0 for a null value."""
        with cython.critical_section(self):
            if self._overrides == NULL or not (<Overrides>self._overrides).has_value:
                return 0 if self._value_data == NULL else self._value_bytes
            value = (<Overrides>self._overrides).value
        return 0 if value is None else _length_of(value)

    def __bool__(self):
        return True

    def __eq__(self, other):
        # Compare the whole record, but not its delivery. A mutable object with equality has no
        # hash.
        if not isinstance(other, Message):
            return NotImplemented
        return self is other or _identity_of(self) == _identity_of(other)

    @classmethod
    def __class_getitem__(cls, item):
        """Return the type with the types of the key and the value, for annotations."""
        return GenericAlias(cls, item)

    def __repr__(self):
        if error_of_message(self) is not None:
            return f"Message(topic={self.topic()!r}, partition={self.partition()}, offset={self.offset()}, error={self.error()!r})"
        key = self.key()
        return (
            f"Message(topic={self.topic()!r}, partition={self.partition()}, offset={self.offset()}, "
            f"key={_short(key)}, value={_short(self.value())})"
        )

    def __reduce__(self):
        return Message, _fields_of(self)


@cython.no_gc
cdef class ConfluentMessage(Message):
    """A Message under the name confluent_kafka.

    It is false if its value has no bytes, its ``repr()`` is the object's address, and its
    constructor takes no None in place of a number.
    """

    def __cinit__(self):
        self._batch = ZERO_BATCH  # as there, if __init__() is never called

    def __init__(
        self,
        topic=None,
        partition=NO_PARTITION,
        offset=NO_OFFSET,
        key=None,
        value=None,
        headers=None,
        error=None,
        timestamp=None,
        latency=-1.0,
        leader_epoch=NO_EPOCH,
        delivery_count=NO_COUNT,
    ):
        if partition is None or offset is None or latency is None or leader_epoch is None or delivery_count is None:
            raise TypeError("partition, offset, latency, leader_epoch and delivery_count are numbers")
        if timestamp is not None and not isinstance(timestamp, tuple):
            raise TypeError("timestamp must be a tuple of (int, int)")
        Message.__init__(self, topic, partition, offset, key, value, headers, error, timestamp, latency, leader_epoch, delivery_count)

    def __eq__(self, other):
        # As there, an object of another type has no say.
        return isinstance(other, Message) and Message.__eq__(self, other)

    def __bool__(self):
        return len(self) != 0

    def __repr__(self):
        return object.__repr__(self)

    def __reduce__(self):
        return _confluent_message, _fields_of(self)


def _confluent_message(*fields):
    # A pickle refers to this function, because the name confluent_kafka may mean another package.
    message = ConfluentMessage.__new__(ConfluentMessage)
    Message.__init__(message, *fields)  # None stands for what a Message doesn't have
    return message


cdef Py_ssize_t _length_of(object value) except -1:
    # The value may be the message itself, or another one that has it as its value.
    if Py_EnterRecursiveCall(b" while getting the length of a message") != 0:
        return -1
    try:
        return len(value)
    finally:
        Py_LeaveRecursiveCall()


cdef tuple _fields_of(Message self):
    # The arguments of the constructor.
    return (
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


cdef double _whole_us(double latency_s):
    # As in confluent_kafka: whole microseconds, and an impossible number is the smallest.
    cdef double latency_us = latency_s * 1e6
    if latency_s < 0:
        return -1.0
    return (<int64_t>latency_us if latency_us < 2.0**63 else INT64_MIN) / 1e6


cdef Message message_of(Batch batch, kn_record_reader *reader, const uint8_t *start, const kn_record *record):
    # Return the Message of the record that the reader has just read. If there is no memory, the
    # reader goes back to the record. No Python code runs.
    cdef Message self = <Message>_new_message(batch, reader, start, record)
    Py_DECREF(self)  # the cast has counted it once more
    return self


cdef int messages_of(list into, Py_ssize_t count_max, Batch batch, kn_record_reader *reader, int64_t from_offset, int64_t *position) except -1:
    # Hot: append the rest of the batch, up to `count_max` messages in the list, and move the position
    # behind it. Stop before an invalid record. No Python code runs.
    cdef kn_record record
    cdef const uint8_t *start
    cdef int64_t next_offset = position[0]
    cdef Py_ssize_t count = PyList_GET_SIZE(into)
    _reserve(into, min(count_max - count, <Py_ssize_t>reader.left), count_max)
    while count < count_max and (FREE_THREADED or free_message_count > 0 or _reserve_message()):
        start = reader.span.at
        if kn_record_reader_next(reader, &record) != KN_OK:
            break
        if record.offset >= from_offset:
            if FREE_THREADED:
                if not _append(into, batch, reader, start, &record):
                    break
            else:
                _put(into, count, _new_message(batch, reader, start, &record))
            next_offset = record.offset + 1
            count += 1
    position[0] = next_offset
    return 0


cdef bint _append(list into, Batch batch, kn_record_reader *reader, const uint8_t *start, const kn_record *record) noexcept:
    # Append a Message. Returns False if there is no memory: then the reader goes back to the record.
    cdef PyObject *made
    try:
        made = _new_message(batch, reader, start, record)
    except MemoryError:
        return False
    if PyList_Append(<PyObject *>into, made) < 0:
        PyErr_Clear()  # a MemoryError
        Py_XDECREF(made)
        _unread(reader, start)
        return False
    Py_XDECREF(made)
    return True


cdef Message legacy_message_of(Batch batch, kn_record_reader *reader, const uint8_t *start, const kn_record *record):
    # As message_of(), for a record of a message set (magic 0 and 1).
    try:
        return _legacy_message(batch, record)
    except MemoryError:
        _unread(reader, start)
        raise


cdef Message _legacy_message(Batch batch, const kn_record *record):
    # The start of the record is not enough to find its key again.
    cdef Message self = _blank(batch.kind)
    cdef Overrides overrides = _overrides_of(self)
    self._batch = batch.copy()
    self._batch.base_offset = record.offset
    self._batch.timestamp_type = record.timestamp_type + 1
    self._value_data = record.value
    self._value_bytes = record.value_bytes
    # none: as in confluent_kafka
    self._timestamp_ms = record.timestamp_ms if record.timestamp_type >= 0 else 0
    if FREE_THREADED and _must_copy(batch):
        _copy_out(self)
    overrides.key = _bytes_of(record.key, record.key_bytes)
    overrides.has_key = overrides.has_headers = True
    return self


cdef Overrides _overrides_of(Message self):
    cdef Overrides overrides
    if self._overrides == NULL:
        overrides = Overrides.__new__(Overrides)
        Py_INCREF(overrides)
        self._overrides = <PyObject *>overrides
    return <Overrides>self._overrides


@cython.critical_section
cdef object error_of_message(Message self):
    if self._overrides != NULL and (<Overrides>self._overrides).has_error:
        return (<Overrides>self._overrides).error
    return None if self._batch is None else self._batch.error


cdef Message error_message_of(Pins pins, object topic, object partition, int64_t offset, object error):
    cdef Message self = _blank(pins.kind)
    self._batch = Batch.of(NULL, topic, NO_PARTITION if partition is None else partition, None)
    self._batch.base_offset = offset
    self._batch.error = error
    return self


cdef Message _blank(PyTypeObject *kind):
    cdef type known = <type>kind
    return known.__new__(known)


cdef tuple _identity_of(Message self):
    return (
        self.topic(), self.value(), self.key(), self.headers(), self.error(), self.partition(), self.offset(), self.leader_epoch(), self.timestamp()[1]
    )


def _short(data, limit=40):
    if isinstance(data, (bytes, str)) and len(data) > limit:
        return f"{data[:limit]!r}... ({len(data)} bytes)"
    return repr(data)


def live_chunks():
    """Return the number of referenced receive buffers in this process, for leak checks."""
    return kn_chunk_live()


def live_messages():
    """Return the number of Messages in this process, for leak checks.

    Raises NotImplementedError on a free-threaded Python, which doesn't count Messages.
    """
    if FREE_THREADED:
        raise NotImplementedError("a free-threaded Python doesn't count Messages")
    return cells.taken - free_message_count


# --- allocation and deallocation of Messages ---
#
# It is handwritten because of the reference counts. Cython's code sets and clears fields to None:
# four changes of one word for each Message, and each waits for the one before. The code here also
# fills a list that has room.
#
# A free-threaded Python does without all that. Another thread may look at an item of a list that is
# being freed, and only Python's own allocator keeps such memory readable. A list of free Messages
# would need a lock, too.

cdef extern from *:
    """
    #define SET_BATCH(message, batch) ((message)->_batch = (batch))
    #define SET_ALLOC(type, allocate) ((type)->tp_alloc = (allocate))
    #define BATCH_OF(message) ((PyObject *)(message)->_batch)
    """
    # overwrites the field without a release; takes the reference
    void SET_BATCH(Message message, Batch batch)
    void SET_ALLOC(PyTypeObject *kind, PyObject *(*allocate)(PyTypeObject *, Py_ssize_t) noexcept)
    PyObject *BATCH_OF(Message message)

cdef enum:
    # While consume() replaces a list of 10,000 by another, both are alive. The Messages of the
    # older list come from here.
    FREE_MESSAGES_MAX = 10240

# freed Messages: they hold no references, and their fields and their type are undefined
cdef PyObject *free_messages[FREE_MESSAGES_MAX]
cdef int free_message_count = 0
cdef kn_cells cells  # the memory of all Messages


cdef bint _reserve_message() noexcept:
    # Make sure that the next Message needs no memory.
    global free_message_count
    if free_message_count == 0:
        made = <PyObject *>kn_cells_take(&cells)
        if made == NULL:
            return False
        free_messages[0] = PyObject_Init(made, <PyTypeObject *>Message)
        free_message_count = 1
    return True


cdef inline void _unread(kn_record_reader *reader, const uint8_t *start) noexcept:
    # Go back to the record that the reader has just read.
    reader.span.at = start
    reader.left += 1


cdef inline PyObject *_new_message(Batch batch, kn_record_reader *reader, const uint8_t *start, const kn_record *record) except NULL:
    # Hot: runs once for each record consumed or reported. Returns a new reference to a Message. If
    # there is no memory, the reader goes back to the record.
    global free_message_count
    cdef PyObject *made
    if FREE_THREADED:
        made = PyType_GenericAlloc(batch.kind, 0)
        if made == NULL:
            _unread(reader, start)
            return NULL
    elif free_message_count > 0:
        free_message_count -= 1
        made = free_messages[free_message_count]
        Py_SET_REFCNT(made, 1)
    else:
        made = <PyObject *>kn_cells_take(&cells)
        if made == NULL:
            _unread(reader, start)
            raise MemoryError
        PyObject_Init(made, <PyTypeObject *>Message)
    if not FREE_THREADED:
        Py_SET_TYPE(made, batch.kind)
    Py_INCREF(batch)
    SET_BATCH(<Message>made, batch)
    (<Message>made)._overrides = NULL
    (<Message>made)._record = start
    (<Message>made)._value_data = record.value
    (<Message>made)._value_bytes = record.value_bytes
    (<Message>made)._timestamp_ms = record.timestamp_ms
    (<Message>made)._offset_delta = <int32_t>(record.offset - batch.base_offset)
    if FREE_THREADED and _must_copy(batch):
        _copy_new(made, reader, start)
    return made


cdef void _deallocate(PyObject *self) noexcept:
    # The type's tp_dealloc.
    global free_message_count
    Py_XDECREF(<PyObject *>(<Message>self)._batch)
    Py_XDECREF((<Message>self)._overrides)
    if FREE_THREADED or PyType_HasFeature(Py_TYPE(self), Py_TPFLAGS_HEAPTYPE):
        Py_TYPE(self).tp_free(self)  # a class written in Python, whose memory isn't a cell either
    elif free_message_count < FREE_MESSAGES_MAX:
        free_messages[free_message_count] = self
        free_message_count += 1
    else:
        kn_cells_give(&cells, self)


cdef PyObject *_allocate(PyTypeObject *kind, Py_ssize_t items) noexcept:
    # The type's tp_alloc, for Message(). The memory is zeroed.
    global free_message_count
    cdef PyObject *made
    if not _reserve_message():
        return PyErr_NoMemory()
    free_message_count -= 1
    made = free_messages[free_message_count]
    memset(made, 0, kind.tp_basicsize)
    return PyObject_Init(made, kind)


cdef int _reserve(list into, Py_ssize_t more, Py_ssize_t count_max) except -1:
    # Make room for so many more items, or for twice the old room if that is at most `count_max`.
    # Otherwise the list grows by an eighth, and each growth may copy it.
    cdef PyListObject *to = <PyListObject *>into
    cdef Py_ssize_t wanted = PyList_GET_SIZE(into) + more
    cdef PyObject **items
    if FREE_THREADED or wanted <= to.allocated:  # there, the items of a list have a header
        return 0
    wanted = max(wanted, min(2 * to.allocated, count_max))
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
for kind in (Message, ConfluentMessage):  # classes written in Python don't inherit tp_alloc
    if not FREE_THREADED:
        SET_ALLOC(<PyTypeObject *>kind, _allocate)
    (<PyTypeObject *>kind).tp_dealloc = <destructor>_deallocate
(<PyTypeObject *>ConfluentMessage).tp_name = "confluent_kafka.cimpl.Message"


# --- memory that kept Messages pin ---
#
# No Python code runs in it. The interpreter lock protects it, and the lock of Pins where there is no
# interpreter lock. There, other threads use the Messages meanwhile, so they can't be changed. So
# once the limit is reached, a new Message is copied out before anyone else has it.

cdef enum:
    COPY_BYTES = 192  # about the size of a copied-out Message without its record
    PINNED_MIN_BYTES = 256  # if each Message pins no more than this, copying out saves almost nothing


cdef void _pin(Batch batch, kn_chunk *chunk, Pins pins) noexcept:
    # Takes the reference.
    batch.chunk = chunk
    batch.pins = pins
    with cython.critical_section(pins):
        if chunk.message_refs == 0:
            pins.size_bytes += chunk.buffer.capacity_bytes
        chunk.message_refs += 1
        if not FREE_THREADED:  # there, nobody walks through the batches
            batch.older = pins.batches
            if pins.batches != NULL:
                (<Batch>pins.batches).younger = <PyObject *>batch
            pins.batches = <PyObject *>batch


cdef void _unpin(PyObject *batch) noexcept:
    cdef kn_chunk *chunk = (<Batch>batch).chunk
    cdef Pins pins = (<Batch>batch).pins
    (<Batch>batch).chunk = NULL
    with cython.critical_section(pins):
        if not FREE_THREADED:
            _unlink(batch, pins)
        chunk.message_refs -= 1
        if chunk.message_refs == 0:
            pins.size_bytes -= chunk.buffer.capacity_bytes
            pins.limit_bytes = min(pins.limit_bytes, _limit_of(pins))
    kn_chunk_unref(chunk)


cdef inline void _unlink(PyObject *batch, Pins pins) noexcept:
    cdef PyObject *older = (<Batch>batch).older
    cdef PyObject *younger = (<Batch>batch).younger
    if older != NULL:
        (<Batch>older).younger = younger
    if younger != NULL:
        (<Batch>younger).older = older
    else:
        pins.batches = older
    (<Batch>batch).older = (<Batch>batch).younger = NULL


cdef bint _are_full(Pins pins) noexcept:
    with cython.critical_section(pins):
        return pins.size_bytes >= pins.max_bytes


cdef inline bint _must_copy(Batch batch) noexcept:
    # Only without an interpreter lock: a Batch with Pins, but without a chunk, has no room in them.
    return batch.chunk == NULL and batch.pins is not None


cdef int _copy_new(PyObject *made, kn_record_reader *reader, const uint8_t *start) except -1:
    # Copy out a Message that nobody else has yet. If there is no memory, the Message ends, and the
    # reader goes back to the record.
    try:
        return _copy_out(<Message>made)
    except MemoryError:
        Py_XDECREF(made)
        _unread(reader, start)
        raise


cdef inline int64_t _limit_of(Pins pins) noexcept:
    # Half as much again as is pinned now: so the data since the last check shares the cost of a
    # check.
    return max(pins.max_bytes, pins.size_bytes + pins.size_bytes // 2)


cdef void _release_chunks(Pins pins) noexcept:
    # Copy out the Messages of chunks in which they use little, and release these chunks.
    cdef PyObject *batch = pins.batches
    cdef PyObject *older
    cdef int64_t messages = 0
    while batch != NULL:
        messages += Py_REFCNT(batch)
        (<Batch>batch).chunk.kept_bytes = 0
        batch = (<Batch>batch).older
    if pins.size_bytes > messages * PINNED_MIN_BYTES:
        kn_cells_walk(&cells, _count_pinned_bytes, <PyObject *>pins)
        batch = pins.batches
        while batch != NULL:
            _check_chunk((<Batch>batch).chunk)
            batch = (<Batch>batch).older
        kn_cells_walk(&cells, _copy_pinned, <PyObject *>pins)
        batch = pins.batches
        while batch != NULL:
            older = (<Batch>batch).older
            if (<Batch>batch).chunk.kept_bytes >= 0:
                _unpin(batch)
            batch = older
    pins.limit_bytes = _limit_of(pins)


cdef inline kn_chunk *_pinned_chunk_of(void *cell, void *pins) noexcept:
    # Return the chunk that this Message pins. NULL if it has ended, or belongs to another client.
    cdef PyObject *batch
    if Py_REFCNT(<PyObject *>cell) == 0:
        return NULL
    batch = BATCH_OF(<Message>cell)
    if batch == NULL or batch == <PyObject *>None or <void *>(<Batch>batch).pins != pins:
        return NULL
    return (<Batch>batch).chunk


cdef void _count_pinned_bytes(void *cell, void *pins) noexcept:
    cdef kn_chunk *chunk = _pinned_chunk_of(cell, pins)
    if chunk != NULL:
        chunk.kept_bytes += (<Message>cell)._value_bytes + COPY_BYTES


cdef void _check_chunk(kn_chunk *chunk) noexcept:
    # Keep a chunk with other references, because it wouldn't be freed. Keep a chunk if copying saves
    # too little.
    if not kn_chunk_has_only_messages(chunk) or 2 * chunk.kept_bytes > <int64_t>chunk.buffer.capacity_bytes:
        chunk.kept_bytes = -1


cdef void _copy_pinned(void *cell, void *pins) noexcept:
    cdef kn_chunk *chunk = _pinned_chunk_of(cell, pins)
    if chunk == NULL or chunk.kept_bytes < 0:
        return
    try:
        _copy_out(<Message>cell)
    except MemoryError:
        chunk.kept_bytes = -1  # the chunk stays, and a later check tries again


cdef int _copy_out(Message self) except -1:
    cdef kn_record record
    cdef const uint8_t *start = self._record
    cdef Overrides overrides = _overrides_of(self)
    if overrides.copy is not None:
        return 0
    if start != NULL:
        kn_record_reread(start, &record)
        overrides.copy = _bytes_of(start, <int32_t>(record.headers + record.headers_bytes - start))
        self._record = <const uint8_t *>PyBytes_AS_STRING(overrides.copy)
        if self._value_data != NULL:
            self._value_data = self._record + (self._value_data - start)
    elif self._value_data != NULL:
        overrides.copy = _bytes_of(self._value_data, self._value_bytes)
        self._value_data = <const uint8_t *>PyBytes_AS_STRING(overrides.copy)
    return 0
