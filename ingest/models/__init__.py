"""What the database keeps: who may publish and play, who does now, what happened, and what is kept for clients.

Keys and tokens are kept as HMAC-SHA-256 under the installation's pepper. What is used again (of services, push targets
and pull sources) is sealed under it; no secret is stored as it is.
"""

from ingest.models.access import Application, Ban, EncoderLogin, HealthOverride, Installation, Stream, StreamKey
from ingest.models.activity import Attempt, AuditEntry, Lease, Node, OutboxEvent, Session, StatusEvent, StreamTold
from ingest.models.deliveries import Delivery, DeliveryCount, Service, Webhook
from ingest.models.hours import ExpectedTime
from ingest.models.relays import PullSource, PushTarget
from ingest.models.storage import Recording, SharedObject

__all__ = [
    "Application",
    "Attempt",
    "AuditEntry",
    "Ban",
    "Delivery",
    "DeliveryCount",
    "EncoderLogin",
    "ExpectedTime",
    "HealthOverride",
    "Installation",
    "Lease",
    "Node",
    "OutboxEvent",
    "PullSource",
    "PushTarget",
    "Recording",
    "Service",
    "Session",
    "SharedObject",
    "StatusEvent",
    "Stream",
    "StreamKey",
    "StreamTold",
    "Webhook",
]
