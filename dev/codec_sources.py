"""The releases of the codec libraries that wheels link, and a command that fetches them.

    python -m dev.codec_sources FOLDER              download, check and unpack each release
    python -m dev.codec_sources FOLDER --archives A take the archives from the folder A instead

`KN_CODEC_SOURCES=FOLDER` then makes setup.py compile them into the core. Each archive must have the
SHA-256 of the table. To change a version: change its line here, fetch, build the wheels, run the
tests of codecs with them, and copy the license text to licenses/.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Release:
    """A released source archive. ``license`` is the file with its license."""

    name: str
    version: str
    url: str
    sha256: str
    license: str

    @property
    def folder(self) -> str:
        """The archive's only folder."""
        return f"{self.name}-{self.version}"


GITHUB = "https://github.com"
RELEASES = [
    Release(
        "libdeflate",
        "1.23",
        f"{GITHUB}/ebiggers/libdeflate/archive/refs/tags/v1.23.tar.gz",
        "1ab18349b9fb0ce8a0ca4116bded725be7dcbfa709e19f6f983d99df1fb8b25f",
        "COPYING",
    ),
    Release(
        "snappy",
        "1.2.2",
        f"{GITHUB}/google/snappy/archive/refs/tags/1.2.2.tar.gz",
        "90f74bc1fbf78a6c56b3c4a082a05103b3a56bb17bca1a27e052ea11723292dc",
        "COPYING",
    ),
    Release(
        "lz4",
        "1.10.0",
        f"{GITHUB}/lz4/lz4/releases/download/v1.10.0/lz4-1.10.0.tar.gz",
        "537512904744b35e232912055ccf8ec66d768639ff3abe5788d90d792ec5f48b",
        "lib/LICENSE",
    ),
    Release(
        "zstd",
        "1.5.7",
        f"{GITHUB}/facebook/zstd/releases/download/v1.5.7/zstd-1.5.7.tar.gz",
        "eb33e51f49a15e023950cd7825ca74a4a2b43db8354825ac24fc1b7ee09e6fa3",
        "LICENSE",
    ),
    Release(
        "simdjson",
        "3.0.1",
        f"{GITHUB}/simdjson/simdjson/archive/refs/tags/v3.0.1.tar.gz",
        "156b1bc5eb0561b2bd166b46d191fd3d95a3e709cc63761477d3b7aec2b6e9ed",
        "LICENSE",
    ),
]
TIMEOUT_S = 60


def read_archive(release: Release, archives: Path | None) -> bytes:
    """Return a release's archive after its hash was checked."""
    if archives is None:
        with urllib.request.urlopen(release.url, timeout=TIMEOUT_S) as response:
            data: bytes = response.read()
    else:
        data = (archives / f"{release.folder}.tar.gz").read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != release.sha256:
        raise SystemExit(f"{release.url}: expected SHA-256 {release.sha256}, found {found}")
    return data


def main() -> None:
    """Fetch the releases that the folder lacks."""
    parser = argparse.ArgumentParser(prog="dev.codec_sources", description="fetch codec sources")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--archives", type=Path, help="a folder with NAME-VERSION.tar.gz")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for release in RELEASES:
        if (chosen.folder / release.folder).is_dir():
            continue
        data = read_archive(release, chosen.archives)
        archive = chosen.folder / f"{release.folder}.tar.gz"
        archive.write_bytes(data)
        with tarfile.open(archive) as opened:
            opened.extractall(chosen.folder, filter="data")  # Python 3.10.12 or newer
        archive.unlink()
        print(f"{release.folder}: SHA-256 is right", file=sys.stderr)


if __name__ == "__main__":
    main()
