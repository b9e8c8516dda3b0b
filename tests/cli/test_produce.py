"""``kafka-native produce``: input of every kind, the delivered messages, exit statuses."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kafka_native import Producer
from kafka_native.cli import envelope, sender, splitter
from kafka_native.cli.errors import Failed
from kafka_native.cli.texts import unescaped
from kafka_native.errors import KafkaError
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.cli.running import PROGRAM, environment, invoke, run, started
from tests.cli.terminal import output_on_terminal


@pytest.fixture
def topic(cluster: MockCluster) -> str:
    cluster.create_topic("t", 3)
    return "t"


def produce(cluster: MockCluster, *arguments: str, stdin: bytes = b"") -> Any:
    return invoke("produce", "-b", cluster.bootstrap_servers, "-t", "t", *arguments, stdin=stdin)


def stored(cluster: MockCluster, topic: str = "t") -> list[Any]:
    return [
        each
        for number in range(len(cluster.topics[topic].partitions))
        for each in cluster.messages(topic, number)
    ]


def pairs(cluster: MockCluster) -> list[tuple[bytes | None, bytes | None]]:
    return sorted(((each.key, each.value) for each in stored(cluster)), key=repr)


@pytest.mark.usefixtures("topic")
def test_each_line_is_a_message_even_without_a_final_newline(cluster: MockCluster) -> None:
    done = produce(cluster, stdin=b"one\n\ntwo")
    assert (done.exit_code, done.output) == (0, "")
    assert pairs(cluster) == [(None, b""), (None, b"one"), (None, b"two")]


@pytest.mark.usefixtures("topic")
def test_keys_delimiters_headers_and_nulls(cluster: MockCluster) -> None:
    arguments = shlex.split("-K = -D ';\\t' -H kind=x -H none -Z -k fallback -p 1 -z zstd")
    done = produce(cluster, *arguments, stdin=b"a=1;\tb=;\tc;\t=d=e\n")
    assert done.exit_code == 0, done.output
    assert [(each.key, each.value) for each in cluster.messages("t", 1)] == [
        (b"a", b"1"),
        (b"b", None),
        (b"fallback", b"c"),
        (b"fallback", b"d=e\n"),
    ]
    assert {tuple(each.headers) for each in stored(cluster)} == {(("kind", b"x"), ("none", None))}
    assert all(batch[22] & 7 == 4 for batch in cluster.batches("t", 1))


@pytest.mark.usefixtures("topic")
def test_files_are_messages_or_split_into_lines(cluster: MockCluster, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x\ny\n")
    (tmp_path / "b").write_bytes(b"\xff\x00")
    files = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert produce(cluster, *files).exit_code == 0
    assert pairs(cluster) == [(None, b"\xff\x00"), (None, b"x\ny\n")]
    assert produce(cluster, "--lines", *files, "-c", "2").exit_code == 0
    assert sorted(each.value for each in stored(cluster)) == [b"x", b"x\ny\n", b"y", b"\xff\x00"]
    missing = produce(cluster, str(tmp_path / "nosuch"))
    assert missing.exit_code == 2
    assert f"File '{tmp_path / 'nosuch'}' does not exist." in missing.stderr


@pytest.mark.usefixtures("topic")
def test_the_first_argument_may_be_the_topic(cluster: MockCluster, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"from a file")
    servers = ("-b", cluster.bootstrap_servers)
    assert invoke("produce", "t", *servers, stdin=b"from stdin\n").exit_code == 0
    assert invoke("produce", "t", str(file), *servers).exit_code == 0
    assert sorted(each.value for each in stored(cluster)) == [b"from a file", b"from stdin"]
    # kcat's arguments are files
    kcats = invoke("-P", *servers, str(file))
    assert (kcats.exit_code, "write -t TOPIC" in kcats.stderr) == (2, True)


@pytest.mark.usefixtures("topic")
def test_hex_and_base64_and_invalid_input(cluster: MockCluster) -> None:
    assert (
        produce(
            cluster, "-K:", "--key-as", "hex", "--value-as", "base64", stdin=b"ff:AAE=\n:\n"
        ).exit_code
        == 0
    )
    assert pairs(cluster) == [(b"", b""), (b"\xff", b"\x00\x01")]
    done = produce(cluster, "--value-as", "hex", stdin=b"00\nxyz\n11\n")
    assert (done.exit_code, done.stderr) == (
        1,
        "Error: message 2 of the input: the value isn't valid hex\n",
    )
    assert len(stored(cluster)) == 3, "earlier messages are sent"


@pytest.mark.usefixtures("topic")
def test_envelopes(cluster: MockCluster) -> None:
    lines = [
        (
            b'{"key":"k","value":{"base64":"/wA="},"headers":[["a","b"],["c",null],["d",{"hex":"ff"}]],'
            b'"partition":2,"timestamp":1700000000000,"offset":7,"timestamp_type":"create","topic":"elsewhere"}'
        ),
        b"",
        b'{"value":{"id":[1,"\xc3\xa4"]},"partition":0,"timestamp":"2023-11-14T22:13:20Z"}',
        b'{"payload":null,"key":"kcat","ts":-1,"headers":["h","v"],"partition":1,"tstype":"create","broker":1}',
    ]
    done = produce(cluster, "-J", "-H", "more=1", stdin=b"\n".join(lines))
    assert done.exit_code == 0, done.output
    [first], [second], [third] = (cluster.messages("t", number) for number in (2, 0, 1))
    assert (first.key, first.value, first.timestamp) == (b"k", b"\xff\x00", 1700000000000)
    assert list(first.headers) == [("a", b"b"), ("c", None), ("d", b"\xff"), ("more", b"1")]
    assert (second.key, second.value, second.timestamp) == (
        None,
        '{"id":[1,"ä"]}'.encode(),
        1700000000000,
    )
    assert (third.key, third.value, list(third.headers)) == (
        b"kcat",
        None,
        [("h", b"v"), ("more", b"1")],
    )
    own = invoke(
        "produce",
        "-J",
        "-b",
        cluster.bootstrap_servers,
        stdin=b'{"topic":"u","value":"1"}\n{"value":"2"}\n',
    )
    assert (own.exit_code, own.stderr) == (
        1,
        "Error: an envelope names no topic, and there is no -t\n",
    )
    assert [each.value for each in stored(cluster, "u")] == [b"1"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{", "not JSON"),
        ("[]", "an object is expected"),
        ('{"vlaue":"x"}', "unknown member 'vlaue'"),
        ('{"value":3}', "value: a string, null, an object or an array"),
        ('{"value":{"base64":"!"}}', "value: not valid base64"),
        ('{"key":{"hex":7}}', "key: not valid hex"),
        ('{"value":"\\ud800"}', "half a surrogate"),
        ('{"partition":"1"}', "partition: a number"),
        ('{"partition":-2}', "partition: a number"),
        ('{"timestamp":"soon"}', "timestamp: no time"),
        ('{"timestamp":1.5}', "timestamp: milliseconds"),
        ('{"headers":["a"]}', "headers: pairs"),
        ('{"headers":[["a"]]}', "headers: pairs"),
        ('{"headers":[[1,"a"]]}', "headers: pairs"),
        ('{"topic":1}', "topic: a string"),
        ('{"topic":"\\udc80"}', "topic: half a surrogate"),
        ("[" * 100_000, "nested too deeply"),
        ('{"value":"\xff"}', "not UTF-8"),
        ('{"value":{"a":NaN}}', "NaN is no JSON number"),
        ('{"value":{"a":1e400}}', "a number has too many digits"),
        ('{"value":{"a":1234567890.12345678901}}', "a number has too many digits"),
        ('{"value":{"a":1,"a":2}}', "the member 'a' is there twice"),
    ],
)
def test_invalid_envelopes_are_errors(line: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        envelope.read(line.encode("latin-1"))


@pytest.mark.usefixtures("topic")
def test_a_bad_envelope_is_named_and_earlier_messages_are_sent(cluster: MockCluster) -> None:
    done = produce(cluster, "-J", stdin=b'{"value":"1"}\n\n{"value":7}\n{"value":"3"}\n')
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: message 2 of the input: value: ")
    assert [each.value for each in stored(cluster)] == [b"1"]


@pytest.mark.usefixtures("topic")
def test_a_refused_message_is_status_1_with_its_reason(cluster: MockCluster) -> None:
    cluster.push_request_errors(ApiKey.PRODUCE, [KafkaError.TOPIC_AUTHORIZATION_FAILED])
    done = produce(cluster, "-p", "0", "--json", stdin=b"1\n2\n")
    assert done.exit_code == 1
    assert (
        done.stderr
        == "Error: 2 of 2 messages not delivered, the first: Broker: Topic authorization failed\n"
    )
    summary = json.loads(done.stdout)
    assert (summary["messages"], summary["delivered"], summary["failed"]) == (2, 0, 2)


@pytest.mark.usefixtures("topic")
def test_a_message_that_is_too_large_is_status_1_and_earlier_ones_are_sent(
    cluster: MockCluster,
) -> None:
    done = produce(cluster, "-X", "message.max.bytes=2000", stdin=b"a\n" + b"b" * 5000 + b"\nc\n")
    assert done.exit_code == 1
    assert "over message.max.bytes=2000" in done.stderr
    assert pairs(cluster) == [(None, b"a")]


@pytest.mark.usefixtures("topic")
def test_a_partition_that_does_not_exist_is_status_1(cluster: MockCluster) -> None:
    done = produce(cluster, "-p", "7", stdin=b"a\n")
    assert done.exit_code == 1
    assert "partition" in done.stderr.lower()


def test_a_topic_name_that_no_topic_has_is_status_1(cluster: MockCluster) -> None:
    for words, stdin in (("-t", ""), b"1"), (("-J",), b'{"topic":"","value":"1"}'):
        done = invoke("produce", "-b", cluster.bootstrap_servers, *words, stdin=stdin)
        assert done.exit_code == 1
        assert done.stderr.startswith("Error: a topic's name has 1 to 249 characters"), done.output


def test_an_unreachable_cluster_is_status_1_at_once() -> None:
    done = invoke("produce", "-b", "127.0.0.1:1", "-m", "0.5", "-t", "t", stdin=b"x")
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-t", "t", "-p", "-2"],
        ["-t", "t", "-D", ""],
        ["-t", "t", "-z", "rar"],
        ["-t", "t", "-H", "=x"],
        ["-J", "-K", ":"],
        ["-J", "--value-as", "hex", "--key-as", "hex"],
        ["-t", "t", "-c", "0"],
    ],
)
def test_wrong_options_are_status_2(arguments: list[str]) -> None:
    assert invoke("produce", "-b", "127.0.0.1:1", *arguments).exit_code == 2


@pytest.mark.usefixtures("topic")
def test_one_transaction_or_nothing(cluster: MockCluster) -> None:
    arguments = ["-X", "transactional.id=tx", "-J"]
    assert produce(cluster, *arguments, stdin=b'{"value":"1"}\n').exit_code == 0
    assert produce(cluster, *arguments, stdin=b'{"value":"2"}\n{"value":8}\n').exit_code == 1
    read = invoke("consume", "-b", cluster.bootstrap_servers, "-t", "t", "-e", "-q")
    assert (read.exit_code, read.stdout) == (0, "1\n")


COUNTS = ("messages", "delivered", "failed", "unknown")


@pytest.mark.usefixtures("topic")
def test_no_message_of_a_transaction_that_is_not_committed_counts_as_delivered(
    cluster: MockCluster,
) -> None:
    arguments = ["-X", "transactional.id=tx", "-J", "--json"]
    done = produce(cluster, *arguments, stdin=b'{"value":"1"}\n{"value":8}\n')
    assert [json.loads(done.stdout)[name] for name in COUNTS] == [1, 0, 1, 0]
    cluster.push_request_errors(ApiKey.END_TXN, [KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED])
    done = produce(cluster, *arguments, stdin=b'{"value":"1"}\n')
    assert done.exit_code == 1
    assert [json.loads(done.stdout)[name] for name in COUNTS] == [1, 0, 0, 1]


class Interrupted(Producer):
    """Gets Ctrl+C while it queues messages."""

    def produce_many(self, *arguments: Any, **more: Any) -> int:
        queued = super().produce_many(*arguments, **more)
        os.kill(os.getpid(), signal.SIGINT)
        return queued


@pytest.mark.usefixtures("topic")
def test_counts_after_ctrl_c_have_every_message(
    cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "Producer", Interrupted)
    done = produce(cluster, "--json", "-p", "0", stdin=b"1\n2\n")
    assert done.exit_code == 130
    counts = json.loads(done.stdout)
    assert [counts[name] for name in COUNTS] == [2, 2, 0, 0]
    assert len(cluster.messages("t", 0)) == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("topic")
def test_counts_after_a_refused_message_have_those_before_it(cluster: MockCluster) -> None:
    limit = ["-X", "message.max.bytes=1000", "--json", "-p", "0"]
    done = produce(cluster, *limit, stdin=b"1\n" * 5000 + b"x" * 2000 + b"\n")
    assert done.exit_code == 1
    counts = json.loads(done.stdout)
    assert [counts[name] for name in (*COUNTS, "bytes")] == [5000, 5000, 0, 0, 5000]


@pytest.mark.usefixtures("topic")
def test_produce_waits_while_the_queue_is_full(cluster: MockCluster) -> None:
    lines = b"".join(b"%d\n" % number for number in range(20_000))
    done = produce(
        cluster, "-X", "queue.buffering.max.messages=100", "-K", "7", "--json", stdin=lines
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["delivered"] == 20_000
    assert len(stored(cluster)) == 20_000


@pytest.mark.usefixtures("topic")
def test_typed_lines_are_sent_before_the_input_ends(cluster: MockCluster) -> None:
    with started("produce", "-b", cluster.bootstrap_servers, "-t", "t") as process:
        assert process.stdin is not None
        process.stdin.write(b"first\nhalf")
        process.stdin.flush()
        read = run("consume", "-b", cluster.bootstrap_servers, "-t", "t", "-c", "1")
        assert read.stdout == b"first\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def test_huge_input_takes_constant_memory(tmp_path: Path) -> None:
    """200 MB of input need at most 64 MiB more memory than 1 MB of input."""
    with MockCluster(brokers=1, retention_bytes=1 << 20) as cluster:
        cluster.create_topic("t", 1)

        def peak_kib(lines: int) -> int:
            program = "import sys\nlines = (b'x' * 999 + b'\\n') * 100\n"
            program += f"for _ in range({lines // 100}): sys.stdout.buffer.write(lines)"
            command = [*PROGRAM, "produce", "-b", cluster.bootstrap_servers, "-t", "t"]
            command += ["-X", "queue.buffering.max.kbytes=8192"]
            with (
                subprocess.Popen([PROGRAM[0], "-c", program], stdout=subprocess.PIPE) as source,
                subprocess.Popen(command, stdin=source.stdout, env=environment()) as process,
            ):
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                assert process.returncode == 0
                return int(usage.ru_maxrss)

        little, much = peak_kib(1000), peak_kib(200_000)
        assert much < little + (64 << 10)


@pytest.mark.usefixtures("topic")
def test_progress_and_count_are_shown_on_a_terminal(cluster: MockCluster, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"a\nb\n")
    words = ["produce", "-b", cluster.bootstrap_servers, "-t", "t", "-l", str(tmp_path / "lines")]
    shown, _ = output_on_terminal([*PROGRAM, *words], "stderr")
    assert b"2 messages, 2 bytes in " in shown
    assert b"messages/s" in shown


class Pieces:
    """A pipe that returns its bytes in the pieces in which they were written."""

    name = "pipe"

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    def read(self, _size: int) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


@pytest.mark.parametrize("delimiter", [b"\n", b";;"])
def test_split_does_not_depend_on_the_pieces_of_the_input(delimiter: bytes) -> None:
    data = delimiter.join([b"a", b"", b"bb", b"c"]) + delimiter
    whole = [each for block in splitter.split(Pieces(data), delimiter, 100) for each in block]  # type: ignore[arg-type]
    single = [data[at : at + 1] for at in range(len(data))]
    one_by_one = [
        each for block in splitter.split(Pieces(*single), delimiter, 100) for each in block
    ]  # type: ignore[arg-type]
    assert whole == one_by_one == data.split(delimiter)[:-1]


def test_split_keeps_at_most_the_limit() -> None:
    with pytest.raises(Failed, match=r"message 2 of pipe is larger than message.max.bytes allows"):
        list(splitter.split(Pieces(b"a\n", b"b" * 6, b"b" * 6, b"\n"), b"\n", 10))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("\\n\\t\\r\\0\\\\", b"\n\t\r\0\\"),
        ("\\x41\\xff", b"A\xff"),
        ("ä\\q", "äq".encode()),
        ("\\", b"\\"),
        ("%", b"%"),
    ],
)
def test_escapes(text: str, data: bytes) -> None:
    assert unescaped(text) == data
