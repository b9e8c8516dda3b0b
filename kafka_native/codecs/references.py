"""The schemas that a registry's schema refers to. Codecs, serializers and deserializers use it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

from kafka_native.codecs.errors import SchemaError

__all__ = ["REFERENCES_MAX", "found_now", "referenced_schemas"]

REFERENCES_MAX = 1000
"""How many schemas a schema may refer to, also through others."""


def referenced_schemas(
    schema: Any,
    registry: Any,
    *,
    text_format: str | None = None,
    skips: Callable[[str], bool] = lambda name: False,
) -> Generator[Callable[[], Any], Any, list[tuple[str, Any]]]:
    """Find the names and schemas of all references. Each comes after those that it refers to.

    A schema with several names is there once for each name. References may form a cycle.

    :param schema: A Schema of the registry's client.
    :param registry: The client, also an asynchronous one. The generator yields its calls and gets
        their results.
    :param text_format: The format of the texts, for Protobuf.
    :param skips: Whether to leave out a reference with this name.
    :raises SchemaError: A reference is incomplete, or there are more than `REFERENCES_MAX`.
    """
    found: list[tuple[str, Any]] = []
    seen: set[tuple[str, str, Any]] = set()
    # A list instead of recursion: a chain of references may be longer than Python's stack allows.
    open_schemas: list[tuple[str, Any, Iterator[Any]]] = [("", None, _references(schema))]
    while open_schemas:
        name, owner, references = open_schemas[-1]
        reference = next(references, None)
        if reference is None:
            open_schemas.pop()
            if owner is not None:
                found.append((name, owner))
            continue
        place = reference.name, reference.subject, reference.version
        if None in place:
            raise SchemaError(f"reference {reference.name} has no name, no subject or no version")
        if place in seen or skips(reference.name):
            continue
        if len(seen) == REFERENCES_MAX:
            raise SchemaError(f"it refers to more than {REFERENCES_MAX} schemas")
        seen.add(place)
        arguments = (True,) if text_format is None else (True, text_format)
        call = partial(registry.get_version, reference.subject, reference.version, *arguments)
        registered = (yield call).schema
        open_schemas.append((reference.name, registered, _references(registered)))
    return found


def found_now(
    steps: Generator[Callable[[], Any], Any, list[tuple[str, Any]]],
) -> list[tuple[str, Any]]:
    """Return the result of `referenced_schemas` with a synchronous client."""
    result: Any = None
    while True:
        try:
            result = steps.send(result)()
        except StopIteration as end:
            found: list[tuple[str, Any]] = end.value
            return found


def _references(schema: Any) -> Iterator[Any]:
    return iter(getattr(schema, "references", None) or ())
