"""Replies that answer questions about many partitions, given to whoever asked about each.

Thread: the control thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from kafka_native.control.positions import Key
from kafka_native.control.requests import Reply
from kafka_native.errors import KafkaError

T = TypeVar("T")


def settle(
    waiting: Mapping[Key, Callable[[T | KafkaError], None]],
    reply: Reply,
    answers: Callable[[Any], Iterable[tuple[Key, T | KafkaError]]],
) -> None:
    """Answers each of these partitions' questions once.

    ``answers`` reads a response. What nobody has asked for, or comes a second time, is passed over; a question that it
    leaves out has an error for its answer, and so have all if the reply is one.
    """
    open_questions = dict(waiting)
    if isinstance(reply, KafkaError):
        for on_result in open_questions.values():
            on_result(reply)
        return
    for key, answer in answers(reply):
        if key in open_questions:
            open_questions.pop(key)(answer)
    name = type(reply).__name__.removesuffix("Response")
    for (topic, partition), on_result in open_questions.items():
        on_result(KafkaError(KafkaError._BAD_MSG, f"the reply to {name} leaves out {topic} [{partition}]"))
