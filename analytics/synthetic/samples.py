"""A minute of samples: what each node measures once a second of each session that is published on it.

All is computed in columns, a row for each (second, session): by node, and by time as a node writes them.
"""

from dataclasses import dataclass, fields
from itertools import pairwise
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analytics.synthetic import publishers
from analytics.synthetic.publishers import SECOND_US, Reals, Session
from ingest.contracts import Health
from ingest.telemetry.lake import SAMPLES

SECONDS = 60
TICK_US = (850_000, 100_000)
"""When in the second a node samples: at the first, and up to the second later, by the node."""
LATE_US = 40_000

WARM_UP_S = 10
HOLD_S = 10
KEYFRAMES_KEPT = 5
HEALTHS: tuple[Health, ...] = ("none", "good", "warning", "bad")
NONE, GOOD, WARNING, BAD = range(4)

Whole: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


CODED = pa.dictionary(pa.int32(), pa.string())
ENCODED = pa.schema([each.with_type(CODED) if each.type == pa.string() else each for each in SAMPLES.schema])
"""The lake's schema, its texts by dictionary: Parquet stores both alike."""

LABELS = {
    "session": "id",
    "node": "node_name",
    "app": "channel.app",
    "name": "channel.name",
    "encoder": "encoder",
    "stream": "channel.stream",
    "key": "key",
    "target_kbps": "channel.target_kbps",
}
"""Columns of samples that are a session's: where it has them."""


@dataclass(frozen=True)
class Sheet:
    """Sessions as columns, in one order: each of an hour's once, or that of each row."""

    number: Whole
    node: Whole
    begin_us: Whole
    end_us: Whole
    word: Whole
    video_kbps: Reals
    audio_kbps: Reals
    target_kbps: Reals
    """NaN where none is known."""
    fps: Reals
    keyframe_s: Reals
    swing: Reals
    rtt_ms: Reals
    labels: dict[str, pa.Array]

    @classmethod
    def of(cls, sessions: list[Session]) -> "Sheet":
        def values(path: str) -> list[Any]:
            return list(map(attrgetter(path), sessions))

        def whole(path: str) -> Whole:
            return np.array(values(path), np.int64)

        def real(path: str) -> Reals:
            return np.array(values(path), np.float64)

        return cls(
            number=whole("channel.number"),
            node=whole("node"),
            begin_us=whole("begin_us"),
            end_us=whole("end_us"),
            word=whole("word"),
            video_kbps=real("channel.video_kbps"),
            audio_kbps=real("channel.kind.audio_kbps"),
            target_kbps=real("channel.target_kbps"),
            fps=real("channel.fps"),
            keyframe_s=real("channel.keyframe_s"),
            swing=real("channel.kind.swing"),
            rtt_ms=real("channel.rtt_ms"),
            labels={name: pa.array(values(path), ENCODED.field(name).type) for name, path in LABELS.items()},
        )

    def take(self, rows: Whole) -> "Sheet":
        """Texts stay of one dictionary for the whole hour, as a file's row groups want it."""
        numbers = {each.name: getattr(self, each.name)[rows] for each in fields(self) if each.name != "labels"}
        return Sheet(**numbers, labels={name: column.take(pa.array(rows)) for name, column in self.labels.items()})


@dataclass(frozen=True)
class Weather:
    """What goes wrong in a minute: a row for each second, a column for each session."""

    rate: NDArray[np.float32]
    """What is left of the bitrate; 0: nothing arrives."""
    since: NDArray[np.int32]
    """Seconds that it has gone on for; 0: nothing is wrong, or has just begun."""
    loses: Flags
    ended: Flags
    """A silence has ended just now."""

    @classmethod
    def of(cls, sessions: list[Session], minute: int) -> "Weather":
        """`minute`: whole minutes since the epoch."""
        shape = SECONDS, len(sessions)
        made = cls(np.ones(shape, np.float32), np.zeros(shape, np.int32), np.zeros(shape, bool), np.zeros(shape, bool))
        first = minute * SECONDS
        for column, session in enumerate(sessions):
            for trouble in session.troubles:
                if trouble.until < first or trouble.since >= first + SECONDS:
                    continue
                since, until = max(trouble.since - first, 0), min(trouble.until - first, SECONDS)
                made.rate[since:until, column] = trouble.rate
                made.loses[since:until, column] = trouble.loses
                made.since[since:until, column] = np.arange(since, until) + first - trouble.since
                if until < SECONDS and not trouble.rate:
                    made.ended[until, column] = True
        return made


def ticks(node: int, seconds: Whole, seed: int) -> Whole:
    """When the node samples in these seconds (since the epoch), in microseconds."""
    first, spread = TICK_US
    own = int(publishers.uniform(seed, 10, node)[0] * spread)
    late = publishers.uniform(seed, 11, node, seconds) ** 8 * LATE_US  # Seldom by much.
    return seconds * SECOND_US + first + own + late.astype(np.int64)


class Minute:
    """A minute's columns, made one after another: all in `made` by the lake's names, and what others follow from."""

    def __init__(
        self,
        sessions: list[Session],
        sheet: Sheet,
        minute: int,
        players: NDArray[np.int32],
        viewers: NDArray[np.int32],
        nodes: int,
        seed: int,
    ) -> None:
        """`minute`: whole minutes since the epoch. `players`, and those of them by HLS: (60, sessions)."""
        self._lot = np.random.Generator(np.random.SFC64([seed, 12, minute]))
        seconds = minute * SECONDS + np.arange(-1, SECONDS)
        grid = np.stack([ticks(node, seconds, seed) for node in range(nodes)], axis=1)[:, sheet.node]
        until = np.minimum(grid[1:], sheet.end_us)
        since = np.maximum(grid[:-1], sheet.begin_us)
        second, row = np.nonzero(until > since)
        by_node = np.argsort(sheet.node[row], kind="stable")
        place = second[by_node], row[by_node]
        self._of = of = sheet.take(place[1])
        self._parts = np.searchsorted(of.node, np.arange(nodes + 1))
        self._sequence = place[0] + minute * SECONDS - of.begin_us // SECOND_US + 1
        from_ms = (since[place] - of.begin_us + 500) // 1000
        self._until_ms = (until[place] - of.begin_us + 500) // 1000
        self._elapsed = self._until_ms - from_ms
        self._from_s, self._at_s = from_ms / 1000, self._until_ms / 1000
        weather = Weather.of(sessions, minute)
        self._rate = weather.rate[place].astype(np.float64)
        self._since = weather.since[place]
        self._loses = weather.loses[place]
        self._after_silence = weather.ended[place]
        self._silent = self._rate == 0
        self._has_video = of.video_kbps > 0
        self._players, self._viewers = (each[place].astype(np.int64) for each in (players, viewers))
        self._at = until[place]

    def tables(self) -> list[pa.Table]:
        """Each node's samples."""
        columns: dict[str, Any] = {
            **self._of.labels,
            "sequence": self._sequence,
            "at_us": self._at,
            "elapsed_ms": self._elapsed,
            **self._media(),
            **self._timing(),
        }
        columns |= self._delivery(columns)
        columns["health"] = self._health(columns)
        records = pa.table([columns[name] for name in ENCODED.names], schema=ENCODED)
        return [records[since:until] for since, until in pairwise(self._parts.tolist())]

    def _media(self) -> dict[str, Any]:
        of, size, at_s, keyframe_s = self._of, len(self._at), self._at_s, self._of.keyframe_s
        flows = ~self._silent
        wave, phase = of.swing, of.word / 1e6
        wander = 1 + wave * np.sin(at_s / 47 + phase) + 0.6 * wave * np.sin(at_s / 611 + 2 * phase)
        grain = 1 + (0.02 + 0.4 * wave) * self._lot.standard_normal(size, np.float32)
        self._keyframe = np.floor(at_s / keyframe_s)
        """Which one was the latest, from 0 on."""
        fresh = (self._keyframe - np.floor(self._from_s / keyframe_s)).astype(np.int64) + (self._sequence == 1)
        heavier = 1 + 0.25 * (fresh > 0) * np.minimum(keyframe_s, 4) / 4
        kbps = of.video_kbps * 0.97 * np.maximum(wander * grain * heavier, 0.05) * self._rate
        video = np.rint(kbps * self._elapsed / 8).astype(np.int64)

        due = (np.floor(at_s * of.fps) - np.floor(self._from_s * of.fps)).astype(np.int64)
        weak = np.minimum(1, 0.4 + self._rate)  # Where little arrives, encoders leave frames out.
        missing = np.where(self._loses & flows, np.minimum(self._lot.poisson(1.5, size), due), 0)
        frames = np.where(flows, np.maximum(np.rint(due * weak).astype(np.int64) - missing, 0), 0)
        self._fps = of.fps * weak * (1 - missing / np.maximum(due, 1))

        sound = 1 + 0.03 * self._lot.standard_normal(size, np.float32)
        audio = np.rint(of.audio_kbps * sound * self._elapsed / 8 * flows).astype(np.int64)
        rows = np.rint(self._elapsed * 0.046875 * flows).astype(np.int64)
        data = np.where(self._sequence == 1, 420, 0)
        # A header of 12 bytes for a message, and one for each 4096 bytes of it.
        wire = video + audio + data + 12 * (frames + rows) + (video + audio) // 4096
        return {
            "video_bytes": video,
            "audio_bytes": audio,
            "data_bytes": data,
            "wire_bytes": wire,
            "video_kbps": _kbps(video, self._elapsed),
            "audio_kbps": _kbps(audio, self._elapsed),
            "wire_kbps": _kbps(wire, self._elapsed),
            "video_frames": frames,
            "audio_frames": rows,
            "keyframes": np.where(self._has_video & flows, fresh, 0),
            "missing_frames_est": np.where(self._has_video, missing, 0),
        }

    def _timing(self) -> dict[str, Any]:
        of, size, at_s, has_video = self._of, len(self._at), self._at_s, self._has_video
        intervals = [
            of.keyframe_s + 0.001 * (publishers.words(of.word, np.maximum(self._keyframe - back, 0)) % np.uint64(40))
            for back in range(KEYFRAMES_KEPT)
        ]
        known = [np.where(self._keyframe > back, interval, 0) for back, interval in enumerate(intervals)]
        has_interval = has_video & (self._keyframe >= 1)
        idle = self._lot.integers(0, 40, size)
        silence = (self._since + 0.9) * 1000
        drift = 25 * np.sin(at_s / 1800 + of.word) + at_s * 0.002 + self._lot.normal(0, 3, size)
        later = self._sequence > 1
        jumps = self._lot.random(size)
        return {
            "fps": _known(np.round(self._fps + self._lot.normal(0, 0.08, size) * has_video, 2), has_video),
            "fps_media": _known(np.round(of.fps + self._lot.normal(0, 0.02, size), 2), has_video & later),
            "keyframe_interval": _known(intervals[0], has_interval),
            "keyframe_interval_max": _known(np.maximum.reduce(known), has_interval),
            "open_gop_age": _known(np.round(at_s - self._keyframe * of.keyframe_s, 3), has_video),
            "drift": np.round(drift, 1),
            "drift_dev": np.round(self._lot.normal(0, 4, size), 1),
            "av_skew": _known(np.rint(self._lot.normal(0, 18, size)), has_video),
            "ts_gap": (self._loses & (jumps < 0.2) | self._after_silence).astype(np.int64),
            "ts_regress": (self._loses & (jumps > 0.97)).astype(np.int64),
            "media_faults": (jumps < 2e-6).astype(np.int64),
            "idle_ms": np.where(self._silent, silence, idle).astype(np.int64),
        }

    def _delivery(self, media: dict[str, Any]) -> dict[str, Any]:
        size = len(self._at)
        strained = (self._rate < 0.999) | self._loses
        rtt = self._of.rtt_ms * (1 + 2 * strained) * (1 + 0.1 * self._lot.standard_exponential(size))
        out = self._players * (media["video_bytes"] + media["audio_bytes"])
        slow = self._lot.binomial(self._players, 0.002)
        return {
            "rtt_ms": np.round(rtt, 3),
            "retrans": self._lot.poisson(0.01 + 0.8 * strained),
            "players": self._players,
            "viewers": self._viewers,
            "out_bytes": out,
            "out_kbps": _kbps(out, self._elapsed),
            "slow_players": slow,
            "dropped_frames": slow * self._lot.integers(0, 25, size),
        }

    def _health(self, columns: dict[str, Any]) -> pa.DictionaryArray:
        """As docs/health.md has it: what holds for its time, the worst of it."""
        age_s = self._until_ms // 1000
        settled = age_s >= WARM_UP_S
        share = columns["video_kbps"] / np.maximum(self._of.target_kbps, 1)  # NaN is below nothing.
        lasts = (self._since >= HOLD_S) | (self._rate >= 0.999)
        low = ~self._silent & lasts
        keyframe_s = self._of.keyframe_s
        long = self._has_video & (age_s > 2 * keyframe_s)
        idle_ms = columns["idle_ms"]
        grade = np.where(settled, GOOD, NONE)
        warned = (low & (share < 0.7)) | (long & (keyframe_s > 4.05)) | self._loses
        grade = np.where(settled & (warned | (columns["rtt_ms"] > 200) | (idle_ms >= 2000)), WARNING, grade)
        poor = (low & (share < 0.4)) | (long & (keyframe_s > 10.05)) | (idle_ms >= 5000)
        grade = np.where(settled & poor, BAD, grade)
        return pa.DictionaryArray.from_arrays(pa.array(grade, pa.int32()), pa.array(HEALTHS))


def _kbps(size_bytes: Whole, elapsed_ms: Whole) -> Reals:
    return np.round(8 * size_bytes / elapsed_ms, 3)


def _known(values: Any, known: Flags) -> pa.Array:
    return pa.array(values, pa.float64(), mask=~known)
