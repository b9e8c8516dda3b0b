# cython: freethreading_compatible=True
"""Decoded columns of consumed records: their types, and the decoders of the schemas that occur.

`kafka_native.codecs` finds the schemas, csrc/codecs/schema_decoders the decoder of each record.

Thread: the application's. A Decoding belongs to one call. The columns are filled without the
interpreter lock. Meanwhile the call adds no decoder. Any thread may use a DecodedType or a
SchemaDecoder: they never change once a call has the decoder's key.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from kafka_native._native.codec_core cimport Layout, Program
from kafka_native._native.kn_arrow cimport *
from kafka_native._native.kn_codecs cimport *
from kafka_native._native.kn_enums cimport KN_ERR_FULL, KN_OK

# The framings of records. enum kn_framing, csrc/codecs/schema_decoders.h.
FRAMINGS = {"none": KN_FRAMING_NONE, "id": KN_FRAMING_ID, "indexes": KN_FRAMING_INDEXES}


def text_layout():
    """Return the type of a column of texts about records that don't decode."""
    return Layout([(<int>KN_NODE_BYTES, 0, 0, ARROW_FLAG_NULLABLE, "u", "", ())])


@cython.final
cdef class DecodedType:
    """The type of a decoded column, and the source of its decoders."""

    def __cinit__(
        self,
        source not None,
        str field not None,
        *,
        bint skips_errors,
        bint has_reasons,
        bint keeps_bytes,
        bint is_flat,
    ):
        """``field`` is "key" or "value". ``source`` is a `kafka_native.codecs.codec.RecordReader`.

        ``keeps_bytes`` needs ``has_reasons``.
        """
        self.source = source
        self.layout = source.layout
        self.field = field
        self.skips_errors = skips_errors
        self.has_reasons = has_reasons
        self.keeps_bytes = keeps_bytes
        if keeps_bytes:
            self.bytes = Layout([(<int>KN_NODE_BYTES, 0, 0, ARROW_FLAG_NULLABLE, "z", "", ())])
        self.is_flat = is_flat
        if is_flat and self.layout.layout.nodes[0].kind != KN_NODE_STRUCT:
            raise ValueError(f"flatten=True needs a {field} that is a record: the reader's schema has no fields")

    def __str__(self):
        return "decoded column"

    def column_names(self):
        """Return the names of the exported columns."""
        cdef const kn_layout *layout = self.layout.layout
        cdef int32_t node = 1
        if not self.is_flat:
            return [self.field]
        names = []
        while node < layout.node_count:
            names.append((<bytes>layout.nodes[node].name).decode())
            node = layout.nodes[node].end
        return names


@cython.final
cdef class SchemaDecoder:
    """The decoder of one schema's records, or the reason why there is none."""

    def __cinit__(self, Program program=None, paths=(), *, str reason=None):
        """``paths`` has the field of each instruction."""
        cdef Py_ssize_t number
        self.program = program
        if program is None:
            self.texts = [_c_text(reason)]
            self.item.reason = PyBytes_AS_STRING(self.texts[0])
            return
        self.texts = [_c_text(path) for path in paths]
        self.paths = <const char **>calloc(len(self.texts) or 1, sizeof(char *))
        if self.paths == NULL:
            raise MemoryError
        for number in range(len(self.texts)):
            self.paths[number] = PyBytes_AS_STRING(self.texts[number])
        self.item.decoder = program.decoder
        self.item.paths = self.paths

    def __dealloc__(self):
        free(self.paths)


cdef bytes _c_text(str text):
    return text.encode("utf-8", "replace").replace(b"\0", b" ")


@cython.critical_section
cdef int _set_key(SchemaDecoder decoder, bytes key) except -1:
    # The first call sets it. Other calls may read it then.
    if decoder.has_key:
        return 0
    decoder.item.key.size_bytes = <int32_t>len(key)
    memcpy(decoder.item.key.bytes, PyBytes_AS_STRING(key), len(key))
    decoder.has_key = True
    return 0


@cython.final
cdef class Decoding:
    """The decoders of one column, for one call."""

    def __dealloc__(self):
        kn_schema_decoders_deinit(&self.state.decoders)

    cdef bytes missing(self):
        # The framing for which there is no decoder.
        return (<char *>self.state.failure.key.bytes)[:self.state.failure.key.size_bytes]

    cdef int add(self, bytes key, SchemaDecoder decoder) except -1:
        cdef int status
        _set_key(decoder, key)
        status = kn_schema_decoders_add(&self.state.decoders, &decoder.item)
        if status == KN_ERR_FULL:
            kn_schema_decoders_clear(&self.state.decoders)
            self.decoders.clear()
            status = kn_schema_decoders_add(&self.state.decoders, &decoder.item)
        if status != KN_OK:
            raise MemoryError
        self.decoders.append(decoder)
        return 0

    cdef object error(self, str topic, int32_t partition, int64_t offset):
        # The exception for the record that has failed.
        cdef char text[KN_SCHEMA_FAILURE_TEXT_BYTES]
        cdef int32_t size = kn_schema_failure_text(&self.state.failure, text)
        path = "" if self.state.failure.path == NULL else (<bytes>self.state.failure.path).decode()
        return self.type.source.decode_error(
            topic, partition, offset, self.missing(), path, self.state.failure.position, text[:size].decode())


cdef Decoding new_decoding(DecodedType type, kn_columns *columns, int32_t column):
    # Return the decoding of a new column, without decoders. The columns of reasons and bytes follow it.
    cdef Decoding decoding = Decoding.__new__(Decoding)
    decoding.type = type
    decoding.decoders = []
    kn_schema_decoders_init(&decoding.state.decoders, <kn_framing><int>FRAMINGS[type.source.framing], type.field == "key")
    decoding.state.skips_errors = type.skips_errors
    decoding.state.reason_column = column + 1 if type.has_reasons else -1
    decoding.state.keeps_bytes = type.keeps_bytes
    kn_columns_set_decoding(columns, column, &decoding.state)
    return decoding
