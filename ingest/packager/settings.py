"""What a packager allows its viewers to take, and how long it waits. Cuts and windows of playlists are
`ingest.hls.HlsSettings`."""

from dataclasses import dataclass
from pathlib import Path

from ingest.addresses import Network
from ingest.rtmp.limits import KIB, MIB


@dataclass(frozen=True, slots=True)
class PackagerSettings:
    proxies: tuple[Network, ...] = ()
    """From these, requests are those of the client that X-Forwarded-For names."""
    rewind: Path | None = None
    """The folder for segments that viewers may go back to; None: there are but those in memory."""
    rewind_s: int = 0
    """How far they may go back."""
    rewind_bytes: int = 20 * 1024 * MIB
    """What the folder may hold of all streams: over it the oldest segments go first."""
    rewind_free_bytes: int = 1024 * MIB
    """With less room on its disk nothing is written."""

    # --- Life of what is packaged ---
    idle_s: float = 30.0
    """After the last request: then the stream is not packaged any more, unless it always is."""
    ready_s: float = 10.0
    """For a stream that is live to have its first segment begun: then the request has failed."""
    pulled_s: float = 10.0
    """For a stream that is pulled on demand to be live; the same."""
    most_streams: int = 200
    """That are packaged at a time."""
    always_s: float = 2.0
    """Between two looks for streams that are always packaged."""
    known_s: float = 1.0
    """For so long is held true what the database said of a name and a token; a request that comes later has it asked
    again."""
    doubted_s: float = 3600.0
    """While the database gives no answer, what it said goes on being true for so long: who watches goes on, as players
    by RTMP do. Who is new is told to try again."""
    fresh_s: float = 15.0
    """But not what nobody has asked for since: it may have changed before."""
    names: int = 5_000
    """Of names and tokens that are remembered."""

    # --- Viewers ---
    viewers: int = 20_000
    """At a time."""
    viewers_per_address: int = 1_000
    """The same of one address: a school's viewers share one."""
    new_viewers: int = 1_000
    """That may come of one address at once; and names and tokens that nobody has asked for of late, as each asks the
    database;"""
    new_viewers_per_s: float = 50.0
    """and in the long run."""
    gone_s: float = 12.0
    """Without a request a viewer has left; with long segments after twice their length, if that is more."""
    turned_away_s: float = 60.0
    """For so long one who was kicked is told so."""
    beacon_bytes: int = 1 * KIB

    # --- Connections and requests ---
    connections: int = 20_000
    """Or as many as the process may open files for, if those are fewer."""
    connections_per_address: int = 2_000
    """Browsers open up to six."""
    requests: int = 120
    """Of one connection at once, as far as it has not asked before (a proxy's have no such bound),"""
    requests_per_s: float = 40.0
    """and in the long run: a viewer of low latency asks 8 times a second. Who asks more waits."""
    pipelined: int = 16
    """That wait behind one that is answered. No browser sends any."""
    head_s: float = 10.0
    """From the first byte of a request to its end."""
    head_bytes: int = 16 * KIB
    idle_connection_s: float = 75.0
    """Between two requests."""
    answer_s: float = 60.0
    """For the client to take anything of an answer that waits for it."""
    blocked_s: float = 30.0
    """For what a request waits for to come into being; never longer than three target durations."""
    disk_threads: int = 2
    """That read and write segments of the rewind."""
    waiting_reads: int = 200
    """Requests that may wait for them, or are sent what they have read;"""
    read_bytes: int = 256 * MIB
    """so much at a time, as each has its own copy."""
    waiting_writes: int = 200
    """Segments that may wait to be written."""
    grace_s: float = 3.0
    """For answers under way, when the packager stops."""
