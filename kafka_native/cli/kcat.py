"""kcat's command lines as this program's: ``-P``, ``-C``, ``-G``, ``-L``, ``-Q`` become commands, others stay."""

from __future__ import annotations

import getopt
import re
import sys

import click

LETTERS = "PCLQG:t:p:b:z:o:eED:K:k:H:Od:qvF:X:c:Tuf:ZlVhs:r:Jm:M:"
"""kcat's options, as getopt has them: those with a colon take a value."""
MODES = {"-P": "produce", "-C": "consume", "-G": "consume", "-L": "metadata", "-Q": "topics offsets"}
DROPPED_OPTIONS = ("-v", "-O")
"""More words, and a report of each delivery: they change nothing of what is done."""
MISSING_OPTIONS = {
    "-s": "-s: schemas aren't decoded; consume with -f or -J and decode what comes",
    "-r": "-r: there is no schema registry here",
    "-T": "-T: write `tee FILE | kafka-native -P ...`",
    "-M": "-M: any broker that -b names is asked",
}


def translated(arguments: list[str]) -> list[str]:
    """The arguments of the program; those of kcat, which begin with one of its letters, in this program's words.

    :raises click.UsageError: They are kcat's, and can't be meant here; the text says what to write in their place.
    """
    if not arguments or re.match(r"-[^-]", arguments[0]) is None or arguments[0] == "-h":
        return arguments
    # long options aren't kcat's: from the first one on everything stays as it is
    own = next((at for at, text in enumerate(arguments) if text[:2] == "--" and len(text) > 2), len(arguments))
    try:
        options, operands = getopt.gnu_getopt(arguments[:own], LETTERS)
    except getopt.GetoptError as error:
        raise click.UsageError(str(error)) from None
    letters = [letter for letter, _ in options]
    if "-h" in letters or "-V" in letters:
        return ["--help" if "-h" in letters else "--version"]
    for letter in letters:
        if letter in MISSING_OPTIONS:
            raise click.UsageError(f"kcat's {MISSING_OPTIONS[letter]}")
    modes = [letter for letter in letters if letter in MODES]
    if len(set(modes)) > 1:
        raise click.UsageError(f"kcat's {' and '.join(modes)}: one of them at a time")
    mode = modes[0] if modes else "-C" if sys.stdin.isatty() else "-P"
    found = MODES[mode].split()
    for letter, value in options:
        if letter == "-J" and mode == "-L":
            found.append("--json")
        elif letter == "-t" and mode == "-Q":
            operands.append(value)  # TOPIC:PARTITION:TIME
        elif letter == "-G":
            found += ["-G", value]
        elif letter not in MODES and letter not in DROPPED_OPTIONS:
            # a value that begins with a dash (-o -10) stays its option's: written together
            found.append(letter + value)
    found += arguments[own:]
    return [*found, "--", *operands] if operands else found
