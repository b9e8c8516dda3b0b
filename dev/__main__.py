"""Write one page with all evidence: ``python -m dev FILE``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from .evidence import EVIDENCE
from .tables import table


def _section(title: str, rows: Iterable[tuple[str, Iterable[str]]]) -> list[str]:
    lines = ["", f"## {title}", "", "| what | code | tests |", "|---|---|---|"]
    for feature, places in rows:
        named = sorted(places, key=lambda place: place.startswith("tests/"))
        tests = [f"`{place}`" for place in named if place.startswith("tests/")]
        code = [f"`{place}`" for place in named if not place.startswith("tests/")]
        lines.append(f"| {feature} | {' '.join(code)} | {' '.join(tests)} |")
    return lines


def render() -> str:
    """Return the page as Markdown."""
    kips, errors = table("kips"), table("errors")
    lines = ["# Evidence", "", "Made from `dev/` by `make docs`."]
    properties = ((f"`{name}`", (*found.acts, found.test)) for name, found in EVIDENCE.items())
    lines += _section("Properties", properties)
    lines += _section("KIPs", kips["kips"].items())
    lines += _section("Protocol APIs", kips["apis"].items())
    lines += _section("Features", kips["features"].items())
    lines += _section("After a kill", table("kills").items())
    lines += _section("Errors", ((row["what"], row["tests"]) for row in errors["conditions"]))
    return "\n".join(lines) + "\n"


def main(argv: list[str]) -> int:
    """Write the page to the file named."""
    target = Path(argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(render(), encoding="utf-8")
    print(f"wrote {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
