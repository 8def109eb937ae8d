"""Remote shared objects (RTMP 1.0, sections 7.1.3 and 7.3.2): named properties that clients of an application share.

A node has its own. Those of an application instance are told apart by name and by whether they are persistent, as with
Flash Media Server: a temporary and a persistent object of one name have nothing to do with one another.
"""

from ingest.live.shared_objects.registry import Delivery, ObjectPersistence, ObjectRegistry
from ingest.live.shared_objects.state import Access, LiveObject, Member, ObjectLimits, Stored, restored

__all__ = [
    "Access",
    "Delivery",
    "LiveObject",
    "Member",
    "ObjectLimits",
    "ObjectPersistence",
    "ObjectRegistry",
    "Stored",
    "restored",
]
