"""A fast check that accepts most valid values of a JSON Schema.

jsonschema takes some 5 us a field. `acceptor_of()` compiles the common keywords to functions. They
accept only what jsonschema accepts. jsonschema decides on the other values, and has the errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

__all__ = ["acceptor_of"]

Acceptor: TypeAlias = Callable[[Any], bool]

TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}
SCALARS = (type(None), bool, int, str)
"""The types whose values are equal only if their types are, and neither is a float."""
NUMBER_CHECKS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda value, limit: not value < limit,
    "maximum": lambda value, limit: not value > limit,
    "exclusiveMinimum": lambda value, limit: not value <= limit,
    "exclusiveMaximum": lambda value, limit: not value >= limit,
}
SIZE_CHECKS: dict[str, tuple[Any, Callable[[int, int], bool]]] = {
    "minLength": (str, int.__ge__),
    "maxLength": (str, int.__le__),
    "minItems": (list, int.__ge__),
    "maxItems": (list, int.__le__),
    "minProperties": (dict, int.__ge__),
    "maxProperties": (dict, int.__le__),
}
DRAFT_3 = "http://json-schema.org/draft-03/"


class _Unsupported(Exception):
    """The schema has a keyword that only jsonschema knows."""


def acceptor_of(schema: Any, keywords: Mapping[str, Any]) -> Acceptor | None:
    """Return a function that returns True for values that fit a valid schema.

    For some of these values it returns False. None: the schema has other keywords, or refers to
    other schemas.

    :param keywords: The keywords that jsonschema checks. Others are annotations.
    """
    if isinstance(schema, dict) and str(schema.get("$schema", "")).startswith(DRAFT_3):
        return None
    try:
        return _Compiler(schema, keywords).compile(schema)
    except _Unsupported:
        return None


class _Compiler:
    def __init__(self, root: Any, keywords: Mapping[str, Any]) -> None:
        self._root = root
        self._keywords = keywords
        self._referred: dict[str, list[Acceptor]] = {}

    def compile(self, schema: Any) -> Acceptor:
        if isinstance(schema, bool):
            return lambda value: schema
        if not isinstance(schema, dict):
            raise _Unsupported
        if schema is not self._root and ("$id" in schema or isinstance(schema.get("id"), str)):
            raise _Unsupported  # references below have another base
        left = {name: part for name, part in schema.items() if name in self._keywords}
        left.pop("format", None)  # an annotation without a format checker
        if "$ref" in left:
            if len(left) > 1:
                raise _Unsupported  # drafts differ
            return self._reference(left["$ref"])
        types = self._types(left.pop("type", None))
        checks = [
            *self._scalars(left),
            *self._objects(left),
            *self._arrays(left),
            *self._combined(left),
        ]
        if left:
            raise _Unsupported
        return _all_of(types, checks)

    def _reference(self, reference: Any) -> Acceptor:
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise _Unsupported
        if reference not in self._referred:
            found = self._referred[reference] = []
            target = self._root
            for part in reference.split("/")[1:]:
                if "%" in part or "~" in part or not isinstance(target, dict):
                    raise _Unsupported
                if part not in target:
                    raise _Unsupported
                target = target[part]
                if target is not self._root and isinstance(target, dict) and "$id" in target:
                    raise _Unsupported
            found.append(self.compile(target))
        holder = self._referred[reference]  # empty while the schema refers to itself
        return lambda value: holder[0](value)

    @staticmethod
    def _types(names: Any) -> frozenset[type] | None:
        if names is None:
            return None
        names = names if isinstance(names, list) else [names]
        if not all(isinstance(name, str) and name in TYPES for name in names):
            raise _Unsupported
        return frozenset(kind for name in names for kind in TYPES[name])

    @staticmethod
    def _scalars(left: dict[str, Any]) -> list[Acceptor]:
        checks: list[Acceptor] = []
        for name in ("enum", "const"):
            if name in left:
                values = left.pop(name)
                values = values if name == "enum" else [values]
                allowed = {(type(each), each) for each in values if type(each) in SCALARS}
                checks.append(_one_of(allowed))
        for name, compare in NUMBER_CHECKS.items():
            limit = left.pop(name, None)
            if isinstance(limit, bool):
                raise _Unsupported  # draft 4
            if limit is not None:
                checks.append(_number(compare, limit))
        for name, (kind, compare_size) in SIZE_CHECKS.items():
            if name in left:
                size = left.pop(name)
                if type(size) is not int:
                    raise _Unsupported
                checks.append(_size(kind, compare_size, size))
        if "pattern" in left:
            checks.append(_pattern(left.pop("pattern")))
        return checks

    def _objects(self, left: dict[str, Any]) -> list[Acceptor]:
        if not left.keys() & {"properties", "required", "additionalProperties"}:
            return []
        required = tuple(left.pop("required", ()))
        properties = {name: self.compile(each) for name, each in left.pop("properties", {}).items()}
        extra = left.pop("additionalProperties", True)
        accept_extra = None if extra is True else self.compile(extra)

        def accept(value: Any) -> bool:
            if type(value) is not dict:
                return not isinstance(value, Mapping)
            for name in required:
                if name not in value:
                    return False
            for name, item in value.items():
                check = properties.get(name, accept_extra)
                if check is not None and not check(item):
                    return False
            return True

        return [accept]

    def _arrays(self, left: dict[str, Any]) -> list[Acceptor]:
        if "items" not in left:
            return []
        accept_item = self.compile(left.pop("items"))

        def accept(value: Any) -> bool:
            if type(value) is not list:
                return not isinstance(value, list)
            return all(map(accept_item, value))

        return [accept]

    def _combined(self, left: dict[str, Any]) -> list[Acceptor]:
        checks: list[Acceptor] = []
        if "allOf" in left:
            checks += [self.compile(each) for each in left.pop("allOf")]
        for name in ("anyOf", "oneOf"):
            if name in left:
                branches = left.pop(name)
                if name == "oneOf" and not _are_disjoint(branches):
                    raise _Unsupported
                checks.append(_any_of([self.compile(each) for each in branches]))
        return checks


def _are_disjoint(branches: list[Any]) -> bool:
    """Return whether no value can fit two schemas, because each has its own types."""
    seen: set[type] = set()
    for each in branches:
        name = each.get("type") if isinstance(each, dict) else None
        if not isinstance(name, str) or name not in TYPES or "$ref" in each:
            return False
        kinds = {*TYPES[name], *((float,) if name == "integer" else ())}  # 1.0 may be an integer
        if seen & kinds:
            return False
        seen |= kinds
    return True


def _all_of(types: frozenset[type] | None, checks: list[Acceptor]) -> Acceptor:
    if types is None:
        if len(checks) == 1:
            return checks[0]
        return lambda value: all(check(value) for check in checks)
    if not checks:
        return lambda value: type(value) in types
    if len(checks) == 1:
        only = checks[0]
        return lambda value: type(value) in types and only(value)
    return lambda value: type(value) in types and all(check(value) for check in checks)


def _any_of(checks: list[Acceptor]) -> Acceptor:
    return lambda value: any(check(value) for check in checks)


def _one_of(allowed: set[tuple[type, Any]]) -> Acceptor:
    return lambda value: type(value) in SCALARS and (type(value), value) in allowed


def _number(compare: Callable[[Any, Any], bool], limit: Any) -> Acceptor:
    return lambda value: compare(value, limit) if type(value) in (int, float) else _is_other(value)


def _size(kind: Any, compare: Callable[[int, int], bool], size: int) -> Acceptor:
    def accept(value: Any) -> bool:
        return compare(len(value), size) if isinstance(value, kind) else _is_other(value)

    return accept


def _pattern(pattern: Any) -> Acceptor:
    if not isinstance(pattern, str):
        raise _Unsupported
    try:
        search = re.compile(pattern).search
    except re.error:
        raise _Unsupported from None  # jsonschema reports it
    return lambda value: search(value) is not None if type(value) is str else _is_other(value)


def _is_other(value: Any) -> bool:
    """Return whether a value is of one of JSON's types, not of a class derived from one."""
    return type(value) in (type(None), bool, int, float, str, list, dict)
