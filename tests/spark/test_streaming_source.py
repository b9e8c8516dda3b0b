"""The stream source: the content of a micro-batch, and streams on the mock cluster."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from kafka_native.spark.admission import TriggerDelay, share_out
from kafka_native.spark.errors import DataLossError, OptionError
from kafka_native.spark.offsets import Key
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.ranges import OffsetRange
from kafka_native.spark.stream_reader import DISCOVERY_S, Planner, StreamReader, limits
from tests.spark.fake_cluster import Clock, FakeCluster, at, options, planner

# --- the size of a micro-batch ---


def test_limit_is_shared_in_proportion() -> None:
    assert share_out(at(t_0=0, t_1=0, t_2=10), at(t_0=600, t_1=300, t_2=110), 100) == at(
        t_0=60, t_1=30, t_2=20
    )


def test_small_partitions_are_not_starved_and_idle_ones_take_nothing() -> None:
    shared = share_out(at(t_0=0, t_1=0, t_2=7), at(t_0=1_000_000, t_1=1, t_2=7), 10)
    assert shared == at(t_0=9, t_1=1, t_2=7)
    # more partitions than the limit
    assert share_out(at(t_0=0, t_1=0), at(t_0=9, t_1=9), 1) == at(t_0=1, t_1=1)


def test_large_limit_takes_everything_and_a_truncated_partition_counts_as_empty() -> None:
    assert share_out(at(t_0=0, t_1=50), at(t_0=5, t_1=40), 100) == at(t_0=5, t_1=40)
    assert share_out(at(t_0=0, t_1=50), at(t_0=1000, t_1=40), 100) == at(t_0=100, t_1=40)


def test_huge_offsets_are_shared_exactly() -> None:
    far = (1 << 63) - 1
    assert share_out(at(t_0=far - 10, t_1=0), at(t_0=far, t_1=10), 10) == at(t_0=far - 5, t_1=5)


@pytest.mark.parametrize("limit", [1, 3, 10, 1000])
def test_batches_under_a_limit_end_exactly_at_the_end(limit: int) -> None:
    start, ends = at(t_0=0, t_1=3, t_2=40), at(t_0=17, t_1=4, t_2=40)
    for _ in range(30):
        start = share_out(start, ends, limit)
    assert start == ends


def test_patience_waits_for_enough_or_long_enough() -> None:
    clock = Clock()
    patience = TriggerDelay(60.0, clock)
    few, enough = at(t_0=5), at(t_0=10)
    assert patience.is_due(at(t_0=0), few, 10)  # the first one always
    assert not patience.is_due(at(t_0=0), few, 10)
    assert patience.is_due(at(t_0=0), enough, 10)
    clock.now += 59
    assert not patience.is_due(at(t_0=0), few, 10)
    clock.now += 1
    assert patience.is_due(at(t_0=0), few, 10)


# --- planning ---


def test_trigger_costs_one_request() -> None:
    cluster, clock = FakeCluster(t_0=5, t_1=5), Clock()
    plan = planner(cluster, clock)
    start = plan.initial()
    assert start == at(t_0=0, t_1=0)
    end = plan.latest(start)
    plan.ranges(start, end)
    cluster.asked.clear()
    cluster.grow(t_0=9)
    after = plan.latest(end)
    assert plan.ranges(end, after) == [OffsetRange("t", 0, 5, 9)]
    assert plan.ranges(end, after) == [OffsetRange("t", 0, 5, 9)]  # Spark calls again
    assert cluster.asked == ["latest"]
    clock.now += DISCOVERY_S
    plan.latest(after)
    assert cluster.asked == ["latest", "partitions", "latest"]


def test_assigned_partitions_are_never_asked_for_again() -> None:
    cluster, clock = FakeCluster(t_0=5), Clock()
    settings = SourceOptions.parse(
        {"kafka.bootstrap.servers": "nowhere:1", "assign": '{"t":[0]}'}
    ).for_stream()
    plan = Planner(settings, cluster, clock, clock.sleep)  # type: ignore[arg-type]
    plan.latest(at(t_0=0))
    clock.now += 1000
    plan.latest(at(t_0=0))
    assert cluster.asked.count("partitions") == 1


def test_new_partitions_and_topics_are_read_from_their_beginning() -> None:
    cluster, clock = FakeCluster(t_0=5), Clock()
    plan = planner(cluster, clock)
    start = plan.latest(plan.initial())
    cluster.grow(t_1=3, u_0=7)
    assert plan.latest(start) == start  # not noticed yet
    clock.now += DISCOVERY_S
    end = plan.latest(start)
    assert end == at(t_0=5, t_1=3, u_0=7)
    assert plan.ranges(start, end) == [OffsetRange("t", 1, 0, 3), OffsetRange("u", 0, 0, 7)]


def test_new_partitions_share_the_limit_from_their_beginning() -> None:
    cluster, clock = FakeCluster(t_0=500), Clock()
    plan = planner(cluster, clock)
    start = at(t_0=400)
    cluster.grow(u_0=100)
    clock.now += DISCOVERY_S
    end = plan.latest(start, 10)
    assert end == at(t_0=405, u_0=5)
    assert plan.ranges(start, end) == [OffsetRange("t", 0, 400, 405), OffsetRange("u", 0, 0, 5)]


def test_new_partition_without_its_first_records_is_data_loss() -> None:
    cluster = FakeCluster(t_0=5, u_0=7)
    cluster.begins = at(u_0=2)
    with pytest.raises(
        DataLossError, match=r"u \[0\].*the first record is gone.*failOnDataLoss=false"
    ):
        planner(cluster).ranges(at(t_0=5), at(t_0=5, u_0=7))
    assert planner(cluster, failOnDataLoss="false").ranges(at(t_0=5), at(t_0=5, u_0=7)) == [
        OffsetRange("u", 0, 2, 7)
    ]


def test_deleted_partitions_are_data_loss(caplog: pytest.LogCaptureFixture) -> None:
    cluster, clock = FakeCluster(t_0=5, u_0=7), Clock()
    start = at(t_0=2, u_0=7)
    cluster.drop("u")
    end = planner(cluster).latest(start)
    assert end == at(t_0=5)
    with pytest.raises(DataLossError, match=r"u \[0\]: gone"):
        planner(cluster).ranges(start, end)
    plan = planner(cluster, clock, failOnDataLoss="false")
    assert plan.ranges(start, end) == [OffsetRange("t", 0, 2, 5)]
    assert "u [0]: gone" in caplog.text


def test_topic_deleted_between_discoveries_is_noticed_at_once() -> None:
    cluster = FakeCluster(t_0=5, u_0=7)
    plan = planner(cluster)
    start = plan.latest(plan.initial())
    cluster.drop("u")
    assert plan.latest(start) == at(t_0=5)


@pytest.mark.parametrize("answers", [1, 5])
def test_partition_that_a_broker_does_not_know_yet_is_not_gone(answers: int) -> None:
    cluster, clock = FakeCluster(t_0=5, t_1=7, t_2=3), Clock()
    plan = planner(cluster, clock)
    start = plan.latest(plan.initial())
    clock.now += DISCOVERY_S
    cluster.grow(t_0=6)
    cluster.behind = [{("t", 1), ("t", 2)}, {("t", 1)}, *[{("t", 1), ("t", 2)}] * (answers - 1)]
    end = plan.latest(start)
    assert end == at(t_0=6, t_1=7, t_2=3)
    assert plan.ranges(start, end) == [OffsetRange("t", 0, 5, 6)]


def test_new_planner_searches_for_partitions_of_the_checkpoint() -> None:
    cluster = FakeCluster(t_0=5, t_1=7)
    cluster.behind = [{("t", 1)}] * 3
    plan = planner(cluster)
    assert plan.latest(at(t_0=2, t_1=6)) == at(t_0=5, t_1=7)


def test_partition_missing_for_the_propagation_time_is_gone() -> None:
    cluster, clock = FakeCluster(t_0=5, u_0=7), Clock()
    plan = planner(cluster, clock, **{"kafka.topic.metadata.propagation.max.ms": 3000})
    start = plan.latest(plan.initial())
    clock.now += DISCOVERY_S
    cluster.drop("u")
    cluster.asked.clear()
    before = clock.now
    assert plan.latest(start) == at(t_0=5)
    assert 3 <= clock.now - before < 4
    assert cluster.asked.count("partitions") > 3
    before = clock.now
    assert plan.latest(start) == at(t_0=5)  # it is known now
    clock.now += DISCOVERY_S
    assert plan.latest(start) == at(t_0=5)
    assert clock.now - before == DISCOVERY_S


def test_planner_searches_for_a_missing_partition_of_a_batch() -> None:
    cluster = FakeCluster(t_0=5, t_1=4)
    cluster.behind = [{("t", 1)}] * 2
    assert planner(cluster).ranges(at(t_0=5), at(t_0=5, t_1=4)) == [OffsetRange("t", 1, 0, 4)]


def test_available_now_reads_a_partition_found_after_its_end_was_fixed() -> None:
    cluster = FakeCluster(t_0=9, t_1=7)
    cluster.behind = [{("t", 1)}]
    plan = planner(cluster)
    plan.stop_at_the_end()
    start = at(t_0=5, t_1=3)
    end = plan.latest(start)
    assert end == at(t_0=9, t_1=7)
    assert plan.latest(end) == end


# --- a recreated topic ---


def recreate(cluster: FakeCluster, **ends: int) -> None:
    cluster.grow(**ends)
    cluster.topic_ids = {"t": "second"}


def test_recreated_topic_is_data_loss_even_if_it_is_longer() -> None:
    cluster, clock = FakeCluster(t_0=10), Clock()
    cluster.topic_ids = {"t": "first"}
    plan = planner(cluster, clock)
    start = plan.latest(plan.initial())
    recreate(cluster, t_0=60)
    clock.now += DISCOVERY_S
    end = plan.latest(start)
    with pytest.raises(DataLossError, match=r"t \[0\]: the topic was deleted and recreated"):
        plan.ranges(start, end)


@pytest.mark.parametrize("length", [3, 10, 60])
def test_recreated_topic_is_read_from_its_beginning_once(length: int) -> None:
    cluster, clock = FakeCluster(t_0=10, u_0=1), Clock()
    cluster.topic_ids = {"t": "first", "u": "other"}
    plan = planner(cluster, clock, failOnDataLoss="false")
    start = plan.latest(plan.initial())
    assert plan.latest(start) == start
    recreate(cluster, t_0=length)
    seen = []
    for topic_id in ("second", "first", "second", "second"):  # one broker is behind
        clock.now += DISCOVERY_S
        cluster.topic_ids = {"t": topic_id, "u": "other"}
        end = plan.latest(start, 1000)
        seen += plan.ranges(start, end)
        start = end
        cluster.grow(t_0=cluster.ends["t", 0] + 1)
    wanted = [offset for each in seen for offset in range(each.start, each.end)]
    assert wanted == list(range(start["t", 0]))
    assert {each.topic_id for each in seen} == {"second"}


def test_recreated_topic_with_the_same_end_is_read_too() -> None:
    cluster, clock = FakeCluster(t_0=10, t_1=0, u_0=3), Clock()
    cluster.topic_ids = {"t": "first", "u": "other"}
    plan = planner(cluster, clock, failOnDataLoss="false")
    start = plan.latest(plan.initial())
    recreate(cluster)
    clock.now += DISCOVERY_S
    first = plan.latest(start)
    assert first != start, "Spark makes a batch of it"
    assert plan.ranges(start, first) == [OffsetRange("t", 0, 0, 9)]
    second = plan.latest(first)
    assert plan.ranges(first, second) == [OffsetRange("t", 0, 9, 10)]
    assert plan.latest(second) == second


def test_ranges_have_the_ids_of_their_topics() -> None:
    cluster = FakeCluster(t_0=5, u_0=5)
    cluster.topic_ids = {"t": "first"}
    plan = planner(cluster)
    found = plan.ranges(plan.initial(), plan.latest(plan.initial()))
    assert [(each.topic, each.topic_id) for each in found] == [("t", "first"), ("u", "")]


def test_rows_as_ranges_include_lost_offsets() -> None:
    cluster, clock = FakeCluster(t_0=5, u_0=7), Clock()
    cluster.begins = at(v_0=2)
    given = {"failOnDataLoss": "false", "rows": "ranges", "maxRecordsPerPartition": 3}
    plan = planner(cluster, clock, **given)
    start = plan.latest(plan.initial(), 6)
    assert start == at(t_0=2, u_0=3)
    cluster.drop("u")
    cluster.grow(v_0=4)
    clock.now += DISCOVERY_S
    end = plan.latest(start)
    found = plan.ranges(start, end)
    assert [(*each.key, each.start, each.end, bool(each.lost)) for each in found] == [
        ("t", 0, 2, 5, False),
        ("v", 0, 2, 4, False),
        ("u", 0, 3, 7, True),
        ("v", 0, 0, 2, True),
    ]
    without = planner(cluster, clock, **{**given, "rows": "records"})
    assert not any(each.lost for each in without.ranges(start, end))


def test_truncated_partition_is_asked_again_and_then_is_data_loss(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster(t_0=3)
    plan = planner(cluster)
    end = plan.latest(at(t_0=5))
    assert end == at(t_0=3)
    assert cluster.asked.count("latest") == 1 + 3  # fetchOffset.numRetries
    with pytest.raises(
        DataLossError, match=r"offset 5 was reached, but now the partition ends at 3"
    ):
        plan.ranges(at(t_0=5), end)
    assert planner(cluster, failOnDataLoss="false").ranges(at(t_0=5), end) == []
    assert "ends at 3" in caplog.text


def test_planner_waits_for_an_end_that_a_new_leader_does_not_know_yet() -> None:
    cluster = FakeCluster(t_0=3)
    real = cluster.latest

    def latest(keys: Iterable[Key]) -> dict[Key, int]:
        found = real(keys)
        cluster.grow(t_0=6)
        return found

    cluster.latest = latest  # type: ignore[method-assign]
    assert planner(cluster).latest(at(t_0=5)) == at(t_0=6)


def test_ranges_are_split() -> None:
    cluster = FakeCluster(t_0=100)
    assert len(planner(cluster, minPartitions=4).ranges(at(t_0=0), at(t_0=100))) == 4
    pieces = planner(cluster, maxRecordsPerPartition=30).ranges(at(t_0=0), at(t_0=100))
    assert [(each.start, each.end) for each in pieces] == [(0, 25), (25, 50), (50, 75), (75, 100)]


def test_minimum_delays_a_batch_until_there_is_enough() -> None:
    cluster, clock = FakeCluster(t_0=5), Clock()
    plan = planner(cluster, clock, maxTriggerDelay="10s")
    start = plan.latest(at(t_0=0), None, 100)
    assert start == at(t_0=5)  # the first one isn't delayed
    cluster.grow(t_0=50)
    assert plan.latest(start, None, 100) == start
    cluster.grow(t_0=105)
    assert plan.latest(start, 10, 100) == at(t_0=15)
    clock.now += 10
    assert plan.latest(at(t_0=100), None, 100) == at(t_0=105)


# --- where a query starts, and starts again ---


def test_initial_offsets_stay_the_same_and_are_the_first_batch_of_a_query_from_latest() -> None:
    cluster = FakeCluster(t_0=5)
    plan = planner(cluster, startingOffsets="latest")
    start = plan.initial()
    assert start == at(t_0=5)
    cluster.grow(t_0=8)
    first = plan.latest(start)
    assert first == start  # empty: so the checkpoint has the start
    assert plan.initial() == start
    assert plan.ranges(start, first) == []
    assert plan.latest(first) == at(t_0=8)


def test_first_batch_from_latest_is_planned_again_after_a_crash_without_loss() -> None:
    cluster = FakeCluster(t_0=9, t_1=4)
    plan = planner(cluster, startingOffsets="latest")
    # Spark calls again, because the first batch's start isn't in its checkpoint
    start = plan.initial()
    recorded = at(t_0=5)
    assert plan.ranges(recorded, recorded) == []
    assert plan.ranges(start, recorded) == []
    end = plan.latest(recorded)
    assert end == at(t_0=9, t_1=4)
    assert plan.ranges(recorded, end) == [OffsetRange("t", 0, 5, 9), OffsetRange("t", 1, 0, 4)]


def test_first_batch_from_named_offsets_is_planned_again_after_a_crash() -> None:
    cluster = FakeCluster(t_0=9)
    plan = planner(cluster, startingOffsets='{"t":{"0":3}}')
    assert plan.ranges(plan.initial(), at(t_0=6)) == [OffsetRange("t", 0, 3, 6)]


def test_start_offsets_beyond_the_end_are_data_loss() -> None:
    cluster = FakeCluster(t_0=9)
    plan = planner(cluster, startingOffsets='{"t":{"0":50}}')
    start = plan.initial()
    with pytest.raises(DataLossError, match="offset 50"):
        plan.ranges(start, plan.latest(start))


def test_older_pyspark_that_gives_no_start_is_limited_from_the_second_batch_on() -> None:
    cluster = FakeCluster(t_0=100)
    plan = planner(cluster)
    first = plan.latest(plan.seen, 10)
    assert first == at(t_0=100)  # its start is unknown, so it can't be counted
    assert plan.ranges(plan.initial(), first) == [OffsetRange("t", 0, 0, 100)]
    cluster.grow(t_0=200)
    assert plan.latest(plan.seen, 10) == at(t_0=110)


def test_older_pyspark_that_asks_for_the_end_first_starts_no_later() -> None:
    cluster = FakeCluster(t_0=5)
    plan = planner(cluster, startingOffsets="latest")
    end = plan.latest(plan.seen)
    cluster.grow(t_0=7)
    assert plan.initial() == end == at(t_0=5)
    assert plan.ranges(plan.initial(), end) == []
    assert plan.latest(plan.seen) == at(t_0=7)


# --- Trigger.AvailableNow ---


def test_available_now_ends_where_the_partitions_ended() -> None:
    cluster = FakeCluster(t_0=100, t_1=10)
    plan = planner(cluster)
    plan.stop_at_the_end()
    start = plan.initial()
    cluster.grow(t_0=1000, u_0=5)
    seen = []
    while (end := plan.latest(start, 40, 1000)) != start:  # a minimum would keep it from ending
        assert len(seen) < 10
        seen.append(sum(each.size for each in plan.ranges(start, end)))
        start = end
    assert start == at(t_0=100, t_1=10)
    assert sum(seen) == 110
    assert max(seen) <= 41


def test_pipeline_may_end_at_a_time() -> None:
    cluster = FakeCluster(t_0=10, t_1=10)
    cluster.by_time = at(t_0=4)
    plan = planner(cluster, endingTimestamp=1000, rows="ranges")
    end = plan.latest(plan.initial())
    assert end == at(t_0=4, t_1=10)
    assert plan.ranges(plan.initial(), end) == [
        OffsetRange("t", 0, 0, 4),
        OffsetRange("t", 1, 0, 10),
    ]
    cluster.grow(t_1=20)
    assert plan.latest(end) == end
    again = planner(cluster, endingTimestamp=1000, rows="ranges")  # after more was read
    assert again.latest(at(t_0=7, t_1=10)) == at(t_0=7, t_1=20)
    with pytest.raises(OptionError, match="a stream has no end"):
        options(endingTimestamp=1000)


def test_available_now_from_latest_reads_nothing_and_ends() -> None:
    cluster = FakeCluster(t_0=100)
    plan = planner(cluster, startingOffsets="latest")
    plan.stop_at_the_end()
    cluster.grow(t_0=120)
    start = plan.initial()
    assert plan.latest(start) == start
    assert plan.latest(start) == start
    assert plan.ranges(start, start) == []


def test_available_now_of_a_truncated_partition_ends_too() -> None:
    cluster = FakeCluster(t_0=3)
    plan = planner(cluster, failOnDataLoss="false")
    plan.stop_at_the_end()
    end = plan.latest(at(t_0=5))
    assert end == at(t_0=3)
    assert plan.latest(end) == end


# --- the interface to Spark ---


def reader(cluster: FakeCluster, **given: Any) -> StreamReader:
    made, clock = StreamReader(options(**given)), Clock()
    made._planner = Planner(made.options, cluster, clock, clock.sleep)  # type: ignore[arg-type]
    return made


def test_offsets_are_in_the_connectors_json() -> None:
    made = reader(FakeCluster(b_10=1, b_9=2, a_0=3))
    assert list(made.latestOffset({}, None).items()) == [("a", {"0": 3}), ("b", {"9": 2, "10": 1})]
    assert made.initialOffset() == {"a": {"0": 0}, "b": {"9": 0, "10": 0}}
    assert made.reportLatestOffset() == {"a": {"0": 3}, "b": {"9": 2, "10": 1}}


@pytest.mark.parametrize("rows", ["records", "ranges"])
def test_batch_that_runs_again_after_a_restart_has_the_ids_of_its_topics(rows: str) -> None:
    """Spark has the batch's offsets, and plans it before it asks for an end."""
    cluster = FakeCluster(t_0=100)
    cluster.topic_ids = {"t": "its id"}
    [found] = reader(cluster, rows=rows).partitions({"t": {"0": 50}}, {"t": {"0": 100}})
    assert (found, found.topic_id) == (OffsetRange("t", 0, 50, 100), "its id")
    assert cluster.asked == ["partitions"]


def test_checkpoint_of_the_jvm_connector_continues_unchanged() -> None:
    made = reader(FakeCluster(events_0=1248500, events_1=7))
    recorded = {"events": {"1": 7, "0": 1248500}}  # its order of partitions differs
    assert made.latestOffset(recorded, None) is recorded
    assert made.partitions(recorded, recorded) == []
    before = {"events": {"1": 7, "0": 1248000}}
    assert made.partitions(before, recorded) == [OffsetRange("events", 0, 1248000, 1248500)]


@pytest.mark.parametrize(
    "bad", [{"t": {"0": -1}}, {"t": {"x": 1}}, {"t": 5}, {"t": {"0": "5"}}, {"t": {"0": True}}]
)
def test_checkpoint_that_is_not_ours_is_refused(bad: Mapping[str, Any]) -> None:
    with pytest.raises(OptionError, match="checkpoint"):
        reader(FakeCluster(t_0=5)).partitions(dict(bad), {"t": {"0": 5}})


@pytest.mark.skipif(limits is None, reason="PySpark before 4.2 has no limits")
def test_options_set_the_read_limit_and_read_all_overrides_it() -> None:
    cluster = FakeCluster(t_0=100)
    assert reader(cluster).getDefaultReadLimit() == limits.ReadAllAvailable()
    assert reader(cluster, minOffsetsPerTrigger=5).getDefaultReadLimit() == limits.ReadMinRows(5)
    both = reader(cluster, minOffsetsPerTrigger=5, maxOffsetsPerTrigger=10)
    assert both.getDefaultReadLimit() == limits.ReadMaxRows(10)
    assert both.latestOffset({"t": {"0": 0}}, limits.ReadMaxRows(10)) == {"t": {"0": 10}}
    # fewer than 5
    assert both.latestOffset({"t": {"0": 97}}, limits.ReadMaxRows(10)) == {"t": {"0": 97}}
    assert both.latestOffset({"t": {"0": 0}}, limits.ReadAllAvailable()) == {"t": {"0": 100}}


def test_tasks_get_a_copy_without_connection_and_no_secret_is_shown() -> None:
    made = reader(FakeCluster(t_0=5), **{"kafka.ssl.key.password": "hunter2"})
    copy = pickle.loads(pickle.dumps(made))
    assert copy.options == made.options
    assert copy.options.consumer["ssl.key.password"] == "hunter2"
    assert "hunter2" not in repr(made) + str(made) + repr(made.options) + repr(made._planner)


def test_stop_closes_the_connection() -> None:
    cluster = FakeCluster(t_0=5)
    reader(cluster).stop()
    assert cluster.asked == ["close"]


def test_fetch_behind_a_range_does_not_hold_up_the_next_one() -> None:
    assert int(options().consumer["fetch.wait.max.ms"]) <= 10
    assert options(**{"kafka.fetch.max.wait.ms": 500}).consumer["fetch.wait.max.ms"] == "500"
