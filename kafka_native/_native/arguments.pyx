# cython: freethreading_compatible=True
"""`Arguments`: Python's own parsing of the arguments of C functions, for functions in Python.

The drop-in for confluent_kafka uses it, so its calls take and refuse the same arguments.
"""
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport PyObject

cdef extern from *:
    """
    union kn_argument {
        double real;
        int number;
        unsigned int count;
        long long wide;
        unsigned char byte;
        const char *text;
        PyObject *object;
    };
    enum { KN_ARGUMENTS_MAX = 8 };
    /* The parser fills as many of the places as the format has codes. */
    static int kn_parse(PyObject *args, PyObject *kwargs, const char *format, char **names, union kn_argument *p)
    {
        if (names == NULL)
            return PyArg_ParseTuple(args, format, p, p + 1, p + 2, p + 3, p + 4, p + 5, p + 6, p + 7);
        return PyArg_ParseTupleAndKeywords(args, kwargs, format, names, p, p + 1, p + 2, p + 3, p + 4, p + 5, p + 6, p + 7);
    }
    """
    enum:
        KN_ARGUMENTS_MAX
    cdef union kn_argument:
        double real
        int number
        unsigned int count
        long long wide
        unsigned char byte
        const char *text
        PyObject *object
    bint kn_parse(object args, PyObject *kwargs, const char *format, char **names, kn_argument *places) except 0


cdef class Arguments:
    """The arguments that a C function takes, described as for PyArg_ParseTupleAndKeywords.

    ``names`` are those of all arguments. ``positional`` refuses keywords, as PyArg_ParseTuple.
    """

    cdef readonly tuple names
    cdef bytes _format
    cdef bytes _codes  # the format's letters
    cdef tuple _encoded  # owns the texts of `_keywords`
    cdef char **_keywords
    cdef readonly bint positional

    def __cinit__(self, str format not None, *names, bint positional=False):
        cdef int index
        self._format = format.encode()
        self._codes = format.replace("|", "").encode()
        if len(self._codes) != len(names) or len(names) > KN_ARGUMENTS_MAX or self._codes.strip(b"dOiILszpb"):
            raise ValueError(f"the format {format!r} doesn't fit {names}")
        self.names = names
        self.positional = positional
        self._encoded = tuple(name.encode() for name in names)
        self._keywords = <char **>PyMem_Malloc((len(names) + 1) * sizeof(char *))
        if self._keywords == NULL:
            raise MemoryError
        for index in range(len(names)):
            self._keywords[index] = <char *><bytes>self._encoded[index]
        self._keywords[len(names)] = NULL

    def __dealloc__(self):
        PyMem_Free(self._keywords)

    def parse(self, tuple args not None, dict kwargs not None):
        """Return the given arguments by name, converted to their types.

        Raises what a C function raises that takes no such arguments.
        """
        cdef kn_argument[KN_ARGUMENTS_MAX] places
        cdef dict found = {}
        cdef Py_ssize_t index
        if self.positional:
            if kwargs:
                raise TypeError("this call takes no keyword arguments")
            kn_parse(args, NULL, self._format, NULL, places)
        else:
            kn_parse(args, <PyObject *>kwargs, self._format, self._keywords, places)
        for index in range(len(self.names)):
            name = self.names[index]
            if index < len(args) or name in kwargs:
                found[name] = self._converted(self._codes[index], &places[index])
        return found

    cdef object _converted(self, char code, kn_argument *place):
        if code == c"d":
            return place.real
        if code == c"O":
            return <object>place.object
        if code == c"i":
            return place.number
        if code == c"I":
            return place.count
        if code == c"L":
            return place.wide
        if code == c"p":
            return place.number != 0
        if code == c"b":
            return place.byte != 0
        return None if place.text == NULL else (<bytes>place.text).decode()
