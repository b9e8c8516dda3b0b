"""The requirements that pyproject.toml has, read without a TOML parser: Python 3.10 has none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
# Other clients, and programs of others on one: a new version of them judges us only when somebody has looked at it.
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
ONE = re.compile(r'"([A-Za-z0-9_.-]+)(?:\[[a-z,]*\])?(?:(>=|==)([0-9][0-9a-z.*]*))?"(?=\s*(?:,|\]|$|#))')


@dataclass(frozen=True)
class Requirement:
    """A package with its lowest or only version; ``where`` is ``requires``, ``dependencies`` or the extra's name."""

    where: str
    name: str
    operator: str
    version: str

    @property
    def is_exact(self) -> bool:
        """Whether one version alone will do."""
        return self.operator == "==" and "*" not in self.version


def read(text: str | None = None) -> list[Requirement]:
    """Every requirement, ours among each other left out."""
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
                found += [Requirement(name, *one) for one in ONE.findall(body) if one[0] != "kafka-native"]
    return found
