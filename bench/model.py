"""A model on paper: the rate of other machines and clusters from the costs that a run measured.

A message costs CPU time of the client, CPU time of the broker and bytes on the wire. Each cost is a
sum: a part for each message, one for each byte of it, one for each batch, shared by its messages,
and one for each partition. The parts are fitted to the scenarios of kafka_native in a run. The rate
is that of the resource that is used up first. On the machine of the run, one client and one broker
also wait for each other, once for each batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import NamedTuple

import numpy
import numpy.typing

from bench.adapters import Figures
from bench.report import figure
from bench.saved import Results
from bench.scenarios import OURS
from bench.variants import ALL, variant_of

BATCH_MESSAGES = 10_000
"""The default of batch.num.messages."""
BATCH_BYTES = 1_000_000
"""The default of batch.size."""
CASES_MIN = 4
TRIED = 101
COSTS = {"client": "CPU", "broker": "broker CPU", "wire": "wire bytes"}
CHANGES = {"size", "partitions", "batch"}
"""The settings that the model knows. A scenario with other changes is no case of it."""


@dataclass(frozen=True)
class Load:
    """The settings of a producer or a consumer that decide what a message costs."""

    size: int
    partitions: int = 2
    batch: int = 0
    """The largest number of messages in a batch; 0 for the default."""

    @property
    def terms(self) -> tuple[float, ...]:
        """The factors of a cost's parts: of a message, a byte, a batch and a partition."""
        return (1.0, float(self.size), self.batches, float(self.partitions))

    @property
    def batches(self) -> float:
        """The part of a batch that a message is."""
        return 1.0 / min(self.batch or BATCH_MESSAGES, max(1, BATCH_BYTES // max(1, self.size)))


@dataclass(frozen=True)
class Case:
    """A measured scenario of kafka_native."""

    scenario: str
    load: Load
    figures: Sequence[Figures]

    @property
    def rate(self) -> float:
        return median(each.rate for each in self.figures)

    def cost(self, name: str) -> float:
        return median(figure(COSTS[name], each) for each in self.figures)

    @property
    def busy(self) -> float:
        """The cores in use while it ran, by the client and the broker."""
        return median(
            (each.cpu_seconds + each.broker_cpu_seconds) / each.seconds for each in self.figures
        )


@dataclass(frozen=True)
class Host:
    """A machine: its cores and its network in each direction."""

    cores: int
    gigabits: float

    @property
    def bytes_per_s(self) -> float:
        return self.gigabits * 1e9 / 8


@dataclass(frozen=True)
class Cluster:
    """Hosts that run clients only, and hosts that run a broker each."""

    host: Host
    clients: int = 1
    brokers: int = 1
    replicas: int = 1


@dataclass(frozen=True)
class Prediction:
    """Messages a second, and the resource that ends first."""

    rate: float
    limit: str


class Errors(NamedTuple):
    """Parts of the measured rate and CPU times by which the model is off; 0.1 is 10 % too much."""

    rate: float
    client: float
    broker: float


@dataclass(frozen=True)
class Model:
    """The fitted costs of `produce` or `consume`, and how much of a machine the clients use."""

    base: str
    parts: dict[str, tuple[float, ...]]
    share: float
    """Of all cores, the part that clients and brokers use while none waits for another one."""
    wait_us: float
    """How long the cores wait for each batch, from thread to thread, with one client."""

    @classmethod
    def fitted(cls, base: str, cases: Sequence[Case], cores: int) -> Model:
        """Fit the costs to the cases. Each case weighs the same, whatever its cost is."""
        parts = {name: _fitted(cases, name) for name in COSTS}
        model = cls(base, parts, 1.0, 0.0)
        walls_us = numpy.array([1e6 / case.rate for case in cases])
        busy_us = numpy.array(
            [model.cost("client", case.load) + model.cost("broker", case.load) for case in cases]
        )
        batches = numpy.array([case.load.batches for case in cases])

        def largest_error(tried: tuple[float, float]) -> float:
            share, wait_us = tried
            off = walls_us / (busy_us / (share * cores) + wait_us * batches) - 1
            return float(numpy.abs(off).max())

        waits_us = numpy.linspace(0, (walls_us / batches).min(), TRIED)
        shares = numpy.linspace(1.0 / cores, 1.0, TRIED)
        return cls(base, parts, *min(product(shares, waits_us), key=largest_error))

    def cost(self, name: str, load: Load) -> float:
        """Return microseconds of CPU, or bytes, of a message."""
        terms = zip(self.parts[name], load.terms, strict=True)
        return sum(part * term for part, term in terms)

    def shared(self, load: Load, cores: int) -> Prediction:
        """Predict the rate of a client and a broker that share a machine's cores."""
        busy_us = self.cost("client", load) + self.cost("broker", load)
        wall_us = busy_us / (self.share * cores) + self.wait_us * load.batches
        return Prediction(1e6 / wall_us, "cores")

    def predict(self, load: Load, cluster: Cluster) -> Prediction:
        """Predict the rate of a cluster whose clients and brokers have their own hosts.

        Each replica costs its host as much as the leader. A broker works only if it leads one of
        the partitions.
        """
        host, brokers = cluster.host, min(cluster.brokers, load.partitions)
        cores, wire = self.share * host.cores, self.cost("wire", load)
        copies = cluster.replicas if self.base == "produce" else 1
        limits = {
            "cores of the clients": cluster.clients * cores / self.cost("client", load) * 1e6,
            "network of the clients": cluster.clients * host.bytes_per_s / wire,
            "cores of the brokers": brokers * cores / (copies * self.cost("broker", load)) * 1e6,
            "network of the brokers": brokers * host.bytes_per_s / (copies * wire),
        }
        limit = min(limits, key=lambda name: limits[name])
        return Prediction(limits[limit], limit)


def _fitted(cases: Sequence[Case], name: str) -> tuple[float, ...]:
    """Return the parts of a cost, fitted to its relative errors.

    A factor that is the same in all cases shows nothing, so its part is 0.
    """
    costs = numpy.array([case.cost(name) for case in cases])
    factors = numpy.array([case.load.terms for case in cases])
    varies = numpy.ptp(factors, axis=0) > 0
    varies[0] = True  # the part of a message
    return _least_squares(factors * varies / costs[:, None])


def _least_squares(terms: numpy.typing.NDArray[numpy.float64]) -> tuple[float, ...]:
    """Return the parts, none below 0, whose sum over each row's terms is nearest to 1."""
    used = list(range(terms.shape[1]))
    while True:
        found, *_ = numpy.linalg.lstsq(terms[:, used], numpy.ones(len(terms)), rcond=None)
        if (found >= 0).all():
            break
        del used[int(found.argmin())]
    parts = [0.0] * terms.shape[1]
    for index, part in zip(used, found, strict=True):
        parts[index] = float(part)
    return tuple(parts)


def cases_of(base: str, results: Results) -> list[Case]:
    """Return a run's cases of `produce` or `consume`. Without the broker's CPU there are none."""
    settings = results.environment["settings"]
    found = []
    for scenario in ALL:
        variant = variant_of(scenario)
        figures = results.scenarios.get(scenario, {}).get(OURS, [])
        if variant.base != base or variant.tls or not variant.changes.keys() <= CHANGES:
            continue
        if not figures or not all(each.broker_cpu_seconds for each in figures):
            continue
        usual = {"size": int(settings["size"]), "partitions": int(settings["partitions"])}
        found.append(Case(scenario, Load(**{**usual, **variant.changes}), figures))
    return found


def models_of(results: Results) -> dict[str, tuple[Model, list[Case]]]:
    """Return the models of a run with their cases. A model needs some cases."""
    cores = int(results.environment["machine"]["cores"])
    cases = {base: cases_of(base, results) for base in ("produce", "consume")}
    return {
        base: (Model.fitted(base, found, cores), found)
        for base, found in cases.items()
        if len(found) >= CASES_MIN
    }


def errors(model: Model, cases: Sequence[Case], cores: int) -> dict[str, Errors]:
    """Return for each case by which part of the measured figures the model is off."""
    return {
        case.scenario: Errors(
            model.shared(case.load, cores).rate / case.rate - 1,
            model.cost("client", case.load) / case.cost("client") - 1,
            model.cost("broker", case.load) / case.cost("broker") - 1,
        )
        for case in cases
    }
