"""What somebody may play of a name: what is live, its recording, or either (RTMP 1.0, section 7.2.2.1), and how long
that is. Only reads.

Where neither is there, a player waits for the live stream, if somebody may come to publish it.

Who may play a stream is said here alone, whatever the protocol: by its own policy or, where it has none, by its
application's. Closed it plays for nobody; by link, for whoever has a token of its links' generation.

Names of recordings are asked for in several spellings: FFmpeg and others put `flv:` or `mp4:` before them and an ending
behind them, or take that away. A recording goes by the rules of the stream that was recorded: enabled, play tokens. It
needs a token also where everybody may play what is live, unless its application says otherwise, and that may be one of
its own: for a recording of no stream the only one. A download goes by none of that: its token, which a role was needed
for, is the permission. So does an operator's look at what is live, or at a recording."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final, Literal, NoReturn

from django.db.models import Case, When
from django.utils.http import content_disposition_header

from ingest import clean
from ingest.contracts import Labels, RecordedFile, RelayOrder
from ingest.credentials import is_masked, looks_like_key
from ingest.models import Application, Lease, Recording, Stream
from ingest.models.names import instance_of, is_stream_name, name_within
from ingest.services import authorization, keys, play_tokens, recordings
from ingest.services.refusals import Refused

Wanted = Literal["live", "recorded", "any"]

PREFIXES: Final = ("flv:", "mp4:", "f4v:")
ENDINGS: Final = (".flv", ".mp4", ".f4v")

COMPLETE_FIRST: Final = Case(When(state=Recording.State.COMPLETE, then=0), default=1)
"""One that is being recorded plays as far as it is written, where there is none that is complete."""


@dataclass(frozen=True, slots=True)
class Playable:
    application: Application
    name: str
    """As it is kept: without a prefix."""
    stream: Stream | None
    """None: there is but the recording, or nothing yet."""
    recording: RecordedFile | None
    is_preview: bool = False
    """An operator's look."""
    source: RelayOrder | None = None
    """Where it is published, if that is on another node."""

    @property
    def app(self) -> str:
        return self.application.name

    @property
    def path(self) -> str:
        return f"{self.app}/{self.name}"

    @property
    def labels(self) -> Labels:
        return {"stream": self.stream.pk if self.stream is not None else 0, "key": None}

    @property
    def start_unit(self) -> Literal["ms", "s"]:
        """Of the start that players ask for."""
        return "s" if self.application.play_start_unit == Application.StartUnit.SECONDS else "ms"

    @property
    def takes_token(self) -> bool:
        return policy_of(self.application, self.stream) == Application.PlayPolicy.TOKEN

    @property
    def is_download(self) -> bool:
        return self.recording is not None and "disposition" in self.recording

    @property
    def is_recording_alone(self) -> bool:
        """What is live under the name is not meant, or not for this player."""
        return self.recording is not None and ("disposition" in self.recording or "alone" in self.recording)

    @property
    def is_awaited(self) -> bool:
        """Nobody has published it yet, nor has it been recorded."""
        return self.stream is None and self.recording is None


def policy_of(application: Application, stream: Stream | None) -> str:
    """Who may play the stream or, of a name that has none, what the application has under it."""
    return stream.effective_play_policy if stream is not None else application.play_policy


def wanted_by(start: float) -> Wanted:
    """By the argument of `play`; below 0 are -1, live, and what means either."""
    if start >= 0:
        return "recorded"
    return "live" if start == -1 else "any"


def spellings(name: str) -> list[str]:
    """The names that may be meant, the first of them most likely."""
    last = name_within(name)
    start = name.removesuffix(last)
    bare = next((last.removeprefix(prefix) for prefix in PREFIXES if last.startswith(prefix)), last)
    base = next((bare.removesuffix(ending) for ending in ENDINGS if bare.endswith(ending)), bare)
    those = [each for each in dict.fromkeys((last, bare, base)) if each and clean.fits(each)]
    return [f"{start}{each}" for each in those] if clean.fits(start) else []


def check(
    *, app: str, name: str, credential: str, now: datetime, wanted: Wanted = "any", by_http: bool = False
) -> Playable:
    """What of it may be played, or downloaded if it is asked for `by_http`. Raises Refused.

    A stream need not be live: its player waits for the publisher. Where anyone may publish under any name, that name
    need not be known either. A recording that is wanted has to be there.
    """
    names = spellings(name)
    if by_http and wanted == "recorded" and credential:
        permitted = _permitted(app, names, credential, now)
        if permitted is not None:
            return permitted
    rows = Stream.objects.filter(application__name=app, name__in=names).select_related("application")
    streams = {row.name: row for row in rows}
    stream = next((streams[each] for each in names if each in streams), None)
    if stream is not None and wanted == "live" and credential and _may_preview(stream, credential, now):
        return Playable(stream.application, stream.name, stream, None, is_preview=True)
    application = stream.application if stream is not None else _application(app)
    if not application.enabled:
        _refuse("app_disabled")
    recording = None if wanted == "live" else _recording(application, names, credential, now)
    live = None if wanted == "recorded" else stream
    why_not: dict[Literal["live", "recorded"], str] = {}
    if live is not None or (stream is None and wanted != "recorded" and _may_begin(application, name)):
        why_not["live"] = _reason(application, live, credential, now)
    if recording is not None:
        why_not["recorded"] = _reason(application, recording.stream or stream, credential, now, recording)
    if not why_not:
        if stream is None and application.play_policy == Application.PlayPolicy.NONE:
            _refuse("play_not_allowed")
        _refuse("stream_unknown" if stream is None else "recording_unknown", stream)
    ruled_by = live or (recording and recording.stream) or stream
    if all(why_not.values()):
        reasons = [*why_not.values()]
        _refuse("token_expired" if "token_expired" in reasons else reasons[0], ruled_by)
    if recording is None or why_not["recorded"]:
        return Playable(application, live.name if live else name, live, None)
    file = _file(recording)
    if why_not.get("live"):
        file["alone"] = True
    return Playable(application, (live or recording).name, ruled_by, file)


def relayed(*, stream: int, app: str, name: str) -> Playable:
    """What another node plays. Raises Refused: its token is for another stream, or that is gone."""
    row = Stream.objects.filter(pk=stream, application__name=app, name=name).select_related("application").first()
    if row is None:
        _refuse("stream_unknown")
    return Playable(row.application, row.name, row, None)


def _permitted(app: str, names: list[str], token: str, now: datetime) -> Playable | None:
    """What the token lets its bearer download or look at, in whatever state; None: it is for something else."""
    pk, verdict = play_tokens.DOWNLOAD.read(token, now=now)
    is_download = bool(pk)
    if not is_download:
        pk, verdict = play_tokens.LOOK.read(token, now=now)
    if not pk:
        return None
    if verdict == "expired":
        _refuse("download_expired")
    those = Recording.objects.filter(pk=pk, application__name=app, name__in=names)
    recording = those.select_related("application", "stream__application").first()
    if recording is None:
        _refuse("download_unknown")
    file = _file(recording)
    if not is_download:
        file["alone"] = True
        return Playable(recording.application, recording.name, recording.stream, file, is_preview=True)
    name = recordings.download_name(recording)
    file["disposition"] = content_disposition_header(True, name) or ""
    file["mp4_disposition"] = content_disposition_header(True, str(PurePosixPath(name).with_suffix(".mp4"))) or ""
    return Playable(recording.application, recording.name, recording.stream, file)


def _may_preview(stream: Stream, token: str, now: datetime) -> bool:
    """Whether the token is an operator's, for this stream."""
    verdict = play_tokens.PREVIEW.verify(token, stream.pk, now=now)
    if verdict == "expired":
        _refuse("token_expired", stream)
    return verdict == "valid"


def _refuse(reason: str, stream: Stream | None = None) -> NoReturn:
    raise Refused("play", reason, stream=stream.pk if stream is not None else None, key=None)


def _application(name: str) -> Application:
    application = Application.objects.filter(name=name).first() if clean.fits(name) else None
    if application is None:
        _refuse("unknown_app")
    return application


def _recording(application: Application, names: list[str], token: str, now: datetime) -> Recording | None:
    """The one that the token is for; else the newest that is complete, of the first spelling that has any."""
    linked, _ = play_tokens.RECORDING.read(token, now=now) if token else (0, "invalid")
    played = Recording.objects.filter(application=application).select_related("stream__application")
    if linked:
        those = played.filter(pk=linked, name__in=names)
        if (row := those.first()) is not None:
            return row
    for name in names:
        found = played.filter(name=name).order_by(COMPLETE_FIRST, "-started_at").first()
        if found is not None:
            return found
    return None


def _may_begin(application: Application, name: str) -> bool:
    """Whether a stream of the name begins with whoever publishes under it first. A key, or what is left of one that was
    masked, is nobody's name."""
    if application.publish_policy != Application.PublishPolicy.OPEN or not is_stream_name(name):
        return False
    instance, last = instance_of(name), name_within(name)
    if instance and authorization.instance_refusal(application=application, instance=instance):
        return False
    return not (is_masked(last) or looks_like_key(last)) and keys.find(secret=last) is None


def _reason(
    application: Application, stream: Stream | None, credential: str, now: datetime, recording: Recording | None = None
) -> str:
    """Why it, or its recording, may not be played by the rules of the stream; "": it may. A recording's own token does
    what one of the stream does."""
    policy = policy_of(application, stream)
    if policy == Application.PlayPolicy.NONE:
        return "play_not_allowed"
    if stream is not None and not stream.enabled:
        return "stream_disabled"
    is_signed = recording is not None and application.play_recordings == Application.PlayRecordings.SIGNED
    if policy != Application.PlayPolicy.TOKEN and not is_signed:
        return ""
    if not credential:
        return "token_missing"
    verdicts: list[play_tokens.Verdict] = ["invalid"]
    if stream is not None:
        verdicts.append(play_tokens.PLAY.verify(credential, stream.pk, generation=stream.link_generation, now=now))
    if recording is not None:
        verdicts.append(play_tokens.RECORDING.verify(credential, recording.pk, now=now))
    return "" if "valid" in verdicts else "token_expired" if "expired" in verdicts else "token_invalid"


def _file(recording: Recording) -> RecordedFile:
    file: RecordedFile = {
        "recording": recording.pk,
        "name": recording.name,
        "file": str(recordings.path_of(recording)),
        "duration_ms": recording.duration_ms,
    }
    if recording.state == Recording.State.RECORDING:
        file["growing"] = True
    return file


def play_length_s(*, app: str, name: str, credential: str, now: datetime, shared_now: datetime | None = None) -> float:
    """Seconds of the recording that would be played; 0 for what is live, or was never recorded.

    `shared_now`: by the clock that leases go by (ingest.services.database); None: as `now`. Raises Refused as `play` of
    it would be.
    """
    playable = check(app=app, name=name, credential=credential, now=now)
    if playable.recording is None:
        return 0.0
    live = Lease.objects.filter(stream=playable.stream, session__isnull=False, expires_at__gt=shared_now or now)
    if not playable.is_recording_alone and live.exists():
        return 0.0
    return playable.recording["duration_ms"] / 1000
