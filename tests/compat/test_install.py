"""`kafka_native.compat`: confluent_kafka programs run unchanged, each in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_native.compat import SCHEMA_REGISTRY_VARIABLE, install
from kafka_native.compat.__main__ import main
from kafka_native.mock import MockCluster
from tests.waiting import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]


def python(*arguments: str, code: str = "", cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run Python with the arguments, or with the code as its program."""
    command = [sys.executable, *arguments, *(["-c", code] if code else [])]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=PROGRAM_S, check=False
    )


def output_of(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as running:
        running.create_topic("there-and-back", 2)
        yield running


PROGRAM = '''
"""A program that uses confluent_kafka only."""
import sys
import helper
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.cimpl import Message
from confluent_kafka.error import ProduceError
from confluent_kafka.serialization import StringSerializer

servers, count = sys.argv[1], int(sys.argv[2])
reports = []
producer = Producer({"bootstrap.servers": servers})
for number in range(count):
    report = lambda *args: reports.append(args)
    producer.produce("there-and-back", f"value {number}", f"key {number}", on_delivery=report)
    producer.poll(0)
assert producer.flush(60) == 0
assert all(error is None and isinstance(message, Message) for error, message in reports) and len(reports) == count

consumer = Consumer(
    {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest", "enable.partition.eof": True}
)
consumer.subscribe(["there-and-back"])
seen, ends = set(), 0
while len(seen) < count:
    message = consumer.poll(60)
    assert message is not None
    if message.error():
        assert message.error().code() == KafkaError._PARTITION_EOF
        continue
    seen.add(message.value())
consumer.commit(asynchronous=False)
consumer.close()
try:
    consumer.poll(0)
except RuntimeError as error:
    print(error)
print(len(seen), "messages with", Producer.__module__, "argv", sys.argv[2:], __name__, helper.WHO)
'''


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "helper.py").write_text("WHO = 'a neighbour'\n", encoding="utf-8")
    return path


def test_a_program_of_confluent_kafka_runs_unchanged(cluster: MockCluster, program: Path) -> None:
    done = python(
        "-m", "kafka_native.compat", str(program), cluster.bootstrap_servers, "100", "--flag"
    )
    line = "100 messages with confluent_kafka.cimpl argv ['100', '--flag'] __main__ a neighbour"
    assert output_of(done) == f"Consumer closed\n{line}"


def test_same_program_runs_with_confluent_kafka_itself(cluster: MockCluster, program: Path) -> None:
    done = python(str(program), cluster.bootstrap_servers, "10")
    assert output_of(done).splitlines()[-1].endswith("argv ['10'] __main__ a neighbour")
    assert "kafka_native" not in done.stdout


def test_a_module_is_run_as_by_pythons_option_m(tmp_path: Path) -> None:
    package = tmp_path / "runme"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    imports = "import sys\nfrom confluent_kafka import Producer\nfrom . import other\n"
    code = f"{imports}print(__name__, sys.argv, Producer.__module__)\n"
    (package / "__main__.py").write_text(code, encoding="utf-8")
    (package / "other.py").write_text("", encoding="utf-8")
    runner = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from kafka_native.compat.__main__ "
        "import main; "
        "sys.exit(main(['-m', 'runme', 'x', '-y']))"
    )
    output = output_of(python(code=runner, cwd=tmp_path))
    assert output == f"__main__ {[str(package / '__main__.py'), 'x', '-y']} confluent_kafka.cimpl"


def test_exit_status_of_the_program_is_passed_on(tmp_path: Path) -> None:
    program = tmp_path / "ends.py"
    program.write_text("import sys\nsys.exit(7)\n", encoding="utf-8")
    assert python("-m", "kafka_native.compat", str(program)).returncode == 7
    program.write_text("1 / 0\n", encoding="utf-8")
    failed = python("-m", "kafka_native.compat", str(program))
    assert failed.returncode == 1
    assert "ZeroDivisionError" in failed.stderr


def test_wrong_command_prints_the_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["-m"], ["-x", "y"]):
        assert main(arguments) == 2
        assert "usage: " in capsys.readouterr().err
    assert main([str(tmp_path / "none.py")]) == 2
    assert "can't open file" in capsys.readouterr().err
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: ")


def test_every_module_is_there_under_its_name() -> None:
    code = """
import kafka_native, kafka_native.compat
kafka_native.compat.install()
kafka_native.compat.install()
import confluent_kafka, confluent_kafka.cimpl, confluent_kafka.error, confluent_kafka.serialization
import confluent_kafka._model
from confluent_kafka.serializing_producer import SerializingProducer
from confluent_kafka.deserializing_consumer import DeserializingConsumer
assert confluent_kafka.Producer is confluent_kafka.cimpl.Producer
assert issubclass(confluent_kafka.Producer, kafka_native.Producer)
assert confluent_kafka.SerializingProducer is SerializingProducer
assert issubclass(SerializingProducer, kafka_native.SerializingProducer)
assert issubclass(SerializingProducer, confluent_kafka.Producer)
assert issubclass(confluent_kafka.Message, kafka_native.Message)
assert confluent_kafka.Message is confluent_kafka.cimpl.Message
assert confluent_kafka.DeserializingConsumer is DeserializingConsumer
from confluent_kafka.aio import AIOConsumer
from confluent_kafka import aio
assert AIOConsumer is aio.AIOConsumer and issubclass(AIOConsumer, kafka_native.aio.AIOConsumer)
assert issubclass(aio.AIOProducer, kafka_native.aio.AIOProducer)
assert confluent_kafka.error.ProduceError is kafka_native.error.ProduceError
assert confluent_kafka.__name__ == "confluent_kafka" == confluent_kafka.__spec__.name
assert confluent_kafka.version() == confluent_kafka.__version__ == kafka_native.compat.API_VERSION
assert confluent_kafka.libversion() == ("2.16.0", 0x021000FF)
assert kafka_native.version() == kafka_native.__version__
everything = {}
exec("from confluent_kafka import *", everything)
assert everything["Consumer"] is confluent_kafka.Consumer and everything["SerializingProducer"] is SerializingProducer
try:
    confluent_kafka.no_such_name
except AttributeError as error:
    print(error)
"""
    assert (
        output_of(python(code=code)) == "module 'confluent_kafka' has no attribute 'no_such_name'"
    )


def test_modules_of_confluent_kafka_are_attributes_without_import() -> None:
    code = """
import kafka_native.compat
kafka_native.compat.install()
import confluent_kafka
print(confluent_kafka.error.ConsumeError.__name__, confluent_kafka.cimpl.KafkaError.__name__,
      confluent_kafka.serialization.StringSerializer.__name__)
"""
    assert output_of(python(code=code)) == "ConsumeError KafkaError StringSerializer"


def test_pure_python_parts_come_from_the_installed_package() -> None:
    code = """
import sys
import kafka_native.compat
kafka_native.compat.install()
import confluent_kafka, confluent_kafka._oauthbearer
import confluent_kafka.kafkatest, confluent_kafka.schema_registry
from confluent_kafka import avro
assert issubclass(avro.AvroProducer, confluent_kafka.Producer)
print([name for name, module in sys.modules.items() if str(getattr(module, "__file__", "")).endswith(".so")
       and "confluent_kafka" in name])
"""
    assert output_of(python(code=code)) == "[]"


def test_a_part_that_is_not_installed_says_what_to_install(tmp_path: Path) -> None:
    code = """
import importlib.metadata, sys
import kafka_native.compat
sys.path[:] = [each for each in sys.path if "site-packages" not in each]
kafka_native.compat.install()
import confluent_kafka
print(importlib.metadata.version("confluent-kafka") == confluent_kafka.version())
for name in ("kafkatest", "avro"):
    try:
        __import__(f"confluent_kafka.{name}")
    except ModuleNotFoundError as error:
        print(error.name, "pip install" in str(error))
try:
    import confluent_kafka.no_such_part
except ModuleNotFoundError as error:
    print(error)
"""
    assert output_of(python(code=code)).splitlines() == [
        "True",
        "confluent_kafka.kafkatest True",
        "confluent_kafka.avro True",
        "No module named 'confluent_kafka.no_such_part'",
    ]


def test_the_schema_registry_needs_no_installed_package() -> None:
    code = """
import sys
import kafka_native.compat
sys.path[:] = [each for each in sys.path if "site-packages" not in each]
kafka_native.compat.install()
from confluent_kafka.schema_registry.schema_registry_client import SchemaRegistryClient
from confluent_kafka.schema_registry import SchemaRegistryClient as Same, error, serde
import confluent_kafka.schema_registry, kafka_native.schema_registry as own
import kafka_native.schema_registry.serde
from confluent_kafka.serialization import SerializationError
assert SchemaRegistryClient is Same is own.SchemaRegistryClient
assert confluent_kafka.schema_registry is own and own.__name__ == "kafka_native.schema_registry"
assert own.__spec__.name == own.__name__
assert serde is kafka_native.schema_registry.serde
try:
    serde.SchemaId("AVRO").id_to_bytes()
except SerializationError as caught:
    print(caught)
try:
    import confluent_kafka.schema_registry.no_such_part
except ModuleNotFoundError as caught:
    print(caught)
"""
    assert output_of(python(code=code)).splitlines() == [
        "the schema has no id",
        "No module named 'confluent_kafka.schema_registry.no_such_part'",
    ]


def test_avro_without_the_installed_package(tmp_path: Path) -> None:
    """Every other installed package is there, and confluent_kafka isn't."""
    pytest.importorskip("fastavro")
    pytest.importorskip("httpx2")
    (packages,) = {Path(each) for each in sys.path if each.endswith("site-packages")}
    for each in packages.iterdir():
        if not each.name.startswith(("confluent_kafka", "__pycache__")):
            (tmp_path / each.name).symlink_to(each)
    code = f"""
import sys
import kafka_native.compat
sys.path[:] = [each for each in sys.path if "site-packages" not in each] + [{str(tmp_path)!r}]
kafka_native.compat.install()
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.serde import RuleExecutor
from confluent_kafka.serialization import MessageField, SerializationContext
import kafka_native.schema_registry.avro
from kafka_native.mock import MockSchemaRegistry
assert AvroSerializer is kafka_native.schema_registry.avro.AvroSerializer
with MockSchemaRegistry() as mock, SchemaRegistryClient({{"url": mock.url}}) as registry:
    context = SerializationContext("t", MessageField.VALUE)
    schema = '{{"type": "record", "name": "A", "fields": [{{"name": "n", "type": "int"}}]}}'
    data = AvroSerializer(registry, schema)({{"n": 3}}, context)
    print(AvroDeserializer(registry)(data, context), registry.get_subjects())
"""
    assert output_of(python(code=code)) == "{'n': 3} ['t-value']"


def test_an_installed_schema_registry_is_used() -> None:
    code = """
import kafka_native.compat
kafka_native.compat.install()
import confluent_kafka.schema_registry.serde
print("site-packages" in confluent_kafka.schema_registry.serde.__file__)
"""
    assert output_of(python(code=code)) == "True"


OWN_REGISTRY = """
from confluent_kafka.schema_registry.avro import AvroSerializer
import confluent_kafka.schema_registry as found, kafka_native.schema_registry as own
import kafka_native.schema_registry.avro
assert found is own
assert AvroSerializer is kafka_native.schema_registry.avro.AvroSerializer
"""


def test_our_schema_registry_can_be_chosen() -> None:
    """With the installed package: by an argument, and by the environment in other processes."""
    pytest.importorskip("fastavro")
    pytest.importorskip("httpx2")
    code = f"""
import subprocess, sys
import kafka_native.compat
kafka_native.compat.install(schema_registry="kafka_native")
{OWN_REGISTRY}
import confluent_kafka.avro
print("site-packages" in confluent_kafka.avro.__file__)
code = "import kafka_native.compat\\nkafka_native.compat.install()\\n" + {OWN_REGISTRY!r}
subprocess.run([sys.executable, "-c", code], check=True)
"""
    assert output_of(python(code=code)) == "True"


def test_another_choice_of_a_schema_registry_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = "must be installed or kafka_native, not 'other'"
    with pytest.raises(ValueError, match=refused):
        install(schema_registry="other")  # type: ignore[arg-type]
    assert SCHEMA_REGISTRY_VARIABLE not in os.environ
    monkeypatch.setenv(SCHEMA_REGISTRY_VARIABLE, "other")
    with pytest.raises(ValueError, match=refused):
        install()


def test_spawned_processes_are_switched_too(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        """
import multiprocessing

def origin() -> str:
    import confluent_kafka
    return confluent_kafka.Producer.__mro__[1].__module__

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(origin))
""",
        encoding="utf-8",
    )
    done = python("-m", "kafka_native.compat", str(tmp_path / "program.py"))
    assert output_of(done) == "kafka_native.producer"


def test_hooks_that_replace_classes_of_cimpl_take_effect() -> None:
    code = """
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder

class Hook(MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname != "confluent_kafka.cimpl":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path)
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            module.Producer = type("Traced", (module.Producer,), {})
        spec.loader.exec_module = exec_module
        return spec

import kafka_native.compat
kafka_native.compat.install()
sys.meta_path.insert(0, Hook())
import confluent_kafka
assert confluent_kafka.Producer.__name__ == "Traced"
print([each.__name__ for each in confluent_kafka.SerializingProducer.__mro__[:5]])
"""
    assert (
        output_of(python(code=code))
        == "['SerializingProducer', 'Serializers', 'SerializingProducer', 'Traced', 'Producer']"
    )


def test_install_fails_after_an_import_of_confluent_kafka() -> None:
    code = """
import confluent_kafka, kafka_native.compat
try:
    kafka_native.compat.install()
except RuntimeError as error:
    print(error)
print(confluent_kafka.Producer.__module__)
"""
    first, second = output_of(python(code=code)).splitlines()
    assert first.startswith("confluent_kafka is imported already, from ")
    assert first.endswith("call kafka_native.compat.install() before anything imports it")
    assert "kafka_native" not in second


def test_importing_kafka_native_imports_no_compatibility_modules() -> None:
    code = """
import sys
import kafka_native
print([name for name in ("compat", "deserializing_consumer", "error", "serialization", "serializing_producer")
       if f"kafka_native.{name}" in sys.modules], "runpy" in sys.modules)
assert "SerializingProducer" in dir(kafka_native) and "error" in dir(kafka_native)
"""
    assert output_of(python(code=code)) == "[] False"


AGENT = """
import sys

class Agent:  # as those of tracing agents: it lets the other finders find a module, and wraps it
    seen = []

    def find_spec(self, name, path, target=None):
        if name == "confluent_kafka":
            self.seen.append(name)
            others = [each for each in sys.meta_path if each is not self]
            return next(filter(None, (each.find_spec(name, path, target) for each in others)))

sys.meta_path.insert(0, Agent())
import kafka_native.compat
kafka_native.compat.install()
import confluent_kafka
print(Agent.seen, issubclass(confluent_kafka.Producer, __import__("kafka_native").Producer))
"""


def test_finders_of_agents_see_the_import() -> None:
    assert output_of(python(code=AGENT)) == "['confluent_kafka'] True"


def test_the_folder_in_pythonpath_switches_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = output_of(python("-m", "kafka_native.compat", "--path"))
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{ROOT}")
    code = """
import subprocess, sys
import confluent_kafka, kafka_native.compat
kafka_native.compat.install()  # it has no effect: it is no error either
who = "import confluent_kafka.admin, kafka_native, importlib.metadata as m; print(issubclass(confluent_kafka.Consumer, kafka_native.Consumer), m.version('confluent-kafka'))"
exec(who)
sys.exit(subprocess.run([sys.executable, "-c", who]).returncode)
"""
    line = "True 2.16.1"
    assert output_of(python("-u", code=code)).splitlines() == [line, line]
