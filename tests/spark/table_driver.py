"""Archives batch after batch into a table without Spark, until it is killed.

It takes the kind of table, its folder, the brokers, and optionally a number of batches. The file
``committed`` in the folder takes the place of Spark's own commits: the number of the next batch.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

from tests.spark.tables import DeltaTables, IcebergTables, frame, run_of

EACH = 10
"""The offsets of a batch, in each partition."""
KINDS = {"delta": DeltaTables, "iceberg": IcebergTables}


def main(kind: str, folder: Path, bootstrap: str, count: int | None) -> None:
    """Archive batches from the first one that isn't committed on."""
    committed = folder / "committed"
    start = int(committed.read_text()) if committed.exists() else 0
    print("ready", flush=True)
    run = run_of(KINDS[kind](folder).target(), bootstrap)
    for batch in itertools.count(start) if count is None else range(start, start + count):
        run.commit(frame(EACH * batch, EACH * batch + EACH), batch)
        temporary = folder / "committed.new"
        temporary.write_text(str(batch + 1))
        os.replace(temporary, committed)


if __name__ == "__main__":
    main(
        sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else None
    )
