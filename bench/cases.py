"""Which servers meet in which cases, and the cases of the table."""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from bench import dashboards, resident, rush, ticks
from bench.load.cycles import CLIENTS, NAMES
from bench.measure import Case, Measure, connect_cycles
from bench.peers import Start, nginx, rtmpweb
from bench.table import Contest

FLUSHES_MS = (0, 100)


@dataclass(frozen=True, slots=True)
class Field:
    """The servers that may take part: rtmpweb in one form, another that runs already, and nginx-rtmp if it is there and
    wanted."""

    form: str
    template: rtmpweb.Template
    against: str
    others: Mapping[str, Start] = field(default_factory=dict)

    def servers(
        self, flushes_ms: Iterable[int] = (0,), *, record: bool = False, keys: int = 0, form: str = ""
    ) -> dict[str, Start]:
        """rtmpweb once for each flush interval, then the others. `record`: all streams. `keys`: so many streams have
        one, with another server there are none. `form`: in place of the usual one."""
        found: dict[str, Start] = {}
        for flush_ms in flushes_ms:
            label = f"{rtmpweb.NAME}, flush {flush_ms} ms" if flush_ms else rtmpweb.NAME
            started = partial(rtmpweb.running, form or self.form, self.template, flush_ms, record=record, keys=keys)
            found[label] = started
        found |= self.others
        if self.against == "nginx":
            found[nginx.NAME] = partial(nginx.running, record=record)
        return found

    def several(self, workers: int) -> dict[str, Start]:
        """With so many workers each."""
        label = f"{{}}, {workers} workers"
        found: dict[str, Start] = {
            label.format(rtmpweb.NAME): partial(rtmpweb.running, self.form, self.template, workers=workers)
        }
        if self.against == "nginx":
            found[label.format(nginx.NAME)] = partial(nginx.running, workers=workers)
        return found

    @property
    def peer(self) -> str:
        """With which the others are compared; "" if there is none."""
        return nginx.NAME if self.against == "nginx" else next(iter(self.others), "")


def field_of(form: str, template: rtmpweb.Template, against: str, others: Mapping[str, Start]) -> Field:
    """Says on stderr when a wanted peer is not there."""
    if against == "nginx" and (lacking := nginx.missing()):
        print(f"Not compared: {lacking}", file=sys.stderr)
        against = "none"
    return Field(form, template, against, others)


def ingest(servers: Field, publishers: int, mbps: float, chunk_size: int = 4096) -> Contest:
    name = f"ingest {publishers}x{mbps:g} Mbps, chunk {chunk_size}"
    return Contest(name, Case(publishers, mbps, chunk_size).measure, servers.servers(), servers.peer)


def played(servers: Field, publishers: int, mbps: float) -> Contest:
    """Each publisher has a player, and is recorded."""
    name = f"played and recorded {publishers}x{mbps:g} Mbps"
    case = Case(publishers, mbps, players=publishers, each=True)
    return Contest(name, case.measure, servers.servers(record=True), servers.peer)


def fanout(
    servers: Field, players: int, mbps: float, flushes_ms: Iterable[int] = FLUSHES_MS, workers: Iterable[int] = (1,)
) -> Contest:
    """`workers`: each server takes part with so many, too, on as many cores; the kernel deals out its clients."""
    name = f"fan-out {players}x{mbps:g} Mbps"
    found = servers.servers(flushes_ms)
    for count in workers:
        if count > 1:
            found |= servers.several(count)
    return Contest(name, Case(1, mbps, players=players).measure, found, servers.peer)


def connect(servers: Field, form: str = "") -> Contest:
    """Each with a key, where there are keys."""
    several = servers.servers(keys=CLIENTS * NAMES, form=form)
    return Contest(f"connect cycles {form}".strip(), connect_cycles, several, servers.peer, "cycles_per_cpu_s")


def alone(servers: Field, name: str, measure: Measure, form: str, keys: int = 0) -> Contest:
    """A case of ours, that no other server has."""
    start = partial(rtmpweb.running, form, servers.template, keys=keys)
    return Contest(name, measure, {rtmpweb.NAME: start})


TABLE: dict[str, Callable[[Field], Contest]] = {
    "ingest-50x5": partial(ingest, publishers=50, mbps=5),
    "ingest-100x5": partial(ingest, publishers=100, mbps=5),
    "ingest-100x1": partial(ingest, publishers=100, mbps=1),
    "ingest-50x5-chunk128": partial(ingest, publishers=50, mbps=5, chunk_size=128),
    "ingest-50x5-chunk60000": partial(ingest, publishers=50, mbps=5, chunk_size=60_000),
    "played-100x5": partial(played, publishers=100, mbps=5),
    "played-100x1": partial(played, publishers=100, mbps=1),
    "fanout-100x5": partial(fanout, players=100, mbps=5),
    "fanout-300x5": partial(fanout, players=300, mbps=5),
    "fanout-300x1": partial(fanout, players=300, mbps=1),
    "connect": partial(connect, form="node"),
    "connect-postgresql": partial(connect, form="production"),
    **{
        f"rush{ending}": partial(
            alone,
            name=f"{rush.PUBLISHERS} publishers within {rush.PUBLISHERS_S:g} s, {form}",
            measure=rush.PUBLISH.measure,
            form=form,
            keys=rush.PUBLISHERS,
        )
        for ending, form in (("", "node"), ("-postgresql", "production"))
    },
    "rush-players": partial(
        alone,
        name=f"{rush.PLAYERS} players within {rush.PLAYERS_S:g} s",
        measure=rush.PLAY.measure,
        form="node",
    ),
    "tick": partial(alone, name=f"the second of {ticks.STREAMS} streams", measure=ticks.measure, form="node"),
    "quiet-embedded": partial(alone, name="nobody connected, embedded", measure=resident.quiet, form="embedded"),
    "quiet-production": partial(alone, name="nobody connected, production", measure=resident.quiet, form="production"),
    "waiting-players": partial(alone, name="players that wait", measure=resident.Waiting("play").measure, form="node"),
    "waiting-publishers": partial(
        alone,
        name="publishers without media",
        measure=resident.Waiting("publish").measure,
        form="node",
        keys=resident.FIRST + resident.MORE,
    ),
    "wall": partial(alone, name="300 streams, 10 walls, 300 players", measure=dashboards.measure, form="embedded"),
}
"""The table's cases by the names that `--cases` takes."""
