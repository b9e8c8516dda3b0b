"""Calls about transactions and the producers of partitions (KIP-664)."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial

from kafka_native.admin import _transaction_operations as transaction_operations
from kafka_native.admin._calls import Calls
from kafka_native.admin._checks import broker_id, check_partitions, list_of, number, set_of
from kafka_native.admin._transactions import (
    AbortTransactionSpec,
    FindHangingTransactionsResult,
    ListTransactionsResult,
    ProducerIdAndEpoch,
    ProducerState,
    TransactionDescription,
    TransactionState,
)
from kafka_native.types import TopicPartition

LONGEST_TIMEOUT_MS = 900_000
"""transaction.max.timeout.ms of brokers, unless it is set."""
INT16, INT32, INT64 = 1 << 15, 1 << 31, 1 << 63


class TransactionCalls(Calls):
    """Calls about transactions and the producers of partitions (KIP-664)."""

    def list_transactions(
        self,
        *,
        states: set[TransactionState] | None = None,
        producer_ids: set[int] | None = None,
        duration_ms: int = -1,
        transactional_id_pattern: str | None = None,
        request_timeout: float = -1,
    ) -> Future[ListTransactionsResult]:
        """Lists the transactional ids, of every broker (KIP-664).

        :param states: Only those that are doing this; None or empty for all.
        :param producer_ids: Only those with these producer ids; None or empty for all.
        :param duration_ms: Only those whose transaction has been open for longer, in milliseconds; -1: all. Brokers
            from 3.8 on (KIP-994).
        :param transactional_id_pattern: Only those that this regular expression (RE2) fits as a whole; None: all.
            Brokers from 4.1 on (KIP-1152).
        :return: One future: the transactional ids, and an error for each broker that didn't answer, or is too old for
            what was asked.
        """
        kinds = set_of("states", states, TransactionState)
        if TransactionState.UNKNOWN in kinds:
            raise ValueError("UNKNOWN state is not allowed")
        if transactional_id_pattern is not None and not isinstance(transactional_id_pattern, str):
            raise TypeError(
                f"transactional_id_pattern must be a str or None, not {type(transactional_id_pattern).__name__}"
            )
        wanted = transaction_operations.ListFilter(
            sorted(each.value for each in kinds),
            sorted(number("producer_ids", each, 0, INT64) for each in set_of("producer_ids", producer_ids, int)),
            number("duration_ms", duration_ms, -1, INT64),
            transactional_id_pattern or None,
        )
        make = partial(transaction_operations.list_transactions, wanted)
        timeout_s = self._request_timeout(request_timeout)
        return self._begin([(None, None)], make, transaction_operations.find_transactions, timeout_s)[None]

    def describe_transactions(
        self, transactional_ids: list[str], *, request_timeout: float = -1
    ) -> dict[str, Future[TransactionDescription]]:
        """Describes transactional ids and their transactions (KIP-664).

        :param transactional_ids: The ids.
        :return: A future an id; KafkaException, for instance TRANSACTIONAL_ID_NOT_FOUND.
        """
        items = [(each, each) for each in list_of(transactional_ids, str)]
        timeout_s = self._request_timeout(request_timeout)
        make, steps_of = transaction_operations.ask_transactions, transaction_operations.describe_transactions
        return self._begin(items, make, steps_of, timeout_s)

    def describe_producers(
        self, partitions: list[TopicPartition], *, broker: int = -1, request_timeout: float = -1
    ) -> dict[TopicPartition, Future[list[ProducerState]]]:
        """Tells who has written to partitions with a producer id, and which transactions are open there (KIP-664).

        :param partitions: The partitions.
        :param broker: A broker that has replicas of them; -1: the leaders.
        :return: A future a partition.
        """
        asked = list_of(partitions, TopicPartition)
        check_partitions(asked)
        steps_of = partial(transaction_operations.describe_producers, broker_id(broker))
        timeout_s = self._request_timeout(request_timeout)
        return self._begin([(each, each) for each in asked], transaction_operations.ask_producers, steps_of, timeout_s)

    def abort_transaction(self, spec: AbortTransactionSpec, *, request_timeout: float = -1) -> Future[None]:
        """Aborts a transaction in one partition, behind the back of its coordinator (KIP-664).

        For transactions that hang: what a coordinator still knows it ends by itself, and `fence_producers()` makes it.

        :param spec: The transaction, as `HangingTransaction.abort_spec` or `describe_producers()` have it.
        :return: One future: None when the marker is written; KafkaException, for instance INVALID_PRODUCER_EPOCH, or
            TRANSACTION_COORDINATOR_FENCED for a coordinator epoch that is too low.
        """
        if not isinstance(spec, AbortTransactionSpec):
            raise TypeError(f"expected an AbortTransactionSpec, not {type(spec).__name__}")
        check_partitions([spec.topic_partition])
        number("producer_id", spec.producer_id, 0, INT64)
        number("producer_epoch", spec.producer_epoch, 0, INT16)
        number("coordinator_epoch", spec.coordinator_epoch, 0, INT32)
        items, timeout_s = [(spec.topic_partition, spec)], self._request_timeout(request_timeout)
        make, steps_of = transaction_operations.abort_marker, transaction_operations.abort_transaction
        return self._begin(items, make, steps_of, timeout_s)[spec.topic_partition]

    def find_hanging_transactions(
        self,
        partitions: list[TopicPartition] | None = None,
        *,
        broker: int = -1,
        max_transaction_timeout_ms: int = LONGEST_TIMEOUT_MS,
        request_timeout: float = -1,
    ) -> Future[FindHangingTransactionsResult]:
        """Finds transactions that hang: open in a partition, and no coordinator will end them.

        What kafka-transactions.sh find-hanging does. A consumer of committed messages doesn't get past one.

        :param partitions: Where to look; None: everywhere.
        :param broker: Look into the replicas of this broker; -1: into the leaders'.
        :param max_transaction_timeout_ms: The longest that a transaction may take
            (``transaction.max.timeout.ms`` of the brokers): one that has written something since isn't looked at.
        :return: One future: the transactions, and an error for each partition that couldn't be looked into.
        """
        asked = None if partitions is None else list_of(partitions, TopicPartition)
        check_partitions(asked or ())
        max_ms = number("max_transaction_timeout_ms", max_transaction_timeout_ms, 0, INT64)
        steps_of = partial(transaction_operations.find_hanging, asked, broker_id(broker), max_ms)
        timeout_s = self._request_timeout(request_timeout)
        return self._begin([(None, asked or [])], transaction_operations.ask_all_producers, steps_of, timeout_s)[None]

    def fence_producers(
        self, transactional_ids: list[str], *, request_timeout: float = -1
    ) -> dict[str, Future[ProducerIdAndEpoch]]:
        """Fences the producers of transactional ids; their open transactions are aborted (KIP-360).

        :param transactional_ids: The ids.
        :return: A future an id: the producer id and epoch that it goes on with.
        """
        items = [(each, each) for each in list_of(transactional_ids, str)]
        timeout_s = self._request_timeout(request_timeout)
        make = partial(transaction_operations.fence, timeout_s)
        return self._begin(items, make, transaction_operations.fence_producers, timeout_s)
