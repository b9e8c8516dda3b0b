"""``python -m tests.all_downloads`` fetches and checks the jars of all sets (see `downloads`)."""

from __future__ import annotations

import sys

from tests.broker import java
from tests.broker.matrix import brokers
from tests.codecs import java_avro
from tests.downloads import TABLE, fetch, jars, write_table
from tests.mock import apicurio
from tests.spark import jvm, spark_tables


def main() -> int:
    """Run ``python -m tests.all_downloads``: fetch and check all jars.

    ``--write-hashes`` writes hashes.
    """
    if sys.argv[1:] not in ([], ["--write-hashes"]):
        print("usage: python -m tests.all_downloads [--write-hashes]", file=sys.stderr)
        return 2
    if why := java.missing():
        print(f"jars can't be fetched: {why}", file=sys.stderr)
        return 1
    sets = [java.STREAMS_JARS, apicurio.JARS, java_avro.JARS, *jvm.JARS, spark_tables.JARS]
    sets += map(brokers.jars_of, brokers.RELEASES)
    if sys.argv[1:]:
        write_table({one.name: fetch(one) for one in sets})
    for one in sets:
        print(
            f"{one.name}: {len(list(jars(one).iterdir()))} files are those that {TABLE.name} names"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
