"""docs/CONFIGURATION.md agrees with the declarations."""

from __future__ import annotations

import pathlib

from kafka_native._reference.__main__ import main, render
from kafka_native.config import PROPERTIES, State
from kafka_native.partitioners import PARTITIONERS

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "CONFIGURATION.md"


def test_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python -m kafka_native._reference"


def test_page_is_written_to_the_given_path(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "x" / "page.md"
    assert main(["prog", str(target)]) == 0
    assert target.read_text(encoding="utf-8") == render()


def test_every_property_is_documented_with_its_state() -> None:
    for declared in PROPERTIES.values():
        assert declared.doc.endswith((".", ".)")), declared.name
        assert declared.note or declared.state in (State.INTERNAL, State.EFFECTIVE), declared.name
        assert f"`{declared.name}`" in render()


def test_aliases_are_declared_like_their_properties() -> None:
    for declared in PROPERTIES.values():
        if declared.alias_of:
            real = PROPERTIES[declared.alias_of]
            assert not real.alias_of
            for field in (
                "kind",
                "default",
                "minimum",
                "maximum",
                "choices",
                "synonyms",
                "state",
                "sensitive",
            ):
                assert getattr(declared, field) == getattr(real, field), (declared.name, field)


def test_partitioners_are_numbered_as_in_the_core() -> None:
    header = (PAGE.parents[1] / "csrc" / "produce" / "partitioner.h").read_text()
    for name, number in PARTITIONERS.items():
        assert f"KN_PARTITIONER_{name.upper()} = {number}" in header


def test_effective_properties_are_those_that_the_code_reads() -> None:
    package = PAGE.parents[1] / "kafka_native"
    readers = [
        p
        for p in package.rglob("*.py*")
        if p.suffix in (".py", ".pyx") and "_reference" not in p.parts
    ]
    code = "\n".join(p.read_text(encoding="utf-8") for p in readers)
    names: dict[str, list[str]] = {}
    for name, declared in PROPERTIES.items():
        names.setdefault(declared.alias_of or name, []).append(name)
    for name, known_as in names.items():
        read = any(
            f'["{n}"]' in code or f'("{n}"' in code or f"config.{n.replace('.', '_')}" in code
            for n in known_as
        )
        if PROPERTIES[name].state is State.EFFECTIVE:
            assert read, (
                f"{name} is declared effective in kafka_native/_reference, but no code reads it"
            )
        elif name not in config_checks():
            assert not read, f"code reads {name}: declare it effective in kafka_native/_reference"


def config_checks() -> set[str]:
    """Return properties without effect that parse() reads to compare them with each other."""
    return {
        "max.poll.interval.ms",
        "session.timeout.ms",
        "partition.assignment.strategy",
        "queuing.strategy",
    }
