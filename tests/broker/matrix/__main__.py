"""``python -m tests.broker.matrix`` prints the matrix of releases. ``--write`` writes the document."""

from __future__ import annotations

import argparse
import sys

from tests.broker import java
from tests.broker.matrix.brokers import RELEASES
from tests.broker.matrix.document import PATH, text_of
from tests.broker.matrix.features import FEATURES
from tests.broker.matrix.run import matrix_of


def main() -> int:
    """Run the matrix. The exit status is 1 if a cell fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.broker.matrix", description=__doc__)
    parser.add_argument("--release", nargs="+", choices=RELEASES, default=[*RELEASES])
    parser.add_argument("--feature", nargs="+", choices=[*FEATURES], default=[*FEATURES])
    parser.add_argument("--write", action="store_true", help=f"write {PATH.name}")
    args = parser.parse_args()
    if args.write and (args.release, args.feature) != ([*RELEASES], [*FEATURES]):
        parser.error("--write needs all releases and all features")
    if why := java.missing():
        print(f"no brokers: {why}", file=sys.stderr)
        return 1
    cells = matrix_of(args.release, args.feature)
    failed = [cell for cell in cells if cell.state == "fails"]
    for cell in cells:
        if cell.state == "skipped":
            print(f"skipped: {cell.name}: {cell.note}")
    for cell in failed:
        print(f"FAILED: {cell.name}: {cell.note}\n{cell.trace}", file=sys.stderr)
    print(f"{len(cells)} cells, {len(failed)} failed")
    if failed or not args.write:
        return 1 if failed else 0
    if any(cell.state == "skipped" for cell in cells):
        print(f"{PATH.name} isn't written: cells were skipped", file=sys.stderr)
        return 1
    PATH.write_text(text_of(cells), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
