"""The tables that the encoder and the decoder share: see wire.pyx."""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from kafka_native._native.layout cimport Layout

cdef extern from *:
    """
    static const uint8_t kn_fixed_size[9] = {1, 1, 2, 4, 8, 2, 4, 8, 16};
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
    const uint8_t* kn_fixed_size  # by kind, up to UUID
    uint16_t kn_get16(const uint8_t* p) nogil
    uint32_t kn_get32(const uint8_t* p) nogil
    uint64_t kn_get64(const uint8_t* p) nogil
    void kn_put16(uint8_t* p, uint16_t v) nogil
    void kn_put32(uint8_t* p, uint32_t v) nogil
    void kn_put64(uint8_t* p, uint64_t v) nogil

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

cdef struct Op:
    int kind
    int item             # kind of an array's elements
    int tag              # -1 for a positional field
    bint nullable
    bint compact         # flexible-version lengths: unsigned varint of the length plus one
    bint ignorable       # the value may be dropped if the version lacks the field
    bint cleaned         # an error text of the broker, cleaned on decoding
    Py_ssize_t item_size  # minimum size of an array element
    Py_ssize_t slot      # index in the layout
    Py_ssize_t offset
    PyObject* owner      # its Plan
    PyObject* sub        # the Plan of a struct, or of an array's structs
    Table* table         # the table of `sub`
    PyObject* name


cdef struct Table:
    Op* ops              # positional fields first, then tagged ones by tag, then absent ones
    Py_ssize_t positional
    Py_ssize_t tagged
    Py_ssize_t count
    Py_ssize_t min_size
    bint flexible


@cython.final
cdef class Plan:
    cdef Table table
    cdef Layout layout
    cdef list _kept
    cdef readonly str name
    cdef readonly int version

    cdef int _compile(self, Op* op, tuple field) except -1
