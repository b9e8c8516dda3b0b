"""CONTRIBUTING.md's rules about words and docstrings, as far as a program can check them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.syntax import parsed
from tests.tidy import tree
from tests.tidy.test_words import TEXTS

# Written with hyphens, because this file is searched as well.
OLD_WORDS = [
    each.replace("-", "")
    for each in ("err-and", "cr-ew", "tal-ly", "a-side", "un-made", "vi-gil", "po-ked")
]
MOST = "mo-st".replace("-", "")
LIMITS = re.compile(rf"\b(?:\w+_{MOST.upper()}|{MOST.upper()}_\w+|[a-z]\w*_{MOST})\b")
INTERNAL = {"cli", "control", "protocol", "security", "terminal"}
DOCSTRING_WORDS_MIN = 4


def found(pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield each match with its place."""
    for path in TEXTS:
        for number, line in enumerate(tree.text_of(path).splitlines(), 1):
            for match in pattern.finditer(line):
                yield f"{path}:{number}: {match[0]}"


def test_no_word_of_the_old_dialect() -> None:
    assert list(found(re.compile(rf"\b(?:{'|'.join(OLD_WORDS)})\b", re.I))) == []


def test_limits_end_in_max() -> None:
    assert [
        each for each in found(LIMITS) if not re.search(rf": (?:test_|\w*at_{MOST})", each)
    ] == []


def public_docstrings() -> Iterator[tuple[str, str | None]]:
    """Yield each public class, function and method of a public module, with its docstring."""
    for path in tree.sources(".py", under="kafka_native/"):
        parts = path.with_suffix("").parts[1:]
        if parts[0] in INTERNAL or any(
            part.startswith("_") and part != "__init__" for part in parts
        ):
            continue
        yield from (
            (f"{path}: {name}", text) for name, text in _docstrings(parsed(tree.text_of(path)), "")
        )


def _docstrings(node: ast.AST, prefix: str) -> Iterator[tuple[str, str | None]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if child.name.startswith("_"):
                continue
            if not any("overload" in ast.unparse(each) for each in child.decorator_list):
                yield prefix + child.name, ast.get_docstring(child)
            if isinstance(child, ast.ClassDef):
                yield from _docstrings(child, f"{prefix}{child.name}.")


def test_docstrings_say_more_than_the_name() -> None:
    every = list(public_docstrings())
    assert len(every) > 500, "the scan lost its functions"
    short = [
        place
        for place, text in every
        if text is not None and len(text.split()) < DOCSTRING_WORDS_MIN
    ]
    assert short == []
