"""The ids of the topics that a stream's offsets belong to.

A topic that is deleted and created again under its name has another id, and its offsets begin at 0
again. Spark's checkpoint has only names and offsets. So this module notes the ids: in memory for
the offsets that this process has planned, and in the stream's kept state for restarts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka_native.spark.kept_state import KeptState
from kafka_native.spark.offsets import Key, flat, nested
from kafka_native.spark.options import SourceOptions

__all__ = ["KeptTopicIds", "TopicIds"]

Offsets = dict[Key, int]
"""The next offset of each partition."""

FOLDER: Final = "topics"
_FORMER_MAX: Final = 8
"""The number of kept ids of deleted topics with one name."""


class KeptTopicIds:
    """The ids in the kept state of a stream, in a file for each source of the query.

    The file is written only when an id changes. It has the newest id of each topic. If the last
    change replaced a topic, the file also has the offsets at which the batch with the change
    starts: these belong to the old ids. So after a crash the batch is planned in the same way.
    """

    def __init__(self, state: KeptState, options: SourceOptions) -> None:
        """Choose the file. Nothing is read."""
        self._state = state
        self._name = f"{FOLDER}/{options.file_name}"
        self._content: dict[str, Any] | None = None
        self._cluster_id = ""
        self.is_loaded = False
        """Whether `load` has been called."""

    @property
    def is_empty(self) -> bool:
        """Whether no ids are kept yet."""
        return self._content is None

    def load(self, cluster_id: str) -> None:
        """Read the file. If there is none, take that of another source of the same cluster.

        The name of the file changes when the options name other topics or other servers. Ids of
        topics are unique in a cluster, so another file's ids are as good.
        """
        self._content = self._state.read(self._name)
        if self._content is None:
            others = (self._state.read(name) for name in self._state.names(FOLDER))
            same = (each for each in others if each and each.get("cluster") == cluster_id)
            self._content = next(same, None)
        self._cluster_id = cluster_id
        self.is_loaded = True

    @property
    def newest(self) -> dict[str, str]:
        """The ids that the end of the last planned batch belongs to."""
        return {} if self._content is None else dict(self._content["topics"])

    def at(self, start: Offsets | None) -> dict[str, str]:
        """The ids that the start of a batch belongs to."""
        if self._content is None or start is None:
            return {}
        change = self._content.get("change")
        if change is not None and flat(change["offsets"], self._name) == start:
            return {**self.newest, **change["topics"]}
        return self.newest

    @property
    def former(self) -> set[str]:
        """The ids of deleted topics. Brokers with old metadata may still send them."""
        content = self._content or {}
        return {each for ids in content.get("former", {}).values() for each in ids}

    def write(self, start: Offsets, ids: Mapping[str, str]) -> None:
        """Keep the ids of a planned batch's end, before Spark runs the batch.

        :param start: The batch's start.
        """
        before, old = self._content or {}, self.at(start)
        replaced = {
            topic: old[topic]
            for topic, found in ids.items()
            if found and old.get(topic) and old[topic] != found
        }
        former = {topic: list(each) for topic, each in before.get("former", {}).items()}
        for topic, each in replaced.items():
            kept = [one for one in former.get(topic, []) if one != each]
            former[topic] = [*kept, each][-_FORMER_MAX:]
        content: dict[str, Any] = {
            "cluster": self._cluster_id,
            "topics": {**self.newest, **{key: each for key, each in ids.items() if each}},
            "former": former,
        }
        if replaced:
            content["change"] = {"offsets": nested(start), "topics": replaced}
        if content != self._content:
            self._state.write(self._name, content)
            self._content = content


class TopicIds:
    """The ids for the offsets of one stream. Without kept ids a restart knows none.

    Ids are known only from brokers that send them (Apache Kafka 2.8 and newer).
    """

    def __init__(self, kept: KeptTopicIds | None = None) -> None:
        """Start without any id."""
        self.ids: dict[str, str] = {}
        """The current id of each topic."""
        self._kept = kept
        self._before: set[str] = set()  # the ids of deleted topics
        self._noted: tuple[Offsets, dict[str, str]] = ({}, {})
        self.start_ids: dict[str, str] = {}
        """The ids at the start of the current micro-batch."""

    def load(self, cluster_id: str) -> None:
        """Read the kept ids, before the first `update`."""
        if self._kept is not None and not self._kept.is_loaded:
            self._kept.load(cluster_id)
            self._before |= self._kept.former

    def update(self, ids: Mapping[str, str]) -> set[str]:
        """Take the ids that a broker has sent.

        :return: The topics that were recreated since the last call.
        """
        changed = set()
        for topic, found in ids.items():
            known = self.ids.get(topic, "")
            if found and found not in self._before:
                if known and known != found:
                    self._before.add(known)
                    changed.add(topic)
                self.ids[topic] = found
        return changed

    def note_offsets(self, offsets: Offsets) -> None:
        """Note the current ids for these offsets: the stream's start or a micro-batch's end."""
        self._noted = (offsets, dict(self.ids))

    def start_at(self, start: Offsets | None) -> None:
        """Note the start of a micro-batch."""
        offsets, ids = self._noted
        if start == offsets:
            self.start_ids = ids
        else:
            self.start_ids = {} if self._kept is None else self._kept.at(start)

    def plan(self, start: Offsets) -> None:
        """Note the start of a micro-batch whose end Spark has chosen or recorded before.

        PySpark before 4.2 names the start only here, and so does a restart.
        """
        if self._kept is not None:
            self.start_ids = self._kept.at(start)

    def keep(self, start: Offsets, end: Offsets) -> None:
        """Keep the ids of a planned micro-batch."""
        if self._kept is not None:
            self._kept.write(start, self.ids_at(end))

    def keep_first(self, start: Offsets | None) -> None:
        """Keep the current ids for a stream that has none yet."""
        if self._kept is not None and self._kept.is_empty and start is not None:
            self._kept.write(start, {**self.ids, **self.start_ids})

    def ids_at(self, end: Offsets) -> dict[str, str]:
        """The ids of the topics at an end."""
        offsets, ids = self._noted
        if end == offsets:
            return ids
        return self.ids if self._kept is None or self._kept.is_empty else self._kept.newest

    def is_recreated(self, topic: str, end: Offsets | None = None) -> bool:
        """Whether a topic was recreated between the start and this end (None: and now)."""
        then = self.start_ids.get(topic, "")
        now = (self.ids if end is None else self.ids_at(end)).get(topic, "")
        return bool(then and now) and then != now
