"""Build csrc/ as one shared library, libkafka_native_core, for all Cython extensions.

One extension creates an object, and another one may free it. So the live counters and the
thread-local lock ranks of csrc must exist once in a process.

pyproject.toml has the metadata. Environment switches:

    KN_DEBUG=1                   asserts, lock-rank checks, poisoned buffers, -Og
    KN_SANITIZE=address|thread   ASan+UBSan or TSan with the checks of KN_DEBUG; never in place,
                                 see `make test-asan`
    KN_PLANT=1                   with the bugs of csrc/base/planted.h; never in place, see
                                 `make test-planted`
    KN_COVERAGE=1                gcov for C, line tracing for Cython
    KN_OPTIMIZE=-O0              instead of -O3, for a trial build
    KN_CODEC_SOURCES=folder      compile the codec libraries from their sources, which
                                 dev/codec_sources.py unpacks, into the core: for wheels
    KN_WITHOUT=lz4,zstd          treat these codec libraries as missing: use the Python packages of
                                 the extra `codecs`; simdjson: no JSON columns
    KN_ONLY=wire,records         build only these extensions
    KN_SKIP_NATIVE=1             build none: for an editable install beside an in-place build
    KN_KEEP_GOING=1              leave out sources that don't compile, with a warning; bind lazily
    KN_JOBS=2                    the number of compilers that run at once

A file is built again only if one of its sources has changed. The compiler writes the headers of
each object to a .d file. Each set of flags has its own directory.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
LAYERS = ("base", "records", "codecs", "net", "produce", "consume", "engine", "arrow")
NATIVE = "kafka_native/_native"
JOBS = int(os.environ.get("KN_JOBS", "2"))
DARWIN = sys.platform == "darwin"
CORE = "libkafka_native_core" + (".dylib" if DARWIN else ".so")
RPATH_FLAGS = ("-rpath", "--rpath", "-R")

# Flags that the compiler doesn't support on this processor are left out.
HARDENING = [
    ["-fstack-protector-strong"],
    ["-fstack-clash-protection"],
    ["-fcf-protection"],  # x86: IBT and shadow stacks
    ["-mbranch-protection=standard"],  # ARM: BTI and PAC
    ["-Wformat", "-Wformat-security"],
]
LINK_HARDENING = [["-Wl,-z,relro"], ["-Wl,-z,noexecstack"]]
# Level 3 also checks sizes that are known at run time only. The compiler must be able to compute
# them (GCC 12, Clang 9).
FORTIFY = "-D_FORTIFY_SOURCE="
FORTIFY_PROBE = """\
#include <stddef.h>
#include <string.h>
size_t size(void *object) { return __builtin_dynamic_object_size(object, 0); }
"""

# For each codec, libraries in order of preference: pkg-config name, macro for the C code, lowest
# version without known decoder bugs.
CODEC_LIBRARIES = {
    "gzip": [("libdeflate", "KN_HAVE_LIBDEFLATE", "1.10"), ("zlib", "KN_HAVE_ZLIB", "1.2.13")],
    "snappy": [("snappy", "KN_HAVE_SNAPPY", "1.1.9")],
    "lz4": [("liblz4", "KN_HAVE_LZ4", "1.9.4")],
    "zstd": [("libzstd", "KN_HAVE_ZSTD", "1.5.0")],
}
# JSON columns need simdjson and a C++ compiler.
JSON_LIBRARY = ("simdjson", "KN_HAVE_SIMDJSON", "3.0.1")
# In place of -std=gnu11 for C++ sources. The compiler's C driver also compiles C++.
CXX_FLAGS = ["-std=c++17", "-fno-exceptions"]
CXX_LIBRARY = "-lc++" if DARWIN else "-lstdc++"
CXX_SUFFIXES = (".cpp", ".cc")


class SourceLibrary(NamedTuple):
    """How to compile a codec library's released sources with this build's compiler.

    ``folder`` is a pattern for the unpacked release, ``sources`` are patterns inside of it.
    """

    folder: str
    sources: tuple[str, ...]
    includes: tuple[str, ...]
    defines: tuple[str, ...] = ()


# The keys are the pkg-config names above.
SOURCE_LIBRARIES = {
    "libdeflate": SourceLibrary(
        "libdeflate-*", ("lib/*.c", "lib/x86/*.c", "lib/arm/*.c"), (".", "lib")
    ),
    "snappy": SourceLibrary(
        "snappy-*",
        ("snappy.cc", "snappy-c.cc", "snappy-sinksource.cc", "snappy-stubs-internal.cc"),
        (".",),
        ("-DHAVE_CONFIG_H=1",),
    ),
    "liblz4": SourceLibrary(
        "lz4-*",
        ("lib/lz4.c", "lib/lz4hc.c", "lib/lz4frame.c", "lib/xxhash.c"),
        ("lib",),
        ("-DXXH_NAMESPACE=LZ4_",),
    ),
    "libzstd": SourceLibrary(
        "zstd-*",
        ("lib/common/*.c", "lib/compress/*.c", "lib/decompress/*.c", "lib/decompress/*.S"),
        ("lib",),
        ("-DZSTD_LEGACY_SUPPORT=0",),
    ),
    "simdjson": SourceLibrary("simdjson-*", ("singleheader/simdjson.cpp",), ("singleheader",)),
}
# The headers that snappy's own build generates.
SNAPPY_CONFIG = """\
#define HAVE_ATTRIBUTE_ALWAYS_INLINE 1
#define HAVE_BUILTIN_CTZ 1
#define HAVE_BUILTIN_EXPECT 1
#define HAVE_BUILTIN_PREFETCH 1
#define HAVE_SYS_UIO_H 1
#define HAVE_UNISTD_H 1
#ifdef __aarch64__
#define SNAPPY_HAVE_NEON 1
#endif
"""
SNAPPY_STUBS, SNAPPY_VERSION = "snappy-stubs-public.h", re.compile(r"-(\d+)\.(\d+)\.(\d+)$")


def switch(name: str) -> bool:
    """Whether an environment switch is on."""
    return os.environ.get(name, "") not in ("", "0")


def names(variable: str) -> set[str]:
    """The comma-separated words of an environment variable."""
    return {word.strip() for word in os.environ.get(variable, "").split(",") if word.strip()}


def say(text: str) -> None:
    """Print a line about the build on stderr. pip shows it with -v."""
    print(f"kafka_native: {text}", file=sys.stderr, flush=True)


def require_tools(compiler: list[str], include_dirs: list[str]) -> None:
    """End with an instruction if there is no C compiler, or if Python's headers are missing.

    The instruction is the last line of setup.py's output, which pip shows.
    """
    line = "on Debian or Ubuntu: apt-get install"
    for word in program(compiler):
        if shutil.which(word) is None:
            raise SystemExit(
                f"kafka-native needs a C compiler, and there is no {word!r}. Install one ({line} "
                "gcc; on Fedora: dnf install gcc; on Alpine: apk add gcc musl-dev; on macOS: "
                "xcode-select --install), or set CC"
            )
    if not any(Path(folder, "Python.h").exists() for folder in include_dirs):
        raise SystemExit(
            f"kafka-native needs the headers of Python, and there is no Python.h. Install them "
            f"({line} python3-dev; on Fedora: dnf install python3-devel)"
        )


def pkg_config(*args: str) -> str | None:
    """The output of pkg-config; None if pkg-config or the library is missing."""
    command = [*shlex.split(os.environ.get("PKG_CONFIG", "pkg-config")), *args]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


class Codecs:
    """Compiler and linker flags for the codec libraries.

    They are this machine's libraries, or with KN_CODEC_SOURCES those that are compiled into the
    core. ``unpacked`` has the folders of the latter.
    """

    def __init__(self, *, has_cxx: bool = True) -> None:
        self.cflags: list[str] = []
        self.ldflags: list[str] = []
        self.unpacked: dict[str, Path] = {}
        folder = os.environ.get("KN_CODEC_SOURCES")
        self._releases = Path(ROOT, folder) if folder else None
        if self._releases and not has_cxx:
            raise SystemExit("KN_CODEC_SOURCES: snappy and simdjson need a C++ compiler")
        without = names("KN_WITHOUT")
        missing = []
        for codec, choices in CODEC_LIBRARIES.items():
            allowed = [choice for choice in choices if not {codec, choice[0]} & without]
            library = next(filter(None, map(self._use, allowed)), None)
            say(f"{codec}: {library or 'no library'}")
            missing += [] if library else [codec]
        if missing:
            say(
                f"warning: no C library for {', '.join(missing)}. gzip uses Python's zlib, the "
                "other codecs need the Python packages of kafka-native[codecs]; these are slower "
                "and hold the interpreter lock. For the libraries, install their development "
                "packages and pkg-config: on Debian libdeflate-dev libsnappy-dev liblz4-dev "
                "libzstd-dev pkg-config"
            )
        wants_json = not {"json", "simdjson"} & without
        library = self._use(JSON_LIBRARY) if has_cxx and wants_json else None
        self.sources = (".c", *CXX_SUFFIXES) if library else (".c",)
        if library and not self.unpacked:
            self.ldflags.append(CXX_LIBRARY)
        no_json = "simdjson isn't installed" if has_cxx else "there is no C++ compiler"
        say(f"json: {library or f'{no_json}: no JSON columns'}")

    def _use(self, choice: tuple[str, str, str]) -> str | None:
        if self._releases is not None:
            return self._use_sources(self._releases, choice)
        package, macro, lowest = choice
        version = pkg_config("--modversion", package)
        if version is None:
            return None
        if pkg_config(f"--atleast-version={lowest}", package) is None:
            say(f"warning: {package} {version} is older than {lowest} and is not used")
            return None
        self.cflags += [f"-D{macro}=1", *shlex.split(pkg_config("--cflags", package) or "")]
        self.ldflags += shlex.split(pkg_config("--libs", package) or "")
        return f"{package} {version}"

    def _use_sources(self, releases: Path, choice: tuple[str, str, str]) -> str:
        package, macro, _ = choice
        library = SOURCE_LIBRARIES[package]
        found = sorted(releases.glob(library.folder))
        if len(found) != 1:
            raise SystemExit(
                f"KN_CODEC_SOURCES={releases}: one folder {library.folder} is needed, found "
                f"{len(found)}. `python -m dev.codec_sources {releases}` fills the folder."
            )
        self.unpacked[package] = found[0]
        self.cflags += [f"-D{macro}=1", *(f"-I{found[0] / name}" for name in library.includes)]
        if package == "snappy":  # its headers don't say their version
            version = found[0].name.partition("-")[2]
            self.cflags.append(f'-DKN_SNAPPY_VERSION="{version}"')
        return f"{found[0].name}, from its sources"


def write_snappy_headers(unpacked: Path, out: Path) -> None:
    """Write the two headers that snappy's own build generates."""
    out.mkdir(parents=True, exist_ok=True)
    version = SNAPPY_VERSION.search(unpacked.name)
    if version is None:
        raise SystemExit(f"{unpacked}: the folder's name has no version")
    stubs = Path(unpacked, f"{SNAPPY_STUBS}.in").read_text(encoding="utf-8")
    stubs = stubs.replace("${HAVE_SYS_UIO_H_01}", "1")
    for name, number in zip(("MAJOR", "MINOR", "PATCH"), version.groups(), strict=True):
        stubs = stubs.replace(f"${{PROJECT_VERSION_{name}}}", number)
    for name, text in ((SNAPPY_STUBS, stubs), ("config.h", SNAPPY_CONFIG)):
        target = out / name
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def program(command: list[str]) -> list[str]:
    """Return the compiler of a command line, as in "ccache gcc", without its flags."""
    return list(itertools.takewhile(lambda word: not word.startswith("-"), command))


def without_rpath(linker: list[str]) -> list[str]:
    """A linker's command line without search folders for the dynamic linker.

    Python's own build adds its folders to the command line. A wheel would search these folders on
    machines where another user may have created them.
    """
    kept: list[str] = []
    value_follows = False
    for word in shlex.split(shlex.join(linker).replace("-Xlinker ", "-Wl,")):
        first, *values = word.split(",") if word.startswith("-Wl,") else ["", word]
        wanted: list[str] = []
        for value in values:
            if value_follows:
                value_follows = False
            elif value in RPATH_FLAGS:
                value_follows = True
            elif not value.startswith((*(f"{flag}=" for flag in RPATH_FLAGS), "-R/", "-R$")):
                wanted.append(value)
        if wanted:
            kept.append(",".join([first, *wanted]) if first else word)
    return kept


class Flags:
    """Compiler and linker flags of this build, with the hardening flags that the compiler knows."""

    def __init__(self, compiler_so: list[str], in_place: bool) -> None:
        self._compiler_so = compiler_so
        self.cc = program(compiler_so)
        self.cxx = shlex.split(os.environ.get("CXX", "")) or self.cc
        self.sanitize = os.environ.get("KN_SANITIZE", "")
        self.codecs = Codecs(has_cxx=self._has_cxx())
        mode = self._mode()
        checked = "-DKN_DEBUG=1" in mode
        shipped = not in_place and not checked  # for a wheel
        common = ["-fPIC", "-pthread", "-g0" if shipped else "-g", *mode, "-fno-strict-aliasing"]
        common += ["-DKN_PLANT=1"] if switch("KN_PLANT") else []
        common += self._supported(HARDENING, link=False)
        # _FORTIFY_SOURCE needs optimization. Sanitizers check more.
        if not checked and "-O0" not in mode:
            common += self._fortify()
        self.plain = common  # for the sources of others
        strict = ["-Wall", "-Wextra", *(["-Werror"] if switch("KN_WERROR") else [])]
        inlining = self._supported([["-fno-semantic-interposition"]], link=False)
        self.c = ["-std=gnu11", *common, *inlining, *self.codecs.cflags, *strict]
        # Cython clears a Message from its freelist. For this size gcc's generic tuning uses
        # `rep stos`. Its start takes longer than all of these stores: it was half of the cost of
        # a new Message.
        stores = "-mmemset-strategy=unrolled_loop:512:noalign,libcall:-1:noalign"
        self.cython = [
            *common,
            *self._supported([[stores]], link=False),
            "-fvisibility=hidden",
            "-Wno-unused-function",
        ]
        self.link = [*self._mode_link(), "-pthread"]
        # Lazy binding allows missing functions. So finished extensions can be imported and tested
        # while csrc is incomplete.
        bound = [] if switch("KN_KEEP_GOING") else [["-Wl,-z,now"]]
        self.link += self._supported([*LINK_HARDENING, *bound, ["-Wl,--as-needed"]], link=True)
        # The core library calls its own functions directly, not through a table that other
        # libraries can override.
        # Not in the digest: objects don't depend on it.
        self.strip = ["-s"] if shipped and not DARWIN else []
        self.core_link = self._supported([["-Wl,-Bsymbolic-functions"]], link=True)
        if self.codecs.unpacked:
            self.core_link += [*self._hide_libraries(), *self._cxx_library()]

    def _mode(self) -> list[str]:
        checks = ["-UNDEBUG", "-DKN_DEBUG=1"]
        if self.sanitize == "address":
            checks += ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
            return ["-O1", *checks, "-fno-omit-frame-pointer"]
        if self.sanitize == "thread":
            return ["-O1", *checks, "-fno-omit-frame-pointer", "-fsanitize=thread"]
        if self.sanitize:
            raise SystemExit(f"KN_SANITIZE={self.sanitize}: write address or thread")
        if switch("KN_COVERAGE"):
            return ["-O0", *checks, "--coverage", "-DCYTHON_TRACE_NOGIL=1"]
        return ["-Og", *checks] if switch("KN_DEBUG") else [os.environ.get("KN_OPTIMIZE", "-O3")]

    def _mode_link(self) -> list[str]:
        if switch("KN_COVERAGE"):
            return ["--coverage"]
        return {"address": ["-fsanitize=address,undefined"], "thread": ["-fsanitize=thread"]}.get(
            self.sanitize, []
        )

    def _hide_libraries(self) -> list[str]:
        """The flags with which the core exports only its own functions.

        Another extension of the process may have another version of a codec library.
        """
        if DARWIN:
            return ["-Wl,-exported_symbol,_kn_*"]
        return [f"-Wl,--version-script={ROOT / 'csrc' / 'core.map'}"]

    def _cxx_library(self) -> list[str]:
        """The flags for the library of C++. The core contains it, except on macOS."""
        if self.cxx != self.cc:  # that driver knows its library
            linked: list[str] = []
            static = [["-static-libstdc++"], ["-static-libgcc"]]
        else:
            linked = [CXX_LIBRARY]
            static = [["-static-libgcc", "-Wl,-Bstatic", CXX_LIBRARY, "-Wl,-Bdynamic"]]
        return linked if DARWIN else self._supported(static, link=True) or linked

    def _fortify(self) -> list[str]:
        """The flags for the highest supported level of checked string functions."""
        for level in (3, 2):
            flags = ["-U_FORTIFY_SOURCE", f"{FORTIFY}{level}"]
            if self._supported(
                [flags], link=False, text=FORTIFY_PROBE if level == 3 else "#include <string.h>\n"
            ):
                return flags
        return []

    def _supported(
        self, groups: list[list[str]], *, link: bool, text: str = "int main(void) { return 0; }\n"
    ) -> list[str]:
        """The groups of flags that the compiler accepts. It compiles a small file with each."""
        supported: list[str] = []
        with tempfile.TemporaryDirectory() as directory:
            source = Path(directory, "try.c")
            source.write_text(text)
            end = [str(source), "-o", str(Path(directory, "try"))] + ([] if link else ["-c"])
            for flags in groups:
                command = [*self.cc, "-Werror", "-O1", *flags, *end]
                if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                    supported += flags
        return supported

    def _has_cxx(self) -> bool:
        """Whether the compiler compiles C++."""
        with tempfile.TemporaryDirectory() as directory:
            source = Path(directory, "try.cpp")
            source.write_text("#include <memory>\n")
            command = [*self.cxx, *CXX_FLAGS, "-c", str(source), "-o", f"{source}.o"]
            return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def digest(self) -> str:
        """The name of the directory for everything built with these flags."""
        text = repr(
            (
                self.c,
                self.cython,
                self.link,
                self.core_link,
                self.codecs.ldflags,
                self._compiler_so,
                self.cxx,
            )
        )
        return hashlib.sha256(text.encode()).hexdigest()[:10]


def is_stale(target: Path, sources: list[Path]) -> bool:
    """Whether a target is missing, or older than a source or a header that its .d file names."""
    if not target.exists():
        return True
    made = target.stat().st_mtime
    wanted = list(sources)
    listing = target.with_suffix(".d")
    if target.suffix == ".o":
        if not listing.exists():
            return True
        words = listing.read_text().replace("\\\n", " ").partition(":")[2].split()
        wanted += [Path(word) for word in words]
    return any(not path.exists() or path.stat().st_mtime > made for path in wanted)


def cxx_command(command: list[str], cc: list[str], cxx: list[str]) -> list[str]:
    """The command for a C++ source, made from the one for C."""
    words = cxx + command[len(cc) :] if command[: len(cc)] == cc else command
    return [word for word in words if not word.startswith("-std=")] + CXX_FLAGS


def compile_objects(
    command: list[str],
    sources: list[Path],
    out: Path,
    *,
    cxx: list[str] | None = None,
    base: Path | None = None,
    force: bool = False,
) -> dict[Path, Path | None]:
    """Compile stale sources, KN_JOBS at a time. `cxx` is the command for C++, if it has its own.

    Returns the object of each source, or None for a source that didn't compile. Objects lie below
    `out` as sources lie below `base`.
    """
    cxx_words = cxx or cxx_command(command, [], [])

    def one(source: Path) -> Path | None:
        target = out / source.relative_to(base or source.anchor).with_suffix(".o")
        if not force and not is_stale(target, [source]):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        started = time.time()
        chosen = cxx_words if source.suffix in CXX_SUFFIXES else command
        line = [*chosen, "-Icsrc", "-MMD", "-c", str(source), "-o", str(target)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.stderr:
            print(done.stderr, file=sys.stderr, end="", flush=True)
        if done.returncode != 0:
            target.unlink(missing_ok=True)
            return None
        # So a header that changes during the compilation is newer than the object.
        os.utime(target, (started, started))
        return target

    with ThreadPoolExecutor(JOBS) as pool:
        return dict(zip(sources, pool.map(one, sources), strict=True))


def csrc_sources(suffixes: tuple[str, ...] = (".c",)) -> list[Path]:
    """Every source of the core with one of these suffixes, relative to the root."""
    return sorted(
        path.relative_to(ROOT)
        for layer in LAYERS
        for suffix in suffixes
        for path in ROOT.glob(f"csrc/{layer}/*{suffix}")
    )


class BuildNative(build_ext):
    """A build_ext that compiles csrc first, and each object at most once."""

    def build_extensions(self) -> None:
        """Build the core, then each extension."""
        os.chdir(ROOT)
        require_tools(self.compiler.compiler_so, self.compiler.include_dirs)
        self.flags = Flags(self.compiler.compiler_so, self._in_place)
        for name in ("KN_SANITIZE", "KN_PLANT"):
            if switch(name) and self._in_place:
                raise SystemExit(
                    f"{name} builds don't go in place: give --build-lib a directory, as make "
                    "test-asan does"
                )
        self.work = Path(self.build_temp) / f"kn-{self.flags.digest()}"
        self.failures: list[str] = []
        self.core = self._build_csrc()
        only = names("KN_ONLY")
        wanted = [one for one in self.extensions if not only or one.name.rpartition(".")[2] in only]
        with ThreadPoolExecutor(JOBS) as pool:  # Cython runs in this thread, compilers in the pool
            for extension in wanted:
                try:
                    source = self._cythonize(extension)
                except Exception as error:  # the other extensions are still built
                    self._note(extension.name, error)
                else:
                    pool.submit(self._compile_extension, extension, source)
        if self.failures:
            text = "; ".join(self.failures)
            if not switch("KN_KEEP_GOING"):
                raise SystemExit(f"kafka_native: did not build: {text}")
            say(f"warning: left out: {text}")

    def run(self) -> None:
        """Remember whether the build goes in place.

        setuptools hides that from build_extensions().
        """
        self._in_place = bool(self.inplace)
        super().run()

    def copy_extensions_to_source(self) -> None:
        """Copy the built extensions, without those that KN_ONLY or KN_KEEP_GOING left out."""
        every = self.extensions
        self.extensions = [
            one for one in every if Path(self.build_lib, self.get_ext_filename(one.name)).exists()
        ]
        super().copy_extensions_to_source()
        self.extensions = every
        if getattr(self, "core", None) is not None:
            target = Path(NATIVE, CORE)
            if is_stale(target, [self.core]):
                target.unlink(missing_ok=True)
                shutil.copy2(self.core, target)

    def get_outputs(self) -> list[str]:
        """The files of an installation: the extensions and the core."""
        core = [str(Path(self.build_lib, NATIVE, CORE))] if csrc_sources() else []
        return [*super().get_outputs(), *core]

    def _compile_extension(self, ext: Extension, source: Path) -> None:
        try:
            objects = self._compile(
                [source], self.flags.cython, self.work / sys.implementation.cache_tag, python=True
            )
            target = Path(self.get_ext_fullpath(ext.name))
            if self.force or is_stale(target, objects):
                flags = [*self.flags.link]
                if self.core:
                    here = "@loader_path" if DARWIN else "$ORIGIN"
                    flags += [str(self.core), f"-Wl,-rpath,{here}"]
                self._link(without_rpath(self.compiler.linker_so), objects, flags, target)
        except Exception as error:  # reported with the others at the end
            self._note(ext.name, error)

    def _cythonize(self, ext: Extension) -> Path:
        from Cython import __version__ as cython_version
        from Cython.Build import cythonize

        # binding=False: the interpreter calls plain method descriptors directly. This saves a
        # quarter of the time of consuming.
        directives = {
            "language_level": 3,
            "linetrace": switch("KN_COVERAGE"),
            "embedsignature": True,
            "embedsignature.format": "clinic",
            "binding": False,
            # T.__new__(T) makes an object without its constructor. Access to its missing parts
            # must raise an exception, not crash.
            "nonecheck": True,
            "auto_pickle": False,
        }
        # With other directives, Cython translates all sources again.
        kind = hashlib.sha256(repr(directives).encode()).hexdigest()[:8]
        made = cythonize(
            [Extension(ext.name, list(ext.sources))],
            include_path=["."],
            build_dir=str(Path(self.build_temp) / f"cython-{cython_version}-{kind}"),
            compiler_directives=directives,
            force=bool(self.force),
            quiet=True,
        )
        return Path(made[0].sources[0])

    def _build_csrc(self) -> Path | None:
        sources = csrc_sources(self.flags.codecs.sources)
        if not sources:
            return None
        objects = self._compile(sources, self.flags.c, self.work, python=False)
        for package, unpacked in self.flags.codecs.unpacked.items():
            objects += self._compile_library(SOURCE_LIBRARIES[package], unpacked)
        core = Path(self.build_lib, NATIVE, CORE)
        # The objects of the last link. Without it, a removed source wouldn't cause a new link.
        listing = self.work / "core.txt"
        members = "\n".join(map(str, objects))
        if is_stale(core, objects) or not listing.exists() or listing.read_text() != members:
            name = f"-Wl,-install_name,@rpath/{CORE}" if DARWIN else f"-Wl,-soname,{CORE}"
            kind = "-dynamiclib" if DARWIN else "-shared"
            flags = [
                kind,
                name,
                *self.flags.link,
                *self.flags.codecs.ldflags,
                *self.flags.core_link,
            ]
            linker = self.flags.cxx if self.flags.codecs.unpacked else self.flags.cc
            self._link(linker, objects, flags, core)
            listing.write_text(members)
        return core

    def _compile_library(self, library: SourceLibrary, unpacked: Path) -> list[Path]:
        """Compile a codec library's sources and return their objects."""
        out = self.work / "codecs" / unpacked.name
        includes = [f"-I{unpacked / name}" for name in library.includes]
        if library is SOURCE_LIBRARIES["snappy"]:
            write_snappy_headers(unpacked, out / "include")
            includes.append(f"-I{out / 'include'}")
        sources = [path for pattern in library.sources for path in sorted(unpacked.glob(pattern))]
        flags = ["-std=gnu11", *self.flags.plain, "-fvisibility=hidden", *library.defines]
        return self._compile(sources, flags + includes, out, python=False, base=unpacked)

    def _link(self, linker: list[str], objects: list[Path], flags: list[str], target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # a process may have the old one mapped
        self.spawn([*linker, *map(str, objects), *flags, *self.flags.strip, "-o", str(target)])

    def _compile(
        self,
        sources: list[Path],
        flags: list[str],
        out: Path,
        *,
        python: bool,
        base: Path | None = None,
    ) -> list[Path]:
        """Compile sources and return their objects. Failed sources of csrc are noted."""
        compiler = self.compiler.compiler_so if python else self.flags.cc
        includes = self.compiler.include_dirs if python else []
        command = [*compiler, *(f"-I{path}" for path in includes), *flags]
        cxx = cxx_command(command, self.flags.cc, self.flags.cxx)
        made = compile_objects(command, sources, out, cxx=cxx, base=base, force=self.force)
        missing = [str(source) for source, target in made.items() if target is None]
        if missing and python:
            raise RuntimeError(f"{', '.join(missing)} did not compile")
        self.failures += missing
        return [target for target in made.values() if target is not None]

    def _note(self, name: str, error: Exception) -> None:
        say(f"{name}: {type(error).__name__}: {error}")
        self.failures.append(name)


def extensions() -> list[Extension]:
    """One extension for each .pyx file."""
    if switch("KN_SKIP_NATIVE"):
        return []
    sources = sorted(Path(ROOT, NATIVE).glob("*.pyx"))
    return [
        Extension(f"{NATIVE}/{path.stem}".replace("/", "."), [f"{NATIVE}/{path.name}"])
        for path in sources
    ]


if __name__ == "__main__":  # the C tests import this file for its flags
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildNative})
