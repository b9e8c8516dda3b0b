"""``python -m tests.broker.histories``: a long run on three brokers of our own. It ends with 1 if
there was an anomaly.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tests.broker.histories.history import export
from tests.broker.histories.planted import BUGS
from tests.broker.histories.process import CLIENTS
from tests.broker.histories.run import Options, Run, histories_rig
from tests.broker.histories.verify import violations
from tests.harness.command import make_run, run_options
from tests.harness.runs import drawn


@click.command()
@run_options(BUGS, "Processes")
@click.option(
    "--protocol", default="consumer", show_default=True, type=click.Choice(["classic", "consumer"])
)
@click.option("--client", default="ours", show_default=True, type=click.Choice(list(CLIENTS)))
@click.option("--processes", default=4, show_default=True)
@click.option(
    "--export", "exported", type=click.Path(path_type=Path), help="Write the history as EDN."
)
def main(seed: int | None, exported: Path | None, recorded: bool, **rest: object) -> None:
    """Kill, freeze and cut off processes, stop brokers, move leaders, and check the history."""
    options = Options(seed=drawn(seed), **rest)  # type: ignore[arg-type]
    run, is_broken = make_run(
        "histories", histories_rig, Run, violations, options, recorded=recorded
    )
    if exported is not None:
        with exported.open("w") as file:
            export(run.operations, file)
    sys.exit(is_broken)


if __name__ == "__main__":
    main()
