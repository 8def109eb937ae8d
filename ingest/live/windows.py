"""Means over the last seconds, fed once a second."""

from collections import deque


class Rate:
    """Amount a second over the last `seconds` additions."""

    def __init__(self, seconds: int) -> None:
        self._parts: deque[tuple[int, int]] = deque(maxlen=seconds)
        self._amount = 0
        self._elapsed_ms = 0

    def add(self, amount: int, elapsed_ms: int) -> None:
        if len(self._parts) == self._parts.maxlen:
            first_amount, first_elapsed_ms = self._parts[0]
            self._amount -= first_amount
            self._elapsed_ms -= first_elapsed_ms
        self._parts.append((amount, elapsed_ms))
        self._amount += amount
        self._elapsed_ms += elapsed_ms

    @property
    def per_second(self) -> float | None:
        """None before any time has passed."""
        return self._amount * 1000 / self._elapsed_ms if self._elapsed_ms else None

    @property
    def kbps(self) -> float | None:
        """Where the amounts are bytes."""
        rate = self.per_second
        return None if rate is None else round(rate * 8 / 1000, 3)


class Mean:
    """The mean of the last `count` values."""

    def __init__(self, count: int) -> None:
        self._values: deque[float] = deque(maxlen=count)

    def add(self, value: float) -> float:
        """The mean with this value in it."""
        self._values.append(value)
        return sum(self._values) / len(self._values)


class Slope:
    """How much one counter grew against another over the last `seconds` additions."""

    def __init__(self, seconds: int) -> None:
        self._points: deque[tuple[float, float]] = deque(maxlen=seconds + 1)

    def add(self, amount: float, against: float) -> float | None:
        """None while the second has not grown."""
        self._points.append((amount, against))
        first_amount, first_against = self._points[0]
        return (amount - first_amount) / (against - first_against) if against > first_against else None
