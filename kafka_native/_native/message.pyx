# cython: freethreading_compatible=False
"""Message: one record, consumed or reported as delivered.

A Message borrows its bytes from the chunk it arrived in and makes Python objects only for the fields that are asked for.
It takes no part in garbage collection and comes from a freelist, because consuming makes one for every record.
"""
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t

from kafka_native._native.kn_engine cimport kn_chunk, kn_chunk_live, kn_chunk_unref
from kafka_native._native.kn_records cimport KN_OK, kn_header, kn_header_next, kn_record, kn_span, kn_span_of

# Partition, offset and leader epoch of a Message that has none.
cdef int32_t NO_PARTITION = -2147483648
cdef int64_t NO_OFFSET = -1001
cdef int32_t NO_EPOCH = -1


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Chunk:
    """A reference to a counted buffer of the engine; Messages share one."""

    def __dealloc__(self):
        kn_chunk_unref(self.chunk)

    @staticmethod
    cdef Chunk of(kn_chunk *chunk):
        # Takes the caller's reference.
        cdef Chunk self = Chunk.__new__(Chunk)
        self.chunk = chunk
        return self


cdef object _headers_of(const kn_record *record):
    cdef kn_span span = kn_span_of(record.headers, record.headers_bytes)
    cdef kn_header header
    headers = []
    for _ in range(record.header_count):
        if kn_header_next(&span, &header) != KN_OK:
            raise ValueError("malformed record headers")
        headers.append((
            PyUnicode_DecodeUTF8(<const char *>header.key, header.key_bytes, "surrogateescape"),
            None if header.value == NULL else PyBytes_FromStringAndSize(<const char *>header.value, header.value_bytes),
        ))
    return headers


@cython.final
@cython.no_gc
cdef class Own:
    """See message.pxd; a class of its own so that the usual Message has few references to keep."""


@cython.final
@cython.no_gc
@cython.freelist(10240)
cdef class Message:
    """A record of a topic, or an error in its place.

    Consumed Messages come from `Consumer.poll()` and `Consumer.consume()`, produced ones are handed to delivery callbacks. All fields are read by
    methods, as in confluent_kafka. `key()` and `value()` make a new ``bytes`` object at each call: keep the result rather than calling twice.

    A Message keeps the response it arrived in alive (up to a few megabytes): copy out what you keep for long.
    """

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
    ):
        self._topic = topic
        self._partition = NO_PARTITION if partition is None else partition
        self._offset = NO_OFFSET if offset is None else offset
        own = self._owning()
        own.key, own.value, own.headers, own.error = key, value, headers, error
        own.has_key = own.has_value = own.has_headers = True
        self._timestamp_type, self._timestamp_ms = (0, 0) if timestamp is None else timestamp
        self._latency_s = -1.0 if latency is None else latency
        self._leader_epoch = NO_EPOCH if leader_epoch is None else leader_epoch

    @staticmethod
    cdef Message of(Chunk chunk, object topic, int32_t partition, const kn_record *record, int32_t leader_epoch):
        cdef Message self = Message.__new__(Message)
        self._chunk = chunk
        self._topic = topic
        self._partition = partition
        self._leader_epoch = leader_epoch
        self._offset = record.offset
        self._timestamp_ms = record.timestamp_ms
        self._timestamp_type = record.timestamp_type + 1
        self._key_data = record.key
        self._key_bytes = record.key_bytes
        self._value_data = record.value
        self._value_bytes = record.value_bytes
        self._headers_data = record.headers
        self._headers_bytes = record.headers_bytes
        self._header_count = record.header_count
        self._latency_s = -1.0
        return self

    cdef Own _owning(self):
        if self._own is None:
            self._own = Own.__new__(Own)
        return self._own

    cdef object _error_or_none(self):
        return None if self._own is None else self._own.error

    cdef int _fail(self, object error) except -1:
        self._owning().error = error
        return 0

    @staticmethod
    cdef Message of_error(object topic, object partition, int64_t offset, object error):
        cdef Message self = Message.__new__(Message)
        self._topic = topic
        self._partition = NO_PARTITION if partition is None else partition
        self._offset = offset
        self._fail(error)
        self._leader_epoch = NO_EPOCH
        self._latency_s = -1.0
        return self

    def topic(self):
        """The topic's name, or None."""
        return self._topic

    def partition(self):
        """The partition's number, or None."""
        return None if self._partition == NO_PARTITION else self._partition

    def offset(self):
        """The record's offset in its partition, or None when it isn't known (a failed or unacknowledged delivery)."""
        return None if self._offset == NO_OFFSET else self._offset

    def key(self):
        """The key as bytes, None when the record has none (or what `set_key()` put in its place)."""
        if self._own is not None and self._own.has_key:
            return self._own.key
        if self._key_data == NULL:
            return None
        return PyBytes_FromStringAndSize(<const char *>self._key_data, self._key_bytes)

    def value(self):
        """The value as bytes, None for a null value (or what `set_value()` put in its place)."""
        if self._own is not None and self._own.has_value:
            return self._own.value
        if self._value_data == NULL:
            return None
        return PyBytes_FromStringAndSize(<const char *>self._value_data, self._value_bytes)

    def headers(self):
        """The headers as a list of (name, bytes or None) in their order, duplicates included; None when there are none."""
        cdef kn_record record
        if self._own is not None and self._own.has_headers:
            return self._own.headers
        if self._header_count == 0:
            return None
        record.headers = self._headers_data
        record.headers_bytes = self._headers_bytes
        record.header_count = self._header_count
        return _headers_of(&record)

    def timestamp(self):
        """(type, milliseconds since 1970): TIMESTAMP_NOT_AVAILABLE, TIMESTAMP_CREATE_TIME or TIMESTAMP_LOG_APPEND_TIME, and the time."""
        return (self._timestamp_type, self._timestamp_ms)

    def error(self):
        """None for a record, else the KafkaError that this Message reports."""
        return self._error_or_none()

    def latency(self):
        """Seconds from `produce()` until the delivery's outcome was known; None for consumed records."""
        return None if self._latency_s < 0 else self._latency_s

    def leader_epoch(self):
        """The leader epoch under which the record was written, None when it isn't known (KIP-320)."""
        return None if self._leader_epoch == NO_EPOCH else self._leader_epoch

    def delivery_count(self):
        """None: share groups (KIP-932) are where a record is delivered more than once."""
        return None

    def set_key(self, key):
        """Replaces what `key()` returns, for deserializers."""
        own = self._owning()
        own.key = key
        own.has_key = True

    def set_value(self, value):
        """Replaces what `value()` returns, for deserializers."""
        own = self._owning()
        own.value = value
        own.has_value = True

    def set_headers(self, headers):
        """Replaces what `headers()` returns."""
        own = self._owning()
        own.headers = headers
        own.has_headers = True

    def set_error(self, error):
        """Replaces what `error()` returns."""
        self._fail(error)

    def __len__(self):
        """The value's length, 0 for a null value."""
        if self._own is not None and self._own.has_value:
            return 0 if self._own.value is None else len(self._own.value)
        return 0 if self._value_data == NULL else self._value_bytes

    def __bool__(self):
        return True

    def __repr__(self):
        if self._error_or_none() is not None:
            return f"Message(topic={self._topic!r}, partition={self.partition()}, offset={self.offset()}, error={self.error()!r})"
        key = self.key()
        return (
            f"Message(topic={self._topic!r}, partition={self.partition()}, offset={self.offset()}, "
            f"key={_short(key)}, value={_short(self.value())})"
        )

    def __reduce__(self):
        return Message, (
            self._topic,
            self.partition(),
            self.offset(),
            self.key(),
            self.value(),
            self.headers(),
            self.error(),
            self.timestamp(),
            self.latency(),
            self.leader_epoch(),
        )


def _short(data, limit=40):
    if isinstance(data, (bytes, str)) and len(data) > limit:
        return f"{data[:limit]!r}... ({len(data)} bytes)"
    return repr(data)


def live_chunks():
    """How many receive buffers are referenced in this process, for leak checks."""
    return kn_chunk_live()
