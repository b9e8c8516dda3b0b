"""The fields of librdkafka's statistics document with their types, level by level, to check ours.

``c`` a counter, ``g`` a gauge, ``s`` text, ``b`` a boolean, ``f`` a fraction, ``w`` a window, ``o`` objects of the
level with that name, by their names, ``n`` numbers by their names.
"""

from __future__ import annotations

from typing import Any


def _fields(text: str) -> dict[str, str]:
    """Parse lines of the form ``type: name name ...``."""
    return {
        name: kind
        for line in text.split(";")
        for kind, _, names in [line.strip().partition(": ")]
        for name in names.split()
    }


FIELDS: dict[str, dict[str, str]] = {
    "client": _fields(
        """s: name client_id type; c: ts time age; g: replyq msg_cnt msg_size; c: msg_max msg_size_max;
        c: tx tx_bytes rx rx_bytes txmsgs txmsg_bytes rxmsgs rxmsg_bytes; g: simple_cnt metadata_cache_cnt;
        o: brokers topics"""
    ),
    "brokers": _fields(
        """s: name nodename source state; c: nodeid; g: stateage outbuf_cnt outbuf_msg_cnt waitresp_cnt;
        g: waitresp_msg_cnt;
        c: tx txbytes txerrs txretries txidle req_timeouts rx rxbytes rxerrs rxcorriderrs rxpartial rxidle;
        n: req; c: zbuf_grow buf_grow wakeups connects disconnects; w: int_latency outbuf_latency rtt throttle;
        o: toppars"""
    ),
    "toppars": _fields("s: topic; c: partition"),
    "window": _fields(
        "g: min max avg sum cnt stddev hdrsize p50 p75 p90 p95 p99 p99_99 outofrange"
    ),
    "topics": _fields("s: topic; g: age metadata_age; w: batchsize batchcnt; o: partitions"),
    "partitions": _fields(
        """c: partition broker leader; b: desired unknown;
        g: msgq_cnt msgq_bytes xmit_msgq_cnt xmit_msgq_bytes fetchq_cnt fetchq_size; s: fetch_state;
        g: query_offset next_offset app_offset stored_offset; c: stored_leader_epoch;
        g: commited_offset committed_offset; c: committed_leader_epoch;
        g: eof_offset lo_offset hi_offset ls_offset consumer_lag consumer_lag_stored consumer_lead; c: leader_epoch;
        c: txmsgs txbytes rxmsgs rxbytes msgs rx_ver_drops; g: msgs_inflight next_ack_seq;
        g: next_err_seq; c: acked_msgid"""
    ),
    "cgrp": _fields(
        """s: state; g: stateage; s: join_state; g: rebalance_age; c: rebalance_cnt; s: rebalance_reason;
        g: assignment_size"""
    ),
    "eos": _fields(
        """s: idemp_state; g: idemp_stateage; s: txn_state; g: txn_stateage; b: txn_may_enq;
        g: producer_id producer_epoch; c: epoch_cnt"""
    ),
    "fatal": _fields("s: error reason; c: cnt"),
    "consumer": _fields(
        """g: lead_min lag_max time_between_poll_avg time_between_poll_max last_poll_seconds_ago;
        f: poll_idle_ratio_avg"""
    ),
}
OPTIONAL = ("cgrp", "eos", "fatal", "consumer")
"""Levels that may be missing."""


def check_level(level: str, found: dict[str, Any]) -> None:
    """Check that a level of a document has exactly its fields, with values of their types."""
    wanted = FIELDS[level]
    assert set(found) - set(OPTIONAL if level == "client" else ()) == set(wanted), level
    for name, kind in wanted.items():
        _check_value(f"{level}.{name}", kind, name, found[name])
    if level == "client":
        for name in OPTIONAL:
            if name in found:
                check_level(name, found[name])


def _check_value(where: str, kind: str, name: str, value: Any) -> None:
    if kind == "o":
        for each in value.values():
            check_level(name, each)
    elif kind == "w":
        check_level("window", value)
        check_window(where, value)
    elif kind == "n":
        assert all(type(each) is int and each >= 0 for each in value.values()), where
    else:
        assert type(value) is {"s": str, "b": bool, "f": float}.get(kind, int), (where, value)


def check_window(where: str, window: dict[str, int]) -> None:
    """Check the order of the percentiles, and that the average is between the extremes."""
    order = [window[name] for name in ("min", "p50", "p75", "p90", "p95", "p99", "p99_99", "max")]
    assert order == sorted(order), (where, window)
    assert window["min"] <= window["avg"] <= window["max"], (where, window)
    if window["cnt"] == 0:
        assert not any(
            window[name] for name in ("min", "max", "avg", "sum", "stddev", "p50", "p99_99")
        ), where
