# cython: freethreading_compatible=True
# cython: language_level=3, boundscheck=False, wraparound=False
"""Checksums, hashes and varints of csrc/base, for partitioners, tests and tools.

Also the helpers for Python types that the bindings share.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kafka_native._native.kn_records cimport (
    kn_crc32,
    kn_crc32c,
    kn_crc32c_backend,
    kn_crc32c_portable,
    kn_fnv1a,
    kn_murmur2,
    kn_span,
    kn_span_of,
    kn_span_uvarint,
    kn_span_varlong,
    kn_uvarint_put,
    kn_varint_get,
    kn_varint_put,
    kn_varlong_get,
)

cdef extern from "base/wipe.h" nogil:
    void kn_wipe(void *bytes, size_t size)

# Below this size, releasing the interpreter lock costs more than the checksum.
cdef enum:
    UNLOCK_BYTES = 65536


ctypedef uint32_t (*checksum_fn)(uint32_t crc, const void *data, size_t size_bytes) noexcept nogil


cdef uint32_t checksum(checksum_fn function, object data, uint32_t crc) except? 0:
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    if view.len < UNLOCK_BYTES:
        crc = function(crc, view.buf, <size_t>view.len)
    else:
        with nogil:
            crc = function(crc, view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return crc


def crc32c(data, uint32_t crc=0):
    """Return the CRC32C of a bytes-like object. ``crc`` is the result so far."""
    return checksum(kn_crc32c, data, crc)


def crc32c_portable(data, uint32_t crc=0):
    """Return the CRC32C with the table implementation, on any machine."""
    return checksum(kn_crc32c_portable, data, crc)


def crc32(data, uint32_t crc=0):
    """Return the CRC32 (IEEE 802.3) of a bytes-like object, as ``zlib.crc32``."""
    return checksum(kn_crc32, data, crc)


def crc32c_backend():
    """Return the name of the CRC32C implementation on this machine."""
    return kn_crc32c_backend().decode()


def wipe(data not None):
    """Overwrite a bytearray, or bytes that no other code has, with zeros.

    Nothing happens to bytes of one character: all code shares them.
    """
    if isinstance(data, bytearray):
        with cython.critical_section(data):  # another thread could resize it
            kn_wipe(PyByteArray_AS_STRING(data), <size_t>len(data))
    elif PyBytes_CheckExact(data):
        if len(data) > 1:
            kn_wipe(PyBytes_AS_STRING(data), <size_t>len(data))
    else:
        raise TypeError(f"data must be bytearray or bytes, not {type(data).__name__}")


def murmur2(bytes data not None):
    """Return Kafka's murmur2, signed as in the Java client."""
    return <int32_t>kn_murmur2(<const char *>data, <size_t>len(data))


def fnv1a(bytes data not None):
    """Return FNV-1a as in librdkafka's partitioners."""
    return kn_fnv1a(<const char *>data, <size_t>len(data))


def varint_encode(int64_t value):
    """Return the zig-zag varint of a signed 64-bit number."""
    cdef uint8_t[10] room
    cdef uint8_t *end = kn_varint_put(room, value)
    return PyBytes_FromStringAndSize(<char *>room, end - room)


def uvarint_encode(uint64_t value):
    """Return the varint of an unsigned 64-bit number."""
    cdef uint8_t[10] room
    cdef uint8_t *end = kn_uvarint_put(room, value)
    return PyBytes_FromStringAndSize(<char *>room, end - room)


cdef tuple decoded(bint good, Py_ssize_t size_bytes, int64_t value):
    if not good:
        raise ValueError("malformed varint")
    return value, size_bytes


def varint_decode(bytes data not None, *, int bits=64, bint bounded=False):
    """Return the zig-zag varint at the start of ``data``, and its size.

    ``bits`` is 32 or 64. ``bounded`` reads it through a span. Raises ValueError if it is cut off or
    too long.
    """
    cdef const uint8_t *start = <const uint8_t *><const char *>data
    cdef const uint8_t *end = start + len(data)
    cdef int64_t wide = 0
    cdef int32_t narrow = 0
    cdef kn_span span
    if bounded:
        span = kn_span_of(start, <size_t>len(data))
        wide = kn_span_varlong(&span)
        return decoded(not span.failed, span.at - start, wide)
    if bits == 32:
        end = kn_varint_get(start, end, &narrow)
        return decoded(end != NULL, end - start, narrow)
    end = kn_varlong_get(start, end, &wide)
    return decoded(end != NULL, end - start, wide)


def uvarint_decode(bytes data not None):
    """Return the unsigned varint at the start of ``data``, of at most 32 bits, and its size.

    Raises ValueError if it is malformed.
    """
    cdef const uint8_t *start = <const uint8_t *><const char *>data
    cdef kn_span span = kn_span_of(start, <size_t>len(data))
    cdef uint32_t value = kn_span_uvarint(&span)
    return decoded(not span.failed, span.at - start, value)


cpdef str exact_text(text):
    """Return the text as an exact str.

    A subclass, such as an enum member, may have its own hash and ``__str__``.
    """
    return <str>text if PyUnicode_CheckExact(text) else str.__str__(text)
