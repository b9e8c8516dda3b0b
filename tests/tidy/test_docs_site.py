"""The pages of the docs site: files beside docs/ have pages, and each public name is described.

`make docs-site` builds the site, and fails for a dead link or a page without a place in the menu.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kafka_native
from dev import site_pages

ROOT = Path(__file__).resolve().parents[2]
API = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/api").glob("*.md")))
DESCRIBED = set(re.findall(r"^::: (\S+)", API, re.MULTILINE))
CONSTANTS = re.compile("[A-Z_]+")


def test_each_name_of_the_package_is_described() -> None:
    names = {name for name in kafka_native.__all__ if not CONSTANTS.fullmatch(name)}
    # ArrowReport is described with the module that defines it
    assert {f"kafka_native.{name}" for name in names} - DESCRIBED <= {"kafka_native.ArrowReport"}


def test_what_is_described_exists() -> None:
    for path in DESCRIBED:
        found: object = kafka_native
        for name in path.split(".")[1:]:
            found = getattr(found, name, None) or __import__(path, fromlist=["*"])
        assert found is not None, path


@pytest.mark.parametrize(
    ("link", "source", "path", "page"),
    [
        ("../../examples/arrow.py", "guide/arrow.md", "examples/arrow.py", "examples/arrow.py.md"),
        ("../csrc/README.md", "ARCHITECTURE.md", "csrc/README.md", "csrc/README.md"),
        ("internals", "ARCHITECTURE.md", "docs/internals", "internals/README.md"),
        ("../docs/guide/arrow.md", "examples/README.md", "docs/guide/arrow.md", "guide/arrow.md"),
        ("docs/KIPS.md", "CHANGELOG.md", "docs/KIPS.md", "KIPS.md"),
        ("consuming.md", "guide/producing.md", "docs/guide/consuming.md", "guide/consuming.md"),
    ],
)
def test_links_lead_to_pages(link: str, source: str, path: str, page: str) -> None:
    assert site_pages.target_of(link, source) == path
    assert site_pages.page_of(path) == page


@pytest.mark.parametrize("link", ["https://kafka.apache.org/a", "mailto:a@b.c", "/absolute"])
def test_links_to_other_sites_stay(link: str) -> None:
    assert site_pages.target_of(link, "guide/arrow.md") is None


def test_code_becomes_a_page() -> None:
    text = site_pages.text_of("examples/arrow.py")
    assert text.startswith("# arrow.py\n\n````python\n")
    assert text.endswith("\n````\n")


def test_files_that_a_page_links_to_are_found() -> None:
    text = "[a](../../examples/arrow.py) [b](consuming.md) [c](../../examples/gone.py) [d](#here)"
    assert site_pages.linked(text, "guide/arrow.md") == ["examples/arrow.py"]
