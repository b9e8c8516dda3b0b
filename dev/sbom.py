"""The parts of a wheel as a CycloneDX bill of materials: `python -m dev.sbom FILE`.

A wheel contains this package and the codec libraries. Its metadata names the Python packages that
pip installs beside it, so they are no components.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .codec_sources import RELEASES
from .version import read_version

# SPDX names of the licenses in licenses/.
LICENSES = {
    "libdeflate": "MIT",
    "snappy": "BSD-3-Clause",
    "lz4": "BSD-2-Clause",
    "zstd": "BSD-3-Clause",
    "simdjson": "Apache-2.0",
}


def bill() -> dict[str, Any]:
    """Return the bill of materials."""
    package = f"pkg:pypi/kafka-native@{read_version()}"
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:generic/{release.name}@{release.version}",
            "name": release.name,
            "version": release.version,
            "purl": f"pkg:generic/{release.name}@{release.version}",
            "licenses": [{"license": {"id": LICENSES[release.name]}}],
            "externalReferences": [
                {
                    "type": "source-distribution",
                    "url": release.url,
                    "hashes": [{"alg": "SHA-256", "content": release.sha256}],
                }
            ],
        }
        for release in RELEASES
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": package,
                "name": "kafka-native",
                "version": read_version(),
                "purl": package,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": package, "dependsOn": [one["bom-ref"] for one in components]}],
    }


def main(argv: list[str]) -> None:
    """Write the bill to the file named."""
    target = Path(argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(bill(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv)
