"""Remote shared objects (RTMP 1.0, sections 7.1.3 and 7.3.2): named properties that clients of an application share.

A node has its own. Those of an application instance are told apart by name and by whether they are persistent, as with
Flash Media Server: a temporary and a persistent object of one name have nothing to do with one another.
"""

from ingest.live.objects.limits import ObjectLimits
from ingest.live.objects.registry import Keeper, Objects
from ingest.live.objects.state import Access, LiveObject, Member
from ingest.live.objects.turn import Delivery
from ingest.live.objects.values import Stored, restored

__all__ = ["Access", "Delivery", "Keeper", "LiveObject", "Member", "ObjectLimits", "Objects", "Stored", "restored"]
