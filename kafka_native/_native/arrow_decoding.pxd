# The decoding of columns of consumed records, for the modules that fill them.
from libc.stdint cimport int32_t, int64_t

from kafka_native._native.codec_core cimport Layout, Program
from kafka_native._native.kn_arrow cimport kn_columns
from kafka_native._native.kn_codecs cimport kn_decoding, kn_schema_decoder


cdef class DecodedType:
    cdef readonly Layout layout
    cdef readonly object source  # kafka_native.codecs.codec.RecordReader
    cdef readonly str field  # "key" or "value"
    cdef readonly bint skips_errors
    cdef readonly bint has_reasons
    cdef readonly bint keeps_bytes
    cdef Layout bytes  # the type of the column of records that don't decode
    cdef readonly bint is_flat


cdef class SchemaDecoder:
    cdef kn_schema_decoder item
    cdef bint has_key
    cdef const char **paths
    cdef list texts
    cdef Program program


cdef class Decoding:
    cdef kn_decoding state
    cdef DecodedType type
    cdef list decoders  # they own what the state points to

    cdef bytes missing(self)
    cdef int add(self, bytes key, SchemaDecoder decoder) except -1
    cdef object error(self, str topic, int32_t partition, int64_t offset)


cdef Decoding new_decoding(DecodedType type, kn_columns *columns, int32_t column)
