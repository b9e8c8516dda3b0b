"""The requirements of pyproject.toml, read without a TOML parser, which Python 3.10 lacks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
# Other clients, and programs on top of one. Review a new version before the tests trust it.
WITNESSES = {
    "confluent-kafka",
    "aiokafka",
    "kafka-python",
    "opentelemetry-instrumentation-confluent-kafka",
    "aio-confluent-kafka",
    "kafka-handler",
    "pyspark",
}
LIST = re.compile(r"^([a-z]+) = \[(.*?)\](?:\n|$)", re.M | re.S)
ONE = re.compile(
    r'"([A-Za-z0-9_.-]+)(?:\[[a-z,-]*\])?(?:(>=|==)([0-9][0-9a-z.*]*))?"(?=\s*(?:,|\]|$|#))'
)


@dataclass(frozen=True)
class Requirement:
    """A package with its lowest or only version.

    ``where`` is ``requires``, ``dependencies`` or an extra.
    """

    where: str
    name: str
    operator: str
    version: str

    @property
    def is_exact(self) -> bool:
        """Return whether it allows only one version."""
        return self.operator == "==" and "*" not in self.version


def read(text: str | None = None) -> list[Requirement]:
    """Return every requirement, except our extras among each other."""
    text = PYPROJECT.read_text(encoding="utf-8") if text is None else text
    sections = dict(re.findall(r"^\[([^\n]+)\]\n(.*?)(?=^\[[^\n\]]+\]\n|\Z)", text, re.M | re.S))
    wanted = {
        "build-system": {"requires"},
        "project": {"dependencies"},
        "project.optional-dependencies": None,
    }
    found: list[Requirement] = []
    for section, names in wanted.items():
        for name, body in LIST.findall(re.sub(r"(?m)(^|\s)#[^\n]*$", "", sections[section])):
            if names is None or name in names:
                found += [
                    Requirement(name, *one) for one in ONE.findall(body) if one[0] != "kafka-native"
                ]
    return found
