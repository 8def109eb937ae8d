"""What a channel is: how messages go out, and what came of each."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from ingest.models import Delivery

MAX_EXCERPT = 512

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Answer:
    """`status`: None where there was no answer, for the reason in `error`. `excerpt`: how its body began."""

    status: int | None
    error: str = ""
    excerpt: str = ""
    duration_ms: int | None = None
    is_away: bool = False
    """Nobody is there: no other message would arrive."""
    is_final: bool = False
    """It is of no use to try this message again."""

    @property
    def ok(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class Channel(ABC, Generic[M]):
    """Made for each go of the engine, and closed after it: one connection may serve all of its messages."""

    name: ClassVar[str]
    claim_s: ClassVar[float]
    """How long a message is its worker's: longer than sending it may take."""
    at_once: ClassVar[int] = 1
    """Messages of different series that one receiver is sent at the same time."""
    is_read: ClassVar[bool] = False
    """By people, who are not sent what is superseded (`ingest.delivery.kinds`). Programs get all, in order."""
    is_exclusive: ClassVar[bool] = False
    """A receiver that a worker is busy with is left to it, whatever comes."""

    def close(self) -> None:
        pass

    @abstractmethod
    def prepare(self, row: Delivery) -> M:
        """The message as the channel sends it, before it is claimed. What it raises has the row tried again later."""

    @abstractmethod
    def send(self, rows: Sequence[tuple[Delivery, M]]) -> list[Answer]:
        """Sends them, each to its row's receiver. Never raises for what the other side does."""
