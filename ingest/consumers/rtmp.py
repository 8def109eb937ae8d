"""The application behind one RTMP connection: asks the database, answers, and records what happens.

Decisions run as tasks under a time limit and fail closed. What is recorded never contains a credential: it is used for
the look-up and not kept.
"""

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from channels.exceptions import StopConsumer
from django.conf import settings

from ingest import clean, clock
from ingest.consumers import admissions, decisions, login, recorder, recordings
from ingest.consumers.active import AWAITED, DRAINING, MOST_AWAITED, ActiveSession, join_stream
from ingest.consumers.admissions import Single
from ingest.consumers.base import in_task
from ingest.consumers.calls import Calls
from ingest.consumers.channel_layer import mailbox
from ingest.consumers.shared_objects import Objects
from ingest.contracts import (
    DisconnectEvent,
    EndReason,
    MetadataEvent,
    PlayAccept,
    PlayEvent,
    PublishAccept,
    PublishEvent,
    SessionEnd,
    StatusEventMessage,
)
from ingest.contracts.connection import RecordEvent
from ingest.models import Node, Session, StatusEvent
from ingest.server.relays import FLASH_VERSION
from ingest.services import database, playback, relays, sessions
from ingest.services.admission import Ask, Grant, NotYet
from ingest.services.authorization import PublishRequest
from ingest.services.callback import Permission, Question
from ingest.services.history import BeginRow
from ingest.services.history_writer import get_history
from ingest.services.playback import Playable
from ingest.services.refusals import Action, Refused
from ingest.services.relays import RelayPass
from ingest.services.sessions import MediaRow

T = TypeVar("T")

MAX_BUFFERED = 32
"""Events of a connection that has no session yet; the oldest give way."""

MAX_METADATA = 50
"""Changes of a session's metadata that are recorded: some encoders repeat it at every change of bitrate."""

PLAYS: decisions.Together[Playable] = decisions.Together()


class RtmpConsumer(Calls, Objects):
    def __init__(self) -> None:
        super().__init__()
        self.pending_switch: dict[str, tuple[int, ActiveSession]] = {}
        """By session id: what is to take the place of what a message stream plays (play2)."""
        self.buffered: list[StatusEvent] = []
        """The latest of what came before a session."""
        self.had_session = False

    # --- Decisions ---

    @in_task
    async def rtmp_publish(self, event: PublishEvent) -> None:
        self.action = "publish"
        request = PublishRequest(
            self.app,
            event["name"],
            event["credential"],
            event["credential_is_name"],
            event["publish_type"],
            self.login,
            self.instance,
        )
        peer = self.peer
        session_id = uuid.uuid4()
        single = Single(Ask(session_id, request, peer), database.shared_now(), asyncio.get_running_loop())
        permission = Permission(peer, session_id)

        async def decide(deadline: float) -> Grant:
            if settings.ROLE == Node.Role.EDGE:
                raise Refused("publish", "edge_only", stream=None, key=None)
            login.refuse_banned("publish", peer.address)
            return await admissions.admit(single, permission)

        while True:
            try:
                grant = await self._decided("publish", decide)
                break
            except NotYet as later:
                await asyncio.sleep((later.at - database.shared_now()).total_seconds())
            except Refused as refused:
                await self._reject(event, refused)
                return
        if grant.lost is not None:
            recorder.lost(grant.lost)
        self.authenticated = self.authenticated or grant.labels["key"] is not None
        if grant.test_key is None:
            join_stream(grant.app, grant.name, grant.labels["stream"])
        session = self._open(event["stream_id"], grant.session, grant)
        if grant.record is not None:
            recordings.expect(session)
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
        if grant.record is None and event["publish_type"] != "live":
            await self.send(recordings.not_recorded(event["stream_id"]))
        if grant.replaced is not None:  # One on this server is gone already: the accept displaced it.
            former = grant.replaced.session
            await sessions.send_stop(channel=former.channel, session_id=former.pk, reason="replaced")

    @in_task
    async def rtmp_play(self, event: PlayEvent) -> None:
        self.action = "play"
        app, name, credential, node = self.app, self.named(event["name"]), event["credential"], self.scope["node"]
        relay, verdict = relays.read(credential, node=node, now=clock.utc_now()) if credential else (None, "invalid")
        if relay is not None:
            await self._relay(event, relay, is_expired=verdict == "expired")
            return
        if self.scope["flash_ver"] == FLASH_VERSION:  # As anybody it would be let in where everybody may play.
            await self._reject(event, Refused("play", "relay_unknown", stream=None, key=None))
            return
        wanted = playback.wanted_by(event["start"])
        by_http = self.scope["scheme"] == "http"
        session_id = uuid.uuid4()

        def check() -> Playable:
            now = clock.utc_now()
            target = playback.check(app=app, name=name, credential=credential, wanted=wanted, now=now, by_http=by_http)
            if wanted == "recorded" or target.stream is None or target.is_recording_alone:
                return target
            source = relays.source(stream=target.stream.pk, node=node, now=database.shared_now())
            return replace(target, source=source)

        async def decide(deadline: float) -> Playable:
            if credential:
                login.refuse_banned("play", self.scope["client"][0])
            if get_history().full:  # Nothing may begin that could not be recorded.
                raise decisions.TooSlow
            target = await PLAYS.ask((app, name, credential, wanted, by_http, node), check, deadline)
            if target.is_awaited and AWAITED.get(node, 0) >= MOST_AWAITED:
                raise Refused("play", "too_many_awaited", stream=None, key=None)
            if not (target.is_preview or target.is_download):  # Which are permitted by their token alone.
                question = Question("play", target.application, target.name, stream=target.stream)
                await Permission(self.peer, session_id).ask(question)
            return target

        try:
            target = await self._decided("play", decide)
        except Refused as refused:
            await self._reject(event, refused)
            return
        if target.takes_token:
            self.authenticated = True
        self._open(event["stream_id"], session_id, target, beside=bool(event["transition"]))
        answer: PlayAccept = {
            "type": "rtmp.play.accept",
            "request_id": event["request_id"],
            "path": target.path,
            "session_id": str(session_id),
            "labels": target.labels,
            "recording": target.recording,
            "start_unit": target.start_unit,
        }
        if target.is_preview:
            answer["preview"] = True
        if target.source is not None:
            answer["source"] = target.source
        await self.send(answer)

    async def _relay(self, event: PlayEvent, relay: RelayPass, *, is_expired: bool) -> None:
        """Another node plays it, for its own players: whom those are, that one has asked. It has no session here, and
        counts as nobody; its players do."""
        node = self.scope["node"]

        def check() -> Playable:
            if is_expired:
                raise Refused("play", "token_expired", stream=relay.stream, key=None)
            relays.check_hops(relay, node=node)
            target = playback.relayed(stream=relay.stream, app=self.app, name=self.named(event["name"]))
            via = (relay.by, *relay.via)
            return replace(
                target, source=relays.source(stream=relay.stream, node=node, now=database.shared_now(), via=via)
            )

        async def decide(deadline: float) -> Playable:
            return await decisions.decide(check, executor=decisions.READ, deadline=deadline)

        try:
            target = await decisions.decide_or_refuse("play", decide)
        except Refused as refused:
            await self._reject(event, refused)
            return
        self.had_session = self.authenticated = True
        answer: PlayAccept = {
            "type": "rtmp.play.accept",
            "request_id": event["request_id"],
            "path": target.path,
            "session_id": f"relay-{uuid.uuid4()}",
            "labels": target.labels,
            "recording": None,
            "start_unit": target.start_unit,
            "relay": relay.by,
        }
        if target.source is not None:
            answer["source"] = target.source
        await self.send(answer)

    async def _decided(self, action: Action, work: Callable[[float], Coroutine[Any, Any, T]]) -> T:
        if action != "connect" and self.scope["node"] in DRAINING:
            raise Refused(action, "draining", stream=None, key=None)
        return await decisions.decide_or_refuse(action, work)

    async def _reject(self, event: PublishEvent | PlayEvent, refused: Refused) -> None:
        self.record_refusal(refused, name=self.named(event["name"]) if refused.reason != "banned" else "")
        await login.delay_wrong_secret(refused, self.peer, event["credential"])
        await self.send(
            {
                "type": f"rtmp.{refused.action}.reject",
                "request_id": event["request_id"],
                "code": refused.code,
                "description": refused.description,
                "passes": refused.passes,
            }
        )

    # --- Sessions ---

    def _open(
        self, stream_id: int, session_id: uuid.UUID, grant: Grant | Playable, *, beside: bool = False
    ) -> ActiveSession:
        """`beside`: what the message stream does goes on until the server says that it has ended (play2)."""
        encoder = self.scope["flash_ver"]
        if isinstance(grant, Playable) and grant.is_preview:
            encoder = f"Preview: {encoder}"
        if isinstance(grant, Grant) and grant.encoder:
            encoder = grant.encoder
        is_download = isinstance(grant, Playable) and grant.is_download
        session = ActiveSession(
            id=session_id,
            kind="publish" if isinstance(grant, Grant) else "play",
            app=grant.app,
            name=grant.name,
            stream=grant.labels["stream"] or None,
            key=grant.labels["key"],
            fencing=grant.fencing if isinstance(grant, Grant) else 0,
            node=self.scope["node"],
            address=self.scope["client"][0],
            encoder=clean.text(encoder, 255),
            is_test=isinstance(grant, Grant) and grant.test_key is not None,
            protocol=Session.Protocol.DOWNLOAD.value if is_download else self.peer.protocol,
            pull=grant.pull if isinstance(grant, Grant) else None,
            is_download=is_download,
            deliver=self.dispatch,
        )
        former = self.streams.get(stream_id)
        if beside and former is not None:
            self.pending_switch[str(session.id)] = (stream_id, session)
        else:
            if former is not None:  # The server ends the former use of a message stream first; never leave one open.
                recorder.end(former, "client_unpublish")
            self.streams[stream_id] = session
        self.had_session = True
        recorder.begin(session)
        if session.kind == "play":  # A publisher's row was written with its lease.
            get_history().put(
                BeginRow(
                    session=session.id,
                    app=session.app,
                    name=session.name,
                    stream=session.stream,
                    node=session.node,
                    channel=self.peer.channel,
                    address=clean.text(session.address, 64),
                    encoder=session.encoder,
                    at=clock.utc_now(),
                    protocol=session.protocol,
                )
            )
        for happened in self.buffered:
            recorder.record(session, happened)
        self.buffered.clear()
        recorder.record(session, recorder.event_now(recorder.STARTED, level="status", code=session.kind))
        return session

    async def rtmp_status(self, event: StatusEventMessage) -> None:
        happened = recorder.event_now(
            "onstatus", level=event["level"], code=event["code"], description=event["description"]
        )
        session = self.streams.get(event["stream_id"])
        if session is None:
            self.buffered = [*self.buffered, happened][-MAX_BUFFERED:]
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
        session.encoder = clean.text(clean.encoder_name(session.encoder, metadata), 255)
        media = clean.jsonable(event["media"])
        get_history().put(MediaRow(session.id, media, metadata))
        recorder.record(session, recorder.event_now("metadata", detail={"media": media, "metadata": metadata}))

    async def rtmp_unpublish(self, event: SessionEnd) -> None:
        _, gone = self.pending_switch.pop(event["session_id"], (0, None))
        if gone is not None:
            recorder.end(gone, event["reason"], event["description"], event["totals"])
        for stream_id, session in list(self.streams.items()):
            if str(session.id) == event["session_id"]:
                del self.streams[stream_id]
                recorder.end(session, event["reason"], event["description"], event["totals"])
                self._promote(stream_id)

    rtmp_stop = rtmp_unpublish

    def _promote(self, stream_id: int) -> None:
        """What was to take the place of what has ended, does."""
        for session_id, (place, session) in list(self.pending_switch.items()):
            if place == stream_id:
                del self.pending_switch[session_id]
                self.streams[stream_id] = session

    async def rtmp_disconnect(self, event: DisconnectEvent) -> None:
        reason = event["reason"]
        shared = self.shares and reason in ("tcp_reset", "node_shutdown")
        if not (self.had_session or self.served or shared or self.challenged or self.attempts):
            recorder.attempt(
                action=self.action,
                peer=self.peer,
                app=self.shown_app,
                app_is_known=self.app_is_known,
                reason=reason,
                description=event["description"],
            )
        self._end_all("tcp_reset" if reason == "rejected" else reason, event["description"])
        raise StopConsumer

    async def began(self) -> None:
        self.channel_name = await mailbox().join(self.channel_layer)

    def ended(self) -> None:
        """The server gave this application up without telling it the connection's end."""
        mailbox().leave()
        self._end_all("node_shutdown", "")

    def _end_all(self, reason: EndReason, description: str) -> None:
        for session in (*self.streams.values(), *(session for _, session in self.pending_switch.values())):
            recorder.end(session, reason, description)
        self.streams.clear()
        self.pending_switch.clear()

    async def rtmp_record(self, event: RecordEvent) -> None:
        recordings.note(event)

    # --- From the channel layer ---

    async def session_stop(self, message: dict[str, Any]) -> None:
        """Ends one session. A connection that has no other is closed whole: OBS heeds nothing less."""
        session_id: str = message["session_id"]
        found = [
            stream_id
            for stream_id, session in (*self.streams.items(), *self.pending_switch.values())
            if str(session.id) == session_id
        ]
        reason: EndReason = message.get("reason", "kicked")
        if found and len(self.streams) == 1 and session_id not in self.pending_switch:
            await self.send({"type": "rtmp.close", "reason": reason})
        elif found:
            stop = {"stream_id": found[0], "session_id": session_id, "reason": reason}
            await self.send({"type": "rtmp.stream.stop", **stop})
