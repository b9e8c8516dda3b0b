"""The class that Spark registers as the data source ``kafka_native``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from kafka_native.spark.columns import COLUMNS, RANGE_COLUMNS
from kafka_native.spark.errors import OptionError
from kafka_native.spark.options import SourceOptions, lowered, redacted

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from kafka_native.spark.typed_columns import TypedColumns


class KafkaNativeDataSource(DataSource):
    """Kafka topics as source and sink of batch queries and streams.

        spark.dataSource.register(KafkaNativeDataSource)
        frame = spark.read.format("kafka_native").option("subscribe", "greetings")
        frame.option("kafka.bootstrap.servers", "localhost:9092").load()

    Options, columns and offsets are those of Spark's own connector, ``format("kafka")``.
    docs/guide/spark.md lists the additional ones.
    """

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``: ``kafka_native``."""
        return "kafka_native"

    def __init__(self, options: dict[str, str]) -> None:
        """Store Spark's options."""
        super().__init__(options)
        self._decoded: TypedColumns | None = None

    def schema(self) -> str | StructType:
        """The columns of the source, which depend on the options and on the schemas.

        Spark pickles this object afterwards. So the whole query has the schemas that were found
        here.

        :raises OptionError: An option is invalid, or a schema isn't found. Or the schema is for a
            table of CREATE TABLE: its options wouldn't be there when it is read.
        """
        if any(name.startswith("option.") for name in lowered(self.options)):
            raise OptionError(
                "USING kafka_native",
                "Spark passes the options of a table to no Python source: write CREATE TEMPORARY "
                "VIEW name USING kafka_native OPTIONS (...) in place of CREATE TABLE",
            )
        options = self._parsed()
        if options.decoded is not None:
            return options.decoded.struct(options.columns)
        return ", ".join(f"`{name}` {kind}" for name, kind in _kinds(options).items())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of ``spark.read``."""
        from kafka_native.spark import batch

        return batch.batch_reader(self._source_options(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make the reader of ``spark.readStream``."""
        from kafka_native.spark import stream_reader

        return stream_reader.StreamReader(self._source_options(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Make the writer of ``frame.write``."""
        from kafka_native.spark import writers

        return writers.batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Make the writer of ``frame.writeStream``."""
        from kafka_native.spark import writers

        return writers.stream_writer(self.options, schema, overwrite)

    def __repr__(self) -> str:
        """The options, with secrets replaced."""
        return f"KafkaNativeDataSource({redacted(lowered(self.options))})"

    def _source_options(self, schema: StructType) -> SourceOptions:
        """The parsed options. A schema with other columns than the source's is an error."""
        options = self._parsed()
        kinds = _kinds(options)
        asked = {field.name: field.dataType.simpleString() for field in schema.fields}
        if asked != kinds or list(asked) != list(kinds):
            raise OptionError(
                "schema", "the columns are fixed: leave schema() out, and choose some with columns="
            )
        return options

    def _parsed(self) -> SourceOptions:
        """The options. The first call asks the registry for the schemas of typed columns."""
        options = SourceOptions.parse(self.options)
        if options.typed is None:
            return options
        if self._decoded is None:
            from kafka_native.spark.kept_schemas import kept_schemas, log_upgrades
            from kafka_native.spark.typed_columns import resolve

            kept = kept_schemas(options)
            self._decoded = resolve(options.typed, kept)
            log_upgrades(self._decoded, kept)
        return options.with_columns(self._decoded)


def _kinds(options: SourceOptions) -> Mapping[str, str]:
    """The columns in their order, with Spark's names of the types."""
    if options.decoded is not None:
        fields = options.decoded.struct(options.columns).fields
        return {each.name: each.dataType.simpleString() for each in fields}
    return (
        RANGE_COLUMNS
        if options.rows == "ranges"
        else {name: COLUMNS[name] for name in options.columns}
    )
