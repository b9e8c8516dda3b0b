"""A subinterpreter can't import kafka_native: the error says what to use. Clients go on working."""

from __future__ import annotations

import importlib.util
import sys
import textwrap

import pytest

from tests.waiting import WAIT_S

from .support import Client, run_program

MODULE = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec(MODULE) is None, reason=f"this Python was built without {MODULE}"
)

# Each subinterpreter writes its result to a descriptor of the process.
START = f"""
import os, sys, warnings, {MODULE} as interpreters
warnings.filterwarnings("ignore", "remaining subinterpreters")  # Python 3.14 at exit

def create(isolated):
    if sys.version_info >= (3, 13):
        return interpreters.create("isolated" if isolated else "legacy")
    return interpreters.create(isolated=isolated)

def result(interpreter, code):
    reader, writer = os.pipe()
    error = interpreters.run_string(interpreter, f'''
import os, sys
sys.path.insert(0, {{os.environ["PYTHONPATH"]!r}})
try:
    {{code}}
    text = "no error"
except BaseException as error:
    text = f"{{{{type(error).__name__}}}}: {{{{error}}}}"
os.write({{writer}}, text.encode())
''')
    assert error is None, error
    os.close(writer)
    with open(reader) as shown:
        return shown.read()

def check_refused(interpreter):
    text = result(interpreter, "import kafka_native")
    assert text.startswith("ImportError: kafka_native runs in the main interpreter only"), text
    assert "Use threads or processes instead" in text, text
    assert result(interpreter, "import kafka_native.producer") == text
    assert result(interpreter, "import json") == "no error"
"""


def run(program: str, *arguments: str) -> None:
    """Run a program that must print "ended" and no error."""
    done = run_program(START + textwrap.dedent(program), *arguments, timeout_s=3 * WAIT_S)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "ended\n")


@pytest.mark.parametrize("isolated", [False, True])
def test_the_main_interpreter_imports_after_a_subinterpreter(isolated: bool) -> None:
    program = """
        interpreter = create(bool(int(sys.argv[1])))
        check_refused(interpreter)
        interpreters.destroy(interpreter)
        from kafka_native import Producer
        Producer({"bootstrap.servers": "127.0.0.1:1"}).close()
        print("ended")
        """
    run(program, str(int(isolated)))


@pytest.mark.parametrize("destroyed", [True, False])
@pytest.mark.parametrize("isolated", [False, True])
def test_clients_of_the_main_interpreter_go_on(
    isolated: bool, destroyed: bool, client: Client, topic: str
) -> None:
    program = """
        from kafka_native import Consumer, Producer
        conf = {"bootstrap.servers": sys.argv[1]}
        topic, isolated, destroyed = sys.argv[2], bool(int(sys.argv[3])), bool(int(sys.argv[4]))
        reports = []
        with (
            Producer(conf) as producer,
            Consumer({**conf, "group.id": topic, "auto.offset.reset": "earliest"}) as consumer,
        ):
            consumer.subscribe([topic])
            for turn in range(3):
                producer.produce(topic, str(turn), on_delivery=lambda *each: reports.append(each))
                interpreter = create(isolated)
                check_refused(interpreter)
                if destroyed:
                    interpreters.destroy(interpreter)
            assert producer.flush(60) == 0
            assert [error for error, _ in reports] == [None] * 3
            found = []
            while len(found) < 3:
                found += consumer.consume(3, 60)
            assert sorted(message.value() for message in found) == [b"0", b"1", b"2"]
        left_open = Producer(conf)
        print("ended")
        """
    run(program, client.bootstrap, topic, str(int(isolated)), str(int(destroyed)))


@pytest.mark.skipif(sys.version_info < (3, 14), reason="InterpreterPoolExecutor needs Python 3.14")
def test_a_pool_of_interpreters_reports_the_error() -> None:
    program = """
        from concurrent.futures import InterpreterPoolExecutor
        with InterpreterPoolExecutor(1) as pool:
            error = pool.submit(eval, "__import__('kafka_native')").exception()
        assert "kafka_native runs in the main interpreter only" in str(error), repr(error)
        print("ended")
        """
    run(program)
