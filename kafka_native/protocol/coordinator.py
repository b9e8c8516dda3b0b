"""FindCoordinator: the broker that coordinates a group or a transactional id."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    error_text,
    int8,
    int16,
    int32,
    string,
)

if TYPE_CHECKING:
    from typing_extensions import Self


class FindCoordinatorRequest(
    Request, api_key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"
):
    """Ask for the coordinator of groups or transactional ids.

    Versions 0 to 3 have one key, later versions several.
    """

    key: str = string("0-3")
    key_type: int = int8("1+")  # 0 group, 1 transaction, 2 share partition
    coordinator_keys: list[str] = array(string(), "4+")

    def expressible_versions(self) -> tuple[int, int]:
        """Version 0 (before 0.11) knows the coordinators of groups only."""
        return (1 if self.key_type else self.min_version), self.max_version

    def for_version(self, version: int) -> Self:
        """With one key or with several, as the version has it."""
        message = copy.copy(self)
        if version >= 4:
            message.key = ""
        else:
            message.coordinator_keys = []
        return message


class FindCoordinatorResponse(
    Response, api_key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"
):
    """The coordinators."""

    class Coordinator(Struct):
        """The coordinator of one key."""

        key: str = string("4+")
        node_id: int = int32("4+")
        host: str = string("4+")
        port: int = int32("4+")
        error_code: int = int16("4+")
        error_message: str | None = error_text("4+", nullable="4+", ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = error_text("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")
