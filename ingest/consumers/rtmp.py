"""The application behind one RTMP connection: asks the database, answers, and records what happens.

Decisions run as tasks under a time limit and fail closed. What is recorded never contains a credential: it is used for
the look-up and not kept.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from channels.exceptions import StopConsumer
from django.utils import timezone

from ingest import clean
from ingest.consumers import database, deciding, guarding, recorder
from ingest.consumers.active import DRAINING, REACH, ActiveSession, standing
from ingest.consumers.base import ControlConsumer
from ingest.consumers.recorder import Happening
from ingest.contracts import (
    ConnectEvent,
    DisconnectEvent,
    EndReason,
    MetadataEvent,
    PlayAccept,
    PlayEvent,
    PublishAccept,
    PublishEvent,
    RtmpScope,
    StatusEventMessage,
    StopEvent,
    UnpublishEvent,
)
from ingest.history import BeginRow, MediaRow, get_history
from ingest.models import Stream
from ingest.services import admission, sessions
from ingest.services.admission import Grant, NotYet, Peer, PublishRequest
from ingest.services.refusals import Action, Refused

T = TypeVar("T")

MAX_BUFFERED = 32
"""Events of a connection that has no session yet; the oldest give way."""

MAX_ATTEMPTS = 20
"""Refusals of one connection that are recorded."""

MAX_METADATA = 50
"""Changes of a session's metadata that are recorded: some encoders repeat it at every change of bitrate."""

PLAYS: database.Together[Stream] = database.Together()


class RtmpConsumer(ControlConsumer):
    scope: RtmpScope

    def __init__(self) -> None:
        super().__init__()
        self.streams: dict[int, ActiveSession] = {}
        """The sessions of this connection by message stream id."""
        self.buffered: deque[Happening] = deque(maxlen=MAX_BUFFERED)
        self.attempts = 0
        self.had_session = False
        self.app_is_known = False
        self.action: Action = "connect"
        """What the client would do next; for a connection that breaks before it does."""

    @property
    def peer(self) -> Peer:
        return Peer(
            address=self.scope["client"][0],
            encoder=self.scope["flash_ver"],
            node=self.scope["node"],
            channel=getattr(self, "channel_name", ""),
        )

    # --- Decisions ---

    async def rtmp_connect(self, event: ConnectEvent) -> None:
        self.spawn(self._connect(event))

    async def rtmp_publish(self, event: PublishEvent) -> None:
        self.spawn(self._publish(event))

    async def rtmp_play(self, event: PlayEvent) -> None:
        self.spawn(self._play(event))

    async def _connect(self, event: ConnectEvent) -> None:
        def check() -> None:
            admission.connect(
                app=self.scope["app"],
                credential=event["credential"],
                address=self.scope["client"][0],
                now=timezone.now(),
            )

        async def decide(deadline: float) -> None:
            if event["credential"]:
                guarding.hear("connect", self.scope["client"][0])
            await database.decide(check, executor=database.READ, deadline=deadline)

        try:
            await self._decided("connect", decide)
        except Refused as refused:
            self._attempt(refused, name="")
            await guarding.damp(refused, self.peer, event["credential"])
            await self.send({"type": "rtmp.reject", "code": refused.code, "description": refused.description})
            return
        self.action = "publish"
        self.app_is_known = True
        await self.send({"type": "rtmp.accept"})

    async def _publish(self, event: PublishEvent) -> None:
        self.action = "publish"
        request = PublishRequest(self.scope["app"], event["name"], event["credential"], event["credential_is_name"])
        peer = self.peer
        session_id = uuid.uuid4()
        asked_at = timezone.now()

        def check() -> None:
            now = timezone.now()
            admission.check_publish(
                request=request,
                address=peer.address,
                now=now,
                asked_at=asked_at,
                standing=standing,
                reached_since=REACH.since(now),
            )

        def admit() -> Grant:
            now = timezone.now()
            return admission.admit_publish(
                session=session_id,
                request=request,
                peer=peer,
                now=now,
                asked_at=asked_at,
                standing=standing,
                reached_since=REACH.since(now),
            )

        async def decide(deadline: float) -> Grant:
            guarding.hear("publish", peer.address)
            return await deciding.admit(session_id, check, admit, deadline)

        while True:
            try:
                grant = await self._decided("publish", decide)
                break
            except NotYet as later:
                await asyncio.sleep((later.at - timezone.now()).total_seconds())
            except Refused as refused:
                await self._reject(event, refused)
                return
        if grant.lost is not None:
            recorder.lost(grant.lost)
        session = self._open(event["stream_id"], "publish", grant)
        if grant.replaced is not None:
            recorder.took_over(session, grant.replaced)
        answer: PublishAccept = {
            "type": "rtmp.publish.accept",
            "request_id": event["request_id"],
            "path": grant.path,
            "session_id": str(grant.session),
            "labels": grant.labels,
            "limits": grant.limits,
            "record": grant.record,
        }
        await self.send(answer)
        if grant.replaced is not None:  # One on this server is gone already: the accept displaced it.
            former = grant.replaced
            await sessions.send_stop(channel=former.channel, session_id=former.session, reason="replaced")

    async def _play(self, event: PlayEvent) -> None:
        self.action = "play"
        app, name, credential = self.scope["app"], event["name"], event["credential"]

        def check() -> Stream:
            return admission.check_play(app=app, name=name, credential=credential, now=timezone.now())

        async def decide(deadline: float) -> Stream:
            if credential:
                guarding.hear("play", self.scope["client"][0])
            if get_history().full:  # Nothing may begin that could not be recorded.
                raise database.TooSlow
            return await PLAYS.ask((app, name, credential), check, deadline)

        try:
            stream = await self._decided("play", decide)
        except Refused as refused:
            await self._reject(event, refused)
            return
        grant = admission.admit_play(session=uuid.uuid4(), stream=stream)
        self._open(event["stream_id"], "play", grant)
        answer: PlayAccept = {
            "type": "rtmp.play.accept",
            "request_id": event["request_id"],
            "path": grant.path,
            "session_id": str(grant.session),
            "labels": grant.labels,
        }
        await self.send(answer)

    async def _decided(self, action: Action, work: Callable[[float], Coroutine[Any, Any, T]]) -> T:
        if action != "connect" and self.scope["node"] in DRAINING:
            raise Refused(action, "draining", stream=None, key=None)
        return await deciding.decided(action, work)

    async def _reject(self, event: PublishEvent | PlayEvent, refused: Refused) -> None:
        self._attempt(refused, name=event["name"] if refused.reason != "banned" else "")
        await guarding.damp(refused, self.peer, event["credential"])
        await self.send(
            {
                "type": f"rtmp.{refused.action}.reject",
                "request_id": event["request_id"],
                "code": refused.code,
                "description": refused.description,
            }
        )

    def _attempt(self, refused: Refused, *, name: str) -> None:
        self.attempts += 1
        self.app_is_known = self.app_is_known or refused.app_is_known
        if self.attempts <= MAX_ATTEMPTS:
            recorder.attempt(
                action=refused.action,
                peer=self.peer,
                app=self.scope["app"],
                app_is_known=self.app_is_known,
                name=name,
                reason=refused.reason,
                code=refused.code,
                description=refused.description,
                stream=refused.stream,
                key=refused.key,
            )

    # --- Sessions ---

    def _open(self, stream_id: int, kind: Literal["publish", "play"], grant: Grant) -> ActiveSession:
        session = ActiveSession(
            id=grant.session,
            kind=kind,
            app=grant.app,
            name=grant.name,
            stream=grant.labels["stream"],
            key=grant.labels["key"],
            fencing=grant.fencing,
            node=self.scope["node"],
            address=self.scope["client"][0],
            encoder=clean.text(self.scope["flash_ver"], 255),
        )
        former = self.streams.get(stream_id)
        if former is not None:  # The server ends the former use of a message stream first; never leave one open.
            recorder.end(former, "client_unpublish")
        self.streams[stream_id] = session
        self.had_session = True
        recorder.begin(session)
        if kind == "play":  # A publisher's row was written with its lease.
            get_history().put(
                BeginRow(
                    session=session.id,
                    app=session.app,
                    name=session.name,
                    stream=grant.labels["stream"],
                    node=session.node,
                    channel=self.peer.channel,
                    address=clean.text(session.address, 64),
                    encoder=session.encoder,
                    at=timezone.now(),
                )
            )
        while self.buffered:
            recorder.record(session, self.buffered.popleft())
        recorder.record(session, recorder.happening(recorder.STARTED, level="status", code=kind))
        return session

    async def rtmp_status(self, event: StatusEventMessage) -> None:
        happened = recorder.happening(
            "onstatus", level=event["level"], code=event["code"], description=event["description"]
        )
        session = self.streams.get(event["stream_id"])
        if session is None:
            self.buffered.append(happened)
        else:
            recorder.record(session, happened)

    async def rtmp_metadata(self, event: MetadataEvent) -> None:
        session = self.streams.get(event["stream_id"])
        if session is None:
            return
        session.metadata_changes += 1
        if session.metadata_changes > MAX_METADATA:
            return
        metadata = clean.jsonable(event["metadata"])
        media = clean.jsonable(event["media"])
        get_history().put(MediaRow(session.id, media, metadata))
        recorder.record(session, recorder.happening("metadata", detail={"media": media, "metadata": metadata}))

    async def rtmp_unpublish(self, event: UnpublishEvent) -> None:
        self._close(event)

    async def rtmp_stop(self, event: StopEvent) -> None:
        self._close(event)

    def _close(self, event: UnpublishEvent | StopEvent) -> None:
        for stream_id, session in list(self.streams.items()):
            if str(session.id) == event["session_id"]:
                del self.streams[stream_id]
                recorder.end(session, event["reason"], event["description"], event["totals"])

    async def rtmp_disconnect(self, event: DisconnectEvent) -> None:
        reason = event["reason"]
        if not self.had_session and not self.attempts:
            recorder.attempt(
                action=self.action,
                peer=self.peer,
                app=self.scope["app"],
                app_is_known=self.app_is_known,
                name="",
                reason=reason,
                code="",
                description=event["description"],
            )
        self._end_all("tcp_reset" if reason == "rejected" else reason, event["description"])
        raise StopConsumer

    def ended(self) -> None:
        """The server gave this application up without telling it the connection's end."""
        self._end_all("node_shutdown", "")

    def _end_all(self, reason: EndReason, description: str) -> None:
        while self.streams:
            _, session = self.streams.popitem()
            recorder.end(session, reason, description)

    # --- From the channel layer ---

    async def session_stop(self, message: dict[str, Any]) -> None:
        """Ends one session. A connection that has no other is closed whole: OBS heeds nothing less."""
        found = [
            stream_id for stream_id, session in self.streams.items() if str(session.id) == message.get("session_id")
        ]
        reason: EndReason = message.get("reason", "kicked")
        if found and len(self.streams) == 1:
            await self.send({"type": "rtmp.close", "reason": reason})
        elif found:
            await self.send({"type": "rtmp.stream.stop", "stream_id": found[0], "reason": reason})
