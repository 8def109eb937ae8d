"""What the database keeps: who may publish and play, who does now, what happened, and what is kept for clients.

Keys and tokens are kept as HMAC-SHA-256 under the installation's pepper; a secret itself is never stored.
"""

from ingest.models.access import Application, Ban, EncoderLogin, Stream, StreamKey
from ingest.models.audit import AuditEntry
from ingest.models.health import HealthOverride
from ingest.models.installation import Installation
from ingest.models.kept import Recording, SharedObject
from ingest.models.outbox import OutboxEvent, StreamTold
from ingest.models.sessions import Attempt, Lease, Node, Session, StatusEvent

__all__ = [
    "Application",
    "Attempt",
    "AuditEntry",
    "Ban",
    "EncoderLogin",
    "HealthOverride",
    "Installation",
    "Lease",
    "Node",
    "OutboxEvent",
    "Recording",
    "Session",
    "SharedObject",
    "StatusEvent",
    "Stream",
    "StreamKey",
    "StreamTold",
]
