# What other modules of codecs use: layouts, programs and their parts, capsules of columns.
from libc.stdint cimport int32_t

from kafka_native._native.kn_arrow cimport ArrowArray, ArrowSchema
from kafka_native._native.kn_codecs cimport kn_builder, kn_decoder, kn_layout, kn_program_data


cdef class Layout:
    cdef kn_layout *layout


cdef class Program:
    cdef kn_decoder decoder
    cdef readonly Layout layout


cdef class BuiltColumn:
    cdef kn_builder *builder

    cdef int export(self, ArrowArray *out) except -1


cdef class ProgramData:
    cdef kn_program_data data
    cdef bytes constants


cdef object BY_CODEC
cdef object layout_capsule(kn_layout *layout)
cdef int check_made(int status, int32_t bad) except -1
cdef tuple described(const ArrowSchema *schema, int depth)
