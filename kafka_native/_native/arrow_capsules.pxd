# The PyCapsules of Arrow's C data interface: https://arrow.apache.org/docs/format/CDataInterface
#
# A capsule owns its struct, and releases what nobody has moved out of it. take_input() moves it out.
# The caller has the interpreter lock, or a thread state where there is no such lock. Two threads may
# have the same capsule: its content is moved out under the capsule's lock.
cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from libc.stdlib cimport free
from libc.string cimport memset

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


cdef inline object stream_error(ArrowArrayStream *stream, int status):
    # Returns the exception for a stream that has failed.
    cdef const char *text = NULL
    if stream.get_last_error != NULL:
        text = stream.get_last_error(stream)
    reason = "" if text == NULL else f": {text.decode('utf-8', 'replace')}"
    return OSError(status, f"the Arrow stream failed{reason}")


cdef inline bint take_input(data, ArrowSchema *schema, ArrowArrayStream *stream, ArrowArray *array) except -1:
    # Moves the type, and the stream or the only array, out of another library's capsules. The caller
    # releases all three, also after an error. Returns whether the data are a stream.
    cdef ArrowSchema *given_schema
    cdef ArrowArrayStream *given_stream
    cdef ArrowArray *given_array
    cdef int status
    if hasattr(data, "__arrow_c_stream__"):
        capsule = data.__arrow_c_stream__()
        given_stream = <ArrowArrayStream *>pointer_in(capsule, "arrow_array_stream")
        with cython.critical_section(capsule):
            stream[0], given_stream.release = given_stream[0], NULL
        if stream.release == NULL or stream.get_schema == NULL or stream.get_next == NULL:
            stream.release = NULL
            raise ValueError("the Arrow stream was released, or is used up already")
        with nogil:
            status = stream.get_schema(stream, schema)
        if status != 0:
            schema.release = NULL  # its content is undefined
            raise stream_error(stream, status)
        return True
    if not hasattr(data, "__arrow_c_array__"):
        raise TypeError(f"data must have __arrow_c_stream__ or __arrow_c_array__, which {type(data).__name__} hasn't")
    answer = data.__arrow_c_array__()
    if not isinstance(answer, tuple) or len(<tuple>answer) != 2:
        raise TypeError("__arrow_c_array__() must give two capsules")
    given_schema = <ArrowSchema *>pointer_in((<tuple>answer)[0], "arrow_schema")
    given_array = <ArrowArray *>pointer_in((<tuple>answer)[1], "arrow_array")
    with cython.critical_section((<tuple>answer)[0]):
        schema[0], given_schema.release = given_schema[0], NULL
    with cython.critical_section((<tuple>answer)[1]):
        array[0], given_array.release = given_array[0], NULL
    if array.release == NULL:
        raise ValueError("the Arrow array was released, or is used already")
    return False


cdef inline bint next_of(ArrowArrayStream *stream, ArrowArray *array) except -1:
    # Reads the next array of a stream. Returns whether there is one. The caller releases it.
    cdef int status
    with nogil:
        status = stream.get_next(stream, array)
    if status != 0:
        array.release = NULL  # its content is undefined
        raise stream_error(stream, status)
    return array.release != NULL


# The arrays of another library, one after the other, for one call: open_input(), next_array() until
# it returns False, and in any case close_input().

cdef struct ArrowInput:
    ArrowSchema schema
    ArrowArrayStream stream
    ArrowArray array  # the current one
    bint is_begun


cdef inline int open_input(ArrowInput *input, data) except -1:
    memset(input, 0, sizeof(input[0]))
    take_input(data, &input.schema, &input.stream, &input.array)
    return 0


cdef inline bint next_array(ArrowInput *input) except -1:
    # Goes to the next array. Returns whether there is one.
    if input.stream.release == NULL:
        is_first = not input.is_begun
        input.is_begun = True
        return is_first
    with nogil:
        kn_arrow_release_array(&input.array)
    return next_of(&input.stream, &input.array)


cdef inline void close_input(ArrowInput *input) noexcept:
    # The owner of the buffers may take any lock to free them, including the interpreter lock.
    with nogil:
        kn_arrow_release_array(&input.array)
        kn_arrow_release_stream(&input.stream)
        kn_arrow_release_schema(&input.schema)
