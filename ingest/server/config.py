"""What an operator can set of the RTMP server, of recording and of thumbnails, each with its unit and what it costs."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ingest.addresses import Network
from ingest.live import LiveSettings, QueueLimits
from ingest.live.shared_objects import ObjectLimits
from ingest.mp4.limits import Mp4Limits
from ingest.rtmp.limits import DEFAULT_LIMITS, MIB, Limits

QUEUE: Final = QueueLimits(messages=16_384, size_bytes=16 * MIB, seconds=10.0, disposable_at=1.0, slow_share=1.0)


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    folder: Path
    """Files are at APPLICATION/NAME.flv below it; it is made when the first one is."""
    rotate_s: float = 3600.0
    """A session that is recorded since its application records all begins a new file after so long; 0: never."""
    rotate_bytes: int = 0
    """The same by the file's size; 0: never."""
    min_free_bytes: int = 1024 * MIB
    """Recording stops while the disk has less."""
    queue: QueueLimits = QUEUE
    """What may wait for the disk, of each recording, before frames are dropped up to the next keyframe. As much again
    may be under way to it."""
    memory_bytes: int = 256 * MIB
    """All recordings together may hold so much, waiting or under way: over it the longest queues are dropped."""
    threads: int = 4
    """That write, for all recordings of the node."""
    gather_s: float = 0.25
    """How long media gather before they are written and handed to the kernel: what `kill -9` loses."""
    sync_s: float = 10.0
    """Between two fsyncs of a file: what a loss of power loses. 0: only at its end."""
    stall_s: float = 10.0
    """A write that takes longer is told as a failure; the recording goes on when the disk does."""
    again_s: float = 30.0
    """After a failure the recording is tried again so much later, with the next keyframe."""
    lock_s: float = 5.0
    """To append waits so long for a file that somebody else still writes or closes: less than the queue holds."""
    limits: Limits = DEFAULT_LIMITS
    """For reading a file to which is appended, and what is in tags."""


@dataclass(frozen=True, slots=True)
class Mp4Settings:
    """Of recordings that are played and downloaded as MP4."""

    folder: Path | None = None
    """Of recordings, within which heads are kept that were made; None: the latest alone, in files without a name."""
    kept_bytes: int = 2 * 1024 * MIB
    """All heads that are kept, of which a recording's has some 3 MB an hour; over it the longest unused go."""
    kept_files: int = 10_000
    """The same by their number."""
    unnamed: int = 16
    """Heads that are kept where the folder can't be written."""
    limits: Mp4Limits = field(default_factory=Mp4Limits)


@dataclass(frozen=True, slots=True)
class ThumbnailSettings:
    watched_s: float = 5.0
    """Between two pictures of a stream that somebody looks at."""
    unwatched_s: float = 30.0
    """The same while nobody does: what a page shows at first is no older."""
    per_s: int = 10
    """Pictures of all streams of the node, at most; where that is too few, each stream's come less often."""
    share: float = 0.25
    """Of one processor, which is not passed either: a picture of 1080p takes 5 to 15 ms, one of 4K four times that."""
    width: int = 320
    height: int = 180
    """What a picture fits into."""
    keyframe_bytes: int = 4 * MIB
    """Of a longer keyframe none is made."""
    side: int = 8192
    """Nor of one with more pixels across or down."""
    waiting_bytes: int = 8 * MIB
    """Of keyframes that wait for the decoder, about."""
    picture_s: float = 2.0
    """After so long the process is ended, and the picture is given up."""
    start_s: float = 15.0
    """The same for its start."""
    memory_bytes: int = 1024 * MIB
    """Address space that the process may have: about 160 MiB for itself, and 8192x8192 pixels."""
    pictures: int = 2000
    """After so many the process is started anew: whatever it may have leaked is free again."""
    idle_s: float = 60.0
    """Without a picture, after which the process ends."""
    again_s: float = 600.0
    """A stream whose pictures fail is tried half as often each time, but once in so long."""


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """Of streams that are published on another node and played here."""

    most: int = 1000
    """Streams that the node relays at once. Each costs about what a publisher does."""
    begin_s: float = 5.0
    """From the dialling of another node until it plays; then the next is tried."""
    quiet_s: float = 2.0
    """Without a byte from it, after which it is asked for a sign of life,"""
    answer_s: float = 2.0
    """and for that sign; then it is taken for gone. A publisher may be silent for longer, its node may not."""
    idle_s: float = 10.0
    """After the last player left: then the relay ends."""
    first_retry_s: float = 0.25
    """After a failure; twice as long after each further one,"""
    last_retry_s: float = 4.0
    """up to this, and up to a quarter less, so that not all come at once."""
    send_away_s: float = 15.0
    """After so long without success, players are told where the stream is, in place of waiting on."""
    ca: Path | None = None
    """PEM: who signs the certificates of nodes by RTMPS; None: as the system has it."""


@dataclass(frozen=True, slots=True)
class DialSettings:
    """Of other servers, to which streams are pushed, or from which they are pulled."""

    most: int
    """Of the node, at once. Each that is live costs a push what a player does, a pull what a publisher does."""
    begin_s: float = 10.0
    """From dialling until the other server has let it publish or play; a redirect begins anew."""
    first_retry_s: float = 1.0
    """After a failure; twice as long after each further one,"""
    last_retry_s: float = 60.0
    """up to this, and up to a quarter less, so that not all come at once."""
    first_refused_s: float = 30.0
    """The same after a refusal, which hardly passes by itself: many servers ban who insists."""
    last_refused_s: float = 300.0
    settled_s: float = 10.0
    """For so long it has to be live until the times begin anew."""
    ca: Path | None = None
    """PEM: who signs the certificates of RTMPS; None: as the system has it."""


@dataclass(frozen=True, slots=True)
class PushSettings(DialSettings):
    most: int = 100
    media_s: float = 0.1
    """Between two looks for the first media of a publisher: before, no server is dialled."""
    end_s: float = 3.0
    """For what still waits for the other server when the publisher has left."""


@dataclass(frozen=True, slots=True)
class PullSettings(DialSettings):
    most: int = 50
    quiet_s: float = 20.0
    """Without a byte from the other server, after which it is asked for a sign of life,"""
    answer_s: float = 10.0
    """and for that sign; then it is taken for gone."""
    held_bytes: int = 4 * MIB
    """What may come until the application has decided whether it may be published. As nothing is read meanwhile, it is
    hardly more than one read."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long each phase of a connection may take, in seconds. One sweep looks at all connections each `sweep_s`."""

    sweep_s: float = 0.25
    """Between two checks: every other deadline that is at least four times as long is met this much late at most."""
    handshake_s: float = 5.0
    """From the TCP connection to C2."""
    publish_or_play_s: float = 10.0
    """From the handshake to the first publish or play that is asked for, without an accepted `connect`."""
    waiting_s: float = 3600.0
    """The same with one, if that is longer, and from a connection's last session to its next: Flash Media Live Encoder
    connects when it is set up, and publishes when somebody presses Start. It costs a connection of those that there may
    be; pings find those that are gone."""
    decision_s: float = 20.0
    """For the application's answer; then the request is refused. Well above the application's own limits: 2 s for what
    it asks the database, 2 s for what it asks another service, 2 s to write it down, and up to 10 s in which an encoder
    that comes back waits for its former session's end."""
    call_s: float = 15.0
    """For the application's answer to a client's call, as for a decision; then the call has failed."""
    invoke_s: float = 10.0
    """For a client's answer to the application's call."""
    ping_after_s: float = 20.0
    """Without a received byte: then a PingRequest is sent. Any byte counts as life: OBS never answers a ping."""
    ping_answer_s: float = 10.0
    """For any byte to arrive after the PingRequest."""
    write_s: float = 10.0
    """While the peer takes nothing of what waits in the write buffer."""
    unread_s: float = 900.0
    """The same while a browser plays a recording by HTTP: it reads what it needs next, nothing while paused."""
    window_s: float = 3.0
    """While a player acknowledges nothing and answers no ping, though TCP has delivered everything: then it is no
    longer held to its window, until it comes back from its pause, if it was one. One that reads all the same stalls
    once for so long; up to some 20 Mbit/s its queue holds more than that, so that nothing is lost."""
    switch_s: float = 10.0
    """For what a play2 wants to have a keyframe; then what plays goes on. As long as the longest usual interval."""
    disk_s: float = 60.0
    """For a recording's disk to give a player what it waits for; then playing has failed. Long files without an index
    are scanned in this time, too: some five hours of one."""
    back_s: float = 600.0
    """For a client that was sent all of a recording to go back in it, once it has played what it has; then the session
    ends. Clients with large buffers have everything long before."""
    most_back_s: float = 4 * 3600.0
    """The same, paused or not, from when everything was sent."""
    next_item_s: float = 1.0
    """From the refusal of a play to the connection's end, if it plays nothing else. A player may wait for the answer
    before it asks for the playlist's next item, so this is longer than a usual round trip."""
    linger_s: float = 1.5
    """From a refusal's status to the server's own close, so that the client can read it and close first."""
    pause_s: float = 3600.0
    """A publisher's `pause`, which keeps its name and its players: then the session ends. And a player's, in which it
    need not read, nor answer a ping: then it has to, as any other."""
    end_players_s: float = 15.0
    """From a publisher's leaving until players are told that the stream has ended, if none comes back meanwhile. 0: at
    once; `inf`: never. Many programs end at it, so that an encoder's reconnection should fit into it."""
    object_save_s: float = 1.0
    """From a change of a persistent shared object until it is handed to the application, with those that follow."""
    application_s: float = 10.0
    """For the application to return after its last event; then it is cancelled."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    node: str
    """The node's name, as in scopes, samples and leases."""
    rtmp: tuple[str, int] | None = ("0.0.0.0", 1935)  # noqa: S104 - encoders are elsewhere.
    """Host and port to listen on; port 0 takes a free one; None: not without TLS."""
    rtmps: tuple[str, int] | None = None
    """The same with TLS, for which `certificate` and `certificate_key` are needed."""
    media: tuple[str, int] | None = None
    """The same for FLV over HTTP and over WebSocket; None: not at all."""
    hls: tuple[str, int] | None = None
    """Where the packager listens whose node this is: it only tells that."""
    media_origins: frozenset[str] = frozenset()
    """Pages that may play from there, as scheme://host[:port]; with "*" all may. Programs that name none always may."""
    trusted_proxies: tuple[Network, ...] = ()
    """From these, media requests are those of the client that X-Forwarded-For names."""
    media_head_bytes: int = 16 * 1024
    """Of an HTTP request's line and header fields."""
    viewer_bytes_per_s: int = 4096
    """What a viewer may send once it was answered, as a mean over some seconds: it has nothing to say."""
    reuse_port: bool = False
    """Others of this user may listen on the same ports (SO_REUSEPORT): the kernel deals out connections among them."""
    local: Path | None = None
    """A Unix socket on which RTMP is listened for as well, for other nodes of this machine; None: there is none."""
    certificate: Path | None = None
    """PEM: the server's certificate, then its chain."""
    certificate_key: Path | None = None
    """PEM, not encrypted."""
    certificate_poll_s: float = 1.0
    """Between two polls of these files. They are read anew at the second poll that finds them changed alike."""
    reconnect_url: str = ""
    """Where clients that understand a reconnect request are sent to, as rtmp://host[:port]; empty: the same address."""
    flush_ms: int = 0
    """How long what is sent to players is gathered, ms. 0: until the event loop has handled what it had read."""
    read_ms: int = 100
    """How long what a publisher without players sends may wait to be read, ms. 0: it is read as it comes."""
    window_bytes: int = 2_500_000
    """Between acknowledgements, in both directions, as Flash Media Server has it. A player that acknowledges may be
    behind by twice as much."""
    limits: Limits = field(default_factory=Limits)
    queue: QueueLimits = field(default_factory=QueueLimits)
    """What may wait for one player before frames are dropped for it."""
    objects: ObjectLimits = field(default_factory=ObjectLimits)
    """What clients may make the node hold in shared objects."""
    deadlines: Deadlines = field(default_factory=Deadlines)
    live: LiveSettings = field(default_factory=LiveSettings)
    relay: RelaySettings = field(default_factory=RelaySettings)
    push: PushSettings = field(default_factory=PushSettings)
    pull: PullSettings = field(default_factory=PullSettings)
    recording: RecordingSettings | None = None
    """How what the application has recorded is; None: nothing can be."""
    mp4: Mp4Settings = field(default_factory=Mp4Settings)
    thumbnails: ThumbnailSettings | None = None
    """How often pictures of live streams are made, and how large; None: none are."""
    max_connections: int = 10_000
    """Over it a new connection is closed at once, without a scope; the node's tick tells of it."""
    max_connections_per_address: int = 1_000
    """The same for one peer address. High, as a site's players may share one."""
    read_buffer_bytes: int = 256 * 1024
    """One buffer for the whole server: what is read is handled before the next read."""
    write_high_bytes: int = 256 * 1024
    """Above it a player's messages stay in its queue, where they can be dropped."""
    write_low_bytes: int = 64 * 1024
    """At it they are written again."""
    unsent_bytes: int = 128 * 1024
    """Of each connection, that the kernel may hold beside what is under way to the peer: over it they wait here. 0: as
    much as its buffer takes."""
    questions_per_s: float = 2.0
    """Publishes, plays and getStreamLength of one connection, once it had `questions_at_once`: each is work for a
    database, about 10 ms. Who publishes or plays more waits for its turn; getStreamLength has none then."""
    questions_at_once: int = 30
    """An encoder has ten streams at most; somebody in search of a channel hardly needs more."""
    inbox_ticks: int = 10
    """Ticks that may wait for the node's application; the samples of those over it go into a later one."""
    unsent_samples: int = 20_000
    """Such samples; over it the oldest are lost. About 1 KiB each: a minute of 300 streams."""
    control_backlog_bytes: int = 1024 * 1024
    """Answers that may wait for a peer that doesn't read, beside what waited before; over it the connection ends. OBS
    reads nothing while it publishes: what it is sent in a week fits into the kernel's buffers."""
    inbox_events: int = 256
    """Events that may wait for a connection's application; statuses and metadata over it are dropped."""
    masked_data_bytes: int = 64 * 1024
    """A data message that quotes a secret is masked and encoded anew (about 30 ms for so much); a longer one is left
    out. onMetaData has under 2 KiB, but for an index of a file, which holds no texts."""
    backlog: int = 1024
    """Connections that the kernel may hold before they are accepted."""
    disk: Path | None = None
    """The folder whose free space the node's figures report."""
