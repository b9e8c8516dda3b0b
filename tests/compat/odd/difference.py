"""Differences between the outcomes of a call, and their groups."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.compat.odd.calls import Case, cases

Outcome = dict[str, Any]
NAMES_MAX = 150
NOT_COMPARED = ("seconds", "text", "places")


class Difference(NamedTuple):
    """A case with different outcomes."""

    id: str
    theirs: Outcome
    ours: Outcome


def time_class(outcome: Outcome) -> str:
    """Return whether a call returned at once."""
    return "at once" if outcome.get("seconds", 0) < 0.3 else "waits"


def _compared(outcome: Outcome) -> Outcome:
    kept = {key: value for key, value in outcome.items() if key not in NOT_COMPARED}
    return {**kept, "time": time_class(outcome)}


def shown(outcome: Outcome) -> str:
    """Return what is compared of an outcome."""
    return json.dumps(_compared(outcome), sort_keys=True)


def kind(outcome: Outcome) -> str:
    """Return the class of an outcome: an exception with its error's name, or a result."""
    if "raises" in outcome:
        return " ".join(str(each) for each in outcome["raises"][:2])
    return "returns"


def is_sooner(found: Difference) -> bool:
    """Return whether the outcomes are the same, but kafka_native's comes sooner."""
    theirs, ours = (_compared(each) for each in found[1:])
    return (theirs.pop("time"), ours.pop("time"), theirs) == ("waits", "at once", ours)


def call_of(case: Case) -> str:
    """Return the name of the call of a case."""
    return f"{case.subject.name}.{case.call.name}"


def group(difference: Difference) -> str:
    """Return what a difference has in common with others: the call, the parameter, the kinds."""
    case = cases()[difference.id]
    parameter = case.what.partition("=")[0]
    if not case.call.configures and not set(parameter.split()) & case.call.parameters.keys():
        parameter = ""
    theirs, ours = kind(difference.theirs), kind(difference.ours)
    return f"{call_of(case)} | {parameter} | {theirs} | {ours}"


def _leaf(theirs: Any, ours: Any, where: str = "") -> str:
    """Return the first place at which two results differ, with both values."""
    pairs: Iterable[tuple[Any, Any, Any]] = ()
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        pairs = ((key, theirs[key], ours[key]) for key in theirs)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = ((number, *each) for number, each in enumerate(zip(theirs, ours, strict=True)))
    for key, one, other in pairs:
        if one != other:
            return _leaf(one, other, f"{where}.{key}")
    return f"{where.lstrip('.')}: {json.dumps(theirs)[:70]} | {json.dumps(ours)[:70]}"


def report(found: list[Difference]) -> str:
    """Return the differences as text, grouped by their likely cause."""
    groups: dict[str, list[Difference]] = collections.defaultdict(list)
    for each in found:
        groups[group(each)].append(each)
    lines = []
    for name, members in sorted(groups.items()):
        lines.append(f"{len(members):5} {name}")
        names = [f"{cases()[each.id].state} {cases()[each.id].what}" for each in members]
        lines.append(f"          {'; '.join(names)[:NAMES_MAX]}")
        theirs, ours = members[0].theirs, members[0].ours
        if kind(theirs) == kind(ours):
            lines.append(f"          {_leaf(_compared(theirs), _compared(ours))}")
        else:
            lines.append(
                f"          {theirs.get('text', '')[:90]!r} | {ours.get('text', '')[:90]!r}"
            )
    return "\n".join(lines)
