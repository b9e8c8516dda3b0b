# Strings from UTF-8, for the modules that make Python objects from records.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "base/utf8.h" nogil:
    bint kn_utf8_is_valid(const uint8_t *data, size_t size_bytes)

cdef extern from "Python.h":
    object PyUnicode_New(Py_ssize_t size, uint32_t maxchar)
    void *PyUnicode_DATA(object text)
    object PyUnicode_DecodeUTF8(const char *data, Py_ssize_t size, const char *errors)


cdef inline bint is_ascii(const uint8_t *p, int64_t size) noexcept nogil:
    cdef uint64_t word, bits = 0
    cdef int64_t i = 0
    while i + 8 <= size:
        memcpy(&word, p + i, 8)
        bits |= word
        i += 8
    while i < size:
        bits |= p[i]
        i += 1
    return not bits & <uint64_t>0x8080808080808080


cdef inline object text_of(const uint8_t *p, int64_t size):
    # Returns None if the bytes aren't UTF-8.
    if size > 1 and is_ascii(p, size):
        text = PyUnicode_New(size, 127)
        memcpy(PyUnicode_DATA(text), p, <size_t>size)
        return text
    if not kn_utf8_is_valid(p, <size_t>size):
        return None
    return PyUnicode_DecodeUTF8(<const char *>p, size, NULL)
