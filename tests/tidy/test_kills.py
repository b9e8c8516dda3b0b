"""The table "After a kill" of the Spark guide: each row has code and tests in dev/kills.toml."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dev.tables import table

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "spark.md").read_text(encoding="utf-8")
EVIDENCE: dict[str, list[str]] = table("kills")


def rows() -> list[str]:
    """Return the first cells of the table."""
    text = GUIDE.split("\n## After a kill\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
    assert found[0] == "what was running"
    return found[1:]


def test_each_row_has_evidence_and_all_evidence_has_a_row() -> None:
    assert len(rows()) > 10
    assert rows() == list(EVIDENCE)


@pytest.mark.parametrize("what", EVIDENCE)
def test_evidence_names_code_and_tests_that_exist(what: str) -> None:
    places = EVIDENCE[what]
    tests = [each for each in places if each.startswith("tests/")]
    assert tests
    assert [each for each in places if each.startswith("kafka_native/spark/")]
    for each in places:
        path, _, name = each.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert (each in tests) == bool(name)
        assert re.search(rf"^ *def {name}\(", text, re.MULTILINE) or not name
