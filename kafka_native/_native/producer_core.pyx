# cython: nonecheck=False
# produce() is hot. Its code checks for None by hand, such as for the `engine` of an uninitialized
# client: tests/native/test_uninitialised.py
# cython: freethreading_compatible=True
"""ProducerCore: produce(), produce_many() and produce_batch().

The public `kafka_native.Producer` derives from it. delivery_core.pyx reports the outcomes.

Thread: any. Waiting for room releases the interpreter lock. produce() takes one leaf lock of the
engine, and no holder of it ever blocks.

Without an interpreter lock produce() doesn't hold the engine's handle, whose reference count all
threads would change. Instead, it uses a topic inside a gate, which close() closes before the engine
may be freed. Slower paths hold the handle.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.number cimport PyIndex_Check, PyNumber_Index
from cpython.ref cimport Py_XDECREF, Py_XINCREF, PyObject
from cpython.sequence cimport PySequence_Check
from cpython.tuple cimport PyTuple_GET_ITEM
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, realloc

from collections.abc import Mapping

from kafka_native._native.delivery cimport Delivery
from kafka_native._native.delivery_core cimport DeliveryCore
from kafka_native._native.engine cimport Engine, EngineHandle, Topic, handle_of
from kafka_native._native.free_threading cimport (
    kn_flag_is_set,
    kn_gate,
    kn_gate_close,
    kn_gate_enter,
    kn_gate_leave,
    kn_pair,
    kn_pair_exchange,
    kn_pair_find,
    kn_pointer_exchange,
)
from kafka_native._native.message cimport Message
from kafka_native._native.kn_engine cimport *
from kafka_native._native.kn_enums cimport *
from kafka_native._native.kn_records cimport *
from kafka_native._native.primitives cimport exact_text
from kafka_native.errors import KafkaError, KafkaException

cdef extern from "Python.h":
    int PyArg_Parse(object source, const char *format, ...) except 0
    int PyArg_ParseTuple(object source, const char *format, ...) except 0

cdef enum:
    HEADER_VARINTS_BYTES = 20  # the maximum size of the two varints of an encoded header
    PIECE_BYTES_MAX = 2147483647
    NO_SUCH_PARTITION = 2147483647  # in place of a negative number
    NAMES_SHIFT = 52
    NAMES_COUNT = 4096  # 1 << (64 - NAMES_SHIFT)
    CONFLUENT_TOPIC_BYTES_MAX = 512

cdef object ANY_PARTITION = -1
cdef object NOW = 0
cdef frozenset BATCH_KEYS = frozenset({"value", "key", "headers", "partition", "timestamp", "callback", "on_delivery", "_error"})


cdef struct Piece:
    # A key, a value or a header's part, borrowed from a Python object. `view` is held only if
    # `buffered`.
    const uint8_t *data
    Py_ssize_t size
    bint buffered
    Py_buffer view


cdef inline int _borrow(object source, Piece *piece, str what, bint confluent=False, pair=None) except -1:
    # `what`, and `pair` for a header, are for errors: to make their text takes longer than the call.
    # Inline for the usual types. The others are in another function, so that this one stays small.
    piece.buffered = False
    if source is None:
        piece.data = NULL
        piece.size = 0
        return 0
    if not PyBytes_CheckExact(source):
        return _borrow_other(source, piece, what, confluent, pair)
    piece.data = <const uint8_t *>PyBytes_AS_STRING(source)
    piece.size = PyBytes_GET_SIZE(source)
    return 0 if piece.size <= PIECE_BYTES_MAX else _borrow_too_much(piece, _named(what, pair))


cdef str _place(Py_ssize_t index):
    return "" if index < 0 else f"message {index} (nothing is queued): "


cdef str _named(str what, pair):
    return what if pair is None else f"{what} {pair[0]!r}"


cdef int _borrow_other(object source, Piece *piece, str what, bint confluent, pair) except -1:
    if isinstance(source, str):
        piece.data = <const uint8_t *>PyUnicode_AsUTF8AndSize(source, &piece.size)
    elif confluent:  # no bytearray
        PyArg_Parse(source, "y#", &piece.data, &piece.size)
    else:
        try:
            PyObject_GetBuffer(source, &piece.view, PyBUF_SIMPLE)
        except TypeError:
            raise TypeError(f"{_named(what, pair)} must be bytes, str or None, not {type(source).__name__}: encode it first") from None
        except BufferError:
            raise TypeError(f"{_named(what, pair)} must be contiguous bytes, str or None") from None
        piece.buffered = True
        piece.data = <const uint8_t *>piece.view.buf
        piece.size = piece.view.len
    return 0 if piece.size <= PIECE_BYTES_MAX else _borrow_too_much(piece, _named(what, pair))


cdef int _borrow_too_much(Piece *piece, str what) except -1:
    _release(piece)
    raise ValueError(f"{what} has {piece.size} bytes, more than a record can hold")


cdef inline void _release(Piece *piece) noexcept:
    if piece.buffered:
        PyBuffer_Release(&piece.view)
        piece.buffered = False


cdef inline int _opaque(on_delivery, callback, PyObject **opaque, bint confluent=False) except -1:
    # The callback, borrowed from the arguments, or NULL. Small, so that it is inlined.
    opaque[0] = NULL
    return 0 if on_delivery is None and callback is None else _opaque_of(on_delivery if callback is None else callback, opaque, confluent)


cdef int _opaque_of(on_delivery, PyObject **opaque, bint confluent) except -1:
    if not (confluent or callable(on_delivery)):
        raise TypeError(f"on_delivery must be callable, not {type(on_delivery).__name__}")
    opaque[0] = <PyObject *>on_delivery
    return 0


cdef inline int32_t _partition(source) except? -2:
    # The usual type takes the short way.
    cdef int32_t number = source if PyLong_CheckExact(source) else _number(source, "partition")
    if number < -1:
        raise ValueError(f"partition must be a number from 0 on, or -1 for the partitioner's choice, not {number}")
    return number


cdef inline object _number(source, str what):
    # Cython's own conversion would truncate a float.
    if PyLong_CheckExact(source):
        return source
    if not PyIndex_Check(source):
        raise TypeError(f"{what} must be an int, not {type(source).__name__}")
    return PyNumber_Index(source)


cdef inline int64_t _moment(source, bint may_be_negative=False) except? -1:
    # Usually 0, for now, in place of a negative number.
    cdef int64_t moment = _number(source, "timestamp")
    return moment if may_be_negative else max(0, moment)


cdef tuple _column(source, Py_ssize_t count, str what, str otherwise=""):
    # Return one item for each message. With count -1 any number is allowed. It is a tuple, because
    # code that runs meanwhile could change another sequence.
    cdef tuple items
    if isinstance(source, (str, bytes, bytearray)) or not PySequence_Check(source):
        raise TypeError(f"{what} must be {otherwise}a sequence with an item a message, not {type(source).__name__}")
    items = tuple(source)
    if count >= 0 and len(items) != count:
        raise ValueError(f"{what} has {len(items)} items for {count} values")
    return items


cdef _with_index(error, Py_ssize_t index, str note):
    # Return the same error with the message's index. The class may differ: a UnicodeEncodeError,
    # for example, can't be made from a text.
    kind = TypeError if isinstance(error, TypeError) else OverflowError if isinstance(error, OverflowError) else ValueError
    return kind(f"message {index}: {error} ({note})")


cdef _after(Py_ssize_t queued, error):
    # Return the error of a call that has queued so many messages.
    error.queued = queued
    return error


cdef str _confluent_name(source):
    try:
        return str(source)
    except Exception:
        raise TypeError("expected header key to be unicode string") from None


@cython.final
cdef class Columns:
    """The arguments of one produce_many(). All but the items are checked."""

    cdef tuple values
    cdef tuple keys  # None: none, here and below
    cdef tuple headers
    cdef tuple partitions  # None: `partition` for all
    cdef tuple timestamps  # None: `timestamp` for all
    cdef Py_ssize_t count
    cdef int32_t partition
    cdef int32_t partition_now  # the partition of the refused message
    cdef int64_t timestamp  # 0: now
    cdef object on_delivery  # the owner of the borrowed `opaque`
    cdef PyObject *opaque

    @staticmethod
    cdef Columns of(values, keys, headers, partition, timestamps, on_delivery):
        cdef Columns self = Columns.__new__(Columns)
        self.values = _column(values, -1, "values")
        self.count = len(self.values)
        self.keys = None if keys is None else _column(keys, self.count, "keys")
        self.headers = None if headers is None else _column(headers, self.count, "headers")
        self.partition = -1
        self.on_delivery = on_delivery
        _opaque(on_delivery, None, &self.opaque)
        if PyIndex_Check(partition):
            self.partition = _partition(partition)
        else:
            self.partitions = _column(partition, self.count, "partition", "an int or ")
        if timestamps is None or PyIndex_Check(timestamps):
            self.timestamp = 0 if timestamps is None else max(0, _number(timestamps, "timestamps"))
        else:
            self.timestamps = _column(timestamps, self.count, "timestamps", "an int or ")
        return self

    cdef int32_t gather(self, Py_ssize_t index, kn_message *messages) noexcept:
        # Gather the messages from `index` on that consist of bytes and None, at most
        # KN_PRODUCE_RUN_MAX. They need no release. It runs no foreign code, and the tuples keep the
        # bytes alive. At any other message it stops, and _append_row() continues.
        cdef bint now = self.timestamps is None and self.timestamp <= 0
        cdef int64_t wall_ms = kn_wall_ms() if now else 0
        cdef int32_t count = 0
        cdef int32_t count_max = KN_PRODUCE_RUN_MAX
        cdef kn_message *message
        if self.count - index < count_max:
            count_max = <int32_t>(self.count - index)
        while count < count_max:
            message = &messages[count]
            message.headers = NULL
            message.headers_bytes = 0
            message.header_count = 0
            message.key = NULL
            message.key_bytes = 0
            message.partition = self.partition
            message.timestamp_ms = wall_ms if now else self.timestamp
            message.wall_ms = wall_ms
            message.opaque = NULL
            if not _read_plain(PyTuple_GET_ITEM(self.values, index), &message.value, &message.value_bytes):
                break
            if self.keys is not None and not _read_plain(PyTuple_GET_ITEM(self.keys, index), &message.key, &message.key_bytes):
                break
            if self.headers is not None and PyTuple_GET_ITEM(self.headers, index) != <PyObject *>None:
                break
            if self.partitions is not None and not _read_plain_partition(PyTuple_GET_ITEM(self.partitions, index), &message.partition):
                break
            if self.timestamps is not None and not _read_plain_timestamp(PyTuple_GET_ITEM(self.timestamps, index), &message.timestamp_ms):
                break
            index += 1
            count += 1
        return count


cdef inline bint _read_plain(PyObject *source, const uint8_t **data, int32_t *size) noexcept:
    cdef Py_ssize_t whole
    if source == <PyObject *>None:
        data[0] = NULL
        size[0] = 0
        return True
    if not PyBytes_CheckExact(<object>source):
        return False
    whole = PyBytes_GET_SIZE(<object>source)
    data[0] = <const uint8_t *>PyBytes_AS_STRING(<object>source)
    size[0] = <int32_t>whole
    return whole <= PIECE_BYTES_MAX


cdef inline bint _read_plain_partition(PyObject *source, int32_t *number) noexcept:
    cdef int overflow = 0
    cdef long long wide
    if not PyLong_CheckExact(<object>source):
        return False
    wide = PyLong_AsLongLongAndOverflow(<object>source, &overflow)
    number[0] = <int32_t>wide
    return overflow == 0 and -1 <= wide <= PIECE_BYTES_MAX


cdef inline bint _read_plain_timestamp(PyObject *source, int64_t *number) noexcept:
    cdef int overflow = 0
    if not PyLong_CheckExact(<object>source):
        return False
    number[0] = max(0, PyLong_AsLongLongAndOverflow(<object>source, &overflow))
    return overflow == 0


@cython.no_gc_clear
cdef class ProducerCore(DeliveryCore):
    """The compiled half of `kafka_native.Producer`."""

    _message_type = Message
    _like_confluent = False
    """Whether arguments and reports are treated as in confluent_kafka. `__cinit__` reads it."""

    cdef int64_t _block_us  # max.block.ms
    cdef object _partitioner  # partitioner_cb or None
    cdef object _partitions_of  # topic -> its number of partitions; waits for metadata
    # Topics by the addresses of their names, because most calls pass the same few objects. So
    # neither these objects nor a dict must be loaded into the cache, which would slow down
    # producing to a thousand topics in turn. A pair is a name, with a reference so that no other
    # object gets its address, and its kn_topic. The table is empty once the producer is closed.
    cdef kn_pair *_names
    cdef void *_scratch  # a buffer for encoded headers, behind its capacity; NULL: none, or a call has it
    cdef kn_gate _gate  # of threads that use a topic; `_closed` closes it

    def __cinit__(self):
        self._names = <kn_pair *>calloc(NAMES_COUNT, sizeof(kn_pair))
        if self._names == NULL:
            raise MemoryError
        self._confluent = self._like_confluent

    def _open(self, Engine engine not None, on_delivery, exception_of not None, double block_s, partitioner, partitions_of not None):
        """Initialize the core. The constructor of the public class calls it once."""
        self._partitioner = partitioner
        self._partitions_of = partitions_of
        self._block_us = <int64_t>(block_s * 1e6)
        self.engine = engine
        self._on_delivery = on_delivery
        self._exception_of = exception_of
        engine.pins.message_type = self._message_type

    def __dealloc__(self):
        if self._names != NULL:
            self._forget_names()
        free(self._names)
        free(self._scratch)

    cdef void _forget_names(self) noexcept:
        cdef int index
        for index in range(NAMES_COUNT):
            self._remember(&self._names[index], NULL, NULL)

    cdef inline void _remember(self, kn_pair *place, PyObject *text, kn_topic *topic) noexcept:
        # Release the old name last: it may be of your own class, whose deallocation runs code.
        Py_XINCREF(text)
        Py_XDECREF(<PyObject *>kn_pair_exchange(place, text, topic))

    def _mark_closed(self):
        """Refuse further produce() calls, also waiting ones.

        The public class's close() calls it first.
        """
        if self.engine is None or not self.engine.is_forked():
            kn_gate_close(&self._gate, &self._closed)
        # In a forked child the threads in the gate don't exist.
        DeliveryCore._mark_closed(self)
        self._forget_names()

    # --- produce: producer.py has the docstrings ---

    def produce(self, topic, value=None, key=None, partition=-1, callback=None, on_delivery=None, timestamp=0, headers=None):
        cdef kn_topic *target = self._target(topic)
        cdef PyObject *opaque
        cdef int status
        if target == NULL:
            self._refuse_closed(topic, value, key, partition, timestamp, headers)
        cdef int32_t number = self._number_of(target, topic, partition)
        cdef int64_t moment = 0 if timestamp is NOW else _moment(timestamp, self._confluent)
        _opaque(on_delivery, callback, &opaque, self._confluent)
        if self._partitioner is not None and number == -1:
            number = self._choose(target, topic, key)
        status = self._append(target, value, key, headers, number, moment, opaque, 0)
        if status != KN_OK:
            if status == KN_ERR_FULL and self._block_us:
                status = self._append_waiting(target, value, key, headers, number, moment, opaque)
            if status != KN_OK:
                raise self._refused(status, topic, number)

    cdef bint _queue_at_once(self, topic, value, key, partition, timestamp, headers, Delivery delivery) except -1:
        cdef kn_topic *target = self._target(topic)
        cdef int status
        if target == NULL:
            self._refuse_closed(topic, value, key, partition, timestamp, headers)
        cdef int32_t number = self._number_of(target, topic, partition)
        cdef int64_t moment = 0 if timestamp is NOW else _moment(timestamp, self._confluent)
        status = self._append(target, value, key, headers, number, moment, <PyObject *>delivery, 0)
        if status != KN_OK and status != KN_ERR_FULL:
            raise self._refused(status, topic, number)
        return status == KN_OK

    cdef inline int32_t _number_of(self, kn_topic *target, topic, partition) except? -2:
        # The default is compared by identity: a conversion would cost a tenth of the call.
        if partition is ANY_PARTITION:
            return -1
        return self._confluent_partition(target, topic, partition) if self._confluent else _partition(partition)

    cdef int _refuse_closed(self, topic, value, key, partition, timestamp, headers) except -1:
        # confluent_kafka converts the arguments before it checks that the producer is open.
        cdef const char *text
        cdef Py_ssize_t size
        cdef int number
        cdef long long moment
        PyArg_ParseTuple((topic, value, key, partition, timestamp), "sz#z#iL", &text, &text, &size, &text, &size, &number, &moment)
        if headers is not None:
            self._try_headers(headers)
        self._check_open()
        return 0

    cdef int32_t _confluent_partition(self, kn_topic *target, topic, partition) except? -2:
        # Return the partition. If the topic is known and has no such partition, raise, as in
        # confluent_kafka.
        cdef int32_t number = _number(partition, "partition")
        cdef int32_t count = 0 if number == -1 else self._count_of(target)
        if count and not 0 <= number < count:
            raise self._refused(KN_ERR_UNKNOWN_PARTITION, topic, number)
        return NO_SUCH_PARTITION if number < -1 else number

    cdef int32_t _count_of(self, kn_topic *target) noexcept:
        # Return the number of partitions; 0: it isn't known, or the producer is closed.
        cdef int32_t count = 0
        if kn_gate_enter(&self._gate, &self._closed):
            count = kn_topic_partition_count(target)
            kn_gate_leave(&self._gate)
        return count

    def produce_many(self, topic, values, keys=None, partition=-1, headers=None, timestamps=None, on_delivery=None):
        cdef kn_topic *target = self._known_target(topic)
        cdef kn_message messages[KN_PRODUCE_RUN_MAX]
        cdef Columns columns = Columns.of(values, keys, headers, partition, timestamps, on_delivery)
        cdef Py_ssize_t index = 0
        cdef int32_t gathered
        cdef int32_t queued = 0
        cdef int status = KN_OK
        if self._partitioner is not None and (columns.partitions is not None or columns.partition == -1):
            columns.partitions = self._choose_all(target, topic, columns.keys, columns.partitions, columns.count)
        try:
            while index < columns.count:
                gathered = columns.gather(index, messages)
                if gathered:
                    status = self._produce_run(target, messages, gathered, columns.opaque, &queued)
                    index += queued
                    if status == KN_OK:
                        continue
                    columns.partition_now = messages[queued].partition
                else:
                    status = self._append_row(target, columns, index, 0)
                if status == KN_ERR_FULL and self._block_us:
                    status = self._append_row(target, columns, index, self._block_us)
                if status != KN_OK:
                    break
                index += 1
        except (TypeError, ValueError, OverflowError) as error:
            raise _after(index, _with_index(error, index, f"{index} queued")) from error
        if status == KN_OK or (index > 0 and status in (KN_ERR_FULL, KN_ERR_NOMEM)):
            return index  # the next call raises the exception, if the reason persists
        raise _after(index, self._refused(status, topic, columns.partition_now, f"message {index} ({index} queued)"))

    cdef int _append_row(self, kn_topic *target, Columns columns, Py_ssize_t index, int64_t block_us) except? -100:
        # Append one message of produce_many(): one with headers, or one that gather() can't take.
        # It raises the errors of invalid messages.
        cdef int32_t number = columns.partition
        cdef int64_t timestamp = columns.timestamp
        value = columns.values[index]
        key = None if columns.keys is None else columns.keys[index]
        headers = None if columns.headers is None else columns.headers[index]
        if columns.partitions is not None:
            number = _partition(columns.partitions[index])
        if columns.timestamps is not None:
            timestamp = _moment(columns.timestamps[index])
        columns.partition_now = number
        if block_us:
            return self._append_waiting(target, value, key, headers, number, timestamp, columns.opaque)
        return self._append(target, value, key, headers, number, timestamp, columns.opaque, 0)

    def produce_batch(self, topic, messages, partition=-1, callback=None, on_delivery=None):
        cdef kn_topic *target
        cdef list rows
        cdef tuple row
        cdef int32_t number
        cdef int32_t given
        cdef const char *text
        cdef int status
        cdef Py_ssize_t queued = 0
        cdef bint may_wait = self._block_us != 0
        cdef PyObject *opaque
        if self._confluent:
            PyArg_ParseTuple((topic, partition), "si", &text, &given)
        else:
            given = _partition(partition)
        if not isinstance(messages, list):
            raise TypeError(f"messages must be a list, not {type(messages).__name__}")
        if self._confluent and not messages:
            return 0
        target = self._known_target(topic)
        messages = list(messages)
        _opaque(on_delivery, callback, &opaque, self._confluent)
        if self._confluent:
            rows = self._confluent_rows(target, messages, given, on_delivery if callback is None else callback)
        else:
            rows = self._checked_rows(messages, given, on_delivery if callback is None else callback)
        if self._partitioner is not None:
            rows = self._choose_rows(target, topic, rows)
        for row in rows:
            source = row[0]
            number = row[4]
            # The engine takes any negative number for the partitioner's choice, so check it here.
            status = KN_ERR_UNKNOWN_PARTITION
            if number >= -1:
                _opaque(row[6], None, &opaque, self._confluent)
                status = self._append(target, row[1], row[2], row[3], number, row[5], opaque, 0)
                if status == KN_ERR_FULL and may_wait:
                    status = self._append_waiting(target, row[1], row[2], row[3], number, row[5], opaque)
                    may_wait = status != KN_ERR_FULL  # the rest must not wait for max.block.ms each
            if status == KN_OK:
                queued += 1
                if not self._confluent:
                    source.pop("_error", None)
            elif status == KN_ERR_NOMEM or status == KN_ERR_CLOSED:
                raise self._refused(status, topic, number)
            elif status == KN_ERR_FULL:
                source["_error"] = self.engine.error_of(status, 0, None)
            else:
                source["_error"] = self._refused(status, topic, given if self._confluent else number).args[0]
        return queued

    cdef list _checked_rows(self, list messages, int32_t partition, on_delivery):
        # Return the messages of a produce_batch(). They are taken out of the dicts once, because
        # code of a buffer could change a dict between check and use.
        cdef list rows = []
        cdef Py_ssize_t index
        for index, message in enumerate(messages):
            if not isinstance(message, dict):
                raise TypeError(f"message {index} must be a dict, not {type(message).__name__}")
            source = message
            try:
                for name in source:
                    if name not in BATCH_KEYS:
                        raise ValueError(f"unknown key {name!r}")
                rows.append(self._checked_row(source, partition, on_delivery))
            except (TypeError, ValueError, OverflowError) as error:
                raise _with_index(error, index, "nothing is queued") from error
        return rows

    cdef list _confluent_rows(self, kn_topic *target, list messages, int32_t partition, on_delivery):
        # Return the messages as confluent_kafka reads them: with a value, a key and a callback.
        # Other keys are checked or ignored, and the partition is the same for all.
        cdef list rows = []
        cdef Py_ssize_t index
        cdef int32_t count = 0 if partition == -1 else self._count_of(target)
        if count and not 0 <= partition < count:
            partition = -2  # each message gets the error
        elif partition < -1:
            partition = NO_SUCH_PARTITION
        for index, message in enumerate(messages):
            if not isinstance(message, dict):
                raise TypeError(f"Message at index {index} must be a dict")
            source = message
            value, key, headers = source.get("value"), source.get("key"), source.get("headers")
            for name, piece in (("value", value), ("key", key)):
                if not (piece is None or isinstance(piece, (bytes, str))):
                    raise TypeError(f"Message {name} at index {index} must be bytes or str")
                if isinstance(piece, str):
                    (<str>piece).encode()  # raises the exception for surrogates
            own = source.get("partition")
            if not (own is None or isinstance(own, int)):
                raise TypeError(f"Message partition at index {index} must be int")
            if source.get("timestamp") is not None:
                raise NotImplementedError("Message timestamps are not currently supported in batch mode")
            if headers is not None:
                self._check_headers(headers, index)
            callback = source.get("callback")
            rows.append((source, value, key, None, partition, 0, on_delivery if callback is None else callback))
        return rows

    cdef int _check_headers(self, headers, Py_ssize_t index) except -1:
        try:
            self._try_headers(headers)
        except (TypeError, ValueError) as error:
            raise ValueError(f"Invalid headers at index {index}") from error
        return 0

    cdef tuple _checked_row(self, source, int32_t partition, on_delivery):
        cdef PyObject *opaque
        value, key, headers = source.get("value"), source.get("key"), source.get("headers")
        own_partition, timestamp = source.get("partition"), source.get("timestamp")
        own = source.get("callback")
        if own is None:
            own = source.get("on_delivery")
        own = on_delivery if own is None else own
        number = partition if own_partition is None else _number(own_partition, "partition")
        moment = 0 if timestamp is None else _moment(timestamp)
        _opaque(own, None, &opaque)
        self._append(NULL, value, key, headers, number, moment, opaque, 0)
        return source, value, key, headers, number, moment, own

    # --- partitioner_cb: on the caller's thread, without a lock, and before any message is queued ---

    cdef int32_t _choose(self, kn_topic *target, topic, key, Py_ssize_t index=-1) except? -2:
        # Return a partition, or -1: the function leaves the choice to the client. `index`: of a
        # message of several, for errors.
        cdef Piece piece
        cdef str name = exact_text(topic)
        cdef int32_t count
        try:
            _borrow(key, &piece, "key")
        except (TypeError, ValueError) as error:
            raise type(error)(f"{_place(index)}{error}") from None
        try:
            data = key if key is None or PyBytes_CheckExact(key) else PyBytes_FromStringAndSize(<const char *>piece.data, piece.size)
        finally:
            _release(&piece)
        if kn_flag_is_set(&self._closed):  # code of the key may have closed it
            raise RuntimeError("Producer has been closed")
        count = self._count_of(target)
        if count == 0:
            count = self._partitions_of(name)
        answer = self._partitioner(name, data, count)
        if not PyIndex_Check(answer):
            raise TypeError(f"{_place(index)}partitioner_cb returned {answer!r} for topic {name!r}: it must return an int from 0 to {count - 1}, or -1")
        number = PyNumber_Index(answer)
        if not -1 <= number < count:
            raise ValueError(
                f"{_place(index)}partitioner_cb returned {number} for topic {name!r}, whose partitions are 0 to {count - 1} (-1: the client chooses)")
        return number

    cdef tuple _choose_all(self, kn_topic *target, topic, tuple keys, tuple partitions, Py_ssize_t count):
        # Return a partition for each message of produce_many(). Values other than -1 stay, and are
        # checked later.
        cdef list chosen = [-1] * count if partitions is None else list(partitions)
        cdef Py_ssize_t index
        for index in range(count):
            if PyIndex_Check(chosen[index]) and PyNumber_Index(chosen[index]) == -1:
                chosen[index] = self._choose(target, topic, None if keys is None else keys[index], index)
        return tuple(chosen)

    cdef list _choose_rows(self, kn_topic *target, topic, list rows):
        cdef list chosen = []
        cdef Py_ssize_t index
        cdef tuple row
        for index, row in enumerate(rows):
            if row[4] == -1:
                row = row[:4] + (self._choose(target, topic, row[2], index),) + row[5:]
            chosen.append(row)
        return chosen

    @cython.final
    cdef inline kn_topic *_target(self, topic) except? NULL:
        # Return the topic of a produce(). It lives as long as the engine. NULL without an exception:
        # a closed producer, whose produce() has to check its arguments first.
        cdef kn_pair *place = &self._names[(<uint64_t><uintptr_t><PyObject *>topic * <uint64_t>0x9e3779b97f4a7c15) >> NAMES_SHIFT]
        cdef kn_topic *found = <kn_topic *>kn_pair_find(place, <PyObject *>topic)
        return found if found != NULL else self._find_topic(topic, place)

    cdef kn_topic *_known_target(self, topic) except NULL:
        cdef kn_topic *target = self._target(topic)
        if target == NULL:
            self._check_open()
        return target

    cdef kn_topic *_find_topic(self, topic, kn_pair *place) except? NULL:
        cdef Topic found
        if self._confluent:
            if self.engine is None or kn_flag_is_set(&self._closed):
                return NULL
            self._check_confluent_topic(topic)
        if self.engine is None:
            raise RuntimeError(self._uninitialized_text)
        if kn_flag_is_set(&self._closed):
            raise self.engine.closed_error("Producer has been closed")
        if not isinstance(topic, str):
            raise TypeError(f"topic must be a str, not {type(topic).__name__}")
        found = self.engine.topic_at(topic, self._confluent)
        self._remember(place, <PyObject *>topic, found.topic)
        return found.topic

    cdef int _check_confluent_topic(self, topic) except -1:
        cdef const char *text
        cdef Py_ssize_t size
        PyArg_Parse(topic, "s", &text)
        PyUnicode_AsUTF8AndSize(topic, &size)
        if size > CONFLUENT_TOPIC_BYTES_MAX:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "Unable to produce message: Local: Invalid argument or configuration"))
        return 0

    @cython.final
    cdef inline int _append(self, kn_topic *target, value, key, headers, int32_t partition, int64_t timestamp, PyObject *opaque,
                            int64_t wall_ms) except? -100:
        # Append one message, and return the engine's status. With target NULL check everything and
        # queue nothing. In the gate no Python code runs.
        cdef kn_message message
        cdef Piece value_piece, key_piece
        cdef int status = KN_OK
        message.headers = NULL
        message.headers_bytes = 0
        message.header_count = 0
        value_piece.buffered = key_piece.buffered = False
        try:
            _borrow(value, &value_piece, "value", self._confluent)
            _borrow(key, &key_piece, "key", self._confluent)
            if headers is not None:
                self._encode_headers(headers, &message)
            message.value = value_piece.data
            message.value_bytes = <int32_t>value_piece.size
            message.key = key_piece.data
            message.key_bytes = <int32_t>key_piece.size
            message.partition = partition
            message.timestamp_ms = timestamp
            message.wall_ms = wall_ms
            if target != NULL:
                # Code of the application may have closed the producer since `target` was found.
                status = self._produce(target, &message, opaque)
        finally:
            if message.headers != NULL:
                self._return_scratch(message.headers)
            _release(&value_piece)
            _release(&key_piece)
        return status

    @cython.final
    cdef inline int _produce(self, kn_topic *target, kn_message *message, PyObject *opaque) except? -100:
        cdef int status = KN_ERR_CLOSED
        message.opaque = NULL if opaque == NULL else self._callbacks.hold(<object>opaque, 1)
        if kn_gate_enter(&self._gate, &self._closed):
            status = kn_topic_produce(target, message)
            kn_gate_leave(&self._gate)
        if status != KN_OK and opaque != NULL:
            self._callbacks.give_back(message.opaque, 1)
        return status

    @cython.final
    cdef int _produce_run(self, kn_topic *target, kn_message *messages, int32_t count, PyObject *opaque, int32_t *queued) except? -100:
        cdef int status = KN_ERR_CLOSED
        cdef int32_t i
        queued[0] = 0
        if opaque != NULL:
            messages[0].opaque = self._callbacks.hold(<object>opaque, count)
            for i in range(1, count):
                messages[i].opaque = messages[0].opaque
        if kn_gate_enter(&self._gate, &self._closed):
            status = kn_topic_produce_run(target, messages, count, queued)
            kn_gate_leave(&self._gate)
        if opaque != NULL and queued[0] < count:
            self._callbacks.give_back(messages[0].opaque, count - queued[0])
        return status

    cdef int _append_waiting(self, kn_topic *target, value, key, headers, int32_t partition, int64_t timestamp, PyObject *opaque) except? -100:
        # Append when there is room, or fail after max.block.ms. Broker threads make room, so no
        # poll() is needed. Each attempt borrows and encodes again, so that nothing is borrowed during
        # the wait.
        cdef int64_t deadline = kn_clock_us() + self._block_us
        cdef int tries = 0
        cdef int status
        cdef EngineHandle handle = handle_of(self.engine)
        if handle.engine == NULL:
            return KN_ERR_CLOSED
        kn_engine_room_begin(handle.engine)
        try:
            while True:
                status = self._append(target, value, key, headers, partition, timestamp, opaque, 0)
                if status != KN_ERR_FULL:
                    return status
                if kn_flag_is_set(&self._closed) or kn_flag_is_set(&self.engine.is_closed):
                    return KN_ERR_CLOSED
                if kn_budget_is_empty(&handle.engine.producer.budget):
                    tries += 1
                    if tries == KN_ROOM_TRIES:
                        return KN_ERR_FULL  # larger than the whole queue: there will never be room
                    continue
                tries = 0
                if not self.engine.wait(&handle.engine.producer.budget.room, deadline):
                    return KN_ERR_FULL
                if handle.engine == NULL:
                    return KN_ERR_CLOSED
        finally:
            if handle.engine != NULL:
                kn_engine_room_end(handle.engine)

    cdef object _refused(self, int status, topic, int partition, where=None):
        # Return the exception for a message to this partition.
        text = f"{exact_text(topic)} has no partition {partition}" if status == KN_ERR_UNKNOWN_PARTITION else None
        return self._refusal(status, text, where)

    cdef int _encode_headers(self, headers, kn_message *message) except -1:
        # `message.headers`, which is NULL before, becomes a buffer of this call: between two headers
        # other code and other threads may run. _return_scratch() takes it, also after an error.
        cdef size_t used = 0
        cdef uint8_t *to
        cdef Piece name, data
        items = headers.items() if isinstance(headers, dict) else headers
        if not isinstance(headers, (list, dict)) and (self._confluent or not isinstance(headers, tuple)):
            if self._confluent or not isinstance(headers, Mapping):
                raise TypeError(f"headers must be a list of (str, bytes) pairs or a dict, not {type(headers).__name__}")
            items = headers.items()
        for item in items:
            if (not isinstance(item, tuple) and (self._confluent or not isinstance(item, list))) or len(item) != 2:
                raise TypeError(f"a header is a (str, bytes) pair, not {item!r}")
            text, content = item
            if not isinstance(text, str):
                if not self._confluent:
                    raise TypeError(f"a header's name must be a str, not {type(text).__name__}")
                text = _confluent_name(text)
            if self._confluent:  # a NUL ends a text
                text = text.partition("\0")[0]
                content = content.partition("\0")[0] if isinstance(content, str) else content
            try:
                _borrow(text, &name, "header name")
            except UnicodeEncodeError:
                # `Message.headers()` returns names that aren't UTF-8 this way
                text = text.encode("utf-8", "surrogateescape")
                _borrow(text, &name, "header name")
            if self._confluent:
                _borrow(content, &data, "value of a header", True)
            else:
                _borrow(content, &data, "value of header", False, item)
            try:
                to = self._scratch_for(message, used, HEADER_VARINTS_BYTES + name.size + data.size)
                used = kn_header_encode(to + used, name.data, <int32_t>name.size, data.data, <int32_t>data.size) - to
            finally:
                _release(&data)
            message.header_count += 1
        message.headers_bytes = used
        return 0

    cdef uint8_t *_scratch_for(self, kn_message *message, size_t used, size_t more) except NULL:
        # Make room for `more` bytes after the used ones, and return the start of the buffer.
        cdef size_t wanted = used + more
        cdef size_t *block
        cdef size_t *larger
        if wanted > 2147483647:
            raise ValueError("headers have more bytes than a record can hold")
        if message.headers == NULL:
            block = <size_t *>kn_pointer_exchange(&self._scratch, NULL)
        else:
            block = <size_t *>message.headers - 1
        if block == NULL or wanted > block[0]:
            larger = <size_t *>realloc(block, sizeof(size_t) + wanted * 2)
            if larger == NULL:
                if message.headers == NULL:
                    free(block)
                raise MemoryError
            block = larger
            block[0] = wanted * 2
        message.headers = <uint8_t *>(block + 1)
        return <uint8_t *>(block + 1)

    cdef void _return_scratch(self, const uint8_t *headers) noexcept:
        # Keep this buffer for the next call, instead of one that another thread has returned.
        free(kn_pointer_exchange(&self._scratch, <size_t *>headers - 1))

    cdef int _try_headers(self, headers) except -1:
        # Raise the exceptions of invalid headers.
        cdef kn_message message
        message.headers = NULL
        message.header_count = 0
        try:
            self._encode_headers(headers, &message)
        finally:
            if message.headers != NULL:
                self._return_scratch(message.headers)
        return 0
