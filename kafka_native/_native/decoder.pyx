# cython: freethreading_compatible=True
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The decoder of the codec. wire.pyx has its tables.

The input is untrusted:

- A length is compared with the remaining bytes before it is used.
- An array's count times its smallest element size must fit into the remaining bytes.
- One message may have at most ``MAX_ELEMENTS`` array elements.

The declarations bound the nesting, so the decoder needs no limit for it.

A few bytes of a frame can become hundreds of bytes of Python objects. So a large array becomes a
``LazyArray``. An array is large if it has more than ``EAGER_VALUES`` fields and elements, including
those of nested structs. The decoder checks all of it without the GIL. The ``LazyArray`` keeps the
frame, and decodes an element on each access. This bounds the objects of one message and the time
with the GIL, whatever the size of the message. Checking (``_skip_...``) and decoding
(``_read_...``) accept the same bytes. When the check fails, the decoder reads the bytes again to
raise the reason.

Threads: any. Each call has its own reader. The check runs without the GIL. A ``LazyArray`` never
changes, and any threads may read it at once. Its iterators are locked, if Python has no interpreter
lock. Memory: a decoded ``records`` field (a memoryview) and a ``LazyArray`` keep the whole frame
alive.
"""

from __future__ import annotations

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_FromLong, PyLong_FromLongLong
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kafka_native._native.layout cimport kn_default_of, kn_put, kn_show
from kafka_native._native.wire cimport (
    ARRAY, BOOL, BYTES, INT8, INT16, INT32, INT64, RECORDS, STRING, STRUCT, UINT16, UINT32, UUID,
    Op, Plan, Table, kn_fixed_size, kn_get16, kn_get32, kn_get64,
)

from collections.abc import Sequence

from kafka_native.cleaning import error_text

from kafka_native._native.layout import ProtocolError
from kafka_native._native.wire import KINDS as _KINDS

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject* type, Py_ssize_t items)
    object PyUnicode_DecodeUTF8(const char* text, Py_ssize_t size, const char* errors)

cdef extern from "base/utf8.h" nogil:
    int kn_utf8_is_valid(const uint8_t* data, size_t size_bytes)


# The maximum number of array elements in one message. The Metadata response of a cluster with
# 200,000 partitions and three replicas has two million. A frame with more elements than this is an
# attack.
MAX_ELEMENTS = 1 << 24
# An array with at most so many fields and elements is a list. It takes some milliseconds to decode,
# and some megabytes.
EAGER_VALUES = 1 << 16
cdef Py_ssize_t max_elements = MAX_ELEMENTS
# The same limit within an element of a LazyArray. It is lower because a program that reads elements
# one by one may need only one field of each.
cdef Py_ssize_t nested_eager_values = 1 << 8
cdef Py_ssize_t no_limit = (<size_t> -1) >> 1
cdef tuple kind_names = _KINDS


# --- check ---

cdef struct Scan:
    const uint8_t* p
    const uint8_t* end
    Py_ssize_t elements_left
    Py_ssize_t values_left  # how many more values the list may have

cdef enum Found:
    FOUND_FITTING = 0
    FOUND_LARGE  # more values than values_left
    FOUND_MALFORMED


cdef Found _skip_uvarint(Scan* s, uint32_t* value) noexcept nogil:
    cdef int shift = 0
    cdef uint8_t byte
    value[0] = 0
    while True:
        if s.p >= s.end:
            return FOUND_MALFORMED
        byte = s.p[0]
        s.p += 1
        if shift == 28 and byte > 0x0F:
            return FOUND_MALFORMED
        value[0] |= <uint32_t> (byte & 0x7F) << shift
        if not byte & 0x80:
            return FOUND_FITTING
        shift += 7


cdef Found _skip_length(Scan* s, bint compact, bint short_form, Py_ssize_t* length) noexcept nogil:
    cdef uint32_t announced
    if compact:
        if _skip_uvarint(s, &announced):
            return FOUND_MALFORMED
        length[0] = <Py_ssize_t> announced - 1
        return FOUND_FITTING
    if s.end - s.p < (2 if short_form else 4):
        return FOUND_MALFORMED
    if short_form:
        length[0] = <int16_t> kn_get16(s.p)
        s.p += 2
    else:
        length[0] = <int32_t> kn_get32(s.p)
        s.p += 4
    return FOUND_MALFORMED if length[0] < -1 else FOUND_FITTING


cdef Found _skip_blob(Scan* s, int kind, bint compact, bint nullable) noexcept nogil:
    cdef Py_ssize_t length = 0
    if _skip_length(s, compact, kind == STRING, &length):
        return FOUND_MALFORMED
    if length < 0:
        return FOUND_FITTING if nullable or kind == RECORDS else FOUND_MALFORMED
    if length > s.end - s.p or (kind == STRING and not kn_utf8_is_valid(s.p, length)):
        return FOUND_MALFORMED
    s.p += length
    return FOUND_FITTING


cdef Found _skip_item(Scan* s, Op* op) noexcept nogil:
    if op.item == STRUCT:
        return _skip_struct(s, op.table)
    s.values_left -= 1
    if op.item <= UUID:
        if s.end - s.p < kn_fixed_size[op.item]:
            return FOUND_MALFORMED
        s.p += kn_fixed_size[op.item]
        return FOUND_FITTING
    return _skip_blob(s, op.item, op.compact, False)


cdef Found _skip_array(Scan* s, Op* op) noexcept nogil:
    cdef Py_ssize_t count = 0
    if _skip_length(s, op.compact, False, &count):
        return FOUND_MALFORMED
    if count < 0:
        return FOUND_FITTING if op.nullable else FOUND_MALFORMED
    if count > (s.end - s.p) // op.item_size or count > s.elements_left:
        return FOUND_MALFORMED
    s.elements_left -= count
    if op.item <= UUID:
        s.p += count * kn_fixed_size[op.item]
        s.values_left -= count
        return FOUND_LARGE if s.values_left < 0 else FOUND_FITTING
    return _skip_items(s, op, count)


cdef Found _skip_items(Scan* s, Op* op, Py_ssize_t count) noexcept nogil:
    cdef Found found
    while count:
        count -= 1
        found = _skip_item(s, op)
        if found:
            return found
        if s.values_left < 0:
            return FOUND_LARGE
    return FOUND_FITTING


cdef Found _skip_value(Scan* s, Op* op) noexcept nogil:
    cdef bint present
    if op.kind <= UUID:
        if s.end - s.p < kn_fixed_size[op.kind]:
            return FOUND_MALFORMED
        s.p += kn_fixed_size[op.kind]
        return FOUND_FITTING
    if op.kind == ARRAY:
        return _skip_array(s, op)
    if op.kind == STRUCT:
        if op.nullable:
            if s.p >= s.end:
                return FOUND_MALFORMED
            present = <int8_t> s.p[0] >= 0
            s.p += 1
            if not present:
                return FOUND_FITTING
        return _skip_struct(s, op.table)
    return _skip_blob(s, op.kind, op.compact, op.nullable)


cdef Found _skip_tags(Scan* s, Table* table) noexcept nogil:
    cdef uint32_t count, tag, size
    cdef Py_ssize_t i
    cdef const uint8_t* end = s.end
    cdef Found found = FOUND_FITTING
    if _skip_uvarint(s, &count):
        return FOUND_MALFORMED
    while count:
        count -= 1
        if _skip_uvarint(s, &tag) or _skip_uvarint(s, &size) or size > s.end - s.p:
            return FOUND_MALFORMED
        for i in range(table.positional, table.positional + table.tagged):
            if <uint32_t> table.ops[i].tag == tag:
                s.end = s.p + size
                found = _skip_value(s, &table.ops[i])
                if not found and s.p != s.end:
                    found = FOUND_MALFORMED
                s.end = end
                break
        else:
            s.p += size
        if found:
            return found
    return FOUND_FITTING


cdef Found _skip_struct(Scan* s, Table* table) noexcept nogil:
    cdef Py_ssize_t i
    cdef Found found
    s.values_left -= table.count
    for i in range(table.positional):
        found = _skip_value(s, &table.ops[i])
        if found:
            return found
    return _skip_tags(s, table) if table.flexible else FOUND_FITTING


# --- large arrays ---

@cython.final
cdef class _Frame:
    """A message's bytes. The buffer is held as long as a reader or an array needs it."""

    cdef const uint8_t* start
    cdef const uint8_t* end
    cdef Py_buffer buffer
    cdef bint held

    def __cinit__(self, object data):
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.held = True
        self.start = <const uint8_t*> self.buffer.buf
        self.end = self.start + self.buffer.len

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.buffer)


cdef object _view_of(_Frame frame):
    """Return a view of a frame's bytes.

    Each field has its own: CPython counts the slices of a view without a lock.
    """
    view = PyMemoryView_FromObject(<object> frame.buffer.obj)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


@cython.final
@cython.freelist(8)
cdef class _Reader:
    """The unread part of a frame. ``end`` is nearer while a tagged field is read."""

    cdef _Frame frame
    cdef const uint8_t* p
    cdef const uint8_t* end
    cdef const uint8_t* checked  # arrays that begin before it aren't large
    cdef Py_ssize_t elements_left
    cdef Py_ssize_t eager_values


cdef _Reader _reader(_Frame frame, const uint8_t* p, const uint8_t* end, Py_ssize_t eager):
    cdef _Reader r = _Reader.__new__(_Reader)
    r.frame = frame
    r.p = r.checked = p
    r.end = end
    r.elements_left = max_elements
    r.eager_values = eager
    return r


@cython.final
cdef class LazyArray:
    """A large array of a message, as an immutable sequence. It decodes an element on each access.

    All of it has been checked. It is equal to a list of the same elements.
    """

    cdef _Frame frame
    cdef Plan plan  # owns the op
    cdef Op* op
    cdef const uint8_t* first
    cdef const uint8_t* end
    cdef Py_ssize_t count
    # distance of the elements whose place is stored; 0: all have the same size
    cdef Py_ssize_t stride
    cdef const uint8_t** places
    cdef Py_ssize_t eager_values  # the limit within an element

    def __cinit__(self):
        self.places = NULL

    def __dealloc__(self):
        PyMem_RawFree(self.places)

    def __len__(self):
        return self.count

    def __getitem__(self, which):
        cdef Py_ssize_t i
        cdef const uint8_t* p
        if isinstance(which, slice):
            return [self[at] for at in range(*which.indices(self.count))]
        i = which.__index__()
        if i < 0:
            i += self.count
        if i < 0 or i >= self.count:
            raise IndexError("array index out of range")
        p = self._place(i)
        return self._read(&p)

    def __iter__(self):
        cdef _LazyIterator iterator = _LazyIterator.__new__(_LazyIterator)
        iterator.array = self
        iterator.p = self.first
        iterator.left = self.count
        return iterator

    def __eq__(self, other):
        if not isinstance(other, (list, tuple, LazyArray)):
            return NotImplemented
        if len(other) != self.count:
            return False
        for mine, its in zip(self, other):
            if mine != its:
                return False
        return True

    __hash__ = None

    def __repr__(self):
        return f"<{self.count} elements: {kn_show(self[:8])} ...>"

    cdef const uint8_t* _place(self, Py_ssize_t i) noexcept:
        cdef Scan s
        if self.stride == 0:
            return self.first + i * kn_fixed_size[self.op.item]
        s.p = self.places[i // self.stride]
        s.end = self.end
        s.elements_left = s.values_left = no_limit
        _skip_items(&s, self.op, i % self.stride)
        return s.p

    cdef object _read(self, const uint8_t** p):
        """Decode the element at a place, and move the place behind it."""
        cdef _Reader r = _reader(self.frame, p[0], self.end, self.eager_values)
        item = _read_item(r, self.op)
        p[0] = r.p
        return item


Sequence.register(LazyArray)


@cython.final
cdef class _LazyIterator:
    cdef LazyArray array
    cdef const uint8_t* p
    cdef Py_ssize_t left

    def __iter__(self):
        return self

    def __length_hint__(self):
        return self.left

    def __next__(self):
        with cython.critical_section(self):
            if self.left == 0:
                raise StopIteration
            self.left -= 1
            return self.array._read(&self.p)


cdef LazyArray _lazy_array(_Reader r, Op* op, Py_ssize_t count):
    """Return the large array at the reader, and move the reader behind it."""
    cdef LazyArray array = LazyArray.__new__(LazyArray)
    cdef const uint8_t* begun = r.p
    cdef Py_ssize_t elements_left = r.elements_left
    cdef Py_ssize_t i = 0
    cdef Found found = FOUND_FITTING
    cdef Scan s
    array.frame = r.frame
    array.plan = <Plan> op.owner
    array.op = op
    array.first = r.p
    array.count = count
    array.eager_values = min(r.eager_values, nested_eager_values)
    if op.item <= UUID:
        r.p += count * kn_fixed_size[op.item]
        array.end = r.p
        return array
    # The places use at most an eighth of the frame's size.
    array.stride = 1 + 64 * count // (r.end - r.p)
    array.places = <const uint8_t**> PyMem_RawMalloc((count // array.stride + 1) * sizeof(const uint8_t*))
    if array.places == NULL:
        raise MemoryError
    s.p = r.p
    s.end = r.end
    s.elements_left = elements_left
    s.values_left = no_limit
    with nogil:
        for i in range(count):
            if i % array.stride == 0:
                array.places[i // array.stride] = s.p
            begun = s.p
            elements_left = s.elements_left
            found = _skip_item(&s, op)
            if found:
                break
    if found:
        r.p = begun
        r.elements_left = elements_left
        try:
            _read_item(r, op)
            raise ProtocolError("malformed")
        except ProtocolError as error:
            error._within(f"[{i}]")
            raise
    r.p = array.end = s.p
    r.elements_left = s.elements_left
    return array


cdef bint _is_large(_Reader r, Op* op, Py_ssize_t count) noexcept:
    """Whether so many elements are more than a list may have.

    If not, nested arrays skip this check.
    """
    cdef Scan s
    cdef Found found
    # a value has at least a byte, or belongs to a value that has
    if r.end - r.p <= r.eager_values or r.p < r.checked:
        return False
    s.p = r.p
    s.end = r.end
    s.elements_left = r.elements_left
    s.values_left = r.eager_values
    if op.item <= UUID:
        return count > s.values_left
    found = _skip_items(&s, op, count)
    if found == FOUND_LARGE:
        return True
    # decode malformed bytes up to the error, to report it
    r.checked = s.p if found == FOUND_FITTING else r.end
    return False


# --- decode ---

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
    """Return the length of a string, bytes or array, or -1 for null."""
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
    _need(r, kn_fixed_size[kind], kind_names[kind] if r.end - r.p < kn_fixed_size[kind] else None)
    r.p += kn_fixed_size[kind]
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
    cdef const char* text
    cdef Py_ssize_t at
    if length < 0:
        if kind == RECORDS and not nullable:
            return b""  # brokers send it for a partition with an error
        if not nullable:
            raise ProtocolError(f"null {what} where the version has no null")
        return None
    _need(r, length, what)
    text = <const char*> r.p
    r.p += length
    if kind == STRING:
        try:
            return PyUnicode_DecodeUTF8(text, length, NULL)
        except UnicodeDecodeError as error:
            raise ProtocolError(f"string is not UTF-8: {error.reason} at byte {error.start}") from None
    if kind == BYTES:
        return PyBytes_FromStringAndSize(text, length)
    at = <const uint8_t*> text - r.frame.start
    return _view_of(r.frame)[at:at + length]


cdef inline object _read_item(_Reader r, Op* op):
    if op.item == STRUCT:
        return _decode_struct(r, <Plan> op.sub)
    if op.item <= UUID:
        return _read_fixed(r, op.item)
    return _read_blob(r, op.item, op.compact, False)


cdef object _read_array(_Reader r, Op* op):
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
    if _is_large(r, op, count):
        return _lazy_array(r, op, count)
    items = PyList_New(count)
    try:
        for i in range(count):
            item = _read_item(r, op)
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
    value = _read_blob(r, op.kind, op.compact, op.nullable)
    return error_text(value) if op.cleaned and value is not None else value


cdef int _read_tags(_Reader r, Plan plan, PyObject* obj) except -1:
    """Read the tagged fields at a struct's end: store known ones, skip unknown ones."""
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
        for i in range(plan.table.positional, plan.table.positional + plan.table.tagged):
            if <uint32_t> plan.table.ops[i].tag == tag:
                op = &plan.table.ops[i]
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
    for i in range(plan.table.positional, plan.table.count):
        op = &plan.table.ops[i]
        kn_put(<PyObject*> obj, op.offset, kn_default_of(&plan.layout.slots[op.slot]))
    i = 0
    try:
        while i < plan.table.positional:
            op = &plan.table.ops[i]
            kn_put(<PyObject*> obj, op.offset, _read_value(r, op))
            i += 1
    except ProtocolError as error:
        error._within(<str> plan.table.ops[i].name)
        raise
    if plan.table.flexible:
        _read_tags(r, plan, <PyObject*> obj)
    return obj


cdef tuple _decode(Plan plan, object data, Py_ssize_t offset, bint whole, Py_ssize_t eager):
    cdef _Frame frame = _Frame(data)
    cdef _Reader r
    try:
        if offset < 0 or offset > frame.buffer.len:
            raise ProtocolError(f"offset {offset} in a frame of {frame.buffer.len} bytes")
        r = _reader(frame, frame.start + offset, frame.end, eager)
        obj = _decode_struct(r, plan)
        if whole and r.p != r.end:
            raise ProtocolError(f"{r.end - r.p} bytes left over after the message")
        return obj, r.p - frame.start
    except ProtocolError as error:
        error.message = plan.name
        error.version = plan.version
        raise


def decode(Plan plan not None, object data, Py_ssize_t offset=0, bint whole=True, Py_ssize_t eager=EAGER_VALUES):
    """Decode the message in ``data`` from ``offset`` on.

    Remaining bytes are an error unless ``whole`` is false. An array with more than ``eager`` values
    is a ``LazyArray``.
    """
    return _decode(plan, data, offset, whole, eager)[0]


def decode_prefix(Plan plan not None, object data, Py_ssize_t offset=0):
    """Decode the struct at ``offset``, and return it with the offset behind it."""
    return _decode(plan, data, offset, False, EAGER_VALUES)
