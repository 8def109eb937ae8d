"""What clients may make a node hold in shared objects, and how much work for others one of them may cause."""

from dataclasses import dataclass
from typing import Final

from ingest.rtmp.limits import KIB, MIB

OBJECT_BYTES: Final = 1 * KIB
"""Counted for an object besides its properties,"""
SLOT_BYTES: Final = 256
"""for a property besides its name and value, and for each request that waits for an object to be loaded."""


@dataclass(frozen=True, slots=True)
class ObjectLimits:
    """What goes over one is refused with a status of the object; over `work_per_s` the connection ends.

    How long names, messages and values nested in values may be is in `ingest.rtmp.Limits`.
    """

    per_connection: int = 64
    """Objects that one client uses at once. Applications with rooms have some ten."""

    per_application: int = 1000
    """Objects of an application instance that are in use."""

    clients: int = 1000
    """Of one object: each of its changes is sent to all of them."""

    slots: int = 1000
    """Properties of an object. A list of users has one for each."""

    value_bytes: int = 32 * KIB
    """A property's value, or those of a message, in the longer of AMF0 and AMF3."""

    object_bytes: int = 256 * KIB
    """All properties of an object; once more for requests that wait until it is loaded. A new client is sent all."""

    node_bytes: int = 64 * MIB
    """All objects of a node, with what waits for them."""

    encoded_bytes: int = 32 * MIB
    """Of a node's objects, as new clients are sent them: kept for the next ones. What is over it is made each time."""

    work_per_s: int = 10_000
    """What a client's requests cause in a second, as a mean over `work_s`: one for each message to a client, for each
    KiB of it, and for each 64 bytes of an object that a new client is sent. About 15 % of a core; a chat of 1,000
    users takes 10 messages a second from each of them."""

    work_s: float = 1.0
    """Of work that may come at once. Short, as it is done at once: some 0.15 s."""
