# cython: freethreading_compatible=False
"""From a partition's part of a ShareFetch response to Messages of the acquired records.

The records are parsed in place. Thread: the application's, in the share consumer's poll().
Decompression and checksums run without the interpreter lock.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from kafka_native._native.engine cimport Engine
from kafka_native._native.kn_engine cimport kn_chunk, kn_chunk_new, kn_chunk_ref, kn_chunk_unref
from kafka_native._native.kn_enums cimport *
from kafka_native._native.kn_records cimport *
from kafka_native._native.message cimport TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Batch, Pins, legacy_message_of, message_of

cdef enum:  # acknowledgement types, as in the protocol; ACK_UNDECIDED: none yet
    ACK_GAP = 0
    ACK_ACCEPT = 1
    ACK_RELEASE = 2
    ACK_REJECT = 3
    ACK_UNDECIDED = 0xFF

GAP = ACK_GAP
ACCEPT = ACK_ACCEPT
RELEASE = ACK_RELEASE
REJECT = ACK_REJECT
UNDECIDED = ACK_UNDECIDED


cdef class _AcquiredReader:
    """Reads the acquired records of one response.

    Ranges and offsets ascend, so one range is current.
    """

    cdef list messages
    cdef list failures
    cdef list ranges
    cdef list statuses
    cdef str topic
    cdef int32_t partition
    cdef Pins pins
    cdef int at  # the range that contains the offsets, or the next one
    cdef int64_t covered  # all offsets up to this one have their status byte

    cdef void _fill_gaps(self, int64_t last):
        # Offsets up to this one without a record are gaps: compacted records, or a transaction's
        # marker.
        cdef int64_t first, end, begin, stop
        cdef int number
        for number in range(self.at, len(self.ranges)):
            first, end, _ = self.ranges[number]
            if first > last:
                break
            begin = max(first, self.covered + 1)
            stop = min(end, last)
            if begin <= stop:
                memset(PyByteArray_AS_STRING(self.statuses[number]) + (begin - first), ACK_GAP, stop - begin + 1)
        self.covered = max(self.covered, last)

    cdef bint _holds(self, int64_t first, int64_t last):
        # Return whether any of these offsets of a batch or record is acquired.
        if first - 1 > self.covered:
            self._fill_gaps(first - 1)
        while self.at < len(self.ranges) and (<int64_t>self.ranges[self.at][1]) < first:
            self.at += 1
        return self.at < len(self.ranges) and (<int64_t>self.ranges[self.at][0]) <= last

    cdef int fail(self, int status, int64_t first, int64_t last) except -1:
        # Note an unusable batch. Its records keep their status byte, so they are released.
        if first - 1 > self.covered:
            self._fill_gaps(first - 1)
        self.covered = max(self.covered, last)
        self.failures.append((status, first))
        return 0

    cdef int take(self, const kn_batch_view *view, kn_chunk *chunk) except -1:
        # Add the acquired records of an opened batch.
        cdef kn_record_reader reader
        cdef kn_record record
        cdef const uint8_t *start
        cdef Batch batch = None
        cdef int64_t first = 0
        cdef int64_t last = -1
        cdef int64_t seen = view.base_offset - 1
        cdef char *status_bytes = NULL
        cdef int status = kn_record_reader_init(&reader, view)
        if status != KN_OK:
            return self.fail(status, view.base_offset, view.last_offset)
        while True:
            start = reader.span.at
            status = kn_record_reader_next(&reader, &record)
            if status != KN_OK:
                break
            seen = record.offset
            if batch is None or seen > last or seen < first:
                batch = None
                if not self._holds(seen, seen):
                    continue
                first, last, count = self.ranges[self.at]
                status_bytes = PyByteArray_AS_STRING(self.statuses[self.at])
                batch = self._batch_of(view, chunk, count)
            if seen - 1 > self.covered:
                self._fill_gaps(seen - 1)
            self.covered = max(self.covered, seen)
            status_bytes[seen - first] = <char>ACK_UNDECIDED
            if view.magic == 2:
                self.messages.append(message_of(batch, start, &record))
            else:
                self.messages.append(legacy_message_of(batch, &record))
        if status != KN_ERR_TRUNCATED:
            return self.fail(status, seen + 1, view.last_offset)
        self._fill_gaps(view.last_offset)
        return 0

    cdef Batch _batch_of(self, const kn_batch_view *view, kn_chunk *chunk, int16_t delivery_count):
        cdef Batch made = Batch.of(kn_chunk_ref(chunk), self.topic, self.partition, self.pins)
        made.base_offset = view.base_offset
        made.leader_epoch = view.partition_leader_epoch
        at_append = view.attributes & KN_ATTR_LOG_APPEND_TIME
        made.timestamp_type = TIMESTAMP_LOG_APPEND_TIME if at_append else TIMESTAMP_CREATE_TIME
        made.delivery_count = delivery_count
        return made

    cdef int walk(self, Engine engine, kn_chunk *chunk, bint check_crcs, size_t max_bytes) except -1:
        cdef kn_span span = kn_span_of(chunk.buffer.data, chunk.buffer.size_bytes)
        cdef const kn_codec_table *codecs = &engine.engine.client.codecs
        cdef kn_batch_view view
        cdef kn_buffer *opened
        cdef kn_chunk *of_batch
        cdef int status
        while True:
            status = kn_batch_view_next(&span, &view)
            if status == KN_ERR_TRUNCATED:
                # The response may lack other ranges. They keep their status bytes, so they are
                # released.
                return 0
            if status != KN_OK:
                return self.fail(status, self.covered + 1, self.covered + 1)
            if not self._holds(view.base_offset, view.last_offset):
                continue
            if kn_batch_view_is_control(&view):
                self._fill_gaps(view.last_offset)
                continue
            opened = NULL
            with nogil:
                status = kn_batch_view_check(&view) if check_crcs else KN_OK
                if status == KN_OK:
                    status = kn_batch_view_open(&view, codecs, max_bytes, NULL, &opened)
            if status != KN_OK:
                self.fail(status, view.base_offset, view.last_offset)
                continue
            of_batch = kn_chunk_ref(chunk) if opened == NULL else kn_chunk_new(opened)
            if of_batch == NULL:
                kn_buffer_give(opened)
                raise MemoryError()
            try:
                self.take(&view, of_batch)
            finally:
                kn_chunk_unref(of_batch)


def open_acquired(Engine engine not None, str topic not None, int32_t partition, records, list ranges not None, bint check_crcs, size_t max_bytes):
    """Return Messages of the acquired records, status bytes for each range, and failures.

    ``ranges`` are (first offset, last offset, delivery count), ascending. Each offset of a range
    has one status byte: UNDECIDED for a Message, GAP for an offset without a record, RELEASE for an
    unusable or missing one. ``max_bytes`` is the maximum decompressed size of a batch. Failures are
    (status, offset).
    """
    cdef Py_buffer held
    cdef kn_buffer *buffer
    cdef kn_chunk *chunk
    cdef _AcquiredReader reader = _AcquiredReader.__new__(_AcquiredReader)
    if engine.engine == NULL:
        raise engine.closed_error("the client is closed")
    reader.messages = []
    reader.failures = []
    reader.ranges = ranges
    reader.statuses = [bytearray((ACK_RELEASE,)) * (last - first + 1) for first, last, _ in ranges]
    reader.topic = topic
    reader.pins = engine.pins
    reader.partition = partition
    reader.covered = -1
    PyObject_GetBuffer(records, &held, PyBUF_SIMPLE)
    buffer = kn_buffer_take(NULL, <size_t>max(held.len, 1))
    if buffer != NULL:
        memcpy(buffer.data, held.buf, <size_t>held.len)
        buffer.size_bytes = <size_t>held.len
    PyBuffer_Release(&held)
    chunk = NULL if buffer == NULL else kn_chunk_new(buffer)
    if chunk == NULL:
        kn_buffer_give(buffer)
        raise MemoryError()
    engine.users += 1
    try:
        reader.walk(engine, chunk, check_crcs, max_bytes)
    finally:
        engine.unuse()
        kn_chunk_unref(chunk)
    return reader.messages, reader.statuses, reader.failures
