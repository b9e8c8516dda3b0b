# The columns of consumed records, for the modules that fill them.
from libc.stdint cimport int32_t, int64_t

from kafka_native._native.codec_core cimport Layout
from kafka_native._native.kn_arrow cimport kn_column_spec, kn_columns, kn_kept_bytes
from kafka_native._native.kn_records cimport kn_pool


cdef class ColumnPlan:
    cdef kn_column_spec specs[16]
    cdef readonly int count
    cdef readonly tuple names
    cdef readonly tuple types  # by column of the specs
    cdef readonly list decoded  # (column, DecodedType)
    cdef readonly ColumnPlan malformed  # the columns of records that don't decode, or None

    cdef int _add_built(self, str name, Layout layout, list names, list types) except -1
    cdef void _add(self, str name, int layout, bint is_text, int ticks)


cdef class ColumnMemory:
    cdef kn_pool *pool
    cdef kn_kept_bytes *held  # the bytes of responses that batches keep alive
    cdef int64_t rows
    cdef int64_t sizes[16]  # bytes by field
    cdef public bint awaited  # whether a coroutine awaits a batch

    cdef void expect(self, kn_columns *columns, ColumnPlan plan, int64_t count_max) noexcept
    cdef void remember(self, kn_columns *columns, ColumnPlan plan) noexcept


cdef class ColumnBatch:
    cdef kn_columns *columns
    cdef readonly ColumnPlan plan
    cdef readonly dict positions  # (topic, partition) -> the next offset
    cdef readonly list ends  # Messages: ends of partitions
    cdef readonly bint ended  # whether wakeup() or close() ended the call
    cdef readonly object missing  # a MissingSchema that the caller has to look up, or None
    cdef readonly ColumnBatch malformed  # the records that don't decode, or None
    cdef dict decodings  # column -> Decoding, while the columns are filled


cdef object unfit_error(str topic, int32_t partition, int64_t offset, ColumnBatch batch, int column, bint is_full)
cdef void end_batch(ColumnBatch batch) noexcept
cdef ColumnBatch new_batch(ColumnPlan plan, ColumnMemory memory, int64_t count_max, int64_t bytes_max, int64_t pinned_max)
