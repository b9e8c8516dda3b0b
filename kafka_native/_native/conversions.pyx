# cython: freethreading_compatible=True
"""The conversion of a deserializer's last message. The next message usually has the same one.

Thread: any. A conversion never changes.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.contextvars cimport PyContextVar_Set, get_value
from libc.string cimport memcmp


class Unknown:
    """Stands for the object of data that has another conversion."""


cdef object UNKNOWN = Unknown


@cython.final
cdef class LastConversion:
    """Converts data that has the same topic, field and framing as the last message."""
    cdef str topic
    cdef object field, read, original_key
    cdef bytes framing
    cdef bint is_key

    def __cinit__(self, str topic not None, field, bytes framing not None, read, original_key, *, bint is_key):
        """Take the place of the data, the function that reads a payload, and the variable that keeps a message's key."""
        self.topic, self.field, self.framing, self.is_key = topic, field, framing, is_key
        self.read, self.original_key = read, original_key

    def object_of(self, data, context):
        """Return the object of data, or Unknown: it has another conversion, or the function raised."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(self.framing)
        if not PyBytes_CheckExact(data) or context is None:
            return UNKNOWN
        if PyBytes_GET_SIZE(data) < size or memcmp(PyBytes_AS_STRING(data), PyBytes_AS_STRING(self.framing), <size_t>size) != 0:
            return UNKNOWN
        if context.field is not self.field or context.topic != self.topic or context.headers:
            return UNKNOWN
        if self.is_key:
            PyContextVar_Set(self.original_key, data)
        elif get_value(self.original_key) is not None:
            PyContextVar_Set(self.original_key, None)
        try:
            return self.read(PyBytes_FromStringAndSize(PyBytes_AS_STRING(data) + size, PyBytes_GET_SIZE(data) - size))
        except Exception:
            return UNKNOWN
