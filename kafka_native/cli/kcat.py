"""Translates kcat's command lines: ``-P``, ``-C``, ``-G``, ``-L`` and ``-Q`` become commands."""

from __future__ import annotations

import getopt
import re
import sys

import click

LETTERS = "PCLQG:t:p:b:z:o:eED:K:k:H:Od:qvF:X:c:Tuf:ZlVhs:r:Jm:M:"
"""kcat's options in getopt's notation: a colon follows each option that takes a value."""
MODES = {
    "-P": "produce",
    "-C": "consume",
    "-G": "consume",
    "-L": "metadata",
    "-Q": "topics offsets",
}
DROPPED_OPTIONS = ("-v", "-O")
"""kcat's options for more output. They don't change the result, so they are dropped."""
MISSING_OPTIONS = {
    "-T": "-T: write `tee FILE | kafka-native -P ...`",
    "-M": "-M: the client chooses one of the brokers that -b names",
}


def translated(arguments: list[str]) -> list[str]:
    """Translate kcat's arguments to this program's; return other arguments unchanged.

    kcat's arguments begin with a one-letter option.

    :raises click.UsageError: An option of kcat's has no equivalent here. The text names the
        alternative.
    """
    if not arguments or re.match(r"-[^-]", arguments[0]) is None or arguments[0] == "-h":
        return arguments
    # kcat has no long options: the first one and all arguments after it stay as they are.
    own = next(
        (at for at, text in enumerate(arguments) if text[:2] == "--" and len(text) > 2),
        len(arguments),
    )
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
        elif letter in MODES or letter in DROPPED_OPTIONS:
            continue
        elif f"{letter[1:]}:" in LETTERS and not value:
            found += [letter, ""]  # written together, it would take the next argument
        else:
            # Written together, a value that begins with a dash (-o -10) stays a value.
            found.append(letter + value)
    if mode == "-P" and operands and not {"-t", "-J"} & set(letters):
        raise click.UsageError("which topic? write -t TOPIC")  # kcat's operands are files
    found += arguments[own:]
    return [*found, "--", *operands] if operands else found
