# cython: freethreading_compatible=True, boundscheck=False, wraparound=False
"""Programs that read Protobuf messages into Python objects, one message at a time.

`kafka_native.codecs.protobuf_objects` compiles a descriptor and a class to message types. A program
reads plain messages only, which are nearly all. It leaves the rest to google.protobuf, also each
malformed message, so nothing here reports problems.

Thread: any. A program never changes.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Copy, PyDict_GetItem, PyDict_SetItem
from cpython.list cimport PyList_Append
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from cpython.tuple cimport PyTuple_New
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from kafka_native._native.texts cimport text_of

cdef extern from "Python.h":
    object PyObject_Vectorcall(object function, PyObject **arguments, size_t count, PyObject *names)
    ctypedef struct PyTupleObject:
        PyObject *ob_item[1]

cdef extern from "codecs/protobuf_wire.h" nogil:
    struct kn_decode_failure:
        pass
    const uint8_t *kn_wire_tag(kn_decode_failure *problem, const uint8_t *at, const uint8_t *end, uint32_t *tag)
    const uint8_t *kn_wire_varint(kn_decode_failure *problem, const uint8_t *at, const uint8_t *end, uint64_t *value)
    const uint8_t *kn_wire_size(kn_decode_failure *problem, const uint8_t *at, const uint8_t *end, int64_t *size_bytes)
    const uint8_t *kn_wire_skip(kn_decode_failure *problem, uint32_t tag, const uint8_t *at, const uint8_t *end)

# How a value is read. `object` of ENUM: a dict of what the numbers become. CALL: a function of the
# bytes of a message. MESSAGE has a type.
cdef enum Code:
    INT32, INT64, UINT32, UINT64, SINT32, SINT64, BOOL, ENUM  # varints
    DOUBLE, FIXED64, SFIXED64  # eight bytes
    FLOAT, FIXED32, SFIXED32  # four bytes
    TEXT, BYTES, CALL, MESSAGE  # bytes behind their size
    CODE_COUNT

WIRE_CODES = {
    "INT32": INT32, "INT64": INT64, "UINT32": UINT32, "UINT64": UINT64, "SINT32": SINT32, "SINT64": SINT64, "BOOL": BOOL,
    "ENUM": ENUM, "DOUBLE": DOUBLE, "FIXED64": FIXED64, "SFIXED64": SFIXED64, "FLOAT": FLOAT, "FIXED32": FIXED32,
    "SFIXED32": SFIXED32, "TEXT": TEXT, "BYTES": BYTES, "CALL": CALL, "MESSAGE": MESSAGE,
}

# A field has one value, a list of values (`made` makes another collection of it), or a map, whose
# entries are of a type with two fields.
cdef enum Shape:
    SINGLE, LIST, MAP
WIRE_SHAPES = {"single": SINGLE, "list": LIST, "map": MAP}

cdef enum:
    DEPTH_MAX = 90  # nested messages, a little less than in google.protobuf
    ONEOFS_MAX = 64
WIRE_ONEOFS_MAX = ONEOFS_MAX


class Unplain(Exception):
    """Stands for the object of a message that only google.protobuf reads."""


cdef object UNPLAIN = Unplain


cdef struct Field:
    uint32_t number
    int32_t code
    int32_t shape
    int32_t slot
    int32_t oneof  # -1: of none with several fields
    Type *type
    PyObject *object  # borrowed from the program
    PyObject *made  # NULL: list
    PyObject *default  # NULL: only google.protobuf makes it

cdef struct Type:
    Field *fields  # by number
    int32_t field_count
    int32_t oneof_count
    PyObject *cls  # NULL: a dict
    PyObject *names  # of a dict: its keys by slot; of a class: the keyword arguments
    PyObject *template  # of a dict
    Py_ssize_t positional


# --- values ---

cdef inline int unplain() except -1:
    raise UNPLAIN


cdef inline uint64_t load(const uint8_t *p, int width) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(width):
        value |= <uint64_t>p[i] << (8 * i)
    return value


cdef inline int wire_type_of(int32_t code) noexcept nogil:
    return 0 if code <= ENUM else 1 if code <= SFIXED64 else 5 if code <= SFIXED32 else 2


cdef object number_of(const Field *field, uint64_t value):
    # Returns the object of a varint.
    cdef int32_t code = field.code
    cdef PyObject *found
    if code == INT64:
        return <int64_t>value
    elif code == INT32:
        return <int32_t><uint32_t>value
    elif code == BOOL:
        return value != 0
    elif code == ENUM:
        number = <int32_t><uint32_t>value
        found = PyDict_GetItem(<object>field.object, number)
        if found == NULL:
            unplain()
        return <object>found
    elif code == UINT32:
        return <uint32_t>value
    elif code == UINT64:
        return value
    elif code == SINT32:
        return <int32_t>((<uint32_t>value >> 1) ^ (0 - (<uint32_t>value & 1)))
    return <int64_t>((value >> 1) ^ (0 - (value & 1)))


cdef object fixed_of(const Field *field, const uint8_t *at):
    # Returns the object of four or eight bytes.
    cdef int32_t code = field.code
    cdef uint64_t wide
    cdef uint32_t narrow
    cdef double double_value
    cdef float float_value
    if code <= SFIXED64:
        wide = load(at, 8)
        if code == DOUBLE:
            memcpy(&double_value, &wide, 8)
            return double_value
        return <int64_t>wide if code == SFIXED64 else wide
    narrow = <uint32_t>load(at, 4)
    if code == FLOAT:
        memcpy(&float_value, &narrow, 4)
        return <double>float_value
    return <int32_t>narrow if code == SFIXED32 else narrow


cdef object bytes_of(const Field *field, const uint8_t *at, int64_t size, int depth):
    # Returns the object of bytes that had a size.
    if field.code == TEXT:
        text = text_of(at, size)
        if text is None:
            unplain()
        return text
    elif field.code == MESSAGE:
        return message_of(field.type, at, at + size, depth + 1)
    encoded = PyBytes_FromStringAndSize(<const char *>at, size)
    return encoded if field.code == BYTES else (<object>field.object)(encoded)


cdef object value_of(const Field *field, const uint8_t **at, const uint8_t *end, int depth):
    # Reads one value behind its tag.
    cdef kn_decode_failure problem
    cdef uint64_t number = 0
    cdef int64_t size = 0
    cdef const uint8_t *next
    if field.code <= ENUM:
        next = kn_wire_varint(&problem, at[0], end, &number)
        if next == NULL:
            unplain()
        at[0] = next
        return number_of(field, number)
    if field.code <= SFIXED32:
        size = 8 if field.code <= SFIXED64 else 4
        if end - at[0] < size:
            unplain()
        at[0] += size
        return fixed_of(field, at[0] - size)
    next = kn_wire_size(&problem, at[0], end, &size)
    if next == NULL:
        unplain()
    at[0] = next + size
    return bytes_of(field, next, size, depth)


# --- messages ---

cdef inline const Field *field_of(const Type *type, uint32_t number, int32_t *hint) noexcept nogil:
    # Returns a field by its number, or NULL. Fields nearly always come in the order of their numbers.
    cdef int32_t low = hint[0], high = type.field_count, middle
    if low < high and type.fields[low].number == number:
        hint[0] = low + 1
        return &type.fields[low]
    low = 0
    while low < high:
        middle = (low + high) // 2
        if type.fields[middle].number < number:
            low = middle + 1
        else:
            high = middle
    if low == type.field_count or type.fields[low].number != number:
        return NULL
    hint[0] = low + 1
    return &type.fields[low]


cdef int read_packed(list into, const Field *field, const uint8_t *at, const uint8_t *end) except -1:
    while at < end:
        into.append(value_of(field, &at, end, 0))
    return 0


cdef int read_entry(dict into, const Type *entry, const uint8_t *at, const uint8_t *end, int depth) except -1:
    cdef kn_decode_failure problem
    cdef uint32_t tag = 0
    cdef int32_t hint = 0
    cdef const Field *field
    key = value = None
    cdef bint has_key = False, has_value = False
    while at < end:
        at = kn_wire_tag(&problem, at, end, &tag)
        if at == NULL:
            unplain()
        field = field_of(entry, tag >> 3, &hint)
        if field == NULL or <int>(tag & 7) != wire_type_of(field.code):
            unplain()
        if field.slot == 0:
            key = value_of(field, &at, end, depth)
            has_key = True
        elif has_value:
            unplain()  # two messages are merged
        else:
            value = value_of(field, &at, end, depth)
            has_value = True
    if not has_key or not has_value:
        unplain()
    PyDict_SetItem(into, key, value)
    return 0


cdef int read_into(const Type *type, PyObject **slots, const uint8_t *at, const uint8_t *end, int depth) except -1:
    # Reads the fields of a message. The slots own their objects.
    cdef kn_decode_failure problem
    cdef uint32_t tag = 0
    cdef int32_t hint = 0
    cdef uint64_t oneofs = 0
    cdef int64_t size = 0
    cdef const Field *field
    cdef PyObject *old
    while at < end:
        at = kn_wire_tag(&problem, at, end, &tag)
        if at == NULL:
            unplain()
        field = field_of(type, tag >> 3, &hint)
        if field == NULL:
            at = kn_wire_skip(&problem, tag, at, end)
            if at == NULL:
                unplain()
            continue
        old = slots[field.slot]
        if field.shape == SINGLE:
            if <int>(tag & 7) != wire_type_of(field.code) or old != NULL:
                unplain()
            if field.oneof >= 0:
                if oneofs >> field.oneof & 1:
                    unplain()
                oneofs |= <uint64_t>1 << field.oneof
            value = value_of(field, &at, end, depth)
            Py_INCREF(value)
            slots[field.slot] = <PyObject *>value
            continue
        if old == NULL:
            value = [] if field.shape == LIST else {}
            Py_INCREF(value)
            old = slots[field.slot] = <PyObject *>value
        hint -= 1  # the same field comes again
        if field.shape == LIST and <int>(tag & 7) == wire_type_of(field.code):
            PyList_Append(<object>old, value_of(field, &at, end, depth))
            continue
        if <int>(tag & 7) != 2:
            unplain()
        at = kn_wire_size(&problem, at, end, &size)
        if at == NULL:
            unplain()
        if field.shape == LIST:
            read_packed(<list>old, field, at, at + size)
        else:
            read_entry(<dict>old, field.type, at, at + size, depth + 1)
        at += size
    return 0


cdef int complete(const Type *type, PyObject **slots) except -1:
    # Fills the slots that the message hasn't set, and makes other collections of lists.
    cdef const Field *field = type.fields
    cdef const Field *last = field + type.field_count
    cdef PyObject *old
    while field < last:
        old = slots[field.slot]
        if field.shape == SINGLE:
            if old == NULL:
                if field.default == NULL:
                    unplain()
                value = <object>field.default
                Py_INCREF(value)
                slots[field.slot] = <PyObject *>value
        elif old == NULL or field.made != NULL:
            value = {} if field.shape == MAP else [] if old == NULL else <object>old
            if field.made != NULL:
                value = (<object>field.made)(value)
            Py_INCREF(value)
            slots[field.slot] = <PyObject *>value
            Py_XDECREF(old)
        field += 1
    return 0


cdef object message_of(const Type *type, const uint8_t *at, const uint8_t *end, int depth):
    cdef tuple values
    cdef PyObject **slots
    cdef int32_t i
    if depth > DEPTH_MAX:
        unplain()
    values = PyTuple_New(type.field_count)
    slots = (<PyTupleObject *>values).ob_item
    read_into(type, slots, at, end, depth)
    complete(type, slots)
    if type.cls != NULL:
        names = <tuple>type.names
        return PyObject_Vectorcall(<object>type.cls, slots, <size_t>type.positional, type.names if names else NULL)
    made = PyDict_Copy(<object>type.template)
    for i in range(type.field_count):
        PyDict_SetItem(made, (<tuple>type.names)[i], <object>slots[i])
    return made


# --- programs ---

# no_gc_clear, and a tuple: the garbage collector clears neither, so a program has its objects until it is
# freed. Otherwise a program of a cycle could outlive them: while the collector clears the rest of the cycle,
# `gc.get_objects()` in a destructor returns the program. The cycle ends nevertheless, because what a program
# refers to (classes, functions, dicts) is cleared.
@cython.final
@cython.no_gc_clear
cdef class MessageProgram:
    """A checked program that reads the messages of one type."""
    cdef Type *types
    cdef Field *fields
    cdef tuple objects  # what the types and fields borrow

    def __cinit__(self, types not None):
        """Each type is (fields, cls, names, positional). The first one is that of the messages.

        Each field is (number, code, shape, slot, oneof, type, object, made, default), by number. A
        default is a tuple of one object, or None: only google.protobuf makes it. Raises ValueError
        if a number is out of its range.
        """
        cdef list rows = [(tuple(<list?>fields), cls, <tuple?>names, size) for fields, cls, names, size in types]
        cdef list objects = []
        cdef Py_ssize_t count = len(rows), field_count = 0, i
        cdef Field *field
        for i in range(count):
            field_count += len(<tuple>rows[i][0])
        if count < 1 or count > INT32_MAX or field_count > INT32_MAX:
            raise ValueError("a program needs types, and at most 2^31")
        self.types = <Type *>calloc(<size_t>count, sizeof(Type))
        self.fields = field = <Field *>calloc(<size_t>(field_count or 1), sizeof(Field))
        if self.types == NULL or self.fields == NULL:
            raise MemoryError
        for i in range(count):
            self.types[i].fields = field
            set_type(&self.types[i], <tuple>rows[i], i, objects)
            for row in <tuple>rows[i][0]:
                self.set_field(field, row, count, objects)
                field += 1
        for i in range(count):
            check_fields(&self.types[i], i)
        self.objects = tuple(objects)

    cdef int set_field(self, Field *field, tuple row, Py_ssize_t count, list objects) except -1:
        cdef Py_ssize_t index
        number, code, shape, slot, oneof, index, target, made, default = row
        if not -1 <= index < count:
            raise ValueError(f"the type of field {number} is wrong")
        if default is not None and len(<tuple?>default) != 1:
            raise ValueError(f"the default of field {number} is wrong")
        field.number, field.code, field.shape, field.slot, field.oneof = number, code, shape, slot, oneof
        field.type = &self.types[index] if index >= 0 else NULL
        field.object = borrow(target, objects)
        field.made = NULL if made is None else borrow(made, objects)
        field.default = NULL if default is None else borrow((<tuple?>default)[0], objects)
        return 0

    def __dealloc__(self):
        free(self.types)
        free(self.fields)

    def read(self, record not None):
        """Return the object of a message, or Unplain: only google.protobuf reads the message.

        Raises MemoryError.
        """
        cdef const uint8_t *start
        if not PyBytes_CheckExact(record):
            return UNPLAIN
        start = <const uint8_t *>PyBytes_AS_STRING(record)
        try:
            return message_of(self.types, start, start + PyBytes_GET_SIZE(record), 0)
        except MemoryError:
            raise
        except Exception:
            return UNPLAIN


cdef PyObject *borrow(object target, list objects) except NULL:
    objects.append(target)
    return <PyObject *>target


cdef int set_type(Type *type, tuple row, Py_ssize_t index, list objects) except -1:
    cdef tuple fields, names
    fields, cls, names, positional = row
    type.field_count, type.positional, type.names = <int32_t>len(fields), positional, borrow(names, objects)
    if type.positional < 0 or type.positional != len(fields) - len(names):
        raise ValueError(f"the names of type {index} are wrong")
    if cls is not None:
        if not callable(cls) or any([not isinstance(name, str) for name in names]):
            raise ValueError(f"the class of type {index} is wrong")
        type.cls = borrow(cls, objects)
    elif type.positional:
        raise ValueError(f"type {index} makes a dict, so each field needs a name")
    else:
        type.template = borrow(dict.fromkeys(names), objects)
    return 0


cdef int check_fields(const Type *type, Py_ssize_t index) except -1:
    # Raises ValueError if a field of a type lacks what it needs.
    cdef const Field *field
    cdef uint32_t before = 0
    cdef int32_t i
    cdef bint is_good = True
    slots = []
    for i in range(type.field_count):
        field = &type.fields[i]
        slots.append(field.slot)
        is_good &= field.number > before and field.number < 1 << 29
        is_good &= 0 <= field.code < CODE_COUNT and 0 <= field.shape <= MAP and -1 <= field.oneof < ONEOFS_MAX
        is_good &= (field.type != NULL) == (field.code == MESSAGE)
        if field.code == ENUM:
            is_good &= isinstance(<object>field.object, dict)
        elif field.code == CALL:
            is_good &= callable(<object>field.object)
        is_good &= field.made == NULL or field.shape == LIST and callable(<object>field.made)
        if field.shape == MAP:
            is_good &= field.type != NULL and field.type.field_count == 2
        before = field.number
    if not is_good or sorted(slots) != list(range(type.field_count)):
        raise ValueError(f"the fields of type {index} are wrong")
    return 0
