# cython: freethreading_compatible=True
# cython: language_level=3, boundscheck=False, wraparound=False
"""Record batches in Python, on top of csrc/records. For the mock cluster, tools and tests.

`encode_batch` writes one batch of magic 2, and `encode_message_set` the older formats.
`decode_batches` reads batches and message sets of every magic. `batch_headers` reads only the
headers, which is enough for a broker. Producer and consumer don't use this module in their hot
paths.
"""
import os

cimport cython
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_SetObject, PyErr_WriteUnraisable
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from kafka_native._native.kn_enums cimport (
    KN_CODEC_COUNT,
    KN_CODEC_GZIP,
    KN_CODEC_LZ4,
    KN_CODEC_NONE,
    KN_CODEC_SNAPPY,
    KN_CODEC_ZSTD,
    KN_DECOMPRESSED_MAX_BYTES,
    KN_ERR_CODEC,
    KN_ERR_INVALID,
    KN_ERR_NOMEM,
    KN_ERR_TOO_LARGE,
    KN_ERR_TRUNCATED,
    KN_ERR_UNSUPPORTED,
    KN_OK,
)
from kafka_native._native.kn_records cimport (
    KN_ATTR_CONTROL,
    KN_ATTR_LOG_APPEND_TIME,
    KN_ATTR_TRANSACTIONAL,
    KN_BATCH_AT_ATTRIBUTES,
    KN_BATCH_AT_CRC,
    KN_BATCH_AT_LEADER_EPOCH,
    KN_BATCH_AT_MAGIC,
    KN_BATCH_AT_MAX_TIMESTAMP,
    KN_BATCH_HEADER_BYTES,
    kn_batch_meta,
    kn_batch_close,
    kn_batch_view,
    kn_batch_view_check,
    kn_batch_view_next,
    kn_batch_view_open,
    kn_batch_writer,
    kn_batch_writer_append,
    kn_batch_writer_init,
    kn_buffer,
    kn_buffer_append,
    kn_buffer_give,
    kn_buffer_live,
    kn_buffer_reserve,
    kn_buffer_take,
    kn_codec,
    kn_codec_table,
    kn_codec_table_init,
    kn_crc32c,
    kn_crc32c_backend,
    kn_header,
    kn_header_encode,
    kn_header_next,
    kn_legacy_form,
    kn_legacy_write,
    kn_lz4_legacy_call,
    kn_put_i16,
    kn_put_i32,
    kn_put_i64,
    kn_record,
    kn_record_bound_bytes,
    kn_record_reader,
    kn_record_reader_init,
    kn_record_reader_next,
    kn_span,
    kn_span_of,
    kn_status_text,
)

from kafka_native._native import codec_fallback
from kafka_native._native.enums import CODEC_NAMES

DECOMPRESSED_MAX_BYTES = KN_DECOMPRESSED_MAX_BYTES


class RecordError(Exception):
    """Records that can't be read or written. ``status`` is csrc's status code, ``text`` the reason.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text

    def __reduce__(self):
        return RecordError, (self.status, self.text)


cdef object record_error(int status, str where):
    return RecordError(status, f"{where}: {kn_status_text(status).decode()}")


cdef object missing_codec(str codec):
    return RecordError(KN_ERR_UNSUPPORTED, f"{codec}: {codec_fallback.missing_text(codec)}")


# The fallback: table entries that call Python packages. Any thread calls them, without the
# interpreter lock.

cdef int report(object error, int codec) except -1:
    """Pass an unexpected error of a codec package to sys.unraisablehook.

    No Python code has called the codec, so there is no caller to raise it to.
    """
    PyErr_SetObject(type(error), error)
    PyErr_WriteUnraisable(CODEC_NAMES[codec])
    return 0


cdef int fallback_compress(int codec, const uint8_t *src, size_t size_bytes, int level, kn_buffer **out) noexcept with gil:
    cdef bytes made
    try:
        compress = codec_fallback.CODECS[CODEC_NAMES[codec]][2]
        made = compress(PyMemoryView_FromMemory(<char *>src, <Py_ssize_t>size_bytes, PyBUF_READ), level)
    except MemoryError:
        return KN_ERR_NOMEM
    except Exception as error:
        report(error, codec)
        return KN_ERR_CODEC
    return kn_buffer_append(out, PyBytes_AS_STRING(made), <size_t>PyBytes_GET_SIZE(made))


cdef int collect(object pieces, size_t max_bytes, kn_buffer **out) except 1:
    """Append the pieces up to the maximum size."""
    cdef size_t total = 0
    cdef bytes piece
    cdef int status
    for piece in pieces:
        total += <size_t>PyBytes_GET_SIZE(piece)
        if total > max_bytes:
            return KN_ERR_TOO_LARGE
        status = kn_buffer_append(out, PyBytes_AS_STRING(piece), <size_t>PyBytes_GET_SIZE(piece))
        if status != KN_OK:
            return status
    return KN_OK


cdef int fallback_decompress(int codec, const uint8_t *src, size_t size_bytes, size_t max_bytes, kn_buffer **out) noexcept with gil:
    try:
        decompress = codec_fallback.CODECS[CODEC_NAMES[codec]][3]
        source = PyMemoryView_FromMemory(<char *>src, <Py_ssize_t>size_bytes, PyBUF_READ)
        return collect(decompress(source, max_bytes), max_bytes, out)
    except codec_fallback.CorruptDataError:
        return KN_ERR_CODEC
    except codec_fallback.TooLargeError:
        return KN_ERR_TOO_LARGE
    except MemoryError:
        return KN_ERR_NOMEM
    except Exception as error:
        report(error, codec)
        return KN_ERR_CODEC


cdef int gzip_compress(const uint8_t *src, size_t size_bytes, int level, kn_buffer **out) noexcept nogil:
    return fallback_compress(KN_CODEC_GZIP, src, size_bytes, level, out)

cdef int snappy_compress(const uint8_t *src, size_t size_bytes, int level, kn_buffer **out) noexcept nogil:
    return fallback_compress(KN_CODEC_SNAPPY, src, size_bytes, level, out)

cdef int lz4_compress(const uint8_t *src, size_t size_bytes, int level, kn_buffer **out) noexcept nogil:
    return fallback_compress(KN_CODEC_LZ4, src, size_bytes, level, out)

cdef int zstd_compress(const uint8_t *src, size_t size_bytes, int level, kn_buffer **out) noexcept nogil:
    return fallback_compress(KN_CODEC_ZSTD, src, size_bytes, level, out)

cdef int gzip_decompress(const uint8_t *src, size_t size_bytes, size_t max_bytes, kn_buffer **out) noexcept nogil:
    return fallback_decompress(KN_CODEC_GZIP, src, size_bytes, max_bytes, out)

cdef int snappy_decompress(const uint8_t *src, size_t size_bytes, size_t max_bytes, kn_buffer **out) noexcept nogil:
    return fallback_decompress(KN_CODEC_SNAPPY, src, size_bytes, max_bytes, out)

cdef int lz4_decompress(const uint8_t *src, size_t size_bytes, size_t max_bytes, kn_buffer **out) noexcept nogil:
    return fallback_decompress(KN_CODEC_LZ4, src, size_bytes, max_bytes, out)

cdef int zstd_decompress(const uint8_t *src, size_t size_bytes, size_t max_bytes, kn_buffer **out) noexcept nogil:
    return fallback_decompress(KN_CODEC_ZSTD, src, size_bytes, max_bytes, out)


# Keeps the text of each fallback's library alive: tables point to it.
cdef dict library_texts = {}


cdef void put_entry(kn_codec *entry, int codec) noexcept:
    if codec == KN_CODEC_GZIP:
        entry.compress, entry.decompress = gzip_compress, gzip_decompress
    elif codec == KN_CODEC_SNAPPY:
        entry.compress, entry.decompress = snappy_compress, snappy_decompress
    elif codec == KN_CODEC_LZ4:
        entry.compress, entry.decompress = lz4_compress, lz4_decompress
    else:
        entry.compress, entry.decompress = zstd_compress, zstd_decompress


cdef int fill_without(kn_codec_table *table, object disabled) except -1:
    cdef int codec
    cdef bytes text
    kn_codec_table_init(table)
    for codec in range(KN_CODEC_GZIP, KN_CODEC_COUNT):
        name = CODEC_NAMES[codec]
        if table.codecs[codec].compress != NULL and name not in disabled:
            continue
        table.codecs[codec].compress = NULL
        table.codecs[codec].decompress = NULL
        table.codecs[codec].library = NULL
        table.codecs[codec].quicker_forms = 0
        library = codec_fallback.library(name)
        if library is None:
            continue
        text = library_texts.setdefault(library, library.encode())
        table.codecs[codec].library = text
        put_entry(&table.codecs[codec], codec)
    return 0


cdef int codecs_fill(void *table) except -1:
    disabled = {name.strip() for name in os.environ.get("KN_DISABLE_NATIVE_CODECS", "").split(",")}
    return fill_without(<kn_codec_table *>table, disabled)


cdef kn_codec_table usual
cdef kn_codec_table fallback
cdef bint has_fallback = False
codecs_fill(&usual)


cdef const kn_codec_table *chosen(bint python_codecs) except NULL:
    # The fallback is made on request, because it imports every codec's package. Meanwhile other
    # threads may run: each makes its own, and the first one stays.
    global fallback, has_fallback
    cdef kn_codec_table made
    if not python_codecs:
        return &usual
    with cython.critical_section(library_texts):
        if has_fallback:
            return &fallback
    fill_without(&made, CODEC_NAMES)
    with cython.critical_section(library_texts):
        if not has_fallback:
            fallback = made
            has_fallback = True
    return &fallback


def features():
    """Return the libraries of the checksum and of each codec in this process.

    It is a dict of names to libraries, with "" for a missing one. A text that begins with "Python"
    names a Python package: the build has no C library for this codec.
    """
    cdef int codec
    found = {"crc32c": kn_crc32c_backend().decode()}
    for codec in range(KN_CODEC_GZIP, KN_CODEC_COUNT):
        found[CODEC_NAMES[codec]] = b"" if usual.codecs[codec].library == NULL else usual.codecs[codec].library
    return {name: library if isinstance(library, str) else library.decode() for name, library in found.items()}


def live_buffers():
    """Return the number of csrc's buffers outside their pools in this process.

    It is 0 if nothing leaks and no client is open.
    """
    return kn_buffer_live()


cdef int codec_id(str name) except -1:
    try:
        return CODEC_NAMES.index(name)
    except ValueError:
        raise ValueError(f"unknown codec {name!r}: one of {', '.join(CODEC_NAMES)} is meant") from None


def compress(str codec not None, data, *, int level=-1, bint python_codecs=False):
    """Return the compressed form of a bytes-like object.

    ``python_codecs`` selects the Python package even if a library is built in.
    """
    cdef int which = codec_id(codec)
    cdef const kn_codec *entry = &chosen(python_codecs).codecs[which]
    cdef kn_buffer *out
    cdef Py_buffer view
    cdef int status
    if which == KN_CODEC_NONE:
        return bytes(data)
    if entry.compress == NULL:
        raise missing_codec(codec)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    out = kn_buffer_take(NULL, <size_t>view.len)
    status = KN_ERR_NOMEM
    if out != NULL:
        with nogil:
            status = entry.compress(<const uint8_t *>view.buf, <size_t>view.len, level, &out)
    PyBuffer_Release(&view)
    return result(out, status, codec)


def decompress(str codec not None, data, *, size_t max_bytes=DECOMPRESSED_MAX_BYTES, bint python_codecs=False, bint lz4_legacy=False):
    """Return the decompressed form, of at most ``max_bytes``. Raises RecordError.

    ``lz4_legacy`` accepts frames with the wrong header checksum of message sets of magic 0.
    """
    cdef int which = codec_id(codec)
    cdef const kn_codec *entry = &chosen(python_codecs).codecs[which]
    cdef kn_buffer *out
    cdef Py_buffer view
    cdef int status
    if which == KN_CODEC_NONE:
        plain = bytes(data)
        if <size_t>len(plain) > max_bytes:
            raise record_error(KN_ERR_TOO_LARGE, codec)
        return plain
    if entry.decompress == NULL:
        raise missing_codec(codec)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    out = kn_buffer_take(NULL, <size_t>view.len)
    status = KN_ERR_NOMEM
    if out != NULL:
        with nogil:
            if lz4_legacy:
                status = kn_lz4_legacy_call(entry.decompress, <const uint8_t *>view.buf, <size_t>view.len, max_bytes, &out)
            else:
                status = entry.decompress(<const uint8_t *>view.buf, <size_t>view.len, max_bytes, &out)
    PyBuffer_Release(&view)
    return result(out, status, codec)


cdef bytes result(kn_buffer *out, int status, str where):
    """Return a buffer's bytes, and release the buffer, for any status."""
    try:
        if status != KN_OK:
            raise record_error(status, where)
        return PyBytes_FromStringAndSize(<char *>out.data, <Py_ssize_t>out.size_bytes)
    finally:
        kn_buffer_give(out)


cdef class Record:
    """One record. ``key`` and ``value`` are bytes or None.

    ``headers`` is a list of (str, bytes or None). ``timestamp`` is in milliseconds.
    ``timestamp_type`` is 0 for create time and 1 for log append time. It is -1 if the format has
    none; then ``timestamp`` is -1 too.
    """

    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef readonly object key
    cdef readonly object value
    cdef readonly list headers
    cdef readonly int attributes
    cdef readonly int timestamp_type

    def __cinit__(self, int64_t offset=0, int64_t timestamp=-1, key=None, value=None, headers=None, int attributes=0,
                  int timestamp_type=0):
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = list(headers) if headers is not None else []
        self.attributes = attributes
        self.timestamp_type = timestamp_type

    cdef tuple state(self):
        return (self.offset, self.timestamp, self.key, self.value, self.headers, self.attributes, self.timestamp_type)

    def __eq__(self, other):
        return isinstance(other, Record) and self.state() == (<Record>other).state()

    def __hash__(self):
        return hash((self.offset, self.timestamp, self.key, self.value))

    def __reduce__(self):
        return Record, self.state()

    def __repr__(self):
        return f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, headers={self.headers!r})"


cdef class BatchHeader:
    """The header of a batch, or of a legacy message: its place in the bytes, and its fields."""

    cdef readonly Py_ssize_t position
    cdef readonly Py_ssize_t size_bytes
    cdef readonly int64_t base_offset
    cdef readonly int64_t last_offset
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t producer_id
    cdef readonly int32_t partition_leader_epoch
    cdef readonly int32_t base_sequence
    cdef readonly int32_t record_count
    cdef readonly int producer_epoch
    cdef readonly int attributes
    cdef readonly int magic
    cdef readonly unsigned int crc

    @property
    def codec(self):
        """The name of the compression codec, or None for an undefined id."""
        cdef int which = self.attributes & 7
        return CODEC_NAMES[which] if which < KN_CODEC_COUNT else None

    @property
    def timestamp_type(self):
        """0 for create time, 1 for log append time, -1 for none (magic 0)."""
        return -1 if self.magic == 0 else (self.attributes >> 3) & 1

    @property
    def is_transactional(self):
        """Whether the batch belongs to a transaction."""
        return self.magic == 2 and (self.attributes & KN_ATTR_TRANSACTIONAL) != 0

    @property
    def is_control(self):
        """Whether the batch is a control batch, such as a transaction's marker."""
        return self.magic == 2 and (self.attributes & KN_ATTR_CONTROL) != 0

    cdef void fill(self, const kn_batch_view *view, Py_ssize_t position) noexcept:
        self.position = position
        self.size_bytes = <Py_ssize_t>view.raw_bytes
        self.base_offset = view.base_offset
        self.last_offset = view.last_offset
        self.base_timestamp = view.base_timestamp_ms
        self.max_timestamp = view.max_timestamp_ms
        self.producer_id = view.producer_id
        self.partition_leader_epoch = view.partition_leader_epoch
        self.base_sequence = view.base_sequence
        self.record_count = view.record_count
        self.producer_epoch = view.producer_epoch
        self.attributes = view.attributes
        self.magic = view.magic
        self.crc = view.crc

    def __repr__(self):
        return (f"{type(self).__name__}(magic={self.magic}, base_offset={self.base_offset}, last_offset={self.last_offset}, "
                f"record_count={self.record_count}, codec={self.codec}, size_bytes={self.size_bytes})")


cdef class Batch(BatchHeader):
    """A batch with its ``records``."""

    cdef readonly list records


cdef bytes slice_of(const uint8_t *data, int32_t size_bytes):
    return PyBytes_FromStringAndSize(<char *>data, size_bytes)


cdef list headers_of(const kn_record *record):
    cdef kn_span span
    cdef kn_header header
    cdef list found = []
    cdef int32_t _i
    if record.header_count == 0:
        return found
    span = kn_span_of(record.headers, <size_t>record.headers_bytes)
    for _i in range(record.header_count):
        if kn_header_next(&span, &header) != KN_OK:
            raise record_error(KN_ERR_INVALID, "record headers")
        key = slice_of(header.key, header.key_bytes).decode("utf-8", "surrogateescape")
        found.append((key, None if header.value == NULL else slice_of(header.value, header.value_bytes)))
    return found


cdef list records_of(const kn_batch_view *opened):
    """Return every record of an opened batch. The batch must end where its last record ends."""
    cdef kn_record_reader reader
    cdef kn_record record
    cdef Record made
    cdef list found = []
    cdef int status = kn_record_reader_init(&reader, opened)
    while status == KN_OK:
        status = kn_record_reader_next(&reader, &record)
        if status == KN_OK:
            made = Record.__new__(Record)
            made.offset = record.offset
            made.timestamp = record.timestamp_ms
            made.key = None if record.key == NULL else slice_of(record.key, record.key_bytes)
            made.value = None if record.value == NULL else slice_of(record.value, record.value_bytes)
            made.headers = headers_of(&record)
            made.attributes = record.attributes
            made.timestamp_type = record.timestamp_type
            found.append(made)
    if status != KN_ERR_TRUNCATED:
        raise record_error(status, f"record {len(found)} of the batch at offset {opened.base_offset}")
    return found


cdef Batch open_batch(kn_batch_view *view, Py_ssize_t position, const kn_codec_table *codecs, size_t max_bytes):
    cdef kn_buffer *opened = NULL
    cdef Batch batch = Batch.__new__(Batch)
    cdef int status
    with nogil:
        status = kn_batch_view_open(view, codecs, max_bytes, NULL, &opened)
    if status != KN_OK:
        raise record_error(status, f"batch at offset {view.base_offset}")
    try:
        batch.fill(view, position)
        batch.records = records_of(view)
    finally:
        kn_buffer_give(opened)
    return batch


cdef class _Walk:
    """Iterates over the batches of a bytes-like object, and holds its buffer meanwhile."""

    cdef Py_buffer held
    cdef bint holding
    cdef kn_span span
    cdef kn_batch_view view

    def __cinit__(self, data):
        PyObject_GetBuffer(data, &self.held, PyBUF_SIMPLE)
        self.holding = True
        self.span = kn_span_of(self.held.buf, <size_t>self.held.len)

    def __dealloc__(self):
        if self.holding:
            PyBuffer_Release(&self.held)

    cdef Py_ssize_t position(self) noexcept:
        return self.span.at - <const uint8_t *>self.held.buf

    cdef bint next(self, bint check_crcs) except -1:
        """Move to the next batch.

        False at the end, where a partial batch may remain, as in a fetch response.
        """
        cdef Py_ssize_t position = self.position()
        cdef int status = kn_batch_view_next(&self.span, &self.view)
        if status == KN_ERR_TRUNCATED:
            return False
        if status == KN_OK and check_crcs:
            with nogil:
                status = kn_batch_view_check(&self.view)
        if status != KN_OK:
            raise record_error(status, f"batch at byte {position}")
        return True


def batch_headers(data, *, bint check_crcs=False):
    """Return the headers of every complete batch in ``data``, without its records.

    Raises RecordError.
    """
    cdef _Walk walk = _Walk(data)
    cdef BatchHeader header
    cdef list found = []
    while walk.next(check_crcs):
        header = BatchHeader.__new__(BatchHeader)
        header.fill(&walk.view, <const uint8_t *>walk.view.raw - <const uint8_t *>walk.held.buf)
        found.append(header)
    return found


def decode_batches(data, *, bint check_crcs=True, size_t max_bytes=DECOMPRESSED_MAX_BYTES, bint python_codecs=False):
    """Return every complete batch in ``data`` with its records.

    A partial batch at the end is omitted, as in a fetch response. ``max_bytes`` is the maximum
    decompressed size of a batch. Raises RecordError.
    """
    cdef _Walk walk = _Walk(data)
    cdef const kn_codec_table *codecs = chosen(python_codecs)
    cdef list found = []
    while walk.next(check_crcs):
        found.append(open_batch(&walk.view, walk.view.raw - <const uint8_t *>walk.held.buf, codecs, max_bytes))
    return found


cdef bytes encoded_headers(object headers):
    """Return headers in wire form, without their count."""
    cdef bytes name
    cdef bytes room
    cdef uint8_t *end
    cdef list parts = []
    for key, value in headers:
        name = key.encode("utf-8", "surrogateescape") if isinstance(key, str) else bytes(key)
        content = b"" if value is None else bytes(value)
        room = PyBytes_FromStringAndSize(NULL, 10 + len(name) + len(content))
        end = kn_header_encode(<uint8_t *>PyBytes_AS_STRING(room), PyBytes_AS_STRING(name), <int32_t>len(name),
                               PyBytes_AS_STRING(content), -1 if value is None else <int32_t>len(content))
        parts.append(room[:end - <uint8_t *>PyBytes_AS_STRING(room)])
    return b"".join(parts)


cdef const uint8_t *bytes_of(object data, int32_t *size_bytes) except? NULL:
    """Borrow the data of a bytes object, or NULL for None."""
    if data is None:
        size_bytes[0] = -1
        return NULL
    if not isinstance(data, bytes):
        raise TypeError(f"key and value are bytes or None, not {type(data).__name__}")
    if PyBytes_GET_SIZE(data) > 0x7fffffff:
        raise record_error(KN_ERR_TOO_LARGE, "record")
    size_bytes[0] = <int32_t>PyBytes_GET_SIZE(data)
    return <const uint8_t *>PyBytes_AS_STRING(data)


cdef int append(kn_batch_writer *writer, kn_buffer **buffer, int64_t timestamp, object key, object value, object headers) except -1:
    cdef int32_t key_bytes = -1
    cdef int32_t value_bytes = -1
    cdef const uint8_t *key_data = bytes_of(key, &key_bytes)
    cdef const uint8_t *value_data = bytes_of(value, &value_bytes)
    cdef tuple pairs = tuple(headers) if headers else ()  # another thread may change the list
    cdef bytes wire = encoded_headers(pairs)
    cdef size_t wire_bytes = <size_t>PyBytes_GET_SIZE(wire)
    cdef int status = kn_buffer_reserve(buffer, kn_record_bound_bytes(key_bytes, value_bytes, wire_bytes))
    if status == KN_OK:
        status = kn_batch_writer_append(writer, buffer[0], timestamp, key_data, key_bytes, value_data, value_bytes,
                                        <const uint8_t *>PyBytes_AS_STRING(wire), wire_bytes, <int32_t>len(pairs))
    if status != KN_OK:
        raise record_error(status, "record")
    return 0


cdef int append_all(kn_batch_writer *writer, kn_buffer **buffer, object records) except -1:
    for record in records:
        if isinstance(record, Record):
            append(writer, buffer, (<Record>record).timestamp, (<Record>record).key, (<Record>record).value, (<Record>record).headers)
        else:
            timestamp, key, value, *rest = record
            append(writer, buffer, timestamp, key, value, rest[0] if rest else None)
    return 0


cdef int compress_section(const kn_codec *codec, int level, kn_buffer **buffer) except -1:
    """Replace the buffer by one with the same header room and the compressed records."""
    cdef kn_buffer *plain = buffer[0]
    cdef kn_buffer *packed
    cdef int status
    if codec.compress == NULL:
        raise missing_codec(codec.name.decode())
    packed = kn_buffer_take(NULL, plain.size_bytes)
    if packed == NULL:
        raise MemoryError()
    packed.size_bytes = KN_BATCH_HEADER_BYTES
    with nogil:
        status = codec.compress(plain.data + KN_BATCH_HEADER_BYTES, plain.size_bytes - KN_BATCH_HEADER_BYTES, level, &packed)
    if status != KN_OK:
        kn_buffer_give(packed)
        raise record_error(status, codec.name.decode())
    kn_buffer_give(plain)
    buffer[0] = packed
    return 0


def encode_batch(records, *, str codec="none", int level=-1, int64_t base_offset=0, int32_t base_sequence=-1,
                 int64_t producer_id=-1, int16_t producer_epoch=-1, bint transactional=False, bint control=False,
                 int timestamp_type=0, int32_t partition_leader_epoch=-1, bint python_codecs=False):
    """Encode one batch of magic 2.

    ``records`` are `Record` objects or tuples (timestamp, key, value[, headers]).

    Offsets count up from ``base_offset``. ``timestamp_type=1`` marks log append time: readers then
    use the largest timestamp for all records.
    """
    cdef int which = codec_id(codec)
    cdef kn_batch_writer writer
    cdef kn_batch_meta meta
    cdef kn_buffer *buffer = kn_buffer_take(NULL, KN_BATCH_HEADER_BYTES)
    if buffer == NULL:
        raise MemoryError()
    try:
        kn_batch_writer_init(&writer, buffer)
        append_all(&writer, &buffer, records)
        if which != KN_CODEC_NONE:
            compress_section(&chosen(python_codecs).codecs[which], level, &buffer)
        meta.base_offset = base_offset
        meta.partition_leader_epoch = partition_leader_epoch
        meta.attributes = <int16_t>(which | (KN_ATTR_TRANSACTIONAL if transactional else 0) | (KN_ATTR_CONTROL if control else 0)
                                    | (KN_ATTR_LOG_APPEND_TIME if timestamp_type == 1 else 0))
        meta.producer_id = producer_id
        meta.producer_epoch = producer_epoch
        meta.base_sequence = base_sequence
        kn_batch_close(buffer, &writer, &meta)
        return PyBytes_FromStringAndSize(<char *>buffer.data, <Py_ssize_t>buffer.size_bytes)
    finally:
        kn_buffer_give(buffer)


def encode_message_set(records, *, int magic, str codec="none", int level=-1, int64_t base_offset=0, bint python_codecs=False):
    """Encode a message set of magic 0 or 1, for brokers before 0.11.

    With a codec it is one compressed message around all others. The formats have no headers, and
    magic 0 has no timestamps. If compression saves nothing, the messages are uncompressed.
    """
    cdef int which = codec_id(codec)
    cdef kn_batch_writer writer
    cdef kn_batch_meta meta
    cdef kn_batch_view view
    cdef kn_legacy_form form
    cdef kn_span span
    cdef int status
    cdef kn_buffer *out = NULL
    cdef kn_buffer *plain
    if magic not in (0, 1):
        raise ValueError(f"message sets have magic 0 or 1, not {magic}")
    plain = kn_buffer_take(NULL, KN_BATCH_HEADER_BYTES)
    if plain == NULL:
        raise MemoryError()
    try:
        kn_batch_writer_init(&writer, plain)
        append_all(&writer, &plain, records)
        view.last_offset = 0
        meta = kn_batch_meta(0, -1, 0, -1, -1, -1)
        kn_batch_close(plain, &writer, &meta)
        span = kn_span_of(plain.data, plain.size_bytes)
        form = kn_legacy_form(<int8_t>magic, <int8_t>which, &chosen(python_codecs).codecs[which], level, base_offset)
        out = kn_buffer_take(NULL, plain.size_bytes)
        if out == NULL:
            raise MemoryError()
        with nogil:
            status = kn_batch_view_next(&span, &view)
            if status == KN_OK:
                status = kn_legacy_write(&view, &form, &out)
        if status != KN_OK:
            raise record_error(status, f"message set of magic {magic}, codec {codec}")
        return PyBytes_FromStringAndSize(<char *>out.data, <Py_ssize_t>out.size_bytes)
    finally:
        kn_buffer_give(plain)
        kn_buffer_give(out)


cdef uint8_t *batch_at(Py_buffer *view, Py_ssize_t position) except NULL:
    """Return the complete batch of magic 2 at a position of a writable buffer."""
    if position < 0 or view.len - position < KN_BATCH_HEADER_BYTES or (<uint8_t *>view.buf)[position + KN_BATCH_AT_MAGIC] != 2:
        raise record_error(KN_ERR_INVALID, f"no batch of magic 2 at byte {position}")
    return <uint8_t *>view.buf + position


def set_base_offset(data, int64_t offset, int32_t leader_epoch=-1, *, Py_ssize_t position=0):
    """Overwrite the base offset and leader epoch of the batch at ``position``, in place.

    The checksum doesn't cover these fields.
    """
    cdef Py_buffer view
    cdef uint8_t *batch
    PyObject_GetBuffer(data, &view, PyBUF_WRITABLE)
    try:
        batch = batch_at(&view, position)
        kn_put_i64(batch, offset)
        kn_put_i32(batch + KN_BATCH_AT_LEADER_EPOCH, leader_epoch)
    finally:
        PyBuffer_Release(&view)


def set_log_append_time(data, int64_t timestamp, *, Py_ssize_t position=0):
    """Set the log append time of the batch at ``position``, in place, and fix its checksum."""
    cdef Py_buffer view
    cdef uint8_t *batch
    cdef kn_batch_view parsed
    cdef kn_span span
    PyObject_GetBuffer(data, &view, PyBUF_WRITABLE)
    try:
        batch = batch_at(&view, position)
        span = kn_span_of(batch, <size_t>(view.len - position))
        if kn_batch_view_next(&span, &parsed) != KN_OK:
            raise record_error(KN_ERR_INVALID, f"no batch of magic 2 at byte {position}")
        kn_put_i16(batch + KN_BATCH_AT_ATTRIBUTES, <int16_t>(parsed.attributes | KN_ATTR_LOG_APPEND_TIME))
        kn_put_i64(batch + KN_BATCH_AT_MAX_TIMESTAMP, timestamp)
        kn_put_i32(batch + KN_BATCH_AT_CRC, <int32_t>kn_crc32c(0, batch + KN_BATCH_AT_ATTRIBUTES, parsed.raw_bytes - KN_BATCH_AT_ATTRIBUTES))
    finally:
        PyBuffer_Release(&view)
