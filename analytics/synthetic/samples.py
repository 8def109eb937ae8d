"""A minute of samples: what each node measures once a second of each session that is published on it.

All is computed in columns, a row for each (second, session): by node, and by time as a node writes them.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analytics.synthetic import publishers
from analytics.synthetic.publishers import NODE, SECOND_US, Reals, Session
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


@dataclass(frozen=True)
class Sheet:
    """The sessions of an hour as columns, in one order."""

    number: Whole
    node: Whole
    begin_us: Whole
    end_us: Whole
    word: Whole
    stream: Whole
    key: Whole
    has_key: Flags
    video_kbps: Reals
    audio_kbps: Reals
    target_kbps: Whole
    has_target: Flags
    fps: Reals
    keyframe_s: Reals
    swing: Reals
    rtt_ms: Reals
    texts: dict[str, pa.DictionaryArray]
    """Of the session: its id, node, application, name and encoder."""

    def __len__(self) -> int:
        return len(self.number)

    @classmethod
    def of(cls, sessions: list[Session]) -> "Sheet":
        def column(values: Any, kind: type = np.int64) -> Any:
            return np.array(list(values), kind)

        cast = [session.channel for session in sessions]
        return cls(
            number=column(channel.number for channel in cast),
            node=column(session.node for session in sessions),
            begin_us=column(session.begin_us for session in sessions),
            end_us=column(session.end_us for session in sessions),
            word=column(session.word for session in sessions),
            stream=column(channel.stream for channel in cast),
            key=column(session.key or 0 for session in sessions),
            has_key=column((session.key is not None for session in sessions), np.bool_),
            video_kbps=column((channel.video_kbps for channel in cast), np.float64),
            audio_kbps=column((channel.kind.audio_kbps for channel in cast), np.float64),
            target_kbps=column(channel.target_kbps or 0 for channel in cast),
            has_target=column((channel.target_kbps is not None for channel in cast), np.bool_),
            fps=column((channel.fps for channel in cast), np.float64),
            keyframe_s=column((channel.keyframe_s or 1.0 for channel in cast), np.float64),
            swing=column((channel.kind.swing for channel in cast), np.float64),
            rtt_ms=column((channel.rtt_ms for channel in cast), np.float64),
            texts={
                "session": pa.array([session.id for session in sessions], pa.string()).dictionary_encode(),
                "node": pa.array([node_name(session.node) for session in sessions], pa.string()).dictionary_encode(),
                "app": pa.array([channel.app for channel in cast], pa.string()).dictionary_encode(),
                "name": pa.array([channel.name for channel in cast], pa.string()).dictionary_encode(),
                "encoder": pa.array([session.encoder for session in sessions], pa.string()).dictionary_encode(),
            },
        )


def node_name(node: int) -> str:
    return f"{NODE}-{node + 1}"


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


def minute_of_samples(
    sessions: list[Session], sheet: Sheet, minute: int, players: NDArray[np.int32], nodes: int, seed: int
) -> list[pa.Table]:
    """Each node's samples of a minute (whole minutes since the epoch). `players`: (60, sessions)."""
    return _Minute(sessions, sheet, minute, players, nodes, seed).tables()


class _Minute:
    """The columns of a minute, made one after another. Those named `_` are of every row."""

    def __init__(
        self,
        sessions: list[Session],
        sheet: Sheet,
        minute: int,
        players: NDArray[np.int32],
        nodes: int,
        seed: int,
    ) -> None:
        self._sheet = sheet
        self._lot = np.random.Generator(np.random.SFC64([seed, 12, minute]))
        seconds = minute * SECONDS + np.arange(-1, SECONDS)
        grid = np.stack([ticks(node, seconds, seed) for node in range(nodes)], axis=1)[:, sheet.node]
        until = np.minimum(grid[1:], sheet.end_us)
        since = np.maximum(grid[:-1], sheet.begin_us)
        second, row = np.nonzero(until > since)
        by_node = np.argsort(sheet.node[row], kind="stable")
        place = second, self._row = second[by_node], row[by_node]
        self._parts = np.searchsorted(sheet.node[self._row], np.arange(nodes + 1))
        self._at = until[place]
        self._begin = self._of(sheet.begin_us)
        self._sequence = place[0] + minute * SECONDS - self._begin // SECOND_US + 1
        self._from_ms = (since[place] - self._begin + 500) // 1000
        self._until_ms = (self._at - self._begin + 500) // 1000
        self._elapsed = self._until_ms - self._from_ms
        weather = Weather.of(sessions, minute)
        self._rate = weather.rate[place].astype(np.float64)
        self._since = weather.since[place]
        self._loses = weather.loses[place]
        self._after_silence = weather.ended[place]
        self._silent = self._rate == 0
        self._players = players[place].astype(np.int64)

    def tables(self) -> list[pa.Table]:
        columns: dict[str, Any] = {
            **{name: _taken(texts, self._row) for name, texts in self._sheet.texts.items()},
            "sequence": self._sequence,
            "at_us": self._at,
            "elapsed_ms": self._elapsed,
            "stream": self._of(self._sheet.stream),
            "key": pa.array(self._of(self._sheet.key), mask=~self._of(self._sheet.has_key)),
            "target_kbps": pa.array(self._of(self._sheet.target_kbps), mask=~self._of(self._sheet.has_target)),
        }
        columns |= self._media()
        columns |= self._timing(columns)
        columns |= self._delivery(columns)
        columns["health"] = self._health(columns)
        records = pa.table([columns[name] for name in ENCODED.names], schema=ENCODED)
        return [records[since:until] for since, until in pairwise(self._parts.tolist())]

    def _of(self, column: NDArray[Any]) -> NDArray[Any]:
        """The sessions' values, for each row."""
        return column[self._row]

    def _media(self) -> dict[str, Any]:
        sheet, size = self._sheet, len(self._row)
        at_s, from_s = self._until_ms / 1000, self._from_ms / 1000
        has_video = self._of(sheet.video_kbps) > 0
        flows = ~self._silent

        wave = self._of(sheet.swing)
        phase = self._of(sheet.word) / 1e6
        wander = 1 + wave * np.sin(at_s / 47 + phase) + 0.6 * wave * np.sin(at_s / 611 + 2 * phase)
        grain = 1 + (0.02 + 0.4 * wave) * self._lot.standard_normal(size, np.float32)
        keyframe_s = self._of(sheet.keyframe_s)
        self._keyframe = np.floor(at_s / keyframe_s)
        """Which one was the latest, from 0 on."""
        fresh = (self._keyframe - np.floor(from_s / keyframe_s)).astype(np.int64) + (self._sequence == 1)
        heavier = 1 + 0.25 * (fresh > 0) * np.minimum(keyframe_s, 4) / 4
        kbps = self._of(sheet.video_kbps) * 0.97 * np.maximum(wander * grain * heavier, 0.05) * self._rate
        video = np.rint(kbps * self._elapsed / 8).astype(np.int64)

        fps = self._of(sheet.fps)
        due = (np.floor(at_s * fps) - np.floor(from_s * fps)).astype(np.int64)
        weak = np.minimum(1, 0.4 + self._rate)  # Where little arrives, encoders leave frames out.
        missing = np.where(self._loses & flows, np.minimum(self._lot.poisson(1.5, size), due), 0)
        frames = np.where(flows, np.maximum(np.rint(due * weak).astype(np.int64) - missing, 0), 0)
        self._fps = fps * weak * (1 - missing / np.maximum(due, 1))

        sound = 1 + 0.03 * self._lot.standard_normal(size, np.float32)
        audio = np.rint(self._of(sheet.audio_kbps) * sound * self._elapsed / 8 * flows).astype(np.int64)
        rows = np.rint(self._elapsed * 0.046875 * flows).astype(np.int64)
        data = np.where(self._sequence == 1, 420, 0)
        # A header of 12 bytes for a message, and one for each 4096 bytes of it.
        wire = video + audio + data + 12 * (frames + rows) + (video + audio) // 4096
        has_keyframe = has_video & flows
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
            "keyframes": np.where(has_keyframe, fresh, 0),
            "missing_frames_est": np.where(has_video, missing, 0),
        }

    def _timing(self, media: dict[str, Any]) -> dict[str, Any]:
        sheet, size = self._sheet, len(self._row)
        at_s = self._until_ms / 1000
        has_video = self._of(sheet.video_kbps) > 0
        keyframe_s = self._of(sheet.keyframe_s)
        word = self._of(sheet.word)
        intervals = [
            keyframe_s + 0.001 * (publishers.words(word, np.maximum(self._keyframe - back, 0)) % np.uint64(40))
            for back in range(KEYFRAMES_KEPT)
        ]
        known = [np.where(self._keyframe > back, interval, 0) for back, interval in enumerate(intervals)]
        has_interval = has_video & (self._keyframe >= 1)
        idle = self._lot.integers(0, 40, size)
        silence = (self._since + 0.9) * 1000
        drift = 25 * np.sin(at_s / 1800 + word) + at_s * 0.002 + self._lot.normal(0, 3, size)
        later = self._sequence > 1
        jumps = self._lot.random(size)
        return {
            "fps": _known(np.round(self._fps + self._lot.normal(0, 0.08, size) * has_video, 2), has_video),
            "fps_media": _known(np.round(self._of(sheet.fps) + self._lot.normal(0, 0.02, size), 2), has_video & later),
            "keyframe_interval": _known(intervals[0], has_interval),
            "keyframe_interval_max": _known(np.maximum.reduce(known), has_interval),
            "open_gop_age": _known(np.round(at_s - self._keyframe * keyframe_s, 3), has_video),
            "drift": np.round(drift, 1),
            "drift_dev": np.round(self._lot.normal(0, 4, size), 1),
            "av_skew": _known(np.rint(self._lot.normal(0, 18, size)), has_video),
            "ts_gap": (self._loses & (jumps < 0.2) | self._after_silence).astype(np.int64),
            "ts_regress": (self._loses & (jumps > 0.97)).astype(np.int64),
            "media_faults": (jumps < 2e-6).astype(np.int64),
            "idle_ms": np.where(self._silent, silence, idle).astype(np.int64),
        }

    def _delivery(self, media: dict[str, Any]) -> dict[str, Any]:
        size = len(self._row)
        strained = (self._rate < 0.999) | self._loses
        rtt = self._of(self._sheet.rtt_ms) * (1 + 2 * strained) * (1 + 0.1 * self._lot.standard_exponential(size))
        out = self._players * (media["video_bytes"] + media["audio_bytes"])
        slow = self._lot.binomial(self._players, 0.002)
        return {
            "rtt_ms": np.round(rtt, 3),
            "retrans": self._lot.poisson(0.01 + 0.8 * strained),
            "players": self._players,
            "out_bytes": out,
            "out_kbps": _kbps(out, self._elapsed),
            "slow_players": slow,
            "dropped_frames": slow * self._lot.integers(0, 25, size),
        }

    def _health(self, columns: dict[str, Any]) -> pa.DictionaryArray:
        """As docs/health.md judges: what holds for its time, the worst of it."""
        age_s = self._until_ms // 1000
        settled = age_s >= WARM_UP_S
        target = self._of(self._sheet.target_kbps)
        share = np.where(target > 0, columns["video_kbps"] / np.maximum(target, 1), 1.0)
        lasts = (self._since >= HOLD_S) | (self._rate >= 0.999)
        low = self._of(self._sheet.has_target) & ~self._silent & lasts
        has_video = self._of(self._sheet.video_kbps) > 0
        long = has_video & (age_s > 2 * self._of(self._sheet.keyframe_s))
        idle_ms = columns["idle_ms"]
        grade = np.where(settled, GOOD, NONE)
        warned = (low & (share < 0.7)) | (long & (self._of(self._sheet.keyframe_s) > 4.05)) | self._loses
        grade = np.where(settled & (warned | (columns["rtt_ms"] > 200) | (idle_ms >= 2000)), WARNING, grade)
        poor = (low & (share < 0.4)) | (long & (self._of(self._sheet.keyframe_s) > 10.05)) | (idle_ms >= 5000)
        grade = np.where(settled & poor, BAD, grade)
        return pa.DictionaryArray.from_arrays(pa.array(grade, pa.int32()), pa.array(HEALTHS))


def _kbps(size_bytes: Whole, elapsed_ms: Whole) -> Reals:
    return np.round(8 * size_bytes / elapsed_ms, 3)


def _known(values: Any, known: Flags) -> pa.Array:
    return pa.array(values, pa.float64(), mask=~known)


def _taken(texts: pa.DictionaryArray, rows: Whole) -> pa.DictionaryArray:
    """Of one dictionary for the whole hour, as a file's row groups want it."""
    return pa.DictionaryArray.from_arrays(texts.indices.take(pa.array(rows)), texts.dictionary)


def _encoded(schema: pa.Schema) -> pa.Schema:
    coded = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([field.with_type(coded) if field.type == pa.string() else field for field in schema])


ENCODED = _encoded(SAMPLES.schema)
"""The lake's schema, its texts by dictionary: Parquet stores both alike."""
