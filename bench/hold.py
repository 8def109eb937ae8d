"""Publishers and players for a minute, with nothing dropped and nothing late: it does, or the exit code is 1.

Publishers send as encoders do, in size and pace. Each player reads every message: it tells the delay of each, and what
is missing. The server's own count of each publisher's frames has to be what was sent.
"""

import argparse
import contextlib
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvloop

from bench.load.client import Target
from bench.load.clip import clip
from bench.load.run import Load, Window, run
from bench.measure import percentile
from bench.peers import rtmpweb
from tests.server_process import Installation, wait_for

COUNTED_S = 15.0
"""How long after their end the sessions' totals may take to be seen."""

Row = dict[str, Any]


def add_arguments(act: argparse.ArgumentParser) -> None:
    act.add_argument("--form", choices=list(rtmpweb.FORMS), default="embedded", help="of the server that is started")
    act.add_argument("--publishers", type=int, default=50)
    act.add_argument("--mbps", type=float, default=1, help="of each (1)")
    act.add_argument("--players", type=int, default=100, help="of the first publisher's stream (100)")
    act.add_argument("--seconds", type=float, default=60)
    act.add_argument("--late-ms", type=float, default=50, help="what is later than this is late (50)")
    other = act.add_argument_group("a server that runs already, instead of one that is started")
    other.add_argument("--rtmp", metavar="URL", help="rtmp://host[:port]")
    other.add_argument("--app", default=rtmpweb.APP, help="an application open for all (bench)")
    other.add_argument("--api", metavar="URL", help="http://host:port; without it the server's count is not looked at")
    other.add_argument("--token", default="", help="of a user who may view")
    act.set_defaults(run=hold)


def hold(options: argparse.Namespace) -> int:
    with _target(options) as (target, installation):
        load = Load(
            *(target, clip(options.mbps), options.publishers),
            players=options.players,
            readers=options.players,
            seconds=options.seconds,
        )
        began = datetime.now(UTC)
        window = uvloop.run(run(load))
        faults = _faults(load, window, options.late_ms)
        if installation:
            faults += _uncounted(installation, target.app, window.frames, began)
    print(_report(load, window, counted=installation is not None))
    for fault in faults:
        print(f"FAILED: {fault}")
    return 1 if faults else 0


@contextlib.contextmanager
def _target(options: argparse.Namespace) -> Iterator[tuple[Target, Installation | None]]:
    with contextlib.ExitStack() as stack:
        if options.rtmp is None:
            template = stack.enter_context(contextlib.closing(rtmpweb.Template()))
            server = stack.enter_context(rtmpweb.running(options.form, template))
            # A node alone has no API.
            yield Target.of(server.url, server.app), server.installation if options.form != "node" else None
            return
        installation = None
        if options.api:
            installation = Installation(Path(stack.enter_context(tempfile.TemporaryDirectory())))
            installation.http, installation.token = options.api.rstrip("/"), options.token
        yield Target.of(options.rtmp, options.app), installation


def _faults(load: Load, window: Window, late_ms: float) -> list[str]:
    found = [f"{count} times: {error}" for error, count in _counted(window.errors)]
    if window.missing:
        found.append(f"players missed {window.missing} messages")
    if window.left_out:
        found.append(f"the server did not read: {window.left_out} messages could not be sent")
    if load.players and not window.delays_ms:
        found.append("players got nothing")
    late = sum(delay > late_ms for delay in window.delays_ms)
    if late:
        found.append(
            f"{late} of {len(window.delays_ms)} messages were later than {late_ms:g} ms"
            f" (the generator itself was up to {window.lateness_ms:.0f} ms late: is the machine calm?)"
        )
    return found


def _counted(errors: list[str]) -> list[tuple[str, int]]:
    return [(error, errors.count(error)) for error in sorted(set(errors))]


def _uncounted(installation: Installation, app: str, sent: dict[str, int], since: datetime) -> list[str]:
    """Where the server's totals are not what was sent."""
    try:
        rows = wait_for(
            partial(_ended, installation, app, set(sent), since),
            timeout_s=COUNTED_S,
            what=f"the totals of all {len(sent)} publishers",
        )
    except AssertionError as error:
        return [str(error)]
    return [
        f"{name}: sent {sent[name]} frames, the server counted {frames}"
        for name, row in rows.items()
        if (frames := row["video_frames"] + row["audio_frames"]) != sent[name]
    ]


def _ended(installation: Installation, app: str, names: set[str], since: datetime) -> dict[str, Row] | None:
    """The publishing sessions by name, once all of them are closed."""
    asked = {"app": app, "kind": "publish", "open": "false", "since": since.isoformat(), "limit": 1000}
    rows = {row["name"]: row for row in installation.items(f"/api/v1/sessions?{urlencode(asked)}")}
    return {name: rows[name] for name in names} if names <= rows.keys() else None


def _report(load: Load, window: Window, *, counted: bool) -> str:
    delays = window.delays_ms
    shares = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0))
    return "\n".join(
        [
            f"{load.publishers} publishers of {load.clip.kbps / 1000:.2f} Mbps, {load.players} players,"
            f" {window.seconds:.0f} s: {window.messages} messages in, {len(delays)} delivered",
            "delay, ms: " + ", ".join(f"{name} {percentile(delays, share):.1f}" for name, share in shares),
            f"missing {window.missing}, not sent {window.left_out}, connections refused or lost {len(window.errors)}",
            "the server's count of frames was " + ("compared with what was sent" if counted else "not looked at"),
            f"generator: {window.own_cpu:.2f} of a core, at most {window.lateness_ms:.0f} ms late",
        ]
    )
