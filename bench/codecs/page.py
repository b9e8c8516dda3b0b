"""docs/TYPED-DATA-BENCHMARKS.md: the measured table, made from a run's figures."""

from __future__ import annotations

import os
import platform
from statistics import median

from bench.codecs import ALL_GOOD, EVERYTHING, MESSAGES, OURS, RAW, READER, SCENARIOS
from bench.environment import processor, version
from bench.report import Rounds, ratio, spread

PACKAGES = ("kafka-native", "pyruhvro", "fastavro", "confluent-kafka", "orjson", "protobuf")
PACKAGES += ("pyarrow",)
BESIDE = (ALL_GOOD, EVERYTHING, RAW, READER)
"""Rows that are kafka_native too."""

TITLES = {
    "avro": "Avro, flat records",
    "avro_nested": "Avro, nested records",
    "avro_projection": "Avro, 2 of 10 fields",
    "json": "JSON, flat records",
    "json_nested": "JSON, nested records",
    "protobuf": "Protobuf, flat records",
    "protobuf_nested": "Protobuf, nested records",
    "avro_messages": "Avro, one flat record at a time into a dict",
    "avro_messages_nested": "Avro, one nested record at a time into a dict",
    "json_messages": "JSON, one flat record at a time, validated, into a dict",
    "json_messages_nested": "JSON, one nested record at a time, validated, into a dict",
    "protobuf_messages": "Protobuf, one flat record at a time into a message",
    "protobuf_messages_nested": "Protobuf, one nested record at a time into a message",
    "avro_objects": "Avro, one flat record at a time into a dataclass",
    "json_objects": "JSON, one flat record at a time, validated, into a dataclass",
    "protobuf_objects": "Protobuf, one flat record at a time into a dataclass",
    "avro_encode": "Avro, columns encoded",
    "json_encode": "JSON, columns encoded",
    "protobuf_encode": "Protobuf, columns encoded",
    "topic": "A topic of flat Avro records into columns, over a broker",
    "malformed": "The same topic with one malformed record in a hundred",
    "deserializing_consumer": "A topic of flat Avro records into dicts, over a broker",
}
ROWS = {
    "fastavro": "fastavro and pyarrow",
    "orjson": "orjson and pyarrow",
    "json": "json and pyarrow",
    "protobuf": "protobuf and pyarrow",
    "pyarrow": "pyarrow.json",
    "confluent_kafka": "confluent_kafka's AvroDeserializer and pyarrow",
    EVERYTHING: "kafka_native, all fields",
    RAW: "kafka_native, without a codec: raw bytes",
    READER: "kafka_native's AvroReader, without a framing",
    ALL_GOOD: "kafka_native, no malformed records",
}
OF_MESSAGES = {
    "fastavro": "fastavro, without a framing",
    "orjson": "orjson, without a framing or a validation",
    "protobuf": "protobuf, without a framing",
    "confluent_kafka": "confluent_kafka's deserializer",
    OURS: "kafka_native's deserializer",
}
OF_CONSUMER = {
    "confluent_kafka": "confluent_kafka's DeserializingConsumer",
    OURS: "kafka_native's DeserializingConsumer",
}

HEADINGS = "| library | M records/s | CPU us/record | kafka_native's rate / its rate |\n"
HEAD = """# Typed data: measured

`python -m bench codecs --page` measures the decoders of typed records beside other libraries, and
writes this page. [The guide](guide/typed-columns.md) shows how to use the decoders.

## Machine and versions

"""
METHOD = """
## Method

- A flat record has ten fields: five texts, three whole numbers, a float and a boolean. It has about
  80 bytes in Avro. A nested record has a record, an array of records, an array of texts and a map.
  It has about 160 bytes. The records are the same in all formats.
- Each library runs in its own process, in one thread, and decodes 10,000 records a call. Schemas
  are parsed before the measurement. Each library starts with the form that it takes: a binary Arrow
  column or a list of bytes.
- The libraries take turns, and each ratio is taken within a round.
- The tables have {figures}.
- CPU is the processor time for a record, in microseconds: user and system. Over a broker, it is the
  time of all the client's threads.
- Rates depend on the machine. Ratios and CPU per record change much less.

Repeat it on a quiet machine:

```sh
pip install 'kafka-native[bench]'
python -m bench codecs --seconds 5 --page docs/TYPED-DATA-BENCHMARKS.md
```

[The benchmarks' guide](guide/bench.md#typed-records) has the options.
"""


def page_of(results: dict[str, Rounds]) -> str:
    """Return the page in Markdown."""
    rounds = max(len(each) for found in results.values() for each in found.values())
    figures = "the figures of one round"
    if rounds > 1:
        figures = (
            f"the medians of {rounds} rounds, with the lowest and highest value in parentheses"
        )
    parts = [HEAD, _machine(), METHOD.format(figures=figures)]
    parts += ["\n## Where another library is faster\n\n", *_faster(results)]
    parts += ["\n## Figures\n"]
    parts += [_table(scenario, results[scenario]) for scenario in SCENARIOS if scenario in results]
    return "".join(parts)


def _machine() -> str:
    found = [f"{name} {version(name)}" for name in PACKAGES]
    return (
        f"- Processor: {processor()}, {os.cpu_count()} cores\n"
        f"- {platform.system()}, {platform.python_implementation()} "
        f"{platform.python_version()}\n"
        f"- {', '.join(found)}\n"
    )


def _faster(results: dict[str, Rounds]) -> list[str]:
    """Return a line for each other library with a higher rate."""
    lines = []
    for scenario, found in results.items():
        for name, figures in found.items():
            if name in (OURS, *BESIDE) or OURS not in found:
                continue
            mine = found[OURS]
            factor = median(a.rate / b.rate for a, b in zip(figures, mine, strict=True))
            if factor > 1:
                lines.append(f"- {TITLES[scenario]}: {name} is {factor:.2f} times as fast.\n")
    return lines or ["In no table below.\n"]


def _table(scenario: str, found: Rounds) -> str:
    """Return a table with a row for each library."""
    names = ROWS
    if scenario in MESSAGES:
        names = ROWS | OF_MESSAGES
    elif scenario == "deserializing_consumer":
        names = OF_CONSUMER
    lines = [f"\n### {TITLES[scenario]}\n\n", HEADINGS, "|---|---|---|---|\n"]
    mine = [each.rate for each in found.get(OURS, ())]
    for name, figures in found.items():
        rates = [each.rate for each in figures]
        cells = [names.get(name, name), _figure([rate / 1e6 for rate in rates], ".3g")]
        cells += [_figure([each.cpu_us for each in figures], ".3f")]
        cells += [ratio(mine, rates) if mine and name != OURS else ""]
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def _figure(values: list[float], form: str) -> str:
    return spread(values, form) if len(values) > 1 else f"{values[0]:{form}}"
