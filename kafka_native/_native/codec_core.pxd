# The layouts and programs of decoders, for the modules that decode with them.
from kafka_native._native.kn_codecs cimport kn_decoder, kn_layout


cdef class Layout:
    cdef kn_layout *layout


cdef class Program:
    cdef kn_decoder decoder
    cdef readonly Layout layout
