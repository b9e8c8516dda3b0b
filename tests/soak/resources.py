"""The resources of this process, and the rules for them: nothing grows, and nothing is left."""

from __future__ import annotations

import ctypes
import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import linear_regression

from kafka_native._native.engine import live_objects

IDLE_S = 10.0
"""After this time closed clients must have freed everything."""
STEP_S = 0.05
KIB = 1024
MIB = 1024 * KIB


@dataclass
class Sample:
    """What this process holds at a time. ``amount``: the work done by then."""

    at_s: float
    amount: float
    rss_bytes: int
    descriptors: int
    threads: int
    objects: int
    """Python objects that the garbage collector knows."""
    live: dict[str, int] = field(default_factory=dict)
    """Objects of the C core by kind, without zeros."""

    def text(self) -> str:
        """Return the figures of a process."""
        return (
            f"resident: {self.rss_bytes / MIB:.0f} MiB, {self.descriptors} descriptors, "
            f"{self.threads} threads"
        )


def status(name: str) -> str:
    """Return a line of this process's status (Linux)."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith(name))


def rss_bytes() -> int:
    """Return the resident memory of this process."""
    return int(status("VmRSS").split()[0]) * KIB


def peak_rss_bytes() -> int:
    """Return the largest resident memory since `forget_peak()`."""
    return int(status("VmHWM").split()[0]) * KIB


def forget_peak() -> None:
    """Begin a new peak with the present memory."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def live() -> dict[str, int]:
    """Return the live objects of the C core by kind, without zeros."""
    return {kind: count for kind, count in live_objects().items() if count}


def trim() -> None:
    """Return freed memory to the system, so that the resident memory is what is in use.

    glibc keeps freed memory in an arena for each thread. How much depends on the threads' timing,
    and would be noise of some megabytes.
    """
    release = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if release is not None:  # glibc only
        release(0)


def sample(amount: float = 0.0) -> Sample:
    """Collect garbage, and return what is left."""
    gc.collect()
    trim()
    return Sample(
        time.monotonic(),
        amount,
        rss_bytes(),
        len(os.listdir("/proc/self/fd")),
        int(status("Threads")),
        len(gc.get_objects()),
        live(),
    )


def idle_sample(before: Sample, amount: float = 0.0, limit_s: float = IDLE_S) -> Sample:
    """Wait until all of ``before`` is reached again, at most for the limit, and return a sample."""
    deadline = time.monotonic() + limit_s
    while (found := sample(amount)) and time.monotonic() < deadline:
        if not list(left(before, found)):
            break
        time.sleep(STEP_S)
    return found


def left(before: Sample, after: Sample) -> Iterator[str]:
    """Yield what all clients have left behind once they are closed."""
    for kind, count in sorted(after.live.items()):
        yield f"{count} {kind} of the C core are alive"
    for name in ("descriptors", "threads"):
        one, other = getattr(before, name), getattr(after, name)
        if one != other:
            yield f"{one} {name} became {other}"


def slope(samples: Sequence[Sample], value: Callable[[Sample], float], per_s: bool) -> float:
    """Return how much a value grows in a second, or with a unit of work: a linear regression."""
    if len(samples) < 2:
        return 0.0
    of = [each.at_s if per_s else each.amount for each in samples]
    return linear_regression(of, [value(each) for each in samples]).slope if len(set(of)) > 1 else 0


@dataclass(frozen=True)
class Growth:
    """The growth of the resident memory and of the objects, from the first sample to the last."""

    rss_bytes: float
    objects: float


def growth(samples: Sequence[Sample], per_s: bool = True) -> Growth:
    """Return the growth that a straight line through the samples has."""
    if len(samples) < 2:
        return Growth(0.0, 0.0)
    first, last = samples[0], samples[-1]
    amount = last.at_s - first.at_s if per_s else last.amount - first.amount
    return Growth(
        slope(samples, lambda each: each.rss_bytes, per_s) * amount,
        slope(samples, lambda each: each.objects, per_s) * amount,
    )
