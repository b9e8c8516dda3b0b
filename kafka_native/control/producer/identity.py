"""The producer id and epoch with which an idempotent producer numbers batches (KIP-98, KIP-360).

Thread: the control thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka_native._native.enums import PRODUCER_WAIVED
from kafka_native.control.errors import NOT_OFFERED_ERRORS
from kafka_native.control.requests import ANY_BROKER, NEVER, Backoff, Call, Reply
from kafka_native.errors import KafkaError
from kafka_native.logs import QUIET, Log
from kafka_native.protocol.producer_ids import InitProducerIdRequest

if TYPE_CHECKING:
    from kafka_native._native.engine import Engine, Event

NO_PRODUCER = -1
LAST_EPOCH = 32_767
"""After this epoch, the producer requests a new id."""


class Identity:
    """Requests a producer id, and raises its epoch when a partition's numbering has to restart.

    Batches wait in the engine until there is an id. Their message.timeout.ms runs meanwhile.
    """

    def __init__(
        self,
        engine: Engine,
        backoff: Backoff,
        timeout_s: float,
        on_fatal: Callable[[KafkaError], None],
        on_waived: Callable[[KafkaError], None] | None = None,
        log: Log = QUIET["eos"],
    ) -> None:
        """``timeout_s``: the timeout of one request.

        ``on_waived`` gets the error if the brokers grant no id; messages are then sent without
        numbers. None: the application has set enable.idempotence, so that error is fatal.
        """
        self._engine = engine
        self._backoff = backoff
        self._timeout_s = timeout_s
        self._on_fatal = on_fatal
        self._on_waived = on_waived
        self._log = log
        self._ask_at = 0.0
        self._now = 0.0
        self.producer_id = NO_PRODUCER
        self.epoch = NO_PRODUCER
        self.granted = 0
        """The number of ids and epochs so far."""

    def on_out_of_sequence(self, event: Event) -> None:
        """Raises the epoch: a partition can't continue under the current one.

        Java's producer does the same. A producer without transactions may raise its epoch by
        itself.
        """
        if (event.offset, event.epoch) != (self.producer_id, self.epoch):
            return  # another partition has already caused a new epoch
        cause = KafkaError(event.error_code).name() if event.error_code else "a batch has failed"
        self._log.info("%s: sequence numbers restart, with a new epoch after %d", cause, self.epoch)
        if self.epoch == LAST_EPOCH:
            self.producer_id = self.epoch = NO_PRODUCER
            self._ask_at = 0.0
            return
        self.epoch += 1
        self._grant()

    @property
    def known(self) -> bool:
        """Whether the producer has an id."""
        return self.producer_id != NO_PRODUCER

    @property
    def asking(self) -> bool:
        """Whether a request for an id is in flight."""
        return not self.known and self._ask_at == NEVER

    def _grant(self) -> None:
        self.granted += 1
        self._engine.grant(self.producer_id, self.epoch)

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        self._now = now
        if now < self._ask_at:
            return [], self._ask_at
        if self.producer_id != NO_PRODUCER:
            return [], NEVER
        self._ask_at = NEVER  # until the reply
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        return [Call(request, ANY_BROKER, now + self._timeout_s, self._on_reply)], NEVER

    def _on_reply(self, reply: Reply) -> None:
        if not isinstance(reply, KafkaError):
            refusal = KafkaError(reply.error_code) if reply.error_code else None
            reply = refusal or invalid_identity(reply.producer_id, reply.producer_epoch) or reply
        if isinstance(reply, KafkaError):
            if reply.code() in NOT_OFFERED_ERRORS:
                self._refused(reply)
                return
            self._ask_at = self._now + self._backoff.next_s()
            self._log.debug("no producer id: %s; asked for again", reply.str())
            return
        self._backoff.reset()
        self._ask_at = NEVER
        self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
        self._log.debug("producer id %d, epoch %d", self.producer_id, self.epoch)
        self._grant()

    def _refused(self, error: KafkaError) -> None:
        # otherwise sent messages may carry numbers
        if self._on_waived is not None and self.granted == 0:
            self._engine.grant(PRODUCER_WAIVED, NO_PRODUCER)
            self._on_waived(error)
            return
        text = f"no producer id (enable.idempotence): {error.str()}"
        self._on_fatal(KafkaError(error.code(), text, fatal=True))


def invalid_identity(producer_id: int, epoch: int) -> KafkaError | None:
    """An error for an invalid id or epoch from a broker; None: both are valid."""
    if producer_id >= 0 and epoch >= 0:
        return None
    text = (
        f"the broker grants the producer id {producer_id} with the epoch {epoch}, which is invalid"
    )
    return KafkaError(KafkaError._BAD_MSG, text)
