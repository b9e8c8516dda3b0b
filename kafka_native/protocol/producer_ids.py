"""Producer ids and their epochs (KIP-98, KIP-360)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import Request, Response, boolean, int16, int32, int64, string

if TYPE_CHECKING:
    from typing_extensions import Self

FIRST_TWO_PHASE = 6
"""The first InitProducerId version with two-phase commit (KIP-939). In brokers it is unstable."""


class InitProducerIdRequest(
    Request, api_key=ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible="2+"
):
    """Ask for a producer id, or raise its epoch and so fence its older instances.

    From version 6 on, the request supports KIP-939.
    """

    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")

    def expressible_versions(self) -> tuple[int, int]:
        """Two-phase commit needs version 6 (KIP-939); nothing else uses that unstable version."""
        if self.enable2_pc:
            return FIRST_TWO_PHASE, self.max_version
        return self.min_version, FIRST_TWO_PHASE - 1

    def for_version(self, version: int) -> Self:
        """Up to version 2 the coordinator raises the epoch whoever asks (2.5, KIP-360)."""
        if version >= 3:
            return self
        message = copy.copy(self)
        message.producer_id = message.producer_epoch = -1
        return message


class InitProducerIdResponse(
    Response, api_key=ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible="2+"
):
    """The producer id and epoch, and those of the transaction that was kept (KIP-939)."""

    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
