# The PyCapsules of Arrow's C data interface: https://arrow.apache.org/docs/format/CDataInterface
#
# A capsule owns its struct, and releases what nobody has moved out of it. The caller has the
# interpreter lock.
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from libc.stdlib cimport free

from kafka_native._native.kn_arrow cimport (
    ArrowArray, ArrowArrayStream, ArrowSchema, kn_arrow_release_array, kn_arrow_release_schema, kn_arrow_release_stream,
)


cdef inline void drop_schema(object capsule) noexcept:
    cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(capsule, "arrow_schema")
    kn_arrow_release_schema(schema)
    free(schema)


cdef inline void drop_array(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *>PyCapsule_GetPointer(capsule, "arrow_array")
    kn_arrow_release_array(array)
    free(array)


cdef inline void drop_stream(object capsule) noexcept:
    cdef ArrowArrayStream *stream = <ArrowArrayStream *>PyCapsule_GetPointer(capsule, "arrow_array_stream")
    kn_arrow_release_stream(stream)
    free(stream)


# Make the capsule of a struct that calloc() has made.

cdef inline object schema_capsule(ArrowSchema *schema):
    return PyCapsule_New(schema, "arrow_schema", drop_schema)


cdef inline object array_capsule(ArrowArray *array):
    return PyCapsule_New(array, "arrow_array", drop_array)


cdef inline object stream_capsule(ArrowArrayStream *stream):
    return PyCapsule_New(stream, "arrow_array_stream", drop_stream)


cdef inline void *pointer_in(capsule, str name) except NULL:
    # Returns the struct in another library's capsule.
    cdef bytes wanted = name.encode()
    if not PyCapsule_IsValid(capsule, wanted):
        raise TypeError(f"a PyCapsule {name!r} is expected, not {type(capsule).__name__}")
    return PyCapsule_GetPointer(capsule, wanted)
