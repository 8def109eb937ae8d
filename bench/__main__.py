"""The benchmarks' command line: `make bench ARGS="..."`, or `python -m bench ...`."""

import argparse
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench import table
from bench.measure import Case, Start
from bench.peers import nginx, rtmpweb
from bench.table import Contest

MICRO = Path(__file__).parent / "micro"
Servers = Callable[[int], dict[str, Start]]
"""flush_ms -> the servers to compare."""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    acts = parser.add_subparsers(dest="act", required=True)
    ingest = acts.add_parser("ingest", help="publishers only")
    ingest.add_argument("--publishers", type=int, default=100)
    ingest.add_argument("--mbps", type=float, default=1, help="of each publisher (1)")
    ingest.add_argument("--chunk", type=int, default=4096, help="the publishers' chunk size (4096)")
    for act in (ingest,):
        act.add_argument("--seconds", type=float, default=10, help="of each measured window (10)")
        act.add_argument("--rounds", type=int, default=1)
        act.add_argument("--against", choices=["nginx", "none"], default="nginx")
        act.add_argument("--form", choices=list(rtmpweb.FORMS), default="node", help="of rtmpweb (node)")
        act.add_argument("--json", type=Path, metavar="FILE", help="also write every round's figures there")
    acts.add_parser("micro", help="what single parts cost in memory").add_argument("names", nargs="*")
    options = parser.parse_args(words)
    if options.act == "micro":
        return micro(options.names)
    with ExitStack() as stack:
        installation = rtmpweb.Installation(options.form)
        stack.callback(installation.close)
        contests = [_ingest(options, installation)]
        results = table.hold(contests, options.rounds, options.seconds)
    print(table.markdown(results))
    if options.json:
        table.save(results, options.json)
    return 0


def _ingest(options: argparse.Namespace, installation: rtmpweb.Installation) -> Contest:
    case = Case(options.publishers, options.mbps, options.chunk)
    name = f"ingest {options.publishers}x{options.mbps:g} Mbps, chunk {options.chunk}"
    servers: dict[str, Start] = {rtmpweb.NAME: partial(installation.running, 0)}
    if options.against == "nginx" and not (lacking := nginx.missing()):
        servers[nginx.NAME] = nginx.running
    elif options.against == "nginx":
        print(f"Not compared: {lacking}", file=sys.stderr)
    return Contest(name, case.measure, servers)


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
