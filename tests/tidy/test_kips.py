"""docs/KIPS.md tells the truth: what it names exists, and its protocol versions are the code's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafka_native.control.brokers import versions
from kafka_native.protocol import registry

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "KIPS.md").read_text(encoding="utf-8")
STATES = ("works", "partly", "planned", "not for a client")
NAMED = re.compile(r"`((?:kafka_native|csrc|tests|bench|docs)/[\w./-]+)(?:::(\w+))?`")


def section(title: str) -> list[list[str]]:
    """The rows of the tables below a heading, each a list of cells."""
    text = PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row] for row in rows]
    return [row for row in cells if row[0] not in ("KIP", "key", "feature") and not set(row[0]) <= {"-"}]


KIPS = section("KIPs")
APIS = section("Protocol versions")
FEATURES = section("Features of krafka's guides")
# (what, state, where or why)
CLAIMS = (
    [(r[0], r[3], r[4]) for r in KIPS] + [(r[1], r[4], r[6]) for r in APIS] + [(r[0], r[1], r[2]) for r in FEATURES]
)


def test_page_has_the_tables_it_promises() -> None:
    assert len(KIPS) >= 108
    assert len({row[0] for row in KIPS}) == len(KIPS)
    assert len(FEATURES) >= 80
    assert {int(row[0]) for row in APIS} >= set(range(48))
    assert len({row[0] for row in APIS}) == len(APIS)


@pytest.mark.parametrize(("what", "state", "where"), CLAIMS)
def test_claim_has_a_state_and_what_it_takes(what: str, state: str, where: str) -> None:
    assert state in STATES
    assert where
    named = NAMED.findall(where)
    if state in ("works", "partly"):
        assert any(not path.startswith("tests/") for path, _ in named), "name the file"
        assert any(path.startswith("tests/") and test for path, test in named), "name the test"
    if state == "not for a client":
        assert not named


@pytest.mark.parametrize("path_and_name", sorted(set(NAMED.findall(PAGE))), ids="::".join)
def test_named_file_and_test_exist(path_and_name: tuple[str, str]) -> None:
    path, name = path_and_name
    assert (ROOT / path).exists()
    if name:
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8"))


def declared_keys() -> set[int]:
    """The APIs that kafka_native/protocol declares."""
    return {int(key) for key in registry.api_keys()}


@pytest.mark.parametrize("row", APIS, ids=lambda row: row[1])
def test_declared_versions_are_those_of_the_code(row: list[str]) -> None:
    key = int(row[0])
    if key in declared_keys():
        request = registry.request(key)
        assert row[2] == f"{request.min_version}-{request.max_version}"
    else:
        assert row[2] == "-"


def test_every_declared_api_is_listed() -> None:
    assert declared_keys() <= {int(row[0]) for row in APIS}


@pytest.mark.parametrize("row", APIS, ids=lambda row: row[1])
def test_spoken_versions_are_those_of_the_code(row: list[str]) -> None:
    key, spoken = int(row[0]), row[3]
    native = {0: versions.C_PRODUCE_VERSIONS[1], 1: versions.C_FETCH_VERSIONS[1]}
    if key in native:
        assert spoken == str(native[key])
    elif is_sent(f"{row[1]}Request"):
        assert spoken == str(registry.request(key).max_version)
    else:
        assert spoken == "-", "no code of the client sends it"
    assert (spoken != "-") == (row[4] in ("works", "partly"))


def is_sent(request: str) -> bool:
    """Whether the client, not only the declarations, the mock cluster and the tests, knows this request."""
    package = ROOT / "kafka_native"
    folders = ("admin", "control", "security", "cli")
    ours = [*package.glob("*.py"), *(path for name in folders for path in (package / name).rglob("*.py"))]
    return any(re.search(rf"\b{request}\b", path.read_text(encoding="utf-8")) for path in ours)
