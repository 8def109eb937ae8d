"""Means over the last seconds, fed once a second."""

from collections import deque
from math import sqrt
from statistics import median


class Rate:
    """Amount a second over the last `seconds` additions."""

    def __init__(self, seconds: int) -> None:
        self._parts: deque[tuple[int, int]] = deque(maxlen=seconds)
        self._amount = 0
        self._elapsed_ms = 0

    def __len__(self) -> int:
        return len(self._parts)

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

    def clear(self) -> None:
        self._values.clear()

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

    def clear(self) -> None:
        self._points.clear()


class Total:
    """The sum of the last `count` values."""

    def __init__(self, count: int) -> None:
        self._values: deque[int] = deque(maxlen=count)
        self.sum = 0

    def add(self, value: int) -> None:
        if len(self._values) == self._values.maxlen:
            self.sum -= self._values[0]
        self._values.append(value)
        self.sum += value


class Spread:
    """How much the last `count` values differ among each other."""

    def __init__(self, count: int) -> None:
        self._values: deque[float] = deque(maxlen=count)
        self._sum = self._squares = 0.0

    def add(self, value: float) -> None:
        if len(self._values) == self._values.maxlen:
            first = self._values[0]
            self._sum -= first
            self._squares -= first * first
        self._values.append(value)
        self._sum += value
        self._squares += value * value

    def clear(self) -> None:
        self._values.clear()
        self._sum = self._squares = 0.0

    def __len__(self) -> int:
        return len(self._values)

    @property
    def variation(self) -> float | None:
        """The coefficient of variation: standard deviation by mean. None while the mean is 0."""
        count = len(self._values)
        if not count or self._sum <= 0:
            return None
        mean = self._sum / count
        return sqrt(max(0.0, self._squares / count - mean * mean)) / mean


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
