"""A track's times in its own scale. A picture's are milliseconds, as the file has them. A sound's frames follow one
another sample for sample, as players want them, as long as that is within a millisecond of the file's times: where
these are elsewhere (a gap, a clock that drifts) it begins anew there. Where they hardly ever agree, milliseconds it is.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ingest.mp4.frames import Configuration, Track
from ingest.rtmp.codecs import AudioConfig

Numbers = npt.NDArray[np.int64]

MILLISECONDS: Final = 1000
TOLERANCE_MS: Final = 1
USUAL_MS: Final = 40
"""Of a track's only frame."""
RUN_FRAMES: Final = 4096
"""That are compared at once."""
RUN_LEAST: Final = 8
"""Frames that follow one another, in the mean: below it, times are milliseconds."""
STEP_FRAMES: Final = 16
"""Over which a frame's usual length is measured."""
MOST_DELTA: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Timing:
    scale: int
    """Units of the track's time in a second."""
    durations: Numbers
    """From each frame's decoding to the next one's, in that."""
    compositions: Numbers | None
    """From each frame's decoding to when it is shown, in that, 0 or more; None: it is 0 of all."""
    begins_at_ms: int
    """When the first of it is shown or heard; may be below 0."""
    skipped: int
    """What stands before that in the track's own time, which begins with the first frame's decoding."""
    length_ms: int
    """From the first to the end of the last that is shown."""


def timing_of(track: Track) -> Timing:
    times = np.maximum.accumulate(np.frombuffer(track.times, np.int64))
    if track.kind == "video":
        return _of_video(times, np.frombuffer(track.compositions, np.int32).astype(np.int64))
    return _of_audio(times, track)


def _of_video(times: Numbers, compositions: Numbers) -> Timing:
    durations = _durations(times, USUAL_MS)
    shown = times + compositions
    begins_at = int(shown.min())
    below = max(-int(compositions.min()), 0)  # Encoders whose pictures would be shown before they are decoded.
    compositions = compositions + below
    return Timing(
        scale=MILLISECONDS,
        durations=durations,
        compositions=compositions if compositions.any() else None,
        begins_at_ms=begins_at,
        skipped=begins_at - int(times[0]) + below,
        length_ms=int(shown.max()) + int(durations[-1]) - begins_at,
    )


def _of_audio(times: Numbers, track: Track) -> Timing:
    scale, durations = MILLISECONDS, _durations(times, USUAL_MS)
    rates = {each.config.sample_rate for each in track.configurations if isinstance(each.config, AudioConfig)}
    rate = rates.pop() if len(rates) == 1 else None
    if rate:
        samples = _samples(track.configurations[0], _usual_samples(times, rate))
        places = _places(times, rate, samples) if samples else None
        if places is not None:
            in_samples = _durations(places, samples)
            if int(in_samples.max()) <= MOST_DELTA:
                scale, durations = rate, in_samples
    length_ms = -(-int(durations.sum()) * MILLISECONDS // scale)
    return Timing(scale, durations, None, int(times[0]), 0, length_ms)


def _durations(places: Numbers, last: int) -> Numbers:
    """The last frame's is as the one before."""
    steps = np.diff(places)
    return np.append(steps, max(int(steps[-1]), 1) if len(steps) else last)


def _places(times: Numbers, rate: int, samples: int) -> Numbers | None:
    """Of each frame, in samples from the first; None where frames hardly ever follow one another."""
    wanted = (times - times[0]) * rate // MILLISECONDS
    drift = wanted - np.arange(len(times)) * samples
    tolerance = rate * TOLERANCE_MS / MILLISECONDS
    places = np.empty(len(times), np.int64)
    begin, runs = 0, 0
    while begin < len(times):
        anchor, end = drift[begin], begin
        while end < len(times):
            off = np.abs(drift[end : end + RUN_FRAMES] - anchor) > tolerance
            if off.any():
                end += int(off.argmax())
                break
            end = min(end + RUN_FRAMES, len(times))
        places[begin:end] = wanted[begin] + np.arange(end - begin) * samples
        begin, runs = end, runs + 1
        if runs * RUN_LEAST > len(times) + RUN_LEAST:
            return None
    return np.maximum.accumulate(places)


def _usual_samples(times: Numbers, rate: int) -> float:
    """Of a frame, by its file's times; 0 where there are too few."""
    if len(times) <= STEP_FRAMES:
        return float(times[-1] - times[0]) * rate / MILLISECONDS / max(len(times) - 1, 1)
    return float(np.median(times[STEP_FRAMES:] - times[:-STEP_FRAMES])) * rate / MILLISECONDS / STEP_FRAMES


POSSIBLE: Final = {
    "AAC": (1024, 2048),
    "Opus": (120, 240, 480, 960, 1920, 2880),
    "MP3": (1152, 576, 384),
    "AC-3": (1536,),
    "E-AC-3": (1536, 256, 512, 768),
}
"""Samples of a frame."""
FLAC_INFO_BYTES: Final = 34


def _samples(configuration: Configuration, usual: float) -> int:
    """Of each frame of a codec, the nearest to what is usual; 0 where they differ."""
    if configuration.codec == "FLAC":
        header = configuration.header
        info = header[8:] if header.startswith(b"fLaC") else header
        least, most = int.from_bytes(info[:2], "big"), int.from_bytes(info[2:4], "big")
        return least if len(info) >= FLAC_INFO_BYTES and least == most else 0
    return min(POSSIBLE.get(configuration.codec, (0,)), key=lambda samples: abs(samples - usual))
