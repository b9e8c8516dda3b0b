"""Runs the cases under callgrind: ``python -m bench.micro.child LIBRARY BOOTSTRAP CASE ...``."""

from __future__ import annotations

import ctypes
import gc
import json
import sys

from bench.micro.cases import CASES


def main(library: str, bootstrap: str, *names: str) -> None:
    counting = ctypes.CDLL(library)
    operations = {}
    for name in names:
        count, work = CASES[name](bootstrap)
        work()
        gc.collect()
        counting.start()
        work()
        counting.stop(name.encode())
        operations[name] = count
    print(json.dumps(operations))


if __name__ == "__main__":
    main(*sys.argv[1:])
