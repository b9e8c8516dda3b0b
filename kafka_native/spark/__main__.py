"""The command line of the pipelines: ``python -m kafka_native.spark COMMAND``."""

from __future__ import annotations

import sys

EXTRA = ("click", "rich", "pyspark", "pyarrow", "py4j")
NEEDS = "the pipelines need a few more packages: pip install 'kafka-native[spark,cli]'"


def main() -> None:
    """The entry point. If a package of the extras is missing, it prints one line that names it."""
    try:
        from kafka_native.spark.commands import cli
        from kafka_native.terminal.lines import escape_tracebacks

        escape_tracebacks()
        cli(prog_name="python -m kafka_native.spark")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        sys.exit(f"{NEEDS} ({error.name} is missing)")


if __name__ == "__main__":
    main()
