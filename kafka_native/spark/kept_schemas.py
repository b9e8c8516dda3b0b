"""The readers' schemas of a stream, kept beside its checkpoint.

A restarted stream reads with the schemas that it began with, although the registry has newer
versions meanwhile. Records of newer writers resolve to them. The stream moves on if
``value.schema.upgrade`` or ``key.schema.upgrade`` is true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from kafka_native.spark.errors import OptionError
from kafka_native.spark.kept_state import KeptState
from kafka_native.spark.log import logger
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.typed_columns import Decoding, PinnedSchema, TypedColumns

__all__ = ["difference", "keep", "kept_schemas", "log_upgrades"]

FOLDER: Final = "schemas"


def kept_schemas(options: SourceOptions) -> dict[str, PinnedSchema]:
    """The kept schemas by column: ``key`` or ``value``. Empty: the stream hasn't kept any.

    Schemas of another subject or format don't count, and neither do those that the options name.
    The name of a source's file changes with its servers and topics. If it has no file, a schema
    counts that is the only kept one of its subject.
    """
    if options.typed is None or not options.checkpoint:
        return {}
    state = KeptState(options.checkpoint)
    own = state.read(f"{FOLDER}/{options.file_name}")
    contents = [own] if own is not None else [state.read(name) for name in state.names(FOLDER)]
    found = {}
    for decoding in options.typed.decodings:
        entries = [(content or {}).get(decoding.name) for content in contents]
        same = {_pinned(each) for each in entries if each and _is_same(decoding, each)}
        if decoding.version is None and len(same) == 1:
            found[decoding.name] = same.pop()
    return found


def keep(options: SourceOptions) -> None:
    """Keep the schemas of a running stream, in the process that plans it.

    :raises OptionError: Other schemas are kept, and the options don't allow a change.
    """
    decoded = options.decoded
    if decoded is None or not options.checkpoint:
        return
    before = kept_schemas(options)
    content = {}
    for decoding, pinned in zip(decoded.options.decodings, decoded.schemas, strict=True):
        kept = before.get(decoding.name)
        if kept is not None and kept != pinned and not decoding.is_upgrade:
            raise OptionError(
                f"{decoding.name}.schema",
                f"the stream keeps {kept.label}, but the frame has {pinned.label}: load the frame "
                f"again, or write {decoding.name}.schema.upgrade=true",
            )
        if decoding.subject:
            content[decoding.name] = _entry(decoding, pinned)
    state, name = KeptState(options.checkpoint), f"{FOLDER}/{options.file_name}"
    if content and state.read(name) != content:
        state.write(name, content)


def log_upgrades(decoded: TypedColumns, before: Mapping[str, PinnedSchema]) -> None:
    """Log how the columns change with newer schemas.

    :param before: The kept schemas.
    """
    for decoding, pinned in zip(decoded.options.decodings, decoded.schemas, strict=True):
        kept = before.get(decoding.name)
        if kept is None or kept == pinned:
            continue
        old = TypedColumns(decoded.options, tuple(
            kept if each is pinned else each for each in decoded.schemas
        ))  # fmt: skip
        changes = difference(old.column(decoding.name).spark, decoded.column(decoding.name).spark)
        logger.warning(
            "%s moves from %s to %s: %s",
            decoding.name,
            kept.label,
            pinned.label,
            "; ".join(changes) or "the columns stay the same",
        )


def difference(before: DataType, after: DataType) -> list[str]:
    """The fields that are added, removed or changed, as texts."""
    old, new = dict(_leaves(before, "")), dict(_leaves(after, ""))
    texts = [f"added {path} {kind}" for path, kind in new.items() if path not in old]
    texts += [f"removed {path} {kind}" for path, kind in old.items() if path not in new]
    texts += [
        f"changed {path} from {kind} to {new[path]}"
        for path, kind in old.items()
        if path in new and new[path] != kind
    ]
    return texts


def _leaves(kind: DataType, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(kind, StructType):
        for each in kind.fields:
            yield from _leaves(each.dataType, f"{path}.{each.name}".lstrip("."))
    elif isinstance(kind, ArrayType):
        yield from _leaves(kind.elementType, f"{path}[]")
    elif isinstance(kind, MapType):
        yield from _leaves(kind.valueType, f"{path}[]")
    else:
        yield path or "the record", kind.simpleString()


def _is_same(decoding: Decoding, entry: Mapping[str, Any]) -> bool:
    return bool(entry["format"] == decoding.format and entry["subject"] == decoding.subject)


def _entry(decoding: Decoding, pinned: PinnedSchema) -> dict[str, Any]:
    return {
        "format": decoding.format,
        "subject": decoding.subject,
        "label": pinned.label,
        "schema": pinned.schema,
        "references": [list(each) for each in pinned.references],
    }


def _pinned(entry: Mapping[str, Any]) -> PinnedSchema:
    references = tuple((name, text) for name, text in entry["references"])
    return PinnedSchema(entry["schema"], references, entry["label"])
