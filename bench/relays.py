"""Nodes that relay: streams of one origin, played on edges. What a relay adds in time, what the origin sends, and
whether players are counted right.

The production form, with PostgreSQL, Redis and the web process, whose API tells the counts. Players go round the
nodes; some of each node's read every message of the first stream. All of it shares this machine's cores with the
generator: the delays are an upper bound, and what counts is their difference between the edges and the origin.
"""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from bench.load.client import Target
from bench.load.clip import clip
from bench.load.run import Load, Window, run
from bench.measure import percentile
from bench.peers.rtmpweb import APP, OPEN


def add_arguments(act: argparse.ArgumentParser) -> None:
    act.add_argument("--edges", type=int, default=3)
    act.add_argument("--streams", type=int, default=1)
    act.add_argument("--players", type=int, default=100, help="of each node, of all streams together (100)")
    act.add_argument("--mbps", type=float, default=1, help="of each stream (1)")
    act.add_argument("--seconds", type=float, default=20)
    act.add_argument("--most-ms", type=float, default=20, help="that a relay may add to the 99th percentile (20)")
    act.set_defaults(run=relays)


class Counts:
    """What the API says while the load lasts, as its Watcher."""

    def __init__(self, production: Any, streams: int) -> None:
        self._production, self._streams = production, streams
        self.found: list[dict[str, Any]] = []
        self.nodes: dict[str, dict[str, Any]] = {}

    def joining(self) -> None:
        pass

    def begin(self) -> None:
        pass

    def end(self) -> None:
        self.found = [self._production.get(f"/api/v1/streams/{APP}/load{number}") for number in range(self._streams)]
        self.nodes = {node["name"]: node for node in self._production.get("/api/v1/nodes")["items"]}


def relays(options: argparse.Namespace) -> int:
    from tests.production.installation import Production  # It reads the settings: bench.analytics has others.

    edges = [f"edge-{number}" for number in range(1, options.edges + 1)]
    with tempfile.TemporaryDirectory(prefix="rtmpweb-bench-", ignore_cleanup_errors=True) as folder:
        production = Production(Path(folder), nodes=("origin", *edges))
        try:
            production.start()
            production.manage(*OPEN)
            at = {name: Target.of(node.url, APP) for name, node in production.nodes.items()}
            counts = Counts(production, options.streams)
            load = Load(
                at["origin"],
                clip(options.mbps),
                options.streams,
                players=options.players * len(at),
                each=True,
                play_at=tuple(at[name] for name in edges),
                readers=10 * len(at) * options.streams,
                seconds=options.seconds,
            )
            window = uvloop.run(run(load, counts))
        finally:
            production.stop()
    faults = _faults(options, window, at, counts)
    _report(options, window, at, counts)
    for fault in faults:
        print(f"FAILED: {fault}")
    return 1 if faults else 0


def _faults(options: argparse.Namespace, window: Window, at: Mapping[str, Target], counts: Counts) -> list[str]:
    found = sorted(set(window.errors))
    players = sum(stream["players"] for stream in counts.found)
    if players != options.players * len(at):
        found.append(f"the streams tell of {players} players, there are {options.players * len(at)}")
    for name, node in counts.nodes.items():
        if node["players"] != options.players:
            found.append(f"{name} tells of {node['players']} players, there are {options.players}")
        if name != "origin" and len(node["relays"]) != options.streams:
            found.append(f"{name} relays {len(node['relays'])} streams, of {options.streams}")
    if window.missing:
        found.append(f"players missed {window.missing} messages")
    added = [_p99(window, at[name]) - _p99(window, at["origin"]) for name in at if name != "origin"]
    if max(added) > options.most_ms:
        found.append(f"a relay adds {max(added):.1f} ms to the 99th percentile")
    return found


def _p99(window: Window, target: Target) -> float:
    return percentile(sorted(window.delays_at_ms[target]), 0.99)


def _report(options: argparse.Namespace, window: Window, at: Mapping[str, Target], counts: Counts) -> None:
    print(f"{options.streams} streams of {options.mbps:g} Mbit/s, {options.players} players at each node\n")
    print("| node | players | relays | in, Mbit/s | out, Mbit/s | CPU | delay p50, ms | p99, ms |")
    print("|---|---|---|---|---|---|---|---|")
    for name, target in at.items():
        node, delays = counts.nodes[name], window.delays_at_ms[target]
        figures = f"{node['in_kbps'] / 1000:.1f} | {node['out_kbps'] / 1000:.1f} | {node['cpu_percent']:.0f} %"
        late = f"{median(delays):.1f} | {_p99(window, target):.1f}"
        print(f"| {name} | {node['players']} | {len(node['relays'])} | {figures} | {late} |")
    for stream in counts.found:
        passed = ", ".join(f"{each['node']} ({each['players']})" for each in stream["relayed_to"])
        print(f"\n{stream['app']}/{stream['name']}: {stream['players']} players; relayed to {passed}")
