"""The common parts of runs with faults: the choice of faults, the rules at the end, the report."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import click
import pytest

from tests.harness.processes import Process

T = TypeVar("T")
Rule = Callable[[T], Iterator[str]]
"""A rule yields a sentence for each way in which a result breaks it."""


class Deck(Generic[T]):
    """A deck of cards: each card is drawn once before any is drawn again."""

    def __init__(self, cards: Sequence[T], draw: random.Random) -> None:
        """``draw`` decides the order."""
        self._cards, self._random = cards, draw
        self._left: list[T] = []

    def draw(self) -> T:
        """Return the next card."""
        if not self._left:
            self._left = list(self._cards)
            self._random.shuffle(self._left)
        return self._left.pop()


class FaultRun:
    """A run with faults. Each is a method ``_fault_NAME()`` of a subclass.

    It returns whether it worked.
    """

    def __init__(self, name: str, seed: int, faults: Sequence[str]) -> None:
        """``faults`` are the names in the deck. The seed shuffles them."""
        self._random = random.Random(seed)
        self._deck = Deck(faults, self._random)
        self.directory = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self.faults: Counter[str] = Counter()

    def _fault(self) -> None:
        """Make the next fault."""
        kind = self._deck.draw()
        is_made = getattr(self, f"_fault_{kind}")()
        self._note(f"{kind}{'' if is_made else ' (not counted yet)'}")
        if is_made:
            self.faults[kind] += 1

    def _note(self, text: str) -> None:
        """Add what happens, and when, to the run's faults.log. It helps to explain a broken rule."""
        with (self.directory / "faults.log").open("a") as file:
            file.write(f"{time.strftime('%H:%M:%S')} {text}\n")

    def _freeze(self, victim: Process | None, share: tuple[float, float], of_s: float) -> bool:
        """Stop a process, if there is one, for a share of a time."""
        if victim is not None:
            victim.stop(self._random.uniform(*share) * of_s)
        return victim is not None


def broken(rules: Iterable[Rule[T]], result: T, examples: int | None = None) -> list[str]:
    """Return all broken rules, each with its first few examples."""
    found = []
    for rule in rules:
        texts = list(rule(result))
        found += [f"{rule.__name__}: {text}" for text in texts[:examples]]
        if examples is not None and len(texts) > examples:
            found.append(f"{rule.__name__}: and {len(texts) - examples} more")
    return found


def count_broken(rules: Iterable[Rule[T]], result: T) -> dict[str, int]:
    """Return how often each broken rule is broken."""
    counts = {rule.__name__: sum(1 for _ in rule(result)) for rule in rules}
    return {name: count for name, count in counts.items() if count}


def each_break(breaks: Mapping[str, Sequence[Callable[[T], None]]]) -> pytest.MarkDecorator:
    """Parametrize a test of the rules with ``rule`` and a function that breaks it."""
    pairs = [(rule, each) for rule, ways in breaks.items() for each in ways]
    return pytest.mark.parametrize(
        ("rule", "break_it"), pairs, ids=lambda value: getattr(value, "__name__", value)
    )


def counted(counts: Mapping[Any, int]) -> str:
    """Return counts as text."""
    named = {
        name if isinstance(name, str) else " ".join(name): count
        for name, count in counts.items()
        if count
    }
    return ", ".join(f"{count} {name}" for name, count in sorted(named.items())) or "none"


def drawn(seed: int | None) -> int:
    """Return the given seed, or a random one."""
    return random.randrange(1 << 30) if seed is None else seed


def report(figures: Iterable[str], found: Sequence[str], directory: Path | None = None) -> int:
    """Print the result of a run, and return the number of broken rules.

    ``directory`` has the output of the run's processes, if it had some.
    """
    for line in figures:
        click.echo(f"  {line}")
    for text in found:
        click.echo(f"  BROKEN {text}")
    if not found:
        click.echo("  no rule was broken")
    elif directory is not None:
        click.echo(f"  what the processes said is in {directory}")
    return len(found)
