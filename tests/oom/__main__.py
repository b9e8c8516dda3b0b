"""``python -m tests.oom``: every scenario, with each allocation failing once. ``make test-oom``
runs it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.oom.judge import Failure, Judge, Outcome, failures, sample, summary
from tests.oom.scenarios import SCENARIOS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.oom", description=__doc__)
    parser.add_argument(
        "scenarios", nargs="*", default=list(SCENARIOS), help="scenarios (default: all)"
    )
    parser.add_argument(
        "--jobs", type=int, default=2, help="parallel processes (default %(default)s)"
    )
    parser.add_argument(
        "--each", type=int, default=4, help="allocations a site that fail (default %(default)s)"
    )
    parser.add_argument(
        "--sample", type=int, help="only so many of each scenario, drawn from the seed"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the sample")
    parser.add_argument(
        "--limit", type=float, default=5.0, help="seconds for one wait (default %(default)s)"
    )
    parser.add_argument(
        "--site", help="only the allocations of this site, as a bad ending names it"
    )
    parser.add_argument("--nth", type=int, help="only this one of each site")
    parser.add_argument(
        "--sites", action="store_true", help="print where a scenario allocates, and run nothing"
    )
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


def _plan(options: argparse.Namespace, scenario: str) -> list[Failure]:
    with Judge(options.limit) as judge:
        sites = judge.sites(scenario)
    if options.sites:
        for site in sites:
            print(f"{site.name} {site.count:6} {site}")
        return []
    sites = [site for site in sites if options.site in (None, site.name)]
    if options.nth is not None:
        return [Failure(scenario, site, options.nth) for site in sites]
    chosen = failures(scenario, sites, options.each)
    return chosen if options.sample is None else sample(chosen, options.sample, options.seed)


def main() -> int:
    """Return the exit status: 1 if a run has failed."""
    options = _parser().parse_args()
    if options.sample is not None:
        print(f"seed {options.seed}")
    bad = 0
    for scenario in options.scenarios:
        began = time.monotonic()
        chosen = _plan(options, scenario)
        parts = [chosen[number :: options.jobs] for number in range(options.jobs)]
        with ThreadPoolExecutor(options.jobs) as pool:
            done = pool.map(
                _run_part, [part for part in parts if part], [options.limit] * options.jobs
            )
            outcomes = [outcome for part in done for outcome in part]
        bad += sum(outcome.bad is not None for outcome in outcomes)
        print(
            f"{scenario}: {len(outcomes)} runs in {time.monotonic() - began:.0f} s: "
            f"{summary(outcomes)}",
            flush=True,
        )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
