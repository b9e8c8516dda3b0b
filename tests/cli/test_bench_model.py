"""The model on paper finds the costs that made a run, and predicts the run's own rates."""

from __future__ import annotations

import pytest

from bench.adapters import Figures
from bench.model import Cluster, Host, Load, cases_of, errors, models_of
from bench.page import page_of
from bench.saved import MEASURED, Results
from bench.scenarios import OURS
from bench.variants import VARIANTS

CORES = 2
MESSAGE_US, BYTE_US, BATCH_US, PARTITION_US = 0.1, 0.0002, 40.0, 0.001
BROKER_TIMES = 2.0
OVERHEAD_BYTES = 9.0
ERROR_MAX = 0.2


def made(load: Load, busy: float = 1.0, wait_us: float = 0.0) -> Figures:
    """Make the figures of a run whose costs are known.

    A part of the cores is in use, and both wait for each batch.
    """
    terms = zip((MESSAGE_US, BYTE_US, BATCH_US, PARTITION_US), load.terms, strict=True)
    cost_us = sum(part * term for part, term in terms)
    count = 1_000_000
    client_s = count * cost_us / 1e6
    return Figures(
        count,
        client_s * (1 + BROKER_TIMES) / (CORES * busy) + count * load.batches * wait_us / 1e6,
        client_s,
        broker_cpu_seconds=client_s * BROKER_TIMES,
        wire_bytes=int(count * (load.size + OVERHEAD_BYTES)),
    )


def results(figures: dict[str, Figures]) -> Results:
    environment = {"machine": {"cores": "2"}, "settings": {"size": "100", "partitions": "2"}}
    environment |= {"versions": {}, "run": {"date": "2026-11-29", "command": "python -m bench"}}
    return Results(environment, {name: {OURS: [each] * 3} for name, each in figures.items()}, {})


SETTINGS = {
    "produce": Load(100),
    **{
        name: Load(**{"size": 100, **VARIANTS[name].changes})
        for name in ("produce_10", "produce_10000", "batch_10", "batch_100", "produce_p1000")
    },
}


def test_the_costs_of_a_run_are_found_again() -> None:
    run = results({name: made(load, busy=0.9) for name, load in SETTINGS.items()})
    (model, cases) = models_of(run)["produce"]
    assert sorted(case.scenario for case in cases) == sorted(SETTINGS)
    assert model.share == pytest.approx(0.9)
    assert model.parts["client"] == pytest.approx((MESSAGE_US, BYTE_US, BATCH_US, PARTITION_US))
    assert model.parts["wire"] == pytest.approx((OVERHEAD_BYTES, 1.0, 0.0, 0.0), abs=1e-3)
    assert all(abs(off) < 1e-6 for each in errors(model, cases, CORES).values() for off in each)


def test_a_setting_that_is_the_same_in_all_cases_has_no_cost() -> None:
    loads = {name: load for name, load in SETTINGS.items() if load.partitions == 2}
    (model, _) = models_of(results({name: made(load) for name, load in loads.items()}))["produce"]
    assert model.parts["client"][0] == pytest.approx(MESSAGE_US + 2 * PARTITION_US)
    assert [parts[3] for parts in model.parts.values()] == [0.0, 0.0, 0.0]


def test_a_case_that_does_not_fit_has_an_error() -> None:
    figures = {name: made(load) for name, load in SETTINGS.items()}
    figures["produce"].seconds *= 2
    model, cases = models_of(results(figures))["produce"]
    off = errors(model, cases, CORES)["produce"]
    assert off.rate > 0.2
    assert off[1:] == pytest.approx((0.0, 0.0))


def test_the_wait_for_each_batch_is_found() -> None:
    run = results({name: made(load, 0.9, wait_us=30.0) for name, load in SETTINGS.items()})
    (model, cases) = models_of(run)["produce"]
    assert model.wait_us == pytest.approx(30.0, rel=0.05)
    assert model.share == pytest.approx(0.9, rel=0.05)
    assert all(abs(off.rate) < 0.01 for off in errors(model, cases, CORES).values())


def test_the_first_resource_that_ends_limits_the_rate() -> None:
    model, _ = models_of(results({name: made(load) for name, load in SETTINGS.items()}))["produce"]
    load = Load(100, 1000)
    cost_us = model.cost("broker", load)
    usual = model.predict(load, Cluster(Host(32, 1000)))
    assert usual.limit == "cores of the brokers"
    assert usual.rate == pytest.approx(32 / cost_us * 1e6)
    three = model.predict(load, Cluster(Host(32, 1000), replicas=3))
    assert three.rate == pytest.approx(usual.rate / 3)
    narrow = model.predict(load, Cluster(Host(32, 1)))
    assert narrow.limit == "network of the clients"
    assert narrow.rate == pytest.approx(1e9 / 8 / (100 + OVERHEAD_BYTES), rel=1e-3)
    few = model.predict(load, Cluster(Host(32, 1000), clients=1, brokers=100))
    assert few.limit == "cores of the clients"
    one = model.predict(Load(100, 1), Cluster(Host(32, 1000), clients=100, brokers=100))
    assert one.limit == "cores of the brokers"
    assert one.rate == pytest.approx(32 / model.cost("broker", Load(100, 1)) * 1e6)


def test_runs_without_the_brokers_cpu_have_no_model() -> None:
    figures = made(Load(100))
    figures.broker_cpu_seconds = 0.0
    run = results(dict.fromkeys(SETTINGS, figures))
    assert cases_of("produce", run) == []
    assert "On paper" not in page_of(run)


def test_the_page_has_the_model() -> None:
    page = page_of(results({name: made(load) for name, load in SETTINGS.items()}))
    section = page.partition("## On paper: other machines")[2]
    assert "| produce: client | 0.1 | 0.0002 | 40 | 0.001 |" in section
    assert "| batch_100 | " in section
    assert "| produce: 100 bytes, partitions: 1,000, 100 messages a batch | " in section


def test_the_model_predicts_the_measured_run() -> None:
    run = Results.read(MEASURED)
    models = models_of(run)
    if not models:
        pytest.skip("bench/measured.json has no CPU time of the broker: it is of an older bench")
    cores = int(run.environment["machine"]["cores"])
    off = {
        scenario: each
        for model, cases in models.values()
        for scenario, each in errors(model, cases, cores).items()
    }
    for scenario, each in off.items():
        print(f"{scenario}: rate {each.rate:+.1%}, CPU of client and broker {each[1:]}")
    assert [name for name, each in off.items() if abs(each.rate) > ERROR_MAX] == []
