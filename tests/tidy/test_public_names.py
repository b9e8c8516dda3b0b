"""Public names exist and have docstrings."""

from __future__ import annotations

import inspect

import kafka_native


def undocumented() -> list[str]:
    """Return public classes, functions and methods without a docstring."""
    found = []
    for name in kafka_native.__all__:
        value = getattr(kafka_native, name)
        if not (inspect.isclass(value) or callable(value)):
            continue
        if not (value.__doc__ or "").strip():
            found.append(name)
        if inspect.isclass(value):
            found += [
                f"{name}.{member}"
                for member, function in vars(value).items()
                if not member.startswith("_")
                and callable(function)
                and not (function.__doc__ or "").strip()
            ]
    return found


def test_public_names_are_documented() -> None:
    assert undocumented() == []


def test_every_public_name_exists() -> None:
    assert [name for name in kafka_native.__all__ if not hasattr(kafka_native, name)] == []
