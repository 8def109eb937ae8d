"""The benchmarks' command line: `make bench ARGS="..."`, or `python -m bench ...`. No arguments: the whole table."""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from bench import analytics, bars, cases, dashboards, hls, hold, relays, rush, slowplayer, table
from bench.cases import FLUSHES_MS, TABLE, Field
from bench.load.client import Refused
from bench.peers import Start, another, rtmpweb
from bench.table import Contest

MICRO = Path(__file__).parent / "micro"


def main(words: list[str]) -> int:
    is_table = not words or (words[0].startswith("--") and words[0] != "--help")
    options = parser().parse_args(["table", *words] if is_table else words)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except Refused as error:
        print(f"The server refused the load: {error}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    acts = found.add_subparsers(
        required=True, metavar="table|ingest|fanout|connect|rush|hold|slowplayer|relays|hls|dashboards|analytics|micro"
    )

    all_of_it = acts.add_parser("table", help="every case, or those that are named, against nginx-rtmp")
    all_of_it.add_argument("--cases", nargs="+", choices=list(TABLE), default=list(TABLE), metavar="CASE")
    _contests(all_of_it, lambda field, options: [TABLE[name](field) for name in options.cases])

    ingest = acts.add_parser("ingest", help="publishers only")
    ingest.add_argument("--publishers", type=int, default=100)
    ingest.add_argument("--mbps", type=float, default=1, help="of each publisher (1)")
    ingest.add_argument("--chunk", type=int, default=4096, help="the publishers' chunk size (4096)")
    _contests(ingest, lambda field, options: [cases.ingest(field, options.publishers, options.mbps, options.chunk)])

    fanout = acts.add_parser("fanout", help="one publisher and its players")
    fanout.add_argument("--players", type=int, default=300)
    fanout.add_argument("--mbps", type=float, default=5, help="of the publisher (5)")
    fanout.add_argument("--flush", type=int, nargs="+", default=FLUSHES_MS, metavar="MS", help="(0 50 100)")
    fanout.add_argument("--workers", type=int, nargs="+", default=(1,), metavar="N", help="of each server, too (1)")
    _contests(
        fanout,
        lambda field, options: [cases.fanout(field, options.players, options.mbps, options.flush, options.workers)],
    )

    connect = acts.add_parser("connect", help="connect, createStream, publish and close, again and again")
    _contests(connect, lambda field, options: [cases.connect(field)])

    rush.add_arguments(acts.add_parser("rush", help="many publishers or players within a second or two"))

    hold.add_arguments(acts.add_parser("hold", help="a minute in which nothing may be dropped or late"))

    slowplayer.add_arguments(acts.add_parser("slowplayer", help="what a player gets that can't keep up, simulated"))

    relays.add_arguments(acts.add_parser("relays", help="streams of one node, played on others: delay and counts"))

    hls.add_arguments(acts.add_parser("hls", help="viewers by low-latency HLS: how late, and what each costs"))

    dashboards.add_arguments(
        acts.add_parser("dashboards", help="many streams and open walls: bytes, and the loop's delay")
    )

    analytics.add_arguments(
        acts.add_parser("analytics", help="history: Spark beside DuckDB, a day, one new hour, memory")
    )

    small = acts.add_parser("micro", help="what single parts cost in memory")
    small.add_argument("names", nargs="*")
    small.set_defaults(run=lambda options: micro(options.names))
    return found


def _contests(act: argparse.ArgumentParser, choose: Callable[[Field, argparse.Namespace], list[Contest]]) -> None:
    """What all comparisons have in common. `choose`: the contests that the options ask for."""
    act.add_argument("--seconds", type=float, default=6, help="of each measured window (6)")
    act.add_argument("--rounds", type=int, default=1, help="of each case; their medians are shown (1)")
    act.add_argument("--against", choices=["nginx", "none"], default="nginx")
    act.add_argument("--form", choices=list(rtmpweb.FORMS), default="node", help="of rtmpweb (node)")
    peer = act.add_argument_group("another server, which runs already, in the same rounds")
    peer.add_argument("--peer", metavar="URL", help="rtmp://HOST:PORT/APP, where anybody may publish and play")
    peer.add_argument("--peer-pid", type=int, metavar="PID", help="of the process whose CPU time counts")
    peer.add_argument("--peer-name", default="peer", metavar="NAME", help="in the table (peer)")
    act.add_argument("--json", type=Path, metavar="FILE", help="also write every round's figures there")
    act.set_defaults(run=lambda options: compare(options, choose))


def compare(options: argparse.Namespace, choose: Callable[[Field, argparse.Namespace], list[Contest]]) -> int:
    with closing(rtmpweb.Template()) as template:
        contests = choose(cases.field_of(options.form, template, options.against, _others(options)), options)
        results = table.run_rounds(contests, options.rounds, options.seconds)
    if options.json:
        table.save(results, options.json)
    print(table.markdown(results))
    print("\n" + bars.markdown(results))
    print(f"\nForm {options.form}; {options.rounds} rounds of {options.seconds:g} s; {noise()}")
    return 0


def _others(options: argparse.Namespace) -> dict[str, Start]:
    if not options.peer:
        return {}
    if not options.peer_pid:
        raise SystemExit("--peer needs --peer-pid: the process whose CPU time counts.")
    return {options.peer_name: partial(another.running, options.peer, options.peer_pid)}


def noise() -> str:
    average = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    return f"load average at the end: {average}; a ratio with ~ had others at work on the cores in every round"


def micro(names: list[str]) -> int:
    """Each benchmark of the folder `micro` in a process of its own."""
    found = sorted(file.stem for file in MICRO.glob("*.py") if not file.stem.startswith("_"))
    unknown = sorted(set(names) - set(found))
    if unknown:
        print(f"There is no benchmark {', '.join(unknown)}; there are: {', '.join(found)}.", file=sys.stderr)
        return 2
    failed = 0
    for name in names or found:
        print(f"--- {name}", flush=True)
        failed |= subprocess.run([sys.executable, "-m", f"bench.micro.{name}"], check=False).returncode
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
