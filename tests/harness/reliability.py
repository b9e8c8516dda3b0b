"""The published results of long runs: a line of JSON for each run, in bench/reliability."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dev.version import ROOT, read_commit

FOLDER = Path(os.environ.get("KN_RECORDS") or ROOT / "bench" / "reliability")
"""The environment variable KN_RECORDS names another folder.

The tests of a build with its own tree need it: their tree is a copy.
"""


def record(
    workload: str,
    options: Mapping[str, Any],
    seconds: float,
    faults: Mapping[str, int],
    records: int,
    broken: Sequence[str],
    figures: Mapping[str, Any] | None = None,
    folder: Path = FOLDER,
    commit: str = "",
) -> None:
    """Append a run to its workload's file.

    ``options`` has the seed. ``records``: the messages whose fate was checked. ``figures``: what
    else the run has measured. ``commit``: by default the checkout's, which has changed files after
    the first record.
    """
    line = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": commit or read_commit(),
        "options": dict(options),
        "seconds": round(seconds),
        "faults": dict(sorted(faults.items())),
        "records": records,
        "verdict": "broken" if broken else "passed",
        "broken": list(broken),
        **({"figures": dict(figures)} if figures else {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{workload}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
