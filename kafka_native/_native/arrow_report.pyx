# cython: freethreading_compatible=False
"""ArrowReport: what became of the rows of one produce_arrow().

Thread: any, under the interpreter lock. While rows are outstanding, delivery_core.pyx adds failed ones; once it is handed out, nothing changes it any more.
"""
cimport cython
from libc.stdint cimport int64_t


@cython.final
@cython.no_gc_clear
cdef class ArrowReport:
    """What became of the rows of one call of `Producer.produce_arrow`, given to its ``on_delivery`` by `poll()` or `flush()`.

    There is no object a row: delivered ones are counted, and failed ones that follow each other with the same error are kept together.

    Attributes
    ----------
    rows : int
        How many rows the call took: ``delivered`` and the failed ones together.
    delivered : int
        How many of them the broker has acknowledged (with ``acks=0``: were sent).
    """

    def __cinit__(self):
        self.runs = []
        self.placed = []

    cdef int add(self, int64_t row, error) except -1:
        # A failed row. In a partition's batches rows come in order, so mostly the last run goes on.
        cdef list run
        if self.runs:
            run = <list>self.runs[-1]
            if run[2] is error and run[0] + run[1] == row:
                run[1] += 1
                return 0
        self.runs.append([row, 1, error])
        return 0

    @property
    def failed(self):
        """The rows that weren't delivered: (row, KafkaError), by row. A row is its index in the call's input, across chunks."""
        return [(row, error) for first, count, error in sorted(self.runs, key=_first) for row in range(first, first + count)]

    @property
    def error(self):
        """The KafkaError of the first failed row; None: every row was delivered."""
        return min(self.runs, key=_first)[2] if self.runs else None

    def __repr__(self):
        return f"<ArrowReport rows={self.rows} delivered={self.delivered} failed={self.rows - self.delivered}>"


def _first(run):
    return run[0]
