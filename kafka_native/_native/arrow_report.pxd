from libc.stdint cimport int64_t


cdef class ArrowReport:
    cdef readonly int64_t rows
    cdef readonly int64_t delivered
    cdef object callback  # None: it was made
    cdef list runs  # of failed rows: [first row, how many, error]
    cdef list placed  # of delivered rows whose offsets were wanted: (first row, its offset, how many); there once all of it is done

    cdef int add(self, int64_t row, error) except -1
