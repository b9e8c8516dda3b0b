# cython: freethreading_compatible=True
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The table-driven codec of ``kafka_native.protocol``: its tables, and the encoder.

decoder.pyx is the other half. A declaration (a ``Struct`` class of the protocol package) has two
descriptions. Its ``Layout`` (layout.pyx) has the slot and the default of each field. It is the same
for all versions. A ``Plan`` is for one version: a flat table of operations. The encoder and the
decoder run it without a call into Python for each field. Fields are slots, so both access them by
offset.

Threads: any. A plan never changes. Other threads may change a message while it is encoded: each
field and element is read once, as a new reference. Memory: ``_kept`` of a plan or a layout keeps the
objects alive to which its tables point.
"""

from __future__ import annotations

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AsDouble
from cpython.long cimport PyLong_Check
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject, PyObject_TypeCheck
from cpython.ref cimport Py_DECREF, Py_XDECREF
from libc.stdint cimport INT64_MIN, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kafka_native._native.layout cimport ABSENT, Layout, kn_is_default, kn_show, kn_slot_or

from collections.abc import Sequence

from kafka_native._native.layout import ProtocolError

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    bint PyUnicode_Check(object value)
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1
    int _PyBytes_Resize(PyObject** bytes, Py_ssize_t size) except -1
    PyObject* PyBytes_FromStringAndSize_ptr "PyBytes_FromStringAndSize"(const char* text, Py_ssize_t size) except NULL
    char* PyBytes_AS_STRING_ptr "PyBytes_AS_STRING"(PyObject* value)
    Py_ssize_t PySequence_Fast_GET_SIZE(object value)

cdef extern from *:
    """
    /* A new reference to an item of a list or tuple. NULL, without an exception: it has become
       shorter. */
    static inline PyObject *kn_item(PyObject *items, Py_ssize_t i)
    {
    #ifdef Py_GIL_DISABLED
        if (PyList_Check(items)) {
            PyObject *item = PyList_GetItemRef(items, i);
            if (item == NULL)
                PyErr_Clear();
            return item;
        }
    #endif
        if (i >= PySequence_Fast_GET_SIZE(items))
            return NULL;
        return Py_NewRef(PySequence_Fast_GET_ITEM(items, i));
    }
    """
    PyObject* kn_item(object items, Py_ssize_t i)


KINDS = ("bool", "int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "uuid", "string", "bytes",
         "records", "struct", "array")
cdef tuple kind_names = KINDS
cdef dict kind_numbers = {name: number for number, name in enumerate(KINDS)}
cdef int64_t[7] lowest = [0, -0x80, -0x8000, -0x80000000, INT64_MIN, 0, 0]
cdef int64_t[7] highest = [1, 0x7F, 0x7FFF, 0x7FFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFF, 0xFFFFFFFF]


# --- plan ---

@cython.final
cdef class Plan:
    """One version of a struct class.

    ``fields`` are tuples in wire order, with every field of the class: (name, kind, item kind or
    None, plan or None, tag or -1, compact, nullable, present, ignorable, cleaned).
    """

    def __cinit__(self, Layout layout, str name, int version, bint flexible, list fields):
        cdef Py_ssize_t i
        self.layout = layout
        self.name = name
        self.version = version
        self.table.flexible = flexible
        self._kept = []
        if len(fields) != layout.count:
            raise TypeError(f"{name}: {len(fields)} fields for a layout of {layout.count}")
        present = [field for field in fields if field[7] and field[4] < 0]
        tags = sorted([field for field in fields if field[7] and field[4] >= 0], key=lambda field: field[4])
        absent = [field for field in fields if not field[7]]
        self.table.positional = len(present)
        self.table.tagged = len(tags)
        self.table.count = len(fields)
        self.table.ops = <Op*> PyMem_Calloc(max(self.table.count, 1), sizeof(Op))
        if self.table.ops == NULL:
            raise MemoryError
        for i, field in enumerate(present + tags + absent):
            self._compile(&self.table.ops[i], field)
        if tags and not flexible:
            raise TypeError(f"{name} v{version}: tagged fields need a flexible version")
        self.table.min_size = 1 if flexible else 0
        for i in range(self.table.positional):
            self.table.min_size += _min_size(&self.table.ops[i], self.table.ops[i].kind)
        self.table.min_size = max(self.table.min_size, 1)

    cdef int _compile(self, Op* op, tuple field) except -1:
        name, kind, item, sub, tag, compact, nullable, _, ignorable, cleaned = field
        self._kept.append((name, sub))
        op.kind = kind_numbers[kind]
        op.item = -1 if item is None else kind_numbers[item]
        op.tag = tag
        op.compact = compact
        op.nullable = nullable
        op.ignorable = ignorable
        op.cleaned = cleaned
        op.slot = self.layout.names.index(name)
        op.offset = self.layout.slots[op.slot].offset
        op.name = self.layout.slots[op.slot].name
        if (op.kind == <int> STRUCT or op.item == <int> STRUCT) and not isinstance(sub, Plan):
            raise TypeError(f"{self.name}.{name} needs the plan of its struct")
        op.owner = <PyObject*> self
        op.sub = NULL if sub is None else <PyObject*> sub
        op.table = NULL if sub is None else &(<Plan> sub).table
        if op.kind == ARRAY:
            op.item_size = _min_size(op, op.item)
        return 0

    def __dealloc__(self):
        PyMem_Free(self.table.ops)


cdef Py_ssize_t _min_size(Op* op, int kind) except -1:
    """Return the minimum size of a value of this kind, in bytes."""
    if kind <= UUID:
        return kn_fixed_size[kind]
    if kind == STRUCT:
        if op.kind == STRUCT and op.nullable:
            return 1
        return op.table.min_size
    if op.compact:
        return 1
    return 2 if kind == STRING else 4


# --- encode ---

@cython.final
cdef class _Writer:
    """A growing bytes object. Only ``_finish`` returns it."""

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
    # Grow by at least half, so that the data after a large field rarely causes a copy.
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
    """Write the length of a string, bytes or array. -1 writes a null."""
    # A compact length could be larger for a string too, but brokers close the connection for it.
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
    if kn_fixed_size[kind] == 4:
        kn_put32(w.p, <uint32_t> number)
    elif kn_fixed_size[kind] == 2:
        kn_put16(w.p, <uint16_t> number)
    elif kn_fixed_size[kind] == 8:
        kn_put64(w.p, <uint64_t> number)
    else:
        w.p[0] = <uint8_t> number
    w.p += kn_fixed_size[kind]
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
    cdef PyObject* held
    if not isinstance(value, (list, tuple)):
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray, memoryview)):
            raise ProtocolError(f"expected a list, got {type(value).__name__}")
        value = list(value)  # a large array of a decoded message
    count = PySequence_Fast_GET_SIZE(value)
    _write_length(w, count, op.compact, False, "array")
    try:
        for i in range(count):
            held = kn_item(value, i)
            if held == NULL:
                raise ProtocolError("list changed while it was encoded")
            item = <object> held
            Py_DECREF(item)
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
    value = kn_slot_or(obj, op.offset, ABSENT)
    if value is ABSENT:
        raise ProtocolError("the field was deleted")
    return value


cdef int _write_tags(_Writer w, Plan plan, object obj, Py_ssize_t* at) except -1:
    """Write the tagged fields of a struct that differ from their defaults, by ascending tag."""
    cdef Py_ssize_t i
    cdef Py_ssize_t used
    cdef uint32_t count = 0
    cdef Op* op
    cdef _Writer inner
    for i in range(plan.table.positional, plan.table.positional + plan.table.tagged):
        at[0] = i
        op = &plan.table.ops[i]
        count += not kn_is_default(&plan.layout.slots[op.slot], _field(op, obj))
    _write_uvarint(w, count)
    if count == 0:
        return 0
    for i in range(plan.table.positional, plan.table.positional + plan.table.tagged):
        at[0] = i
        op = &plan.table.ops[i]
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
        while i < plan.table.positional:
            op = &plan.table.ops[i]
            _write_value(w, op, _field(op, obj))
            i += 1
        if plan.table.flexible:
            _write_tags(w, plan, obj, &i)
        i = plan.table.positional + plan.table.tagged
        while i < plan.table.count:
            op = &plan.table.ops[i]
            if not op.ignorable and not kn_is_default(&plan.layout.slots[op.slot], _field(op, obj)):
                raise ProtocolError(f"{kn_show(_field(op, obj))} cannot be sent, the version has no such field")
            i += 1
    except ProtocolError as error:
        if i < plan.table.count:
            error._within(<str> plan.table.ops[i].name)
        raise
    return 0


def encode(Plan plan not None, object message, bytes prefix=b""):
    """Return ``prefix`` followed by the encoded message."""
    cdef _Writer w = _Writer(256)
    try:
        _write_raw(w, PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix))
        _encode_struct(w, plan, message)
        return _finish(w)
    except ProtocolError as error:
        error.message = plan.name
        error.version = plan.version
        raise
