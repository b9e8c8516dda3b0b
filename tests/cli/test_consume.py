"""``kafka-native consume``: beginning and end, output, and commits of a group."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest

from kafka_native import Consumer, Producer, TopicPartition
from kafka_native._native.records import encode_batch
from kafka_native.cli import offset_bounds
from kafka_native.errors import KafkaError
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.cli.running import PROGRAM, environment, invoke, properties, run, started
from tests.cli.terminal import output_on_terminal
from tests.waiting import wait_for

T0 = 1_700_000_000_000
"""2023-11-14T22:13:20Z."""


@pytest.fixture
def filled(cluster: MockCluster) -> Iterator[MockCluster]:
    """Fill topic t: partition 0 with values 0 to 9, one a second, 1 with two unusual messages."""
    cluster.create_topic("t", 3)
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(10):
            producer.produce(
                "t", str(number), key=f"k{number}", partition=0, timestamp=T0 + number * 1000
            )
        headers = [("kind", b"x"), ("none", None), ("bin", b"\xff")]
        producer.produce("t", b"\xff\x00\n", partition=1, headers=headers, timestamp=T0 + 500)
        producer.produce("t", None, key=b"\xfe", partition=1, timestamp=T0 + 600)
    return cluster


def consume(cluster: MockCluster, *arguments: str) -> Any:
    return invoke("consume", "-b", cluster.bootstrap_servers, "-t", "t", *arguments)


def produce(cluster: MockCluster, stdin: bytes, *arguments: str) -> None:
    done = invoke("produce", "-b", cluster.bootstrap_servers, "-t", "t", *arguments, stdin=stdin)
    assert done.exit_code == 0, done.output


def values(cluster: MockCluster, *arguments: str) -> list[str]:
    done = consume(cluster, "-p", "0", *arguments)
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    return done.stdout.split()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("arguments", "first", "last"),
    [
        (["-e"], 0, 9),
        (["-c", "3"], 0, 2),
        (["-o", "beginning", "-e"], 0, 9),
        (["-o", "-2", "-e"], 8, 9),
        (["-o", "-200", "-e"], 0, 9),
        (["-o", "7", "-e"], 7, 9),
        (["-o", f"s@{T0 + 2500}", "-e"], 3, 9),
        (["-o", f"s@{T0 + 2500}", "-o", f"e@{T0 + 5000}"], 3, 4),
        (["--from", "2023-11-14T22:13:25Z", "--to", "2023-11-14T22:13:27+00:00"], 5, 6),
        (["--from", "3", "--to", "6"], 3, 5),
        (["--to", "-4"], 0, 5),
        (["--to", "end"], 0, 9),
        (["--from", "-3", "--to", "-1"], 7, 8),
        (["--to", "1m"], 0, 9),
        (["--from", "4", "-e", "-c", "2"], 4, 5),
        (["--from", "1900-01-01", "-e"], 0, 9),
        (["--from", "1970-01-01T00:00+01:00", "-e"], 0, 9),
        (["--from", "99999d", "-e"], 0, 9),
    ],
)
def test_begin_and_end_options(
    filled: MockCluster, arguments: list[str], first: int, last: int
) -> None:
    assert values(filled, *arguments) == [str(number) for number in range(first, last + 1)]


@pytest.mark.parametrize(
    "arguments",
    [
        ["-o", "end", "-e"],
        ["--to", "0"],
        ["--from", "5", "--to", "5"],
        ["--from", "1m", "-e"],
        ["--to", "1969-12-31T23:59:59.999Z"],
        ["-p", "2", "--to", "end"],
    ],
)
def test_empty_ranges_end_at_once(filled: MockCluster, arguments: list[str]) -> None:
    done = consume(filled, *(arguments if "-p" in arguments else ["-p", "0", *arguments]))
    assert (done.exit_code, done.stdout) == (0, "")


def test_several_partitions_each_end(filled: MockCluster) -> None:
    done = consume(filled, "-p", "0,2", "-p", "1-1", "-e", "-f", "%p/%o\\n")
    assert sorted(done.stdout.split()) == sorted(
        [*(f"0/{number}" for number in range(10)), "1/0", "1/1"]
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-p", "0,3"], "topic t has no partition 3, only 0 to 2"),
        (["-p", "0", "-o", "11"], "offset 11 of t [0] is after its end, 10"),
    ],
)
def test_missing_partitions_and_offsets_are_status_1(
    filled: MockCluster, arguments: list[str], text: str
) -> None:
    done = consume(filled, *arguments)
    assert (done.exit_code, done.stderr) == (1, f"Error: {text}\n")


def test_a_topic_that_does_not_exist_is_status_1(cluster: MockCluster) -> None:
    done = invoke("consume", "-b", cluster.bootstrap_servers, "nosuch", "-e")
    assert (done.exit_code, done.stderr) == (
        1,
        "Error: topic nosuch: Broker: Unknown topic or partition\n",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a", "b"],
        ["a", "-o", "soon"],
        ["a", "-o", "s@end"],
        ["a", "-o", "1", "-o", "2"],
        ["a", "--to", "stored"],
        ["a", "--from", "stored"],
        ["a", "--to", "2999-01-01"],
        ["a", "-J", "-f", "%s"],
        ["a", "-f", "%x"],
        ["a", "--value-as", "json"],
        ["a", "-p", "x"],
        ["a", "-p", "1-"],
        ["a", "--columns", "nosuch", "--arrow", "x"],
        ["a", "--columns", "key,key", "--arrow", "x"],
        ["-G", "g"],
        ["-G", "g", "a", "-p", "0"],
        ["-G", "g", "a", "--to", "end"],
        ["-G", "g", "a", "-o", "5"],
    ],
)
def test_wrong_options_are_status_2(arguments: list[str]) -> None:
    done = invoke("consume", "-b", "127.0.0.1:1", *arguments)
    assert done.exit_code == 2, done.output


def test_formats_are_kcats(filled: MockCluster) -> None:
    def printed(*arguments: str) -> bytes:
        done = consume(filled, "-p", "1", "-e", *arguments)
        assert done.exit_code == 0, done.output
        return done.stdout_bytes  # type: ignore[no-any-return]

    assert printed("-f", "%t %p %o %T %S %K %h|%s|%k\\x00%%") == (
        b"t 1 0 1700000000500 3 -1 kind=x,none=,bin=\xff|\xff\x00\n|\x00%t 1 1 1700000000600 "
        b"-1 1 ||\xfe\x00%"
    )
    assert printed("-f", "%R%v") == b"\0\0\0\x03\xff\0\n\xff\xff\xff\xff"
    assert printed("-f", "%I;", "-c", "1") == b"2023-11-14T22:13:20.500Z;"
    assert printed("-f", "x") == b"xx"
    assert printed("-Z") == b"\xff\x00\n\nNULL\n"
    assert printed("-K", "\\t", "-D", "%;", "-Z") == b"NULL\t\xff\x00\n%;\xfe\tNULL%;"
    assert printed("--value-as", "hex", "--key-as", "base64", "-K", " ") == b" ff000a\n/g== \n"
    assert printed("-u") == b"\xff\x00\n\n\n"


@pytest.fixture
def unusual(filled: MockCluster) -> MockCluster:
    """Add a header name that isn't UTF-8, and times before 1970 and beyond any calendar."""
    times = [0, -1_500, -62_135_596_800_000, -1, 2**62]
    records = [(time, None, b"v", [(b"caf\xe9", b"\xff"), ("größe", None)]) for time in times]
    filled.append_raw("t", 2, encode_batch(records), len(times))
    return filled


def test_times_before_1970_are_times(unusual: MockCluster) -> None:
    done = consume(unusual, "-p", "2", "-e", "-f", "%I %T\\n")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "1970-01-01T00:00:00.000Z 0",
        "1969-12-31T23:59:58.500Z -1500",
        "0001-01-01T00:00:00.000Z -62135596800000",
        "- -1",
        "4611686018427387904 4611686018427387904",
    ]


def test_header_names_that_are_not_utf8_are_printed(unusual: MockCluster) -> None:
    done = consume(unusual, "-p", "2", "-e", "-c", "1", "-f", "%h\\n")
    assert done.exit_code == 0, done.output
    assert done.stdout_bytes == b"caf\xe9=\xff," + "größe=\n".encode()
    lines = consume(unusual, "-p", "2", "-e", "-c", "1", "--json").stdout_bytes
    assert json.loads(lines)["headers"] == [
        [{"base64": "Y2Fm6Q=="}, {"base64": "/w=="}],
        ["größe", None],
    ]
    unusual.create_topic("copy", 1)
    again = invoke(
        "produce", "-b", unusual.bootstrap_servers, "-t", "copy", "-p", "0", "-J", stdin=lines
    )
    assert again.exit_code == 0, again.output
    assert unusual.messages("copy", 0)[0].headers == unusual.messages("t", 2)[0].headers
    for name in ('"\\ud800"', "7", "null", '{"base64":"?"}', '{"bytes":""}'):
        line = f'{{"headers":[[{name},null]],"value":"x"}}'.encode()
        refused = invoke("produce", "-b", unusual.bootstrap_servers, "-t", "copy", "-J", stdin=line)
        assert refused.exit_code != 0
        assert "headers" in refused.output
        assert "Traceback" not in refused.output


@pytest.mark.parametrize("names", ["-J", "--json"])
def test_produce_reads_the_envelopes_of_consume(filled: MockCluster, names: str) -> None:
    filled.create_topic("copy", 3)
    for key_as, value_as in (("raw", "raw"), ("hex", "base64"), ("raw", "json")):
        lines = consume(
            filled, "-e", names, "--key-as", key_as, "--value-as", value_as
        ).stdout_bytes
        assert len([json.loads(line) for line in lines.splitlines()]) == 12
        again = invoke("produce", "-b", filled.bootstrap_servers, "-t", "copy", "-J", stdin=lines)
        assert again.exit_code == 0, again.output
    for number in range(3):
        wanted = [
            (m.key, m.value, m.timestamp, list(m.headers)) for m in filled.messages("t", number)
        ]
        got = [
            (m.key, m.value, m.timestamp, list(m.headers)) for m in filled.messages("copy", number)
        ]
        assert sorted(got, key=repr) == sorted(wanted * 3, key=repr)


def test_an_envelope_has_every_field(filled: MockCluster) -> None:
    done = consume(filled, "-p", "1", "-c", "1", "--json")
    assert json.loads(done.stdout) == {
        "topic": "t",
        "partition": 1,
        "offset": 0,
        "timestamp": T0 + 500,
        "timestamp_type": "create",
        "headers": [["kind", "x"], ["none", None], ["bin", {"base64": "/w=="}]],
        "key": None,
        "value": {"base64": "/wAK"},
    }


def test_an_envelope_with_kcats_names_has_its_members_in_its_order(filled: MockCluster) -> None:
    done = consume(filled, "-p", "1", "-c", "1", "-J")
    found = json.loads(done.stdout)
    assert found == {
        "topic": "t",
        "partition": 1,
        "offset": 0,
        "tstype": "create",
        "ts": T0 + 500,
        "headers": ["kind", "x", "none", None, "bin", {"base64": "/w=="}],
        "key": None,
        "payload": {"base64": "/wAK"},
    }
    assert list(found)[-2:] == ["key", "payload"]
    plain = json.loads(consume(filled, "-p", "0", "-c", "1", "-J").stdout)
    assert "headers" not in plain, "kcat leaves them out, too"


def test_a_group_reads_topics_by_globs(cluster: MockCluster) -> None:
    servers = ("-b", cluster.bootstrap_servers)
    for name in ("orders-1", "orders-2", "others"):
        cluster.create_topic(name, 1)
        assert invoke("produce", name, *servers, stdin=name.encode()).exit_code == 0
    done = invoke("consume", "-G", "g", "orders-?", "-c2", "-o", "beginning", *servers)
    assert (done.exit_code, sorted(done.stdout.split())) == (0, ["orders-1", "orders-2"])
    refused = invoke("consume", "-G", "g", "^(", *servers)
    assert refused.exit_code == 2
    assert "'^(' is no regular expression" in refused.stderr
    alone = invoke("consume", "orders-*", *servers)
    assert (alone.exit_code, "write -G GROUP" in alone.stderr) == (2, True)


def test_json_values_are_embedded_on_request(cluster: MockCluster) -> None:
    cluster.create_topic("t", 1)
    sent = [b'{"a": [1]}', b"[]", b'"text"', b"7", b"{broken", b'{"hex":"ff"}', b"null"]
    produce(cluster, b"\n".join(sent))
    done = consume(cluster, "-e", "--json", "--value-as", "json")
    assert [json.loads(line)["value"] for line in done.stdout.splitlines()] == [
        {"a": [1]},
        [],
        '"text"',
        "7",
        "{broken",
        '{"hex":"ff"}',
        "null",
    ]


@pytest.mark.parametrize(
    "value",
    [
        '{"a":NaN}',
        '{"a":1e400}',
        '{"half":"\\ud800"}',
        '{"twice":1,"twice":2}',
        '{"price":1234567890.12345678901}',
        "[" * 100_000,
    ],
    ids=lambda value: value[:20],
)
def test_a_json_value_that_would_change_is_printed_as_text(
    cluster: MockCluster, value: str
) -> None:
    cluster.create_topic("t", 1)
    produce(cluster, value.encode())
    done = consume(cluster, "-e", "--json", "--value-as", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["value"] == value
    produce(cluster, done.stdout.encode(), "-J")
    assert [each.value for each in cluster.messages("t", 0)] == [value.encode()] * 2


def test_arrow_and_parquet_files(filled: MockCluster, tmp_path: Path) -> None:
    arrow, parquet = tmp_path / "t.arrow", tmp_path / "t.parquet"
    assert consume(filled, "-e", "--arrow", str(arrow)).exit_code == 0
    # not all partitions have them
    assert consume(filled, "--from", "1", "--to", "2", "--parquet", str(parquet)).exit_code == 1
    assert (
        consume(filled, "-p", "0", "--from", "2", "--to", "5", "--parquet", str(parquet)).exit_code
        == 0
    )
    table = (
        pyarrow.ipc.open_stream(arrow.read_bytes()).read_all().sort_by([("partition", "ascending")])
    )
    assert table.num_rows == 12
    assert table.column_names == [
        *("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
    ]
    assert table["value"].to_pylist()[-2:] == [b"\xff\x00\n", None]
    assert pyarrow.parquet.read_table(parquet)["value"].to_pylist() == [b"2", b"3", b"4"]
    columns = ["-p", "0", "--columns", "value:string,key", "--to", "3", "-c", "2", "--arrow", "-"]
    piped = run("consume", "-b", filled.bootstrap_servers, "t", *columns)
    assert pyarrow.ipc.open_stream(io.BytesIO(piped.stdout)).read_all().to_pydict() == {
        "value": ["0", "1"],
        "key": [b"k0", b"k1"],
    }


def test_an_empty_topic_makes_files_that_can_be_read(cluster: MockCluster, tmp_path: Path) -> None:
    cluster.create_topic("t", 2)
    assert consume(cluster, "-e", "--parquet", str(tmp_path / "f")).exit_code == 0
    table = pyarrow.parquet.read_table(tmp_path / "f")
    assert (table.num_rows, table.num_columns) == (0, 8)


def test_bytes_that_are_not_text_are_an_error_of_a_text_column(
    filled: MockCluster, tmp_path: Path
) -> None:
    done = consume(
        filled, "-p", "1", "-e", "--columns", "value:string", "--arrow", str(tmp_path / "f")
    )
    assert done.exit_code == 1
    assert "--columns takes it as binary" in done.stderr


def test_missing_pyarrow_is_named(filled: MockCluster, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['pyarrow'] = None\n")
    path = os.pathsep.join([str(tmp_path), environment()["PYTHONPATH"]])
    done = run(
        "consume", "-b", filled.bootstrap_servers, "t", "-e", "--arrow", "-", PYTHONPATH=path
    )
    assert done.returncode == 1
    assert b"pip install 'kafka-native[cli,arrow]'" in done.stderr


def committed(cluster: MockCluster, group: str, partition: int = 0) -> int:
    with Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group}) as consumer:
        return consumer.committed([TopicPartition("t", partition)], 10)[0].offset


def test_a_group_commits_printed_messages_and_continues_there(filled: MockCluster) -> None:
    group = ["consume", "-b", filled.bootstrap_servers, "-G", "g", "t"]
    first = invoke(*group, "-o", "beginning", "-e", "-f", "%p:%s\\n")
    assert first.exit_code == 0, first.output
    assert len(first.stdout_bytes.split(b"\n")) == 12 + 2  # one value has a newline
    assert committed(filled, "g") == 10
    assert committed(filled, "g", 1) == 2
    produce(filled, b"new\n", "-p", "0")
    assert invoke(*group, "-o", "beginning", "-c", "1").stdout == "new\n"
    assert committed(filled, "g") == 11


@contextmanager
def following(cluster: MockCluster, **conf: str) -> Iterator[None]:
    """Run a member of group g that has all partitions of topic t, until the block ends."""
    config = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", **conf}
    ended = threading.Event()
    with Consumer(config) as member:
        member.subscribe(["t"])

        def poll() -> None:
            while not ended.is_set():
                member.poll(0.1)

        thread = threading.Thread(target=poll)
        thread.start()
        try:
            wait_for(lambda: bool(member.assignment()), "the first member has the partitions")
            yield
        finally:
            ended.set()
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "file"),
    [
        # sticky: the first member keeps the partition
        (
            {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": "200"},
            [],
        ),
        ({"group.protocol": "consumer"}, ["--arrow", os.devnull]),
    ],
    ids=["classic", "consumer"],
)
def test_exit_at_the_end_ends_a_member_for_whom_the_group_has_no_partition(
    cluster: MockCluster, group: dict[str, str], file: list[str]
) -> None:
    cluster.create_topic("t", 1)
    words = ["consume", "-b", cluster.bootstrap_servers, "-G", "g", "-e", "-m", "2", "t", *file]
    with following(cluster, **group):
        done = run(*words, *properties(*map("=".join, group.items())), timeout=30)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"the group has had no partition for this member for 2 s\n"


def test_a_group_commits_the_rows_of_a_parquet_file_when_it_is_complete(
    filled: MockCluster, tmp_path: Path
) -> None:
    """Before its end a Parquet file can't be read, and a crash would lose committed rows."""
    path = tmp_path / "t.parquet"
    group = ["consume", "-b", filled.bootstrap_servers, "-G", "g", "-o", "beginning", "t"]
    group += ["--parquet", str(path), "-X", "auto.commit.interval.ms=50"]
    with started(*group) as process:
        wait_for(lambda: path.exists() and path.stat().st_size > 4, "the first rows are written")
        time.sleep(1)
        assert committed(filled, "g") < 0
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert pyarrow.parquet.read_table(path).num_rows == 12
    assert committed(filled, "g") == 10


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_parquet_file_has_each_row_once_after_a_rebalance(
    filled: MockCluster, tmp_path: Path, strategy: str
) -> None:
    path = tmp_path / "t.parquet"
    group = ["consume", "-b", filled.bootstrap_servers, "-G", "g", "-o", "beginning", "t"]
    group += ["--parquet", str(path), "-X", "heartbeat.interval.ms=50"]
    group += ["-X", f"partition.assignment.strategy={strategy}"]

    def owned() -> list[int]:
        described = invoke("groups", "describe", "g", "--json", "-b", filled.bootstrap_servers)
        return [len(each["partitions"]) for each in json.loads(described.stdout)[0]["members"]]

    with started(*group) as process:
        wait_for(lambda: path.exists() and path.stat().st_size > 4, "the first rows are written")
        conf = {"bootstrap.servers": filled.bootstrap_servers, "group.id": "g"}
        conf |= {"partition.assignment.strategy": strategy}
        with Consumer(conf) as other:
            other.subscribe(["t"])
            wait_for(lambda: other.poll(0.1) or other.assignment(), "the other member has some")
        wait_for(lambda: owned() == [3], "the first member has them all again")
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    rows = pyarrow.parquet.read_table(path, columns=["partition", "offset"]).to_pylist()
    places = [(row["partition"], row["offset"]) for row in rows]
    assert sorted(places) == sorted(set(places))
    assert len(places) == 12


def test_a_group_commits_no_rows_of_a_parquet_file_that_can_not_be_completed(
    filled: MockCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_writer: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pyarrow.parquet.ParquetWriter, "close", full)
    group = ["consume", "-b", filled.bootstrap_servers, "-G", "g", "-o", "beginning", "t"]
    done = invoke(*group, "-e", "-q", "--parquet", str(tmp_path / "t.parquet"))
    assert (done.exit_code, done.stderr) == (1, "Error: No space left on device\n")
    assert committed(filled, "g") < 0


def test_stored_continues_where_it_ended(filled: MockCluster) -> None:
    stored = ["-X", "group.id=s", "-o", "stored"]
    assert values(filled, *stored, "-c", "4") == ["0", "1", "2", "3"]
    assert values(filled, *stored, "-c", "4") == ["4", "5", "6", "7"]
    assert values(filled, "-X", "group.id=s", "-o", "0", "-c", "1") == ["0"]
    assert committed(filled, "s") == 8, "only -o stored and -G commit"


def lines_of(process: subprocess.Popen[bytes], count: int) -> list[bytes]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_commits_and_leaves(
    filled: MockCluster, number: signal.Signals, status: int
) -> None:
    with started(
        "consume", "-b", filled.bootstrap_servers, "-G", "g", "-o", "beginning", "t"
    ) as process:
        assert len(lines_of(process, 13)) == 13
        process.send_signal(number)
        assert process.wait(30) == status
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert committed(filled, "g") == 10


def test_following_prints_new_messages_at_once(filled: MockCluster) -> None:
    with started(
        "consume", "-b", filled.bootstrap_servers, "t", "-o", "-1", "-p", "0", "-q"
    ) as process:
        assert lines_of(process, 1) == [b"9\n"]
        produce(filled, b"new", "-p", "0")
        assert lines_of(process, 1) == [b"new\n"]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_a_broken_pipe_ends_quietly_and_commits_written_messages_only(cluster: MockCluster) -> None:
    cluster.create_topic("t", 1)
    lines = b"".join(b"%06d\n" % number for number in range(200_000))
    produce(cluster, lines)
    command = ["consume", "-b", cluster.bootstrap_servers, "-G", "g", "-o", "beginning", "t"]
    command += ["-D", "x" * 500 + "\\n"]
    with started(*command) as process:
        assert lines_of(process, 1)[0].startswith(b"000000x")
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert committed(cluster, "g") < 100_000


def test_ends_are_shown_on_a_terminal_unless_quiet(filled: MockCluster) -> None:
    def shown(*arguments: str) -> bytes:
        words = ["consume", "-b", filled.bootstrap_servers, "-p", "0", "t", "-e", *arguments]
        ends, messages = output_on_terminal([*PROGRAM, *words], "stderr")
        assert messages.count(b"\n") == 10
        return ends

    assert shown() == b"reached the end of t [0] at offset 10\r\n"
    assert shown("-q") == b""


def test_kcats_options(filled: MockCluster) -> None:
    done = run(
        "-C", "-b", filled.bootstrap_servers, "-qet", "t", "-p0", "-o", "-2", "-f", "%k=%s\\n"
    )
    assert (done.returncode, done.stdout) == (0, b"k8=8\nk9=9\n")
    sent = run("-P", "-b", filled.bootstrap_servers, "-t", "t", "-p0", "-K:", stdin=b"a:b\n")
    assert (sent.returncode, sent.stderr) == (0, b"")
    group = run(
        "-G", "g", "-b", filled.bootstrap_servers, "-e", "-o", "beginning", "-q", "-f", "%s;", "t"
    )
    assert (group.returncode, group.stdout.count(b";")) == (0, 13)


def test_offset_bounds() -> None:
    assert offset_bounds.parsed("Earliest") == offset_bounds.BEGINNING
    assert offset_bounds.parsed("12") == offset_bounds.OffsetBound("offset", 12)
    assert offset_bounds.parsed("-12") == offset_bounds.OffsetBound("tail", 12)
    assert offset_bounds.parsed("2023-11-14T22:13:20Z") == offset_bounds.OffsetBound("time", T0)
    ago = offset_bounds.parsed("2h")
    assert ago.kind == "time"
    assert 7_190_000 < time.time() * 1000 - ago.number < 7_260_000
    with pytest.raises(ValueError, match="write beginning, end"):
        offset_bounds.parsed("yesterday")


def test_an_error_of_a_partition_is_status_1(filled: MockCluster) -> None:
    filled.create_topic("closed", 1)
    filled.push_request_errors(ApiKey.FETCH, [KafkaError.TOPIC_AUTHORIZATION_FAILED])
    done = invoke("consume", "-b", filled.bootstrap_servers, "closed", "-e")
    assert done.exit_code == 1
    assert "authorization" in done.stderr.lower()
    assert done.stderr.startswith("Error: ")


def test_a_group_continues_without_a_missing_topic(filled: MockCluster) -> None:
    group = ["-b", filled.bootstrap_servers, "-G", "g", "t", "nosuch", "-o", "beginning"]
    done = invoke("consume", *group, "-c", "12", "-f", "%o,")
    assert (done.exit_code, done.stdout.count(",")) == (0, 12)
