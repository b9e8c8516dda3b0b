"""Layouts of struct classes, for the codec: see layout.pyx."""

cimport cython
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_XDECREF

cdef extern from *:
    """
    #define KN_SLOT(obj, offset) (*(PyObject **)((char *)(obj) + (offset)))
    #ifdef Py_GIL_DISABLED
    #define KN_LOCK_SLOTS(obj) Py_BEGIN_CRITICAL_SECTION(obj)
    #define KN_UNLOCK_SLOTS() Py_END_CRITICAL_SECTION()
    #else
    #define KN_LOCK_SLOTS(obj) {
    #define KN_UNLOCK_SLOTS() }
    #endif

    /* A new reference to a slot's value, or to `absent`. Another thread may replace the value
       meanwhile: Python locks the object for that too. */
    static inline PyObject *kn_slot_or(PyObject *obj, Py_ssize_t offset, PyObject *absent)
    {
        PyObject *value;
        KN_LOCK_SLOTS(obj);
        value = KN_SLOT(obj, offset);
        if (value == NULL)
            value = absent;
        Py_INCREF(value);
        KN_UNLOCK_SLOTS();
        return value;
    }

    /* Store a value in a slot of an object that other threads may read, and release the old one. */
    static inline void kn_replace(PyObject *obj, Py_ssize_t offset, PyObject *value)
    {
        PyObject *old;
        Py_INCREF(value);
        KN_LOCK_SLOTS(obj);
        old = KN_SLOT(obj, offset);
        __atomic_store_n(&KN_SLOT(obj, offset), value, __ATOMIC_RELEASE);
        KN_UNLOCK_SLOTS();
        Py_XDECREF(old);
    }
    """
    object kn_slot_or(object obj, Py_ssize_t offset, object absent)
    void kn_replace(object obj, Py_ssize_t offset, object value)


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
    """Store a value in a slot of an object that no other thread has, and release the old value."""
    cdef PyObject** place = <PyObject**> (<char*> obj + offset)
    cdef PyObject* old = place[0]
    Py_INCREF(value)
    place[0] = <PyObject*> value
    Py_XDECREF(old)


cdef object ABSENT  # stands for the value of a deleted slot
cdef object kn_default_of(Slot* slot)
cdef bint kn_is_default(Slot* slot, object value) except -1
cdef str kn_show(object value)
