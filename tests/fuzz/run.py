#!/usr/bin/env python3
"""Builds the fuzz targets with ASan and UBSan, and runs them.

With clang, libFuzzer drives them. Otherwise gcc builds them, and driver.c drives them.

    tests/fuzz/run.py --runs 100000              every target, that many executions each
    tests/fuzz/run.py --seconds 60 batch lz4     two targets for a minute each

Seeds are in tests/fuzz/corpus/TARGET. A run stores its new inputs in build/fuzz/corpus, never in
the repository. You add a finding to the seeds by hand, together with its fix. Each run appends a
line to build/fuzz/ledger.jsonl; --totals sums them up. --record also adds a line for all targets to
bench/reliability. Ctrl+C or SIGTERM ends the current target with its figures.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fcntl
import importlib.util
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "fuzz"
BUILD = ROOT / "build" / "fuzz"
LEDGER = BUILD / "ledger.jsonl"

# Target name: source, defines. gzip is built twice: with libdeflate and with zlib.
TARGETS: dict[str, tuple[str, dict[str, str]]] = {
    "span": ("fuzz_span.c", {}),
    "header": ("fuzz_header.c", {}),
    "write": ("fuzz_write.c", {}),
    "batch": ("fuzz_batch.c", {}),
    "records": ("fuzz_records.c", {}),
    "legacy": ("fuzz_legacy.c", {}),
    "wrapped": ("fuzz_wrapped.c", {}),
    "gzip": ("fuzz_codec.c", {"FUZZ_CODEC": "1"}),
    "gzip_zlib": ("fuzz_codec.c", {"FUZZ_CODEC": "1", "WITHOUT": "KN_HAVE_LIBDEFLATE"}),
    "snappy": ("fuzz_codec.c", {"FUZZ_CODEC": "2"}),
    "lz4": ("fuzz_codec.c", {"FUZZ_CODEC": "3"}),
    "zstd": ("fuzz_codec.c", {"FUZZ_CODEC": "4"}),
    "lz4_legacy": ("fuzz_codec.c", {"FUZZ_CODEC": "5"}),
    "arrow": ("fuzz_arrow.c", {}),
    "tunnel": ("fuzz_tunnel.c", {}),
    "framing": ("fuzz_framing.c", {}),
    "avro": ("fuzz_avro.c", {}),
    "encode": ("fuzz_encode.c", {}),
    "protobuf": ("fuzz_protobuf.c", {}),
    "json": ("fuzz_json.c", {}),
    "json_plain": ("fuzz_json.c", {"FUZZ_JSON_PLAIN": "1"}),
}
INPUT_BYTES_MAX = 4096
TIMEOUT_S = 60  # for one execution
C_STANDARD = "-std=gnu11"
SANITIZERS = "address,undefined"
# With these an execution is short, although a record may expand up to a limit.
LIMITS = ("-DKN_EXPANSION_MAX_BYTES=65536LL", "-DKN_AVRO_EMPTY_ITEMS_MAX=256")
STOP_SIGNALS = signal.SIGINT, signal.SIGTERM
STOPPED_STATUSES = 0, 72  # of driver.c and of libFuzzer, if a signal ends them


@dataclass(frozen=True)
class Toolchain:
    """A compiler, and the flags and source of the driver of its targets."""

    name: str
    compiler: str
    flags: tuple[str, ...]
    link_flags: tuple[str, ...] = ()
    driver: Path | None = None
    """A source with main() that is compiled without ``flags``."""


def toolchain(wanted: str = "") -> Toolchain:
    """Return the toolchain of a name. Without a name: clang's if it has libFuzzer, else gcc's."""
    clang = os.environ.get("KN_CLANG") or shutil.which("clang") or ""
    if wanted != "gcc" and clang and (wanted == "clang" or has_libfuzzer(clang)):
        return Toolchain("clang", clang, (f"-fsanitize=fuzzer,{SANITIZERS}",))
    gcc = shutil.which("gcc")
    if wanted == "clang" or gcc is None:
        raise FileNotFoundError(f"{wanted or 'gcc'} is not installed")
    flags = (f"-fsanitize={SANITIZERS}", "-fsanitize-coverage=trace-pc")
    return Toolchain("gcc", gcc, flags, flags[:1], HERE / "driver.c")


def has_libfuzzer(compiler: str) -> bool:
    """Return whether a program with libFuzzer compiles."""
    source = "int LLVMFuzzerTestOneInput(const char *d, long n) { (void)d; return (int)(n - n); }"
    command = [compiler, "-fsanitize=fuzzer", "-x", "c", "-", "-o", os.devnull]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    return done.returncode == 0


def codec_flags(without: str) -> tuple[list[str], list[str], list[str]]:
    """Return defines and libraries as setup.py finds them, and the flags for C++ sources.

    ``without`` hides libdeflate, so that gzip uses zlib.
    """
    spec = importlib.util.spec_from_file_location("kn_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if without:
        os.environ["KN_WITHOUT"] = "libdeflate"
    with contextlib.redirect_stderr(io.StringIO()):  # its messages are only for builds
        codecs = module.Codecs()
    os.environ.pop("KN_WITHOUT", None)
    # Checks of virtual tables need the C++ driver as linker.
    cxx = [*module.CXX_FLAGS, "-fno-sanitize=vptr"]
    return codecs.cflags, codecs.ldflags, cxx if ".cpp" in codecs.sources else []


def is_stale(target: Path, inputs: list[Path]) -> bool:
    """Return whether the target is missing or older than one of its inputs."""
    return not target.exists() or target.stat().st_mtime < max(
        path.stat().st_mtime for path in inputs
    )


@contextlib.contextmanager
def build_lock() -> Iterator[None]:
    """Wait until no other run builds. Runs share a folder, so only one may build at a time."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(name: str, tools: Toolchain) -> Path:
    """Build the target's program if one of its inputs has changed. Targets share the objects of
    csrc.
    """
    with build_lock():
        return build_alone(name, tools)


def build_alone(name: str, tools: Toolchain) -> Path:
    """As `build()`, for a caller that has the lock."""
    source, defines = TARGETS[name]
    defines = dict(defines)
    without = defines.pop("WITHOUT", "")
    cflags, ldflags, cxx_flags = codec_flags(without)
    folders = [ROOT / "csrc" / part for part in ("base", "records", "codecs")]
    sources = sorted(path for folder in folders for path in folder.glob("*.c"))
    cxx_sources = sorted((ROOT / "csrc" / "codecs").glob("*.cpp")) if cxx_flags else []
    included = ROOT / "csrc" / "net" / "proxy.c"  # included by one target
    drivers = [] if tools.driver is None else [tools.driver]
    headers = [*ROOT.glob("csrc/*/*.h"), included, *HERE.glob("*.h"), *drivers]
    common = ["-O1", "-g", "-DKN_DEBUG=1", "-fno-sanitize-recover=undefined"]
    common += [*LIMITS, f"-I{ROOT}/csrc", f"-I{HERE}", "-pthread", *cflags]
    flags = [*common, *tools.flags]

    objects = BUILD / tools.name / f"obj{without}"
    done = objects / "done"
    if is_stale(done, [*sources, *cxx_sources, *headers]):
        shutil.rmtree(objects, ignore_errors=True)
        objects.mkdir(parents=True)
        compile_all(tools.compiler, [C_STANDARD, *flags], sources, objects)
        compile_all(tools.compiler, [*flags, *cxx_flags], cxx_sources, objects)
        compile_all(tools.compiler, [C_STANDARD, *common, *tools.link_flags], drivers, objects)
        done.touch()

    binary = BUILD / tools.name / "bin" / name
    binary.parent.mkdir(parents=True, exist_ok=True)
    if is_stale(binary, [done, *headers, HERE / source]):
        partial = binary.with_suffix(f".{os.getpid()}")  # another run may still use the old one
        target = objects / f"target-{name}.o"
        command = [tools.compiler, C_STANDARD, *flags]
        command += [f"-D{key}={value}" for key, value in defines.items()]
        subprocess.run([*command, "-c", str(HERE / source), "-o", str(target)], check=True)
        shared = (path for path in objects.glob("*.o") if not path.name.startswith("target-"))
        parts = [str(target), *map(str, sorted(shared)), *ldflags]
        linked = [*common, *(tools.link_flags or tools.flags)]
        subprocess.run([tools.compiler, *linked, *parts, "-o", str(partial)], check=True)
        partial.rename(binary)
    return binary


def compile_all(compiler: str, flags: list[str], sources: list[Path], folder: Path) -> None:
    """Compile sources to objects in a folder."""
    if sources:
        subprocess.run([compiler, *flags, "-c", *map(str, sources)], cwd=folder, check=True)


def commit() -> str:
    """Return the commit of the tree."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


class StoppableProgram:
    """Runs a program. SIGINT and SIGTERM are passed on to it, so that it ends with its figures."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.returncode = 0
        self.stderr = ""
        self.stopped_by = 0
        """The signal that has ended the program, or 0."""
        self._running: subprocess.Popen[str] | None = None

    def run(self) -> None:
        """Run the program to its end. Call it in the main thread."""
        before = [(each, signal.signal(each, self._stop)) for each in STOP_SIGNALS]
        try:
            # In a session of its own, the program gets no Ctrl+C from the terminal.
            self._running = subprocess.Popen(
                self.command,
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            if self.stopped_by:
                self._running.terminate()
            _, self.stderr = self._running.communicate()
            self.returncode = self._running.returncode
        finally:
            for each, handler in before:
                signal.signal(each, handler)

    def _stop(self, signal_number: int, frame: FrameType | None) -> None:
        self.stopped_by = signal_number
        if self._running is not None:
            self._running.terminate()


@dataclass(frozen=True)
class Result:
    """What one run of a target has found."""

    executions: int
    is_clean: bool
    seconds: float
    stopped_by: int = 0
    """The signal that has ended the run, or 0."""


def run(name: str, runs: int, seconds: int, seed: int, tools: Toolchain) -> Result:
    """Run one target, and append the result to the ledger."""
    binary = build(name, tools)
    corpus = BUILD / tools.name / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    findings = BUILD / "findings"
    findings.mkdir(exist_ok=True)
    command = [
        str(binary),
        str(corpus),
        f"-max_len={INPUT_BYTES_MAX}",
        "-rss_limit_mb=1024",
        f"-timeout={TIMEOUT_S}",
        "-print_final_stats=1",
    ]
    command += [f"-artifact_prefix={findings}/{name}-", "-verbosity=0", f"-seed={seed}"]
    command += [f"-runs={runs}"] if runs else []
    command += [f"-max_total_time={seconds}"] if seconds else []
    seeds = HERE / "corpus" / name
    if seeds.is_dir():
        command.append(str(seeds))
    started = time.monotonic()
    program = StoppableProgram(command)
    program.run()
    match = re.search(r"number_of_executed_units: (\d+)", program.stderr)
    executed = int(match[1]) if match else 0
    if program.stopped_by:
        # A program that had no time for its signal handlers ends by the signal.
        clean = program.returncode in (*STOPPED_STATUSES, -signal.SIGTERM)
    else:
        clean = program.returncode == 0 and executed > 0
    if not clean:
        sys.stderr.write(program.stderr[-8000:])
    seconds_taken = time.monotonic() - started
    entry = {
        "target": name,
        "driver": tools.name,
        "commit": commit(),
        "seed": seed,
        "seconds": round(seconds_taken, 1),
        "executions": executed,
        "clean": clean,
    }
    with LEDGER.open("a") as ledger:
        ledger.write(json.dumps(entry) + "\n")
    return Result(executed, clean, seconds_taken, program.stopped_by)


def totals() -> int:
    """Print the sums of the ledger. Return 1 if a run had a finding."""
    executions: collections.Counter[str] = collections.Counter()
    findings: collections.Counter[str] = collections.Counter()
    for line in LEDGER.read_text().splitlines() if LEDGER.exists() else []:
        entry = json.loads(line)
        executions[entry["target"]] += entry["executions"]
        findings[entry["target"]] += not entry["clean"]
    for name in TARGETS:
        print(f"{name:12} {executions[name]:>12,} executions, {findings[name]} findings")
    print(
        f"{'all':12} {sum(executions.values()):>12,} executions, {sum(findings.values())} findings"
    )
    return 1 if sum(findings.values()) else 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; default: all"
    )
    parser.add_argument("--runs", type=int, default=0, help="executions of each target")
    parser.add_argument("--seconds", type=int, default=0, help="time for each target")
    parser.add_argument(
        "--seed", type=int, default=0, help="random seed (0: another one each time)"
    )
    parser.add_argument(
        "--toolchain", default="", choices=["clang", "gcc"], help="default: clang if it's there"
    )
    parser.add_argument("--totals", action="store_true", help="sum up the ledger and stop")
    parser.add_argument("--record", action="store_true", help="add a line to bench/reliability")
    options = parser.parse_args()
    if options.totals:
        return totals()
    unknown = set(options.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    if not options.runs and not options.seconds:
        parser.error("--runs or --seconds is needed")
    return run_all(options, toolchain(options.toolchain))


def run_all(options: argparse.Namespace, tools: Toolchain) -> int:
    """Run the targets of the command line, and return the exit status."""
    results: dict[str, Result] = {}
    for name in options.targets or TARGETS:
        seed = options.seed or int.from_bytes(os.urandom(3), "big") or 1
        result = results[name] = run(name, options.runs, options.seconds, seed, tools)
        print(
            f"{name:12} {result.executions:>12,} executions, "
            f"{'clean' if result.is_clean else 'FINDING: see build/fuzz/findings'}",
            flush=True,
        )
        if result.stopped_by:
            break
    if options.record:
        record_all(results, options.seed, tools)
    if not all(each.is_clean for each in results.values()):
        return 1
    stopped_by = max((each.stopped_by for each in results.values()), default=0)
    return 128 + stopped_by if stopped_by else 0


def record_all(results: dict[str, Result], seed: int, tools: Toolchain) -> None:
    """Add the run to bench/reliability: the executions of each target, and the findings."""
    sys.path.insert(0, str(ROOT))
    from tests.harness.reliability import record

    executions = {name: each.executions for name, each in results.items()}
    findings = [f"{name}: a finding" for name, each in results.items() if not each.is_clean]
    options = {"seed": seed, "driver": tools.name}
    seconds = sum(each.seconds for each in results.values())
    record("fuzz", options, seconds, executions, sum(executions.values()), findings)


if __name__ == "__main__":
    sys.exit(main())
