"""/metrics for Prometheus: what nodes told in the last seconds, the parts' states, a few cheap counts of the database.
For an API token (or a logged-in user) that may view.

Names follow Prometheus' conventions: base units (seconds, bytes, ratios), `_total` for what only grows. Nodes count and
tell what they counted; what others do is counted in the database. A collection is kept for COLLECT_S, so that several
scrapers cost as much as one. At most MAX_STREAMS streams have series of their own, the others one together; the totals
count all."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import accumulate
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from dashboard.access import bearer_abilities, request_abilities
from dashboard.models import LEVELS, Alert
from dashboard.streams.queries import by_stream
from dashboard.system.parts import State
from dashboard.system.watch import Report, get_watch
from ingest.contracts import NodeFigures, StreamSnapshot
from ingest.delivery.engine import CHANNELS
from ingest.live_store import get_livestore, redis_errors
from ingest.models import Attempt, Delivery, DeliveryCount, Session
from ingest.services.attempts import LASTS
from ingest.services.roles import Ability

logger = logging.getLogger(__name__)

COLLECT_S = 1.0
MAX_STREAMS = 1000
RECENT = timedelta(minutes=5)
DELIVERED = timedelta(hours=1)

HEALTH = {"good": 0, "none": 0, "warning": 1, "bad": 2}
STATES = {State.OK: 0, State.UNKNOWN: 0, State.DEGRADED: 1, State.DOWN: 2}

KBIT = 125.0
"""Bytes."""
MS = 0.001
PERCENT = 0.01


Family = CounterMetricFamily | GaugeMetricFamily
Labels = Sequence[str]


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric: its name after `rtmpweb_`, what it is, and the field of a stream's or node's figures that it is of,
    times `factor`, or the number that `words` has for it (0: for none).
    """

    name: str
    help: str
    field: str
    factor: float = 1.0
    words: Mapping[str, float] | None = None
    adds: bool = False
    """Whether a sum over streams means anything: then those without series of their own have one together."""

    def value(self, figures: Any) -> float | None:
        """None: it is not known now, or the node is of an earlier version, which doesn't tell it."""
        found = figures.get(self.field)
        if found is None:
            return None
        return found * self.factor if self.words is None else self.words.get(found, 0.0)

    def family(self, labels: Labels, rows: Iterable[tuple[Labels, Any]]) -> Family:
        return _family(self.name, self.help, labels, ((values, self.value(row)) for values, row in rows))


STREAM_FIGURES = (
    Figure("stream_live", "Whether media arrives (1) or not (0).", "state", words={"live": 1.0}, adds=True),
    Figure("stream_health", "0 good or no data, 1 warning, 2 bad.", "health", words=HEALTH),
    Figure("stream_video_bytes_per_second", "Of video, mean of 5 s.", "video_kbps", KBIT, adds=True),
    Figure("stream_audio_bytes_per_second", "Of audio, mean of 5 s.", "audio_kbps", KBIT, adds=True),
    Figure("stream_wire_bytes_per_second", "All that its publisher sends, mean of 5 s.", "wire_kbps", KBIT, adds=True),
    Figure("stream_out_bytes_per_second", "To all its players, mean of 5 s.", "out_kbps", KBIT, adds=True),
    Figure("stream_frames_per_second", "Video frames by wall time.", "fps"),
    Figure("stream_keyframe_interval_seconds", "Between the last two keyframes.", "keyframe_interval"),
    Figure("stream_drift_seconds", "That media is behind live.", "drift", MS),
    Figure("stream_players", "Players attached.", "players", adds=True),
    Figure("stream_viewers", "Those of them that watch by HLS.", "viewers", adds=True),
    Figure("stream_slow_players", "Those of them that can't keep up.", "slow_players", adds=True),
)
"""By the labels app and name. A value that is not known now has no sample."""

REST = ("", "")
"""The labels of all streams beyond MAX_STREAMS together."""

COUNTERS = (
    ("received_bytes", "Of audio, video and data, from publishers."),
    ("sent_bytes", "To players, chunk headers included."),
    ("video_frames", "Video frames from publishers."),
    ("audio_frames", "Audio frames from publishers."),
    ("dropped_frames", "Frames that players did not get, as they were too slow for them."),
)


def _counted(of: str) -> tuple[Figure, ...]:
    return tuple(Figure(f"{of}_{name}_total", help_text, name) for name, help_text in COUNTERS)


STREAM_COUNTERS = _counted("stream")
"""By the labels app, name and node: since the node knows the stream. Of two nodes that know it each counts its own."""

NODE_FIGURES = (
    Figure("node_streams", "Streams that the node knows.", "streams"),
    Figure("node_publishers", "Publishers on the node.", "publishers"),
    Figure("node_players", "Players on the node.", "players"),
    Figure("node_viewers", "Those of them that watch by HLS.", "viewers"),
    Figure("node_relays", "Streams of other nodes that it fetches.", "relaying"),
    Figure("node_connections", "RTMP connections.", "connections"),
    Figure("node_refused_connections_total", "Connections over the limits of them.", "refused_connections"),
    Figure("node_draining", "Whether it takes nothing new (1).", "draining"),
    Figure("node_recordings_failing", "Streams that are to be recorded, and are not.", "recordings_failing"),
    Figure("node_in_bytes_per_second", "From publishers.", "in_kbps", KBIT),
    Figure("node_out_bytes_per_second", "To players.", "out_kbps", KBIT),
    Figure("node_loop_delay_max_seconds", "How late timers fired, the most of a second.", "loop_delay_ms", MS),
    Figure("node_cpu_ratio", "Processor time of the node's process; 1: one core.", "cpu_percent", PERCENT),
    Figure("node_disk_free_ratio", "Of the data folder's disk.", "disk_free_percent", PERCENT),
    Figure("node_cache_bytes", "Groups of pictures that are kept for late players.", "caches_bytes"),
    Figure(
        "node_cache_drops_total",
        "Groups of pictures that were dropped, as there was no room for them.",
        "caches_dropped_in_all",
    ),
    Figure("node_last_tick_timestamp_seconds", "When the node told these figures.", "at"),
)
"""By the label node."""

PROCESS = (
    Figure("node_process_cpu_seconds_total", "Processor time of the node's process.", "cpu_s"),
    Figure("node_process_resident_memory_bytes", "Of the node's process.", "resident_bytes"),
    Figure("node_process_open_fds", "Files and sockets that it has open.", "open_files"),
    Figure("node_process_max_fds", "How many it may have open.", "most_files"),
    Figure("node_process_start_time_seconds", "When it began.", "started_at"),
)

RECORDS = (
    Figure("node_history_waiting", "Entries of history that wait for the database.", "history_waiting"),
    Figure("node_history_dropped_total", "Entries of history that were lost.", "history_dropped"),
    Figure("node_telemetry_dropped_total", "Records of telemetry that were lost.", "telemetry_dropped"),
)

NODE_PARTS = (("records", RECORDS), ("counters", _counted("node")), ("process", PROCESS))
"""By the label node, of these parts of its figures; nodes of earlier versions lack some."""

COUNTS = (
    ("sessions_started", "Sessions that began.", ("kind",)),
    ("sessions_ended", "Sessions that ended.", ("kind", "reason")),
    ("attempts_refused", "Refusals, and connections that broke before they came to anything.", ("reason",)),
    ("recordings", "What became of recordings' files.", ("state",)),
)
"""By the label node and these, since the node's process began."""


def _family(name: str, help_text: str, labels: Labels, samples: Iterable[tuple[Labels, float | None]]) -> Family:
    """Of `rtmpweb_NAME` one sample by the values of its labels: a counter if the name ends in _total, else a gauge."""
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    family = kind(f"rtmpweb_{name}", help_text, labels=labels)
    for values, value in samples:
        if value is not None:
            family.add_metric(values, value)
    return family


def _leaves(counts: Any, labels: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """What stands at the ends of nested counts, by the words on the way there."""
    if not isinstance(counts, dict):
        yield labels, counts
        return
    for word, below in counts.items():
        yield from _leaves(below, (*labels, word))


class InstallationCollector(Collector):
    """Everything, in one go. Without Redis there are no live figures, but the parts say why. Raises DatabaseError."""

    def collect(self) -> Iterator[Metric]:
        yield from self._parts(get_watch().report())
        yield from self._counts()
        try:
            view = get_livestore().read()
        except redis_errors() as error:
            logger.warning("No live figures for Prometheus: %s", type(error).__name__)
            return
        streams = list(by_stream(view.streams).values())
        yield from self._streams(streams, view.streams)
        yield from self._nodes(view.nodes)
        yield self._issues([*streams, *view.nodes])

    def _streams(self, streams: list[StreamSnapshot], of_nodes: Iterable[StreamSnapshot]) -> Iterator[Metric]:
        """`of_nodes`: of each node, where several know of one stream."""
        streams.sort(key=lambda stream: (stream["state"] != "live", stream["app"], stream["name"]))
        shown = [((stream["app"], stream["name"]), stream) for stream in streams[:MAX_STREAMS]]
        for figure in STREAM_FIGURES:
            family = figure.family(("app", "name"), shown)
            if figure.adds and len(streams) > MAX_STREAMS:
                family.add_metric(REST, sum(figure.value(stream) or 0.0 for stream in streams[MAX_STREAMS:]))
            yield family
        known = {stream["id"] for _, stream in shown}
        counted = [
            ((stream["app"], stream["name"], stream["node"]), stream["counters"])
            for stream in of_nodes
            if stream["id"] in known and "counters" in stream
        ]
        for figure in STREAM_COUNTERS:
            yield figure.family(("app", "name", "node"), counted)
        states = Counter(stream["state"] for stream in streams)
        counts = [([state], states[state]) for state in ("live", "waiting")]
        yield _family("streams", "Streams that nodes know of.", ("state",), counts)
        help_text = f"Streams beyond the {MAX_STREAMS} that have series of their own."
        yield _family("streams_without_series", help_text, (), [((), max(0, len(streams) - MAX_STREAMS))])

    def _nodes(self, nodes: list[NodeFigures]) -> Iterator[Metric]:
        rows = [((node["node"],), node) for node in nodes]
        for figure in NODE_FIGURES:
            yield figure.family(("node",), rows)
        for part, figures in NODE_PARTS:
            samples = [((name,), node[part]) for (name,), node in rows if part in node]  # type: ignore[literal-required]
            for figure in figures:
                yield figure.family(("node",), samples)
        for kind, help_text, labels in COUNTS:
            counts = (
                ((node["node"], *words), count)
                for node in nodes
                for words, count in _leaves(node["counts"][kind] if "counts" in node else {})  # type: ignore[literal-required]
            )
            yield _family(f"node_{kind}_total", help_text, ("node", *labels), counts)
        yield self._loop_delays(nodes)

    def _loop_delays(self, nodes: list[NodeFigures]) -> Metric:
        family = HistogramMetricFamily(
            "rtmpweb_node_loop_delay_seconds",
            "How late the event loop's timer fired, four times a second: media wait at least so long.",
            labels=("node",),
        )
        for node in nodes:
            if "loop_delays" in node:
                delays = node["loop_delays"]
                bounds = [*map(str, delays["bounds_s"]), "+Inf"]
                buckets = list(zip(bounds, accumulate(delays["counts"]), strict=True))
                family.add_metric((node["node"],), buckets, delays["sum_s"])
        return family

    def _issues(self, evaluated: Sequence[StreamSnapshot | NodeFigures]) -> Metric:
        """By check and level: as many series as there are checks, however many streams."""
        counted = Counter((issue["check"], issue["level"]) for each in evaluated for issue in each.get("issues", ()))
        labels = ("check", "level")
        return _family("health_issues", "Open health issues of streams and nodes.", labels, sorted(counted.items()))

    def _parts(self, report: Report) -> Iterator[Metric]:
        states = [([part.kind], STATES[part.state]) for part in report.parts]
        yield _family("part_state", "0 in order or not known, 1 degraded, 2 down.", ("part",), states)
        since = [([part.kind], part.since.timestamp()) for part in report.parts if part.since is not None]
        yield _family("part_since_timestamp_seconds", "When the part took its state.", ("part",), since)

    def _counts(self) -> Iterator[Metric]:
        opened = _by("kind", Session.objects.filter(ended_at__isnull=True), Session.Kind.values)
        yield _family("sessions_open", "Sessions that have not ended.", ("kind",), opened)
        since = timezone.now() - RECENT
        grew = Q(last_at__gte=since) | Q(at__gte=since)
        recent = Attempt.objects.filter(grew, at__gte=since - LASTS)  # The latter has an index.
        refused = recent.values_list("reason").annotate(Sum("count")).order_by("reason")
        yield _family(
            "attempts_refused_recent",
            "Refused connections, of the rows that grew in the last 5 min: one more each time, for up to an hour.",
            ("reason",),
            [([reason], count) for reason, count in refused],
        )
        alerts = sorted(_by("level", Alert.objects.filter(cleared_at__isnull=True), LEVELS))
        yield _family("alerts_open", "Alerts that have not cleared.", ("level",), alerts)
        yield from self._deliveries()

    def _deliveries(self) -> Iterator[Metric]:
        waiting = Delivery.objects.filter(state=Delivery.State.WAITING).count()
        yield _family("deliveries_waiting", "Messages on their way, or tried again.", (), [((), waiting)])
        since = timezone.now() - DELIVERED
        made = Delivery.objects.filter(number__gte=int(since.timestamp() * 1e6))
        counted = {(to, state): 0 for to in CHANNELS for state in Delivery.State.values}
        for to, state, count in made.values_list("channel", "state").annotate(Count("pk")).order_by():
            counted[to, state] = count
        help_text = "Messages of the last hour, by what became of them."
        yield _family("deliveries_recent", help_text, ("to", "state"), counted.items())
        every = {(to, outcome): 0 for to in CHANNELS for outcome in DeliveryCount.Outcome.values}
        for to, outcome, count in DeliveryCount.objects.values_list("to", "outcome", "count"):
            every[to, outcome] = count
        help_text = "Tries to deliver a message, by what came of them."
        yield _family("delivery_tries_total", help_text, ("to", "outcome"), every.items())


def _by(name: str, rows: QuerySet[Any], values: Sequence[str]) -> list[tuple[list[str], int]]:
    """How many rows there are of each value, of these though there are none."""
    counted = dict.fromkeys(values, 0) | dict(rows.values_list(name).annotate(Count("pk")).order_by(name))
    return [([value], count) for value, count in counted.items()]


class Exposition:
    """The figures as text, collected once in COLLECT_S for each format."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(InstallationCollector())
        ProcessCollector(registry=self._registry)  # Of this web process.
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, bytes]] = {}

    def text(self, accept: str) -> tuple[bytes, str]:
        """The body and its content type, in the format that the scraper accepts."""
        encode, content_type = choose_encoder(accept)
        with self._lock:
            at, body = self._kept.get(content_type, (0.0, b""))
            if not body or time.monotonic() - at >= COLLECT_S:
                body = encode(self._registry)
                self._kept = {content_type: (time.monotonic(), body)}
            return body, content_type


@cache
def exposition() -> Exposition:
    return Exposition()


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Nobody known: 401. Known but not allowed: 403."""
    abilities = bearer_abilities(request)
    if abilities is None:
        known, abilities = request.user.is_authenticated, request_abilities(request)
    else:
        known = bool(abilities)
    if not known:
        refused = HttpResponse("Send `Authorization: Bearer TOKEN`.\n", status=401, content_type="text/plain")
        refused["WWW-Authenticate"] = "Bearer"
        return refused
    if Ability.VIEW not in abilities:
        return HttpResponse("This role may not view.\n", status=403, content_type="text/plain")
    body, content_type = exposition().text(request.headers.get("Accept", ""))
    return HttpResponse(body, content_type=content_type)
