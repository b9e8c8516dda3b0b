# What other modules of codecs use: layouts, programs of decoders, capsules of columns, arrays.
from libc.stdint cimport int32_t

from kafka_native._native.kn_arrow cimport ArrowSchema
from kafka_native._native.kn_codecs cimport kn_builder, kn_decoder, kn_layout


cdef class Layout:
    cdef kn_layout *layout


cdef class Program:
    cdef kn_decoder decoder
    cdef readonly Layout layout


cdef object layout_capsule(kn_layout *layout)
cdef tuple builder_capsules(kn_builder *builder)
cdef int32_t *int32_array(list numbers) except NULL
cdef int check_made(int status, int32_t bad) except -1
cdef tuple described(const ArrowSchema *schema, int depth)
