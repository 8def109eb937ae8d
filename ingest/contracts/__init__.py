"""The payloads that cross a border: server to application (ASGI), node to dashboard (snapshots), node to lake (rows).

Plain data only: this package imports nothing else of the project, so that the protocol server, the Django application
and the Spark jobs (by a test that compares schemas) can all hold to it. `docs/rtmp-asgi.md` explains each ASGI message.

Units: `_ms` milliseconds, `_us` microseconds since the Unix epoch (UTC), `_kbps` kilobits a second, `_bytes` bytes;
`at` is seconds since the Unix epoch as a float.
"""

from ingest.contracts.connection import *  # noqa: F403 - each public name of the five is this package's.
from ingest.contracts.end_reasons import *  # noqa: F403
from ingest.contracts.figures import *  # noqa: F403
from ingest.contracts.node import *  # noqa: F403
from ingest.contracts.relays import *  # noqa: F403
