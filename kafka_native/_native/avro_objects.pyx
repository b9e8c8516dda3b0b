# cython: freethreading_compatible=True, boundscheck=False, wraparound=False
"""Programs that read Avro records into Python objects, and a check of objects to write.

`kafka_native.codecs` compiles a pair of schemas to nodes. A node reads one value; the nodes of
records, arrays and unions refer to others, also to themselves. The columns' programs
(csrc/codecs/avro_decode) come from the same plans.

Thread: any. A program never changes, nor does a finished check.
"""
import datetime
import uuid

cimport cython
from cpython.float cimport PyFloat_Check
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_Check
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.datetime cimport date_new, datetime_new, import_datetime, time_new
from cpython.dict cimport PyDict_Copy, PyDict_SetItem
from cpython.ref cimport Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from kafka_native._native.kn_records cimport kn_varint_get, kn_varlong_get
from kafka_native._native.texts cimport text_of

cdef extern from "Python.h":
    object PyObject_Vectorcall(object function, PyObject **arguments, size_t count, PyObject *names)
    int PyObject_GenericSetAttr(object target, object name, object value) except -1
    ctypedef struct PyTupleObject:
        PyObject *ob_item[1]

import_datetime()

# What a node does. In parentheses: its parts.
# - CONSTANT returns `object`. Nulls, and defaults that can't be changed.
# - FIXED reads `size` bytes. DECIMAL_FIXED too: `object` is (limit, context, exponent). ENUM:
#   `object` has what each symbol of the writer becomes; Missing is an error.
# - DICT (fields) copies the dict `object`, which has the keys in their order, and sets them.
#   INSTANCE (fields) calls `object` with the fields: `size` positional arguments, and then those
#   whose names are `names`.
# - ARRAY (item), MAP (value). `size`: the smallest item on the wire.
# - UNION (branches). A part -1 doesn't resolve.
# - DEFAULT (value) reads from the bytes `object`. CONVERT (value) calls `object` with the value.
# - from SKIP_FIXED on: pass over a value. They are the parts of DICT, INSTANCE and of each other.
cdef enum Code:
    CONSTANT, BOOLEAN, INT, LONG, INT_AS_FLOAT, LONG_AS_FLOAT, FLOAT, DOUBLE, BYTES, TEXT, FIXED, ENUM
    DATE, TIME_MILLIS, TIME_MICROS, TIMESTAMP_MILLIS, TIMESTAMP_MICROS
    LOCAL_TIMESTAMP_MILLIS, LOCAL_TIMESTAMP_MICROS, DECIMAL_BYTES, DECIMAL_FIXED, UUID_TEXT
    DICT, INSTANCE, ARRAY, MAP, UNION, DEFAULT, CONVERT
    SKIP_FIXED, SKIP_VARINT, SKIP_BYTES, SKIP_RECORD, SKIP_ARRAY, SKIP_MAP, SKIP_UNION
    CODE_COUNT

OBJECT_CODES = {
    "CONSTANT": CONSTANT, "BOOLEAN": BOOLEAN, "INT": INT, "LONG": LONG, "INT_AS_FLOAT": INT_AS_FLOAT,
    "LONG_AS_FLOAT": LONG_AS_FLOAT, "FLOAT": FLOAT, "DOUBLE": DOUBLE, "BYTES": BYTES, "TEXT": TEXT, "FIXED": FIXED,
    "ENUM": ENUM, "DATE": DATE, "TIME_MILLIS": TIME_MILLIS, "TIME_MICROS": TIME_MICROS,
    "TIMESTAMP_MILLIS": TIMESTAMP_MILLIS, "TIMESTAMP_MICROS": TIMESTAMP_MICROS,
    "LOCAL_TIMESTAMP_MILLIS": LOCAL_TIMESTAMP_MILLIS, "LOCAL_TIMESTAMP_MICROS": LOCAL_TIMESTAMP_MICROS,
    "DECIMAL_BYTES": DECIMAL_BYTES, "DECIMAL_FIXED": DECIMAL_FIXED, "UUID_TEXT": UUID_TEXT, "DICT": DICT,
    "INSTANCE": INSTANCE, "ARRAY": ARRAY, "MAP": MAP, "UNION": UNION, "DEFAULT": DEFAULT, "CONVERT": CONVERT,
    "SKIP_FIXED": SKIP_FIXED, "SKIP_VARINT": SKIP_VARINT, "SKIP_BYTES": SKIP_BYTES, "SKIP_RECORD": SKIP_RECORD,
    "SKIP_ARRAY": SKIP_ARRAY, "SKIP_MAP": SKIP_MAP, "SKIP_UNION": SKIP_UNION,
}

# Limits of one record against input that is small and expands.
cdef enum:
    DEPTH_MAX = 100  # nested records, arrays and maps
    FREE_VALUES_MAX = 1000000  # values that take no bytes: nulls, defaults, empty records
AVRO_NESTING_MAX = DEPTH_MAX
AVRO_FREE_VALUES_MAX = FREE_VALUES_MAX

cdef int64_t DAY_MIN = -719162, DAY_MAX = 2932896  # 0001-01-01, 9999-12-31
cdef int64_t DAY_MICROS = 86400000000
cdef object UTC = datetime.timezone.utc
cdef object UUID = uuid.UUID, UUID_NEW = uuid.UUID.__new__, UNKNOWN_SAFETY = uuid.SafeUUID.unknown


class Missing:
    """Stands for a symbol that the reader's enum lacks."""


cdef object MISSING = Missing


class Malformed(ValueError):
    """A record doesn't follow its schema. The arguments are the problem, the path and the position."""


cdef struct Node:
    int32_t code
    int32_t part_count
    int64_t size
    int64_t free_values  # of a record: parts without bytes
    Part *parts
    PyObject *object  # borrowed from the program
    PyObject *names

cdef struct Part:
    Node *node  # NULL: a branch that doesn't resolve
    PyObject *label  # of a field: its name, for errors
    PyObject *key  # of a field: NULL if it is skipped
    Py_ssize_t place  # of a field: among the arguments of an INSTANCE

cdef struct Run:  # one record
    const uint8_t *start
    const uint8_t *at
    const uint8_t *end
    const uint8_t *interrupted_at  # in a default: where the record goes on
    int64_t free_values_left
    int32_t depth
    PyObject *labels[DEPTH_MAX + 1]  # of the fields that are open; NULL: an item


# --- problems ---

cdef int fail(Run *run, str problem) except -1:
    # Raises. run.at is where the bad value begins.
    cdef const uint8_t *at = run.at if run.interrupted_at == NULL else run.interrupted_at
    cdef str path = ""
    cdef int32_t i
    for i in range(1, run.depth + 1):
        if run.labels[i] == NULL:
            path += "[]"
        else:
            path += f".{<str>run.labels[i]}" if path else <str>run.labels[i]
    raise Malformed(problem, path, at - run.start)


cdef int cut_off(Run *run) except -1:
    return fail(run, "the record ends too early")


cdef int bad_number(Run *run) except -1:
    cdef const uint8_t *p = run.at
    while p < run.end and p - run.at < 10 and p[0] >= 0x80:
        p += 1
    return cut_off(run) if p == run.end else fail(run, "a number has too many bits")


cdef int enter(Run *run) except -1:
    # Begins a record, array or map.
    if run.depth == DEPTH_MAX:
        return fail(run, f"values are nested deeper than {DEPTH_MAX} levels")
    run.depth += 1
    run.labels[run.depth] = NULL
    return 0


cdef int add_free_values(Run *run, int64_t count) except -1:
    if count > run.free_values_left:
        return fail(run, f"the record has more than {FREE_VALUES_MAX} values without bytes")
    run.free_values_left -= count
    return 0


# --- numbers and bytes ---

cdef inline int read_int(Run *run, int32_t *value) except -1:
    cdef const uint8_t *next = kn_varint_get(run.at, run.end, value)
    if next == NULL:
        return bad_number(run)
    run.at = next
    return 0


cdef inline int read_long(Run *run, int64_t *value) except -1:
    cdef const uint8_t *next = kn_varlong_get(run.at, run.end, value)
    if next == NULL:
        return bad_number(run)
    run.at = next
    return 0


cdef inline int need(Run *run, int64_t size) except -1:
    return cut_off(run) if size > run.end - run.at else 0


cdef inline int64_t read_size(Run *run) except -1:
    # Reads the size of bytes that follow, and checks it.
    cdef int64_t size = 0
    cdef const uint8_t *next = kn_varlong_get(run.at, run.end, &size)
    if next == NULL:
        return bad_number(run)
    if size < 0:
        return fail(run, "a length is negative")
    if size > run.end - next:
        return cut_off(run)
    run.at = next
    return size


cdef inline uint64_t load(const uint8_t *p, int width) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(width):
        value |= <uint64_t>p[i] << (8 * i)
    return value


cdef object read_float(Run *run):
    cdef uint32_t bits
    cdef float value
    need(run, 4)
    bits = <uint32_t>load(run.at, 4)
    memcpy(&value, &bits, 4)
    run.at += 4
    return <double>value


cdef object read_double(Run *run):
    cdef uint64_t bits
    cdef double value
    need(run, 8)
    bits = load(run.at, 8)
    memcpy(&value, &bits, 8)
    run.at += 8
    return value


cdef object read_boolean(Run *run):
    cdef uint8_t value
    need(run, 1)
    value = run.at[0]
    if value > 1:
        fail(run, "a boolean is neither 0 nor 1")
    run.at += 1
    return value == 1


cdef object take(Run *run, int64_t size):
    # Returns the next bytes, which are there.
    run.at += size
    return PyBytes_FromStringAndSize(<const char *>run.at - size, size)


cdef object read_text(Run *run):
    cdef const uint8_t *before = run.at
    cdef int64_t size = read_size(run)
    cdef const uint8_t *p = run.at
    text = text_of(p, size)
    if text is None:
        run.at = before
        fail(run, "a string isn't UTF-8")
    run.at = p + size
    return text


# --- logical types ---

cdef object new_date(Run *run, const uint8_t *before, int64_t days, int64_t micros, bint is_date, object zone):
    # Returns the date, or the datetime, of a day and microseconds since 1970.
    # Civil dates from days: eras of 400 years that begin on March 1st.
    cdef int64_t day, era, year
    cdef int month, seconds
    if days < DAY_MIN or days > DAY_MAX:
        run.at = before
        fail(run, "a date is outside of the years 1 to 9999")
    day = days + 719468
    era = day // 146097
    day -= era * 146097
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = <int>((5 * day + 2) // 153)
    day += 1 - (153 * month + 2) // 5
    month += 3 if month < 10 else -9
    year += era * 400 + (month <= 2)
    if is_date:
        return date_new(<int>year, month, <int>day)
    seconds = <int>(micros // 1000000)
    return datetime_new(<int>year, month, <int>day, seconds // 3600, seconds // 60 % 60, seconds % 60,
                        <int>(micros % 1000000), zone)


cdef object read_date(Run *run):
    cdef const uint8_t *before = run.at
    cdef int32_t days = 0
    read_int(run, &days)
    return new_date(run, before, days, 0, True, None)


cdef object read_timestamp(Run *run, int64_t ticks_a_day, object zone):
    cdef const uint8_t *before = run.at
    cdef int64_t ticks = 0, days
    read_long(run, &ticks)
    days = ticks // ticks_a_day - (ticks % ticks_a_day < 0)
    ticks -= days * ticks_a_day
    return new_date(run, before, days, ticks * (DAY_MICROS // ticks_a_day), False, zone)


cdef object read_time(Run *run, bint is_micros):
    cdef const uint8_t *before = run.at
    cdef int64_t ticks = 0
    cdef int32_t millis = 0
    cdef int seconds
    if is_micros:
        read_long(run, &ticks)
    else:
        read_int(run, &millis)
        ticks = <int64_t>millis * 1000
    if ticks < 0 or ticks >= DAY_MICROS:
        run.at = before
        fail(run, "a time is outside of the day")
    seconds = <int>(ticks // 1000000)
    return time_new(seconds // 3600, seconds // 60 % 60, seconds % 60, <int>(ticks % 1000000), None)


cdef object read_decimal(Run *run, const Node *node):
    cdef const uint8_t *before = run.at
    cdef int64_t size = read_size(run) if node.code == DECIMAL_BYTES else node.size
    cdef int64_t i
    cdef uint64_t small
    need(run, size)
    if 0 < size <= 8:
        small = 0xFFFFFFFFFFFFFFFF if run.at[0] & 0x80 else 0
        for i in range(size):
            small = small << 8 | run.at[i]
        number = <int64_t>small
    else:
        number = int.from_bytes(run.at[:size], "big", signed=True)
    limit, context, exponent, decimal = <tuple>node.object
    if not -limit < number < limit:
        run.at = before
        fail(run, "a decimal has too many digits")
    run.at += size
    return decimal(number).scaleb(exponent, context)


cdef inline int hex_digit(uint8_t c) noexcept nogil:
    if c >= 48 and c <= 57:
        return c - 48
    c |= 0x20
    return c - 87 if c >= 97 and c <= 102 else -1


cdef object read_uuid(Run *run):
    cdef const uint8_t *before = run.at
    cdef int64_t size = read_size(run)
    cdef uint64_t halves[2]
    cdef int i, digit, count = 0
    halves[0] = halves[1] = 0
    for i in range(36 if size == 36 else 0):
        if i == 8 or i == 13 or i == 18 or i == 23:
            if run.at[i] != 45:
                break
            continue
        digit = hex_digit(run.at[i])
        if digit < 0:
            break
        halves[count // 16] = halves[count // 16] << 4 | <uint64_t>digit
        count += 1
    if count != 32:
        run.at = before
        fail(run, "a UUID is malformed")
    run.at += size
    made = UUID_NEW(UUID)
    PyObject_GenericSetAttr(made, "int", (<object>halves[0] << 64) | halves[1])
    PyObject_GenericSetAttr(made, "is_safe", UNKNOWN_SAFETY)
    return made


# --- records, arrays, unions ---

cdef object read_dict(Run *run, const Node *node):
    cdef object made = PyDict_Copy(<object>node.object)
    cdef const Part *part = node.parts
    cdef const Part *last = part + node.part_count
    add_free_values(run, node.free_values)
    enter(run)
    while part < last:
        run.labels[run.depth] = part.label
        if part.key == NULL:
            skip(run, part.node)
        else:
            PyDict_SetItem(made, <object>part.key, read(run, part.node))
        part += 1
    run.depth -= 1
    return made


cdef object read_instance(Run *run, const Node *node):
    cdef tuple names = <tuple>node.names
    cdef tuple arguments = PyTuple_New(<Py_ssize_t>node.size + len(names))
    cdef const Part *part = node.parts
    cdef const Part *last = part + node.part_count
    cdef object value
    add_free_values(run, node.free_values)
    enter(run)
    while part < last:
        run.labels[run.depth] = part.label
        if part.key == NULL:
            skip(run, part.node)
        else:
            value = read(run, part.node)
            Py_INCREF(value)
            PyTuple_SET_ITEM(arguments, part.place, value)
        part += 1
    run.depth -= 1
    return PyObject_Vectorcall(<object>node.object, (<PyTupleObject *>arguments).ob_item, <size_t>node.size,
                               node.names if names else NULL)


cdef int64_t read_block(Run *run, const Node *node) except -1:
    # Returns the number of items of the next block. 0: there is none.
    cdef const uint8_t *before = run.at
    cdef const uint8_t *next
    cdef int64_t count = 0
    run.depth -= 1  # an error here is one of the array, not of an item
    read_long(run, &count)
    if count < 0:
        if count < -INT32_MAX:
            run.at = before
            return fail(run, "a block is too large")
        count = -count
        read_size(run)
    if node.size == 0:
        next, run.at = run.at, before
        add_free_values(run, count)
        run.at = next
    elif count > (run.end - run.at) // node.size:
        run.at = before
        return cut_off(run)
    run.depth += 1
    return count


cdef object read_array(Run *run, const Node *node):
    cdef list made = []
    cdef const Node *item = node.parts[0].node
    cdef int64_t count
    enter(run)
    while True:
        count = read_block(run, node)
        if count == 0:
            break
        while count > 0:
            made.append(read(run, item))
            count -= 1
    run.depth -= 1
    return made


cdef object read_map(Run *run, const Node *node):
    cdef dict made = {}
    cdef const Node *value = node.parts[0].node
    cdef int64_t count
    enter(run)
    while True:
        count = read_block(run, node)
        if count == 0:
            break
        while count > 0:
            key = read_text(run)
            PyDict_SetItem(made, key, read(run, value))
            count -= 1
    run.depth -= 1
    return made


cdef const Node *read_branch(Run *run, const Node *node) except NULL:
    cdef const uint8_t *before = run.at
    cdef int64_t branch = 0
    read_long(run, &branch)
    if branch < 0 or branch >= node.part_count:
        run.at = before
        fail(run, "a union has no such branch")
    if node.parts[branch].node == NULL:
        run.at = before
        fail(run, "a branch of a union doesn't fit the reader's type")
    return node.parts[branch].node


cdef object read_symbol(Run *run, const Node *node):
    cdef const uint8_t *before = run.at
    cdef int32_t index = 0
    cdef tuple symbols = <tuple>node.object
    read_int(run, &index)
    if index < 0 or index >= len(symbols):
        run.at = before
        fail(run, "an enum has no such symbol")
    symbol = symbols[index]
    if symbol is MISSING:
        run.at = before
        fail(run, "the reader's enum lacks a symbol")
    return symbol


cdef object read_default(Run *run, const Node *node):
    cdef const uint8_t *at = run.at
    cdef const uint8_t *end = run.end
    cdef const uint8_t *interrupted_at = run.interrupted_at
    run.at = <const uint8_t *>PyBytes_AS_STRING(<object>node.object)
    run.end = run.at + PyBytes_GET_SIZE(<object>node.object)
    if interrupted_at == NULL:
        run.interrupted_at = at
    value = read(run, node.parts[0].node)
    run.at, run.end, run.interrupted_at = at, end, interrupted_at
    return value


cdef object read(Run *run, const Node *node):
    cdef int32_t narrow = 0
    cdef int64_t wide = 0
    cdef int32_t code = node.code
    if code == UNION:
        node = read_branch(run, node)
        return read(run, node)
    if code == CONSTANT:
        return <object>node.object
    elif code == TEXT:
        return read_text(run)
    elif code == INT:
        read_int(run, &narrow)
        return narrow
    elif code == LONG:
        read_long(run, &wide)
        return wide
    elif code == DOUBLE:
        return read_double(run)
    elif code == FLOAT:
        return read_float(run)
    elif code == BOOLEAN:
        return read_boolean(run)
    elif code == DICT:
        return read_dict(run, node)
    elif code == INSTANCE:
        return read_instance(run, node)
    elif code == ARRAY:
        return read_array(run, node)
    elif code == MAP:
        return read_map(run, node)
    elif code == BYTES:
        return take(run, read_size(run))
    elif code == FIXED:
        need(run, node.size)
        return take(run, node.size)
    elif code == ENUM:
        return read_symbol(run, node)
    elif code == INT_AS_FLOAT:
        read_int(run, &narrow)
        return <double>narrow
    elif code == LONG_AS_FLOAT:
        read_long(run, &wide)
        return <double>wide
    return read_logical(run, node)


cdef object read_logical(Run *run, const Node *node):
    cdef int32_t code = node.code
    if code == DATE:
        return read_date(run)
    elif code == TIME_MILLIS:
        return read_time(run, False)
    elif code == TIME_MICROS:
        return read_time(run, True)
    elif code == TIMESTAMP_MILLIS:
        return read_timestamp(run, 86400000, UTC)
    elif code == TIMESTAMP_MICROS:
        return read_timestamp(run, DAY_MICROS, UTC)
    elif code == LOCAL_TIMESTAMP_MILLIS:
        return read_timestamp(run, 86400000, None)
    elif code == LOCAL_TIMESTAMP_MICROS:
        return read_timestamp(run, DAY_MICROS, None)
    elif code == UUID_TEXT:
        return read_uuid(run)
    elif code == DEFAULT:
        return read_default(run, node)
    elif code == CONVERT:
        return (<object>node.object)(read(run, node.parts[0].node))
    return read_decimal(run, node)


cdef int skip(Run *run, const Node *node) except -1:
    cdef int64_t number = 0
    cdef int32_t i
    if node.code == SKIP_FIXED:
        need(run, node.size)
        run.at += node.size
    elif node.code == SKIP_VARINT:
        read_long(run, &number)
    elif node.code == SKIP_BYTES:
        number = read_size(run)
        run.at += number
    elif node.code == SKIP_UNION:
        return skip(run, read_branch(run, node))
    elif node.code == SKIP_RECORD:
        add_free_values(run, node.free_values)
        enter(run)
        for i in range(node.part_count):
            run.labels[run.depth] = node.parts[i].label
            skip(run, node.parts[i].node)
        run.depth -= 1
    else:
        skip_items(run, node)
    return 0


cdef int skip_items(Run *run, const Node *node) except -1:
    cdef int64_t count = 0, size = 0
    cdef const uint8_t *before
    enter(run)
    while True:
        before = run.at
        run.depth -= 1  # an error here is one of the array, not of an item
        read_long(run, &count)
        if count < 0:
            size = read_size(run)  # a block that says its size is passed over
            run.at += size
        run.depth += 1
        if count < 0:
            continue
        if count == 0:
            break
        run.at = before
        count = read_block(run, node)
        while count > 0:
            if node.code == SKIP_MAP:
                size = read_size(run)
                run.at += size
            skip(run, node.parts[0].node)
            count -= 1
    run.depth -= 1
    return 0


# --- programs ---

# no_gc_clear, and a tuple: as in protobuf_objects, a program has its objects until it is freed.
@cython.final
@cython.no_gc_clear
cdef class ObjectProgram:
    """A checked program that reads the records of one pair of schemas."""
    cdef Node *nodes
    cdef Part *parts
    cdef tuple objects  # what the nodes and parts borrow

    def __cinit__(self, nodes not None):
        """Each node is (code, size, free_values, parts, object, names). The first one is the record.

        Each part is (node, label, key, place); node -1 doesn't resolve. Raises ValueError if a
        number is out of its range.
        """
        cdef list rows = [
            (code, size, free_values, tuple(<list?>parts), target, names)
            for code, size, free_values, parts, target, names in nodes
        ]
        cdef list objects = []
        cdef Py_ssize_t count = len(rows), part_count = 0, i
        cdef Node *node
        cdef Part *part
        for i in range(count):
            part_count += len(<tuple>rows[i][3])
        if count < 1 or count > INT32_MAX or part_count > INT32_MAX:
            raise ValueError("a program needs nodes, and at most 2^31")
        self.nodes = <Node *>calloc(<size_t>count, sizeof(Node))
        self.parts = part = <Part *>calloc(<size_t>(part_count or 1), sizeof(Part))
        if self.nodes == NULL or self.parts == NULL:
            raise MemoryError
        for i in range(count):
            node = &self.nodes[i]
            node.code, node.size, node.free_values, parts, target, names = rows[i]
            node.object, node.names = borrow(target, objects), borrow(names, objects)
            node.parts, node.part_count = part, <int32_t>len(parts)
            for row in parts:
                self.set_part(part, row, i, count, objects)
                part += 1
            check_node(node, i, target, names)
        self.objects = tuple(objects)

    cdef int set_part(self, Part *part, tuple row, Py_ssize_t node, Py_ssize_t count, list objects) except -1:
        cdef Py_ssize_t index
        index, label, key, place = row
        if not -1 <= index < count:
            raise ValueError(f"a part of node {node} is wrong")
        part.node = &self.nodes[index] if index >= 0 else NULL
        part.label, part.place = borrow(<str?>label, objects), place
        part.key = NULL if key is None else borrow(key, objects)
        return 0

    def __dealloc__(self):
        free(self.nodes)
        free(self.parts)

    def read(self, record not None, Py_ssize_t start=0):
        """Return the object of a record, which begins at ``start``. Bytes after it are ignored.

        Raises Malformed.
        """
        cdef Run run
        if not PyBytes_CheckExact(record):
            raise TypeError(f"a record must be bytes, not {type(record).__name__}")
        if start < 0 or start > PyBytes_GET_SIZE(record):
            raise ValueError("the start is outside of the record")
        run.start = run.at = <const uint8_t *>PyBytes_AS_STRING(record) + start
        run.end = run.start + PyBytes_GET_SIZE(record) - start
        run.interrupted_at = NULL
        run.free_values_left = FREE_VALUES_MAX
        run.depth = 0
        return read(&run, self.nodes)


cdef PyObject *borrow(object target, list objects) except NULL:
    objects.append(target)
    return <PyObject *>target


cdef int check_node(const Node *node, Py_ssize_t index, object target, object names) except -1:
    # Raises ValueError if a node lacks what its code needs.
    cdef int32_t code = node.code, i
    cdef bint is_good = 0 <= code < CODE_COUNT and node.size >= 0 and node.free_values >= 0
    cdef bint is_single = code in (ARRAY, MAP, DEFAULT, CONVERT, SKIP_ARRAY, SKIP_MAP)
    if code == DICT:
        is_good &= type(target) is dict
    elif code == INSTANCE:
        is_good &= callable(target) and type(names) is tuple
    elif code == ENUM:
        is_good &= type(target) is tuple
    elif code == DEFAULT:
        is_good &= type(target) is bytes
    elif code in (DECIMAL_BYTES, DECIMAL_FIXED):
        is_good &= type(target) is tuple and len(target) == 4
    if is_single:
        is_good &= node.part_count == 1
    elif code not in (DICT, INSTANCE, UNION, SKIP_RECORD, SKIP_UNION):
        is_good &= node.part_count == 0
    for i in range(node.part_count):
        is_good &= node.parts[i].node != NULL or code in (UNION, SKIP_UNION)
    if is_good and code == INSTANCE:
        places = sorted([node.parts[i].place for i in range(node.part_count) if node.parts[i].key != NULL])
        is_good &= node.size + len(names) == len(places) and places == list(range(len(places)))
    if not is_good:
        raise ValueError(f"node {index} is wrong")
    return 0


# --- values to write ---

cdef enum CheckKind:
    NUMBER, FIELDS, ITEMS, ENTRIES, BRANCHES


@cython.final
cdef class IntCheck:
    """Finds an int beyond 32 bits in a value to write. fastavro writes it, but nothing reads it.

    The kind is that of the schema: ``int``, ``record``, ``array``, ``map`` or ``union``.
    """

    cdef CheckKind kind
    cdef list names
    cdef list checks
    cdef object choose

    def __cinit__(self, str kind not None, choose=None):
        """``choose``: of a union, a function that returns the check of a tuple's branch, or None, and its value."""
        self.kind = <CheckKind><int>("int", "record", "array", "map", "union").index(kind)
        self.names = []
        self.checks = []
        self.choose = choose

    def add(self, name, IntCheck check not None):
        """Add the check of a field, of items or of values. Checks that find nothing can be left out."""
        self.names.append(name)
        self.checks.append(check)

    def find(self, value):
        """Return the path of the first such number, and the number; None: there is none."""
        return find_large(self, value)


cdef object find_large(IntCheck check, value):
    cdef Py_ssize_t index
    cdef IntCheck part
    if check.kind == NUMBER:
        return ("", value) if is_large(value) else None
    if check.kind == BRANCHES:
        if not isinstance(value, tuple):
            return None  # fastavro refuses it in a union
        chosen, inner = check.choose(value)
        return None if chosen is None else find_large(<IntCheck?>chosen, inner)
    if check.kind == FIELDS:
        if isinstance(value, dict):
            for index in range(len(check.checks)):
                found = find_large(<IntCheck>check.checks[index], value.get(check.names[index]))
                if found is not None:
                    return (f".{check.names[index]}{found[0]}", found[1])
        return None
    if not check.checks:
        return None
    part = <IntCheck>check.checks[0]
    if check.kind == ENTRIES:
        if isinstance(value, dict):
            for name, item in value.items():
                found = find_large(part, item)
                if found is not None:
                    return (f"[{name!r}]{found[0]}", found[1])
    elif isinstance(value, (list, tuple)):
        index = 0
        for item in value:
            found = find_large(part, item)
            if found is not None:
                return (f"[{index}]{found[0]}", found[1])
            index += 1
    return None


cdef bint is_large(value) except -1:
    cdef int overflow = 0
    cdef long long number
    if PyLong_Check(value):
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        return overflow != 0 or number < INT32_MIN or number > INT32_MAX
    return PyFloat_Check(value) and not INT32_MIN <= value <= INT32_MAX
