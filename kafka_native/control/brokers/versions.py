"""Which version of each API to speak with a broker: the ApiVersions handshake (KIP-35, KIP-511) and its outcome."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_native.control.requests import ANY_VERSION
from kafka_native.errors import KafkaError, error_name
from kafka_native.protocol import ApiKey, ProtocolError, releases
from kafka_native.protocol.configs import ListConfigResourcesRequest
from kafka_native.protocol.coordinator import FindCoordinatorRequest
from kafka_native.protocol.delegation_tokens import CreateDelegationTokenRequest
from kafka_native.protocol.groups import LeaveGroupRequest
from kafka_native.protocol.metadata import MetadataRequest
from kafka_native.protocol.offsets import (
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from kafka_native.protocol.quorum import UpdateFeaturesRequest
from kafka_native.protocol.schema import ZERO_UUID, Request
from kafka_native.protocol.topics import DeleteTopicsRequest
from kafka_native.protocol.transactions import InitProducerIdRequest, ListTransactionsRequest
from kafka_native.protocol.versions import ApiVersionsRequest, ApiVersionsResponse

SOFTWARE_NAME = "kafka-native"

# The versions that the C twins in csrc read and write.
C_PRODUCE_VERSIONS = (0, 13)
C_FETCH_VERSIONS = (0, 17)

UNSUPPORTED_VERSION = 35

LAST_BY_NAME = 9
"""Of OffsetCommit and OffsetFetch: topics are identified from the next version on."""
MAX_TIMESTAMP = -3
"""As a timestamp of ListOffsets: the record with the highest one (KIP-734)."""
FIRST_WITH_MAX_TIMESTAMP = 7
FIRST_FOR_OTHERS = 3
"""Of CreateDelegationToken: somebody asks for a token of somebody else (KIP-373)."""
FIRST_WITH_MEMBERS = 3
"""Of LeaveGroup: several members leave at once, by their instance ids, too (KIP-345)."""
FIRST_FOR_CLIENTS = 2
"""Of OffsetForLeaderEpoch: before, it is for brokers only."""
FIRST_TWO_PHASE = 6
"""Of InitProducerId: two-phase commit (KIP-939). Brokers have it as an unstable version, and it is for nothing else."""
CLIENT_METRICS = 16
"""As a kind of resource of ListConfigResources."""
FIRST_WITH_ALL_RESOURCES = 1
"""Of ListConfigResources: before, it is about client metrics only."""
ONLY_UP = 1
"""As the type of an update in UpdateFeatures."""


@dataclass(frozen=True, slots=True)
class ApiRanges:
    """The version ranges that one broker offers, by API key."""

    ranges: Mapping[int, tuple[int, int]]
    features: Mapping[str, int] = field(default_factory=dict)
    """What the whole cluster runs, by name (KIP-584), as it was at ``features_epoch``."""
    features_epoch: int = -1

    def __str__(self) -> str:
        names = {int(key): key.name for key in ApiKey}
        return ", ".join(f"{names.get(key, key)} {low}-{high}" for key, (low, high) in sorted(self.ranges.items()))

    def highest(self, api_key: int, ours: tuple[int, int]) -> int:
        """The highest version that both sides have, -1 if there is none."""
        theirs = self.ranges.get(api_key)
        if theirs is None:
            return -1
        version = min(theirs[1], ours[1])
        return version if version >= max(theirs[0], ours[0]) else -1

    def choose(self, message: type[Request]) -> int:
        """The version in which to send this request, -1 if the broker has none that we speak."""
        return self.highest(message.api_key, (message.min_version, message.max_version))

    def choose_for(self, message: Request, newest: int = ANY_VERSION) -> int:
        """As `choose()`, of the versions in which this very message says what it is to say."""
        first, last = message.min_version, min(message.max_version, newest)
        if _is_by_name(message):
            last = LAST_BY_NAME
        elif isinstance(message, OffsetForLeaderEpochRequest):
            first = FIRST_FOR_CLIENTS
        elif isinstance(message, ListOffsetsRequest) and any(
            partition.timestamp == MAX_TIMESTAMP for topic in message.topics for partition in topic.partitions
        ):
            first = FIRST_WITH_MAX_TIMESTAMP
        elif isinstance(message, ListTransactionsRequest):
            first = 2 if message.transactional_id_pattern is not None else 1 if message.duration_filter >= 0 else 0
        elif isinstance(message, CreateDelegationTokenRequest) and message.owner_principal_name is not None:
            first = FIRST_FOR_OTHERS
        elif isinstance(message, InitProducerIdRequest):
            first, last = (FIRST_TWO_PHASE, last) if message.enable2_pc else (first, FIRST_TWO_PHASE - 1)
        elif isinstance(message, LeaveGroupRequest) and not message.member_id:
            first = FIRST_WITH_MEMBERS
        elif isinstance(message, ListConfigResourcesRequest) and message.resource_types != [CLIENT_METRICS]:
            first = FIRST_WITH_ALL_RESOURCES
        return self.highest(message.api_key, (first, last))

    @property
    def produce(self) -> int:
        """For the engine's sender."""
        return self.highest(ApiKey.PRODUCE, C_PRODUCE_VERSIONS)

    @property
    def fetch(self) -> int:
        """For the engine's fetcher."""
        return self.highest(ApiKey.FETCH, C_FETCH_VERSIONS)


@dataclass(frozen=True, slots=True)
class Fallback:
    """What a broker is taken for that can't be asked: one before 0.10 closes the connection, or never answers."""

    ranges: ApiRanges | None = None
    """None: every broker is asked."""
    always: bool = False
    """Nobody is asked."""
    for_s: float = 0.0
    """How long a broker that didn't answer isn't asked again."""

    @classmethod
    def of(cls, version: str, *, ask: bool, for_s: float) -> Fallback:
        """From broker.version.fallback, api.version.request and api.version.fallback.ms.

        As with librdkafka, a version that can be asked is asked, whatever the others say.
        """
        ranges = releases.unasked(version)
        if ranges is None or (ask and for_s <= 0):
            return cls()
        return cls(ApiRanges(ranges), not ask, for_s)


ASK_EVERYONE = Fallback()


def adapted(message: Request, version: int) -> Request:
    """The message without what this version of it can't say and an old broker does anyway."""
    if isinstance(message, MetadataRequest) and version < 4:
        message = copy.copy(message)
        message.allow_auto_topic_creation = True  # the broker's own configuration decides
        if version == 0 and message.topics is None:
            message.topics = []  # all
    elif isinstance(message, ListOffsetsRequest) and version < 2:
        message = copy.copy(message)
        message.isolation_level = 0  # there are no transactions
    elif isinstance(message, OffsetFetchRequest):
        message = _adapt_offset_fetch(message, version)
    elif isinstance(message, OffsetCommitRequest) and version < 7:
        message = copy.copy(message)
        message.group_instance_id = None  # there are no static members
    elif isinstance(message, FindCoordinatorRequest):
        message = copy.copy(message)
        if version >= 4:
            message.key = ""
        else:
            message.coordinator_keys = []
    elif isinstance(message, DeleteTopicsRequest) and version < 6:
        message = copy.copy(message)
        message.topics = []  # it goes by the names
    elif isinstance(message, CreateDelegationTokenRequest) and version < FIRST_FOR_OTHERS:
        message = copy.copy(message)
        message.owner_principal_type = message.owner_principal_name = ""  # it is whose connection this is
    elif isinstance(message, LeaveGroupRequest):
        message = copy.copy(message)
        if version >= 3:
            message.member_id = ""
        else:
            message.members = []
    elif isinstance(message, ListConfigResourcesRequest) and version < FIRST_WITH_ALL_RESOURCES:
        message = copy.copy(message)
        message.resource_types = []  # it is about nothing else
    elif isinstance(message, UpdateFeaturesRequest) and version < 1:
        message = copy.copy(message)
        update = UpdateFeaturesRequest.FeatureUpdate
        message.feature_updates = [
            update(
                feature=each.feature,
                max_version_level=each.max_version_level,
                allow_downgrade=each.upgrade_type != ONLY_UP,
            )
            for each in message.feature_updates
        ]
    return message


def _adapt_offset_fetch(message: OffsetFetchRequest, version: int) -> OffsetFetchRequest:
    message = copy.copy(message)
    if version >= 8:
        message.group_id, message.topics = "", []
    else:
        message.groups = []
    message.require_stable = message.require_stable and version >= 7  # older brokers have none that aren't
    return message


def _is_by_name(message: Request) -> bool:
    """Whether a topic's id isn't known."""
    if isinstance(message, OffsetCommitRequest):
        return any(topic.topic_id == ZERO_UUID for topic in message.topics)
    if isinstance(message, OffsetFetchRequest):
        return any(
            group.topics is None or any(topic.topic_id == ZERO_UUID for topic in group.topics)
            for group in message.groups
        )
    return False


def software_version(version: str) -> str:
    """As KIP-511 allows it: letters, digits, dots and dashes."""
    return re.sub(r"[^a-zA-Z0-9.-]", "-", version).strip(".-") or "unknown"


class Handshake:
    """One connection's ApiVersions exchange: in our newest version, then in one that the broker names."""

    def __init__(self, client_version: str) -> None:
        """``client_version`` is told to the broker."""
        self._client_version = software_version(client_version)
        self.version = ApiVersionsRequest.max_version

    def request(self) -> bytes:
        """The body to send in ``self.version``."""
        message = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=self._client_version)
        return message.encode(self.version)

    def on_reply(self, body: bytes) -> ApiRanges | KafkaError | None:
        """The ranges; an error that ends the connection; or None: ask again in what is ``self.version`` now."""
        # Who doesn't know the version answers in version 0. Its first field is the error code, as in every version.
        refused = int.from_bytes(body[:2], "big", signed=True) == UNSUPPORTED_VERSION
        try:
            reply = ApiVersionsResponse.decode(body, 0 if refused else self.version, whole=False)
        except ProtocolError as error:
            if not refused or self.version == 0:
                return KafkaError(KafkaError._BAD_MSG, f"the broker's ApiVersions reply can't be read: {error}")
            # Refused, in a form of its own (librdkafka's mock cluster): ask in the oldest.
            reply = ApiVersionsResponse()
        ranges = {api.api_key: (api.min_version, api.max_version) for api in reply.api_keys}
        if not refused:
            if reply.error_code:
                return KafkaError(reply.error_code)
            features = {each.name: each.max_version_level for each in reply.finalized_features}
            return ApiRanges(ranges, features, reply.finalized_features_epoch)
        ours = (ApiVersionsRequest.min_version, self.version - 1)
        version = ApiRanges(ranges or {ApiKey.API_VERSIONS: (0, 0)}).highest(ApiKey.API_VERSIONS, ours)
        if version < 0:
            return KafkaError(
                KafkaError._UNSUPPORTED_FEATURE, f"no common version of ApiVersions: {error_name(UNSUPPORTED_VERSION)}"
            )
        self.version = version
        return None
