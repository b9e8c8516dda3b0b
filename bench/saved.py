"""A run's results in a file: after each scenario, so that a run can end and continue later."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.adapters import Figures
from bench.environment import Environment
from bench.report import Rounds
from dev.version import ROOT

MEASURED = ROOT / "bench" / "measured.json"
"""The run that the page shows."""
LISTED = ("versions", "run")
"""Parts of the environment that may change between two parts of a run: all values are kept."""


class OtherRunError(Exception):
    """A run that can't be continued: it was measured elsewhere or with other settings."""


@dataclass
class Saved:
    """What `results.json` has: figures, failures, and the reasons of clients that are missing."""

    path: Path
    environment: Environment = field(default_factory=dict)
    scenarios: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    failed: dict[str, dict[str, str]] = field(default_factory=dict)
    without: dict[str, dict[str, str]] = field(default_factory=dict)
    spark: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)

    @classmethod
    def opened(cls, path: Path, environment: Environment, *, resume: bool) -> Saved:
        """Return the results to add to: those of the file, or none.

        :raises OtherRunError: If the file is of another machine or of other settings.
        """
        if not resume or not path.exists():
            return cls(path, environment)
        found = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            path,
            joined(found["environment"], environment),
            found["scenarios"],
            found["failed"],
            found.get("without", {}),
            found.get("spark", {}),
        )

    def add(
        self, scenario: str, rounds: Rounds, failed: dict[str, str], without: dict[str, str]
    ) -> None:
        """Add a scenario's results and write the file. It is whole at any time."""
        self.scenarios[scenario] = {
            name: [asdict(each) for each in every] for name, every in rounds.items()
        }
        for kept, reasons in ((self.failed, failed), (self.without, without)):
            kept.pop(scenario, None)
            if reasons:
                kept[scenario] = reasons
        self.write()

    def write(self) -> None:
        """Write the file in one step."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = {
            "environment": self.environment,
            "scenarios": self.scenarios,
            "failed": self.failed,
            "without": self.without,
            "spark": self.spark,
        }
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(text, indent=2) + "\n", encoding="utf-8")
        os.replace(new, self.path)


@dataclass(frozen=True)
class Results:
    """A run as `make bench` saves it. ``spark``: figures of `python -m bench spark`."""

    environment: Environment
    scenarios: dict[str, Rounds]
    failed: dict[str, dict[str, str]]
    without: dict[str, dict[str, str]] = field(default_factory=dict)
    spark: dict[str, Rounds] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Results:
        found = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            found["environment"],
            _rounds(found["scenarios"]),
            found["failed"],
            found.get("without", {}),
            _rounds(found.get("spark", {})),
        )


def _rounds(found: dict[str, dict[str, list[dict[str, Any]]]]) -> dict[str, Rounds]:
    return {
        scenario: {name: [Figures(**each) for each in every] for name, every in rounds.items()}
        for scenario, rounds in found.items()
    }


def add_spark(results: Path, spark: Path) -> None:
    """Put the figures of a run on Spark into a run's results."""
    found = json.loads(results.read_text(encoding="utf-8"))
    saved = Saved(
        results,
        found["environment"],
        found["scenarios"],
        found["failed"],
        found.get("without", {}),
        json.loads(spark.read_text(encoding="utf-8")),
    )
    saved.write()


def joined(before: Environment, now: Environment) -> Environment:
    """Return the environment of a run in two parts."""
    found: Environment = {}
    for part, values in now.items():
        old = before.get(part, {})
        if part in LISTED:
            found[part] = {name: _both(old.get(name, ""), value) for name, value in values.items()}
        elif old != values:
            raise OtherRunError(f"the {part} of the results differ: {old}, now {values}")
        else:
            found[part] = values
    return found


def _both(before: str, now: str) -> str:
    """Keep each value once, one a line."""
    return "\n".join(dict.fromkeys([*before.splitlines(), *now.splitlines()]))
