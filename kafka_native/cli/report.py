"""The table of ``kafka-native perf``."""

from __future__ import annotations

from kafka_native.cli.perf import Outcome
from kafka_native.terminal.output import CleanTable


def table(outcomes: list[Outcome], title: str) -> CleanTable:
    """Make the table: one row for each codec."""
    made = CleanTable(
        title=title,
        box=None,  # with lines the table is wider than 80 columns
        padding=(0, 0, 0, 2),
        caption="CPU: this process alone. Latency: one message at a time, acknowledged.",
    )
    made.add_column("\n\ncodec", no_wrap=True)
    headings = ["produce\nmillion\nmsg/s", "\n\nMiB/s", "\nCPU us\na msg"]
    headings += [heading.replace("produce", "consume") for heading in headings]
    headings += ["latency\np50\nms", "\np99\nms", "\np99.9\nms"]
    for heading in headings:
        made.add_column(heading, justify="right", no_wrap=True)
    for outcome in outcomes:
        cells = [outcome.codec]
        for rate in (outcome.produce, outcome.consume):
            cells += [
                f"{rate.per_second / 1e6:.2f}",
                f"{rate.mib_per_second:.0f}",
                f"{rate.cpu_us:.3f}",
            ]
        latency = outcome.latency
        cells += [
            f"{milliseconds:.2f}" for milliseconds in (latency.p50, latency.p99, latency.p999)
        ]
        made.add_row(*cells)
    return made
