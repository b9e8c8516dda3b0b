"""Archives with decoded keys and values: the options of their tasks, and the columns of the files.

A query of `archive` plans ranges of offsets, which have no decoded columns. So the options are
taken apart: the query gets the plan's, its tasks get all of them. The tasks decode with the codecs
of the source's typed columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafka_native.spark.errors import OptionError
from kafka_native.spark.options import DEAD_LETTERS_PREFIX, SourceOptions, lowered
from kafka_native.spark.patterns import topic_pattern
from kafka_native.spark.pipelines.archive_target import ArchiveTarget
from kafka_native.spark.pipelines.lake_schemas import COLUMNS, NAMES, SCHEMA
from kafka_native.spark.pipelines.session import ranges_in
from kafka_native.spark.typed_columns import NAMES as TYPED_NAMES
from kafka_native.spark.typed_columns import REGISTRY_PREFIX, TypedColumns, resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "check_columns",
    "error_columns",
    "file_schema",
    "keep_schemas",
    "open_targets",
    "planned_options",
    "remove_stale_letters",
    "task_options",
]

_TYPED: Final = frozenset(name.lower() for name in (*TYPED_NAMES, "columns", "deadLetters"))
_FOLDER_COLUMNS: Final = ("topic", "date", *NAMES.values())
"""Further names of a lake's columns, which no field may have."""


def planned_options(source: Mapping[str, str]) -> dict[str, str]:
    """The options of the query that plans ranges: all but those of decoded columns."""
    return {
        name: value
        for name, value in source.items()
        if name.lower() not in _TYPED
        and not name.lower().startswith((REGISTRY_PREFIX, DEAD_LETTERS_PREFIX))
    }


def task_options(source: Mapping[str, str], checkpoint: str = "") -> SourceOptions:
    """The options of the tasks. With formats, the driver finds the readers' schemas here.

    :param source: All options of `archive`.
    :param checkpoint: The query's checkpoint, which keeps the schemas; empty: none.
    :raises OptionError: An option is invalid, or a schema isn't found.
    """
    planned = SourceOptions.parse(planned_options(source)).for_stream()
    given = {name: value for name, value in lowered(source).items() if name != "rows"}
    parsed = SourceOptions.parse(given)
    if parsed.typed is None:
        if "columns" in given:
            raise OptionError("columns", "it chooses fields: it needs value.format or key.format")
        return planned
    for name in filter(None, (each.strip() for each in given.get("columns", "").split(","))):
        if "." not in name:
            raise OptionError(
                "columns", f"{name!r} isn't a field: an archive has all other columns"
            )
    # Imported here, because most archives decode nothing.
    from kafka_native.spark.kept_schemas import kept_schemas, log_upgrades

    columns = (*COLUMNS, *parsed.typed.error_columns)
    options = replace(parsed, columns=columns, checkpoint=checkpoint)
    kept = kept_schemas(options)
    decoded = resolve(parsed.typed, kept)
    log_upgrades(decoded, kept)
    _check_names(decoded, columns)
    return options.with_columns(decoded)


def file_schema(options: SourceOptions) -> pa.Schema:
    """The columns of the files of an archive with these options of its tasks."""
    decoded = options.decoded
    if decoded is None:
        return SCHEMA
    raw = set(COLUMNS) - {each.name for each in decoded.options.decodings}
    return pa.schema(
        [
            SCHEMA.field(NAMES.get(name, name)) if name in raw else pa.field(name, column.arrow)
            for name, column in decoded.output(options.columns)
        ]
    )


def error_columns(options: SourceOptions) -> list[str]:
    """The columns with the reasons why keys and values don't decode (``mode=PERMISSIVE``)."""
    if options.decoded is None:
        return []
    found = options.decoded.options.error_columns
    return [name for name, (_, kind) in found.items() if kind == "error"]


def open_targets(target: ArchiveTarget, options: SourceOptions) -> None:
    """Prepare the lake or table, and check the target of dead letters, before anything is read.

    :raises OptionError: The target of dead letters doesn't exist.
    :raises PipelineError: The lake or table can't take the records.
    """
    target.use_columns(file_schema(options))
    target.prepare()
    if options.dead_letters is not None:
        from kafka_native.spark.dead_letters import check_target

        check_target(options)
    check_columns(target, options)


def check_columns(target: ArchiveTarget, options: SourceOptions) -> None:
    """Check the columns of the files that the lake or table has.

    :raises PipelineError: A topic's files have columns that differ.
    """
    target.use_columns(file_schema(options))
    named = frozenset(options.subscription.named_topics)
    pattern = options.subscription.pattern
    expression = topic_pattern(pattern) if pattern else None
    optional: Collection[str] = ()
    if options.typed is not None:  # with another mode, the columns of bad records are there or not
        optional = replace(options.typed, mode="PERMISSIVE").error_columns
    target.check_columns(
        lambda topic: topic in named if expression is None else bool(expression.fullmatch(topic)),
        optional,
    )


def keep_schemas(options: SourceOptions) -> None:
    """Store the readers' schemas beside the checkpoint of a running query.

    :raises OptionError: The checkpoint has other schemas, and the options don't allow a change.
    """
    if options.decoded is not None:
        from kafka_native.spark.kept_schemas import keep

        keep(options)


def remove_stale_letters(options: SourceOptions, frame: DataFrame) -> None:
    """Remove the dead letters of an earlier run of a batch, which other tasks may have written.

    :param frame: The ranges of the batch.
    """
    if options.dead_letters is not None and options.dead_letters.folder:
        from kafka_native.spark.dead_letters import remove_stale

        batches = frame.toArrow().to_batches()
        remove_stale(options, [each for batch in batches for each in ranges_in(batch)])


def _check_names(decoded: TypedColumns, columns: tuple[str, ...]) -> None:
    """Check that no column has the name of one that the lake adds.

    :raises OptionError: A field has such a name.
    """
    for name, _ in decoded.output([each for each in columns if each not in NAMES]):
        if name.lower() in _FOLDER_COLUMNS:
            raise OptionError(
                "flatten", f"a lake has a column {name.lower()} itself: leave flatten out"
            )
