"""Short runs of groups under chaos. ``python -m tests.broker.chaos`` makes long ones.

The first tests check the rules themselves.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.chaos import commit_log, figures
from tests.broker.chaos.history import Commit, History, Life, Migration, Round
from tests.broker.chaos.planted import BUGS
from tests.broker.chaos.run import Options, Run
from tests.broker.chaos.verify import RULES, violations
from tests.broker.cluster import Cluster
from tests.harness.runs import each_break

T, K = "t", ("t", 0)


def life_of(history: History, name: str, events: list[tuple[float, str, object]]) -> Life:
    """Return a member with its log."""
    life = Life(name, 0, Path("none"), 0.0, ready=0.0)
    history.lives.append(life)
    for at, event, more in events:
        extra = {"got": "m", "committed": "o"}.get(event, "p")
        life.take({"t": at, "e": event, **({} if more is None else {extra: more})})
    return life


def good() -> History:
    """Member a reads five messages, commits and freezes. b takes over and reads the rest.

    a notices later.
    """
    history = History(session_s=6.0, max_poll_s=8.0, settle_s=30.0)
    history.acked = {K: {offset: 100 + offset for offset in range(10)}}
    a = life_of(
        history,
        "a",
        [
            (1.0, "assigned", [K]),
            (2.0, "got", [[*K, 0, [100, 101, 102, 103, 104]]]),
            (2.5, "committed", [[*K, 5]]),
            (3.0, "got", [[*K, 5, [105]]]),
        ],
    )
    a.pauses.append((4.0, 20.0))
    b = life_of(
        history,
        "b",
        [
            (10.5, "assigned", [K]),
            (11.0, "got", [[*K, 5, [105, 106, 107, 108, 109]]]),
            (12.0, "committed", [[*K, 10]]),
            (22.0, "revoked", [K]),
            (23.0, "closing", None),
            (23.1, "closed", None),
        ],
    )
    a.take({"t": 20.5, "e": "lost", "p": [K]})
    a.end(24.0, "closed")
    b.end(24.0, "closed")
    history.commits = [Commit(2.4, K, 5, "a"), Commit(11.9, K, 10, "b")]
    history.rounds = [Round(20.0, 21.0)]
    return history


def test_a_good_history_breaks_no_rule_and_has_figures() -> None:
    history = good()
    assert violations(history) == []
    text = "\n".join(figures.lines(history))
    assert "10 acked, 10 handed out, 1 of them again" in text
    assert "assignments that began before an expelled member knew: 1" in text
    history.seconds, history.generations = 30.0, 4
    found = figures.recorded(history)
    assert (found["rebalances_per_minute"], found["members"]) == (8.0, 2)


def skipped_for_ever(history: History) -> None:
    del history.lives[1].assignments[0].got[2]


def others_messages(history: History) -> None:
    history.acked[K][7] = 999


def swapped(history: History) -> None:
    got = history.lives[1].assignments[0].got
    got[1], got[2] = got[2], got[1]


def began_elsewhere(history: History) -> None:
    del history.lives[1].assignments[0].got[:1]


def handed_out_without_owning(history: History) -> None:
    history.lives[1].take({"t": 22.5, "e": "got", "m": [[*K, 10, [110]]]})


def both_at_once(history: History) -> None:
    history.lives[0].pauses.clear()


def expelled_too_soon(history: History) -> None:
    history.lives[0].pauses = [(9.0, 20.0)]


def never_noticed(history: History) -> None:
    history.lives[0].assignments[0].end = 40.0


def late_commit(history: History) -> None:
    history.commits.append(Commit(20.2, K, 10, "a"))


def commit_of_a_stranger(history: History) -> None:
    history.commits.append(Commit(20.2, K, 10, "c"))


def committed_ahead(history: History) -> None:
    history.commits[0] = Commit(1.5, K, 5, "a")


def committed_back(history: History) -> None:
    history.commits.append(Commit(12.5, K, 9, "b"))


def commit_that_is_not_there(history: History) -> None:
    history.lives[1].take({"t": 12.5, "e": "committed", "o": [[*K, 11]]})


def commit_that_came_later(history: History) -> None:
    history.lives[1].take({"t": 11.5, "e": "committed", "o": [[*K, 10]]})


def never_stable(history: History) -> None:
    history.rounds.append(Round(30.0, None, "no owner"))


def died(history: History) -> None:
    history.lives[1].how = "died"


def fatal(history: History) -> None:
    history.lives[1].take({"t": 12.5, "e": "error", "text": "_FENCED", "fatal": True})


def slow_close(history: History) -> None:
    history.lives[1].closing = (23.0, 80.0)
    history.lives[1].ended = 81.0


def ends_uncommitted(history: History) -> None:
    del history.commits[-1]


BREAKS = {
    "nothing_lost": [skipped_for_ever, others_messages],
    "in_order": [swapped, skipped_for_ever],
    "from_the_committed": [began_elsewhere],
    "only_what_is_owned": [handed_out_without_owning],
    "one_owner": [both_at_once, expelled_too_soon, never_noticed],
    "fenced": [late_commit, commit_of_a_stranger],
    "nothing_ahead": [committed_ahead, committed_back],
    "commits_are_true": [commit_that_is_not_there, commit_that_came_later],
    "settles": [never_stable],
    "good_ends": [died, fatal, slow_close],
    "all_was_committed": [ends_uncommitted],
}


@each_break(BREAKS)
def test_each_rule_can_be_broken(rule: str, break_it: Callable[[History], None]) -> None:
    history = good()
    break_it(history)
    assert rule in {text.split(":")[0] for text in violations(history)}


def test_an_unanswered_commit_may_be_carried_out_late(tmp_path: Path) -> None:
    history = good()
    committed_back(history)
    life = history.life("b")
    life.path = tmp_path / "b.log"
    life.path.with_suffix(".out").write_text(
        "b#consumer-1: ...: no response in time (API 12 v4, 2 requests waiting)\n"
    )
    assert violations(history) == []
    assert history.commits.pop().by == "b"
    history.commits.append(Commit(12.5, K, 9, "a"))
    assert "nothing_ahead" in {text.split(":")[0] for text in violations(history)}


def took_back_too_late(history: History) -> None:
    """Freeze member a again: then it takes an answer from before the freeze, and loses it."""
    a = history.lives[0]
    a.pauses[-1] = (4.0, 20.4)
    a.take({"t": 20.6, "e": "assigned", "p": [K]})
    a.take({"t": 20.7, "e": "lost", "p": [K]})
    a.end(24.0, "closed")


def test_a_frozen_member_may_take_an_old_assignment_but_commits_nothing() -> None:
    history = good()
    took_back_too_late(history)
    assert violations(history) == []
    history.commits.append(Commit(20.65, K, 10, "a"))
    assert "fenced" in {text.split(":")[0] for text in violations(history)}
    history = good()
    took_back_too_late(history)
    history.lives[0].pauses.clear()
    assert "one_owner" in {text.split(":")[0] for text in violations(history)}


def upgraded(history: History, at: float) -> None:
    """Let member a own its partition beside b, after a migration at this time."""
    a = history.lives[0]
    a.pauses.clear()
    history.migrations.append(Migration(at, to_consumer=True))
    history.commits.append(Commit(12.0, K, 6, "a"))


def test_a_migration_may_forget_the_members_of_the_classic_protocol() -> None:
    history = good()
    upgraded(history, 10.2)
    own = history.lives[0].assignments[0]
    own.end = 21.0
    rules = {text.split(":")[0] for text in violations(history)}
    assert rules == {"all_was_committed", "one_owner"}, "a could notice it long before"
    own.end = 14.0
    history.commits.append(Commit(12.1, K, 10, "b"))
    assert violations(history) == []


@pytest.mark.parametrize("at", [0.5, 10.6, None], ids=["before", "too late", "consumer"])
def test_no_other_migration_excuses_two_owners(at: float | None) -> None:
    history = good()
    upgraded(history, at or 10.2)
    history.lives[0].assignments[0].end = 14.0
    if at is None:
        history.lives[0].protocol = "consumer"
    assert "one_owner" in {text.split(":")[0] for text in violations(history)}


def test_every_rule_has_a_violation() -> None:
    assert set(BREAKS) == {rule.__name__ for rule in RULES}
    assert set().union(*(bug.rules for bug in BUGS.values())) <= set(BREAKS)


def test_a_log_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    log = tmp_path / "m.log"
    whole = json.dumps({"t": 1.0, "e": "assigned", "p": [[T, 0]]}) + "\n"
    log.write_text(whole + '{"t": 2.0, "e": "go')
    life = Life("m", 0, log, 0.0)
    life.feed()
    life.feed()
    assert list(life.owned) == [K]
    life.end(3.0, "killed")
    assert [(each.end, each.how) for each in life.assignments] == [(3.0, "killed")]


def test_commits_are_read_from_the_brokers_bytes() -> None:
    key = struct.pack(">hh5sh1si", 1, 5, b"group", 1, b"t", 3)
    assert commit_log.offset_key(key) == ("group", "t", 3)
    assert commit_log.offset_key(struct.pack(">hh5s", 2, 5, b"group")) is None
    assert commit_log.committed(struct.pack(">hqh2s", 1, 77, 2, b"m1")) == (77, "m1")
    assert commit_log.committed(struct.pack(">hqih2s", 3, 77, -1, 2, b"m1")) == (77, "m1")
    assert commit_log.committed(struct.pack(">hqib3s", 4, 77, -1, 4, b"m1\0")) == (77, "m1")
    assert (
        commit_log.generation(struct.pack(">hh1s", 3, 1, b"g"), struct.pack(">hi", 0, 12), "g")
        == 12
    )
    classic = struct.pack(">hh8si", 3, 8, b"consumer", 13)
    assert commit_log.generation(struct.pack(">hh1s", 2, 1, b"g"), classic, "g") == 13
    assert commit_log.generation(struct.pack(">hh1s", 2, 1, b"h"), classic, "g") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        Options("classic", "cooperative-sticky", "mixed"),
        Options("consumer", "", "ours", max_poll_s=7.0),
        Options("mixed", "cooperative-sticky", members=12, per_process=4, storm=True),
    ],
    ids=str,
)
def test_nothing_is_lost_and_each_partition_has_one_owner(
    owned3: Cluster, options: Options
) -> None:
    options.seconds = options.round_s = 10.0
    if not options.storm:
        options.fault_every_s = (0.1, 1.0)
    run = Run(owned3, options)
    history = run.run()
    print("\n".join([str(options), *figures.lines(history)]))
    assert violations(history) == [], f"the logs are in {run.directory}"
    assert history.faults
    assert history.generations
    assert bool(history.migrations) == (options.protocol == "mixed")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BUGS)
def test_every_planted_bug_of_a_member_is_caught(
    owned3: Cluster, name: str, record_property: Callable[[str, object], None]
) -> None:
    options = Options(seconds=8.0, commits="sync", bug=name, faults=("join", "leave"))
    options.settle_s = 10.0  # it never settles with some bugs
    run = Run(owned3, options)
    found = violations(run.run())
    print("\n".join([str(options), *found]))
    assert {text.split(":")[0] for text in found} & BUGS[name].rules
    record_property("caught", name)
