"""What runs under faults share: the draw of faults, the rules at the end, and the report."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import click
import pytest

from tests.harness.processes import Child

T = TypeVar("T")
Rule = Callable[[T], Iterator[str]]
"""What must hold, with a sentence for each way in which it was broken."""


class Deck(Generic[T]):
    """Each card is drawn once before any comes again."""

    def __init__(self, cards: Sequence[T], draw: random.Random) -> None:
        """``draw`` decides the order."""
        self._cards, self._random = cards, draw
        self._left: list[T] = []

    def draw(self) -> T:
        """The next one."""
        if not self._left:
            self._left = list(self._cards)
            self._random.shuffle(self._left)
        return self._left.pop()


class FaultRun:
    """A run with faults: each is a method ``_fault_NAME()`` of a subclass, which says whether it could be made."""

    def __init__(self, name: str, seed: int, faults: Sequence[str]) -> None:
        """``faults``: the deck of names, which the seed shuffles."""
        self._random = random.Random(seed)
        self._deck = Deck(faults, self._random)
        self.directory = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self.faults: Counter[str] = Counter()

    def _fault(self) -> None:
        """Makes the next one."""
        kind = self._deck.draw()
        if getattr(self, f"_fault_{kind}")():
            self.faults[kind] += 1

    def _freeze(self, victim: Child | None, share: tuple[float, float], of_s: float) -> bool:
        """Stops a process, if there is one, for a share of some time."""
        if victim is not None:
            victim.stop(self._random.uniform(*share) * of_s)
        return victim is not None


def broken(rules: Iterable[Rule[T]], result: T, examples: int | None = None) -> list[str]:
    """Everything that breaks a rule, each rule with its first few."""
    found = []
    for rule in rules:
        texts = list(rule(result))
        found += [f"{rule.__name__}: {text}" for text in texts[:examples]]
        if examples is not None and len(texts) > examples:
            found.append(f"{rule.__name__}: and {len(texts) - examples} more")
    return found


def each_break(breaks: Mapping[str, Sequence[Callable[[T], None]]]) -> pytest.MarkDecorator:
    """Parametrizes a test of the judge with ``rule`` and a function that breaks it."""
    pairs = [(rule, each) for rule, ways in breaks.items() for each in ways]
    return pytest.mark.parametrize(("rule", "break_it"), pairs, ids=lambda value: getattr(value, "__name__", value))


def counted(counts: Mapping[Any, int]) -> str:
    """Counts as text."""
    named = {name if isinstance(name, str) else " ".join(name): count for name, count in counts.items() if count}
    return ", ".join(f"{count} {name}" for name, count in sorted(named.items())) or "none"


def drawn(seed: int | None) -> int:
    """The seed that was given, or another one."""
    return random.randrange(1 << 30) if seed is None else seed


def report(figures: Iterable[str], found: Sequence[str], directory: Path) -> int:
    """Prints how a run has ended; how many rules were broken."""
    for line in figures:
        click.echo(f"  {line}")
    for text in found:
        click.echo(f"  BROKEN {text}")
    click.echo(f"  {f'what the processes said is in {directory}' if found else 'no rule was broken'}")
    return len(found)
