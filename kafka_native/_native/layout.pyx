# cython: freethreading_compatible=True
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Struct classes of the protocol package in the codec's view: slot offsets and defaults.

Threads: any. A layout never changes. The slots of an instance may change in another thread: they
are read and replaced under the instance's lock, if Python has no interpreter lock. Memory: a layout
keeps its class and the defaults of its table alive. An instance owns the contents of its slots, like any Python object with ``__slots__``.
"""

from __future__ import annotations

cimport cython
from cpython.dict cimport PyDict_GetItem, PyDict_Size
from cpython.list cimport PyList_New
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject, PyObject_TypeCheck, PyTypeObject

cdef extern from *:
    """
    #include <structmember.h>

    /* The offset of a __slots__ descriptor's value in an instance, or -1 for any other object. */
    static Py_ssize_t kn_slot_offset(PyObject *descriptor)
    {
        if (!PyObject_TypeCheck(descriptor, &PyMemberDescr_Type))
            return -1;
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }
    """
    Py_ssize_t kn_slot_offset(object descriptor)

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject* type, Py_ssize_t items)


cdef object ABSENT = object()


class ProtocolError(ValueError):
    """A message that cannot be encoded or decoded.

    ``message`` and ``version`` identify it. ``field`` is the path to the wrong field
    (``topics[2].name``), or an empty string if there is no single one. ``reason`` is the sentence
    about it.
    """

    def __init__(self, reason, message="", version=-1, field=""):
        super().__init__(reason)
        self.reason = reason
        self.message = message
        self.version = version
        self.field = field

    def __str__(self):
        where = f"{self.message} v{self.version}: " if self.message else ""
        return f"{where}{self.field}: {self.reason}" if self.field else f"{where}{self.reason}"

    def _within(self, step):
        """Prefix the path with the field or index that contains it."""
        if self.field and not self.field.startswith("["):
            step += "."
        self.field = step + self.field


cdef class Layout:
    """The slot offsets of a struct class, and their defaults.

    The default is ``list`` for an empty list, and a Layout for a struct.
    """

    def __cinit__(self, object cls, list fields):
        cdef Py_ssize_t i
        if not isinstance(cls, type) or not issubclass(cls, StructBase):
            raise TypeError(f"{cls!r} is not a struct class")
        self._kept = [cls]
        self.type = <PyTypeObject*> cls
        self.count = len(fields)
        self.slots = <Slot*> PyMem_Calloc(max(self.count, 1), sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError
        names = []
        for i in range(self.count):
            name, default = fields[i]
            names.append(name)
            self._kept.append(default)
            self.slots[i].name = <PyObject*> name
            self.slots[i].default = <PyObject*> default
            if default is list:
                self.slots[i].default_kind = DEFAULT_LIST
            elif isinstance(default, Layout):
                self.slots[i].default_kind = DEFAULT_STRUCT
            self.slots[i].offset = kn_slot_offset(getattr(cls, name))
            if self.slots[i].offset <= 0:
                raise TypeError(f"{cls.__qualname__}.{name} is not a slot")
        self.names = tuple(names)

    def __dealloc__(self):
        PyMem_Free(self.slots)


cdef object kn_default_of(Slot* slot):
    if slot.default_kind == DEFAULT_LIST:
        return PyList_New(0)
    if slot.default_kind == DEFAULT_STRUCT:
        return kn_blank(<Layout> slot.default)
    return <object> slot.default


cdef object kn_blank(Layout layout):
    """Return a new instance with the default in every field."""
    cdef Py_ssize_t i
    obj = PyType_GenericAlloc(layout.type, 0)
    for i in range(layout.count):
        kn_put(<PyObject*> obj, layout.slots[i].offset, kn_default_of(&layout.slots[i]))
    return obj


cdef bint kn_is_default(Slot* slot, object value) except -1:
    cdef Py_ssize_t i
    cdef Layout layout
    if slot.default_kind == DEFAULT_VALUE:
        return <PyObject*> value == slot.default or value == <object> slot.default
    if slot.default_kind == DEFAULT_LIST:
        return isinstance(value, (list, tuple)) and len(value) == 0
    layout = <Layout> slot.default
    if not PyObject_TypeCheck(value, layout.type):
        return False
    for i in range(layout.count):
        held = kn_slot_or(value, layout.slots[i].offset, ABSENT)
        if held is ABSENT or not kn_is_default(&layout.slots[i], held):
            return False
    return True


cdef Layout _layout_of(object obj):
    layout = type(obj).__layout__
    if not isinstance(layout, Layout) or not PyObject_TypeCheck(obj, (<Layout> layout).type):
        raise TypeError(f"{type(obj).__qualname__} has no fields")
    return <Layout> layout


cdef str kn_show(object value):
    """Return the repr of a field, shortened for many bytes."""
    if isinstance(value, (bytes, bytearray, memoryview)) and len(value) > 32:
        return f"<{len(value)} bytes>"
    if isinstance(value, memoryview):
        return repr(bytes(value))
    if isinstance(value, list) and len(value) > 64:
        return f"[{', '.join([kn_show(item) for item in value[:64]])}, ... {len(value) - 64} more]"
    return repr(value)


@cython.auto_pickle(False)
cdef class StructBase:
    """Constructor, equality and repr of every declared struct. ``__layout__`` has its fields."""

    def __init__(self, **values):
        cdef Layout layout = _layout_of(self)
        cdef Py_ssize_t i, left = PyDict_Size(values)
        cdef Slot* slot
        cdef PyObject* value
        for i in range(layout.count):
            slot = &layout.slots[i]
            value = NULL if left == 0 else PyDict_GetItem(values, <object> slot.name)
            if value == NULL:
                kn_replace(self, slot.offset, kn_default_of(slot))
            else:
                left -= 1
                kn_replace(self, slot.offset, <object> value)
        if left:
            unknown = ", ".join(sorted(set(values) - set(layout.names)))
            raise TypeError(f"{type(self).__qualname__} has no field {unknown}")

    def __eq__(self, other):
        cdef Layout layout
        cdef Py_ssize_t i
        if type(self) is not type(other):
            return NotImplemented
        layout = _layout_of(self)
        for i in range(layout.count):
            mine = kn_slot_or(self, layout.slots[i].offset, ABSENT)
            its = kn_slot_or(other, layout.slots[i].offset, ABSENT)
            if mine is its:
                continue
            if mine is ABSENT or its is ABSENT or mine != its:
                return False
        return True

    __hash__ = None

    def __repr__(self):
        cdef Layout layout = _layout_of(self)
        cdef Py_ssize_t i
        parts = []
        for i in range(layout.count):
            value = kn_slot_or(self, layout.slots[i].offset, ABSENT)
            if value is not ABSENT and not kn_is_default(&layout.slots[i], value):
                parts.append(f"{<object> layout.slots[i].name}={kn_show(value)}")
        return f"{type(self).__qualname__}({', '.join(parts)})"
