"""One shared object."""

from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from ingest.live.objects.limits import SLOT_BYTES
from ingest.live.objects.steps import Step
from ingest.live.objects.values import Stored
from ingest.live.objects.whole import Whole

Access = Literal["none", "temporary", "persistent"]
"""Which objects an application has: persistent ones besides temporary ones."""


@dataclass(eq=False, slots=True)
class Member:
    """A client. The shell adds how it is reached."""

    app: str
    """With its instance."""
    access: Access
    amf3: bool
    """Whether it is sent values in AMF3."""


M = TypeVar("M", bound=Member)


@dataclass(eq=False, slots=True)
class LiveObject(Generic[M]):
    app: str
    name: str
    persistent: bool
    version: int = 0
    """Grows with each message that changes something."""
    slots: dict[str, Stored] = field(default_factory=dict)
    size: int = 0
    """What the properties take, as bytes are counted."""
    members: dict[M, None] = field(default_factory=dict)
    """Those who use it, in the order in which they came."""
    unsaved: dict[str, bytes | None] = field(default_factory=dict)
    """Of a persistent one: what has become of properties since the latest `take_unsaved`; None: deleted."""
    waiting: dict[M, list[Step]] | None = None
    """While it is being loaded: who wants to use it, and what they asked for."""
    waiting_bytes: int = 0
    loader: M | None = None
    """Through whom it is being loaded."""
    pending: dict[M, list[Step]] = field(default_factory=dict)
    """Once it is loaded: who has waited, and what of theirs is still to be done."""
    whole: Whole = field(default_factory=Whole)

    def cost(self, name: str, value: Stored) -> int:
        """By how many bytes the object grows when the property is set."""
        former = self.slots.get(name)
        return value.size + SLOT_BYTES + len(name) if former is None else value.size - former.size

    def set(self, name: str, value: Stored) -> None:
        self.size += self.cost(name, value)
        self.slots[name] = value
        self.whole.put(name, value)
        if self.persistent:
            self.unsaved[name] = value.data

    def remove(self, name: str) -> bool:
        """Whether there was such a property."""
        former = self.slots.pop(name, None)
        if former is None:
            return False
        self.size -= former.size + SLOT_BYTES + len(name)
        self.whole.remove(name)
        if self.persistent:
            self.unsaved[name] = None
        return True

    def take_unsaved(self) -> dict[str, bytes | None]:
        taken, self.unsaved = self.unsaved, {}
        return taken
