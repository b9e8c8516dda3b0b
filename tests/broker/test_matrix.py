"""The matrix of releases: its document, and a few of its cells.

``make matrix`` runs all cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.broker import java
from tests.broker.matrix.brokers import RELEASES, Broker
from tests.broker.matrix.document import PATH, text_of
from tests.broker.matrix.features import FEATURES, Missing
from tests.broker.matrix.run import Cell, cell_of, kdc_for, matrix_of, running

FEW = ("0.8.2.2", "0.9.0.1", "1.1.1", "3.3.2")
"""Releases with other ways to start, to authenticate and to refuse."""


def made(state: str = "works", note: str = "") -> list[Cell]:
    """Return a matrix of equal cells."""
    return [Cell(release, name, state, note) for release in RELEASES for name in FEATURES]


def rows_of(text: str) -> list[list[str]]:
    """Return the cells of the first table, with its head."""
    table = text[text.index("| release |") :].split("\n\n", 1)[0].splitlines()
    rows = [[each.strip() for each in line.strip("|").split("|")] for line in table]
    return [rows[0], *rows[2:]]


def test_the_document_has_each_release_and_each_feature() -> None:
    head, *rows = rows_of(PATH.read_text(encoding="utf-8"))
    assert head == ["release", *FEATURES]
    assert [row[0] for row in rows] == [*RELEASES]
    assert all(re.fullmatch(r"-|works(: .+)?", cell) for row in rows for cell in row[1:])
    assert all(cell.startswith("works") for cell in rows[-1][1:])
    assert len(rows) * (len(head) - 1) == 14 * 8


def test_the_document_is_the_one_that_the_matrix_writes() -> None:
    """A change of the text or of the columns needs another run."""
    text = PATH.read_text(encoding="utf-8")
    written = text_of(made())
    for part in ("# Apache Kafka's releases", "## What the features are"):
        [old], [new] = (
            re.findall(rf"{part}\n(.*?)\n(?:\||#)", each, re.S) for each in (text, written)
        )
        assert old == new
    assert rows_of(written)[1:] == [[release, *["works"] * len(FEATURES)] for release in RELEASES]


def test_errors_name_no_address_of_the_run() -> None:
    note = "127.0.0.1:23000/bootstrap has no version"
    assert "| TLS | 0.8.2.2," in (text := text_of(made("-", note)))
    assert "HOST:PORT has no version" in text
    assert "23000" not in text


def test_a_failure_names_its_cell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(broker: Broker) -> str:
        raise Missing("no such feature")

    monkeypatch.setitem(FEATURES, "consume", missing)
    monkeypatch.setitem(FEATURES, "produce", lambda broker: str(1 // 0))
    monkeypatch.setitem(FEATURES, "group", lambda broker: "with a note")

    class Started:
        version = "1.1.1"

    features = ("consume", "produce", "group")
    cells = [cell_of(Started(), name) for name in features]  # type: ignore[arg-type]
    assert [cell.state for cell in cells] == ["-", "fails", "works"]
    assert [cell.note for cell in cells][::2] == ["no such feature", "with a note"]
    assert cells[1].name == "produce on Apache Kafka 1.1.1"
    assert "ZeroDivisionError" in cells[1].note
    assert "1 // 0" in cells[1].trace

    def no_broker(release: str, kdc: object = None) -> Broker:
        raise RuntimeError("it did not come up")

    monkeypatch.setattr("tests.broker.matrix.run.broker_of", no_broker)
    cells = matrix_of(["1.1.1"], ["produce", "TLS"])
    assert [cell.state for cell in cells] == ["fails", "fails"]
    assert "no broker: it did not come up" in cells[0].note
    assert "1.1.1" in capsys.readouterr().out


@pytest.fixture(scope="module", params=FEW)
def release(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Yield a broker of a release."""
    if why := java.missing():
        pytest.skip(f"no Apache Kafka: {why}")
    with kdc_for([request.param]) as kdc, running(request.param, kdc) as broker:
        yield broker


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("feature", ["consume", "group", "transaction", "admin", "TLS", "SASL"])
def test_a_cell(release: Broker, feature: str) -> None:
    cell = cell_of(release, feature)
    if cell.state == "skipped":
        pytest.skip(cell.note)
    assert cell.state in ("works", "-"), cell.trace
