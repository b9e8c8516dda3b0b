# cython: freethreading_compatible=True
"""produce_arrow(): from Arrow columns (PyCapsule interface) to the producer's batches.

delivery_core.pyx reports the rows. Thread: any. Chunks are fetched, checked, hashed, encoded and
appended without the interpreter lock, and so is the wait for room. The call takes the lock every
65536 rows for signals, and for errors of rows and topic names that are new to the call.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.exc cimport PyErr_CheckSignals
from cpython.number cimport PyIndex_Check, PyNumber_Index
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset, strcmp

from kafka_native._native.arrow_capsules cimport next_of, take_input
from kafka_native._native.arrow_report cimport ArrowReport
from kafka_native._native.delivery_core cimport DeliveryCore
from kafka_native._native.engine cimport Engine, EngineHandle, Topic, handle_of, seconds
from kafka_native._native.free_threading cimport kn_flag_is_set
from kafka_native._native.kn_arrow cimport *
from kafka_native._native.kn_engine cimport *
from kafka_native._native.kn_enums cimport *
from kafka_native._native.kn_records cimport *

cdef int64_t STOP_CHECK_INTERVAL_US = 20000  # between two checks whether the call should end

# by kn_rows_role
cdef tuple ROLES = ("value", "key", "headers", "timestamp", "partition", "topic_column")


class ExactTimestamps(str):
    """The name of a column of timestamps in which 0 is 1970. In other columns it is now."""


@cython.final
@cython.no_gc
cdef class Source:
    """The input: its schema, the stream of its chunks or its only chunk, and the current row."""

    cdef ArrowSchema schema
    cdef ArrowArrayStream stream
    cdef ArrowArray array
    cdef kn_rows rows

    def __cinit__(self):
        memset(&self.schema, 0, sizeof(self.schema))
        memset(&self.stream, 0, sizeof(self.stream))
        memset(&self.array, 0, sizeof(self.array))
        kn_rows_init(&self.rows)

    def __dealloc__(self):
        self.close()

    cdef void close(self) noexcept:
        # The owner of the buffers may take any lock to free them, including the interpreter lock.
        with nogil:
            kn_arrow_release_array(&self.array)
            kn_arrow_release_stream(&self.stream)
            kn_arrow_release_schema(&self.schema)
            kn_rows_deinit(&self.rows)

    cdef int open(self, data) except -1:
        take_input(data, &self.schema, &self.stream, &self.array)
        if kn_arrow_check_schema(&self.schema) != NULL:
            raise ValueError(f"the Arrow schema can't be used: {kn_arrow_check_schema(&self.schema).decode()}")
        if strcmp(self.schema.format, b"+s") != 0:
            self.rows.table_is_column = 1
        return 0

    cdef list names(self):
        cdef int64_t i
        return [_name_of(self.schema.children[i]) for i in range(self.schema.n_children)]

    cdef int add_header(self, str role, bytes name, bytes value) except -1:
        cdef int status = kn_rows_add_header(
            &self.rows, <kn_rows_role><int>ROLES[:2].index(role), <const uint8_t *>PyBytes_AS_STRING(name), <int32_t>len(name),
            <const uint8_t *>PyBytes_AS_STRING(value), <int32_t>len(value))
        if status != KN_OK:
            raise MemoryError
        return 0

    cdef int use(self, kn_rows_role role, column) except -1:
        # Select the column of a role by name or index. Its type must suit the role.
        cdef const char *expected
        cdef ArrowSchema *schema = &self.schema
        cdef int32_t index
        if self.rows.table_is_column:
            if role != KN_ROWS_VALUE or not (column == 0 or column == "value"):
                raise ValueError(f"{ROLES[<int>role]}={column!r}: the data are one column without a name, which can only be the value")
            index = 0
        else:
            index = _index_of(self.names(), column, ROLES[<int>role])
            schema = self.schema.children[index]
        expected = kn_rows_check_type(schema, role)
        if expected != NULL:
            shape = f"dictionary<{schema.format.decode('utf-8', 'replace')}>" if schema.dictionary != NULL else schema.format.decode("utf-8", "replace")
            raise TypeError(f"column {column!r} is no {ROLES[<int>role]}: {expected.decode()} is expected, not the Arrow type with the format {shape!r}")
        self.rows.columns[<int>role] = index
        return 0

    cdef bint next_chunk(self) except -1:
        # Return whether there is another chunk, and check all of it.
        cdef kn_arrow_problem problem
        cdef int role = -1
        cdef int status = 0
        if self.stream.release != NULL:
            with nogil:
                kn_arrow_release_array(&self.array)
            next_of(&self.stream, &self.array)
        if self.array.release == NULL:
            return False
        with nogil:
            status = kn_rows_bind(&self.rows, &self.schema, &self.array, &problem, &role)
        if status != KN_OK:
            where = "" if problem.row < 0 else f", row {problem.row}"
            raise ValueError(f"{self._role(role)}{where}: {problem.text.decode()}")
        return True

    cdef str _role(self, int role):
        # The name of a column in an error.
        cdef int32_t index
        if role < 0:
            return "the Arrow data"
        index = self.rows.columns[role]
        name = "" if self.rows.table_is_column else self.names()[index]
        return f"column {name!r} ({ROLES[role]})"


cdef str _name_of(const ArrowSchema *schema):
    return "" if schema.name == NULL else schema.name.decode("utf-8", "replace")


cdef int32_t _index_of(list names, column, str role) except -1:
    if isinstance(column, str):
        found = [index for index, name in enumerate(names) if name == column]
        if len(found) == 1:
            return found[0]
        if found:
            raise ValueError(f"{role}={column!r}: {len(found)} columns have this name, give an index")
    elif PyIndex_Check(column) and not isinstance(column, bool):
        index = PyNumber_Index(column)
        if 0 <= index < len(names):
            return index
    else:
        raise TypeError(
            f"{role} must be a column's name or index, or a codec that encodes such as kafka_native.codecs.Avro, "
            f"not {f'the class {column.__name__}' if isinstance(column, type) else type(column).__name__}")
    raise ValueError(f"{role}={column!r}: there is no such column, but {', '.join(map(repr, names)) or 'none at all'}")


cdef int64_t _whole(source, str what, int64_t minimum, int64_t maximum) except -2:
    if isinstance(source, bool):
        raise TypeError(f"{what} must be an int or a column's name, not bool")
    number = PyNumber_Index(source)
    if not minimum <= number <= maximum:
        raise ValueError(f"{what} must be from {minimum} to {maximum}, not {number}")
    return number


@cython.final
cdef class Call:
    """One call of produce_arrow()."""

    cdef DeliveryCore core
    cdef Engine engine
    cdef EngineHandle handle  # it uses topics, the queue and the counter, even while another thread runs close()
    cdef Source source
    cdef Topic topic
    cdef ArrowReport report  # None without an on_delivery callback
    cdef object refusal  # the KafkaError that all refused rows share
    cdef object check_stop  # () raises to end the call, or None
    cdef dict added_headers
    cdef kn_delivery_counter *counter

    def __dealloc__(self):
        self.source = None

    cdef int prepare(self, topic, data, dict columns, timestamp, partition, on_delivery, bint needs_partition) except -1:
        # Check the arguments and open the input.
        cdef kn_rows *rows
        cdef int role
        self.core._check_open()
        self.engine = self.core.engine
        self.handle = handle_of(self.engine)
        self.source = Source.__new__(Source)
        rows = &self.source.rows
        if topic is not None:
            if not isinstance(topic, str):
                raise TypeError(f"topic must be a str, not {type(topic).__name__}")
            self.topic = self.engine.topic_at(topic)
            rows.topic = self.topic.topic
        elif columns["topic_column"] is None:
            raise TypeError("topic must be a str, or topic_column has to be given")
        if on_delivery is not None and not callable(on_delivery):
            raise TypeError(f"on_delivery must be callable, not {type(on_delivery).__name__}")
        if isinstance(timestamp, str):
            columns["timestamp"] = timestamp
            rows.zero_is_time = isinstance(timestamp, ExactTimestamps)
        elif timestamp is not None:
            rows.timestamp_ms = _whole(timestamp, "timestamp", 0, 1 << 53)
        if isinstance(partition, str):
            columns["partition"] = partition
        elif partition is not None:
            rows.partition = <int32_t>_whole(partition, "partition", -1, 2147483647)
        rows.needs_partition = needs_partition
        if needs_partition and "partition" not in columns and rows.partition < 0:
            raise ValueError("partitioner_cb isn't called for the rows of Arrow columns: give a partition, or a column of partitions")
        for name, header in self.added_headers.items():
            self.source.add_header(name, header[0], header[1])
        self.source.open(data)
        for role in range(<int>KN_ROWS_ROLES):
            column = columns.get(ROLES[role])
            if column is not None:
                self.source.use(<kn_rows_role>role, column)
        return 0

    cdef int begin_report(self, on_delivery) except -1:
        cdef void *binding
        if on_delivery is None:
            return 0
        self.report = ArrowReport.__new__(ArrowReport)
        self.report.callback = on_delivery
        binding = self.core._callbacks.hold(self.report, 1)
        self.counter = kn_delivery_counter_new(&self.handle.engine.counters, binding)
        if self.counter == NULL:
            self.core._callbacks.take(binding)
            raise MemoryError
        self.source.rows.counter = self.counter
        return 0

    cdef int64_t taken(self):
        return 0 if self.source is None else self.source.rows.before + self.source.rows.at

    cdef int run(self, int64_t deadline_us, int64_t stall_us) except -1:
        while self.source.next_chunk():
            self._append_chunk(&deadline_us, stall_us)
            if self.source.stream.release == NULL:
                break
        return 0

    cdef int _append_chunk(self, int64_t *deadline_us, int64_t stall_us) except -1:
        cdef kn_rows *rows = &self.source.rows
        cdef kn_engine *engine
        cdef int status
        while rows.at < rows.length:
            engine = self.handle.engine
            if kn_flag_is_set(&self.core._closed) or engine == NULL:
                raise self.core.engine.closed_error("Producer has been closed")
            if self.check_stop is None:
                with nogil:
                    status = kn_rows_append_waiting(rows, engine, deadline_us, stall_us)
            else:
                status = self._append_briefly(rows, engine, deadline_us, stall_us)
            PyErr_CheckSignals()
            if status == KN_ERR_STALE:
                self._add_topic()
            elif status == KN_ERR_TOO_LARGE:
                self._refuse_row()
            elif status != KN_OK and status != KN_ERR_INTERRUPTED:
                raise self._failure(status)
        return 0

    cdef int _append_briefly(self, kn_rows *rows, kn_engine *engine, int64_t *deadline_us, int64_t stall_us) except? -1:
        # Append as kn_rows_append_waiting() does, but wait only a short time.
        cdef int64_t before = rows.at
        cdef int64_t until_us
        cdef int status
        self.check_stop()
        until_us = min(deadline_us[0], kn_clock_us() + STOP_CHECK_INTERVAL_US)
        with nogil:
            status = kn_rows_append_waiting(rows, engine, &until_us, 0)
        if stall_us > 0 and rows.at > before:
            deadline_us[0] = kn_clock_us() + stall_us
        if status == KN_ERR_FULL and until_us <= kn_clock_us() < deadline_us[0]:
            return KN_OK
        return status

    cdef int _add_topic(self) except -1:
        # The next row names a topic that is new to this call.
        cdef const uint8_t *name
        cdef int64_t size
        cdef Topic topic
        kn_rows_topic_name(&self.source.rows, &name, &size)
        topic = self.engine.topic_at((<const char *>name)[:size].decode())
        if kn_rows_add_topic(&self.source.rows, topic.topic) != KN_OK:
            raise MemoryError
        return 0

    cdef int _refuse_row(self) except -1:
        # The next row is too large. It goes into the report. Without a report it ends the call.
        cdef kn_rows *rows = &self.source.rows
        cdef int64_t row = rows.before + rows.at
        if self.report is None:
            raise self.core._refusal(KN_ERR_TOO_LARGE, None, f"row {row} ({row} queued)")
        if self.refusal is None:
            self.refusal = self.core._refusal(KN_ERR_TOO_LARGE).args[0]
        self.report.add(row, self.refusal)
        rows.at += 1
        return 0

    cdef object _failure(self, int status):
        if status == KN_ERR_INVALID:
            return ValueError(f"the Arrow data, row {self.taken()}: changed after it was checked")
        return self.core._refusal(status)

    cdef object produce(self, topic, data, dict columns, timestamp, partition, on_delivery, timeout, double block_s, bint needs_partition):
        cdef int64_t deadline_us = KN_NEVER
        cdef int64_t stall_us = 0
        try:
            if timeout is not None:
                deadline_us = kn_deadline_us(seconds(timeout))
            elif block_s > 0:
                stall_us = <int64_t>(block_s * 1e6)
                deadline_us = kn_clock_us() + stall_us
            self.prepare(topic, data, columns, timestamp, partition, on_delivery, needs_partition)
            self.begin_report(on_delivery)
            self.run(deadline_us, stall_us)
        except BaseException as error:
            error.queued = self.taken()
            self.finish(True)
            raise
        finally:
            if self.source is not None:
                self.source.close()
        taken = self.taken()
        self.finish(False)
        return taken

    cdef int finish(self, bint failed) except -1:
        cdef kn_delivery_counter *counter = self.counter
        self.counter = NULL
        return 0 if counter == NULL else self.core._end_counter(counter, self.report, self.taken(), failed)


def produce_rows(DeliveryCore core not None, topic, data, dict columns not None, timestamp, partition, on_delivery, timeout, double block_s,
                 bint needs_partition, check_stop=None, dict added_headers=None):
    """The body of `Producer.produce_arrow`.

    ``columns`` maps each role to a name, an index or None. ``block_s`` is max.block.ms, 0 for none.
    ``needs_partition`` says that there is a ``partitioner_cb``. ``check_stop()`` is called often. It
    raises an exception to end the call. ``added_headers`` has name and value of a header for each row
    whose "value" or "key" isn't null.
    """
    cdef Call call = Call.__new__(Call)
    call.core = core
    call.check_stop = check_stop
    call.added_headers = added_headers or {}
    return call.produce(topic, data, columns, timestamp, partition, on_delivery, timeout, block_s, needs_partition)
