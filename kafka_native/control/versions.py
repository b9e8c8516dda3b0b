"""Which version of each API to speak with a broker: the ApiVersions handshake (KIP-35, KIP-511) and its outcome."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafka_native.errors import KafkaError, error_name
from kafka_native.protocol import ApiKey, ProtocolError
from kafka_native.protocol.schema import Request
from kafka_native.protocol.versions import ApiVersionsRequest, ApiVersionsResponse

SOFTWARE_NAME = "kafka-native"

# The versions that the C twins in csrc/engine read and write.
C_PRODUCE_VERSIONS = (3, 13)
C_FETCH_VERSIONS = (4, 17)

UNSUPPORTED_VERSION = 35


@dataclass(frozen=True, slots=True)
class ApiRanges:
    """The version ranges that one broker offers, by API key."""

    ranges: dict[int, tuple[int, int]]

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

    @property
    def produce(self) -> int:
        """For the engine's sender."""
        return self.highest(ApiKey.PRODUCE, C_PRODUCE_VERSIONS)

    @property
    def fetch(self) -> int:
        """For the engine's fetcher."""
        return self.highest(ApiKey.FETCH, C_FETCH_VERSIONS)


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
            return ApiRanges(ranges) if reply.error_code == 0 else KafkaError(reply.error_code)
        ours = (ApiVersionsRequest.min_version, self.version - 1)
        version = ApiRanges(ranges or {ApiKey.API_VERSIONS: (0, 0)}).highest(ApiKey.API_VERSIONS, ours)
        if version < 0:
            return KafkaError(
                KafkaError._UNSUPPORTED_FEATURE, f"no common version of ApiVersions: {error_name(UNSUPPORTED_VERSION)}"
            )
        self.version = version
        return None
