"""Run a program of confluent_kafka on kafka_native, without changing the program.

Use ``python -m kafka_native.compat program.py arguments ...``. ``-m module arguments ...`` runs a
module, like Python's own ``-m``. ``--path`` prints the folder for PYTHONPATH.
"""

from __future__ import annotations

import os
import runpy
import sys

from kafka_native.compat import DROP_IN_PATH, install

USAGE = """usage: python -m kafka_native.compat program.py [arguments ...]
       python -m kafka_native.compat -m module [arguments ...]
       python -m kafka_native.compat --path

Runs a Python program in which `import confluent_kafka` means kafka_native. With --path, prints the
folder that does the same for each Python process that has it in PYTHONPATH."""


def main(arguments: list[str]) -> int:
    """Run the program or the module that the arguments name; return 2 if they name none."""
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if arguments == ["--path"]:
        print(DROP_IN_PATH)
        return 0
    as_module = arguments[:1] == ["-m"]
    program = arguments[1:] if as_module else arguments
    if not program or (program[0].startswith("-") and not as_module):
        print(USAGE, file=sys.stderr)
        return 2
    if not as_module and not os.path.exists(program[0]):
        print(f"can't open file {program[0]!r}: there is none", file=sys.stderr)
        return 2
    install()
    sys.argv[:] = program
    if as_module:
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    else:
        # Python puts the program's folder first in sys.path. Until now the first entry is the
        # folder in which the user started this command.
        if os.path.isfile(program[0]):
            sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
        runpy.run_path(program[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
