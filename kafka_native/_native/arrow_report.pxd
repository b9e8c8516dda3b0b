from libc.stdint cimport int64_t


cdef class ArrowReport:
    cdef readonly int64_t rows
    cdef readonly int64_t delivered
    cdef object callback  # None: it was called
    cdef list runs  # failed rows: [first row, count, error]
    cdef list placed  # delivered rows, if the counter keeps runs: (first row, its offset, count); set after the last outcome

    cdef int add(self, int64_t row, error) except -1
    cdef int finish(self, int64_t delivered, list placed) except -1
    cdef list placed_runs(self)
    cdef list failed_runs(self)
