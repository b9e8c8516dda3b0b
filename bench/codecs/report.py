"""The tables of the codecs' scenarios, and the project's goals next to the figures."""

from __future__ import annotations

from rich.table import Table

from bench.codecs import ALL_GOOD, EVERYTHING, MESSAGES, OURS, RAW
from bench.report import Goal, Rounds, ratio, spread, table_of

RATE = "M records/s"
GOALS = (
    Goal("avro", RATE, None, 7, at_least=True),
    Goal("avro", RATE, "pyruhvro", 3, at_least=True),
    Goal("avro", RATE, "fastavro", 40, at_least=True),
    Goal("avro_nested", RATE, "pyruhvro", 3, at_least=True),
    Goal("avro_nested", RATE, "fastavro", 40, at_least=True),
    Goal("avro_projection", RATE, EVERYTHING, 2, at_least=True),
    *(Goal(name, RATE, "confluent_kafka", 10, at_least=True) for name in MESSAGES),
    Goal("deserializing_consumer", RATE, "confluent_kafka", 10, at_least=True),
    Goal("topic", RATE, RAW, 0.6, at_least=True),
    Goal("topic", RATE, "confluent_kafka", 50, at_least=True),
    Goal("malformed", "CPU", ALL_GOOD, 1.05),
    Goal("json", RATE, None, 4, at_least=True),
    Goal("json", RATE, "pyarrow", 2, at_least=True),
    Goal("json", RATE, "orjson", 5, at_least=True),
    Goal("protobuf", RATE, None, 7, at_least=True),
)


def table(scenario: str, rounds: Rounds) -> Table:
    """Make the table: one row for each contestant, with the ratios of kafka_native to it."""
    mine = rounds.get(OURS)
    rows = {}
    for name, figures in rounds.items():
        rates = [each.rate for each in figures]
        rows[name] = [
            spread([rate / 1e6 for rate in rates], ".3f"),
            spread([each.cpu_us for each in figures], ".3f"),
            ratio([each.rate for each in mine], rates) if mine else "-",
        ]
    return table_of(scenario, "library", [RATE, "CPU us/record", f"{OURS} / it"], rows)
