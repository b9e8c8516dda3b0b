"""Runs the matrix: one broker of a release, then each feature with it."""

from __future__ import annotations

import os
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.broker import kerberos
from tests.broker.kerberos import Kdc
from tests.broker.matrix.brokers import Broker, broker_of, version_of
from tests.broker.matrix.features import FEATURES, Missing

AT_ONCE = 2
"""The number of brokers that run at the same time."""


@dataclass(frozen=True)
class Cell:
    """The outcome of one feature with one release."""

    release: str
    feature: str
    state: str
    """``works``, ``-`` (the release lacks it), ``skipped`` or ``fails``."""
    note: str = ""
    """What is special, or the client's error."""
    trace: str = ""
    """Where it has failed."""

    @property
    def name(self) -> str:
        """The name of the cell."""
        return f"{self.feature} on Apache Kafka {self.release}"


def cell_of(broker: Broker, feature: str) -> Cell:
    """Check one feature with a running broker."""
    if feature == "SASL" and not broker.mechanisms and broker.at_least(0, 9):
        why = kerberos.missing() or "the test has no KDC"
        return Cell(broker.version, feature, "skipped", f"no Kerberos: {why}")
    try:
        note = FEATURES[feature](broker)
    except Missing as error:
        return Cell(broker.version, feature, "-", str(error))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return Cell(broker.version, feature, "fails", text, traceback.format_exc())
    return Cell(broker.version, feature, "works", note)


@contextmanager
def running(release: str, kdc: Kdc | None = None) -> Iterator[Broker]:
    """Yield a broker of this release."""
    broker = broker_of(release, kdc)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


def row_of(release: str, features: Sequence[str], kdc: Kdc | None = None) -> list[Cell]:
    """Check these features with a release, and print the row."""
    started = time.monotonic()
    try:
        with running(release, kdc) as broker:
            cells = [cell_of(broker, feature) for feature in features]
    except Exception as error:
        text, trace = f"no broker: {error}", traceback.format_exc()
        cells = [Cell(release, feature, "fails", text, trace) for feature in features]
    states = "  ".join(f"{cell.state:<{len(cell.feature)}}" for cell in cells)
    print(f"{release:<10}{states}  {time.monotonic() - started:6.1f} s", flush=True)
    return cells


@contextmanager
def kdc_for(releases: Sequence[str]) -> Iterator[Kdc | None]:
    """Yield a KDC if one of the releases needs it and Kerberos is installed."""
    if kerberos.missing() or not any((0, 9) <= version_of(each) < (0, 10) for each in releases):
        yield None
        return
    with (
        tempfile.TemporaryDirectory(prefix="kafka-native-kdc-") as folder,
        Kdc(Path(folder)) as kdc,
    ):
        yield kdc


def matrix_of(releases: Sequence[str], features: Sequence[str]) -> list[Cell]:
    """Check these features with these releases, and print the table while it grows."""
    print(f"{'release':<10}{'  '.join(f'{each:<5}' for each in features)}", flush=True)
    with kdc_for(releases) as kdc, ThreadPoolExecutor(min(AT_ONCE, os.cpu_count() or 1)) as pool:
        rows = pool.map(lambda release: row_of(release, features, kdc), releases)
        return [cell for row in rows for cell in row]
