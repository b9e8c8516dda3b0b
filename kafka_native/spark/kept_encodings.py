"""The schemas that a stream writes with, kept beside its checkpoint.

Spark makes a new writer for each micro-batch, and another one for its commit, in other processes.
With the kept schemas, only the first micro-batch of a query asks the schema registry. A restarted
query goes on with them. They count as long as the options and the frame's columns are the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql.types import StructType

from kafka_native.spark.errors import PipelineError
from kafka_native.spark.kept_state import KeptState
from kafka_native.spark.log import logger
from kafka_native.spark.options import SinkOptions
from kafka_native.spark.typed_columns import TypedOptions
from kafka_native.spark.typed_sink import Encoding, Encodings, find_encodings

__all__ = ["stream_encodings"]

NAME: Final = "sink"
"""The name of the file beside the checkpoint."""


def stream_encodings(
    options: SinkOptions, typed: TypedOptions, schema: StructType, others: Sequence[str]
) -> Encodings:
    """Return the kept schemas of a stream. If there are none, find or register them, and keep them.

    Without a folder that `KeptState` can use, each call finds them.

    :param schema: The columns of the stream.
    :param others: The names of columns that aren't part of the value.
    :raises OptionError: See `find_encodings`.
    """
    if not typed.registry or not options.checkpoint:
        return find_encodings(typed, options.topic, schema, others)
    purpose = _digest(options.topic, typed, schema)
    state = _state(options.checkpoint)
    is_upgrade = any(each.is_upgrade for each in typed.decodings)
    content = None if state is None or is_upgrade else state.read(NAME)
    if content is not None and content["purpose"] == purpose:
        return Encodings(tuple(_encoding(each) for each in content["columns"]))
    found = find_encodings(typed, options.topic, schema, others)
    kept = {"purpose": purpose, "columns": [_entry(each) for each in found.columns]}
    if state is not None and state.read(NAME) != kept:
        state.write(NAME, kept)
    return found


def _state(checkpoint: str) -> KeptState | None:
    """The files beside the checkpoint; None: pyarrow doesn't find the checkpoint."""
    try:
        state = KeptState(checkpoint)
        query = state.query
    except (PipelineError, OSError, ValueError) as error:
        logger.info("each micro-batch asks the schema registry: %s", error)
        return None
    return state if query else None


def _digest(topic: str | None, typed: TypedOptions, schema: StructType) -> str:
    """A digest of what the schemas were found for. It hides secrets, such as those in a URL."""
    chosen = [
        [each.name, each.format, each.subject, each.version, repr(each.schema), each.message]
        for each in typed.decodings
    ]
    whole = [topic, dict(typed.registry)["url"], chosen, schema.jsonValue()]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


def _entry(encoding: Encoding) -> dict[str, Any]:
    return {
        "name": encoding.name,
        "format": encoding.format,
        "message": encoding.message,
        "schema": encoding.schema,
        "references": [list(each) for each in encoding.references],
        "prefix": encoding.prefix.hex(),
    }


def _encoding(entry: dict[str, Any]) -> Encoding:
    return Encoding(
        entry["name"],
        entry["format"],
        entry["message"],
        entry["schema"],
        tuple((name, text) for name, text in entry["references"]),
        bytes.fromhex(entry["prefix"]),
    )
