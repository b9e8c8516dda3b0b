"""docs/cli describes the real commands."""

from __future__ import annotations

import re

import click
import pytest

from kafka_native.cli import reference
from kafka_native.cli.app import COMMANDS
from tests.cli.running import ROOT, invoke

PAGES = ROOT / "docs" / "cli"


def test_every_command_has_a_page_and_the_index_names_it() -> None:
    index = (PAGES / "README.md").read_text()
    assert {page.stem for page in PAGES.glob("*.md")} == {"README", *COMMANDS}
    assert not [name for name in COMMANDS if f"]({name}.md)" not in index]


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_option_tables_are_those_of_the_commands(page: object) -> None:
    text = (PAGES / page.name).read_text()  # type: ignore[attr-defined]
    assert text == reference.filled(text), "make docs"


def commands_with_table() -> list[str]:
    commands = [
        match[2]
        for page in sorted(PAGES.glob("*.md"))
        for match in reference.OPTIONS_BLOCK.finditer(page.read_text())
    ]
    return [each for each in commands if each != reference.SHARED]


@pytest.mark.parametrize("name", commands_with_table())
def test_help_has_every_option_of_the_table(name: str) -> None:
    help_text = invoke(*name.split(), "--help").output
    listed = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", help_text.partition("Options:")[2]))
    for names, _text in reference.rows(name):
        assert set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", names)) <= listed


def test_every_leaf_with_options_has_a_table() -> None:
    def leaves(command: click.Command, path: str) -> list[str]:
        if not isinstance(command, click.Group):
            return [path]
        below = {
            name: command.get_command(click.Context(command), name)
            for name in command.list_commands(None)
        }  # type: ignore[arg-type]
        return [
            leaf
            for name, each in below.items()
            if each is not None
            for leaf in leaves(each, f"{path} {name}")
        ]

    everything = [leaf for name in COMMANDS for leaf in leaves(reference.find(name), name)]
    assert not [leaf for leaf in everything if leaf not in commands_with_table() and leaf != "mock"]


def test_mocks_page_names_its_options() -> None:
    help_text = invoke("mock", "--help").output
    page = (PAGES / "mock.md").read_text()
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", help_text)) - {
        "--help",
        "--no-auto-create",
    }
    assert options
    assert not [option for option in options if f"`{option}`" not in page]


def test_find_refuses_unknown_commands() -> None:
    with pytest.raises(KeyError):
        reference.find("perf nosuch")
