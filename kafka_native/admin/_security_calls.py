"""Calls about permissions and users."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, overload

from kafka_native.admin import _security_operations as security_operations
from kafka_native.admin._acl import AclBinding, AclBindingFilter
from kafka_native.admin._calls import Calls
from kafka_native.admin._checks import alterations_of, bindings, distinct, user_names
from kafka_native.admin._scram import UserScramCredentialAlteration, UserScramCredentialsDescription


class SecurityCalls(Calls):
    """Calls about permissions and users."""

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Takes another user name and password for PLAIN and SCRAM; see `Producer.set_sasl_credentials`."""
        self._check_open()
        self._client.set_sasl_credentials(username, password)

    def create_acls(self, acls: list[AclBinding], *, request_timeout: float = -1) -> dict[AclBinding, Future[None]]:
        """Makes permissions (KIP-140).

        :param acls: The permissions, each once.
        :return: A future a permission: None when it is made; KafkaException, for instance SECURITY_DISABLED.
        """
        items = [(each, security_operations.creation_of(each)) for each in bindings(acls)]
        timeout_s = self._request_timeout(request_timeout)
        return self._begin(items, security_operations.create_acls, security_operations.change_acls, timeout_s)

    def describe_acls(
        self, acl_binding_filter: AclBindingFilter, *, request_timeout: float = -1
    ) -> Future[list[AclBinding]]:
        """Tells the permissions that fit a filter (KIP-357).

        :param acl_binding_filter: The filter.
        :return: One future.
        """
        if not isinstance(acl_binding_filter, AclBindingFilter):
            raise TypeError(f"expected an AclBindingFilter, not {type(acl_binding_filter).__name__}")
        items = [(None, acl_binding_filter)]
        timeout_s = self._request_timeout(request_timeout)
        return self._begin(items, security_operations.describe_acls, security_operations.find_acls, timeout_s)[None]

    def delete_acls(
        self, acl_binding_filters: list[AclBindingFilter], *, request_timeout: float = -1
    ) -> dict[AclBindingFilter, Future[list[AclBinding]]]:
        """Deletes the permissions that fit filters.

        :param acl_binding_filters: The filters, each once.
        :return: A future a filter: what was deleted. KafkaException when one that fits couldn't be.
        """
        filters = distinct(acl_binding_filters, AclBindingFilter, "ACL binding filters")
        items = [(each, security_operations.filter_of(each)) for each in filters]
        timeout_s = self._request_timeout(request_timeout)
        return self._begin(items, security_operations.delete_acls, security_operations.change_acls, timeout_s)

    @overload
    def describe_user_scram_credentials(
        self, users: None = None, *, request_timeout: float = -1
    ) -> Future[dict[str, UserScramCredentialsDescription]]: ...

    @overload
    def describe_user_scram_credentials(
        self, users: list[str], *, request_timeout: float = -1
    ) -> dict[str, Future[UserScramCredentialsDescription]]: ...

    def describe_user_scram_credentials(self, users: list[str] | None = None, *, request_timeout: float = -1) -> Any:
        """Tells users' SCRAM credentials, but for what is secret (KIP-554).

        :param users: Their names; None for all users.
        :return: A future a user, by name: KafkaException, for instance RESOURCE_NOT_FOUND; for None one future of all.
        """
        timeout_s = self._request_timeout(request_timeout)
        steps_of = security_operations.describe_users
        if users is None:
            return self._begin([(None, None)], security_operations.describe_all, steps_of, timeout_s)[None]
        items = [(each, each) for each in user_names(users)]
        return self._begin(items, security_operations.describe_credentials, steps_of, timeout_s)

    def alter_user_scram_credentials(
        self, alterations: list[UserScramCredentialAlteration], *, request_timeout: float = -1
    ) -> dict[str, Future[None]]:
        """Makes, changes and deletes users' SCRAM credentials (KIP-554). Passwords are hashed here, not sent.

        :param alterations: The changes. Apache Kafka takes one of each user at a time (DUPLICATE_RESOURCE).
        :return: A future a user, by name: None when it is done.
        """
        items = security_operations.alterations_by_user(alterations_of(alterations))
        timeout_s = self._request_timeout(request_timeout)
        return self._begin(items, security_operations.alter_credentials, security_operations.alter_users, timeout_s)
