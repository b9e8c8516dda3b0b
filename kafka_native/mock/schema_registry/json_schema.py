"""JSON Schemas: reading, and whether a newer schema accepts what an older one accepts.

The rules are those of Confluent's registry. They depend on the content model of an object:

- open: properties that the schema doesn't name may have any value (the default);
- closed: there are no such properties (``additionalProperties: false``);
- partially open: such properties have to match a schema or a pattern.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_native.mock.schema_registry.errors import InvalidSchemaError

Document = Any
"""A JSON Schema: an object, or true or false."""

_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_SCHEMA_KEYS: Final = (
    "additionalItems", "additionalProperties", "contains", "else", "if", "items", "not",
    "propertyNames", "then",
)  # fmt: skip
_SCHEMA_LIST_KEYS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMA_MAP_KEYS: Final = (
    "$defs", "definitions", "dependentSchemas", "patternProperties", "properties",
)  # fmt: skip
_COUNT_KEYS: Final = (
    "maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties",
)  # fmt: skip
# The key, the part of the name in reports, and whether a smaller number is stricter.
_LIMITS: Final = (
    ("maxLength", "MAX_LENGTH", True),
    ("minLength", "MIN_LENGTH", False),
    ("maximum", "MAXIMUM", True),
    ("minimum", "MINIMUM", False),
    ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM", True),
    ("exclusiveMinimum", "EXCLUSIVE_MINIMUM", False),
    ("maxProperties", "MAX_PROPERTIES", True),
    ("minProperties", "MIN_PROPERTIES", False),
    ("maxItems", "MAX_ITEMS", True),
    ("minItems", "MIN_ITEMS", False),
)


@dataclass
class Schema:
    """A schema with the schemas that it refers to, by the names of its references."""

    document: Document
    references: dict[str, Document] = field(default_factory=dict)


def parse(text: str, references: dict[str, str] | None = None) -> Schema:
    """Read a schema and its references. Raises ``InvalidSchemaError``."""
    return Schema(_read(text), {name: _read(each) for name, each in (references or {}).items()})


def _read(text: str) -> Document:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"the JSON Schema is not JSON: {error}") from None
    _check(document, "#")
    return document


def text_of(schema: Schema, normalize: bool = False) -> str:
    """Return a schema as compact JSON, with sorted keys if ``normalize``."""
    return json.dumps(
        schema.document, separators=(",", ":"), ensure_ascii=False, sort_keys=normalize
    )


def _check(schema: Document, path: str) -> None:
    """Refuse what no version of JSON Schema allows."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise InvalidSchemaError(f"{path}: a schema is an object, true or false")
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in _TYPES:
            raise InvalidSchemaError(f"{path}: unknown type: {json.dumps(kind)[:100]}")
    for key in _COUNT_KEYS:
        if not isinstance(schema.get(key, 0), (int, float)) or schema.get(key, 0) < 0:
            raise InvalidSchemaError(f"{path}/{key}: not a count")
    if not isinstance(schema.get("required", []), (list, bool)):  # draft 3 has a boolean
        raise InvalidSchemaError(f"{path}/required: not a list")
    if not isinstance(schema.get("enum", []), list):
        raise InvalidSchemaError(f"{path}/enum: not a list")
    _check_parts(schema, path)


def _check_parts(schema: dict[str, Any], path: str) -> None:
    for key in _SCHEMA_KEYS:
        if key in schema and not (key == "items" and isinstance(schema[key], list)):
            _check(schema[key], f"{path}/{key}")
    for key in (*_SCHEMA_LIST_KEYS, "items"):
        value = schema.get(key)
        if isinstance(value, list):
            for number, each in enumerate(value):
                _check(each, f"{path}/{key}/{number}")
        elif value is not None and key != "items":
            raise InvalidSchemaError(f"{path}/{key}: not a list")
    for key in _SCHEMA_MAP_KEYS:
        value = schema.get(key, {})
        if not isinstance(value, dict):
            raise InvalidSchemaError(f"{path}/{key}: not an object")
        for name, each in value.items():
            _check(each, f"{path}/{key}/{name}")


def incompatibilities(new: Schema, old: Schema) -> list[str]:
    """Return why ``new`` refuses values that ``old`` accepts: none, or one text each."""
    comparison = _Comparison(new, old)
    comparison.compare(old.document, new.document, "#/")
    return comparison.found


def _is_open(schema: dict[str, Any]) -> bool:
    """Return whether an object may have properties of any name and value."""
    rest = schema.get("additionalProperties", schema.get("unevaluatedProperties", True))
    return rest in (True, {}) and not schema.get("patternProperties")


def _rest_of(schema: dict[str, Any], name: str) -> Document:
    """Return the schema of a property that ``properties`` doesn't name."""
    for pattern, part in (schema.get("patternProperties") or {}).items():
        try:
            if re.search(pattern, name):
                return part
        except re.error:
            continue  # a pattern of another dialect: no property matches it here
    return schema.get("additionalProperties", schema.get("unevaluatedProperties", True))


def _types_of(schema: dict[str, Any]) -> set[str]:
    """Return the types that a schema accepts; an empty set means any."""
    kinds = schema.get("type")
    if kinds is None:
        if "properties" in schema or "required" in schema:
            return {"object"}
        if "const" in schema or "enum" in schema:
            return set()
        return set()
    return {kinds} if isinstance(kinds, str) else set(kinds)


def _sum_of(schema: dict[str, Any]) -> list[Document] | None:
    """Return the alternatives of a schema, if it has any."""
    for key in ("oneOf", "anyOf"):
        if key in schema:
            alternatives: list[Document] = schema[key]
            return alternatives
    return None


class _Comparison:
    """Collects the incompatible differences between two schemas."""

    def __init__(self, new: Schema, old: Schema) -> None:
        self._new = new
        self._old = old
        self._open: set[tuple[int, int]] = set()
        self.found: list[str] = []

    def _report(self, kind: str, path: str) -> None:
        words = kind.lower().replace("_", " ")
        self.found.append(f"{{errorType:'{kind}', description:'{words} at path {path}'}}")

    def _trial(self, old: Document, new: Document, path: str) -> bool:
        """Return whether two parts are compatible, without a report."""
        kept, self.found = self.found, []
        try:
            self.compare(old, new, path)
            return not self.found
        finally:
            self.found = kept

    def _resolve(self, schema: Document, whole: Schema) -> Document:
        """Follow ``$ref`` to the schema that it names."""
        for _ in range(32):  # a chain that refers to itself ends here, too
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                return schema
            target = _referenced(schema["$ref"], whole)
            if target is None:
                return schema
            schema = target
        return schema

    def compare(self, old: Document, new: Document, path: str) -> None:
        """Compare two parts of the schemas, and report each incompatible difference."""
        old, new = self._resolve(old, self._old), self._resolve(new, self._new)
        pair = (id(old), id(new))
        if old == new and self._new.references == self._old.references and not _has_ref(new):
            return
        if pair in self._open:
            return  # a recursive schema: the comparison that is going on decides
        if new is True or new == {}:
            return
        if old is False:
            return
        if new is False or old is True or old == {}:
            self._report("TYPE_NARROWED" if new is not False else "SCHEMA_REMOVED", path)
            return
        self._open.add(pair)
        try:
            self._compare_objects(old, new, path)
        finally:
            self._open.discard(pair)

    def _compare_objects(self, old: dict[str, Any], new: dict[str, Any], path: str) -> None:
        if _sum_of(old) is not None or _sum_of(new) is not None:
            self._compare_sums(old, new, path)
        if "allOf" in old or "allOf" in new:
            self._compare_products(old, new, path)
        if ("not" in old or "not" in new) and old.get("not") != new.get("not"):
            # The opposite direction: a narrower "not" accepts more.
            if "not" not in new:
                pass
            elif "not" not in old or not self._trial_reversed(old["not"], new["not"], path):
                self._report("NOT_TYPE_EXTENDED", path)
        if not self._compare_types(old, new, path):
            return
        self._compare_values(old, new, path)
        self._compare_limits(old, new, path)
        if "object" in _types_of(new) | _types_of(old) or "properties" in new:
            self._compare_properties(old, new, path)
            self._compare_required(old, new, path)
            self._compare_dependencies(old, new, path)
        if "array" in _types_of(new) | _types_of(old) or "items" in new:
            self._compare_items(old, new, path)

    def _trial_reversed(self, old: Document, new: Document, path: str) -> bool:
        other = _Comparison(self._old, self._new)
        other.compare(new, old, path)
        return not other.found

    def _compare_types(self, old: dict[str, Any], new: dict[str, Any], path: str) -> bool:
        """Return whether it makes sense to compare further."""
        before, after = _types_of(old), _types_of(new)
        if not after:
            return True
        if not before:
            if _sum_of(old) is not None or "enum" in old or "const" in old or "allOf" in old:
                return True
            self._report("TYPE_NARROWED", path)
            return False
        missing = before - after - ({"integer"} if "number" in after else set())
        if missing:
            self._report("TYPE_NARROWED" if before & after else "TYPE_CHANGED", path)
        return not missing

    def _compare_values(self, old: dict[str, Any], new: dict[str, Any], path: str) -> None:
        before, after = _values_of(old), _values_of(new)
        if after is not None and (before is None or any(each not in after for each in before)):
            if before is None:
                kind = "ENUM_ARRAY_ADDED"
            else:
                removed = all(each in before for each in after)
                kind = "ENUM_ARRAY_NARROWED" if removed else "ENUM_ARRAY_CHANGED"
            self._report(kind, path + "enum")
        if "pattern" in new and new["pattern"] != old.get("pattern"):
            kind = "PATTERN_CHANGED" if "pattern" in old else "PATTERN_ADDED"
            self._report(kind, path + "pattern")
        if new.get("uniqueItems") and not old.get("uniqueItems"):
            self._report("UNIQUE_ITEMS_ADDED", path + "uniqueItems")

    def _compare_limits(self, old: dict[str, Any], new: dict[str, Any], path: str) -> None:
        for key, name, is_maximum in _LIMITS:
            before, after = old.get(key), new.get(key)
            if isinstance(after, bool) or isinstance(before, bool):  # draft 4
                if after is True and before is not True:
                    self._report(f"{name}_ADDED", path + key)
            elif after is None:
                continue
            elif before is None:
                if not (key.startswith("min") and key != "minimum" and after == 0):
                    self._report(f"{name}_ADDED", path + key)
            elif after < before if is_maximum else after > before:
                self._report(f"{name}_{'DECREASED' if is_maximum else 'INCREASED'}", path + key)
        before, after = old.get("multipleOf"), new.get("multipleOf")
        if after is not None and before != after:
            if before is None:
                self._report("MULTIPLE_OF_ADDED", path + "multipleOf")
            elif before % after:
                kind = "MULTIPLE_OF_CHANGED" if after % before else "MULTIPLE_OF_EXPANDED"
                self._report(kind, path + "multipleOf")

    def _compare_properties(self, old: dict[str, Any], new: dict[str, Any], path: str) -> None:
        before, after = old.get("properties") or {}, new.get("properties") or {}
        self._compare_additional(old, new, path)
        for name in sorted(before.keys() - after.keys()):
            self._removed_property(name, before[name], new, f"{path}properties/{name}")
        for name in sorted(after.keys() - before.keys()):
            self._added_property(name, old, new, f"{path}properties/{name}")
        for name in sorted(after.keys() & before.keys()):
            self.compare(before[name], after[name], f"{path}properties/{name}/")

    def _compare_additional(self, old: dict[str, Any], new: dict[str, Any], path: str) -> None:
        path += "additionalProperties"
        before, after = (each.get("additionalProperties", True) for each in (old, new))
        if before in (True, {}) and after not in (True, {}):
            kind = "REMOVED" if after is False else "NARROWED"
            self._report(f"ADDITIONAL_PROPERTIES_{kind}", path)
        elif before is not False and after is False:
            self._report("ADDITIONAL_PROPERTIES_NARROWED", path)
        elif isinstance(before, dict) and isinstance(after, dict):
            self.compare(before, after, path + "/")

    def _removed_property(self, name: str, part: Document, new: dict[str, Any], path: str) -> None:
        if _is_open(new) or part is False:
            return
        rest = _rest_of(new, name)
        if rest is False:
            self._report("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)
        elif not self._trial(part, rest, path + "/"):
            self._report("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)

    def _added_property(
        self, name: str, old: dict[str, Any], new: dict[str, Any], path: str
    ) -> None:
        part = self._resolve(new["properties"][name], self._new)
        if _is_open(old):
            if part not in (True, {}):
                self._report("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path)
            return
        rest = _rest_of(old, name)
        if rest is not False and not self._trial(rest, part, path + "/"):
            self._report("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)
        if name in _required(new) and not _has_default(part):
            self._report("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path)

    def _compare_required(self, old: dict[str, Any], new: dict[str, Any], path: str) -> None:
        known = old.get("properties") or {}
        parts = new.get("properties") or {}
        for name in sorted(_required(new) - _required(old)):
            # A property that is new in this schema is reported above.
            is_new = name in parts and name not in known and not _is_open(old)
            if not is_new and not _has_default(self._resolve(parts.get(name), self._new)):
                self._report("REQUIRED_ATTRIBUTE_ADDED", f"{path}required/{name}")

    def _compare_dependencies(self, old: dict[str, Any], new: dict[str, Any], path: str) -> None:
        for key in ("dependencies", "dependentRequired", "dependentSchemas"):
            before, after = old.get(key) or {}, new.get(key) or {}
            for name, part in after.items():
                place = f"{path}{key}/{name}"
                if name not in before:
                    kind = "ARRAY" if isinstance(part, list) else "SCHEMA"
                    self._report(f"DEPENDENCY_{kind}_ADDED", place)
                elif isinstance(part, list):
                    earlier = before[name]
                    if not isinstance(earlier, list) or set(part) - set(earlier):
                        self._report("DEPENDENCY_ARRAY_EXTENDED", place)
                elif not isinstance(before[name], list):
                    self.compare(before[name], part, place + "/")

    def _compare_items(self, old: dict[str, Any], new: dict[str, Any], path: str) -> None:
        (before, rest_before), (after, rest_after) = _items_of(old), _items_of(new)
        for number in range(max(len(before), len(after))):
            place = f"{path}items/{number}"
            if number >= len(after):
                if rest_after is False:
                    self._report("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", place)
                else:
                    self.compare(before[number], rest_after, place + "/")
            elif number >= len(before):
                if rest_before is not False and not self._trial(
                    rest_before, after[number], place + "/"
                ):
                    is_open = rest_before in (True, {})
                    kind = "TO_OPEN" if is_open else "NOT_COVERED_BY_PARTIALLY_OPEN"
                    self._report(f"ITEM_ADDED_{kind}_CONTENT_MODEL", place)
            else:
                self.compare(before[number], after[number], place + "/")
        if rest_before is not False and rest_after is False:
            self._report("ADDITIONAL_ITEMS_REMOVED", path + "additionalItems")
        elif rest_before is not False:
            self.compare(rest_before, rest_after, path + "items/")

    def _compare_sums(self, old: dict[str, Any], new: dict[str, Any], path: str) -> None:
        before, after = _sum_of(old), _sum_of(new)
        if after is None:
            # Every alternative has to match the one schema.
            rest = {key: value for key, value in new.items() if key not in ("oneOf", "anyOf")}
            if not all(self._trial(each, rest, path) for each in before or []):
                self._report("COMBINED_TYPE_CHANGED", path)
            return
        if before is None:
            before = [{key: value for key, value in old.items() if key != "allOf"}]
        kind = "oneOf" if "oneOf" in new else "anyOf"
        if "oneOf" not in old and "anyOf" in old and kind == "oneOf":
            self._report("COMBINED_TYPE_CHANGED", path)
        elif not self._all_match(before, after, path):
            narrowed = len(before) > len(after)
            name = "SUM_TYPE_NARROWED" if narrowed else "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
            self._report(name, path + kind)

    def _compare_products(self, old: dict[str, Any], new: dict[str, Any], path: str) -> None:
        after = new.get("allOf")
        if after is None:
            return  # fewer conditions
        if "allOf" in old:
            before = old["allOf"]
        else:
            before = [{key: value for key, value in old.items() if key not in ("oneOf", "anyOf")}]
        # Each new condition has to follow from an old one.
        if not all(any(self._trial(one, each, path) for one in before) for each in after):
            extended = len(after) > len(before)
            name = "PRODUCT_TYPE_EXTENDED" if extended else "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
            self._report(name, path + "allOf")

    def _all_match(self, before: list[Document], after: list[Document], path: str) -> bool:
        """Return whether each old alternative has a compatible new one of its own."""
        fits = [
            [number for number, new in enumerate(after) if self._trial(old, new, path)]
            for old in before
        ]
        taken: dict[int, int] = {}

        def place(old: int, seen: set[int]) -> bool:
            for number in fits[old]:
                if number not in seen:
                    seen.add(number)
                    if number not in taken or place(taken[number], seen):
                        taken[number] = old
                        return True
            return False

        return all(place(number, set()) for number in range(len(before)))


def _has_ref(schema: Document) -> bool:
    return '"$ref"' in json.dumps(schema)


def _referenced(reference: str, whole: Schema) -> Document | None:
    """Return the schema that ``$ref`` names, or None if it is unknown."""
    name, _, pointer = reference.partition("#")
    document: Document = whole.document
    if name and not (isinstance(document, dict) and document.get("$id") == name):
        if name not in whole.references:
            return None
        document = whole.references[name]
    for part in filter(None, pointer.split("/")):
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        elif isinstance(document, dict) and part in document:
            document = document[part]
        else:
            return None
    return document


def _values_of(schema: dict[str, Any]) -> list[Any] | None:
    """Return the values of ``enum`` or ``const``, or None."""
    if "enum" in schema:
        values: list[Any] = schema["enum"]
        return values
    return [schema["const"]] if "const" in schema else None


def _required(schema: dict[str, Any]) -> set[str]:
    required = schema.get("required")
    return set(required) if isinstance(required, list) else set()


def _has_default(schema: Document) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _items_of(schema: dict[str, Any]) -> tuple[list[Document], Document]:
    """Return the schemas of the first items, and that of all further ones."""
    items = schema.get("items", True)
    if "prefixItems" in schema:
        return schema["prefixItems"], items
    if isinstance(items, list):
        return items, schema.get("additionalItems", True)
    return [], items
