# Begin with `make demo` and `make test`. `make help` lists all targets.
#
# PYTHON=...      the Python that makes .venv (default: the first one >= 3.10 with venv and headers)
# BOOTSTRAP=...   `make demo` uses this broker and starts no mock cluster
# ARGS=...        more arguments for pytest, the demo or the benchmarks
# JOBS=...        the number of test processes that run at once

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
ARGS ?=

# The time limit of one test under a sanitizer, in seconds.
SLOW_TIMEOUT := 300
FUZZ_SECONDS ?= 30
# Tests mostly wait, so several processes run at once. Each has all tests of one lane
# (tests/lanes.py).
JOBS ?= 8
# pytest runs a failed test again, at most twice. If it passes then, the report lists it as flaky
# (tests/reporting.py).
SIDE_BY_SIDE = -n $(JOBS) --no-loadscope-reorder --reruns 2
# The slow tests have SLICES parts that take about the same time. `make test-slow SLICE=3` runs the
# third one. SLICE=commit chooses one by the number of commits.
SLICES := 6
SLICE ?=
SLICE_commit = $(shell expr $$(git rev-list --count HEAD) % $(SLICES) + 1)
# The tests that run under ASan and TSan in addition to the C tests. SANITIZED=all: all tests of the
# extensions without a real broker. SANITIZED=smoke: each kind of client once.
SANITIZED ?= all
SANITIZED_all := $(wildcard tests/native tests/api tests/client tests/aio tests/codecs tests/mock tests/protocol/test_wire*.py)
SANITIZED_smoke := $(wildcard $(addprefix tests/client/test_, \
    producer.py consumer.py groups_consumer.py share_consumer.py transactions.py admin_topics.py codecs.py tls.py poll.py \
    purge.py exit.py shared_client.py consume_arrow.py produce_arrow.py bad_input.py)) \
    $(wildcard tests/native/test_records.py tests/native/test_codecs.py tests/aio/test_aio_producer.py \
    tests/codecs/test_consume_formats.py tests/codecs/test_avro_encoder.py)

# If this is set, each of the hundreds of processes of a test run compiles all its Python modules.
unexport PYTHONDONTWRITEBYTECODE
# ARGS=--record adds a line to a file of this folder. Builds with their own tree use it, too.
KN_RECORDS ?= $(CURDIR)/bench/reliability
export KN_RECORDS

.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-slow check-all test-c test-asan test-tsan test-planted test-broker matrix test-spark-versions test-oom simulate fuzz lint bench bench-micro docs docs-site wheel wheels clean apt-build apt-broker kerberos

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-19s %s\n", $$1, $$2 }' Makefile

# --- the environment ---

apt-build:
	@.ci/debian-packages gcc=gcc g++=g++ pkg-config=pkg-config
	@.ci/debian-packages pc:libdeflate=libdeflate-dev pc:snappy=libsnappy-dev pc:liblz4=liblz4-dev pc:libzstd=libzstd-dev pc:simdjson=libsimdjson-dev

apt-broker:
	@.ci/debian-packages java=default-jre-headless mvn=maven
	@.ci/debian-packages ip=iproute2 nft=nftables # for --network namespaces

# pip compiles the package gssapi with Kerberos' headers. Without the headers its tests are skipped,
# with a reason.
kerberos: $(VENV)/.test-ready
	@.ci/debian-packages krb5kdc=krb5-kdc kadmin.local=krb5-admin-server kinit=krb5-user krb5-config=libkrb5-dev
	@! command -v krb5-config >/dev/null || $(PY) -m pip install -q --disable-pip-version-check 'gssapi>=1.8' || echo 'going on without gssapi' >&2

$(PY):
	python=$$(.ci/find-python) && "$$python" -m venv $(VENV)

# .demo-ready: the packages for the build and the demo. .test-ready: those for tests and linters.
# The extensions are built in place.
$(VENV)/.demo-ready: pyproject.toml | $(PY)
	$(PY) -m pip install -q --disable-pip-version-check 'setuptools>=83.0.0' 'Cython>=3.1' wheel
	KN_SKIP_NATIVE=1 $(PY) -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[cli,plot,codecs]'
	@touch $@

$(VENV)/.test-ready: $(VENV)/.demo-ready
	KN_SKIP_NATIVE=1 $(PY) -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[cli,plot,test]'
	@touch $@

setup: $(VENV)/.test-ready ## create .venv with everything that tests and linters need

build: apt-build $(VENV)/.demo-ready ## compile the extensions in place (KN_DEBUG=1 for a debug build)
	$(PY) setup.py -q build_ext --inplace

# --- the demo ---

demo: build ## produce and consume a million messages with each codec, on the mock cluster (BOOTSTRAP=host:port: on that broker)
	$(BIN)/kafka-native perf --output build/demo $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP)) $(ARGS)

# --- tests ---

test: ready-to-test ## the fast tests: C, Python, the mock cluster, one real Apache Kafka
	$(PY) -m pytest $(SIDE_BY_SIDE) -m 'not slow' $(ARGS)

test-slow: ready-to-test kerberos shared-classes ## the slow tests: clusters, kills, storms, old brokers, Spark, wheels (SLICE=3: a part of them)
	$(PY) -m pytest $(SIDE_BY_SIDE) -m slow $(if $(SLICE),--slice $(or $(SLICE_$(SLICE)),$(SLICE))/$(SLICES)) $(ARGS)

check-all: ## all tests, the linters, all sanitized tests; prints a summary
	@.ci/run all

.PHONY: ready-to-test kafka-jars
ready-to-test: apt-build apt-broker $(VENV)/.demo-ready
	@.ci/debian-packages zsh=zsh fish=fish # for the tests of completion
	@$(MAKE) --no-print-directory -j2 build $(VENV)/.test-ready # compile and download at the same time
	@$(MAKE) --no-print-directory -j2 kafka-jars $(VENV)/.tests-compiled

# Downloads Kafka's jars before several tests wait for them at once. Without Java the tests name the
# missing program.
kafka-jars: $(VENV)/.test-ready
	@$(PY) -c 'from tests.broker import java; java.missing() or java.jars()'

.PHONY: write-hashes
write-hashes: $(VENV)/.test-ready ## write tests/downloads.sha256 again, after the version of a download of the tests has changed
	$(PY) -m tests.all_downloads --write-hashes

.PHONY: shared-classes
shared-classes: $(VENV)/.test-ready
	$(PY) -m tests.class_archives

# Otherwise each test process compiles all tests. An error here is ignored: the test run reports it.
$(VENV)/.tests-compiled: $(VENV)/.test-ready
	-$(PY) -m pytest -q --collect-only >/dev/null
	@touch $@

test-c: build $(VENV)/.test-ready ## only the C tests
	$(PY) -m pytest tests/csrc $(ARGS)

test-broker: build $(VENV)/.test-ready apt-broker ## only the tests on a real Apache Kafka
	$(PY) -m pytest -m broker $(ARGS)

matrix: build $(VENV)/.test-ready apt-broker kerberos ## each feature on a broker of each release of Apache Kafka; writes docs/COMPATIBILITY.md (ARGS='--release 1.1.1' runs a part)
	$(PY) -m tests.broker.matrix $(or $(ARGS),--write)

test-spark-versions: build $(VENV)/.test-ready apt-broker ## the Spark package with other versions of PySpark
	$(PY) -m tests.spark.versions $(ARGS)

chaos: build $(VENV)/.test-ready apt-broker ## a run with faults on real brokers, recorded in bench/reliability (WORKLOAD=acked|bank|chaos|copies|chain|histories|share|spark MINUTES=10 SEED=7)
	$(PY) -m tests.broker.$(or $(WORKLOAD),acked) --seconds $$((60 * $(or $(MINUTES),10))) $(if $(SEED),--seed $(SEED)) --record $(ARGS)

soak: build $(VENV)/.test-ready ## long runs of one process and its clients, recorded in bench/reliability (WORKLOAD=steady|open_close|overload|scale MINUTES=10 for steady)
	$(PY) -m tests.soak.$(or $(WORKLOAD),steady) $(if $(filter steady,$(or $(WORKLOAD),steady)),--seconds $$((60 * $(or $(MINUTES),10))) $(if $(SEED),--seed $(SEED))) --record $(ARGS)

simulate: build $(VENV)/.test-ready ## clients, a mock cluster and faults on one simulated clock, recorded in bench/reliability (SEEDS=10 MINUTES=60 SEED=7)
	$(PY) -m tests.sim --seeds $(or $(SEEDS),10) --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED)) --jobs 2 --record $(ARGS)

test-oom: build $(VENV)/.test-ready ## clients with one failing allocation: each of our allocations fails once
	$(PY) -m tests.oom $(ARGS)

.PHONY: test-syscalls test-bombs test-valgrind
test-syscalls: build $(VENV)/.test-ready ## clients with one failing system call: each of ours fails once, with each of its errors
	$(PY) -m tests.oom --system-calls $(ARGS)

test-bombs: build $(VENV)/.test-ready ## decompression bombs of up to 4 GB: refused, with little memory
	$(PY) -m pytest --record-as bombs -k bomb tests/native/test_codecs.py $(wildcard tests/client/test_bad_input*.py) $(ARGS)

PLANTED := tests/planted tests/broker/test_planted.py tests/broker/test_acked.py tests/broker/test_chaos.py tests/broker/test_bank.py tests/broker/test_copiers.py tests/broker/test_chain.py tests/broker/test_share.py tests/broker/test_histories.py

# A tree of its own, with copies of the tests, as a sanitizer build.
test-planted: apt-build apt-broker $(VENV)/.test-ready ## all planted bugs, of the Python code, the C core and the test programs: each must be caught by its rule
	rm -rf build/planted/kafka_native build/planted/tests
	KN_PLANT=1 $(PY) setup.py -q build --build-base build/planted/tmp --build-lib build/planted
	cp -R tests dev docs csrc setup.py pyproject.toml build/planted/
	cd build/planted && KN_PLANT=1 KN_DOWNLOADS=$(CURDIR)/build PYTHONPATH=. $(CURDIR)/$(PY) -m pytest \
	    --record-as planted -m slow -k planted -p no:cacheprovider $(PLANTED) $(ARGS)

test-asan: sanitized-address ## C tests and client tests under AddressSanitizer and UBSan
test-tsan: sanitized-thread ## C tests and client tests under ThreadSanitizer

test-valgrind: build $(VENV)/.test-ready ## C tests under valgrind: memory that is read before it was written, leaks
	@.ci/debian-packages valgrind=valgrind
	KN_VALGRIND=1 $(PY) -m pytest --record-as sanitizers:valgrind-c --reruns 2 --timeout 2000 tests/csrc/test_csrc.py -k test_c_program $(ARGS)

# A sanitizer build has its own tree under build/, with copies of the tests. So it never replaces
# the normal extensions. Python isn't instrumented: the runtime is preloaded. The C tests and the
# live counters find leaks.
RUNTIME_address := libasan.so
RUNTIME_thread := libtsan.so
# allocator_may_return_null=1: tests ask for impossible sizes and expect MemoryError.
# A fork while another thread allocates leaves the runtime's allocator locked in the child (GCC 12).
# So a test that forks may need one of its reruns.
OPTIONS_address := ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:allocator_may_return_null=1:log_path=report UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:log_path=report
# intercept_tls_get_addr=0: if a thread's TLS block lies 16 bytes after the start of a page, the
# runtime of GCC 12 reads the bytes before it as its header. The size in them is wrong, and the
# process ends with "failed to allocate". glibc allocates these blocks by malloc, which the runtime
# intercepts anyway.
# die_after_fork=0: libraries of the tests start threads in a forked child.
# detect_deadlocks=0: the allocators of pyarrow and polars take all their locks for a fork, and the
# runtime's search for deadlocks allows 63 at once. The C tests have this search.
OPTIONS_thread := ARROW_DEFAULT_MEMORY_POOL=system \
    TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1:detect_deadlocks=0:intercept_tls_get_addr=0:die_after_fork=0:log_path=report:suppressions=$(CURDIR)/tests/tsan.supp
# Older TSan runtimes fail with the address randomization of newer kernels.
WRAP_thread := $(shell command -v setarch >/dev/null && echo "setarch $$(uname -m) -R")

.PHONY: sanitized-address sanitized-thread
sanitized-address sanitized-thread: sanitized-%: build $(VENV)/.test-ready kafka-jars
	KN_SANITIZE=$* $(PY) -m pytest --record-as sanitizers:$*-c --reruns 2 tests/csrc $(ARGS)
	rm -rf build/$*/kafka_native build/$*/tests build/$*/report.*
	KN_SANITIZE=$* $(PY) setup.py -q build --build-base build/$*/tmp --build-lib build/$*
	cp -R tests dev docs csrc setup.py pyproject.toml build/$*/
	cd build/$* && KN_SANITIZE=$* KN_DOWNLOADS=$(CURDIR)/build PYTHONPATH=. PYTHONMALLOC=malloc $(OPTIONS_$*) \
	    LD_PRELOAD="$$(gcc -print-file-name=$(RUNTIME_$*))" $(WRAP_$*) $(CURDIR)/$(PY) -m pytest $(SIDE_BY_SIDE) \
	    --record-as sanitizers:$*-$(SANITIZED) -m 'not broker and not slow' --timeout $(SLOW_TIMEOUT) -p no:cacheprovider $(SANITIZED_$(SANITIZED)) $(ARGS) \
	    || { cat report.* 2>/dev/null; exit 1; }
	@! grep -hv 'WARNING: AddressSanitizer failed to allocate' build/$*/report.* 2>/dev/null # of programs that a test has started

fuzz: build $(VENV)/.test-ready ## each reader for FUZZ_SECONDS under libFuzzer, without clang under tests/fuzz/driver.c (ARGS='--runs 1000000 avro')
	@.ci/debian-packages clang=clang
	$(PY) tests/fuzz/run.py $(if $(findstring --runs,$(ARGS)),,--seconds $(FUZZ_SECONDS)) $(ARGS)

lint: build $(VENV)/.test-ready ## ruff, mypy --strict, stubs against compiled modules, cython-lint, clang-format, compiler warnings
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PY) -m mypy.stubtest kafka_native._native --concise --ignore-disjoint-bases --mypy-config-file pyproject.toml --allowlist tests/tidy/stubtest_allowlist.txt
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint kafka_native/_native
	$(BIN)/clang-format --dry-run -Werror csrc/*/*.[ch] csrc/*/*.cpp tests/csrc/*.[ch] tests/sim/*.c
	$(PY) -m pytest -q tests/csrc/test_csrc.py -k compiles_without_warning

# --- benchmarks, documents, packages ---

bench: build $(VENV)/.test-ready apt-broker ## compare all clients for hours, and write docs/BENCHMARKS.md (QUICK=1: minutes; ARGS='--all --resume --minutes 55': a part)
	$(PY) -m bench $(if $(QUICK),--quick $(ARGS),$(or $(ARGS),--all))

bench-micro: build $(VENV)/.test-ready ## count the instructions of the hot paths; fails if one exceeds its budget by 5 %
	@.ci/debian-packages valgrind=valgrind
	$(PY) -m bench micro $(ARGS)

.PHONY: recovery
recovery: build $(VENV)/.test-ready apt-broker ## the recovery times of three clients in the same outages, recorded in bench/reliability (ARGS='leader --times 1'); on a quiet machine
	$(PY) -m bench recovery --record $(ARGS)

docs: build ## generate docs/CONFIGURATION.md and the option tables of docs/cli from the declarations, build/evidence.md from dev/
	$(PY) -m kafka_native._reference docs/CONFIGURATION.md
	$(PY) -m kafka_native.cli.reference docs/cli
	$(PY) -m dev build/evidence.md

$(VENV)/.docs-ready: $(VENV)/.demo-ready
	KN_SKIP_NATIVE=1 $(PY) -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[cli,docs]'
	@touch $@

docs-site: build $(VENV)/.docs-ready ## build the docs site in build/site; a dead link or a page without a place fails
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build
	@echo 'build/site/index.html is the site; `mkdocs serve` shows it while you write'

wheel: apt-build $(VENV)/.wheel-ready ## sdist and wheel in dist/; the wheel links this machine's codec libraries
	$(PY) -m build --outdir dist .

# Only for building: nothing that tests need.
$(VENV)/.wheel-ready: pyproject.toml | $(PY)
	$(PY) -m pip install -q --disable-pip-version-check 'build>=1.2'
	@touch $@

.PHONY: codec-sources
codec-sources: | $(PY) ## the releases of the codec libraries that wheels contain, in build/codec-sources (ARCHIVES=folder: from archives that are there)
	$(PY) -m dev.codec_sources build/codec-sources $(if $(ARCHIVES),--archives $(ARCHIVES))

wheels: codec-sources $(VENV)/.wheels-ready ## wheels of Linux for each CPython here, checked and tried, in dist/ (docs/RELEASING.md; ARGS='--python 3.13')
	$(PY) -m dev.wheels $(ARGS)

.PHONY: footprint
footprint: | $(PY) ## size, import time and memory of an installed wheel of dist/, beside confluent-kafka's
	$(PY) -m dev.footprint $(ARGS)

$(VENV)/.wheels-ready: pyproject.toml | $(PY)
	$(PY) -m pip install -q --disable-pip-version-check 'ziglang==0.15.2' 'auditwheel>=6.8.2'
	@touch $@

clean: ## remove all built files; .venv stays
	rm -rf build dist *.egg-info
	find kafka_native tests bench -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
	find kafka_native -name '*.so' -delete -o -name '*.dylib' -delete
