"""The release workflow, pyproject.toml, `make wheels` and docs/RELEASING.md say the same."""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import kafka_native
from dev import codec_sources, sbom, version, wheels
from tests.harness.builds import ROOT

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no TOML parser")

WORKFLOW = ROOT / ".github" / "workflows" / "wheels.yml"
PAGE = (ROOT / "docs" / "RELEASING.md").read_text(encoding="utf-8")
ACTION = re.compile(r"^[\w.-]+/[\w./-]+@v?[\w./]+$")


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def workflow() -> dict[str, Any]:
    # YAML reads the key "on" as True.
    return yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))


def rows(workflow: dict[str, Any]) -> list[dict[str, str]]:
    return workflow["jobs"]["wheels"]["strategy"]["matrix"]["include"]


def test_a_tag_releases_and_nothing_else_does(workflow: dict[str, Any]) -> None:
    assert workflow[True]["push"] == {"tags": ["v*"]}
    release = workflow["jobs"]["release"]
    assert release["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert set(release["needs"]) == {*workflow["jobs"]} - {"release"}
    publishing = [
        name for name, job in workflow["jobs"].items() if "pypi-publish" in json.dumps(job)
    ]
    assert publishing == ["release"]


def test_only_the_release_gets_rights(workflow: dict[str, Any]) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    rights = {name: job.get("permissions", {}) for name, job in workflow["jobs"].items()}
    assert rights.pop("release") == {
        "contents": "read",
        "id-token": "write",
        "attestations": "write",
    }
    assert not any(rights.values())
    assert "secrets." not in WORKFLOW.read_text(encoding="utf-8")


def test_each_action_has_a_version(workflow: dict[str, Any]) -> None:
    used = [
        step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step
    ]
    assert used
    assert [one for one in used if not ACTION.match(one)] == []


def test_every_named_module_and_file_exists(workflow: dict[str, Any]) -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    for name in re.findall(r"-m (dev\.\w+)", text):
        assert (ROOT / f"{name.replace('.', '/')}.py").is_file(), name
    for name in re.findall(r"\btests/[\w/]+\.py", text):
        assert (ROOT / name).is_file(), name


def test_platforms_are_those_of_make_wheels_and_macos(workflow: dict[str, Any]) -> None:
    linux = [one.tag for one in wheels.PLATFORMS]
    assert [row["platform"] for row in rows(workflow)] == [*linux, "macosx_x86_64", "macosx_arm64"]
    for row in rows(workflow):
        assert f"`{row['platform']}`" in PAGE


def test_images_are_those_of_the_platforms(pyproject: dict[str, Any]) -> None:
    linux = pyproject["tool"]["cibuildwheel"]["linux"]
    for one in wheels.PLATFORMS:
        kind = one.tag.partition("_")[0]
        assert linux[f"{kind}-{one.machine}-image"] == one.tag.removesuffix(f"_{one.machine}")


def test_pythons_are_those_of_make_wheels_and_of_the_page(
    pyproject: dict[str, Any], workflow: dict[str, Any]
) -> None:
    chosen = pyproject["tool"]["cibuildwheel"]["build"]
    assert chosen == [f"cp{one.replace('.', '')}-*" for one in wheels.PYTHONS]
    oldest = pyproject["project"]["requires-python"].removeprefix(">=")
    assert wheels.PYTHONS[0] == oldest
    for one in wheels.PYTHONS:
        assert re.search(rf"\b{re.escape(one)}\b", PAGE), one
    # Each row of the workflow builds for each Python.
    for row in rows(workflow):
        assert row["build"].startswith("*-")
        assert fnmatch.fnmatch(f"cp313-{row['build'][2:]}", row["build"])


def test_each_wheel_has_the_codecs_and_is_tried(
    pyproject: dict[str, Any], workflow: dict[str, Any]
) -> None:
    settings = pyproject["tool"]["cibuildwheel"]
    assert settings["test-command"].endswith("tests/packaging/smoke.py")
    for environment in (settings["environment"], settings["macos"]["environment"]):
        assert environment["KN_CODEC_SOURCES"] == "build/codec-sources"
    steps = [step.get("run", "") for step in workflow["jobs"]["wheels"]["steps"]]
    fetched = steps.index("python -m dev.codec_sources build/codec-sources")
    assert fetched < steps.index("python -m cibuildwheel --output-dir dist")


def test_releases_of_codecs_are_pinned() -> None:
    for release in codec_sources.RELEASES:
        assert re.fullmatch(r"[0-9a-f]{64}", release.sha256)
        assert release.version in release.url
        assert release.url.startswith("https://")
        page = (ROOT / "docs" / "DEPENDENCIES.md").read_text(encoding="utf-8")
        assert f"{release.name} {release.version}" in page


def test_the_bill_of_materials_names_each_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "new" / "bill.json"
    sbom.main(["", str(target)])
    bill = json.loads(target.read_text())
    assert bill["metadata"]["component"]["version"] == kafka_native.__version__
    parts = {one["bom-ref"]: one for one in bill["components"]}
    assert [(one["name"], one["version"]) for one in parts.values()] == [
        (release.name, release.version) for release in codec_sources.RELEASES
    ]
    (edges,) = bill["dependencies"]
    assert edges["dependsOn"] == list(parts)


def test_the_version_exists_once(pyproject: dict[str, Any]) -> None:
    assert "version" in pyproject["project"]["dynamic"]
    assert version.read_version() == kafka_native.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?", version.read_version())


def test_urls_and_pythons_of_the_metadata(pyproject: dict[str, Any]) -> None:
    project = pyproject["project"]
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= set(project["urls"])
    prefix = "Programming Language :: Python :: 3."
    named = {one.removeprefix(prefix) for one in project["classifiers"] if one.startswith(prefix)}
    assert {f"3.{one}" for one in named} <= set(wheels.PYTHONS)


def test_a_python_is_found_with_its_headers() -> None:
    here = "{}.{}".format(*sys.version_info[:2])
    assert wheels.find_python(here) is not None
    assert wheels.find_python("2.7") is None


@pytest.mark.parametrize(
    ("found", "fits"),
    [
        ("manylinux_2_28_x86_64", True),
        ("manylinux_2_17_x86_64", True),
        ("manylinux_2_31_x86_64", False),
        ("manylinux_2_28_aarch64", False),
        ("musllinux_1_2_x86_64", False),
        ("linux_x86_64", False),
    ],
)
def test_a_tag_must_fit_the_platform(found: str, fits: bool) -> None:
    assert wheels.fits(found, wheels.PLATFORMS[0]) is fits


def report(to: wheels.Platform, *libraries: str, **changes: Any) -> dict[str, Any]:
    """Return what `auditwheel show --json` prints for a wheel that needs libraries."""
    upgrades = {to.tag: {"libs_to_eliminate": [*libraries]}} if libraries else {}
    return {"sym_tag": to.tag, "unsupported_isa": False, "policy_upgrades": upgrades} | changes


@pytest.mark.parametrize("to", wheels.PLATFORMS, ids=[one.tag for one in wheels.PLATFORMS])
def test_auditwheels_objections_count_on_each_platform(to: wheels.Platform) -> None:
    assert wheels.objections(report(to), to) == []
    assert wheels.objections(report(to, "libstdc++.so.6"), to) == ["the library libstdc++.so.6"]
    assert len(wheels.objections(report(to, sym_tag=f"linux_{to.machine}"), to)) == 1
    assert len(wheels.objections(report(to, unsupported_isa=True), to)) == 1
    blocked = {to.tag: {"blacklisted_symbols": {"libz.so.1": ["inflate_fast"]}}}
    assert len(wheels.objections(report(to, policy_upgrades=blocked), to)) == 1


def test_zigs_name_of_musl_is_allowed_for_musl_only() -> None:
    for to in wheels.PLATFORMS:
        expected = [] if to.libc == "musl" else ["the library libc.so"]
        assert wheels.objections(report(to, "libc.so"), to) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF files")
def test_functions_that_nobody_provides_are_found(tmp_path: Path) -> None:
    source = """
        extern int PyErr_Occurred(void), memcpy_of_glibc(void), memcpy_of_musl(void), other(void);
        extern int optional(void) __attribute__((weak));
        int answer(void) {
            return PyErr_Occurred() + memcpy_of_glibc() + memcpy_of_musl() + other()
                + (optional ? optional() : 0);
        }
    """
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as opened:
        for name, text in (("a", source), ("b", "int other(void) { return 1; }")):
            (tmp_path / f"{name}.c").write_text(text)
            command = ["gcc", "-shared", "-fPIC", "-nostdlib", f"{name}.c", "-o", f"{name}.so"]
            subprocess.run(command, cwd=tmp_path, check=True)
            opened.write(tmp_path / f"{name}.so", f"package/{name}.so")
    assert wheels.symbols_without_provider(wheel, {"memcpy_of_musl"}) == {"memcpy_of_glibc"}
