# cython: freethreading_compatible=True
"""From a partition's part of a ShareFetch response to Messages or columns of the acquired records.

The records are parsed in place. Thread: the application's, in the share consumer's poll(), which
admits one thread at a time. A reader, its columns and its statuses belong to the call. Later other
threads may read and change the statuses. Decompression and checksums run without the interpreter
lock.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset, strlen

from kafka_native._native.arrow_capsules cimport ArrowInput, close_input, next_array, open_input
from kafka_native._native.arrow_consumer cimport ColumnBatch, ColumnMemory, ColumnPlan, end_batch, new_batch, unfit_error
from kafka_native._native.arrow_decoding cimport Decoding
from kafka_native._native.engine cimport Engine, EngineHandle, handle_of
from kafka_native._native.kn_arrow cimport *
from kafka_native._native.kn_engine cimport kn_chunk, kn_chunk_new, kn_chunk_ref, kn_chunk_unref
from kafka_native._native.kn_enums cimport *
from kafka_native._native.kn_records cimport *
from kafka_native._native.message cimport TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Batch, Pins, legacy_message_of, message_of

from kafka_native._native.arrow_consumer import MissingSchema

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

cdef int64_t COLUMN_BYTES_MAX = 2147483647  # of a column with 32-bit offsets


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
    cdef ColumnBatch columns  # None: make Messages
    cdef bytes topic_bytes

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
                self.messages.append(message_of(batch, &reader, start, &record))
            else:
                self.messages.append(legacy_message_of(batch, &reader, start, &record))
        if status != KN_ERR_TRUNCATED:
            return self.fail(status, seen + 1, view.last_offset)
        self._fill_gaps(view.last_offset)
        return 0

    cdef int take_rows(self, const kn_batch_view *view, kn_chunk *chunk) except -1:
        # Append the acquired records of an opened batch to the columns. As take(), without a Python
        # object for each record.
        cdef kn_record_reader reader
        cdef kn_record records[KN_BLOCK_RECORDS]
        cdef kn_column_block block
        cdef int64_t first = 0
        cdef int64_t last = -1
        cdef int64_t seen = view.base_offset - 1
        cdef char *status_bytes = NULL
        cdef int32_t at
        cdef int status = kn_record_reader_init(&reader, view)
        if status != KN_OK:
            return self.fail(status, view.base_offset, view.last_offset)
        block.records = records
        block.count = 0
        block.chunk = chunk
        block.topic = PyBytes_AS_STRING(self.topic_bytes)
        block.topic_bytes = <int32_t>PyBytes_GET_SIZE(self.topic_bytes)
        block.partition = self.partition
        block.leader_epoch = view.partition_leader_epoch
        while True:
            at = block.count
            status = kn_record_reader_next(&reader, &records[at])
            if status != KN_OK:
                break
            seen = records[at].offset
            if seen > last or seen < first:
                self._append(&block)
                if not self._holds(seen, seen):
                    first, last = 0, -1
                    continue
                records[0] = records[at]
                first, last, block.delivery_count = self.ranges[self.at]
                status_bytes = PyByteArray_AS_STRING(self.statuses[self.at])
            if seen - 1 > self.covered:
                self._fill_gaps(seen - 1)
            self.covered = max(self.covered, seen)
            status_bytes[seen - first] = <char>ACK_UNDECIDED
            block.count += 1
            if block.count == KN_BLOCK_RECORDS:
                self._append(&block)
        self._append(&block)
        if status != KN_ERR_TRUNCATED:
            return self.fail(status, seen + 1, view.last_offset)
        self._fill_gaps(view.last_offset)
        return 0

    cdef int _append(self, kn_column_block *block) except -1:
        # Append a block to the columns.
        cdef int32_t taken = 0
        cdef int32_t column = 0
        cdef int status = KN_OK
        if block.count == 0:
            return 0
        with nogil:
            status = kn_columns_append(self.columns.columns, block, &taken, &column)
        if status == KN_ERR_NOMEM:
            raise MemoryError
        if status == KN_ERR_UNKNOWN_SCHEMA:
            self._find_decoder(block.records[taken].offset, column)
            block.records += taken
            block.count -= taken
            self._append(block)
            block.records -= taken
            return 0
        if status != KN_OK:
            raise unfit_error(self.topic, self.partition, block.records[taken].offset, self.columns, column, status == KN_ERR_FULL)
        block.count = 0
        return 0

    cdef int _find_decoder(self, int64_t offset, int column) except -1:
        # Add the decoder that a record needs, or raise MissingSchema.
        cdef Decoding decoding = self.columns.decodings[column]
        key, source = decoding.missing(), decoding.type.source
        decoder = source.known(key)
        if decoder is None:
            raise MissingSchema(source, key, (self.topic, self.partition, offset))
        return decoding.add(key, decoder)

    cdef Batch _batch_of(self, const kn_batch_view *view, kn_chunk *chunk, int16_t delivery_count):
        cdef Batch made = Batch.of(kn_chunk_ref(chunk), self.topic, self.partition, self.pins)
        made.base_offset = view.base_offset
        made.leader_epoch = view.partition_leader_epoch
        at_append = view.attributes & KN_ATTR_LOG_APPEND_TIME
        made.timestamp_type = TIMESTAMP_LOG_APPEND_TIME if at_append else TIMESTAMP_CREATE_TIME
        made.delivery_count = delivery_count
        return made

    cdef int walk(self, EngineHandle handle, kn_chunk *chunk, bint check_crcs, size_t max_bytes) except -1:
        cdef kn_span span = kn_span_of(chunk.buffer.data, chunk.buffer.size_bytes)
        cdef const kn_codec_table *codecs = &handle.engine.client.codecs
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
                if self.columns is None:
                    self.take(&view, of_batch)
                else:
                    self.take_rows(&view, of_batch)
            finally:
                kn_chunk_unref(of_batch)


def open_acquired(Engine engine not None, str topic not None, int32_t partition, records, list ranges not None, bint check_crcs, size_t max_bytes,
                  ColumnBatch columns=None):
    """Return Messages of the acquired records, status bytes for each range, and failures.

    With ``columns`` the records are appended to them, and there are no Messages. If a record doesn't
    fit (UnfitError), doesn't decode (MissingSchema, MessageDecodeError) or there is no memory, none
    of these records is in the columns.

    ``ranges`` are (first offset, last offset, delivery count), ascending. Each offset of a range
    has one status byte: UNDECIDED for a Message, GAP for an offset without a record, RELEASE for an
    unusable or missing one. ``max_bytes`` is the maximum decompressed size of a batch. Failures are
    (status, offset).
    """
    cdef Py_buffer held
    cdef kn_buffer *buffer
    cdef kn_chunk *chunk
    cdef _AcquiredReader reader = _AcquiredReader.__new__(_AcquiredReader)
    cdef EngineHandle handle = handle_of(engine)
    if handle.engine == NULL:
        raise engine.closed_error("the client is closed")
    reader.messages = []
    reader.failures = []
    reader.ranges = ranges
    reader.statuses = [bytearray((ACK_RELEASE,)) * (last - first + 1) for first, last, _ in ranges]
    reader.topic = topic
    reader.pins = engine.pins
    reader.partition = partition
    reader.covered = -1
    reader.columns = columns
    reader.topic_bytes = topic.encode()
    cdef int64_t rows = 0 if columns is None else columns.columns.row_count
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
    try:
        reader.walk(handle, chunk, check_crcs, max_bytes)
    except BaseException:
        if columns is not None:
            kn_columns_truncate(columns.columns, rows)
        raise
    finally:
        kn_chunk_unref(chunk)
    return reader.messages, reader.statuses, reader.failures


# --- columns ---

def begin_columns(Engine engine not None, ColumnPlan plan not None, ColumnMemory memory not None):
    """Return columns without rows, for `open_acquired()`."""
    return new_batch(plan, memory, COLUMN_BYTES_MAX, COLUMN_BYTES_MAX, engine.pins.max_bytes)


def end_columns(ColumnBatch columns not None, ColumnMemory memory not None):
    """Complete columns: no rows are added any more."""
    end_batch(columns)
    memory.remember(columns.columns, columns.plan)


def find_finished(bytearray statuses not None, bytes rows not None, bytes types not None, Py_ssize_t start, bytes finished not None):
    """Return the index of the first record that can't be acknowledged any more, or -1.

    ``rows`` has a byte for each status: 1 if the record has a row. ``types`` has a byte for each row
    of a batch; these rows begin at ``start``, and UNDECIDED leaves a record as it is. ``finished``
    has the statuses of records that can't be acknowledged.
    """
    cdef Py_ssize_t index
    cdef Py_ssize_t row = _check_rows(statuses, rows, types, start)
    cdef uint8_t blocked[256]
    memset(blocked, 0, 256)
    for index in range(len(finished)):
        blocked[<uint8_t>finished[index]] = 1
    with cython.critical_section(statuses):
        for index in range(len(statuses)):
            if rows[index]:
                if <uint8_t>types[row] != ACK_UNDECIDED and blocked[<uint8_t>statuses[index]]:
                    return index
                row += 1
    return -1


def set_types(bytearray statuses not None, bytes rows not None, bytes types not None, Py_ssize_t start):
    """Set the acknowledgement types of rows. See `find_finished()`."""
    cdef Py_ssize_t index
    cdef Py_ssize_t row = _check_rows(statuses, rows, types, start)
    with cython.critical_section(statuses):
        for index in range(len(statuses)):
            if rows[index]:
                if <uint8_t>types[row] != ACK_UNDECIDED:
                    statuses[index] = types[row]
                row += 1


cdef Py_ssize_t _check_rows(bytearray statuses, bytes rows, bytes types, Py_ssize_t start) except -1:
    if len(rows) != len(statuses) or start < 0 or rows.count(1) > len(types) - start:
        raise ValueError("the rows and types don't fit the statuses")
    return start


# --- acknowledgement types from Arrow ---

cdef uint8_t OTHER = 0xFE  # a number that is no acknowledgement type


cdef int _put_values(const char *format, const ArrowArray *array, bytearray into) except -1:
    # Append one byte for each value of an array.
    cdef const uint8_t *validity
    cdef const void *values
    cdef int64_t index
    cdef int64_t value
    cdef char kind = format[0]
    cdef kn_arrow_problem problem
    if kn_arrow_check_array(array, 0, array.length, 2, &problem) != KN_OK:
        raise ValueError(f"the column can't be used: {problem.text.decode()}")
    if array.length == 0:
        return 0
    validity, values = <const uint8_t *>array.buffers[0], array.buffers[1]
    if values == NULL:
        raise ValueError("the column can't be used: no data buffer")
    for index in range(array.offset, array.offset + array.length):
        if array.null_count != 0 and validity != NULL and not validity[index >> 3] >> (index & 7) & 1:
            into.append(ACK_UNDECIDED)
            continue
        if kind == c'b':
            value = (<const uint8_t *>values)[index >> 3] >> (index & 7) & 1
        elif kind == c'c' or kind == c'C':
            value = (<const int8_t *>values)[index]
        elif kind == c's' or kind == c'S':
            value = (<const int16_t *>values)[index]
        elif kind == c'i' or kind == c'I':
            value = (<const int32_t *>values)[index]
        else:
            value = (<const int64_t *>values)[index]
        into.append(<uint8_t>value if 0 <= value < OTHER else OTHER)
    return 0


cdef const char *_format_of(const ArrowSchema *schema) except NULL:
    # Return the type of a column of numbers.
    cdef const char *problem = kn_arrow_check_schema(schema)
    if problem != NULL:
        raise ValueError(f"the column can't be used: {problem.decode()}")
    if schema.dictionary != NULL or strlen(schema.format) != 1 or schema.format[0] not in b"bcCsSiIlL":
        raise TypeError(f"a mask has booleans and types are integers, not Arrow's type {(<bytes>schema.format).decode()!r}")
    return schema.format


def column_values(column not None):
    """Return whether a column has booleans, and one byte for each of its values.

    A null is UNDECIDED. ``column`` has Arrow's PyCapsule interface, of an array or a stream.
    """
    cdef ArrowInput input
    cdef const char *format
    found = bytearray()
    try:
        open_input(&input, column)
        format = _format_of(&input.schema)
        while next_array(&input):
            _put_values(format, &input.array, found)
        return format[0] == c'b', bytes(found)
    finally:
        close_input(&input)


def masked(bytes types not None, bytes mask not None):
    """Return acknowledgement types, with UNDECIDED where the mask isn't 1."""
    cdef Py_ssize_t index
    cdef bytearray found = bytearray(types)
    cdef uint8_t *at = <uint8_t *>PyByteArray_AS_STRING(found)
    if len(mask) != len(types):
        raise ValueError(f"the mask has {len(mask)} values for {len(types)} rows")
    for index in range(len(mask)):
        if mask[index] != 1:
            at[index] = ACK_UNDECIDED
    return bytes(found)
