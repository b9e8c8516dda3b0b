"""The table of all planted bugs in docs/internals/planted-bugs.md.

``python -m tests.planted.table`` writes it. A test compares it with the bugs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.broker import test_planted
from tests.broker.acked.planted import BUGS as ACKED
from tests.broker.bank.planted import BUGS as BANK
from tests.broker.chain.planted import BUGS as CHAIN
from tests.broker.chaos.planted import BUGS as CHAOS
from tests.broker.copies.planted import BUGS as COPIES
from tests.broker.histories.planted import BUGS as HISTORIES
from tests.broker.share.planted import BUGS as SHARE
from tests.planted.mutants import MUTANTS, ROOT

PAGE = ROOT / "docs" / "internals" / "planted-bugs.md"
HEAD = ("bug", "what is wrong", "where", "workload", "rules that catch it")


class Row(NamedTuple):
    """A row of the table."""

    bug: str
    what: str
    where: str
    workload: str
    rules: str


def named(rules: set[str]) -> str:
    return ", ".join(f"`{rule}`" for rule in sorted(rules))


def place_in_the_core(bug: str) -> str:
    """Return the C file that has a bug."""
    [found] = [
        path
        for path in sorted(Path(ROOT / "csrc").glob("*/*.c"))
        if f'kn_planted("{bug}")' in path.read_text(encoding="utf-8")
    ]
    return str(found.relative_to(ROOT))


def rows() -> Iterator[Row]:
    """Yield the bugs: of the Python code, of the core, and of the test programs."""
    for mutant in MUTANTS:
        where = f"`kafka_native/{mutant.file}`"
        yield Row(mutant.name, mutant.what, where, mutant.workload, named(mutant.rules))
    for bug in (*test_planted.BUGS, test_planted.SHOWN_ABORTED):
        workload = "bank" if bug is test_planted.SHOWN_ABORTED else "acked"
        where = f"`{place_in_the_core(bug.bug)}`"
        yield Row(bug.bug, bug.what, where, workload, named(bug.rules))
    for name, kind in ACKED.items():
        what = (kind.__doc__ or "").strip().splitlines()[0].rstrip(".")
        where = "`tests/broker/acked/planted.py`"
        yield Row(
            name, f"The producer {what[0].lower()}{what[1:]}", where, "acked", f"`{kind.rule}`"
        )
    for workload, member, bugs in (
        ("chaos", "tests/broker/chaos/member.py", CHAOS),
        ("bank", "tests/broker/transformer.py", BANK),
        ("copies", "tests/broker/copies/run.py", COPIES),
        ("chain", "tests/broker/copier.py", CHAIN),
        ("histories", "tests/broker/histories/process.py", HISTORIES),
        ("share", "tests/broker/share/member.py", SHARE),
    ):
        for name, planted in bugs.items():
            yield Row(name, planted.what, f"`{member}`", workload, named(planted.rules))


def table() -> str:
    """Return the table's lines."""
    lines = [HEAD, ("---",) * len(HEAD), *((f"`{row.bug}`", *row[1:]) for row in rows())]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def with_table(page: str) -> str:
    """Return the page with a new table, and the number of bugs."""
    text = re.sub(r"^\| bug \|.*\n(?:\|.*\n)+", lambda _: table(), page, flags=re.MULTILINE)
    return re.sub(
        r"There are \d+ planted bugs", f"There are {len(list(rows()))} planted bugs", text
    )


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
