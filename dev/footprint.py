"""Print what an installation costs, beside confluent-kafka's: `make footprint`.

    python -m dev.footprint [WHEEL]     the default is the newest wheel in dist/ for this Python

Each package gets an empty environment. The lines are: the size of everything that pip installed,
the CPU time of `import` over that of an empty program, and the resident memory after the import and
after the start of a producer. The client's broker doesn't exist. Each figure is the best of several
runs. Figures of a busy machine are too high.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .wheels import ROOT, WORK, environment, run

RUNS = 9
NOTHING = "pass"
IMPORTS = {
    "kafka-native": "from kafka_native import Consumer, Producer",
    "confluent-kafka": "from confluent_kafka import Consumer, Producer",
}
PRODUCER = 'producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})'
CPU = "import time\n{}\nprint(time.process_time())"
MEMORY = (
    "{}\n"
    "pages = int(open('/proc/self/statm').read().split()[1])\n"
    "import os; print(pages * os.sysconf('SC_PAGE_SIZE'), flush=True); os._exit(0)"
)


def newest_wheel() -> Path:
    """Return the newest wheel in dist/ that this Python can use on this machine."""
    tag = "cp{}{}".format(*sys.version_info[:2])
    found = [
        path
        for path in (ROOT / "dist").glob(f"kafka_native-*-{tag}-{tag}-*.whl")
        if "musl" not in path.name and "aarch64" not in path.name
    ]
    if not found:
        raise SystemExit(f"no wheel for {tag} in dist/: run `make wheels` or `make wheel`")
    return max(found, key=lambda path: path.stat().st_mtime)


def installed_bytes(own: Path) -> int:
    """Return the size of the installed packages without pip and compiled Python."""
    (site,) = own.parent.parent.glob("lib/python*/site-packages")
    return sum(
        path.stat().st_size
        for path in site.rglob("*")
        if path.is_file()
        and path.suffix != ".pyc"
        and not path.relative_to(site).parts[0].startswith(("pip", "setuptools", "_distutils"))
    )


def best(own: Path, program: str) -> float:
    """Return the lowest of the figures that runs of a program print."""
    return min(float(run(own, "-I", "-c", program)) for _ in range(RUNS))


def megabytes(size: float) -> str:
    """Return a number of bytes as text."""
    return f"{size / 1e6:.1f} MB"


def measure(own: Path, importing: str) -> list[tuple[str, str]]:
    """Return the figures of one environment, each with its name."""
    empty = best(own, CPU.format(NOTHING))
    started = f"{importing}\n{PRODUCER}"
    return [
        ("installed", megabytes(installed_bytes(own))),
        ("import", f"{(best(own, CPU.format(importing)) - empty) * 1e3:.0f} ms"),
        ("memory after the import", megabytes(best(own, MEMORY.format(importing)))),
        ("memory with a producer", megabytes(best(own, MEMORY.format(started)))),
    ]


def main(argv: list[str]) -> None:
    """Print a table."""
    wheel = Path(argv[1]).resolve() if len(argv) > 1 else newest_wheel()
    python = Path(getattr(sys, "_base_executable", sys.executable))
    packages: dict[str, str | Path] = {
        "kafka-native": wheel,
        "confluent-kafka": "confluent-kafka==2.16.1",
    }
    columns = {
        name: measure(environment(python, WORK / f"size-{name}", package), IMPORTS[name])
        for name, package in packages.items()
    }
    print("| " + " | ".join(["", *columns]) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for row in zip(*columns.values(), strict=True):
        print("| " + " | ".join([row[0][0], *(figure for _, figure in row)]) + " |")


if __name__ == "__main__":
    main(sys.argv)
