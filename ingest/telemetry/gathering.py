"""Samples as columns: all of them, or gathered into spans that keep what stands out.

A gauge's span has the least, the mean and the greatest of its values; a counter's the sum; health is the worst.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.contracts import Health
from ingest.telemetry.series import COUNTERS, GAUGES, MAX_GAPS, Series, Totals

IDENTITY = ("session", "sequence", "at_us")
COLUMNS = (*IDENTITY, *GAUGES, *COUNTERS, "health")
"""What is read of a sample."""

HEALTHS: tuple[Health, ...] = ("none", "good", "warning", "bad")
"""From the least that is said of a stream to the worst: a span's is the greatest."""

GAP_US = 2_600_000
"""A longer time without media is time off air, as in the live charts."""


class Gathering:
    """Takes tables of COLUMNS, each without duplicates, the latest hour first, and makes a Series of them."""

    def __init__(self, since_us: int, until_us: int, points: int) -> None:
        self._since = since_us
        self._points = max(1, points)
        self._width = max(1_000_000, -(-(until_us - since_us) // self._points))
        self._whole: list[pa.Table] = []
        self._spans: list[pa.Table] = []
        self._rates: list[pa.ChunkedArray] = []
        self._gaps: list[tuple[int, int]] = []
        self._first_media: int | None = None
        self.totals = Totals()
        self._bytes = 0

    def take(self, records: pa.Table) -> None:
        """An hour's samples, sorted by time."""
        ranks = pc.index_in(records["health"], pa.array(HEALTHS))
        records = records.set_column(records.column_names.index("health"), "health", ranks)
        self._count(records)
        self._find_gaps(records)
        if self._spans:
            self._spans.append(self._gathered(records))
            return
        self._whole.append(records)
        if self.totals.samples > self._points:
            self._spans = [self._gathered(table) for table in self._whole]
            self._whole = []

    def series(self) -> Series:
        made = Series(totals=self._finished(), gaps=[(a / 1e6, b / 1e6) for a, b in self._longest_gaps()])
        if self._spans:
            _fill(made, self._merged())
            made.step_s = self._width / 1e6
        elif self._whole:
            _fill(made, _as_spans(pa.concat_tables(reversed(self._whole))))
        return made

    def _count(self, records: pa.Table) -> None:
        totals, elapsed = self.totals, records["elapsed_ms"]
        totals.samples += records.num_rows
        totals.measured_s += (pc.sum(elapsed).as_py() or 0) / 1000
        totals.missing_frames += pc.sum(records["missing_frames_est"]).as_py() or 0
        totals.most_players = max(totals.most_players, pc.max(records["players"]).as_py() or 0)
        for name, rank in (("warning_s", HEALTHS.index("warning")), ("bad_s", HEALTHS.index("bad"))):
            spent = pc.sum(elapsed.filter(pc.equal(records["health"], rank))).as_py() or 0
            setattr(totals, name, getattr(totals, name) + spent / 1000)
        self._bytes += sum(pc.sum(records[name]).as_py() or 0 for name in ("video_bytes", "audio_bytes"))
        self._rates.append(pc.add(records["video_kbps"], records["audio_kbps"]).cast(pa.float32()))

    def _finished(self) -> Totals:
        totals = self.totals
        if totals.measured_s:
            totals.mean_kbps = self._bytes * 8 / 1000 / totals.measured_s
            rates = pa.chunked_array([chunk for rate in self._rates for chunk in rate.chunks])
            totals.p95_kbps = pc.quantile(rates, q=0.95)[0].as_py()
        return totals

    def _find_gaps(self, records: pa.Table) -> None:
        """Between samples with media that are further apart than GAP_US; a sample tells of the second before it."""
        has_media = pc.greater(pc.add(records["video_bytes"], records["audio_bytes"]), 0)
        times = records["at_us"].filter(has_media).combine_chunks()
        if not len(times):
            return
        if self._first_media is not None:
            times = pa.concat_arrays([times, pa.array([self._first_media])])
        apart = pc.subtract(times[1:], times[:-1])
        for index in pc.indices_nonzero(pc.greater(apart, GAP_US)).to_pylist():
            self._gaps.append((times[index].as_py(), times[index + 1].as_py()))
        self._gaps = self._longest_gaps()
        self._first_media = times[0].as_py()

    def _longest_gaps(self) -> list[tuple[int, int]]:
        longest = sorted(self._gaps, key=lambda gap: gap[0] - gap[1])[:MAX_GAPS]
        return sorted(longest)

    def _gathered(self, records: pa.Table) -> pa.Table:
        span = pc.divide(pc.subtract(records["at_us"], self._since), self._width)
        return _group(_as_spans(records).append_column("span", span))

    def _merged(self) -> pa.Table:
        return _group(pa.concat_tables(self._spans)).sort_by("at_us")


def _as_spans(records: pa.Table) -> pa.Table:
    """Each sample as a span of its own: the columns that `_group` merges."""
    columns: dict[str, Any] = {"at_us": records["at_us"], "health": records["health"]}
    for name in GAUGES:
        value = records[name].cast(pa.float64())
        known = pc.is_valid(value).cast(pa.int64())
        columns |= {f"{name}.low": value, f"{name}.high": value, f"{name}.sum": value, f"{name}.n": known}
    columns |= {name: records[name] for name in COUNTERS}
    return pa.table(columns)


MERGED = {
    "at_us": "min",
    "health": "max",
    **{f"{name}.{part}": how for name in GAUGES for part, how in (("low", "min"), ("high", "max"))},
    **{f"{name}.{part}": "sum" for name in GAUGES for part in ("sum", "n")},
    **dict.fromkeys(COUNTERS, "sum"),
}


def _group(spans: pa.Table) -> pa.Table:
    merged = spans.group_by("span", use_threads=False).aggregate(list(MERGED.items()))
    return merged.select(["span", *(f"{name}_{how}" for name, how in MERGED.items())]).rename_columns(["span", *MERGED])


def _fill(series: Series, spans: pa.Table) -> None:
    series.at = pc.divide(spans["at_us"].cast(pa.float64()), 1e6).to_pylist()
    series.health = [HEALTHS[rank or 0] for rank in spans["health"].to_pylist()]
    for name in GAUGES:
        known = spans[f"{name}.n"]
        count = pc.if_else(pc.greater(known, 0), known, None)  # Nothing known: null, not a division by 0.
        series.values[name] = pc.divide(spans[f"{name}.sum"], count.cast(pa.float64())).to_pylist()
        series.low[name] = spans[f"{name}.low"].to_pylist()
        series.high[name] = spans[f"{name}.high"].to_pylist()
    for name in COUNTERS:
        series.values[name] = spans[name].to_pylist()
