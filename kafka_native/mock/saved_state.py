"""The state of a cluster in a folder: ``cluster.json`` and a file with the records.

``cluster.json`` names the other file and has the SHA-256 of both. It is written last, so an
interrupted ``save()`` leaves the old state or a clear error.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_native.mock.access import Acl, Credential
from kafka_native.mock.accounts import DelegationToken
from kafka_native.mock.consumer_groups import ConsumerGroup
from kafka_native.mock.membership import Committed
from kafka_native.mock.streams_groups import StreamsGroup

if TYPE_CHECKING:
    from kafka_native.mock.state import ClusterState
    from kafka_native.mock.topics import Partition, Topic

FORMAT = "kafka_native mock cluster"
VERSION = 1
INDEX = "cluster.json"
_RECORDS = "records-"
_READ_BYTES = 1 << 20


class SavedState(NamedTuple):
    """A state that was read from a folder and is intact."""

    path: Path
    state: dict[str, Any]
    records: memoryview

    @property
    def cluster_id(self) -> str:
        """The id of the saved cluster."""
        return str(self.state["cluster_id"])


# --- files ---


def save(cluster: ClusterState, folder: Path) -> None:
    """Write the state of a cluster into a folder, and make the folder if needed."""
    with cluster.lock:
        state, pieces = _dump(cluster)
        data = b"".join(pieces)  # a copy, because the cluster changes batches in place
    digest = hashlib.sha256(data).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{_RECORDS}{digest[:16]}"
    _write(folder / name, data)
    index = {
        "format": FORMAT,
        "version": VERSION,
        "records": name,
        "records_sha256": digest,
        "state_sha256": _digest(state),
        "state": state,
    }
    _write(folder / INDEX, json.dumps(index, indent=1).encode())
    for old in folder.glob(f"{_RECORDS}*"):
        if old.name != name:
            old.unlink()


def _write(path: Path, data: bytes) -> None:
    """Replace a file in one step. Only its owner may read it, because it can have secrets."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _digest(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def read(folder: Path) -> SavedState:
    """Read the state from a folder.

    Raises ``FileNotFoundError`` without the files, and ``ValueError`` for files that are damaged or
    that ``save()`` didn't write.
    """
    path = folder / INDEX
    try:
        index = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged or no saved mock cluster: {error}") from None
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise ValueError(f"{path} is no saved mock cluster")
    if index.get("version") != VERSION:
        raise ValueError(
            f"{path} has version {index.get('version')!r} of the format, not {VERSION}: another "
            "version of kafka_native wrote it"
        )
    state, name = index.get("state"), index.get("records")
    if not isinstance(state, dict) or _digest(state) != index.get("state_sha256"):
        raise ValueError(f"{path} is damaged: its content doesn't match its SHA-256")
    if not isinstance(name, str) or Path(name).name != name or not name.startswith(_RECORDS):
        raise ValueError(f"{path} is damaged: {name!r} is no name of a file with records")
    data = (folder / name).read_bytes()
    if hashlib.sha256(data).hexdigest() != index.get("records_sha256"):
        raise ValueError(f"{folder / name} is damaged: its content doesn't match its SHA-256")
    return SavedState(path, state, memoryview(data))


# --- the state ---


def _dump(cluster: ClusterState) -> tuple[dict[str, Any], list[memoryview]]:
    """Return everything but live members, sessions and faults. The caller holds the lock."""
    pieces: list[memoryview] = []
    topics = []
    for topic in cluster.topics.values():
        partitions = []
        for each in topic.partitions:
            log, data = each.log.saved()
            partitions.append({**_dump_partition(each), "log": log})
            pieces += data
        topics.append(
            {
                "name": topic.name,
                "id": topic.id.hex(),
                "configs": topic.configs,
                "partitions": partitions,
            }
        )
    quorum, access = cluster.quorum, cluster.access
    state = {
        "cluster_id": cluster.cluster_id,
        "brokers": len(cluster.brokers),
        "topics": topics,
        "groups": [
            {
                "id": group.id,
                "type": group.type,
                "generation": group.generation,
                "protocol_type": group.protocol_type,
                "offsets": [[*key, *committed] for key, committed in group.offsets.items()],
            }
            for group in cluster.groups.all()
        ],
        "share_groups": [group.saved() for group in cluster.share.all()],
        "transactions": cluster.transactions.saved(),
        "acls": [list(acl) for acl in access.acls],
        "users": [
            [user, mechanism, each.iterations, each.salt.hex(), each.salted_password.hex()]
            for user, credentials in access.users.items()
            for mechanism, each in credentials.items()
        ],
        "tokens": [] if cluster.sasl is None else _dump_tokens(cluster.sasl.accounts.tokens),
        "quotas": [
            [sorted(entity, key=str), values] for entity, values in cluster.quotas.entries.items()
        ],
        "settings": [
            [kind, name, values] for (kind, name), values in cluster.resources.settings.items()
        ],
        "features": quorum.levels,
        "features_epoch": quorum.epoch,
    }
    return json.loads(json.dumps(state)), pieces


def _dump_partition(partition: Partition) -> dict[str, Any]:
    return {
        "replicas": partition.settled_replicas,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "lags": list(partition.lags.items()),
        "directories": list(partition.directories.items()),
    }


def _dump_tokens(tokens: dict[str, DelegationToken]) -> list[list[Any]]:
    return [
        [
            name,
            each.owner,
            each.hmac,
            each.requester,
            list(each.renewers),
            each.issue_ms,
            each.expiry_ms,
            each.max_ms,
        ]
        for name, each in tokens.items()
    ]


def restore(cluster: ClusterState, saved: SavedState) -> None:
    """Put a saved state into a new cluster. Raises ``ValueError`` for one with more brokers."""
    state = saved.state
    if state["brokers"] > len(cluster.brokers):
        raise ValueError(
            f"{saved.path} has {state['brokers']} brokers, this cluster {len(cluster.brokers)}"
        )
    with cluster.lock:
        _restore_topics(cluster, saved)
        for group in state["groups"]:
            _restore_group(cluster, group)
        for group in state["share_groups"]:
            cluster.share.find(group["id"], make=True).restore(group)
        cluster.transactions.restore(state["transactions"])
        cluster.access.acls = {Acl(*acl): None for acl in state["acls"]}
        for user, mechanism, iterations, salt, salted in state["users"]:
            credential = Credential(iterations, bytes.fromhex(salt), bytes.fromhex(salted))
            cluster.access.users.setdefault(user, {})[mechanism] = credential
        if cluster.sasl is not None:
            for name, owner, hmac, requester, renewers, *times in state["tokens"]:
                cluster.sasl.accounts.tokens[name] = DelegationToken(
                    owner, hmac, requester, tuple(renewers), *times
                )
        for entity, values in state["quotas"]:
            cluster.quotas.entries[frozenset((kind, name) for kind, name in entity)] = values
        cluster.resources.settings = {
            (kind, name): values for kind, name, values in state["settings"]
        }
        cluster.quorum.levels.update(state["features"])
        cluster.quorum.epoch = state["features_epoch"]


def _restore_topics(cluster: ClusterState, saved: SavedState) -> None:
    position = 0
    for each in saved.state["topics"]:
        replicas = [one["replicas"] for one in each["partitions"]]
        topic: Topic = cluster.add_topic(
            each["name"], replicas, each["configs"], bytes.fromhex(each["id"])
        )
        for partition, one in zip(topic.partitions, each["partitions"], strict=True):
            partition.leader, partition.leader_epoch = one["leader"], one["leader_epoch"]
            partition.lags = dict(one["lags"])
            partition.directories = dict(one["directories"])
            position += partition.log.restore(one["log"], saved.records[position:])
            cluster.count_restored(partition)


def _restore_group(cluster: ClusterState, saved: dict[str, Any]) -> None:
    if saved["type"] in (ConsumerGroup.type, StreamsGroup.type):
        groups = cluster.groups
        has_tasks = saved["type"] == StreamsGroup.type
        make = groups.for_streams_heartbeat if has_tasks else groups.for_heartbeat
        group = make(saved["id"], make=True)
        group.epoch = group.target_epoch = saved["generation"]
        offsets = group.offsets
    else:
        offsets = cluster.groups.restore_classic(
            saved["id"], saved["generation"], saved["protocol_type"]
        ).offsets
    for topic, index, *committed in saved["offsets"]:
        offsets[topic, index] = Committed(*committed)
