"""Bugs in the Python code of the client: a copy of the package with one changed file.

All other files of the copy are symbolic links. So a copy takes no time, and the bug can't get into
the package itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
COMMITS = "control/consumer/commits.py"
FETCHES = "control/consumer/fetches.py"
REBALANCE = "control/group/rebalance.py"
CLASSIC = "control/group/classic_membership.py"
CONSUMER = "control/group/consumer_membership.py"
HEARTBEATS = "control/group/heartbeats.py"
STICKY = "control/assignors/sticky.py"
COORDINATOR = "control/brokers/coordinator.py"
ROUTER = "control/producer/produce_router.py"
TRANSACTIONS = "control/producer/transactions.py"


class Mutant(NamedTuple):
    """A bug: a file of the package, pairs of old and new text, and the rules that it may break."""

    name: str
    what: str
    workload: str
    rules: set[str]
    file: str
    changes: tuple[tuple[str, str], ...]


MUTANTS = (
    Mutant(
        "commit-ahead",
        "The client commits messages that the application hasn't got yet",
        "positions",
        {"nothing_ahead"},
        COMMITS,
        (
            (
                "return OffsetPosition(assigned.processed, assigned.position_epoch)",
                "return OffsetPosition(assigned.cursor.high_watermark, assigned.position_epoch)",
            ),
        ),
    ),
    Mutant(
        "commit-too-early",
        "The client commits the message that the application is processing",
        "positions",
        {"nothing_ahead"},
        COMMITS,
        (("if self._snapshot and not self._dealt_with():", "if False:"),),
    ),
    Mutant(
        "seek-undone",
        "A late reply about committed offsets replaces a newer seek",
        "positions",
        {"seek_is_honoured"},
        FETCHES,
        (
            (
                "if assigned.serial != serial or self.assigned.get(key) is not assigned:",
                "if self.assigned.get(key) is not assigned:",
            ),
            (
                "                else:\n                    self._take_committed(assigned, answers[key])",
                (
                    "                else:\n                    self._restart(assigned, None)\n"
                    "                    self._take_committed(assigned, answers[key])"
                ),
            ),
        ),
    ),
    Mutant(
        "pause-skips",
        "A pause takes the position for the offset of the last message",
        "positions",
        {"nothing_skipped"},
        FETCHES,
        (
            (
                "                self._restart(assigned, None)\n                assigned.paused = True",
                (
                    "                after = OffsetPosition(assigned.position + 1)\n"
                    "                self._restart(assigned, after if assigned.position >= 0 else None)\n"
                    "                assigned.paused = True"
                ),
            ),
        ),
    ),
    Mutant(
        "resume-rewinds",
        "After a pause or a new leader, messages come from the start of the fetch again",
        "positions",
        {"nothing_twice"},
        FETCHES,
        (
            (
                "OffsetPosition(self.position, self.position_epoch) if self.position >= 0 else",
                "OffsetPosition(self.position, self.position_epoch) if self.position < -1 else",
            ),
        ),
    ),
    Mutant(
        "pause-forgotten",
        "A paused partition is fetched again when its leader moves",
        "positions",
        {"paused_is_silent"},
        FETCHES,
        (
            (
                "if not (assigned.paused or assigned.failed",
                "if not (assigned.failed",
            ),
            ("if assigned is None or assigned.paused or assigned.failed", "if assigned is None"),
        ),
    ),
    Mutant(
        "revoked-commit",
        "The client commits offsets of a partition that another member owns",
        "group",
        {"fenced", "commits_never_go_back"},
        COMMITS,
        (
            (
                "strange = [key for key in wanted if key not in owned]",
                "strange: list[Key] = []",
            ),
        ),
    ),
    Mutant(
        "revoked-uncommitted",
        "A revoked partition's last messages aren't committed",
        "group",
        {"nothing_twice"},
        REBALANCE,
        (("        self._commits.flush(gone, done)\n", "        done()\n"),),
    ),
    Mutant(
        "revoked-delivered",
        "A revoked partition's messages are still delivered",
        "group",
        {"only_what_is_owned", "nothing_twice"},
        REBALANCE,
        (
            (
                "                cursor.stop()  # no message is delivered after",
                "                pass  # no message is delivered after",
            ),
            ("        self._remove(gone)\n", ""),
        ),
    ),
    Mutant(
        "committed-ignored",
        "A new owner ignores the committed offset",
        "group",
        {"nothing_twice"},
        FETCHES,
        (("if found is not None and found.offset >= 0:", "if found is not None and False:"),),
    ),
    Mutant(
        "older-commit-wins",
        "A commit that is sent again replaces a newer one",
        "commits",
        {"last_commit_wins"},
        COMMITS,
        (("self._commits[:0] = again", "self._commits += again"),),
    ),
    Mutant(
        "refused-commit",
        "A refused commit is reported as done",
        "commits",
        {"commits_are_true"},
        COMMITS,
        (
            (
                '            if code:\n                text = f"offset of',
                '            if False:\n                text = f"offset of',
            ),
        ),
    ),
    Mutant(
        "unanswered-end",
        "The end of a transaction that got no answer counts as done",
        "transactions",
        {"committed_is_there", "offsets_go_along"},
        TRANSACTIONS,
        (
            (
                "        code = error.code()\n        if code in TRANSACTION_RETRIABLE_ERRORS:",
                (
                    "        code = error.code()\n"
                    "        if isinstance(reply, KafkaError) and take == self._on_ended:\n"
                    "            self._ended()\n"
                    "        elif code in TRANSACTION_RETRIABLE_ERRORS:"
                ),
            ),
        ),
    ),
    Mutant(
        "partial-commit",
        "A commit succeeds although a message of it wasn't delivered",
        "transactions",
        {"committed_is_whole"},
        TRANSACTIONS,
        (("        self._lose(error, number)\n", "        return\n"),),
    ),
    Mutant(
        "offsets-unsent",
        "A transaction's offsets aren't sent",
        "transactions",
        {"offsets_go_along"},
        TRANSACTIONS,
        (
            (
                "        if kind is Kind.OFFSETS and operation is not None and operation.member is",
                (
                    "        if kind is Kind.OFFSETS:\n            self._finish(None)\n            return None\n"
                    "        if kind is Kind.OFFSETS and operation is not None and operation.member is"
                ),
            ),
        ),
    ),
    Mutant(
        "end-unsent",
        "The producer believes that nothing was written, and ends nothing",
        "transactions",
        {"committed_is_there", "aborted_is_hidden"},
        TRANSACTIONS,
        (
            (
                "        if self._implicit:\n            self._touched = True\n",
                "        if self._implicit:\n",
            ),
        ),
    ),
    Mutant(
        "eager-keeps",
        "A member joins again and keeps its partitions, with a protocol that forbids it",
        "group",
        {"one_owner", "nothing_twice"},
        CLASSIC,
        (
            (
                'if self._protocol == "EAGER":\n            return set',
                "if False:\n            return set",
            ),
        ),
    ),
    Mutant(
        "fenced-goes-on",
        "A member of the classic protocol that the group has removed goes on",
        "group",
        {"the_fenced_give_up"},
        CLASSIC,
        (
            (
                "elif code == KafkaError.ILLEGAL_GENERATION:\n            self._lose(State.UNJOINED, reason)",
                "elif code == KafkaError.ILLEGAL_GENERATION:\n            self._reason = reason",
            ),
        ),
    ),
    Mutant(
        "moved-at-once",
        "A partition gets a new owner before the old one gives it up",
        "group-cooperative",
        {"one_owner"},
        STICKY,
        (("if not claims.is_held_by_another(key, member_id)]", "if key]"),),
    ),
    Mutant(
        "early-heartbeat",
        "A member reports partitions as revoked that the application still reads",
        "group-consumer",
        {"one_owner"},
        CONSUMER,
        (
            (
                "            self._in_step = True\n            # this name is another topic by now",
                (
                    "            self._in_step = True\n"
                    "            for key in revoked:\n"
                    "                self._owned.pop(key)\n"
                    "            self._send_at = self._clock()"
                ),
            ),
        ),
    ),
    Mutant(
        "fenced-epoch-goes-on",
        "A member of the consumer protocol that the group has removed goes on",
        "group-consumer",
        {"the_fenced_give_up"},
        HEARTBEATS,
        (
            (
                "            self._lose(State.LOSING)\n        elif code in HEARTBEAT_FATAL",
                ("            self._send_at = self._join_at\n        elif code in HEARTBEAT_FATAL"),
            ),
        ),
    ),
    Mutant(
        "coordinator-kept",
        "The group's coordinator isn't looked up again",
        "commits",
        {"goes_on"},
        COORDINATOR,
        (("            self.lost()\n            return True", "            return True"),),
    ),
    Mutant(
        "leader-kept",
        "A leader's refusal doesn't make the producer look for the new leader",
        "leaders",
        {"every_message_has_a_report"},
        ROUTER,
        (
            (
                (
                    "        self._metadata.on_hint(name, event.partition, event.leader_id, "
                    "event.leader_epoch, now)\n"
                ),
                "",
            ),
        ),
    ),
)


def mutated(mutant: Mutant) -> str:
    """Return the changed text of the file. Each old text must be there once."""
    text = (ROOT / "kafka_native" / mutant.file).read_text()
    for old, new in mutant.changes:
        assert text.count(old) == 1, (
            f"{mutant.name}: {mutant.file} has {text.count(old)} of {old!r}"
        )
        text = text.replace(old, new)
    return text


def plant(mutant: Mutant, folder: Path) -> None:
    """Make the package with the bug in a folder, beside a link to the tests."""
    original, copy = ROOT / "kafka_native", folder / "kafka_native"
    parts = Path(mutant.file).parts
    for depth in range(len(parts)):
        here = Path(*parts[:depth])
        (copy / here).mkdir(parents=True)
        for each in (original / here).iterdir():
            if each.name not in (parts[depth], "__pycache__"):
                (copy / here / each.name).symlink_to(each)
    (copy / mutant.file).write_text(mutated(mutant))
    for name in ("tests", "dev"):
        (folder / name).symlink_to(ROOT / name)
