"""The code blocks of the pages: which there are, and which of them are one program.

A Python block is a program that runs as it stands. If its first line is ``CONTINUES``, it goes on with the program of
the block before it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waiting import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]
CONTINUES = "# continues the program above"
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
STARTED_HERE = ("pip install", "kafka-native mock")
"""Commands that the test replaces: the packages and the mock are there."""
LANGUAGES = {"python", "sh", "text", "mermaid", "json", "sql", "ini", "properties"}


@dataclass(frozen=True)
class Block:
    page: str  # relative to the repository
    line: int  # of the block's first line
    language: str
    text: str

    @property
    def continues(self) -> bool:
        return self.text.startswith(CONTINUES + "\n")

    def compiled(self, addresses: Mapping[str, str]) -> Any:
        """Return its code. A traceback shows the lines of the page."""
        text = replaced(self.text, addresses)
        return compile("\n" * (self.line - 1) + text, str(ROOT / self.page), "exec")


def replaced(text: str, addresses: Mapping[str, str]) -> str:
    for written, used in addresses.items():
        text = text.replace(written, used)
    return text


def pages() -> list[str]:
    """Return the pages of the site: those of ``docs``, and those beside it."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found += [
        path for folder in ("examples", "csrc", "dev") for path in (ROOT / folder).glob("*.md")
    ]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def blocks(page: str, *languages: str) -> list[Block]:
    """Return the page's blocks in these languages, or all of them."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        indent, language, body = match.groups()
        body = re.sub(f"^{indent}", "", body, flags=re.MULTILINE)
        line = text.count("\n", 0, match.start(3)) + 1
        if not languages or language in languages:
            found.append(Block(page, line, language, body))
    return found


def programs(page: str) -> list[list[Block]]:
    """Return the page's programs. Each is a block, and the blocks that continue it."""
    found: list[list[Block]] = []
    for block in blocks(page, "python"):
        if block.continues:
            assert found, f"{page}:{block.line} continues no program"
            found[-1].append(block)
        else:
            found.append([block])
    return found


def run_program(program: list[Block], addresses: Mapping[str, str]) -> dict[str, Any]:
    """Run a program, and return the names that it has defined.

    :param addresses: What stands in place of the addresses on the page.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in program:
        exec(block.compiled(addresses), names)
    return names


def run(page: str, addresses: Mapping[str, str], only: int | None = None) -> None:
    """Run the page's programs in order, or only one of them."""
    for number, program in enumerate(programs(page)):
        if only in (None, number):
            run_program(program, addresses)


def run_alone(
    page: str, addresses: Mapping[str, str], folder: Path, only: int | None = None
) -> str:
    """Run the programs in a process of their own, and return what they print."""
    code = f"from tests.examples.pages import run; run({page!r}, {dict(addresses)!r}, {only})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commands(page: str) -> tuple[str, str]:
    """Return a page of files and commands as one shell script, and the output that it shows.

    A Python block whose first line names a file is saved there, another one is run.
    """
    script, shown = ["set -e"], ""
    for block in blocks(page, "sh", "python", "text"):
        first = block.text.partition("\n")[0]
        if block.language == "text":
            shown += block.text
        elif block.language == "python":
            named = re.fullmatch(r"# (\w+\.py)", first)
            target = f"cat > {named[1]}" if named else "python -"
            script.append(f"{target} <<'END'\n{block.text}END")
        elif not first.startswith(STARTED_HERE):
            quiet = "export" not in block.text and ("pytest" in first or "-m kafka_native" in first)
            script.append(block.text.rstrip() + (" >&2" if quiet else ""))
    return "\n".join(script), shown


def check_commands(page: str, addresses: Mapping[str, str], folder: Path) -> str:
    """Run a page of files and commands: it prints what it shows. Return what goes to stderr."""
    script, shown = commands(page)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", replaced(script, addresses)],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == shown, done.stderr
    return done.stderr
