"""The valid and invalid calls of test_aio_side_by_side, and the known differences."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.compat.sides import BASE_MS, Side
from tests.waiting import WAIT_S

Call = Callable[[Any, Side], Awaitable[Any]]

MESSAGES: dict[str, dict[str, Any]] = {
    "text": {"value": "v", "key": "k", "partition": 0},
    "bytes": {"value": b"v", "key": b"k", "partition": 1},
    "empty": {"value": b"", "key": "", "partition": 0},
    "nothing": {"partition": 0},
    "too large": {"value": b"x" * 5000, "partition": 0},
    "no such partition": {"value": "x", "partition": 7},
    "partition str": {"value": "x", "partition": "1"},
    "value int": {"value": 3},
    "key list": {"value": "x", "key": [1]},
    "topic int": {"topic": 3, "value": "x"},
    "partition -5": {"value": "x", "partition": -5},
    "topic nameless": {"topic": "", "value": "x"},
    "bytearray": {"value": bytearray(b"x"), "partition": 0},
    "headers": {"value": "x", "partition": 0, "headers": {"h": b"x"}},
    "timestamp": {"value": "x", "partition": 0, "timestamp": BASE_MS},
    "no such argument": {"value": "x", "partition": 0, "nonsense": 1},
}
PRODUCE_DIFFERENCES: dict[str, tuple[Any, Any]] = {
    # An unsendable message is refused before it is queued, with another class.
    "partition -5": (("KafkaException", "_UNKNOWN_PARTITION"), ("ValueError", "")),
    "topic nameless": (("KafkaException", "TOPIC_EXCEPTION"), ("ValueError", "")),
    "no such argument": (["TOPIC", 0, 0, None, b"x", None, 1], ("TypeError", "")),
    # Messages that confluent_kafka's batches can't hold are sent.
    "bytearray": (("TypeError", ""), ["TOPIC", 0, 0, None, b"x", None, 1]),
    "headers": (("NotImplementedError", ""), ["TOPIC", 0, 0, None, b"x", None, 1]),
    "timestamp": (("NotImplementedError", ""), ["TOPIC", 0, 0, None, b"x", None, 1]),
}
"""The two outcomes, confluent_kafka's first, where they differ. `CALL_DIFFERENCES` is similar."""

PRODUCER_CALLS: dict[str, Call] = {
    "produce nothing": lambda it, side: it.produce(),
    "flush": lambda it, side: it.flush(),
    "flush 0": lambda it, side: it.flush(0),
    "flush by name": lambda it, side: it.flush(timeout=1),
    "flush str": lambda it, side: it.flush("x"),
    "flush None": lambda it, side: it.flush(None),
    "poll": lambda it, side: it.poll(),
    "poll by name": lambda it, side: it.poll(timeout=0.01),
    "poll str": lambda it, side: it.poll("x"),
    "purge": lambda it, side: it.purge(),
    "purge by name": lambda it, side: it.purge(in_queue=False, in_flight=False, blocking=False),
    "purge str": lambda it, side: it.purge("x"),
    "list_topics int": lambda it, side: it.list_topics(3),
    "list_topics timeout": lambda it, side: it.list_topics(side.topic, timeout="x"),
    "init_transactions": lambda it, side: it.init_transactions(),
    "begin_transaction": lambda it, side: it.begin_transaction(),
    "commit_transaction": lambda it, side: it.commit_transaction(),
    "abort_transaction": lambda it, side: it.abort_transaction(),
    "send_offsets_to_transaction": lambda it, side: it.send_offsets_to_transaction(
        [side.at(0, 1)], None
    ),
    "set_sasl_credentials": lambda it, side: it.set_sasl_credentials("a", "b"),
    "set_sasl_credentials None": lambda it, side: it.set_sasl_credentials("a", None),
    "close": lambda it, side: it.close(),
    "close again": lambda it, side: it.close(),
    "closed, flush": lambda it, side: it.flush(1),
    "closed, poll": lambda it, side: it.poll(0),
    "closed, purge": lambda it, side: it.purge(),
    "closed, list_topics": lambda it, side: it.list_topics(timeout=1),
    "closed, cluster_id": lambda it, side: it.cluster_id(timeout=1),
    "closed, init_transactions": lambda it, side: it.init_transactions(1),
    "closed, begin_transaction": lambda it, side: it.begin_transaction(),
    "closed, send_offsets_to_transaction": lambda it, side: it.send_offsets_to_transaction([], b""),
    "closed, commit_transaction": lambda it, side: it.commit_transaction(),
    "closed, abort_transaction": lambda it, side: it.abort_transaction(),
    "closed, set_sasl_credentials": lambda it, side: it.set_sasl_credentials("a", "b"),
}
CONSUMER_CALLS: dict[str, Call] = {
    "poll 0": lambda it, side: it.poll(0),
    "poll str": lambda it, side: it.poll("x"),
    "consume str": lambda it, side: it.consume("x"),
    "consume -1": lambda it, side: it.consume(-1),
    "consume too many": lambda it, side: it.consume(1_000_001),
    "consume timeout": lambda it, side: it.consume(1, "x"),
    "consume None": lambda it, side: it.consume(None, 0),
    "consume timeout None": lambda it, side: it.consume(0, None),
    "subscribe str": lambda it, side: it.subscribe(side.topic),
    "subscribe None": lambda it, side: it.subscribe(None),
    "subscribe nothing": lambda it, side: it.subscribe([]),
    "subscribe callback": lambda it, side: it.subscribe([side.topic], on_assign=3),
    "unsubscribe argument": lambda it, side: it.unsubscribe(3),
    "unsubscribe": lambda it, side: it.unsubscribe(),
    "assign str": lambda it, side: it.assign("t"),
    "assign list of str": lambda it, side: it.assign(["t"]),
    "assign None": lambda it, side: it.assign(None),
    "assign tuple": lambda it, side: it.assign((side.at(0, 0),)),
    "unassign": lambda it, side: it.unassign(),
    "unassign argument": lambda it, side: it.unassign(3),
    "incremental_assign str": lambda it, side: it.incremental_assign("t"),
    "incremental_unassign str": lambda it, side: it.incremental_unassign("t"),
    "incremental_unassign another": lambda it, side: it.incremental_unassign([side.at(0)]),
    "assign": lambda it, side: it.assign([side.at(0, 0)]),
    "incremental_assign again": lambda it, side: it.incremental_assign([side.at(0)]),
    "assignment": lambda it, side: it.assignment(),
    "seek str": lambda it, side: it.seek("x"),
    "seek list": lambda it, side: it.seek([side.at(0, 0)]),
    "seek nowhere": lambda it, side: it.seek(side.at(1, 0)),
    "seek -5": lambda it, side: it.seek(side.at(0, -5)),
    "pause str": lambda it, side: it.pause("x"),
    "pause list of str": lambda it, side: it.pause(["x"]),
    "pause by name": lambda it, side: it.pause(partitions=[side.at(0)]),
    "resume None": lambda it, side: it.resume(None),
    "resume by name": lambda it, side: it.resume(partitions=[side.at(0)]),
    "position str": lambda it, side: it.position("x"),
    "position nothing": lambda it, side: it.position([]),
    "committed str": lambda it, side: it.committed("x"),
    "committed nothing": lambda it, side: it.committed([], timeout=WAIT_S),
    "committed timeout": lambda it, side: it.committed([side.at(0)], timeout="x"),
    "commit both": lambda it, side: it.commit(message=side.lib.Message(), offsets=[side.at(0)]),
    "commit offsets": lambda it, side: it.commit(offsets="x"),
    "commit message": lambda it, side: it.commit(message="x"),
    "commit nothing": lambda it, side: it.commit(offsets=[], asynchronous=False),
    "commit no such argument": lambda it, side: it.commit(nonsense=1),
    "store_offsets": lambda it, side: it.store_offsets(),
    "store_offsets message": lambda it, side: it.store_offsets("x"),
    "store_offsets str": lambda it, side: it.store_offsets(offsets="x"),
    "store_offsets by itself": lambda it, side: it.store_offsets(offsets=[side.at(0, 1)]),
    "watermarks str": lambda it, side: it.get_watermark_offsets("x"),
    "watermarks nowhere": lambda it, side: it.get_watermark_offsets(side.at(7), timeout=WAIT_S),
    "watermarks cached": lambda it, side: it.get_watermark_offsets(side.at(1), cached=True),
    "watermarks timeout": lambda it, side: it.get_watermark_offsets(side.at(0), timeout="x"),
    "offsets_for_times str": lambda it, side: it.offsets_for_times("x"),
    "offsets_for_times nothing": lambda it, side: it.offsets_for_times([], timeout=WAIT_S),
    "offsets_for_times timeout": lambda it, side: it.offsets_for_times(
        [side.at(0, 1)], timeout="x"
    ),
    "list_topics int": lambda it, side: it.list_topics(3),
    "consumer_group_metadata argument": lambda it, side: it.consumer_group_metadata(3),
    "set_sasl_credentials None": lambda it, side: it.set_sasl_credentials(None, "b"),
    "close": lambda it, side: it.close(),
    "close again": lambda it, side: it.close(),
    "closed, poll": lambda it, side: it.poll(0),
    "closed, consume": lambda it, side: it.consume(1, 0),
    "closed, subscribe": lambda it, side: it.subscribe([side.topic]),
    "closed, unsubscribe": lambda it, side: it.unsubscribe(),
    "closed, assign": lambda it, side: it.assign([side.at(0)]),
    "closed, unassign": lambda it, side: it.unassign(),
    "closed, incremental_assign": lambda it, side: it.incremental_assign([side.at(0)]),
    "closed, incremental_unassign": lambda it, side: it.incremental_unassign([side.at(0)]),
    "closed, assignment": lambda it, side: it.assignment(),
    "closed, commit": lambda it, side: it.commit(),
    "closed, committed": lambda it, side: it.committed([side.at(0)]),
    "closed, store_offsets": lambda it, side: it.store_offsets(offsets=[side.at(0, 1)]),
    "closed, position": lambda it, side: it.position([side.at(0)]),
    "closed, seek": lambda it, side: it.seek(side.at(0, 0)),
    "closed, pause": lambda it, side: it.pause([side.at(0)]),
    "closed, resume": lambda it, side: it.resume([side.at(0)]),
    "closed, watermarks": lambda it, side: it.get_watermark_offsets(side.at(0)),
    "closed, offsets_for_times": lambda it, side: it.offsets_for_times([side.at(0, 1)]),
    "closed, list_topics": lambda it, side: it.list_topics(),
    "closed, cluster_id": lambda it, side: it.cluster_id(),
    "closed, consumer_group_metadata": lambda it, side: it.consumer_group_metadata(),
    "closed, set_sasl_credentials": lambda it, side: it.set_sasl_credentials("a", "b"),
}
WRONG_TYPE = ["TypeError", ""]
CALL_DIFFERENCES: dict[tuple[str, str], tuple[Any, Any]] = {
    # None waits for ever.
    ("producer", "flush None"): (WRONG_TYPE, 0),
    # The first mistake is reported first.
    ("producer", "send_offsets_to_transaction"): (
        WRONG_TYPE,
        ["KafkaException", "_NOT_CONFIGURED"],
    ),
    # A second call has no effect.
    ("producer", "close again"): (["RuntimeError", ""], None),
    ("consumer", "close again"): (["RuntimeError", ""], None),
    # confluent_kafka.aio wraps any object, and fails when the callback is due.
    ("consumer", "subscribe callback"): (None, WRONG_TYPE),
    ("consumer", "seek -5"): (None, ["KafkaException", "_INVALID_ARG"]),
    ("consumer", "offsets_for_times nothing"): (["KafkaException", "_INVALID_ARG"], []),
}
