"""How far a recording may be sent: by the clock from where it began, and as much ahead as the client wants to have."""

from typing import Final

DEFAULT_AHEAD_MS: Final = 3000
"""For clients that set no buffer length; FFmpeg sets this."""
LEAST_AHEAD_MS: Final = 500
"""Clients that want less would run dry at each breath of the network."""
GATHERED: Final = 4
"""A player is looked at again when this part of what it has ahead was played, and no more often than twenty times a
second: so what is sent goes out in few writes."""
LEAST_WAIT_S: Final = 0.05
MOST_WAIT_S: Final = 1.0


class Pace:
    """`now`: seconds, monotonic. Times of the file: milliseconds."""

    def __init__(self, ahead_ms: int | None) -> None:
        self._ahead_ms = 0
        self.set_ahead(DEFAULT_AHEAD_MS if ahead_ms is None else ahead_ms)
        self._began = 0.0
        self._first_ms = 0
        self._paused: float | None = None

    def set_ahead(self, ahead_ms: int) -> None:
        self._ahead_ms = max(ahead_ms, LEAST_AHEAD_MS)

    def begin(self, now: float, time_ms: int) -> None:
        """The player has nothing, and begins to play at this time of the file."""
        self._began, self._first_ms = now, time_ms
        if self._paused is not None:
            self._paused = now

    def pause(self, now: float) -> None:
        if self._paused is None:
            self._paused = now

    def resume(self, now: float) -> None:
        if self._paused is not None:
            self._began += now - self._paused
            self._paused = None

    def until_ms(self, now: float) -> float:
        """Messages up to this time may be sent."""
        return self._first_ms + (now - self._began) * 1000 + self._ahead_ms

    def played_ms(self, now: float) -> float:
        """Where the player is, if it plays as the time goes."""
        return self.until_ms(self._paused if self._paused is not None else now) - self._ahead_ms

    def wait_s(self, time_ms: int, now: float) -> float:
        """For how long nothing is to be done until a message of this time, and some behind it, may be sent."""
        gathered_s = min(max(self._ahead_ms / 1000 / GATHERED, LEAST_WAIT_S), MOST_WAIT_S)
        return (time_ms - self.until_ms(now)) / 1000 + gathered_s
