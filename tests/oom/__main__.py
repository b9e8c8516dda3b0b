"""``python -m tests.oom``: every scenario, with each allocation failing once, or each system call.

``make test-oom`` and ``make test-syscalls`` run it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from tests.harness.reliability import record
from tests.oom.calls import ALLOCATIONS, KINDS, SYSTEM_CALLS
from tests.oom.judge import Failure, Judge, Outcome, failures, sample, summary
from tests.oom.scenarios import SCENARIOS


class Result(NamedTuple):
    """The runs of a scenario, and how many calls it makes that could fail."""

    calls: int
    outcomes: list[Outcome]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.oom", description=__doc__)
    add = parser.add_argument
    add("scenarios", nargs="*", default=list(SCENARIOS), help="scenarios (default: all)")
    add(
        "--system-calls",
        dest="kind",
        action="store_const",
        const=SYSTEM_CALLS,
        default=ALLOCATIONS,
        help="system calls fail, not allocations",
    )
    add("--jobs", type=int, default=2, help="parallel processes (default %(default)s)")
    add("--each", type=int, default=4, help="calls a site that fail (default %(default)s)")
    add("--sample", type=int, help="only so many of each scenario, drawn from the seed")
    add("--seed", type=int, default=random.randrange(1 << 32), help="of the sample")
    add("--limit", type=float, default=5.0, help="seconds for one wait (default %(default)s)")
    add("--site", help="only the calls of this site, as a bad ending names it")
    add("--nth", type=int, help="only this one of each site")
    add("--error", default="ENOMEM", help="of the call of --nth (default %(default)s)")
    add("--sites", action="store_true", help="print where a scenario calls, and run nothing")
    add("--record", action="store_true", help="add a line to bench/reliability")
    return parser


def _run_part(part: list[Failure], limit_s: float) -> list[Outcome]:
    outcomes = []
    with Judge(limit_s) as judge:
        for failure in part:
            outcome = judge.run(failure)
            outcomes.append(outcome)
            if outcome.bad:
                print(outcome, flush=True)
    return outcomes


def _plan(options: argparse.Namespace, scenario: str) -> tuple[int, list[Failure]]:
    """Return how many calls of a scenario could fail, and those that will."""
    with Judge(options.limit) as judge:
        sites = judge.sites(scenario, KINDS[options.kind])
    count = sum(site.count for site in sites)
    if options.sites:
        for site in sites:
            print(f"{site.name} {site.call:14} {site.count:6} {site}")
        return count, []
    sites = [site for site in sites if options.site in (None, site.name)]
    if options.nth is not None:
        return count, [Failure(scenario, site, options.nth, options.error) for site in sites]
    chosen = failures(scenario, sites, options.each)
    if options.sample is not None:
        chosen = sample(chosen, options.sample, options.seed)
    return count, chosen


def _run(options: argparse.Namespace, scenario: str) -> Result:
    """Run a scenario with each failure, and print a line."""
    began = time.monotonic()
    count, chosen = _plan(options, scenario)
    parts = [chosen[number :: options.jobs] for number in range(options.jobs)]
    with ThreadPoolExecutor(options.jobs) as pool:
        limits = [options.limit] * options.jobs
        done = pool.map(_run_part, [part for part in parts if part], limits)
        outcomes = [outcome for part in done for outcome in part]
    print(
        f"{scenario}: {len(outcomes)} runs in {time.monotonic() - began:.0f} s: "
        f"{summary(outcomes)}",
        flush=True,
    )
    return Result(count, outcomes)


def _record(options: argparse.Namespace, results: Sequence[Result], seconds: float) -> None:
    """Add the runs to bench/reliability.

    The figures have the calls that could fail, how many of them a run was to fail, and how many did
    fail, with any error. A run may make fewer calls than the one before it: threads take turns.
    """
    outcomes = [outcome for result in results for outcome in result.outcomes]
    tried = [outcome.failure for outcome in outcomes if outcome.failure]
    met = [outcome.failure for outcome in outcomes if outcome.failed and outcome.failure]
    figures = {
        "scenarios": len(results),
        "calls": sum(result.calls for result in results),
        "tried_calls": len({each.place for each in tried}),
        "failed_calls": len({each.place for each in met}),
    }
    scenarios = "all" if set(options.scenarios) == set(SCENARIOS) else options.scenarios
    chosen = {"calls": options.kind, "scenarios": scenarios, "each": options.each}
    if options.sample is not None:
        chosen |= {"sample": options.sample, "seed": options.seed}
    record(
        "failed_calls",
        chosen,
        seconds,
        Counter(each.site.call for each in met),
        len(outcomes),
        [outcome.line() for outcome in outcomes if outcome.bad],
        figures,
    )


def main() -> int:
    """Return the exit status: 1 if a run has failed."""
    options = _parser().parse_args()
    if options.sample is not None:
        print(f"seed {options.seed}")
    began = time.monotonic()
    results = [_run(options, scenario) for scenario in options.scenarios]
    if options.record:
        _record(options, results, time.monotonic() - began)
    return int(any(outcome.bad for result in results for outcome in result.outcomes))


if __name__ == "__main__":
    sys.exit(main())
