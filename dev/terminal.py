"""Record a terminal session for the README: ``python -m dev.terminal`` writes docs/terminal.svg.

The commands really run, on a mock cluster at port 9092.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

ROOT: Final = Path(__file__).resolve().parents[1]
COMMANDS: Final = (
    "kafka-native mock --brokers 1 --port 9092 --topics greetings:2 &",
    "export KAFKA_BOOTSTRAP=localhost:9092",
    r"printf 'ann:hello\nbob:good morning\nann:bye\n' | kafka-native produce greetings -K :",
    r"kafka-native consume greetings -e -f '%p/%o %k: %s\n'",
    "seq 1000000 | kafka-native produce greetings",
    "kafka-native topics list",
    "kafka-native consume greetings -e -o -1",
)
"""Each runs in a shell of its own. The export is for the reader: they all have it."""
COLUMNS: Final = 90
LINE_HEIGHT: Final = 19
STYLE: Final = """
text { font: 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }
.command { fill: #ffffff; } .prompt { fill: #7fd1ae; } .output { fill: #b8c0cc; }
"""


def record() -> list[tuple[bool, str]]:
    """Run the commands, and return the lines: whether it is a command, and the text."""
    lines: list[tuple[bool, str]] = []
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    servers = {"KAFKA_BOOTSTRAP": "localhost:9092", "NO_COLOR": "1", "PATH": path}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **servers}
    mock: subprocess.Popen[str] | None = None
    with tempfile.TemporaryDirectory() as folder:
        try:
            for command in COMMANDS:
                lines.append((True, command))
                program = subprocess.Popen(
                    ["bash", "-c", f"exec {command[:-1]}" if command.endswith("&") else command],
                    cwd=folder,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
                assert program.stdout is not None
                if command.endswith("&"):
                    mock = program
                    lines.append((False, program.stdout.readline().rstrip()))  # it is ready
                    continue
                lines += [(False, line.rstrip()) for line in program.stdout]
                if program.wait():
                    raise SystemExit(f"{command}: exit status {program.returncode}")
        finally:
            if mock is not None:
                mock.terminate()
                mock.wait()
    return lines


def drawn(lines: list[tuple[bool, str]]) -> str:
    """Return the lines as an SVG picture."""
    width, height = 28 + COLUMNS * 8, 28 + LINE_HEIGHT * len(lines)
    shapes = []
    for number, (is_command, text) in enumerate(lines):
        if len(text) > COLUMNS:
            raise SystemExit(f"longer than {COLUMNS} characters: {text}")
        kind, prompt = "output", ""
        if is_command:
            kind, prompt = "command", '<tspan class="prompt">$ </tspan>'
        y = 28 + LINE_HEIGHT * number
        shapes.append(f'<text x="14" y="{y}" class="{kind}">{prompt}{escape(text)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">\n'
        "<title>kafka-native in a terminal: messages go to a mock cluster and back</title>\n"
        f'<style>{STYLE}</style>\n<rect width="{width}" height="{height}" rx="8" fill="#20262e"/>\n'
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    (ROOT / "docs" / "terminal.svg").write_text(drawn(record()), encoding="utf-8")
