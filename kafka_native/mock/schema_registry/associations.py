"""Associations: the subjects that have the schemas of a resource, such as the values of a topic."""

from __future__ import annotations

from types import NoneType
from typing import Any, Final

from kafka_native.mock.schema_registry import schemas
from kafka_native.mock.schema_registry.errors import (
    CONFLICT,
    SUBJECT_NOT_FOUND,
    UNPROCESSABLE,
    RegistryError,
)
from kafka_native.mock.schema_registry.names import subject_of
from kafka_native.mock.schema_registry.subjects import Subjects

ANY_NAMESPACE: Final = "-"
LIFECYCLES: Final = ("STRONG", "WEAK")
Association = dict[str, Any]


class Associations:
    """The associations of a registry. The registry's lock guards them."""

    def __init__(self, subjects: Subjects) -> None:
        """Start without associations."""
        self._subjects = subjects
        self._associations: list[Association] = []

    def of_resource(
        self, namespace: str, name: str, kind: str | None, types: list[str]
    ) -> list[Association]:
        """Return the associations of a resource by its name. ``-`` is any namespace."""
        return [
            each
            for each in self._associations
            if each["resourceName"] == name
            and namespace in (ANY_NAMESPACE, each["resourceNamespace"])
            and _fits(each, kind, types)
        ]

    def of_id(self, resource_id: str, kind: str | None, types: list[str]) -> list[Association]:
        """Return the associations of a resource by its id."""
        return [
            each
            for each in self._associations
            if each["resourceId"] == resource_id and _fits(each, kind, types)
        ]

    def create(self, body: Any, may_change: bool) -> dict[str, Any]:
        """Create the associations of a request, and register their schemas.

        ``may_change`` allows another subject or lifecycle in the place of an earlier one.
        """
        if not isinstance(body, dict) or not isinstance(body.get("associations"), list):
            raise RegistryError(UNPROCESSABLE, "The request has no associations")
        resource = {
            "resourceName": _text(body, "resourceName"),
            "resourceNamespace": _text(body, "resourceNamespace"),
            "resourceId": _text(body, "resourceId"),
            "resourceType": body.get("resourceType") or "topic",
        }
        made = [self._create(resource, each, may_change) for each in body["associations"]]
        return {**resource, "associations": made}

    def _create(self, resource: Association, body: Any, may_change: bool) -> dict[str, Any]:
        if not isinstance(body, dict):
            raise RegistryError(UNPROCESSABLE, "An association is not a JSON object")
        kind = body.get("associationType") or "value"
        if kind not in ("key", "value") or not isinstance(body.get("subject", ""), (str, NoneType)):
            raise RegistryError(UNPROCESSABLE, "The type or the subject of an association is wrong")
        own_name = f":.{resource['resourceNamespace']}:{resource['resourceName']}-{kind}"
        subject = subject_of(body.get("subject") or own_name)
        lifecycle = body.get("lifecycle") or ("WEAK" if body.get("subject") else "STRONG")
        if lifecycle not in LIFECYCLES:
            raise RegistryError(UNPROCESSABLE, f"There is no lifecycle {str(lifecycle)[:100]}")
        association = {
            **resource,
            "subject": str(subject),
            "associationType": kind,
            "lifecycle": lifecycle,
            "frozen": bool(body.get("frozen")),
        }
        known = next(iter(self.of_id(resource["resourceId"], None, [kind])), None)
        if known is not None and known != association and (known["frozen"] or not may_change):
            raise RegistryError(
                CONFLICT, f"The {kind} of {resource['resourceName']} is associated already"
            )
        answer = {key: association[key] for key in ("subject", "associationType", "lifecycle")}
        answer["frozen"] = association["frozen"]
        if body.get("schema") is not None:
            schema = schemas.from_request(body["schema"])
            self._subjects.register(subject, schema, bool(body.get("normalize")))
            answer["schema"] = body["schema"]
        elif not any(each.subject == subject for each in self._subjects.all()):
            raise RegistryError(SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
        if known is not None:
            self._associations.remove(known)
        self._associations.append(association)
        return answer

    def delete(self, resource_id: str, kind: str | None, types: list[str], cascade: bool) -> None:
        """Delete the associations of a resource.

        ``cascade`` also deletes the subjects of those with the lifecycle STRONG.
        """
        found = self.of_id(resource_id, kind, types)
        if any(each["frozen"] for each in found) and not cascade:
            raise RegistryError(CONFLICT, f"An association of {resource_id} is frozen")
        for each in found:
            self._associations.remove(each)
            subject = subject_of(each["subject"])
            if cascade and each["lifecycle"] == "STRONG":
                self._subjects.delete_subject(subject, permanent=False)


def _fits(association: Association, kind: str | None, types: list[str]) -> bool:
    return kind in (None, association["resourceType"]) and (
        not types or association["associationType"] in types
    )


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise RegistryError(UNPROCESSABLE, f"{key} is missing")
    return value
