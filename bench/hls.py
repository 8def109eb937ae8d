"""Viewers by low-latency HLS: how late the playlist with the next part comes to each, and what a viewer costs, beside
nginx that has the same requests for the same bytes as files.

A packager beside a media node, or with `--url` another server that runs already. What the viewers get is kept
(`bench/load/hls.py`), and nginx serves it: it doesn't wait, so its viewers ask when the answers came before.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import table
from bench.load.hls import Watched
from bench.measure import Figures, Meter, on_generators_core, percentile, pinned
from bench.peers import Server, Start, another, nginx, rtmpweb
from bench.table import Contest

FILES = "nginx, the same as files"
VIEWERS, SECONDS = 500, 30.0


@dataclass(frozen=True, slots=True)
class Viewing:
    """`folder`: where what a viewer gets is kept, for nginx."""

    viewers: int
    folder: Path

    def measure(self, start: Start, seconds: float) -> Figures:
        """A `Measure`. The server's `url` is that of a stream, or of what was kept of one."""
        with pinned(start) as server, on_generators_core(server):
            meter = Meter(server)
            watched = self._watch(server, seconds, meter)
        for error in sorted(set(watched.errors)):
            print(f"{watched.errors.count(error)} viewers: {error}", file=sys.stderr)
        found = {
            "cpu_ms_per_viewer_s": meter.cpu_s * 1000 / self.viewers / watched.seconds,
            "reloads_per_s": watched.reloads / watched.seconds,
            "part_p99_ms": percentile(watched.part_ms, 0.99),
            "mbps_out": watched.bytes_in * 8 / 1e6 / watched.seconds,
            "kernel_share": meter.kernel_share,
            "rss_mb": meter.last.rss_bytes / 1e6,
            "generator_cores": watched.own_cpu,
            "lost": len(watched.errors),
            **meter.noise(watched.own_cpu, watched.seconds),
        }
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)):
            found[f"reload_{name}_ms"] = percentile(watched.late_ms, share)
        return found

    def _watch(self, server: Server, seconds: float, meter: Meter) -> Watched:
        """By a process of its own, whose children's processes stay on this thread's core."""
        keep = [] if server.url.endswith(".json") else ["--save", str(self.folder)]
        numbers = ["--viewers", str(self.viewers), "--seconds", str(seconds), *keep]
        command = [sys.executable, "-m", "bench.load.hls", server.url, *numbers]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                if process.stdout.readline() != "begin\n":
                    raise SystemExit("The viewers did not begin.")
                meter.begin()
                said = process.stdout.readline()
                meter.end()
            finally:
                process.kill()
        return Watched(**json.loads(said))


def contest(viewers: int, folder: Path, name: str, start: Start, against: str) -> Contest:
    """`start`: of a server with a stream, its `url` that of the stream's multivariant playlist."""
    servers: dict[str, Start] = {name: start}
    if against == "nginx" and (lacking := nginx.missing_files()):
        print(f"Not compared: {lacking}", file=sys.stderr)
    elif against == "nginx":
        servers[FILES] = partial(nginx.serving, folder)
    peer = FILES if FILES in servers else ""
    return Contest(f"{viewers} viewers", Viewing(viewers, folder).measure, servers, peer, "cpu_ms_per_viewer_s")


def add_arguments(act: argparse.ArgumentParser) -> None:
    act.add_argument("--mbps", type=float, default=2, help="of the stream (2)")
    act.add_argument("--url", help="of the multivariant playlist of a stream that is live, of another server")
    act.add_argument("--pid", type=int, help="of that server's process, whose CPU time counts")
    act.add_argument("--viewers", type=int, default=VIEWERS, help=f"({VIEWERS})")
    act.add_argument("--seconds", type=float, default=SECONDS, help=f"of each measured window ({SECONDS:g})")
    act.add_argument("--rounds", type=int, default=1)
    act.add_argument("--against", choices=["nginx", "none"], default="nginx")
    act.add_argument("--json", type=Path, metavar="FILE", help="also write every round's figures there")
    act.set_defaults(run=main)


def main(options: argparse.Namespace) -> int:
    if bool(options.url) != bool(options.pid):
        raise SystemExit("--url and --pid go together.")
    with closing(rtmpweb.Template()) as template, tempfile.TemporaryDirectory(prefix="rtmpweb-bench-") as folder:
        start: Start = partial(rtmpweb.packaged, template, options.mbps)
        if options.url:
            start = partial(another.running, options.url, options.pid)
        one = contest(options.viewers, Path(folder), rtmpweb.NAME, start, options.against)
        results = table.run_rounds([one], options.rounds, options.seconds)
    if options.json:
        table.save(results, options.json)
    print(table.markdown(results))
    return 1 if any(figures["lost"] for rounds in results[0].rounds.values() for figures in rounds) else 0
