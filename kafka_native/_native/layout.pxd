"""Layouts of struct classes, for the codec: see layout.pyx."""

cimport cython
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_XDECREF

cdef extern from *:
    """
    #define KN_SLOT(obj, offset) (*(PyObject **)((char *)(obj) + (offset)))
    """
    PyObject* KN_SLOT(PyObject* obj, Py_ssize_t offset)


cdef enum DefaultKind:
    DEFAULT_VALUE = 0
    DEFAULT_LIST
    DEFAULT_STRUCT


cdef struct Slot:
    Py_ssize_t offset
    int default_kind
    PyObject* default  # the value, or the Layout of a struct
    PyObject* name


@cython.final
cdef class Layout:
    cdef Slot* slots
    cdef Py_ssize_t count
    cdef PyTypeObject* type
    cdef list _kept
    cdef readonly tuple names


cdef inline void kn_put(PyObject* obj, Py_ssize_t offset, object value) noexcept:
    """Store a value in a slot, and release the old value."""
    cdef PyObject** place = <PyObject**> (<char*> obj + offset)
    cdef PyObject* old = place[0]
    Py_INCREF(value)
    place[0] = <PyObject*> value
    Py_XDECREF(old)


cdef object kn_default_of(Slot* slot)
cdef bint kn_is_default(Slot* slot, object value) except -1
cdef str kn_show(object value)
