"""The bitrate that a stream's video should have, and how far it can be relied on."""

from typing import Final, Literal, NamedTuple

UNBELIEVABLE: Final = 10.0
"""A claim that differs from what is usually sent by so many times, either way, is not believed."""


class Target(NamedTuple):
    kbps: float
    source: Literal["expected", "claimed", "usual"]
    """`expected`: as the stream's settings say. `claimed`: by the encoder's metadata; of a variable bitrate it is a
    ceiling or a mean. `usual`: the median of what was sent. These words are in the sentences of issues."""

    @property
    def is_set(self) -> bool:
        return self.source == "expected"


def choose(expected: float | None, claimed: float | None, usual: float | None) -> Target | None:
    """The first that there is; a claim has to be believable beside what is usually sent. All kbit/s."""
    if expected:
        return Target(expected, "expected")
    if claimed and (not usual or claimed / UNBELIEVABLE <= usual <= claimed * UNBELIEVABLE):
        return Target(claimed, "claimed")
    return Target(usual, "usual") if usual else None
