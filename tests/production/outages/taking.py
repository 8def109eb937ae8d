"""Parts are taken away and brought back, and what encoders do meanwhile."""

import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Self

from ingest.services import leases
from tests.background import Background, start_all
from tests.loops import LoopThread
from tests.production.broadcast import on_air
from tests.production.installation import Production
from tests.production.outages import aftermath
from tests.production.outages.steady import Steady
from tests.production.parts import PostgresServer
from tests.production.settings import LONG
from tests.programs import AGAIN_S, Keys
from tests.rtmp_client import Refused, RtmpClient, is_passing
from tests.server_process import Installation, wait_for

AWAY_S = 30.0 if LONG else 6.0
"""At least, and for as long as a test looks. Longer than anybody waits for an answer: see ANSWER_S, and
`dashboard.system.probes`.
"""
UNRENEWED_S = 30.0 if LONG else leases.TTL.total_seconds() + 1
"""Without the database: by its end no lease lives that was held when it went away."""
HANGING_S = 8.0 if LONG else 6.0
ANSWER_S = 4.0
"""A publisher, and a page, is answered in this time, whatever is away."""
SEEN_S = 15.0
"""After what the pages need is back: the web process looks each 2 s, with a limit of 3 s, and the nodes tick; the rest
is for a busy machine.
"""
WRITTEN_S = 8.0
KICKED_S = 10.0
CLIENT_S = 10.0

STREAMS = ["steady-1", "steady-2", "steady-3"]

STARTED = "NetStream.Publish.Start"
NOT_CONNECTED = "NetConnection.Connect.Failed"
UNCHECKED = "NetStream.Publish.Failed"

CLIENT_ENDS = {"client_unpublish", "client_disconnect", "tcp_reset"}

# --- Parts ---


@dataclass
class Outage:
    """From when to when; seconds since the epoch."""

    began: float
    over: float = 0.0


def away(*parts: Background, for_s: float = AWAY_S) -> AbstractContextManager[Outage]:
    """The parts are killed, kept away and started again, and wait until they are ready."""

    def kill() -> None:
        for part in parts:
            part.kill()

    return _taken(kill, lambda: start_all(parts), for_s)


def hanging(part: Background, for_s: float = HANGING_S) -> AbstractContextManager[Outage]:
    """The part is there and doesn't answer."""
    return _taken(part.pause, part.resume, for_s)


def failed_over(server: PostgresServer, for_s: float) -> AbstractContextManager[Outage]:
    """It is started again as a standby: it answers, and takes no writes."""
    return _taken(partial(server.restart, standby=True), partial(server.restart, standby=False), for_s)


@contextmanager
def _taken(take: Callable[[], None], give: Callable[[], None], for_s: float) -> Iterator[Outage]:
    outage, began = Outage(time.time()), time.monotonic()
    take()
    try:
        yield outage
        time.sleep(max(0.0, began + for_s - time.monotonic()))  # The length of the outage is what is tested.
    finally:
        outage.over = time.time()
        give()


# --- Encoders ---


class Encoder(LoopThread):
    """One that is connected, and will publish. Its calls block."""

    def __init__(self, installation: Installation) -> None:
        super().__init__("encoder")
        self._port = installation.rtmp_port
        self.refused: Refused | None = None
        """How it was refused, if it was."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.client = RtmpClient(port=self._port, timeout_s=CLIENT_S)
        self.run(self.client.open(), CLIENT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.client.close(), CLIENT_S)
        super().__exit__()

    def connect(self) -> str:
        """The code of the refusal, or ""."""
        return self._answer(self.client.connect("live"))

    def publish(self, key: dict[str, Any]) -> str:
        """The answer's code."""
        return self._answer(self.client.publish(key["key"])) or STARTED

    def _answer(self, asking: Coroutine[Any, Any, Any]) -> str:
        began = time.monotonic()
        try:
            self.run(asking, 2 * CLIENT_S)
        except Refused as refused:
            self.refused = refused
            return refused.code
        finally:
            took_s = time.monotonic() - began
            assert took_s < ANSWER_S, f"the answer took {took_s:.1f} s"
        return ""


def publish(installation: Installation, key: dict[str, Any]) -> str:
    """The code that a new publisher is answered with."""
    with Encoder(installation) as encoder:
        return encoder.connect() or encoder.publish(key)


def refusal(installation: Installation, key: dict[str, Any]) -> Refused | None:
    """How a new publisher is refused, if it is. One that a busy machine keeps waiting comes back."""
    ends_at = time.monotonic() + CLIENT_S
    while True:
        with Encoder(installation) as encoder:
            if not encoder.connect():
                encoder.publish(key)
        refused = encoder.refused
        if refused is None or not is_passing(refused) or time.monotonic() > ends_at:
            return refused
        time.sleep(AGAIN_S)


def check_accepted(installation: Installation, key: dict[str, Any]) -> None:
    refused = refusal(installation, key)
    assert refused is None, refused


class Guests:
    """Two more publishers: one leaves while a part is away, one is kicked after it."""

    def __init__(self, production: Production, keys: Keys) -> None:
        self._production = production
        self._stays = ExitStack()
        self._leaving = ExitStack()
        self._show = self._stays.enter_context(on_air(production.rtmp, keys["kicked"]))
        self._leaving.enter_context(on_air(production.rtmp, keys["leaving"]))
        self._leaves_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.close()
        self._stays.close()

    def leave(self) -> None:
        self._leaves_at = time.time()
        self._leaving.close()

    def check(self, outage: Outage) -> None:
        """The end that happened meanwhile was written, with its time; who stayed can be kicked."""
        production = self._production
        left = production.wait_for_end("live/leaving", timeout_s=WRITTEN_S)
        assert left["end_reason"] in CLIENT_ENDS
        # It is told to the millisecond.
        assert self._leaves_at - 0.001 <= datetime.fromisoformat(left["ended_at"]).timestamp() < outage.over
        aftermath.check_events(production, [left["id"]])
        assert not self._show.ended
        status, answer = production.request("/api/v1/streams/live/kicked/kick", method="POST")
        assert status == 202, answer
        wait_for(lambda: self._show.ended, timeout_s=KICKED_S, what="the publisher is disconnected")
        assert production.wait_for_end("live/kicked", timeout_s=KICKED_S)["end_reason"] == "kicked"


# --- Afterwards ---


def is_live(production: Production, name: str) -> bool:
    status, answer = production.request(f"/api/v1/streams/live/{name}")
    return bool(status == 200 and answer["state"] == "live")


def wait_seen(production: Production) -> None:
    wait_for(lambda: all(is_live(production, name) for name in STREAMS), timeout_s=SEEN_S, what="all streams are seen")


def check_after(production: Production, steady: Steady, sessions: list[str]) -> None:
    """Every session lives on with its lease and its events, every second of them is in the lake."""
    aftermath.check_sessions(production, STREAMS, sessions)
    aftermath.check_samples(production.folder / "lake", sessions, steady)
