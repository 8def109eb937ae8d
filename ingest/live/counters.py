"""What is counted of a stream and its publisher's connection, and means over the last seconds, fed once a second.

`Publisher` is what the server tells of who publishes."""

from array import array
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import sqrt
from operator import sub
from statistics import median
from typing import Any, Final, NamedTuple

from ingest.contracts import Labels, MediaCounters, MediaInfo, PublishLimits


def kbps(size_bytes: int, elapsed_ms: int) -> float:
    """Bits a millisecond are kilobits a second. To three decimals: `round` takes twice as long for them."""
    return round(8000 * size_bytes / elapsed_ms) / 1000 if elapsed_ms else 0.0


class Rate:
    """Amount a second over the last `seconds` additions."""

    __slots__ = ("_amount", "_amounts", "_at", "_elapsed", "_elapsed_ms", "is_full")

    def __init__(self, seconds: int) -> None:
        self._amounts, self._elapsed = array("q", bytes(8 * seconds)), array("q", bytes(8 * seconds))
        """Of each addition; where the next goes is the oldest."""
        self._at = 0
        self._amount = 0
        self._elapsed_ms = 0
        self.is_full = False

    def add(self, amount: int, elapsed_ms: int) -> None:
        amounts, elapsed, at = self._amounts, self._elapsed, self._at
        self._amount += amount - amounts[at]
        self._elapsed_ms += elapsed_ms - elapsed[at]
        amounts[at], elapsed[at] = amount, elapsed_ms
        at += 1
        if at == len(amounts):
            self.is_full, at = True, 0
        self._at = at

    @property
    def kbps(self) -> float | None:
        """Where the amounts are bytes. None before any time has passed."""
        return kbps(self._amount, self._elapsed_ms) if self._elapsed_ms else None


class Mean:
    __slots__ = ("_sum", "_values")

    def __init__(self, count: int) -> None:
        self._values: deque[float] = deque(maxlen=count)
        self._sum = 0.0

    def clear(self) -> None:
        self._values.clear()
        self._sum = 0.0

    def add(self, value: float) -> float:
        """The mean with this value in it."""
        values = self._values
        if len(values) == values.maxlen:
            self._sum -= values[0]
        values.append(value)
        self._sum += value
        return self._sum / len(values)


class Slope:
    """How much one counter grew against another over the last `seconds` additions."""

    def __init__(self, seconds: int) -> None:
        self._points: deque[tuple[float, float]] = deque(maxlen=seconds + 1)

    def add(self, amount: float, against: float) -> float | None:
        """None while the second has not grown."""
        self._points.append((amount, against))
        first_amount, first_against = self._points[0]
        return (amount - first_amount) / (against - first_against) if against > first_against else None

    def clear(self) -> None:
        self._points.clear()


class Delay:
    """How far media is behind the best moment so far, ms: that is as live as this connection can be."""

    __slots__ = ("_best", "_held", "_latest")

    SLACK_MS: Final = 0.1
    """Clocks of encoders are off by up to so much a second, which must not add up to a delay over days: so much worse
    the best moment counts with each second that has passed."""

    def __init__(self) -> None:
        self._best = self._latest = 0.0
        self._held: float | None = None

    def add(self, behind_ms: float) -> float:
        """`behind_ms`: how much more time has passed than media have come, since the first of them."""
        best = self._best + self.SLACK_MS
        if self._held is not None:
            best += behind_ms - self._held
            self._held = None
        if behind_ms < best:
            best = behind_ms
        self._best, self._latest = best, behind_ms
        return behind_ms - best

    def hold(self) -> None:
        """Until the next addition, what passes is no delay: the publisher has paused."""
        self._held = self._latest


class Total:
    __slots__ = ("_values", "sum")

    def __init__(self, count: int) -> None:
        self._values: deque[int] = deque(maxlen=count)
        self.sum = 0

    def add(self, value: int) -> None:
        if not value and not self.sum:
            return  # Nearly always: only zeros would come after zeros.
        values = self._values
        if len(values) == values.maxlen:
            self.sum -= values[0]
        values.append(value)
        self.sum += value


class Evenness:
    """How much the last `count` pairs of values differ among each other; said once there are the `fewest`."""

    __slots__ = ("_fewest", "_pairs", "_squares", "_squares_too", "_sum", "_sum_too")

    def __init__(self, count: int, fewest: int) -> None:
        self._pairs: deque[tuple[float, float]] = deque(maxlen=count)
        self._fewest = fewest
        self._sum = self._squares = self._sum_too = self._squares_too = 0.0

    def add(self, one: float, other: float) -> float | None:
        """The smaller of both coefficients of variation (standard deviation by mean), with these in them."""
        pairs = self._pairs
        total, squares, total_too, squares_too = self._sum, self._squares, self._sum_too, self._squares_too
        if len(pairs) == pairs.maxlen:
            first, first_too = pairs[0]
            total, squares = total - first, squares - first * first
            total_too, squares_too = total_too - first_too, squares_too - first_too * first_too
        pairs.append((one, other))
        self._sum, self._squares = total, squares = total + one, squares + one * one
        self._sum_too, self._squares_too = total_too, squares_too = total_too + other, squares_too + other * other
        count = len(pairs)
        if count < self._fewest or total <= 0 or total_too <= 0:
            return None
        # Of the squared variations the smaller one needs a root.
        least = min(squares / total / total, squares_too / total_too / total_too) * count - 1
        return sqrt(least) if least > 0 else 0.0

    def clear(self) -> None:
        self._pairs.clear()
        self._sum = self._squares = self._sum_too = self._squares_too = 0.0


class Median:
    """The median of the last `count` means of `each` values; what is made in each second is an addition."""

    def __init__(self, count: int, each: int, fewest: int) -> None:
        self.value: float | None = None
        """None before there are the `fewest` means."""
        self._means: deque[float] = deque(maxlen=count)
        self._each = each
        self._fewest = fewest
        self._sum = 0.0
        self._count = 0

    def add(self, value: float) -> None:
        self._sum += value
        self._count += 1
        if self._count == self._each:
            self._means.append(self._sum / self._each)
            self._sum, self._count = 0.0, 0
            if len(self._means) >= self._fewest:
                self.value = median(self._means)


class Reading(NamedTuple):
    """All counters of a session at one moment, since it began: a sample holds the growth from one to the next."""

    elapsed_ms: int = 0
    video_bytes: int = 0
    audio_bytes: int = 0
    data_bytes: int = 0
    wire_bytes: int = 0
    video_frames: int = 0
    audio_frames: int = 0
    keyframes: int = 0
    ts_gap: int = 0
    ts_regress: int = 0
    missing_frames_est: int = 0
    media_faults: int = 0
    out_bytes: int = 0
    dropped_frames: int = 0
    video_dts: int = 0
    """Milliseconds from the first frame to the latest."""

    def since(self, before: "Reading") -> "Reading":
        """The growth."""
        return Reading(*map(sub, self, before))


NOTHING_READ: Final = Reading()


@dataclass(frozen=True, slots=True)
class Audience:
    players: int = 0
    slow_players: int = 0
    losing_players: int = 0
    """Of the slow ones: those that lose picture."""
    out_bytes: int = 0
    dropped_frames: int = 0
    viewers: int = 0
    """Of the players: those by HLS."""


NOTHING_COUNTED: Final = MediaCounters(received_bytes=0, sent_bytes=0, video_frames=0, audio_frames=0, dropped_frames=0)


def sum_counters(counted: Iterable[MediaCounters]) -> MediaCounters:
    several = list(counted)
    return MediaCounters(
        received_bytes=sum(each["received_bytes"] for each in several),
        sent_bytes=sum(each["sent_bytes"] for each in several),
        video_frames=sum(each["video_frames"] for each in several),
        audio_frames=sum(each["audio_frames"] for each in several),
        dropped_frames=sum(each["dropped_frames"] for each in several),
    )


class SocketFigures(NamedTuple):
    bytes_received: int
    rtt_ms: float | None = None
    retrans: int | None = None


@dataclass(slots=True)
class Publisher:
    session_id: str
    address: str
    encoder: str
    labels: Labels
    limits: PublishLimits
    started: float
    """Seconds since the Unix epoch."""
    socket: Callable[[], SocketFigures] | None = None
    """Asked once a second."""
    recording: Callable[[], str] | None = None
    """Why what is to be recorded of it is not, just now, as a sentence; "": it is. Asked once a second."""
    on_watched: Callable[[], None] | None = None
    """Called when its first player joins, and when its last one leaves."""
    on_description: Callable[[dict[str, Any], MediaInfo], None] | None = None
    """Called when the metadata or what the sequence headers say has changed."""
