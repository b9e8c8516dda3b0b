"""The commands topics, groups, configs and cluster on the mock cluster."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import click
import pytest

from kafka_native import Consumer, KafkaError, Message, Producer
from kafka_native.admin import ConfigEntry
from kafka_native.cli import administration, formats, texts
from kafka_native.cli.commands import configs
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.cli.running import invoke, run, started
from tests.cli.terminal import terminal

WAIT_S = 100.0


def table(text: str) -> list[list[str]]:
    """Return a table's cells. In these tests no cell contains a blank."""
    return [line.split() for line in text.splitlines()]


class Cli:
    """`kafka-native` with the cluster's address."""

    def __init__(self, cluster: MockCluster) -> None:
        self.servers = cluster.bootstrap_servers

    def __call__(self, *words: str, status: int = 0) -> str:
        result = invoke(*words, "-b", self.servers)
        assert result.exit_code == status, result.output
        self.errors = result.stderr
        return result.stdout

    def json(self, *words: str, status: int = 0) -> Any:
        return json.loads(self(*words, "--json", status=status))


@pytest.fixture
def cli(cluster: MockCluster) -> Cli:
    return Cli(cluster)


# --- topics ---


def test_topics_are_created_with_their_options(cli: Cli, cluster: MockCluster) -> None:
    wanted = ["-p", "3", "-r", "2", "-c", "retention.ms=5000", "-c", "cleanup.policy=compact"]
    output = cli("topics", "create", "a", "b", *wanted)
    assert output == "topic a: created\ntopic b: created\n"
    for name in ("a", "b"):
        topic = cluster.topics[name]
        assert [len(each.replicas) for each in topic.partitions] == [2, 2, 2]
        assert topic.configs == {"retention.ms": "5000", "cleanup.policy": "compact"}


def test_dry_run_changes_nothing(cli: Cli, cluster: MockCluster) -> None:
    assert cli("topics", "create", "a", "--dry-run") == "topic a: would be created\n"
    assert not cluster.topics
    cluster.create_topic("b", 1)
    assert (
        cli("topics", "alter", "b", "-p", "2", "--dry-run")
        == "topic b: would be given 2 partitions\n"
    )
    assert len(cluster.topics["b"].partitions) == 1


def test_one_topic_fails_and_the_others_are_created(cli: Cli, cluster: MockCluster) -> None:
    cluster.create_topic("there")
    outcomes = cli.json("topics", "create", "there", "new", "no good", status=1)
    assert [(each["topic"], each["ok"]) for each in outcomes] == [
        ("there", False),
        ("new", True),
        ("no good", False),
    ]
    assert "exists" in outcomes[0]["error"]
    assert "Error: topic there:" in cli.errors
    assert sorted(cluster.topics) == ["new", "there"]
    assert cli("topics", "create", "there", "--if-not-exists") == "topic there: created\n"


def test_topics_are_listed(cli: Cli, cluster: MockCluster) -> None:
    for name, count in (
        ("orders", 3),
        ("order-lines", 1),
        ("basket", 2),
        ("__consumer_offsets", 1),
    ):
        cluster.create_topic(name, count)
    assert table(cli("topics", "list"))[1:] == [
        ["basket", "2", "2", "0", "0"],
        ["order-lines", "1", "2", "0", "0"],
        ["orders", "3", "2", "0", "0"],
    ]
    assert [each["topic"] for each in cli.json("topics", "list", "order*")] == [
        "order-lines",
        "orders",
    ]
    assert cli.json("topics", "list", "^order") == cli.json("topics", "list", "order*")
    cli("topics", "list", "^(", status=2)
    assert "__consumer_offsets" in cli("topics", "list", "--all")
    cluster.broker_down(2)
    (basket,) = Cli.json(cli_of(cluster.address(1)), "topics", "list", "basket")
    assert (basket["under_replicated"], basket["without_leader"]) == (2, 0)


def cli_of(servers: str) -> Cli:
    made = object.__new__(Cli)
    made.servers = servers
    return made


def test_lines_are_whole_without_a_terminal(cluster: MockCluster) -> None:
    name = "a" * 200
    cluster.create_topic(name)
    done = run("topics", "list", "-b", cluster.bootstrap_servers, COLUMNS="40")
    assert done.stdout.decode().splitlines()[1].split() == [name, "1", "2", "0", "0"]
    assert b"\x1b" not in done.stdout


def test_topic_is_described(cli: Cli, cluster: MockCluster) -> None:
    cluster.create_topic("a", 2, configs={"retention.ms": "99"})
    (found,) = cli.json("topics", "describe", "a")
    assert found["settings"] == {"retention.ms": "99"}
    assert found["partitions"][1] == {
        "partition": 1,
        "leader": 2,
        "replicas": [2, 1],
        "isr": [2, 1],
    }
    text = cli("topics", "describe", "a", "nothing", status=1)
    assert text.splitlines()[1] == "  retention.ms=99"
    assert table(text)[3:] == [["0", "1", "1,", "2", "1,", "2"], ["1", "2", "2,", "1", "2,", "1"]]
    assert "Error: topic nothing: Broker: Unknown topic or partition" in cli.errors


def test_topics_get_partitions(cli: Cli, cluster: MockCluster) -> None:
    cluster.create_topic("a", 2)
    assert cli("topics", "alter", "a", "-p", "5") == "topic a: given 5 partitions\n"
    assert len(cluster.topics["a"].partitions) == 5
    cli("topics", "alter", "a", "-p", "4", status=1)
    assert "Error: topic a:" in cli.errors


def test_topics_are_deleted_when_a_script_says_yes(cli: Cli, cluster: MockCluster) -> None:
    cluster.create_topic("a")
    cli("topics", "delete", "a", status=2)
    assert "There is no terminal to ask on: say --yes" in cli.errors
    assert "a" in cluster.topics
    assert cli("topics", "delete", "a", "--yes") == "topic a: deleted\n"
    assert not cluster.topics
    cli("topics", "delete", "a", "--yes", status=1)
    cli("topics", "delete", "a", "--yes", "--if-exists")


def test_user_at_a_terminal_is_asked(cluster: MockCluster) -> None:
    cluster.create_topic("a")
    command = ["topics", "delete", "a", "-b", cluster.bootstrap_servers]
    with terminal(*command) as screen:
        screen.wait_for("Delete a with all messages? [y/N]")
        screen.type("n\n")
        assert screen.end() == 1
    assert "a" in cluster.topics
    with terminal(*command) as screen:
        screen.wait_for("[y/N]")
        screen.type("y\n")
        assert screen.end() == 0
        assert "topic a: deleted" in screen.shown
    assert not cluster.topics


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("words", ["topics delete a", "users set a"])
def test_a_signal_at_a_question_has_its_status(
    cluster: MockCluster, words: str, number: signal.Signals, status: int
) -> None:
    cluster.create_topic("a")
    with terminal(*words.split(), "-b", cluster.bootstrap_servers) as screen:
        screen.wait_for(": ")
        time.sleep(0.1)  # the question is there before the program waits for its answer
        screen.process.send_signal(number)
        assert screen.end() == status
    assert screen.shown.endswith("Aborted!\r\n")
    assert "a" in cluster.topics


def fill(cluster: MockCluster, topic: str, count: int, partition: int = 0) -> None:
    """Produce messages with the timestamps 1, 2, 3 ... times a million."""
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(count):
            producer.produce(
                topic, str(number), partition=partition, timestamp=(number + 1) * 1_000_000
            )
        assert producer.flush(WAIT_S) == 0


def test_offsets(cli: Cli, cluster: MockCluster) -> None:
    cluster.create_topic("a", 2)
    fill(cluster, "a", 5)
    first, second = cli.json("topics", "offsets", "a", "--time", "2500000")
    assert {name: first[name] for name in ("first", "end", "messages", "at")} == {
        "first": 0,
        "end": 5,
        "messages": 5,
        "at": 2,
    }
    assert first["newest"] == "1970-01-01T01:23:20.000+00:00"
    assert (second["messages"], second["newest"], second["at"]) == (0, None, None)
    assert (
        cli("topics", "offsets", "a").splitlines()[-1]
        == "5 messages, compacted and deleted ones included"
    )


def test_offsets_of_some_partitions_at_different_times(cli: Cli, cluster: MockCluster) -> None:
    for name in "ab":
        cluster.create_topic(name, 3)
        fill(cluster, name, 5)
    found = cli.json("topics", "offsets", "a:0:2500000", "a:2", "b", "--time", "3500000")
    assert [(each["topic"], each["partition"], each["at"]) for each in found] == [
        ("a", 0, 2),
        ("a", 2, None),
        ("b", 0, 3),
        ("b", 1, None),
        ("b", 2, None),
    ]
    (kcats,) = cli.json("-Q", "-t", "a:0:2500000")
    assert kcats == found[0]
    for end, at in (("-1", 5), ("-2", 0)):
        (kcats,) = cli.json("-Q", "-t", f"a:0:{end}")
        assert (kcats["at"], kcats["first"], kcats["end"]) == (at, 0, 5)
    cli("topics", "offsets", "a:7", status=1)
    assert "a [7]: there is no such partition" in cli.errors
    assert cli("topics", "offsets", "a:0").count("at time") == 0
    for wrong in ("a:x", "a:-1", "a:0:then"):
        cli("topics", "offsets", wrong, status=2)
    cli("topics", "offsets", "a:0:2500000", "a:0:2600000", status=2)


def test_records_are_deleted(cli: Cli, cluster: MockCluster) -> None:
    cluster.create_topic("a", 2)
    fill(cluster, "a", 5)
    cli("topics", "delete-records", "a", "--before", "3", status=2)
    assert cluster.watermarks("a", 0) == (0, 5)
    (record,) = cli.json("topics", "delete-records", "a", "-p", "0", "--before", "3", "-y")
    assert record == {"topic": "a", "partition": 0, "first": 3}
    assert cluster.watermarks("a", 0) == (3, 5)
    cli("topics", "delete-records", "a", "--before", "end", "-y")
    assert cluster.watermarks("a", 0) == (5, 5)
    cli("topics", "delete-records", "a", "--before", "-3", "-y", status=2)
    cli("topics", "delete-records", "a", "-p", "0", "--before", "77", "-y", status=1)
    assert "Error: partition 0:" in cli.errors


# --- groups ---


@pytest.fixture
def member(cluster: MockCluster) -> Iterator[Consumer]:
    """Yield a member of group `readers` that has read 3 of 5 messages of topic `a`."""
    cluster.create_topic("a", 2)
    fill(cluster, "a", 5)
    conf = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "readers",
        "client.id": "reader-1",
    }
    with Consumer(
        {**conf, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    ) as consumer:
        consumer.subscribe(["a"])
        seen = []
        deadline = time.monotonic() + WAIT_S
        while len(seen) < 3:
            assert time.monotonic() < deadline
            message = consumer.poll(0.2)
            seen += [] if message is None else [message]
        consumer.commit(message=seen[-1], asynchronous=False)
        yield consumer


def test_groups_are_listed_and_described(cli: Cli, member: Consumer) -> None:
    assert table(cli("groups", "list"))[1:] == [["readers", "stable", "classic"]]
    assert cli.json("groups", "list", "--state", "empty") == []
    assert [each["group"] for each in cli.json("groups", "list", "--type", "classic")] == [
        "readers"
    ]
    (found,) = cli.json("groups", "describe", "readers")
    assert (found["state"], found["type"]) == ("stable", "classic")
    (one,) = found["members"]
    assert (one["client_id"], one["member"]) == ("reader-1", member.memberid())
    assert one["partitions"] == [{"topic": "a", "partition": 0}, {"topic": "a", "partition": 1}]
    assert cli("groups", "describe", "readers").splitlines()[2].endswith("a:0-1")
    cli("groups", "describe", "nobody", status=1)
    assert cli.errors == "Error: group nobody: there is no such group\n"


def test_lag(cli: Cli, member: Consumer) -> None:
    lines = table(cli("groups", "lag", "readers"))
    assert lines[0] == ["group", "topic", "partition", "committed", "end", "lag", "client", "host"]
    assert lines[1][:7] == ["readers", "a", "0", "3", "5", "2", "reader-1"]
    assert lines[2][:7] == ["readers", "a", "1", "-", "0", "-", "reader-1"]
    assert lines[3] == ["total", "lag:", "2"]
    found = cli.json("groups", "lag", "readers", "nobody", status=1)
    assert found["total"] == 2
    assert "nobody: there is no such group" in cli.errors


def test_lag_is_watched_by_a_program(cli: Cli, cluster: MockCluster, member: Consumer) -> None:
    with started(
        "groups", "lag", "readers", "--watch", "0.1", "--json", "-b", cli.servers
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["total"] == 2
        member.commit(message=member.poll(WAIT_S), asynchronous=False)
        deadline = time.monotonic() + WAIT_S
        while json.loads(process.stdout.readline())["total"] != 1:
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 130


def test_a_watch_of_lag_goes_on_after_an_error(
    cli: Cli, cluster: MockCluster, member: Consumer
) -> None:
    with started(
        "groups", "lag", "readers", "--watch", "0.1", "--json", "-b", cli.servers
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["total"] == 2
        code = KafkaError.GROUP_AUTHORIZATION_FAILED
        cluster.push_request_errors(ApiKey.OFFSET_FETCH, [code])
        found = [json.loads(process.stdout.readline()) for _ in range(20)]
        [failed] = [each for each in found if each["errors"]]
        assert list(failed["errors"]) == ["readers"]
        assert found[-1]["total"] == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 130


def test_the_lag_of_other_groups_is_shown_beside_an_error(
    cli: Cli, cluster: MockCluster, member: Consumer
) -> None:
    code = KafkaError.GROUP_AUTHORIZATION_FAILED
    cluster.push_request_errors(ApiKey.OFFSET_FETCH, [code])
    shown = cli.json("groups", "lag", "refused", "readers", status=1)
    assert shown["total"] == 2
    assert cli.errors.startswith("Error: lag refused: ")


def test_lag_is_watched_at_a_terminal(cli: Cli, member: Consumer) -> None:
    with terminal("groups", "lag", "readers", "--watch", "-b", cli.servers) as screen:
        screen.wait_for("total lag: 2")
        assert "reader-1" in screen.shown
        member.commit(message=member.poll(WAIT_S), asynchronous=False)
        screen.wait_for("total lag: 1")
        screen.process.send_signal(signal.SIGINT)
        assert screen.end() == 130


def committed(cli: Cli, group: str) -> dict[int, int | None]:
    return {
        each["partition"]: each["committed"]
        for each in cli.json("groups", "lag", group)["partitions"]
    }


def test_reset_with_members_is_refused(cli: Cli, member: Consumer) -> None:
    cli("groups", "reset-offsets", "readers", "--to-earliest", "--execute", status=1)
    assert "group readers is stable, with 1 members: stop them first" in cli.errors
    assert committed(cli, "readers")[0] == 3


@pytest.mark.parametrize(
    ("options", "new"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 5),
        (["--to-current"], 3),
        (["--to-offset", "0"], 0),
        (["--to-offset", "4"], 4),
        (["--to-offset", "99"], 5),
        (["--shift-by", "0"], 3),
        (["--shift-by", "-2"], 1),
        (["--shift-by", "-7"], 0),
        (["--shift-by", "1"], 4),
        (["--to-datetime", "1970-01-01T00:33:20Z"], 1),
        (["--to-datetime", "2000001"], 2),
        (["--to-datetime", "1970-01-01T02:33:20+02:00"], 1),
        (["--to-datetime", "1969-12-31T23:59:59Z"], 0),
        (["--by-duration", "1h"], 5),
        (["--by-duration", "0s"], 5),
        (["--by-duration", "P36500D"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_reset(cli: Cli, member: Consumer, options: list[str], new: int) -> None:
    member.close()
    shown = cli.json("groups", "reset-offsets", "readers", "-t", "a:0", *options)
    assert [(each["committed"], each["new"]) for each in shown["partitions"]] == [(3, new)]
    assert shown["executed"] is False
    assert committed(cli, "readers") == {0: 3}, "a dry run"
    cli("groups", "reset-offsets", "readers", "-t", "a:0", *options, "--execute")
    assert committed(cli, "readers") == {0: new}


def test_reset_shows_what_it_would_do(cli: Cli, member: Consumer) -> None:
    member.close()
    text = cli("groups", "reset-offsets", "readers", "-t", "a", "--to-offset", "9")
    assert text.splitlines()[-1] == "group readers: nothing is changed without --execute"
    assert text.splitlines()[1].split() == [
        "a",
        "0",
        "3",
        "5",
        "2",
        "9",
        "is",
        "after",
        "the",
        "end",
    ]
    cli("groups", "reset-offsets", "readers", "--to-earliest", "--to-latest", status=2)
    cli("groups", "reset-offsets", "readers", status=2)
    cli("groups", "reset-offsets", "readers", "-t", "a:7", "--to-latest", status=1)
    assert "topic a has no partition 7: it has 2" in cli.errors
    cli("groups", "reset-offsets", "nobody", "--to-latest", status=1)
    assert "group nobody has no offsets: name the topics" in cli.errors


def test_a_reset_that_fails_for_a_partition_says_so(
    cli: Cli, cluster: MockCluster, member: Consumer
) -> None:
    member.close()
    code = KafkaError.OFFSET_METADATA_TOO_LARGE
    cluster.push_request_errors(ApiKey.OFFSET_COMMIT, [code])
    reset = ("groups", "reset-offsets", "readers", "--to-earliest", "--execute")
    text = cli(*reset, status=1)
    assert text.splitlines()[-1] == "group readers: not all offsets are committed"


def test_groups_are_deleted(cli: Cli, member: Consumer) -> None:
    cli("groups", "delete", "readers", "-y", status=1)
    assert "Error: group readers:" in cli.errors
    member.close()
    cli("groups", "delete", "readers", status=2)
    assert cli("groups", "delete", "readers", "-y") == "group readers: deleted\n"
    assert cli.json("groups", "list") == []


# --- settings ---


def test_settings(cli: Cli, cluster: MockCluster) -> None:
    cluster.create_topic("a", configs={"retention.ms": "5000"})
    cluster.create_topic("b")
    shown = cli.json("configs", "describe", "topic", "a", "b")
    assert [(each["resource"], each["name"], each["value"], each["source"]) for each in shown] == [
        ("a", "min.insync.replicas", "1", "dynamic_default_broker_config"),
        ("a", "retention.ms", "5000", "dynamic_topic_config"),
        ("b", "min.insync.replicas", "1", "dynamic_default_broker_config"),
    ]
    everything = cli.json("configs", "describe", "topic", "b", "--all")
    assert {"retention.ms": "604800000"}.items() <= {
        each["name"]: each["value"] for each in everything
    }.items()
    (one,) = cli.json("configs", "describe", "topic", "b", "-k", "segment.bytes")
    assert one["default"] is True
    assert cli.json("configs", "describe", "broker", "1", "--all")
    cli("configs", "describe", "topic", "b", "-k", "no.such", status=1)
    assert "there is no such setting" in cli.errors
    cli("configs", "describe", "topic", "nothing", status=1)
    assert "Error: topic nothing:" in cli.errors


def test_settings_are_changed(cli: Cli, cluster: MockCluster) -> None:
    cluster.create_topic("a", configs={"retention.ms": "5000"})
    command = ["configs", "set", "topic", "a", "retention.ms=77", "cleanup.policy=compact"]
    tried = cli.json(*command, "--dry-run")
    assert tried["changes"][0] == {"name": "retention.ms", "before": "5000", "after": "77"}
    assert cluster.topics["a"].configs == {"retention.ms": "5000"}
    text = cli(*command)
    assert text.splitlines()[0] == "topic a: changed"
    assert table(text)[2:] == [
        ["retention.ms", "5000", "77"],
        ["cleanup.policy", "delete", "compact"],
    ]
    assert cluster.topics["a"].configs == {"retention.ms": "77", "cleanup.policy": "compact"}
    cli("configs", "unset", "topic", "a", "retention.ms")
    assert cluster.topics["a"].configs == {"cleanup.policy": "compact"}
    cli("configs", "set", "topic", "a", "no.such=1", status=1)
    assert "no.such" in cli.errors
    cli("configs", "set", "topic", "a", "retention.ms=1", "retention.ms=2", status=2)
    cli("configs", "set", "topic", "a", "retention.ms", status=2)


def test_list_settings_are_extended_and_reduced(cli: Cli, cluster: MockCluster) -> None:
    def value_after(before: str | None, written: str) -> str:
        entry = None if before is None else ConfigEntry("cleanup.policy", before)
        return str(configs.change_record(entry, configs.change(written))["after"])

    assert value_after("delete", "cleanup.policy+=compact") == "delete,compact"
    assert value_after("delete", "cleanup.policy+=delete") == "delete"
    assert value_after("delete,compact", "cleanup.policy-=delete") == "compact"
    assert value_after(None, "cleanup.policy=") == ""
    assert value_after("a", "cleanup.policy=b=c") == "b=c"
    cluster.create_topic("a")
    cli("configs", "set", "topic", "a", "cleanup.policy+=compact")
    assert cluster.topics["a"].configs == {"cleanup.policy": "delete,compact"}
    cli("configs", "set", "topic", "a", "cleanup.policy-=delete")
    assert cluster.topics["a"].configs == {"cleanup.policy": "compact"}
    cli("configs", "set", "topic", "a", "retention.ms+=1", status=1)
    assert "its type is not LIST" in cli.errors


def test_secrets_are_not_shown() -> None:
    before = ConfigEntry("ssl.key.password", None, is_sensitive=True)
    record = configs.change_record(before, configs.change("ssl.key.password=hunter2"))
    assert record == {"name": "ssl.key.password", "before": "(secret)", "after": "(secret)"}


# --- the cluster ---


def test_cluster() -> None:
    with MockCluster(3, racks=["east", None, "west"]) as cluster:
        cli = Cli(cluster)
        found = cli.json("cluster")
        text = cli("cluster")
    assert (found["cluster_id"], found["controller"]) == (cluster.cluster_id, 1)
    assert [(each["broker"], each["rack"]) for each in found["brokers"]] == [
        (1, "east"),
        (2, None),
        (3, "west"),
    ]
    assert text.splitlines()[0] == f"cluster {cluster.cluster_id}, 3 brokers"


# --- errors of every command ---


@pytest.mark.parametrize(
    "words",
    [["topics", "list"], ["groups", "list"], ["cluster"], ["users", "list"], ["acls", "list"]],
    ids=" ".join,
)
def test_cluster_that_cannot_be_reached(words: list[str]) -> None:
    result = invoke(*words, "-b", "127.0.0.1:1", "-m", "0.5")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.stderr


def test_broker_errors_are_one_line(cli: Cli, cluster: MockCluster) -> None:
    def refuse(reply: Any) -> None:
        for topic in reply.topics:
            topic.error_code = KafkaError.POLICY_VIOLATION
            topic.error_message = "no more than 10 partitions"

    cluster.edit_responses(ApiKey.CREATE_TOPICS, refuse)
    cli("topics", "create", "a", status=1)
    assert cli.errors == "Error: topic a: no more than 10 partitions\n"


# --- changes ---


def test_times_have_one_format() -> None:
    for milliseconds, text in (
        (0, "1970-01-01T00:00:00.000"),
        (-2, "1969-12-31T23:59:59.998"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999"),
    ):
        assert texts.time_text(milliseconds) == f"{text}+00:00"
        assert texts.time_text(milliseconds, "Z") == f"{text}Z"
    assert texts.time_text(-1) is None
    for milliseconds in (253_402_300_800_000, 2**63 - 1, -(2**63), -62_135_596_800_001):
        assert (
            texts.time_text(milliseconds) == texts.time_text(milliseconds, "Z") == str(milliseconds)
        )
        message = Message("t", 0, 0, timestamp=(1, milliseconds))
        assert formats.render_of("%I")([message]) == str(milliseconds).encode()


def test_moments_and_spans() -> None:
    assert administration.moment("1970-01-01T00:00:01Z") == 1000
    assert administration.moment("1970-01-01T01:00:01+01:00") == 1000
    assert administration.moment("1700000000000") == 1_700_000_000_000
    assert [administration.span(each) for each in ("90s", "2h", "7d", "PT1M", "1m")] == [
        90_000,
        7_200_000,
        604_800_000,
        60_000,
        60_000,
    ]
    for wrong in ("soon", "12", "", "2026-13-01"):
        with pytest.raises(click.BadParameter):
            administration.moment(wrong)
    for wrong in ("soon", "12", "-1h", "h", ""):
        with pytest.raises(click.BadParameter):
            administration.span(wrong)
    for wrong in ("a:", ":1", "a:1,", "a:x", "a:-1"):
        with pytest.raises(click.BadParameter):
            administration.topic_partitions(wrong)
    assert administration.topic_partitions("a:3,1,3") == ("a", (3, 1))
    assert administration.numbers([5, 0, 1, 2, 7]) == "0-2,5,7"
