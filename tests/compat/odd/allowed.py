"""The differences that stay, each with its reason."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from tests.compat.odd.difference import Difference, is_sooner, kind


class Allowed(NamedTuple):
    """Differences that stay: they match all the patterns."""

    reason: str
    id: str = ""
    theirs: str = ""
    """The kind of confluent_kafka's outcome, for instance ``TypeError`` or ``returns``."""
    ours: str = ""
    shows: str = ""
    """confluent_kafka's result, as JSON."""
    after: str = ""
    """confluent_kafka's effect afterwards, as JSON."""
    sooner: bool = False
    """The outcomes are the same, but kafka_native's comes sooner."""

    def matches(self, found: Difference) -> bool:
        """Return whether a difference is of this kind."""
        return bool(
            re.search(self.id, found.id)
            and re.fullmatch(self.theirs or ".*", kind(found.theirs))
            and re.fullmatch(self.ours or ".*", kind(found.ours))
            and re.search(self.shows, json.dumps(found.theirs.get("returns")))
            and re.search(self.after, json.dumps(found.theirs.get("after")))
            and (not self.sooner or is_sooner(found))
        )


LONG = r"(2\*\*31|2\*\*31-1|2\*\*32|2\*\*40|2\*\*63-1|2\*\*63|10\*\*30|1e10|1e300|inf)\)"
ALLOWED = (
    Allowed("the original ends the process", theirs=r"crash: SIG\w+"),
    Allowed("the original keeps the interpreter's lock for ever", theirs="crash: hangs"),
    Allowed("the original sets an exception and returns a result", theirs=r"(late )?SystemError"),
    Allowed("the original sets an exception and returns a result", theirs=r"late \w+"),
    Allowed(
        "the original confuses the exception of a callback",
        r"\.(produce|produce_batch)\(",
        theirs="returns",
        after="SystemError",
    ),
    Allowed("an undefined conversion in C: a time that is no number", r"\((timeout=)?nan\)$"),
    Allowed(
        "an undefined conversion in C: more milliseconds than an int holds; there it is a time "
        "that is over, here no limit",
        rf"\((timeout=)?{LONG}$",
    ),
    Allowed(
        "speed: the consumer may have joined its group and fetched already",
        r"^Consumer\.subscribed\.(poll|consume|get_watermark_offsets|memberid|position)\(",
        "returns",
        "returns",
    ),
    Allowed(
        "speed: an answer within no time",
        r"\.list_topics\((timeout=)?(0|0\.0|False|-?0\.1|timedelta|AsFloat)\)",
        r"KafkaException _(TRANSPORT|TIMED_OUT)",
        "returns",
    ),
    Allowed(
        "-5 asks for the last tiered offset, in versions of ListOffsets that the original lacks",
        r"\.offsets_for_times\(partitions=\[offset -5\]\)$",
        "KafkaException UNSUPPORTED_VERSION",
        "returns",
    ),
    Allowed(
        "the original has another exception for a name that fits in no request",
        r"\.list_topics\(topic=70000 letters",
        "RuntimeError",
        "KafkaException _INVALID_ARG",
    ),
    Allowed(
        "the original compares with an object of another type",
        r"\.(eq|ne|lt|le|gt|ge)\(other=",
        "NotImplementedError",
    ),
    Allowed("a text in place of an address", r"\.(repr|str)\(\)$", shows="OBJECT"),
    Allowed("an extension: iteration", r"\.iter\(\)$", "TypeError", "returns"),
    Allowed(
        "arguments that the original ignores", r"\.assignment\((one|keyword)", ours="TypeError"
    ),
    Allowed("the original's future never ends", r"^AIOProducer\.closed\.produce\(", "blocks"),
    Allowed("an extension: close(timeout)", r"Producer\.\w+\.close\((one|keyword|twice)"),
    Allowed(
        "the original fails in the callback: it wraps what isn't callable",
        r"^AIOConsumer\.\w+\.subscribe\(on_",
        "returns",
        "TypeError",
    ),
    Allowed(
        "an extension: keywords and any bytes-like key",
        r"^functions\..*\((by name|key=(bytearray|memoryview))",
        "TypeError",
        "returns",
    ),
    # Value types
    Allowed(
        "the exception of a __str__() is passed on; here the text of the error has no value in it",
        r"^AclBinding\.\w+\.__init__\(\w+=NoText",
        "ZeroDivisionError",
        "TypeError",
    ),
    Allowed(
        "an extension: users have permissions",
        r"^(AclBinding|ConfigResource)\.\w+\.__init__\(restype=7\)",
        "ValueError",
        "returns",
    ),
    Allowed(
        "a class whose field `value` is read as the number of a resource type",
        r"^ConfigResource\.\w+\.__init__\(restype=Message\)",
        "TypeError",
        "AttributeError",
    ),
    Allowed(
        "the result's topic is an object that raises when it is compared",
        r"^Message\.\w+\.__init__\(",
        "returns",
        "returns",
        shows="NotImplementedError|SystemError",
    ),
    Allowed(
        "an undefined conversion in C: more bits than an int has",
        r"^KafkaError\.\w+\.(lt|le|gt|ge|eq|ne)\(other=-?2\*\*",
        "returns",
        "returns",
    ),
    Allowed(
        "an undefined conversion in C: more bits than an int has, and the number is another one",
        r"^TopicPartition\.\w+\.partition =\(value=-?2\*\*",
        "returns",
        "OverflowError",
    ),
    Allowed(
        "a text that C can't hold: the texts of brokers and of other clients may have it, and the "
        "call that sends a name refuses it",
        r"^(KafkaError|TopicPartition)\.\w+\.__init__\((reason|topic|metadata)="
        r"(surrogate|'a\\0b')\)",
        "ValueError|UnicodeEncodeError",
        "returns",
    ),
    Allowed(
        "an extension: None for no metadata and no leader epoch",
        r"^TopicPartition\.\w+\.__init__\((metadata|leader_epoch)=None\)",
        "TypeError",
        "returns",
    ),
    Allowed(
        "the original has a hash of the bits without an equality",
        r"^Uuid\.\w+\.(eq|ne)\(other=Uuid\)",
    ),
    Allowed("an extension: int(uuid)", r"^Uuid\.\w+\.int\(\)", "TypeError", "returns"),
    # Consumer
    Allowed("speed: the same outcome, sooner", r"Consumer\.", sooner=True),
    Allowed(
        "speed: an answer within no time, or which error comes first",
        r"\.(get_watermark_offsets|offsets_for_times|committed)\(timeout=(0|0\.0|False|-?0\.1"
        r"|timedelta|AsFloat)\)",
        r"KafkaException _(ALL_BROKERS_DOWN|TRANSPORT|TIMED_OUT|WAIT_COORD)",
        r"returns|KafkaException _(ALL_BROKERS_DOWN|TRANSPORT|TIMED_OUT|WAIT_COORD)",
    ),
    Allowed(
        "speed: the consumer may be a member already, so the broker looks at the topic",
        r"^Consumer\.subscribed\.commit",
        "KafkaException UNKNOWN_MEMBER_ID",
        "KafkaException UNKNOWN_TOPIC_OR_PART",
    ),
    Allowed(
        "speed: the consumer may be a member already",
        r"^Consumer\.subscribed\.consumer_group_metadata\(",
        "returns",
        "returns",
    ),
    Allowed(
        "speed: a commit may meet the group's first rebalance and wait for its end",
        r"^Consumer\.subscribed\.commit\(",
        "returns",
        "returns",
    ),
    Allowed(
        "speed: the group may have replaced the assignment already",
        r"^Consumer\.subscribed\.(assign|incremental_assign)\(",
        "returns",
        r"returns|KafkaException _STATE",
    ),
    Allowed(
        "speed: the group may have chosen its assignor already",
        r"^Consumer\.subscribed\.incremental_unassign\(",
        r"returns|KafkaException _INVALID_ARG",
        "KafkaException _STATE",
    ),
    Allowed(
        "speed: the offsets of no partition need no broker",
        r"^Consumer\.offline\.committed\((partitions=)?\[\]\)",
        "blocks",
        "returns",
    ),
    Allowed(
        "documented: the original waits for a topic whose name no topic can have",
        r"\.(get_watermark_offsets|offsets_for_times)\(partitions?=\[?"
        r"(no topic|pattern|bad name|300 letters)",
        "blocks",
        "KafkaException TOPIC_EXCEPTION",
    ),
    Allowed(
        "an undefined conversion in C: the offset after the greatest one",
        r"\.(commit|store_offsets) of\(message=message 2\*\*63-1\)",
        r"KafkaException _(NO_OFFSET|INVALID_ARG)",
        "OverflowError",
    ),
    Allowed(
        "the original sends a request without a topic, and the broker ends the connection",
        r"\.commit( of)?\((message=message topic None|offsets=\[__new__\])\)",
        "KafkaException _TRANSPORT",
        "KafkaException UNKNOWN_TOPIC_OR_PART",
    ),
    Allowed(
        "Python doesn't tell cls() from cls(**{}): the original raises this TypeError for cls()",
        r"Consumer\.fresh\.__init__\(first 0\)",
        "ValueError",
        "TypeError",
    ),
    Allowed(
        "the original's share consumer without a group can do nothing, not even close",
        r"^ShareConsumer\.fresh\.conf\(group\.id=(None|'')\)",
        "returns",
        "ValueError",
    ),
    Allowed(
        "a limit: client.id is part of each request, and has at most 255 bytes",
        r"Consumer\.fresh\.conf\(client\.id=\d+ letters\)",
        "returns",
        "KafkaException _INVALID_ARG",
    ),
    Allowed(
        "the original compares with an object of another type",
        r"^AIOConsumer\.fresh\.__init__\(max_workers=TopicPartition\)",
        "NotImplementedError",
        "TypeError",
    ),
    Allowed(
        "Python counts the arguments of a coroutine function before its body sees a closed client",
        r"^AIOConsumer\.(closed|never)\.poll\((one too many|keyword|twice)\)",
        r"RuntimeError|AttributeError",
        "TypeError",
    ),
    Allowed(
        "an extension: None as a callback, also by position",
        r"^AIOConsumer\.fresh\.subscribe\(first [23]\)",
        "TypeError",
        "returns",
    ),
    # Producer, SerializingProducer, AIOProducer
    Allowed("an undefined conversion in C: a time that is no number", r"\.conf\(linger\.ms=nan"),
    Allowed(
        "librdkafka has no limit; 255 bytes is the space for client.id in a request, 511 the limit of "
        "transactional.id",
        r"\.conf\((client|transactional)\.id=(300|70000) letters",
        "returns",
        "KafkaException _INVALID_ARG",
    ),
    Allowed(
        "Python makes no difference between Producer() and Producer(**{}), and this is the latter",
        r"Producer\.fresh\.__init__\(first 0",
        "returns",
        "TypeError",
    ),
    Allowed(
        "the original waits for an answer about a topic without a name",
        r"\.send_offsets_to_transaction\(positions=\[__new__\]",
        "blocks",
    ),
    Allowed(
        "an uninitialised object lacks an attribute",
        r"^SerializingProducer\.never\.produce\(",
        "AttributeError",
        "RuntimeError",
    ),
    Allowed(
        "an uninitialised object lacks an attribute",
        r"^AIOProducer\.never\.(len|bool)\(",
        "AttributeError",
        "TypeError",
    ),
    Allowed(
        "speed: the number of failed connections so far, which poll() and len() count",
        r"^Producer\.offline\.(poll|len)\(",
        "returns",
        "returns",
    ),
    Allowed(
        "the original's produce() knows what an earlier list_topics() found, see the guide",
        r"^Producer\.\w+\.produce\(topic=",
        "KafkaException _UNKNOWN_TOPIC",
        "returns",
    ),
    Allowed(
        "the original's produce_batch() knows what an earlier list_topics() found, see the guide",
        r"^Producer\.\w+\.produce_batch\(topic=",
        "returns",
        "returns",
        shows="^0$",
    ),
    Allowed(
        "the partition of a message without a key is a random choice",
        r"^Producer\.\w+\.produce_batch\((partition=(-1|None)|first 2)?\)$",
        "returns",
        "returns",
        shows="^1$",
    ),
    Allowed(
        "speed: a short wait takes longer on a busy machine",
        r"^Producer\.fresh\.poll\(",
        "returns",
        "returns",
        shows="^0$",
    ),
    Allowed(
        "speed: the metadata may be there already",
        r"^Producer\.fresh\.list_topics\(",
        "returns",
        "returns",
    ),
    Allowed(
        "the original fails in the comparison with an object of another type",
        r"^AIOProducer\.fresh\.__init__\(\w+=TopicPartition",
        "NotImplementedError",
        "TypeError",
    ),
    Allowed(
        "the original's future ends in a later call of poll() or flush(), or never",
        r"^AIOProducer\.fresh\.produce\(",
        "blocks",
    ),
    *(
        Allowed(
            "the original buffers a message for a second before it checks it",
            r"^AIOProducer\.fresh\.produce\(",
            each,
            each,
        )
        for each in (
            "TypeError",
            "OverflowError",
            "NotImplementedError",
            "KafkaException TOPIC_EXCEPTION",
        )
    ),
)
"""The differences that stay. The first entry that matches has the reason."""


def reason(found: Difference) -> str | None:
    """Return why a difference stays, or None if it has to go."""
    return next((each.reason for each in ALLOWED if each.matches(found)), None)
