"""docs/KIPS.md is correct: working features have code and tests in dev/kips.toml, and versions
match the code.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dev.tables import table
from kafka_native._native import enums
from kafka_native.control.producer.transactions import LAST_OF_CLIENTS
from kafka_native.protocol import ApiKey, registry

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs" / "guide"
PAGE = (ROOT / "docs" / "KIPS.md").read_text(encoding="utf-8")
STATES = ("works", "works on the mock", "partly", "planned", "not for a client")

WORKING = STATES[:2]


def section(title: str) -> list[list[str]]:
    """Return the rows of the tables below a heading, as lists of cells."""
    text = PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row] for row in rows]
    return [
        row for row in cells if row[0] not in ("KIP", "key", "feature") and not set(row[0]) <= {"-"}
    ]


KIPS = section("KIPs")
APIS = section("Protocol versions")
FEATURES = section("Features of krafka's guides")
EVIDENCE = table("kips")
# (table in dev/kips.toml, what, state, note)
CLAIMS = (
    [("kips", r[0], r[3], r[4]) for r in KIPS]
    + [("apis", r[1], r[4], r[6]) for r in APIS]
    + [("features", r[0], r[1], r[2]) for r in FEATURES]
)
PLACES = sorted(
    {place for rows in EVIDENCE.values() for places in rows.values() for place in places}
)


def test_page_has_the_tables_it_promises() -> None:
    assert len(KIPS) >= 108
    assert len({row[0] for row in KIPS}) == len(KIPS)
    assert len(FEATURES) >= 80
    assert len({row[0] for row in FEATURES}) == len(FEATURES)
    assert {int(row[0]) for row in APIS} >= set(range(48))
    assert len({row[0] for row in APIS}) == len(APIS)


@pytest.mark.parametrize(("kind", "what", "state", "note"), CLAIMS)
def test_claim_has_a_state_and_its_evidence(kind: str, what: str, state: str, note: str) -> None:
    assert state in STATES
    places = EVIDENCE[kind].get(what, [])
    assert note or places
    if state in (*WORKING, "partly"):
        assert any(not place.startswith("tests/") for place in places), "name the file"
        assert any(re.fullmatch(r"tests/.*::\w+", place) for place in places), "name the test"
    if state in WORKING and kind != "features":
        is_shown = any(place.startswith("tests/broker/") for place in places)
        assert is_shown == (state == "works"), "a test with a real broker, or the other state"
    if state == "not for a client":
        assert not places
    if state not in WORKING:
        assert note, "name the missing part, or the reason"


@pytest.mark.parametrize("kind", EVIDENCE)
def test_evidence_is_for_rows_of_the_page(kind: str) -> None:
    assert set(EVIDENCE[kind]) <= {what for each, what, _, _ in CLAIMS if each == kind}


@pytest.mark.parametrize("place", PLACES)
def test_named_file_and_test_exist(place: str) -> None:
    path, _, name = place.partition("::")
    assert (ROOT / path).exists()
    if name:
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8"))


USER_PAGES = [
    "README.md",
    "docs/KIPS.md",
    "docs/CONFIGURATION.md",
    *(f"docs/guide/{page.name}" for page in GUIDES.glob("*.md")),
]


@pytest.mark.parametrize("page", USER_PAGES)
def test_users_pages_name_neither_code_nor_tests(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.findall(r"`(?:kafka_native|csrc|tests)/[^`]+`|`test_\w+`|\.(?:py|c)::", text) == []


def declared_keys() -> set[int]:
    """Return the APIs that kafka_native/protocol declares."""
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
def test_used_versions_are_those_of_the_code(row: list[str]) -> None:
    key, spoken = int(row[0]), row[3]
    native = {0: enums.PRODUCE_VERSIONS[1], 1: enums.FETCH_VERSIONS[1]}
    if key in native:
        assert spoken == str(native[key])
    elif key == ApiKey.ADD_PARTITIONS_TO_TXN:
        assert spoken == str(LAST_OF_CLIENTS)
    elif is_sent(f"{row[1]}Request"):
        assert spoken == str(registry.request(key).max_version)
    else:
        assert spoken == "-", "no code of the client sends it"
    assert (spoken != "-") == (row[4] in (*WORKING, "partly"))


def is_sent(request: str) -> bool:
    """Return whether the client itself, not only declarations, the mock cluster and tests, uses
    this request.
    """
    package = ROOT / "kafka_native"
    folders = ("admin", "control", "security", "cli")
    ours = [
        *package.glob("*.py"),
        *(path for name in folders for path in (package / name).rglob("*.py")),
    ]
    return any(re.search(rf"\b{request}\b", path.read_text(encoding="utf-8")) for path in ours)
