# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The table-driven codec behind ``kafka_native.protocol``.

A declaration (a ``Struct`` class of the protocol package) is described twice. Its ``Layout`` (layout.pyx) says where
each field lives in an instance and what its default is; it does not depend on a version. A ``Plan`` is one version of
it: a flat table of operations that the two loops below, ``_encode_struct`` and ``_decode_struct``, run without
calling back into Python per field. Fields are slots, so both loops read and write them at their offset.

Threads: every function holds the GIL. Memory: a plan and a layout keep what their tables point at in ``_kept``;
a decoded ``records`` field is a memoryview that keeps the whole frame alive.

Input is hostile until proven otherwise: no length is used before it is compared with the bytes that are left, an array
must be able to fit its count of smallest elements in them, and one message may hold ``MAX_ELEMENTS`` array elements
at most. Nesting needs no limit at run time, since it is the nesting of the declarations.
"""

from __future__ import annotations

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AsDouble
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_Check, PyLong_FromLong, PyLong_FromLongLong
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.object cimport PyObject, PyObject_TypeCheck, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport INT64_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kafka_native._native.layout cimport KN_SLOT, Layout, kn_default_of, kn_is_default, kn_put, kn_show

from kafka_native._native.layout import ProtocolError

cdef extern from *:
    """
    static inline uint16_t kn_get16(const uint8_t *p) { return (uint16_t)((uint16_t)p[0] << 8 | p[1]); }
    static inline uint32_t kn_get32(const uint8_t *p)
    {
        return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    static inline uint64_t kn_get64(const uint8_t *p) { return (uint64_t)kn_get32(p) << 32 | kn_get32(p + 4); }
    static inline void kn_put16(uint8_t *p, uint16_t v) { p[0] = (uint8_t)(v >> 8); p[1] = (uint8_t)v; }
    static inline void kn_put32(uint8_t *p, uint32_t v)
    {
        p[0] = (uint8_t)(v >> 24); p[1] = (uint8_t)(v >> 16); p[2] = (uint8_t)(v >> 8); p[3] = (uint8_t)v;
    }
    static inline void kn_put64(uint8_t *p, uint64_t v)
    {
        kn_put32(p, (uint32_t)(v >> 32)); kn_put32(p + 4, (uint32_t)v);
    }
    """
    uint16_t kn_get16(const uint8_t* p) nogil
    uint32_t kn_get32(const uint8_t* p) nogil
    uint64_t kn_get64(const uint8_t* p) nogil
    void kn_put16(uint8_t* p, uint16_t v) nogil
    void kn_put32(uint8_t* p, uint32_t v) nogil
    void kn_put64(uint8_t* p, uint64_t v) nogil

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject* type, Py_ssize_t items)
    object PyUnicode_DecodeUTF8(const char* text, Py_ssize_t size, const char* errors)
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    bint PyUnicode_Check(object value)
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1
    int _PyBytes_Resize(PyObject** bytes, Py_ssize_t size) except -1
    PyObject* PyBytes_FromStringAndSize_ptr "PyBytes_FromStringAndSize"(const char* text, Py_ssize_t size) except NULL
    char* PyBytes_AS_STRING_ptr "PyBytes_AS_STRING"(PyObject* value)
    PyObject** PySequence_Fast_ITEMS(object value)
    Py_ssize_t PySequence_Fast_GET_SIZE(object value)


# Array elements that one message may hold. A cluster of 200,000 partitions with three replicas answers Metadata with
# two million; a frame that asks for more than this is an attack on memory, not an answer.
MAX_ELEMENTS = 1 << 24
cdef Py_ssize_t max_elements = MAX_ELEMENTS

cdef enum Kind:
    BOOL = 0
    INT8
    INT16
    INT32
    INT64
    UINT16
    UINT32
    FLOAT64
    UUID
    STRING
    BYTES
    RECORDS
    STRUCT
    ARRAY

KINDS = ("bool", "int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "uuid", "string", "bytes",
         "records", "struct", "array")
cdef tuple kind_names = KINDS
cdef dict kind_numbers = {name: number for number, name in enumerate(KINDS)}
cdef int[9] fixed_size = [1, 1, 2, 4, 8, 2, 4, 8, 16]
cdef int64_t[7] lowest = [0, -0x80, -0x8000, -0x80000000, INT64_MIN, 0, 0]
cdef int64_t[7] highest = [1, 0x7F, 0x7FFF, 0x7FFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFF, 0xFFFFFFFF]


# -------------------------------------------------------------------------------------------------------------- plan

cdef struct Op:
    int kind
    int item             # of an array
    int tag              # -1 for a positional field
    bint nullable
    bint compact         # flexible-version lengths: unsigned varint of the length plus one
    bint ignorable       # an absent field that may lose its value
    Py_ssize_t item_size  # the least bytes that an array element takes
    Py_ssize_t slot      # its index in the layout
    Py_ssize_t offset
    PyObject* sub        # the Plan of a struct, or of an array's structs
    PyObject* name


@cython.final
cdef class Plan:
    """One version of a struct class.

    ``fields`` are tuples in wire order, every field of the class among them: (name, kind, item kind or None, plan or
    None, tag or -1, compact, nullable, present, ignorable).
    """

    cdef Op* ops         # positional fields first, then tagged ones by tag, then absent ones
    cdef Py_ssize_t positional
    cdef Py_ssize_t tagged
    cdef Py_ssize_t count
    cdef Py_ssize_t least_size
    cdef bint flexible
    cdef Layout layout
    cdef list _kept
    cdef readonly str name
    cdef readonly int version

    def __cinit__(self, Layout layout, str name, int version, bint flexible, list fields):
        cdef Py_ssize_t i
        self.layout = layout
        self.name = name
        self.version = version
        self.flexible = flexible
        self._kept = []
        if len(fields) != layout.count:
            raise TypeError(f"{name}: {len(fields)} fields for a layout of {layout.count}")
        present = [field for field in fields if field[7] and field[4] < 0]
        tags = sorted([field for field in fields if field[7] and field[4] >= 0], key=lambda field: field[4])
        absent = [field for field in fields if not field[7]]
        self.positional = len(present)
        self.tagged = len(tags)
        self.count = len(fields)
        self.ops = <Op*> PyMem_Calloc(max(self.count, 1), sizeof(Op))
        if self.ops == NULL:
            raise MemoryError
        for i, field in enumerate(present + tags + absent):
            self._compile(&self.ops[i], field)
        if tags and not flexible:
            raise TypeError(f"{name} v{version}: tagged fields need a flexible version")
        self.least_size = 1 if flexible else 0
        for i in range(self.positional):
            self.least_size += _least_size(&self.ops[i], self.ops[i].kind)
        self.least_size = max(self.least_size, 1)

    cdef int _compile(self, Op* op, tuple field) except -1:
        name, kind, item, sub, tag, compact, nullable, _, ignorable = field
        self._kept.append((name, sub))
        op.kind = kind_numbers[kind]
        op.item = -1 if item is None else kind_numbers[item]
        op.tag = tag
        op.compact = compact
        op.nullable = nullable
        op.ignorable = ignorable
        op.slot = self.layout.names.index(name)
        op.offset = self.layout.slots[op.slot].offset
        op.name = self.layout.slots[op.slot].name
        if (op.kind == <int> STRUCT or op.item == <int> STRUCT) and not isinstance(sub, Plan):
            raise TypeError(f"{self.name}.{name} needs the plan of its struct")
        op.sub = NULL if sub is None else <PyObject*> sub
        if op.kind == ARRAY:
            op.item_size = _least_size(op, op.item)
        return 0

    def __dealloc__(self):
        PyMem_Free(self.ops)


cdef Py_ssize_t _least_size(Op* op, int kind) except -1:
    """The bytes that a value of this kind takes at the very least."""
    if kind <= UUID:
        return fixed_size[kind]
    if kind == STRUCT:
        if op.kind == STRUCT and op.nullable:
            return 1
        return (<Plan> op.sub).least_size
    if op.compact:
        return 1
    return 2 if kind == STRING else 4


# ------------------------------------------------------------------------------------------------------------ decode

@cython.final
cdef class _Reader:
    """What is left of a frame. ``end`` moves in while a tagged field is read."""

    cdef const uint8_t* start
    cdef const uint8_t* p
    cdef const uint8_t* end
    cdef Py_ssize_t elements_left
    cdef Py_buffer buffer
    cdef bint held
    cdef object view

    def __cinit__(self, object data, Py_ssize_t offset):
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.held = True
        if offset < 0 or offset > self.buffer.len:
            raise ProtocolError(f"offset {offset} in a frame of {self.buffer.len} bytes")
        self.start = <const uint8_t*> self.buffer.buf
        self.p = self.start + offset
        self.end = self.start + self.buffer.len
        self.elements_left = max_elements
        self.view = None

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.buffer)


cdef int _short(_Reader r, str what, Py_ssize_t wanted) except -1:
    raise ProtocolError(f"{what} needs {wanted} bytes, {r.end - r.p} left")


cdef inline int _need(_Reader r, Py_ssize_t wanted, str what) except -1:
    if r.end - r.p < wanted:
        _short(r, what, wanted)
    return 0


cdef uint32_t _read_uvarint(_Reader r) except? 0xFFFFFFFF:
    cdef uint32_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while True:
        if r.p >= r.end:
            raise ProtocolError("unsigned varint runs past the end")
        byte = r.p[0]
        r.p += 1
        if shift == 28 and byte > 0x0F:
            raise ProtocolError("unsigned varint does not fit 32 bits")
        value |= <uint32_t> (byte & 0x7F) << shift
        if not byte & 0x80:
            return value
        shift += 7


cdef Py_ssize_t _read_length(_Reader r, bint compact, bint short_form, str what) except? -2:
    """The length of a string, bytes or array: -1 for null."""
    cdef Py_ssize_t length
    if compact:
        return <Py_ssize_t> _read_uvarint(r) - 1
    if short_form:
        _need(r, 2, what)
        length = <int16_t> kn_get16(r.p)
        r.p += 2
    else:
        _need(r, 4, what)
        length = <int32_t> kn_get32(r.p)
        r.p += 4
    if length < -1:
        raise ProtocolError(f"{what} with the length {length}")
    return length


cdef object _read_fixed(_Reader r, int kind):
    cdef const uint8_t* p = r.p
    cdef uint64_t bits
    cdef double real
    _need(r, fixed_size[kind], kind_names[kind] if r.end - r.p < fixed_size[kind] else None)
    r.p += fixed_size[kind]
    if kind == INT32:
        return PyLong_FromLong(<int32_t> kn_get32(p))
    if kind == INT16:
        return PyLong_FromLong(<int16_t> kn_get16(p))
    if kind == INT64:
        return PyLong_FromLongLong(<int64_t> kn_get64(p))
    if kind == INT8:
        return PyLong_FromLong(<int8_t> p[0])
    if kind == BOOL:
        return True if p[0] else False
    if kind == UUID:
        return PyBytes_FromStringAndSize(<const char*> p, 16)
    if kind == UINT16:
        return PyLong_FromLong(kn_get16(p))
    if kind == UINT32:
        return PyLong_FromLongLong(kn_get32(p))
    bits = kn_get64(p)
    memcpy(&real, &bits, 8)
    return real


cdef object _read_blob(_Reader r, int kind, bint compact, bint nullable):
    cdef str what = kind_names[kind]
    cdef Py_ssize_t length = _read_length(r, compact, kind == STRING, what)
    cdef Py_ssize_t at
    if length < 0:
        if not nullable:
            raise ProtocolError(f"null {what} where the version has no null")
        return None
    _need(r, length, what)
    at = r.p - r.start
    r.p += length
    if kind == STRING:
        try:
            return PyUnicode_DecodeUTF8(<const char*> r.start + at, length, NULL)
        except UnicodeDecodeError as error:
            raise ProtocolError(f"string is not UTF-8: {error.reason} at byte {error.start}") from None
    if kind == BYTES:
        return PyBytes_FromStringAndSize(<const char*> r.start + at, length)
    if r.view is None:
        r.view = PyMemoryView_FromObject(<object> r.buffer.obj)
        if r.view.format != "B" or r.view.ndim != 1:
            r.view = r.view.cast("B")
    return r.view[at:at + length]


cdef list _read_array(_Reader r, Op* op):
    cdef Py_ssize_t count = _read_length(r, op.compact, False, "array")
    cdef Py_ssize_t i = 0
    cdef list items
    if count < 0:
        if not op.nullable:
            raise ProtocolError("null array where the version has no null")
        return None
    if count > (r.end - r.p) // op.item_size:
        raise ProtocolError(f"array of {count} elements needs {count * op.item_size} bytes, {r.end - r.p} left")
    if count > r.elements_left:
        raise ProtocolError(f"more than {max_elements} array elements in one message")
    r.elements_left -= count
    items = PyList_New(count)
    try:
        for i in range(count):
            if op.item == STRUCT:
                item = _decode_struct(r, <Plan> op.sub)
            elif op.item <= UUID:
                item = _read_fixed(r, op.item)
            else:
                item = _read_blob(r, op.item, op.compact, False)
            Py_INCREF(item)
            PyList_SET_ITEM(items, i, item)
    except ProtocolError as error:
        error._within(f"[{i}]")
        raise
    return items


cdef inline object _read_value(_Reader r, Op* op):
    cdef bint present
    if op.kind <= UUID:
        return _read_fixed(r, op.kind)
    if op.kind == ARRAY:
        return _read_array(r, op)
    if op.kind == STRUCT:
        if op.nullable:
            _need(r, 1, "struct")
            present = <int8_t> r.p[0] >= 0
            r.p += 1
            if not present:
                return None
        return _decode_struct(r, <Plan> op.sub)
    return _read_blob(r, op.kind, op.compact, op.nullable)


cdef int _read_tags(_Reader r, Plan plan, PyObject* obj) except -1:
    """The tagged fields that end a struct: known ones into their slots, unknown ones skipped."""
    cdef uint32_t count = _read_uvarint(r)
    cdef uint32_t tag, size
    cdef Py_ssize_t i
    cdef const uint8_t* end = r.end
    cdef Op* op
    while count:
        count -= 1
        tag = _read_uvarint(r)
        size = _read_uvarint(r)
        if size > r.end - r.p:
            raise ProtocolError(f"tagged field {tag} of {size} bytes, {r.end - r.p} left")
        op = NULL
        for i in range(plan.positional, plan.positional + plan.tagged):
            if <uint32_t> plan.ops[i].tag == tag:
                op = &plan.ops[i]
                break
        if op == NULL:
            r.p += size
            continue
        r.end = r.p + size
        try:
            kn_put(obj, op.offset, _read_value(r, op))
            if r.p != r.end:
                raise ProtocolError(f"{r.end - r.p} bytes left over in tagged field {tag}")
        except ProtocolError as error:
            error._within(<str> op.name)
            raise
        finally:
            r.end = end
    return 0


cdef object _decode_struct(_Reader r, Plan plan):
    cdef Py_ssize_t i = 0
    cdef Op* op
    obj = PyType_GenericAlloc(plan.layout.type, 0)
    for i in range(plan.positional, plan.count):
        op = &plan.ops[i]
        kn_put(<PyObject*> obj, op.offset, kn_default_of(&plan.layout.slots[op.slot]))
    i = 0
    try:
        while i < plan.positional:
            op = &plan.ops[i]
            kn_put(<PyObject*> obj, op.offset, _read_value(r, op))
            i += 1
    except ProtocolError as error:
        error._within(<str> plan.ops[i].name)
        raise
    if plan.flexible:
        _read_tags(r, plan, <PyObject*> obj)
    return obj


cdef tuple _decode(Plan plan, object data, Py_ssize_t offset, bint whole):
    cdef _Reader r
    try:
        r = _Reader(data, offset)
        obj = _decode_struct(r, plan)
        if whole and r.p != r.end:
            raise ProtocolError(f"{r.end - r.p} bytes left over after the message")
        return obj, r.p - r.start
    except ProtocolError as error:
        error.message = plan.name
        error.version = plan.version
        raise


def decode(Plan plan not None, object data, Py_ssize_t offset=0, bint whole=True):
    """The message that ``data`` holds from ``offset`` on; bytes left over are an error unless ``whole`` is false."""
    return _decode(plan, data, offset, whole)[0]


def decode_prefix(Plan plan not None, object data, Py_ssize_t offset=0):
    """The struct at ``offset``, and the offset of what follows it."""
    return _decode(plan, data, offset, False)


# ------------------------------------------------------------------------------------------------------------ encode

@cython.final
cdef class _Writer:
    """A bytes object that grows; only ``_finish`` hands it out."""

    cdef PyObject* held
    cdef uint8_t* p
    cdef uint8_t* end

    def __cinit__(self, Py_ssize_t capacity):
        self.held = PyBytes_FromStringAndSize_ptr(NULL, capacity)
        self.p = <uint8_t*> PyBytes_AS_STRING_ptr(self.held)
        self.end = self.p + capacity

    def __dealloc__(self):
        Py_XDECREF(self.held)


cdef int _grow(_Writer w, Py_ssize_t extra) except -1:
    cdef uint8_t* start = <uint8_t*> PyBytes_AS_STRING_ptr(w.held)
    cdef Py_ssize_t used = w.p - start
    cdef Py_ssize_t capacity = w.end - start
    # Room for half as much again, so that what follows a large field seldom copies it.
    capacity = max(capacity + capacity // 2, used + extra + 256)
    w.p = w.end = NULL
    _PyBytes_Resize(&w.held, capacity)
    start = <uint8_t*> PyBytes_AS_STRING_ptr(w.held)
    w.p = start + used
    w.end = start + capacity
    return 0


cdef inline int _room(_Writer w, Py_ssize_t extra) except -1:
    if w.end - w.p < extra:
        _grow(w, extra)
    return 0


cdef bytes _finish(_Writer w):
    cdef Py_ssize_t used = w.p - <uint8_t*> PyBytes_AS_STRING_ptr(w.held)
    w.p = w.end = NULL
    _PyBytes_Resize(&w.held, used)
    result = <bytes> w.held
    Py_XDECREF(w.held)
    w.held = NULL
    return result


cdef int _write_raw(_Writer w, const void* data, Py_ssize_t size) except -1:
    _room(w, size)
    memcpy(w.p, data, size)
    w.p += size
    return 0


cdef int _write_uvarint(_Writer w, uint32_t value) except -1:
    _room(w, 5)
    while value >= 0x80:
        w.p[0] = <uint8_t> (value | 0x80)
        w.p += 1
        value >>= 7
    w.p[0] = <uint8_t> value
    w.p += 1
    return 0


cdef int _write_length(_Writer w, Py_ssize_t length, bint compact, bint short_form, str what) except -1:
    """The length of a string, bytes or array; -1 writes a null."""
    # A compact length could say more of a string, too, but no broker takes it: it closes the connection.
    if length > 0x7FFFFFFF - 1 or (short_form and length > 0x7FFF):
        raise ProtocolError(f"{what} of length {length} is too long")
    if compact:
        return _write_uvarint(w, <uint32_t> (length + 1))
    _room(w, 4)
    if short_form:
        kn_put16(w.p, <uint16_t> length)
        w.p += 2
    else:
        kn_put32(w.p, <uint32_t> length)
        w.p += 4
    return 0


cdef int _write_integer(_Writer w, int kind, object value) except -1:
    cdef int overflow = 0
    cdef long long number
    if not PyLong_Check(value):
        raise ProtocolError(f"expected {kind_names[kind]}, got {type(value).__name__}")
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or number < lowest[kind] or number > highest[kind]:
        raise ProtocolError(f"{int(value)} does not fit {kind_names[kind]}")
    _room(w, 8)
    if fixed_size[kind] == 4:
        kn_put32(w.p, <uint32_t> number)
    elif fixed_size[kind] == 2:
        kn_put16(w.p, <uint16_t> number)
    elif fixed_size[kind] == 8:
        kn_put64(w.p, <uint64_t> number)
    else:
        w.p[0] = <uint8_t> number
    w.p += fixed_size[kind]
    return 0


cdef int _write_fixed(_Writer w, int kind, object value) except -1:
    cdef double real
    cdef uint64_t bits
    if kind < FLOAT64:
        return _write_integer(w, kind, value)
    if kind == UUID:
        if not PyBytes_Check(value) or PyBytes_GET_SIZE(value) != 16:
            raise ProtocolError("a uuid is 16 bytes")
        return _write_raw(w, PyBytes_AS_STRING(value), 16)
    if not isinstance(value, (float, int)):
        raise ProtocolError(f"expected float64, got {type(value).__name__}")
    real = PyFloat_AsDouble(value)
    memcpy(&bits, &real, 8)
    _room(w, 8)
    kn_put64(w.p, bits)
    w.p += 8
    return 0


cdef int _write_blob(_Writer w, int kind, bint compact, object value) except -1:
    cdef Py_ssize_t size
    cdef const char* text
    cdef Py_buffer buffer
    if kind == STRING:
        if not PyUnicode_Check(value):
            raise ProtocolError(f"expected string, got {type(value).__name__}")
        try:
            text = PyUnicode_AsUTF8AndSize(value, &size)
        except UnicodeEncodeError as error:
            raise ProtocolError(f"string is not encodable as UTF-8: {error.reason}") from None
        _write_length(w, size, compact, True, "string")
        return _write_raw(w, text, size)
    if PyBytes_Check(value):
        _write_length(w, PyBytes_GET_SIZE(value), compact, False, "bytes")
        return _write_raw(w, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    if not PyObject_CheckBuffer(value):
        raise ProtocolError(f"expected {kind_names[kind]}, got {type(value).__name__}")
    PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
    try:
        _write_length(w, buffer.len, compact, False, "bytes")
        _write_raw(w, buffer.buf, buffer.len)
    finally:
        PyBuffer_Release(&buffer)
    return 0


cdef int _write_array(_Writer w, Op* op, object value) except -1:
    cdef Py_ssize_t i = 0
    cdef Py_ssize_t count
    if not isinstance(value, (list, tuple)):
        raise ProtocolError(f"expected a list, got {type(value).__name__}")
    count = PySequence_Fast_GET_SIZE(value)
    _write_length(w, count, op.compact, False, "array")
    try:
        for i in range(count):
            if i >= PySequence_Fast_GET_SIZE(value):
                raise ProtocolError("list changed while it was encoded")
            item = <object> PySequence_Fast_ITEMS(value)[i]
            if op.item == STRUCT:
                _encode_struct(w, <Plan> op.sub, item)
            elif op.item <= UUID:
                _write_fixed(w, op.item, item)
            else:
                _write_blob(w, op.item, op.compact, item)
    except ProtocolError as error:
        error._within(f"[{i}]")
        raise
    return 0


cdef int _write_null(_Writer w, Op* op) except -1:
    if not op.nullable:
        raise ProtocolError("None where the version has no null")
    if op.kind == STRUCT:
        _room(w, 1)
        w.p[0] = 0xFF
        w.p += 1
        return 0
    return _write_length(w, -1, op.compact, op.kind == STRING, "")


cdef int _write_value(_Writer w, Op* op, object value) except -1:
    if op.kind <= UUID:
        return _write_fixed(w, op.kind, value)
    if value is None:
        return _write_null(w, op)
    if op.kind == ARRAY:
        return _write_array(w, op, value)
    if op.kind == STRUCT:
        if op.nullable:
            _room(w, 1)
            w.p[0] = 1
            w.p += 1
        return _encode_struct(w, <Plan> op.sub, value)
    return _write_blob(w, op.kind, op.compact, value)


cdef object _field(Op* op, object obj):
    cdef PyObject* value = KN_SLOT(<PyObject*> obj, op.offset)
    if value == NULL:
        raise ProtocolError("the field was deleted")
    return <object> value


cdef int _write_tags(_Writer w, Plan plan, object obj, Py_ssize_t* at) except -1:
    """The tagged fields of a struct: those that differ from their default, by ascending tag."""
    cdef Py_ssize_t i
    cdef Py_ssize_t used
    cdef uint32_t count = 0
    cdef Op* op
    cdef _Writer inner
    for i in range(plan.positional, plan.positional + plan.tagged):
        at[0] = i
        op = &plan.ops[i]
        count += not kn_is_default(&plan.layout.slots[op.slot], _field(op, obj))
    _write_uvarint(w, count)
    if count == 0:
        return 0
    for i in range(plan.positional, plan.positional + plan.tagged):
        at[0] = i
        op = &plan.ops[i]
        value = _field(op, obj)
        if kn_is_default(&plan.layout.slots[op.slot], value):
            continue
        inner = _Writer(64)
        _write_value(inner, op, value)
        used = inner.p - <uint8_t*> PyBytes_AS_STRING_ptr(inner.held)
        _write_uvarint(w, <uint32_t> op.tag)
        _write_uvarint(w, <uint32_t> used)
        _write_raw(w, PyBytes_AS_STRING_ptr(inner.held), used)
    return 0


cdef int _encode_struct(_Writer w, Plan plan, object obj) except -1:
    cdef Py_ssize_t i = 0
    cdef Op* op
    if not PyObject_TypeCheck(obj, plan.layout.type):
        expected = <object> <PyObject*> plan.layout.type
        raise ProtocolError(f"expected {expected.__qualname__}, got {type(obj).__qualname__}")
    try:
        while i < plan.positional:
            op = &plan.ops[i]
            _write_value(w, op, _field(op, obj))
            i += 1
        if plan.flexible:
            _write_tags(w, plan, obj, &i)
        i = plan.positional + plan.tagged
        while i < plan.count:
            op = &plan.ops[i]
            if not op.ignorable and not kn_is_default(&plan.layout.slots[op.slot], _field(op, obj)):
                raise ProtocolError(f"{kn_show(_field(op, obj))} cannot be sent, the version has no such field")
            i += 1
    except ProtocolError as error:
        if i < plan.count:
            error._within(<str> plan.ops[i].name)
        raise
    return 0


def encode(Plan plan not None, object message, bytes prefix=b""):
    """``prefix`` and the message behind it."""
    cdef _Writer w = _Writer(256)
    try:
        _write_raw(w, PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix))
        _encode_struct(w, plan, message)
        return _finish(w)
    except ProtocolError as error:
        error.message = plan.name
        error.version = plan.version
        raise
