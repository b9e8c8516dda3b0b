"""Write docs/CONFIGURATION.md from the declarations.

Usage: ``python -m kafka_native._reference [FILE]``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kafka_native.config import PROPERTIES
from kafka_native.partitioners import PARTITIONERS

from .property import BOTH, CONSUMER, PRODUCER, Property, State
from .safer_defaults import SAFER_DEFAULTS

_HEAD = """\
# Configuration

A `Producer` and a `Consumer` take one mapping of properties. Names, ranges and defaults are librdkafka's, so a
configuration of confluent_kafka needs no change. The last section lists the differences. `make docs` generates this
page from the declarations.

A value has the property's type, or is a string: `"5"` for 5, `"true"` for True. Numbers of any type, paths and
`uuid.UUID` are converted. Choices may have any case. A topic's property may begin with `topic.`. An unknown property
or an invalid value raises `KafkaException` with `_INVALID_ARG`. A client ignores a property of the other kind of
client, with a warning. A deprecated property logs a warning once a process.

The effect of a property in this version:

- **effective**: it has its documented effect.
- **no effect**: it is accepted and does nothing, for the given reason. A value other than its default logs a warning,
  once a process.
- **refused**: ignoring it would be wrong or dangerous. So a value other than its default raises `KafkaException` with
  `_NOT_IMPLEMENTED`.

A property of high importance is one that many applications set.
"""

_TAIL = """\
## Where this client differs from librdkafka

| what | librdkafka | here | why |
|---|---|---|---|
{defaults}
| numbers in strings | `"1k"` is read as 1 | an error | a typing error must not change a limit |
| `bootstrap.servers` | a bad entry is logged | an error | the client couldn't connect to it anyway |
| `delivery.report.only.error` | only `True` and `False` | strings too | as for every other boolean |
| a callback of `None` | an error | no callback | a program may build its configuration from optional parts |
| `default.topic.config` that isn't a mapping | `AttributeError` | `KafkaException`; `None`: none | as for others |
| `interceptors` | for plugins in C only | a list of Python objects | KIP-42 for Python |
| `partitioner_cb` | for C only | a Python function | the Java client's `partitioner.class` |
"""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _range(declared: Property) -> str:
    if declared.kind in ("integer", "float"):
        synonyms = [f"`{synonym}`" for synonym, _ in declared.synonyms]
        return " or ".join([f"{declared.minimum} .. {declared.maximum}", *synonyms])
    if declared.kind == "boolean":
        return "true, false"
    if declared.name == "partitioner":
        return ", ".join(PARTITIONERS)
    durations = (
        (f"{declared.duration_prefix}PT1H (any ISO-8601 duration)",)
        if declared.duration_prefix
        else ()
    )
    return ", ".join((*declared.choices, *durations))


def _default(declared: Property) -> str:
    if declared.default is None:
        return ""
    text = (
        str(declared.default).lower()
        if isinstance(declared.default, bool)
        else str(declared.default)
    )
    return f"`{_cell(text)}`"


def _state(declared: Property) -> str:
    label = {State.EFFECTIVE: "effective", State.INERT: "no effect", State.REFUSED: "**refused**"}[
        declared.state
    ]
    return _cell(f"{label} ({declared.note})" if declared.note else label)


def _doc(declared: Property) -> str:
    parts = [declared.doc]
    if declared.alias_of and declared.alias_of not in declared.doc:
        parts.append(f"Alias of `{declared.alias_of}`.")
    if declared.deprecated:
        parts.append("*Deprecated.*")
    return _cell(" ".join(parts))


def _table(title: str, declared: list[Property]) -> list[str]:
    lines = [
        f"## {title}",
        "",
        "| property | values | default | importance | in this version | meaning |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{p.name}` | {_cell(_range(p) or p.kind)} | {_default(p)} | {p.importance} | "
        f"{_state(p)} | {_doc(p)} |"
        for p in declared
    ]
    return [*lines, ""]


def safer_defaults() -> str:
    """Return the table rows of the defaults that differ from librdkafka's.

    The guide for users of confluent_kafka has the same rows.
    """
    rows = []
    for name, safer in SAFER_DEFAULTS.items():
        theirs = f"`{safer.librdkafka}`" if " " not in safer.librdkafka else safer.librdkafka
        rows.append(f"| `{name}` | {theirs} | {_default(PROPERTIES[name])} | {safer.why} |")
    return "\n".join(rows)


def render() -> str:
    """Return the page as Markdown."""
    settable = [p for p in PROPERTIES.values() if p.state is not State.INTERNAL]
    internal = [p for p in PROPERTIES.values() if p.state is State.INTERNAL]
    lines = [_HEAD]
    for title, scope in (("Of both", BOTH), ("Of producers", PRODUCER), ("Of consumers", CONSUMER)):
        lines += _table(title, [p for p in settable if p.scope == scope])
    lines += [
        "## Not settable",
        "",
        "These belong to librdkafka's C interface and are errors in Python, as in confluent_kafka.",
        "",
    ]
    lines += [f"- `{p.name}`: {p.doc}" for p in internal]
    lines += ["", _TAIL.format(defaults=safer_defaults())]
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Write the page to the named file, or to its place in the source tree."""
    target = (
        Path(argv[1]) if len(argv) > 1 else Path(__file__).parents[2] / "docs" / "CONFIGURATION.md"
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(render(), encoding="utf-8")
    print(f"wrote {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
