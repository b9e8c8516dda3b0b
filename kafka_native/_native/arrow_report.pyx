# cython: freethreading_compatible=True
"""ArrowReport: the outcomes of the rows of one produce_arrow().

Thread: any. While rows are outstanding, delivery_core.pyx adds failed ones, under the report's lock.
The report never changes after your callback has received it.
"""
cimport cython
from libc.stdint cimport int64_t


@cython.final
@cython.no_gc_clear
cdef class ArrowReport:
    """The outcomes of the rows of one call of `Producer.produce_arrow`.

    `poll()` or `flush()` passes it to the call's ``on_delivery``. A row has no object of its own:
    delivered rows are counted, and consecutive failed rows with the same error are kept together.

    Attributes
    ----------
    rows : int
        The number of rows that the call took: the delivered and the failed ones.
    delivered : int
        The number of rows that the broker has acknowledged (with ``acks=0``: that were sent).
    """

    def __cinit__(self):
        self.runs = []
        self.placed = []

    @cython.critical_section
    cdef int add(self, int64_t row, error) except -1:
        # Add a failed row. A partition's batches have their rows in order, so often the last run
        # grows.
        cdef list run
        if self.runs:
            run = <list>self.runs[-1]
            if run[2] is error and run[0] + run[1] == row:
                run[1] += 1
                return 0
        self.runs.append([row, 1, error])
        return 0

    @cython.critical_section
    cdef int finish(self, int64_t delivered, list placed) except -1:
        # All rows have an outcome.
        self.delivered = delivered
        self.placed = placed
        return 0

    @cython.critical_section
    cdef list placed_runs(self):
        return self.placed

    @cython.critical_section
    cdef list failed_runs(self):
        # Return (first row, count, error) tuples, sorted by row.
        return sorted([tuple(run) for run in self.runs], key=_first)

    @property
    def failed(self):
        """The failed rows as (row, KafkaError) pairs, sorted by row.

        A row is its index in the call's input, across chunks.
        """
        return [(row, error) for first, count, error in self.failed_runs() for row in range(first, first + count)]

    @property
    def error(self):
        """The KafkaError of the first failed row, or None if every row was delivered."""
        cdef list runs = self.failed_runs()
        return runs[0][2] if runs else None

    def __repr__(self):
        return f"<ArrowReport rows={self.rows} delivered={self.delivered} failed={self.rows - self.delivered}>"


def _first(run):
    return run[0]
