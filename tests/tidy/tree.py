"""The input of the tidy tests: the files of the tree, and the lengths of their functions."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.syntax import parsed

ROOT = Path(__file__).resolve().parents[2]
SOURCE_SUFFIXES = {".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".cpp", ".java", ".sh"}


@dataclass(frozen=True)
class Function:
    """A function and its number of lines without the docstring."""

    where: str
    name: str
    line_count: int


def files() -> list[Path]:
    """Return every file of ours, relative to the root: the files that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(Path(line) for line in done.stdout.splitlines() if (ROOT / line).is_file())


def sources(*suffixes: str, under: str = "") -> list[Path]:
    """Return the source files with these suffixes (by default all) below a folder."""
    wanted = set(suffixes) or SOURCE_SUFFIXES
    return [path for path in files() if path.suffix in wanted and path.as_posix().startswith(under)]


def text_of(path: Path) -> str:
    """Return a file's text."""
    return (ROOT / path).read_text(encoding="utf-8")


def functions(path: Path) -> Iterator[Function]:
    """Yield the functions of a C, Python or Cython file."""
    if path.suffix in {".c", ".h", ".cpp"}:
        yield from c_functions(text_of(path), str(path))
    elif path.suffix == ".py":
        yield from python_functions(text_of(path), str(path))
    elif path.suffix == ".pyx":
        yield from cython_functions(text_of(path), str(path))


C_NOISE = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^#(?:[^\n]*\\\n)*[^\n]*",
    re.S | re.M,
)


def c_functions(text: str, where: str) -> Iterator[Function]:
    """Find functions by braces: a block at depth 0 after a closing parenthesis."""
    bare = C_NOISE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    depth, head_start = 0, 0
    for match in re.finditer(r"[{};]", bare):
        position = match.start()
        if match.group() == "{":
            if depth == 0:
                head = bare[head_start:position]
                opened = (head, head_start + len(head) - len(head.lstrip()))
            depth += 1
        elif match.group() == "}":
            depth -= 1
            if depth == 0:
                head, start = opened
                if head.rstrip().endswith(")") and "=" not in head:
                    name = re.search(r"(\w+)\s*\(", head)
                    line = bare.count("\n", 0, start) + 1
                    last = bare.count("\n", 0, position) + 1
                    yield Function(
                        f"{where}:{line}", name.group(1) if name else "?", last - line + 1
                    )
                head_start = position + 1
        elif depth == 0:
            head_start = position + 1


def python_functions(text: str, where: str) -> Iterator[Function]:
    """Find functions in the syntax tree."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node, clean=False) is not None:
                doc = node.body[0]
                lines -= (doc.end_lineno or doc.lineno) - doc.lineno + 1
            yield Function(f"{where}:{node.lineno}", node.name, lines)


CYTHON_HEAD = re.compile(r"^(?P<indent> *)(?:async )?(?:def|cdef|cpdef)\b(?P<rest>.*)$")


def cython_functions(text: str, where: str) -> Iterator[Function]:
    """Find functions by indentation: from def, cdef or cpdef to the last indented line."""
    lines = text.split("\n")
    for index, line in enumerate(lines):
        match = CYTHON_HEAD.match(line)
        if (
            match is None
            or "(" not in line
            or re.match(r"\s*(class|extern|struct|enum|union)\b", match["rest"])
        ):
            continue
        body = cython_head_end(lines, index)
        if body is None:
            continue
        last = body
        indent = len(match["indent"])
        for number in range(body + 1, len(lines)):
            stripped = lines[number].strip()
            if not stripped:
                continue
            if len(lines[number]) - len(lines[number].lstrip()) <= indent:
                break
            last = number
        name = re.search(r"(\w+)\s*\(", line)
        length = last - index + 1 - cython_docstring_lines(lines, body + 1)
        yield Function(f"{where}:{index + 1}", name.group(1) if name else "?", length)


def cython_head_end(lines: list[str], index: int) -> int | None:
    """Return the line on which a function's head ends with a colon, or None for a declaration."""
    depth = 0
    for number in range(index, len(lines)):
        code = lines[number].split("#", 1)[0].rstrip()
        depth += code.count("(") + code.count("[") - code.count(")") - code.count("]")
        if depth <= 0:
            return number if code.endswith(":") else None
    return None


def cython_docstring_lines(lines: list[str], start: int) -> int:
    """Return the number of lines of the docstring that begins at start, or 0."""
    if start >= len(lines) or not re.match(r'\s*[rR]?"""', lines[start]):
        return 0
    if lines[start].count('"""') >= 2:
        return 1
    for number in range(start + 1, len(lines)):
        if '"""' in lines[number]:
            return number - start + 1
    return 0
