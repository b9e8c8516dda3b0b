"""One cause, one report: at once, once a minute while it lasts, and at its end."""

from __future__ import annotations

from kafka_native.control.outages import BURST_MAX, REMINDER_INTERVAL_S, SUBJECTS_MAX, Outages

from .fakes import Clock


def reported(
    outages: Outages, clock: Clock, subject: str, cause: str, seconds: float, every_s: float
) -> list[float]:
    """Return the seconds at which a repeated failure is reported."""
    start, found = clock.now, []
    while clock.now - start < seconds:
        if outages.is_due(subject, cause):
            found.append(clock.now - start)
        clock.now += every_s
    return found


def test_a_lasting_cause_is_reported_at_once_and_then_once_a_minute() -> None:
    clock = Clock()
    outages = Outages(clock)
    assert reported(outages, clock, "b1", "refused", 300, 0.25) == [0, 60, 120, 180, 240]
    assert outages.age_s("b1") == 300
    assert outages.end("b1") == 300
    assert outages.age_s("b1") == 0
    assert outages.end("b1") is None, "the end of the outage is reported once"


def test_another_cause_is_reported_at_once_and_so_is_another_subject() -> None:
    clock = Clock()
    outages = Outages(clock)
    assert [
        outages.is_due("b1", cause) for cause in ("refused", "timed out", "refused", "timed out")
    ] == [True, True, False, False]
    assert outages.is_due("b2", "refused")


def test_a_new_outage_is_reported_at_once() -> None:
    clock = Clock()
    outages = Outages(clock)
    assert outages.is_due("b1", "refused")
    clock.now += 5
    assert outages.end("b1") == 5
    clock.now += 5
    assert outages.is_due("b1", "refused")
    assert not outages.is_due("b1", "refused")


def test_an_intermittent_outage_is_soon_reported_once_a_minute() -> None:
    clock = Clock()
    outages = Outages(clock)
    reports, ends = [], 0
    start = clock.now
    while clock.now - start < 600:
        if outages.is_due("b1", "cut off"):
            reports.append(clock.now - start)
        clock.now += 0.5
        ends += outages.end("b1") is not None
        clock.now += 0.5
    assert reports[: int(BURST_MAX)] == [0, 1, 2]
    assert len(reports) <= BURST_MAX + 600 / REMINDER_INTERVAL_S
    assert ends == len(reports), "each end is reported as often as its outage"
    clock.now += 3 * REMINDER_INTERVAL_S
    assert outages.is_due("b1", "cut off")


def test_without_reminders_only_changes_are_reported() -> None:
    clock = Clock()
    outages = Outages(clock)
    assert outages.is_due("b1", "refused", reminds=False)
    clock.now += 10 * REMINDER_INTERVAL_S
    assert not outages.is_due("b1", "refused", reminds=False)
    assert outages.is_due("b1", "timed out", reminds=False)
    assert outages.is_due("b1", "refused")


def test_memory_is_bounded() -> None:
    outages = Outages(Clock())
    for number in range(2 * SUBJECTS_MAX):
        assert outages.is_due(number, "refused")
        assert not outages.is_due(number, "refused")
    assert len(outages._outages) == SUBJECTS_MAX
