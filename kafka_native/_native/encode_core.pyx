# cython: freethreading_compatible=True
"""Rows of Arrow columns as records of bytes, by programs that `kafka_native.codecs` compiles.

Thread: one at a time for each ColumnInput and each stream. A second thread gets an error, or rows
that the first one doesn't get. A program never changes. csrc/codecs encodes without the interpreter
lock.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport EINVAL
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from kafka_native._native.arrow_capsules cimport next_of, stream_capsule, take_input
from kafka_native._native.codec_core cimport BY_CODEC, BuiltColumn, ProgramData, check_made, described
from kafka_native._native.kn_arrow cimport (
    ARROW_FLAG_NULLABLE, ArrowArray, ArrowArrayStream, ArrowSchema, kn_arrow_problem, kn_arrow_release_array, kn_arrow_release_schema,
    kn_arrow_release_stream,
)
from kafka_native._native.kn_codecs cimport *
from kafka_native._native.kn_enums cimport KN_ERR_FULL, KN_ERR_NOMEM, KN_OK

cdef extern from "codecs/import.h" nogil:
    int kn_arrow_check_table(const ArrowSchema *schema, const ArrowArray *array, kn_arrow_problem *problem)

# The kinds of columns that are read. enum kn_nested_kind, csrc/codecs/nested.h.
NESTED_KINDS = {
    "skipped": KN_NESTED_SKIPPED,
    "none": KN_NESTED_NONE,
    "bits": KN_NESTED_BITS,
    "fixed": KN_NESTED_FIXED,
    "bytes32": KN_NESTED_BYTES32,
    "bytes64": KN_NESTED_BYTES64,
    "views": KN_NESTED_VIEWS,
    "list32": KN_NESTED_LIST32,
    "list64": KN_NESTED_LIST64,
    "fixed_list": KN_NESTED_FIXED_LIST,
    "struct": KN_NESTED_STRUCT,
    "dense_union": KN_NESTED_DENSE_UNION,
    "sparse_union": KN_NESTED_SPARSE_UNION,
    "dictionary": KN_NESTED_DICTIONARY,
}
# The instructions by name, and what FLOAT and DOUBLE read. csrc/codecs/encode_program.h.
ENCODE_CODES = {
    (<bytes>kn_encode_op_name(code)).decode(): code for code in range(KN_ENCODE_CODE_COUNT)}
ENCODE_NUMBERS = {
    "half": KN_ENCODE_NUMBER_HALF,
    "single": KN_ENCODE_NUMBER_SINGLE,
    "double": KN_ENCODE_NUMBER_DOUBLE,
    "signed": KN_ENCODE_NUMBER_SIGNED,
    "unsigned": KN_ENCODE_NUMBER_UNSIGNED,
}
# What JSON_DECIMAL writes.
ENCODE_DECIMALS = {
    "number": KN_ENCODE_DECIMAL_NUMBER,
    "string": KN_ENCODE_DECIMAL_STRING,
    "base64": KN_ENCODE_DECIMAL_BASE64,
}

cdef int64_t OFFSETS_MAX = <int64_t>1 << 48


# --- programs ---

@cython.final
cdef class EncodeProgram:
    """A checked program that encodes one type of columns."""
    cdef kn_encoder encoder
    cdef kn_nested_type *type
    cdef kn_encode_program *program

    def __dealloc__(self):
        kn_encode_program_free(self.program)
        kn_nested_type_unref(self.type)

    cdef int make_type(self, nodes) except -1:
        cdef list rows = list(nodes)
        cdef Py_ssize_t count = len(rows), i
        cdef kn_nested_node *made = <kn_nested_node *>calloc(<size_t>(count or 1), sizeof(kn_nested_node))
        cdef int status
        if made == NULL:
            raise MemoryError
        try:
            for i in range(count):
                kind, width, is_signed, children = rows[i]
                made[i].kind = <kn_nested_kind><int>kind
                made[i].width = width
                made[i].is_signed = is_signed
                made[i].child_count = children
            status = kn_nested_type_new(made, <int32_t>min(count, INT32_MAX), &self.type)
        finally:
            free(made)
        if status == KN_ERR_NOMEM:
            raise MemoryError
        if status != KN_OK:
            raise ValueError("the columns aren't one tree within the limits of nodes, depth and widths")
        return 0

    def __cinit__(self, nodes not None, ops not None, table not None, bytes constants not None):
        """``nodes`` are (kind, width, is_signed, child_count), ``ops`` are (code, node, end, arg, count).

        Raises ValueError with the number of the first bad instruction.
        """
        cdef ProgramData data = ProgramData(table, constants)
        cdef list rows = list(ops)
        cdef Py_ssize_t count = len(rows), i
        cdef kn_encode_op *made = NULL
        cdef int32_t bad = 0
        cdef int status
        self.make_type(nodes)
        try:
            made = <kn_encode_op *>calloc(<size_t>(count or 1), sizeof(kn_encode_op))
            if made == NULL:
                raise MemoryError
            for i in range(count):
                made[i].code, made[i].node, made[i].end, made[i].arg, made[i].count = rows[i]
            status = kn_encode_program_new(
                self.type, made, <int32_t>min(count, INT32_MAX), &data.data, &self.program, &bad)
        finally:
            free(made)
        check_made(status, bad)
        self.encoder = kn_record_encoder(self.program)


# --- records ---

@cython.final
cdef class Records(BuiltColumn):
    """Encoded records: one binary column."""

    def __cinit__(self, by, int64_t bytes_max):
        self.builder = kn_records_builder_new(bytes_max)
        if self.builder == NULL:
            raise MemoryError


# --- input ---

@cython.final
cdef class _Held:
    # An array of another library.
    cdef ArrowArray array

    def __cinit__(self):
        memset(&self.array, 0, sizeof(self.array))

    def __dealloc__(self):
        # The owner of the buffers may take any lock to free them, including the interpreter lock.
        with nogil:
            kn_arrow_release_array(&self.array)


@cython.final
cdef class ColumnInput:
    """Columns of another library: their type, and one array after the other."""
    cdef ArrowSchema schema
    cdef ArrowArrayStream stream
    cdef _Held held  # the current array
    cdef readonly tuple description  # of the type, as read_arrow_schema() returns it
    cdef readonly int64_t before  # rows of the earlier arrays
    cdef bint is_stream
    cdef bint is_reading  # a thread waits for the stream

    def __cinit__(self, data):
        memset(&self.schema, 0, sizeof(self.schema))
        memset(&self.stream, 0, sizeof(self.stream))
        self.held = _Held()
        self.is_stream = take_input(data, &self.schema, &self.stream, &self.held.array)
        self.description = described(&self.schema, 0)
        self.before = -1

    def __dealloc__(self):
        with nogil:
            kn_arrow_release_stream(&self.stream)
            kn_arrow_release_schema(&self.schema)

    @property
    def rows(self):
        """The rows of the current array."""
        return self.current().array.length

    def next(self):
        """Go to the next array. Return whether there is one. Raises OSError if the stream fails."""
        cdef _Held held = _Held()
        with cython.critical_section(self):
            if not self.is_stream:
                self.before += 1
                return self.before == 0
            self.before = 0 if self.before < 0 else self.before + self.held.array.length
            if self.is_reading:
                raise RuntimeError("two threads read the same Arrow data")
            self.held = _Held()
            self.is_reading = True
            try:
                if not next_of(&self.stream, &held.array):
                    return False
            finally:
                self.is_reading = False
            self.held = held
            return True

    cdef int check(self, _Held held) except -1:
        # Checks the parts of an array that are used without a binding.
        cdef ArrowArray *array = &held.array
        cdef ArrowArray *child
        cdef int64_t i
        if array.release == NULL or array.length < 0 or array.length > OFFSETS_MAX or array.offset < 0 or array.offset > OFFSETS_MAX:
            raise ValueError("the Arrow data: an impossible length or offset")
        if array.n_children != self.schema.n_children or (array.n_children > 0 and array.children == NULL):
            raise ValueError("the Arrow data: the number of columns isn't that of its schema")
        if array.n_buffers > 0 and array.buffers == NULL:
            raise ValueError("the Arrow data: no buffers")
        for i in range(array.n_children):
            child = array.children[i]
            if child == NULL or child.release == NULL or child.offset < 0 or child.offset > OFFSETS_MAX or child.length < 0:
                raise ValueError(f"the Arrow data: column {i} isn't there, or has an impossible length or offset")
        return 0

    def bind(self, EncodeProgram program not None, columns=None):
        """Return the current array, bound to the program's type.

        ``columns``: None for the array itself, the index of one column, or a tuple of the indices of
        those that make a struct. Raises ValueError if the array is malformed.
        """
        cdef _Held held = self.current()
        cdef _Bound bound = _Bound(program, held)
        cdef ArrowArray whole = held.array
        cdef kn_arrow_problem problem
        cdef ArrowArray **children = NULL
        cdef int64_t length = held.array.length
        cdef int64_t column = -1
        cdef int status
        cdef Py_ssize_t i
        self.check(held)
        try:
            if isinstance(columns, tuple):
                children = <ArrowArray **>calloc(<size_t>(len(<tuple>columns) or 1), sizeof(ArrowArray *))
                if children == NULL:
                    raise MemoryError
                for i in range(len(<tuple>columns)):
                    children[i] = held.array.children[_index_in(held, (<tuple>columns)[i])]
                whole.children = children
                whole.n_children = len(<tuple>columns)
            elif columns is not None:
                column = _index_in(held, columns)
            with nogil:
                if column >= 0:
                    status = kn_nested_bind_column(&bound.nested, &held.array, column, &problem)
                else:
                    status = kn_nested_bind(&bound.nested, &whole, 0, length, &problem)
        finally:
            free(children)
        if status != KN_OK:
            raise self.wrong(&problem)
        return bound

    def check_rows(self):
        """Raise ValueError if a row of the current array is null, or the array is malformed."""
        cdef _Held held = self.current()
        cdef kn_arrow_problem problem
        cdef int status
        with nogil:
            status = kn_arrow_check_table(&self.schema, &held.array, &problem)
        if status != KN_OK:
            raise self.wrong(&problem)

    cdef object wrong(self, const kn_arrow_problem *problem):
        where = "" if problem.row < 0 else f", row {self.before + problem.row}"
        return ValueError(f"the Arrow data{where}: {problem.text.decode()}")

    cdef _Held current(self):
        with cython.critical_section(self):
            return self.held


cdef int64_t _index_in(_Held held, column) except -1:
    cdef int64_t index = column
    if not 0 <= index < held.array.n_children:
        raise IndexError(f"there is no column {index}")
    return index


@cython.final
cdef class _Bound:
    # The columns of a program's type, bound to the current array of an input.
    cdef kn_nested nested
    cdef EncodeProgram program
    cdef _Held held

    def __cinit__(self, EncodeProgram program not None, _Held held not None):
        self.program = program
        self.held = held
        self.nested.type = program.type
        self.nested.columns = <kn_nested_column *>calloc(<size_t>program.type.node_count, sizeof(kn_nested_column))
        if self.nested.columns == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.nested.columns)


def encode(EncodeProgram program not None, _Bound bound not None, bytes prefix not None, int64_t first, int64_t end, int64_t bytes_max):
    """Encode the rows [first, end) of a bound array.

    Returns the records, the row after the last one, and None or why this row fails: (instruction,
    text). The records end early if they have `bytes_max` bytes.
    """
    cdef Records records = Records.__new__(Records, BY_CODEC, max(0, min(bytes_max, INT32_MAX)))
    cdef kn_encode_problem problem
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(prefix)
    cdef int64_t size = len(prefix)
    cdef int64_t row = first
    cdef int status
    if bound.nested.type != program.type:
        raise ValueError("the columns are bound to another program")
    with nogil:
        status = kn_encode_rows(&program.encoder, &bound.nested, start, size, &row, end, records.builder, &problem)
    if status == KN_ERR_NOMEM:
        raise MemoryError
    if status == KN_OK or status == KN_ERR_FULL:
        return records, row, None
    return records, row, (problem.instruction, problem.text.decode())


def encode_each(EncodeProgram program not None, _Bound bound not None, bytes prefix not None, int64_t first, int64_t end, int64_t bytes_max):
    """Encode the rows [first, end) of a bound array. A row that fails becomes a null.

    Returns the records, the row after the last one, and the failed rows as a list of (row,
    instruction, text). The records end early if they have `bytes_max` bytes.
    """
    cdef Records records = Records.__new__(Records, BY_CODEC, max(0, min(bytes_max, INT32_MAX)))
    cdef kn_encode_problem problem
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(prefix)
    cdef int64_t size = len(prefix)
    cdef int64_t row = first
    cdef int status
    cdef list failed = []
    if bound.nested.type != program.type:
        raise ValueError("the columns are bound to another program")
    while True:
        with nogil:
            status = kn_encode_rows(&program.encoder, &bound.nested, start, size, &row, end, records.builder, &problem)
        if status == KN_OK or status == KN_ERR_FULL:
            return records, row, failed
        if status == KN_ERR_NOMEM or kn_builder_reserve(records.builder, 0, 1) != KN_OK:
            raise MemoryError
        kn_builder_append_null(records.builder, 0)
        failed.append((row, problem.instruction, problem.text.decode()))
        row += 1


def shorten(Records records not None, int64_t length):
    """Keep only the first records. They must not have been exported."""
    if length < records.builder.columns[0].length:
        kn_builder_truncate(records.builder, max(0, length))


def empty_records():
    """Return a column without records."""
    return Records.__new__(Records, BY_CODEC, 0)


# --- streams ---

cdef class ArrayStream:
    """A stream of arrays for other libraries: the base of the streams of this module.

    Its callbacks take the interpreter lock, and the stream's own lock. They are called once for each
    array.
    """
    cdef readonly object error  # the exception that ended the stream, or None
    cdef bytes text

    cdef int export_schema(self, ArrowSchema *out) except -1:
        raise NotImplementedError

    cdef int export_next(self, ArrowArray *out) except -1:
        raise NotImplementedError  # *out is released; at the end it stays so

    def __arrow_c_stream__(self, requested_schema=None):
        """Return a capsule with the ArrowArrayStream. The requested schema is ignored."""
        cdef ArrowArrayStream *stream = <ArrowArrayStream *>calloc(1, sizeof(ArrowArrayStream))
        if stream == NULL:
            raise MemoryError
        stream.get_schema = _stream_schema
        stream.get_next = _stream_next
        stream.get_last_error = _stream_error
        stream.release = _stream_release
        stream.private_data = <void *>self
        Py_INCREF(self)
        return stream_capsule(stream)

    cdef int failed(self, error) except -1:
        text = str(error).encode("utf-8", "replace")
        with cython.critical_section(self):
            self.error = error
            self.text = text
        return EINVAL


cdef int _stream_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept with gil:
    cdef ArrayStream self = <ArrayStream>stream.private_data
    memset(out, 0, sizeof(out[0]))
    try:
        with cython.critical_section(self):
            self.export_schema(out)
        return 0
    except BaseException as error:
        return self.failed(error)


cdef int _stream_next(ArrowArrayStream *stream, ArrowArray *out) noexcept with gil:
    cdef ArrayStream self = <ArrayStream>stream.private_data
    memset(out, 0, sizeof(out[0]))
    try:
        with cython.critical_section(self):
            self.export_next(out)
        return 0
    except BaseException as error:
        return self.failed(error)


cdef const char *_stream_error(ArrowArrayStream *stream) noexcept with gil:
    cdef ArrayStream self = <ArrayStream>stream.private_data
    return NULL if self.text is None else PyBytes_AS_STRING(self.text)


cdef void _stream_release(ArrowArrayStream *stream) noexcept with gil:
    stream.release = NULL
    Py_DECREF(<object>stream.private_data)


@cython.final
cdef class RecordsStream(ArrayStream):
    """Encoded records, one array for each of their columns."""
    cdef list records
    cdef Py_ssize_t at

    def __cinit__(self, list records not None):
        self.records = records

    cdef int export_schema(self, ArrowSchema *out) except -1:
        cdef Records first = self.records[0]
        if kn_layout_export(first.builder.layout, out) != KN_OK:
            raise MemoryError
        return 0

    cdef int export_next(self, ArrowArray *out) except -1:
        cdef Records records
        if self.at < len(self.records):
            records = self.records[self.at]
            self.at += 1
            records.export(out)
        return 0


# --- rows with encoded columns ---

cdef void _forget_schema(ArrowSchema *schema) noexcept nogil:
    schema.release = NULL


cdef void _forget_array(ArrowArray *array) noexcept nogil:
    array.release = NULL


cdef void _release_schema_part(ArrowSchema *schema) noexcept with gil:
    schema.release = NULL
    Py_DECREF(<object>schema.private_data)


cdef void _release_array_part(ArrowArray *array) noexcept with gil:
    array.release = NULL
    Py_DECREF(<object>array.private_data)


@cython.final
cdef class _RowsSchema:
    # The memory of an exported type: that of the input's columns, then the encoded ones.
    cdef ColumnInput input
    cdef ArrowSchema *parts
    cdef ArrowSchema **children

    def __cinit__(self, ColumnInput input not None, Py_ssize_t kept, Py_ssize_t encoded):
        cdef Py_ssize_t i
        self.input = input
        self.parts = <ArrowSchema *>calloc(<size_t>(kept + encoded), sizeof(ArrowSchema))
        self.children = <ArrowSchema **>calloc(<size_t>(kept + encoded), sizeof(ArrowSchema *))
        if self.parts == NULL or self.children == NULL:
            raise MemoryError
        for i in range(kept + encoded):
            self.children[i] = &self.parts[i]
            if i < kept:
                self.parts[i] = input.schema.children[i][0]
            else:
                self.parts[i].format = b"z"
                self.parts[i].name = b"(encoded)"
                self.parts[i].flags = ARROW_FLAG_NULLABLE
            self.parts[i].release = _forget_schema

    def __dealloc__(self):
        free(self.parts)
        free(self.children)


@cython.final
cdef class _Rows:
    # The memory of exported rows: the input's columns, then the encoded ones.
    cdef _Held held
    cdef ArrowArray *parts
    cdef ArrowArray **children
    cdef Py_ssize_t count
    cdef const void *no_validity

    def __cinit__(self, _Held held not None, int64_t first, Py_ssize_t kept, list encoded not None):
        cdef ArrowArray *whole = &held.array
        cdef ArrowArray *part
        cdef int64_t skip = whole.offset + first
        cdef Py_ssize_t i
        self.held = held
        self.count = kept + len(encoded)
        self.parts = <ArrowArray *>calloc(<size_t>self.count, sizeof(ArrowArray))
        self.children = <ArrowArray **>calloc(<size_t>self.count, sizeof(ArrowArray *))
        if self.parts == NULL or self.children == NULL:
            raise MemoryError
        for i in range(self.count):
            part = self.children[i] = &self.parts[i]
            if i >= kept:
                (<Records?>encoded[i - kept]).export(part)
                continue
            part[0] = whole.children[i][0]
            # A column that is too short gets a length below zero, which every reader refuses.
            part.offset += skip
            part.length -= skip
            part.null_count = 0 if part.null_count == 0 else -1
            part.release = _forget_array

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.count if self.parts != NULL else 0):
            kn_arrow_release_array(&self.parts[i])
        free(self.parts)
        free(self.children)


@cython.final
cdef class RowsStream(ArrayStream):
    """The rows of an input, with encoded columns behind its own.

    Its reader must not move columns out of their structs.
    """
    cdef ColumnInput input
    cdef object pieces
    cdef Py_ssize_t kept
    cdef Py_ssize_t encoded

    def __cinit__(self, ColumnInput input not None, Py_ssize_t kept, Py_ssize_t encoded, pieces not None):
        """``pieces`` yields the first row of a piece of the current array, and its encoded columns.

        ``kept`` is the number of the input's own columns, ``encoded`` that of the others.
        """
        self.input = input
        self.pieces = pieces
        self.kept = kept
        self.encoded = encoded
        if kept != 0 and kept != input.schema.n_children:
            raise ValueError("all of the input's columns are kept, or none")

    cdef int export_schema(self, ArrowSchema *out) except -1:
        cdef _RowsSchema rows = _RowsSchema(self.input, self.kept, self.encoded)
        out.format = b"+s"
        out.name = b""
        out.n_children = self.kept + self.encoded
        out.children = rows.children
        out.private_data = <void *>rows
        Py_INCREF(rows)
        out.release = _release_schema_part
        return 0

    cdef int export_next(self, ArrowArray *out) except -1:
        cdef _Rows rows
        cdef _Held held
        piece = next(self.pieces, None)
        if piece is None:
            return 0
        first, encoded = piece
        held = self.input.current()
        self.input.check(held)
        rows = _Rows(held, first, self.kept, encoded)
        out.length = len(encoded[0])
        out.n_buffers = 1
        out.buffers = &rows.no_validity
        out.n_children = rows.count
        out.children = rows.children
        out.private_data = <void *>rows
        Py_INCREF(rows)
        out.release = _release_array_part
        return 0
