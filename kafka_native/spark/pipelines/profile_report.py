"""A profile as one HTML file with charts, without scripts. Texts from the data are escaped."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from html import escape as escape_html
from typing import TYPE_CHECKING, Any, Final

from kafka_native.cleaning import escaped
from kafka_native.spark.pipelines.profile import PartitionProfile, Profile, TopicProfile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["html_of"]

BLUE, ORANGE = "#2f6f9f", "#e08a3c"
BARS_MAX: Final = 60
POINTS_MAX: Final = 300
ROWS_MAX: Final = 500
IDS_SHOWN: Final = 10
KEY_MAX_CHARACTERS: Final = 80
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SIZED: Final = ("value", "key", "headers", "record")

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1100px;
  margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; }
h2 { margin-top: 2.2em; border-bottom: 2px solid #2f6f9f; }
h3 { margin-top: 1.6em; }
table { border-collapse: collapse; margin: .6em 0; }
td, th { padding: .15em .9em .15em 0; text-align: right; }
th { font-weight: 600; border-bottom: 1px solid #ccc; }
td:first-child, th:first-child { text-align: left; }
code { word-break: break-all; } svg { max-width: 100%; height: auto; } .note { color: #666; }
"""


def html_of(profile: Profile) -> str:
    """Make the whole page.

    :param profile: The result of `profile`, or its JSON read back.
    """
    sections = "".join(_section(topic, found) for topic, found in profile["topics"].items())
    title = "Profile of " + ", ".join(profile["topics"])
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>"
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f'<p class="note">Made {escape(profile["made"])} by kafka_native. Times are UTC, '
        "sizes are bytes without what the format adds, "
        f"and before compression.</p>{sections}</body></html>\n"
    )


def _section(topic: str, found: TopicProfile) -> str:
    parts = [f"<h2>{escape(topic)}</h2>", _summary(found)]
    if found["records"]:
        parts += [_sizes(found), _throughput(found), _keys(found), _values(found)]
        parts.append(_compression(found))
    parts.append(_partitions(found["partitions"]))
    return "".join(parts)


def _summary(found: TopicProfile) -> str:
    records, size = found["records"], found["bytes"]
    times = found["times"]
    lines = [
        ("records", f"{records:,}"),
        ("bytes", f"{size:,}"),
        ("partitions", f"{len(found['partitions']):,}"),
        ("records without a value", _of(found["tombstones"], records)),
        ("records without a key", _of(found["keys"]["without_key"], records)),
        ("from", _time(times["first_ms"])),
        ("to", _time(times["last_ms"])),
    ]
    groups = sorted({group for each in found["partitions"] for group in each["lag"]})
    for group in groups:
        lags = [each["lag"][group] for each in found["partitions"]]
        known = sum(lag for lag in lags if lag is not None)
        missing = sum(lag is None for lag in lags)
        more = f", nothing committed in {missing} partitions" if missing else ""
        lines.append((f"lag of {group}", f"{known:,}{more}"))
    return _table((), lines)


def _sizes(found: TopicProfile) -> str:
    rows = []
    for part in _SIZED:
        sizes = found["sizes"][part]
        if sizes["count"]:
            percentiles = [f"{each:,}" for each in sizes["percentiles"].values()]
            numbers = (f"{sizes['count']:,}", f"{sizes['min']:,}", f"{sizes['mean']:,.1f}")
            rows.append((part, *numbers, *percentiles, f"{sizes['max']:,}"))
    names = [f"p{share}" for share in found["sizes"]["record"]["percentiles"]]
    chart = _figure(lambda axes: _histogram(axes, found["sizes"]["record"]["histogram"]))
    return "<h3>Sizes</h3>" + _table(("", "count", "min", "mean", *names, "max"), rows) + chart


def _histogram(axes: Axes, histogram: Sequence[Sequence[int]]) -> None:
    """Draw records by size. If there are many sizes, neighbours share a bar."""
    low, high = histogram[0][0], histogram[-1][0] + histogram[-1][1]
    step = max(1, -(-(high - low) // BARS_MAX))
    wide = high > 50 * max(1, low) and high > 4096
    bars: dict[float, int] = {}
    for size, _, count in histogram:
        place = (
            float(1 << max(0, size.bit_length() - 1))
            if wide
            else float(low + (size - low) // step * step)
        )
        bars[place] = bars.get(place, 0) + count
    widths = [place if wide else step for place in bars]
    axes.bar(
        list(bars),
        list(bars.values()),
        widths,
        align="edge",
        color=BLUE,
        edgecolor="white",
        linewidth=0.3,
    )
    if wide:
        axes.set_xscale("log", base=2)
    axes.set_xlabel("bytes of a record")
    axes.set_ylabel("records")


def _throughput(found: TopicProfile) -> str:
    times = found["times"]
    buckets = times["buckets"]
    if not buckets:
        return '<h3>Throughput</h3><p class="note">No record has a timestamp.</p>'
    width = times["width_ms"]
    while (buckets[-1][0] - buckets[0][0]) // width >= POINTS_MAX:
        width *= 2
    points: dict[int, list[int]] = {}
    for start, records, size in buckets:
        point = points.setdefault(start // width * width, [0, 0])
        point[0] += records
        point[1] += size
    busiest = max(points.items(), key=lambda each: each[1][0])
    text = (
        f"Busiest {_duration(width)}: {_time(busiest[0])}, "
        f"{busiest[1][0] * 1000 / width:,.1f} records/s, "
        f"{busiest[1][1] * 1000 / width:,.0f} bytes/s."
    )
    return (
        "<h3>Throughput, by timestamp</h3>"
        + _figure(lambda axes: _rates(axes, points, width))
        + _note(text)
    )


def _rates(axes: Axes, points: dict[int, list[int]], width_ms: int) -> None:
    """Draw records per second over time. Times without a record are 0."""
    first, last = min(points), max(points)
    starts = range(first, last + width_ms, width_ms)
    rates = [points.get(start, [0])[0] * 1000 / width_ms for start in starts]
    hours = [(start - first) / 1000 for start in starts]
    axes.fill_between(hours, rates, step="post", color=BLUE, alpha=0.8, linewidth=0)
    axes.set_xlabel(f"seconds from {_time(first)} on")
    axes.set_ylabel("records/s")
    axes.set_ylim(bottom=0)


def _keys(found: TopicProfile) -> str:
    keys = found["keys"]
    if not keys["with_key"]:
        return "<h3>Keys</h3>" + _note("No record has a key.")
    distinct = keys["distinct"]
    many = f"{distinct:,}" if distinct is not None else "more than were counted"
    low = keys["too_low_by"]
    text = f"{keys['with_key']:,} records with a key; different keys: {many}."
    if low:
        text += f" Counts of keys may be too low, by {low:,} at most."
    if not keys["standing_out"]:
        return f"<h3>Keys</h3>{_note(f'{text} {no_skew_text(keys)}')}"
    shares = ", ".join(
        f"the top {number} have {share:.1%}" for number, share in keys["top_shares"].items()
    )
    rows = [
        (_key(each["key"]), f"{each['count']:,}", f"{each['count'] / keys['with_key']:.2%}")
        for each in keys["top"][:20]
    ]
    return f"<h3>Keys</h3>{_note(text + ' Of these records, ' + shares + '.')}" + _table(
        ("key", "records", "share"), rows
    )


def no_skew_text(keys: Mapping[str, Any]) -> str:
    """A sentence for keys of which none stands out."""
    most = keys["top"][0]["count"] + keys["too_low_by"]
    share = most / keys["with_key"]
    return f"No key stands out: each has at most {most:,} records ({share:.2%})."


def values_text(values: Mapping[str, Any]) -> str:
    """The formats of sampled values with their shares, and the schema ids."""
    sampled = max(1, values["sampled"])
    parts = [f"{name} {count / sampled:.1%}" for name, count in values["formats"].items()]
    ids = [str(each["id"]) for each in values["schemas"]]
    shown = ", ".join(ids[:IDS_SHOWN]) + (" ..." if len(ids) > IDS_SHOWN else "")
    return ", ".join(parts) + (f"; schema ids {shown}" if ids else "")


def _values(found: TopicProfile) -> str:
    values = found["values"]
    if not values["sampled"]:
        return ""
    text = f"By {values['sampled']:,} samples the values look like: {values_text(values)}."
    rows = [
        (str(each["id"]), each["format"], f"{each['samples']:,}")
        for each in values["schemas"][:ROWS_MAX]
    ]
    table = _table(("schema id", "format", "samples"), rows) if rows else ""
    return f"<h3>Values</h3>{_note(text)}{table}"


def _key(text: str) -> str:
    return text if len(text) <= KEY_MAX_CHARACTERS else text[:KEY_MAX_CHARACTERS] + " ..."


def _compression(found: TopicProfile) -> str:
    samples = found["compression"]
    if not samples["sample_bytes"]:
        return ""
    ratios = samples["ratios"]
    rows = [(codec, f"{ratio:.2f} : 1") for codec, ratio in ratios.items()]
    best = ratios.get("zstd", 1.0)
    hint = (
        "lz4 costs the least time, zstd saves the most."
        if best >= 1.2
        else "These records hardly shrink: they seem to be compressed or encrypted already."
    )
    text = f"What codecs make of {samples['sample_bytes']:,} bytes of keys and values. {hint}"
    return f"<h3>Compression</h3>{_note(text)}" + _table(("codec", "ratio"), rows)


def _partitions(partitions: Sequence[PartitionProfile]) -> str:
    groups = sorted({group for each in partitions for group in each["lag"]})
    rows = []
    for each in partitions[:ROWS_MAX]:
        lags = [_number(each["lag"][group]) for group in groups]
        rows.append(
            (
                str(each["partition"]),
                f"{each['start']:,}",
                f"{each['end']:,}",
                f"{each['records']:,}",
                f"{each['bytes']:,}",
                f"{each['without_key']:,}",
                f"{each['tombstones']:,}",
                _time(each["first_ms"]),
                _time(each["last_ms"]),
                *lags,
            )
        )
    heads = ["partition", "from offset", "to", "records", "bytes", "no key", "no value"]
    heads += ["first", "last", *(f"lag of {group}" for group in groups)]
    left = len(partitions) - ROWS_MAX
    more = _note(f"{left:,} more partitions are in the JSON.") if left > 0 else ""
    records = [each["records"] for each in partitions]
    chart = ""
    if len(records) > 1 and any(records):
        mean = sum(records) / len(records)
        skew = _note(
            f"The largest partition has {max(records) / mean:.2f} times the records of an "
            "average one."
        )
        chart = _figure(lambda axes: _bars(axes, partitions)) + skew
    return "<h3>Partitions</h3>" + chart + _table(heads, rows) + more


def _bars(axes: Axes, partitions: Sequence[PartitionProfile]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.bar(
        [each["partition"] for each in partitions],
        [each["records"] for each in partitions],
        color=ORANGE,
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("partition")
    axes.set_ylabel("records")


# --- pieces of a page ---


def escape(text: str) -> str:
    """Escape a text for HTML. Unprintable characters, such as direction marks, become escapes."""
    # The profile's keys are escaped already.
    return escape_html(text if text.isprintable() else escaped(text))


def _figure(draw: Callable[[Axes], None]) -> str:
    """Draw a chart as SVG. It has numbers and this module's texts, no text from the data."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    # Not pyplot: a Figure object needs no display and leaves no global state.
    figure = Figure(figsize=(10, 2.8), layout="constrained")
    axes = figure.subplots()
    draw(axes)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda tick, _place: f"{tick:,.10g}"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = out.getvalue()
    return text[text.index("<svg") :]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "<tr>" + "".join(f"<th>{escape(head)}</th>" for head in heads) + "</tr>" if heads else ""
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table>{top}{body}</table>"


def _note(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _of(count: int, total: int) -> str:
    return f"{count:,} ({count / total:.1%})" if total else f"{count:,}"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _time(ms: int | None) -> str:
    """A time as text; in milliseconds if it is outside the calendar."""
    if ms is None:
        return "-"
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return f"{ms} ms"


def _duration(ms: int) -> str:
    return str(timedelta(milliseconds=ms)) if ms < 10**14 else f"{ms} ms"
