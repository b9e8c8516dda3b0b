"""The version of each API to use with a broker: the ApiVersions handshake (KIP-35, KIP-511)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kafka_native._native.enums import FETCH_VERSIONS, PRODUCE_VERSIONS
from kafka_native._reference.own_properties import SOFTWARE_NAME
from kafka_native.control.requests import ANY_VERSION
from kafka_native.errors import KafkaError, error_name
from kafka_native.protocol import ApiKey, ProtocolError, releases
from kafka_native.protocol.schema import Request
from kafka_native.protocol.versions import ApiVersionsRequest, ApiVersionsResponse

FIRST_WITH_IDS = 5
"""The first ApiVersions version with the ids of the expected broker (KIP-1242)."""


class ApiRanges(NamedTuple):
    """The version ranges that one broker offers, by API key."""

    ranges: Mapping[int, tuple[int, int]]
    features: Mapping[str, int] = MappingProxyType({})
    """The cluster's finalized features, by name (KIP-584), at ``features_epoch``."""
    features_epoch: int = -1

    def __str__(self) -> str:
        names = {int(key): key.name for key in ApiKey}
        return ", ".join(
            f"{names.get(key, key)} {low}-{high}"
            for key, (low, high) in sorted(self.ranges.items())
        )

    def highest(self, api_key: int, ours: tuple[int, int]) -> int:
        """The highest version that both sides support; -1: none."""
        theirs = self.ranges.get(api_key)
        if theirs is None:
            return -1
        version = min(theirs[1], ours[1])
        return version if version >= max(theirs[0], ours[0]) else -1

    def choose(self, message: type[Request]) -> int:
        """The version for this kind of request; -1: none."""
        return self.highest(message.api_key, (message.min_version, message.max_version))

    def choose_for(self, message: Request, newest: int = ANY_VERSION) -> int:
        """Like `choose()`, but only among versions that can express this message."""
        first, last = message.expressible_versions()
        return self.highest(message.api_key, (first, min(last, newest)))

    @property
    def produce(self) -> int:
        """The Produce version for the engine."""
        return self.highest(ApiKey.PRODUCE, PRODUCE_VERSIONS)

    @property
    def fetch(self) -> int:
        """The Fetch version for the engine."""
        return self.highest(ApiKey.FETCH, FETCH_VERSIONS)


class Fallback(NamedTuple):
    """The versions of brokers before 0.10, which don't answer ApiVersions or even disconnect."""

    ranges: ApiRanges | None = None
    """None: every broker gets ApiVersions."""
    always: bool = False
    """No broker gets ApiVersions."""
    for_s: float = 0.0
    """How long a broker that didn't answer ApiVersions isn't asked again."""

    @classmethod
    def of(cls, version: str, *, ask: bool, for_s: float) -> Fallback:
        """From broker.version.fallback, api.version.request and api.version.fallback.ms.

        As in librdkafka, brokers get ApiVersions if broker.version.fallback names a version that
        supports it, whatever the other properties are.
        """
        ranges = releases.fixed_ranges(version)
        if ranges is None or (ask and for_s <= 0):
            return cls()
        return cls(ApiRanges(ranges), not ask, for_s)


ASK_EVERYONE = Fallback()


def software_version(version: str) -> str:
    """The version in KIP-511's form: letters, digits, dots and dashes."""
    return re.sub(r"[^a-zA-Z0-9.-]", "-", version).strip(".-") or "unknown"


class ExpectedBroker(NamedTuple):
    """The broker that the client expects at an address."""

    cluster_id: str
    node_id: int


class Handshake:
    """One connection's ApiVersions exchange: our newest version, then one of the broker's."""

    def __init__(
        self,
        client_version: str,
        version: int = ApiVersionsRequest.max_version,
        expected: ExpectedBroker | None = None,
        *,
        client_name: str = SOFTWARE_NAME,
        last: bool = False,
    ) -> None:
        """The broker gets the name and the version of the client library.

        ``version`` is the first one to try.

        ``expected``: the broker refuses the connection if it is another one (KIP-1242, from version
        5 on). ``last``: the connection is ready once the broker has replied.
        """
        self._client_name = client_name
        self._client_version = software_version(client_version)
        self.version = version
        self.expected = expected
        self.last = last

    def request(self) -> bytes:
        """The body to send in ``self.version``."""
        message = ApiVersionsRequest(
            client_software_name=self._client_name, client_software_version=self._client_version
        )
        if self.expected is not None:
            message.cluster_id, message.node_id = self.expected
        return message.encode(self.version)

    def on_reply(self, body: bytes) -> ApiRanges | KafkaError | None:
        """The ranges; an error that ends the connection; or None: retry with ``self.version``."""
        # A broker that doesn't know the version replies in version 0. Every version begins with the
        # error code.
        refused = int.from_bytes(body[:2], "big", signed=True) == KafkaError.UNSUPPORTED_VERSION
        try:
            reply = ApiVersionsResponse.decode(body, 0 if refused else self.version, whole=False)
        except ProtocolError as error:
            if not refused or self.version == 0:
                return KafkaError(
                    KafkaError._BAD_MSG, f"the broker's ApiVersions reply can't be read: {error}"
                )
            # Refused, in another form (librdkafka's mock cluster): retry with the oldest version.
            reply = ApiVersionsResponse()
        ranges = {api.api_key: (api.min_version, api.max_version) for api in reply.api_keys}
        if not refused:
            if reply.error_code:
                return KafkaError(reply.error_code)
            features = {each.name: each.max_version_level for each in reply.finalized_features}
            return ApiRanges(ranges, features, reply.finalized_features_epoch)
        ours = (ApiVersionsRequest.min_version, self.version - 1)
        version = ApiRanges(ranges or {ApiKey.API_VERSIONS: (0, 0)}).highest(
            ApiKey.API_VERSIONS, ours
        )
        if version < 0:
            return KafkaError(
                KafkaError._UNSUPPORTED_FEATURE,
                f"no common version of ApiVersions: {error_name(KafkaError.UNSUPPORTED_VERSION)}",
            )
        self.version = version
        return None


class Handshakes:
    """Makes the exchanges of a client's connections."""

    def __init__(self, client_name: str, client_version: str, *, checks_cluster: bool) -> None:
        """``checks_cluster``: brokers get the ids of the expected broker (KIP-1242)."""
        self._client_name, self._client_version = client_name, client_version
        self._checks_cluster = checks_cluster
        # the first version to try: the newest of the last broker that has answered
        self._version = ApiVersionsRequest.max_version
        self.cluster_id: str | None = None
        """From the last metadata. None: unknown, or the client has started again since then."""

    def first(self, node_id: int | None) -> Handshake:
        """The first exchange of a connection. ``node_id`` None: any broker will do."""
        return self._exchange(self._version, self._expected(node_id))

    def second(self, node_id: int | None, ranges: ApiRanges) -> Handshake | None:
        """The exchange after the authentication: brokers check ids only then. None: no check."""
        expected, version = self._expected(node_id), ranges.choose(ApiVersionsRequest)
        if expected is None or version < FIRST_WITH_IDS:
            return None
        return self._exchange(version, expected, last=True)

    def _exchange(
        self, version: int, expected: ExpectedBroker | None, *, last: bool = False
    ) -> Handshake:
        return Handshake(
            self._client_version, version, expected, client_name=self._client_name, last=last
        )

    def note(self, ranges: ApiRanges) -> None:
        """Takes what a broker has answered. The next connections begin with its newest version."""
        version = ranges.choose(ApiVersionsRequest)
        self._version = version if version >= 0 else self._version

    def _expected(self, node_id: int | None) -> ExpectedBroker | None:
        if not self._checks_cluster or self.cluster_id is None or node_id is None:
            return None
        return ExpectedBroker(self.cluster_id, node_id)
