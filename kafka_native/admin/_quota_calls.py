"""Calls about client quotas."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial

from kafka_native.admin import _quota_operations as quota_operations
from kafka_native.admin._calls import Calls
from kafka_native.admin._checks import flag, list_of
from kafka_native.admin._quotas import ClientQuotaAlteration, ClientQuotaEntity, ClientQuotaFilter


class QuotaCalls(Calls):
    """Calls about client quotas."""

    def describe_client_quotas(
        self, quota_filter: ClientQuotaFilter, *, request_timeout: float = -1
    ) -> Future[dict[ClientQuotaEntity, dict[str, float]]]:
        """Tells the quotas of users, clients and addresses (KIP-546).

        :param quota_filter: Whose.
        :return: One future: quotas by key, for each entity that has some.
        """
        if not isinstance(quota_filter, ClientQuotaFilter):
            raise TypeError(f"expected a ClientQuotaFilter, not {type(quota_filter).__name__}")
        timeout_s = self._request_timeout(request_timeout)
        items = [(None, quota_filter)]
        return self._begin(items, quota_operations.ask_quotas, quota_operations.describe_quotas, timeout_s)[None]

    def alter_client_quotas(
        self, alterations: list[ClientQuotaAlteration], *, validate_only: bool = False, request_timeout: float = -1
    ) -> dict[ClientQuotaEntity, Future[None]]:
        """Sets and removes quotas of users, clients and addresses (KIP-546).

        :param alterations: The changes of each entity.
        :return: A future an entity: None when it is done; KafkaException, for instance INVALID_REQUEST.
        """
        items = [(each.entity, each) for each in list_of(alterations, ClientQuotaAlteration)]
        make = partial(quota_operations.change_quotas, flag("validate_only", validate_only))
        return self._begin(items, make, quota_operations.alter_quotas, self._request_timeout(request_timeout))
