# cython: freethreading_compatible=True
"""Programs that decode records into Arrow columns, and the decoded columns.

`kafka_native.codecs` compiles schemas to programs, csrc/codecs runs them.

Thread: any. A program never changes, nor does a column once it is made. Records are decoded without
the interpreter lock.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from kafka_native._native.arrow_capsules cimport (
    ArrowInput, array_capsule, close_input, next_array, open_input, pointer_in, schema_capsule,
)
from kafka_native._native.kn_arrow cimport (
    ArrowArray, ArrowSchema, kn_arrow_check_schema, kn_arrow_problem,
)
from kafka_native._native.kn_codecs cimport *
from kafka_native._native.kn_enums cimport KN_ERR_FULL, KN_ERR_NOMEM, KN_ERR_UNSUPPORTED, KN_OK

cdef extern from "codecs/import.h" nogil:
    struct kn_arrow_bytes:
        pass
    bint kn_arrow_can_be_bytes(const ArrowSchema *schema)
    int kn_arrow_bind_bytes(const ArrowSchema *schema, const ArrowArray *array, int64_t skip, int64_t length,
                            kn_arrow_bytes *bytes, kn_arrow_problem *problem)
    int kn_arrow_value(const kn_arrow_bytes *bytes, int64_t row, const uint8_t **data, int64_t *size)

# The physical kinds of columns. enum kn_node_kind, csrc/codecs/layout.h.
NODE_KINDS = {
    "none": KN_NODE_NONE,
    "bits": KN_NODE_BITS,
    "fixed": KN_NODE_FIXED,
    "bytes": KN_NODE_BYTES,
    "list": KN_NODE_LIST,
    "struct": KN_NODE_STRUCT,
    "union": KN_NODE_UNION,
    "dictionary": KN_NODE_DICTIONARY,
}
# The instructions of Avro programs by name. enum kn_avro_code, csrc/codecs/avro_program.h.
AVRO_CODES = {(<bytes>kn_avro_op_name(code)).decode(): code for code in range(KN_AVRO_CODE_COUNT)}
# The instructions of Protobuf programs by name, how often a field occurs, and what a message without
# a field has in its place. csrc/codecs/protobuf_program.h.
PROTOBUF_CODES = {(<bytes>kn_protobuf_op_name(code)).decode(): code for code in range(KN_PROTOBUF_CODE_COUNT)}
PROTOBUF_SHAPES = {
    "singular": KN_PROTOBUF_SINGULAR,
    "repeated": KN_PROTOBUF_REPEATED,
    "packed": KN_PROTOBUF_PACKED,
    "map": KN_PROTOBUF_MAP,
}
PROTOBUF_MISSING = {
    "null": KN_PROTOBUF_NULL,
    "zero": KN_PROTOBUF_ZERO,
    "constant": KN_PROTOBUF_CONSTANT,
    "empty": KN_PROTOBUF_EMPTY,
    "required": KN_PROTOBUF_REQUIRED,
}
# The rules of JSON programs by name. enum kn_json_code, csrc/codecs/json_program.h.
JSON_CODES = {(<bytes>kn_json_code_name(code)).decode(): code for code in range(KN_JSON_CODE_COUNT)}
# Whether this build has simdjson.
HAS_JSON = bool(kn_json_is_available())
# The error of one that hasn't.
NO_JSON = (
    "JSON columns need simdjson. Install its development package (Debian, Ubuntu: libsimdjson-dev) and a C++ compiler, "
    "then build kafka-native again")

# The rows that room is made for at once, in the beginning.
cdef int64_t ROWS = 1024
cdef int TYPE_DEPTH_MAX = 64


# --- capsules ---

cdef object layout_capsule(kn_layout *layout):
    # Returns a capsule with the ArrowSchema of a layout.
    cdef ArrowSchema *schema = <ArrowSchema *>calloc(1, sizeof(ArrowSchema))
    if schema == NULL or kn_layout_export(layout, schema) != KN_OK:
        free(schema)
        raise MemoryError
    return schema_capsule(schema)


# --- layouts ---

@cython.final
cdef class Layout:
    """The type of a column, as nodes in preorder."""

    def __cinit__(self, nodes not None):
        """Each node is (kind, width_bytes, child_count, flags, format, name, values[, extension]).

        ``values`` are the str of a dictionary, else empty. ``extension`` is the name of Arrow's
        extension type that the column has. Raises ValueError if the nodes aren't
        one tree, or exceed a limit.
        """
        cdef list rows = list(nodes), keep = []
        cdef Py_ssize_t count = len(rows), i
        cdef kn_node *made = <kn_node *>calloc(<size_t>(count or 1), sizeof(kn_node))
        cdef bytes format, name, offsets, values, metadata
        cdef int status
        if made == NULL:
            raise MemoryError
        try:
            for i in range(count):
                kind, width, children, flags, format_text, name_text, texts, *extension = rows[i]
                format, name = _c_text(format_text), _c_text(name_text)
                encoded = [(<str?>text).encode() for text in texts]
                offsets, values = _offsets_of(encoded), b"".join(encoded)
                keep += [format, name, offsets, values]
                made[i].kind = <kn_node_kind><int>kind
                made[i].width_bytes = width
                made[i].child_count = children
                made[i].flags = flags
                made[i].format = PyBytes_AS_STRING(format)
                made[i].name = PyBytes_AS_STRING(name)
                if extension and extension[0]:
                    metadata = _extension_metadata(extension[0])
                    keep.append(metadata)
                    made[i].metadata = PyBytes_AS_STRING(metadata)
                    made[i].metadata_bytes = <int32_t>len(metadata)
                made[i].value_count = <int32_t>len(encoded)
                made[i].value_offsets = <const int32_t *><void *>PyBytes_AS_STRING(offsets)
                made[i].value_bytes = <const uint8_t *>PyBytes_AS_STRING(values)
            status = kn_layout_new(made, <int32_t>min(count, INT32_MAX), &self.layout)
        finally:
            free(made)
        if status == KN_ERR_NOMEM:
            raise MemoryError
        if status != KN_OK:
            raise ValueError("the layout isn't one tree within the limits of nodes, depth and widths")

    def __dealloc__(self):
        kn_layout_unref(self.layout)

    def __len__(self):
        return self.layout.node_count

    def is_equal(self, Layout other not None):
        """Return whether columns of one layout may be filled by programs of the other."""
        return kn_layout_is_equal(self.layout, other.layout)

    def __arrow_c_schema__(self):
        """Return a capsule with the ArrowSchema."""
        return layout_capsule(self.layout)


cdef bytes _c_text(str text):
    cdef bytes encoded = text.encode()
    if b"\0" in encoded:
        raise ValueError(f"a name has a NUL character: {text!r}")
    return encoded


cdef bytes _extension_metadata(str name):
    # In the encoding of ArrowSchema.metadata: the number of pairs, and the size of each key and value.
    cdef bytes found = (2).to_bytes(4, _BYTE_ORDER)
    for text in ("ARROW:extension:name", name, "ARROW:extension:metadata", ""):
        encoded = text.encode()
        found += len(encoded).to_bytes(4, _BYTE_ORDER) + encoded
    return found


cdef bytes _offsets_of(list values):
    cdef bytearray offsets = bytearray((0).to_bytes(4, _BYTE_ORDER))
    total = 0
    for value in values:
        total += len(value)
        offsets += total.to_bytes(4, _BYTE_ORDER)
    return bytes(offsets)


import sys

_BYTE_ORDER = sys.byteorder


# --- programs ---

@cython.final
cdef class ProgramData:
    # The table (a list of int) and the constants of a program, for C.

    def __cinit__(self, table not None, bytes constants not None):
        cdef list numbers = list(table)
        cdef Py_ssize_t count = len(numbers), i
        cdef int32_t *entries = <int32_t *>calloc(<size_t>(count or 1), sizeof(int32_t))
        if entries == NULL:
            raise MemoryError
        self.data.table = entries
        if count > INT32_MAX or len(constants) > INT32_MAX:
            raise ValueError("the program is too large")
        for i in range(count):
            entries[i] = numbers[i]
        self.data.table_count = <int32_t>count
        self.constants = constants
        self.data.constants = <const uint8_t *>PyBytes_AS_STRING(constants)
        self.data.constant_bytes = <int32_t>len(constants)

    def __dealloc__(self):
        free(<void *>self.data.table)


cdef int check_made(int status, int32_t bad) except -1:
    # Raises the error of a program that wasn't made.
    if status == KN_ERR_NOMEM:
        raise MemoryError
    if status != KN_OK:
        raise ValueError(f"instruction {bad} of the program is wrong")
    return 0


cdef class Program:
    """A checked program that decodes the records of one schema: the base of the formats' programs."""

    def decode(self, values not None, *, bint skip_errors=False, int64_t bytes_max=INT32_MAX):
        """Decode records into columns.

        ``values`` is a binary column (Arrow's PyCapsule interface, of an array or a stream), or has
        bytes or None, which becomes null. The first failure ends the call. With ``skip_errors`` the
        row is null, and the next record follows. A full column always ends it.
        """
        cdef Decoded decoded = Decoded.__new__(Decoded, BY_CODEC)
        decoded.builder = kn_builder_new(self.layout.layout, NULL, max(0, min(bytes_max, INT32_MAX)))
        if decoded.builder == NULL:
            raise MemoryError
        decoded.layout = self.layout
        decoded.errors = []
        if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
            _decode_column(&self.decoder, decoded, values, skip_errors)
        else:
            _decode_list(&self.decoder, decoded, list(values), skip_errors)
        return decoded


@cython.final
cdef class AvroProgram(Program):
    """A program for Avro records."""
    cdef kn_avro_program *program

    def __cinit__(self, Layout layout not None, ops not None, table not None, bytes constants not None):
        """``ops`` are (code, node, end, arg, count), ``table`` is a list of int.

        Raises ValueError with the number of the first bad instruction.
        """
        cdef ProgramData data = ProgramData(table, constants)
        cdef list rows = list(ops)
        cdef Py_ssize_t count = len(rows), i
        cdef kn_avro_op *made = <kn_avro_op *>calloc(<size_t>(count or 1), sizeof(kn_avro_op))
        cdef int32_t bad = 0
        cdef int status
        try:
            if made == NULL:
                raise MemoryError
            for i in range(count):
                made[i].code, made[i].node, made[i].end, made[i].arg, made[i].count = rows[i]
            status = kn_avro_program_new(
                layout.layout, made, <int32_t>min(count, INT32_MAX), &data.data, &self.program, &bad)
        finally:
            free(made)
        check_made(status, bad)
        self.layout = layout
        self.decoder = kn_avro_decoder(self.program)

    def __dealloc__(self):
        kn_avro_program_free(self.program)


@cython.final
cdef class ProtobufProgram(Program):
    """A program for Protobuf messages."""
    cdef kn_protobuf_program *program

    def __cinit__(self, Layout layout not None, ops not None, messages not None, table not None, bytes constants not None):
        """Make a program.

        ``ops`` are (code, node, number, shape, missing, arg, count, oneof, constant,
        constant_bytes), ``messages`` are (node, first instruction, count), ``table`` is a list of
        int. Raises ValueError with the number of the first bad instruction.
        """
        cdef ProgramData data = ProgramData(table, constants)
        cdef list rows = list(ops), places = list(messages)
        cdef Py_ssize_t count = len(rows), message_count = len(places), i
        cdef kn_protobuf_op *made = <kn_protobuf_op *>calloc(<size_t>(count or 1), sizeof(kn_protobuf_op))
        cdef kn_protobuf_message *spots = <kn_protobuf_message *>calloc(
            <size_t>(message_count or 1), sizeof(kn_protobuf_message))
        cdef int32_t bad = 0
        cdef int status
        try:
            if made == NULL or spots == NULL:
                raise MemoryError
            for i in range(count):
                (made[i].code, made[i].node, made[i].number, made[i].shape, made[i].missing, made[i].arg,
                 made[i].count, made[i].oneof, made[i].constant, made[i].constant_bytes) = rows[i]
            for i in range(message_count):
                spots[i].node, spots[i].first, spots[i].count = places[i]
            status = kn_protobuf_program_new(
                layout.layout, made, <int32_t>min(count, INT32_MAX), spots, <int32_t>min(message_count, INT32_MAX),
                &data.data, &self.program, &bad)
        finally:
            free(made)
            free(spots)
        check_made(status, bad)
        self.layout = layout
        self.decoder = kn_protobuf_decoder(self.program)

    def __dealloc__(self):
        kn_protobuf_program_free(self.program)


@cython.final
cdef class JsonProgram(Program):
    """A program for JSON records."""
    cdef kn_json_program *program

    def __cinit__(self, Layout layout not None, rules not None):
        """``rules`` are (code, arg, scale), one for each node of the layout.

        Raises ValueError with the number of the first node whose rule is wrong, and
        NotImplementedError in a build without simdjson.
        """
        cdef list rows = list(rules)
        cdef Py_ssize_t count = len(rows), i
        cdef int32_t bad = 0
        cdef int status
        if count != layout.layout.node_count:
            raise ValueError(f"the layout has {layout.layout.node_count} nodes, not {count}")
        cdef kn_json_rule *made = <kn_json_rule *>calloc(<size_t>(count or 1), sizeof(kn_json_rule))
        if made == NULL:
            raise MemoryError
        try:
            for i in range(count):
                made[i].code, made[i].arg, made[i].scale = rows[i]
            status = kn_json_program_new(layout.layout, made, &self.program, &bad)
        finally:
            free(made)
        if status == KN_ERR_NOMEM:
            raise MemoryError
        if status == KN_ERR_UNSUPPORTED:
            raise NotImplementedError(NO_JSON)
        if status != KN_OK:
            raise ValueError(f"the rule of node {bad} is wrong")
        self.layout = layout
        self.decoder = kn_json_decoder(self.program)

    def __dealloc__(self):
        kn_json_program_free(self.program)


# --- Arrow schemas ---

def read_arrow_schema(schema):
    """Return the type of an object with ``__arrow_c_schema__``.

    The result is (format, name, flags, children, dictionary, metadata). ``children`` has such tuples,
    ``dictionary`` is one or None. ``metadata`` is bytes in Arrow's encoding, or None.
    """
    capsule = schema.__arrow_c_schema__()
    return described(<ArrowSchema *>pointer_in(capsule, "arrow_schema"), 0)


cdef tuple described(const ArrowSchema *schema, int depth):
    # Returns a type as read_arrow_schema() does.
    cdef int64_t i
    cdef const char *problem = kn_arrow_check_schema(schema)
    if problem != NULL:
        raise ValueError(f"the Arrow schema can't be used: {(<bytes>problem).decode()}")
    if depth > TYPE_DEPTH_MAX:
        raise ValueError("the Arrow schema can't be used: types are nested too deeply")
    return (
        (<bytes>schema.format).decode("utf-8", "replace"),
        "" if schema.name == NULL else (<bytes>schema.name).decode("utf-8", "replace"),
        schema.flags,
        tuple([described(schema.children[i], depth + 1) for i in range(schema.n_children)]),
        None if schema.dictionary == NULL else described(schema.dictionary, depth + 1),
        _metadata(schema.metadata),
    )


cdef object _metadata(const char *metadata):
    # A count of pairs; then for each key and value its size and its bytes.
    cdef const char *at = metadata
    cdef int32_t count, size
    cdef int64_t _
    if metadata == NULL:
        return None
    memcpy(&count, at, sizeof(count))
    at += sizeof(count)
    for _ in range(2 * <int64_t>count):
        memcpy(&size, at, sizeof(size))
        if size < 0:
            raise ValueError("the metadata of the schema is malformed")
        at += sizeof(size) + size
    return metadata[:at - metadata]


@cython.final
cdef class _Pieces:
    # The places of records.
    cdef const uint8_t **datas  # NULL: null
    cdef int64_t *sizes

    def __cinit__(self, Py_ssize_t count):
        self.datas = <const uint8_t **>calloc(<size_t>(count or 1), sizeof(uint8_t *))
        self.sizes = <int64_t *>calloc(<size_t>(count or 1), sizeof(int64_t))
        if self.datas == NULL or self.sizes == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.datas)
        free(self.sizes)


cdef int _decode_list(const kn_decoder *decoder, Decoded decoded, list records, bint skip_errors) except -1:
    cdef _Pieces pieces = _Pieces(len(records))
    cdef Py_ssize_t i
    for i in range(len(records)):
        record = records[i]
        if record is None:
            continue
        if not PyBytes_CheckExact(record):
            raise TypeError(f"a record must be bytes or None, not {type(record).__name__}")
        pieces.datas[i] = <const uint8_t *>PyBytes_AS_STRING(record)
        pieces.sizes[i] = PyBytes_GET_SIZE(record)
    return _decode(decoder, decoded, pieces, len(records), skip_errors)


cdef int _decode_array(const kn_decoder *decoder, Decoded decoded, const ArrowSchema *schema, const ArrowArray *array,
                       bint skip_errors) except -1:
    # Returns 0 if the call has ended.
    cdef kn_arrow_bytes column
    cdef kn_arrow_problem problem
    cdef int status = KN_OK
    cdef int64_t i
    if kn_arrow_check_schema(schema) != NULL or not kn_arrow_can_be_bytes(schema):
        raise TypeError("a column of records must be binary")
    if kn_arrow_bind_bytes(schema, array, 0, array.length, &column, &problem) != KN_OK:
        raise ValueError(f"the column can't be used: {(<bytes>problem.text).decode()}")
    cdef _Pieces pieces = _Pieces(array.length)
    with nogil:
        for i in range(array.length):
            status = kn_arrow_value(&column, i, &pieces.datas[i], &pieces.sizes[i])
            if status != KN_OK:
                break
    if status != KN_OK:
        raise ValueError(f"row {i} of the column is outside of its buffers")
    return _decode(decoder, decoded, pieces, array.length, skip_errors)


cdef int _decode_column(const kn_decoder *decoder, Decoded decoded, column, bint skip_errors) except -1:
    cdef ArrowInput input
    cdef bint is_more = True
    try:
        open_input(&input, column)
        while is_more and next_array(&input):
            is_more = _decode_array(decoder, decoded, &input.schema, &input.array, skip_errors)
    finally:
        close_input(&input)
    return 0


cdef int _decode(const kn_decoder *decoder, Decoded decoded, _Pieces pieces, int64_t count, bint skip_errors) except -1:
    # Returns 0 if the call has ended, 1 if more records may follow.
    cdef kn_builder *builder = decoded.builder
    cdef const uint8_t **datas = pieces.datas
    cdef const int64_t *sizes = pieces.sizes
    cdef kn_decode_problem problem
    cdef int status = KN_OK
    cdef int64_t row = 0, first = builder.columns[0].length
    while row < count:
        with nogil:
            while row < count:
                status = kn_builder_reserve(builder, 0, min(count - row, ROWS))
                if status != KN_OK:
                    break
                if datas[row] == NULL:
                    kn_builder_append_null(builder, 0)
                else:
                    status = kn_decode(decoder, builder, datas[row], sizes[row], &problem)
                    if status != KN_OK:
                        break
                row += 1
        if status == KN_OK:
            break
        if status == KN_ERR_NOMEM:
            raise MemoryError
        if status == KN_ERR_FULL:
            decoded.full = True
            return 0
        decoded.errors.append((
            first + row, status, problem.instruction, problem.position, (<bytes>problem.text).decode()))
        if not skip_errors:
            return 0
        kn_builder_append_null(builder, 0)
        row += 1
    return 1


# --- columns ---

cdef object BY_CODEC = object()


cdef class BuiltColumn:
    """A column that a builder has: the base of decoded and of encoded records."""

    def __cinit__(self, by, *arguments):
        if by is not BY_CODEC:
            raise TypeError(f"{type(self).__name__} is made by a program")

    def __dealloc__(self):
        if self.builder != NULL:
            with nogil:
                kn_builder_unref(self.builder)

    cdef int export(self, ArrowArray *out) except -1:
        # Fills *out with the column's array. The first export frees the builder's scratch memory.
        cdef int status
        with cython.critical_section(self):
            status = kn_builder_export(self.builder, out)
        if status != KN_OK:
            raise MemoryError
        return 0

    def __len__(self):
        return self.builder.columns[0].length

    @property
    def nbytes(self):
        """The bytes of the buffers."""
        return kn_builder_size_bytes(self.builder)

    def __arrow_c_schema__(self):
        """Return a capsule with the ArrowSchema."""
        return layout_capsule(self.builder.layout)

    def __arrow_c_array__(self, requested_schema=None):
        """Return capsules with the ArrowSchema and the ArrowArray. Nothing is copied.

        The requested schema is ignored, as the protocol allows.
        """
        schema = layout_capsule(self.builder.layout)
        cdef ArrowArray *array = <ArrowArray *>calloc(1, sizeof(ArrowArray))
        if array == NULL:
            raise MemoryError
        try:
            self.export(array)
        except MemoryError:
            free(array)
            raise
        return schema, array_capsule(array)


@cython.final
cdef class Decoded(BuiltColumn):
    """Decoded records: one column with a row a record."""
    cdef readonly Layout layout
    cdef readonly list errors  # (row, status, instruction, position, text)
    cdef readonly bint full  # a column has no more room: the next records are missing
