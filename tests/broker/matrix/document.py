"""docs/COMPATIBILITY.md, made from the cells of the matrix."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.broker.matrix.brokers import RELEASES
from tests.broker.matrix.features import FEATURES
from tests.downloads import ROOT

if TYPE_CHECKING:
    from tests.broker.matrix.run import Cell

PATH = ROOT / "docs" / "COMPATIBILITY.md"
INTRODUCTION = """\
# Apache Kafka's releases

`make matrix` starts a broker of each of these releases, uses each feature with it, and writes this
page. So each cell that says "works" has worked with a real broker. A dash means that the release
doesn't have the feature. Then the client has reported the error below.

[The guide to old brokers](guide/old-brokers.md) says how you configure clients for brokers before
1.0. The broker of 3.3.2 has no SCRAM, because it runs with KRaft, which has SCRAM from 3.5 on.
"""
WITNESS = """\
librdkafka is the other side: it reads what the producer has written, and writes what the consumer
reads. The brokers run on Java 17, each alone in its cluster.\
"""
ADDRESS = re.compile(r"127\.0\.0\.1:\d+(?:/\w+(?: \d+)?)?(?: \([\d.:]+\))?")


def text_of(cells: Sequence[Cell]) -> str:
    """Return the document."""
    found = {(cell.release, cell.feature): cell for cell in cells}
    lines = [
        INTRODUCTION,
        f"| release | {' | '.join(FEATURES)} |",
        f"|---|{'---|' * len(FEATURES)}",
        *(
            f"| {release} | "
            + " | ".join(_shown(found[release, feature]) for feature in FEATURES)
            + " |"
            for release in RELEASES
        ),
        "",
        "## What the features are",
        "",
        "| feature | what the client does |",
        "|---|---|",
        *(f"| {name} | {inspect.getdoc(check)} |" for name, check in FEATURES.items()),
        "",
        WITNESS,
        "",
        "## Errors of missing features",
        "",
        "| feature | releases | error |",
        "|---|---|---|",
        *_errors(cells),
        "",
    ]
    return "\n".join(lines)


def _shown(cell: Cell) -> str:
    """Return the text of a cell."""
    if cell.state == "works" and cell.note:
        return f"works: {cell.note}"
    return cell.state


def _errors(cells: Sequence[Cell]) -> list[str]:
    """Return a line for each feature that some releases lack."""
    missing = [cell for cell in cells if cell.state == "-"]
    lines = []
    for feature in FEATURES:
        own = [cell for cell in missing if cell.feature == feature]
        if own:
            releases = ", ".join(cell.release for cell in own)
            text = ADDRESS.sub("HOST:PORT", own[-1].note)
            lines.append(f"| {feature} | {releases} | {text} |")
    return lines
