"""What may be played of a name: live, recorded, or either; who may; and tokens and URLs for it, by the command."""

import uuid
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.utils import timezone
from pytest_django import Settings

from ingest.credentials import mask
from ingest.models import Application, AuditEntry, Node, Recording, Session, Stream
from ingest.services import keys, media_urls, play_tokens, playback, sessions
from ingest.services.playback import Playable, Wanted, wanted_by
from ingest.services.refusals import Refused
from tests.ingest.admitting import NOW, hold
from tests.ingest.operators import run, run_json

COMPLETE, RECORDING, FAILED = Recording.State.COMPLETE, Recording.State.RECORDING, Recording.State.FAILED


@pytest.fixture
def application(db: None) -> Application:
    """Its recordings need no token of their own; for those that do, see *Signed links*."""
    return Application.objects.create(name="live", play_recordings="as_live")


def recorded(application: Application, name: str, *, age_h: float = 0, **fields: Any) -> Recording:
    fields = {"state": COMPLETE, "duration_ms": 5000, **fields}
    at = NOW - timedelta(hours=age_h)
    return Recording.objects.create(
        application=application, name=name, file=f"{uuid.uuid4()}.flv", started_at=at, **fields
    )


def check(name: str = "cam1", wanted: Wanted = "any", token: str = "") -> Playable:
    return playback.check(app="live", name=name, credential=token, now=NOW, wanted=wanted)


def refusal(name: str = "cam1", wanted: Wanted = "any", token: str = "") -> str:
    with pytest.raises(Refused) as caught:
        check(name, wanted, token)
    return caught.value.reason


def row(found: Playable) -> int | None:
    return found.recording["recording"] if found.recording is not None else None


@pytest.mark.parametrize(
    ("start", "wanted"), [(-2, "any"), (-1, "live"), (0, "recorded"), (5000, "recorded"), (-3, "any"), (-0.5, "any")]
)
def test_play_start_value_selects_live_recorded_or_any(start: float, wanted: Wanted) -> None:
    assert wanted_by(start) == wanted


def test_play_name_finds_the_stream_and_its_recording_as_wanted(stream: Stream, settings: Any) -> None:
    film = recorded(stream.application, "cam1", stream=stream)
    found = check()
    assert (found.stream, found.name, row(found)) == (stream, "cam1", film.pk)
    assert found.recording == {
        "recording": film.pk,
        "name": "cam1",
        "file": str(settings.RECORDINGS_DIR / film.file),
        "duration_ms": 5000,
    }
    assert row(check(wanted="live")) is None
    assert row(check(wanted="recorded")) == film.pk


def test_a_recording_that_is_wanted_has_to_be_there(stream: Stream) -> None:
    assert refusal(wanted="recorded") == "recording_unknown"
    assert refusal("other", "recorded") == "stream_unknown"
    with pytest.raises(Refused) as caught:
        check(wanted="recorded")
    assert caught.value.code == "NetStream.Play.StreamNotFound"


@pytest.mark.both_forms
def test_newest_complete_recording_is_played(stream: Stream) -> None:
    make = partial(recorded, stream.application, "cam1", stream=stream)
    being_recorded = make(state=RECORDING)
    assert row(check()) == being_recorded.pk
    make(age_h=3)
    newest = make(age_h=1)
    make(age_h=0.5, state=FAILED)
    assert row(check()) == newest.pk


@pytest.mark.parametrize("name", ["film", "flv:film", "mp4:film.mp4", "film.flv", "f4v:film.f4v", "mp4:film"])
def test_recording_is_found_by_name_with_format_prefix_or_suffix(application: Application, name: str) -> None:
    film = recorded(application, "film")
    found = check(name)
    assert (row(found), found.name, found.stream) == (film.pk, "film", None)


def test_a_name_that_looks_like_a_spelling_comes_first(application: Application, stream: Stream) -> None:
    assert check("flv:cam1", "live").name == stream.name
    recorded(application, "film")
    exact = recorded(application, "film.mp4")
    assert row(check("film.mp4")) == row(check("mp4:film.mp4")) == exact.pk


def test_recording_without_stream_follows_its_applications_rules(application: Application) -> None:
    recorded(application, "film")
    found = check("film", "recorded")
    assert (found.path, found.labels, found.start_unit) == ("live/film", {"stream": 0, "key": None}, "ms")
    assert refusal("film", "live") == "stream_unknown"
    Application.objects.update(play_policy="token")
    assert refusal("film") == "token_missing"
    assert refusal("film", token="any") == "token_invalid"
    Application.objects.update(play_policy="none")
    assert refusal("film") == "play_not_allowed"
    Application.objects.update(enabled=False)
    assert refusal("film") == "app_disabled"


def test_a_recording_goes_by_its_streams_rules(stream: Stream) -> None:
    """Also under another name than the stream's."""
    recorded(stream.application, "film", stream=stream)
    assert check("film").stream == stream
    Application.objects.update(play_policy="token")
    assert refusal("film") == "token_missing"
    assert check("film", token=play_tokens.PLAY.issue(stream.pk, now=NOW)).name == "film"
    Stream.objects.update(enabled=False)
    assert refusal("film") == "stream_disabled"


def test_recording_named_like_another_stream_needs_its_own_streams_token(stream: Stream, cam2: Stream) -> None:
    """Who may play the stream gets that, and the recording only with the other's token, which is for nothing else."""
    film = recorded(stream.application, "cam1", stream=cam2)
    assert row(check()) == film.pk
    Application.objects.update(play_policy="token")
    own, others = (play_tokens.PLAY.issue(each.pk, now=NOW) for each in (stream, cam2))
    assert row(check(token=own)) is None
    found = check(token=others)
    assert (row(found), found.is_recording_alone) == (film.pk, True)
    assert refusal(wanted="recorded", token=own) == "token_invalid"
    assert row(check(wanted="recorded", token=others)) == film.pk


@pytest.mark.parametrize("name", ["film", "a\x00b", "", "flv:", "mp4:.mp4", "x" * 1000])
def test_unknown_invalid_or_foreign_recording_name_is_refused(application: Application, name: str) -> None:
    recorded(Application.objects.create(name="other"), "film")
    assert refusal(name) == "stream_unknown"


@pytest.fixture
def signed(stream: Stream) -> Recording:
    """Of a stream that anybody may play."""
    Application.objects.update(play_recordings="signed")
    return recorded(stream.application, "show", stream=stream)


def test_a_recording_needs_a_token_where_what_is_live_needs_none(signed: Recording, stream: Stream) -> None:
    assert Application().play_recordings == "signed", "unless an operator says otherwise"
    own = recorded(signed.application, "cam1", stream=stream)
    assert signed.application.pk == Application.objects.get(play_policy="public").pk
    for name, wanted in (("show", "any"), ("show", "recorded"), ("cam1", "recorded")):
        assert refusal(name, wanted) == "token_missing"  # type: ignore[arg-type]
        assert refusal(name, wanted, "nonsense") == "token_invalid"  # type: ignore[arg-type]
    assert (check("cam1").stream, row(check("cam1"))) == (stream, None), "it waits for what is live"
    of_stream = play_tokens.PLAY.issue(stream.pk, now=NOW)
    assert row(check("show", "recorded", of_stream)) == signed.pk
    assert (row(check(token=of_stream)), check(token=of_stream).is_recording_alone) == (own.pk, False)
    Stream.objects.update(enabled=False)
    assert refusal("show", "recorded", of_stream) == "stream_disabled"


def test_a_recordings_own_token_plays_it_and_no_other(signed: Recording) -> None:
    newer = recorded(signed.application, "show", stream=signed.stream, age_h=-1)
    other = recorded(signed.application, "film")
    of = {each.pk: play_tokens.RECORDING.issue(each.pk, now=NOW) for each in (signed, newer, other)}
    for wanted in ("any", "recorded"):
        for name, meant in (("show", signed), ("mp4:show.mp4", newer), ("film", other)):
            assert row(check(name, wanted, of[meant.pk])) == meant.pk
    assert refusal("show", "recorded", of[other.pk]) == "token_invalid"
    assert refusal("film", "recorded", of[signed.pk]) == "token_invalid"
    late = play_tokens.RECORDING.issue(signed.pk, lifetime=timedelta(0), now=NOW)
    assert refusal("show", "recorded", late) == "token_expired"
    Application.objects.update(play_policy="none")
    assert refusal("show", "recorded", of[signed.pk]) == "play_not_allowed"


def test_recording_token_does_not_play_the_live_stream(signed: Recording, stream: Stream) -> None:
    """Nor counts it as a guess when it has expired."""
    film = recorded(signed.application, "cam1", stream=stream)
    Application.objects.update(play_policy="token")
    token = play_tokens.RECORDING.issue(film.pk, now=NOW)
    found = check(token=token)
    assert (row(found), found.is_recording_alone, found.recording and found.recording["alone"]) == (film.pk, True, True)
    assert refusal(wanted="live", token=token) == "token_invalid"
    assert play_tokens.PLAY.verify(token, stream.pk, now=NOW) == "invalid"
    assert play_tokens.DOWNLOAD.read(token, now=NOW) == (0, "invalid")
    assert playback.play_length_s(app="live", name="cam1", credential=token, now=NOW) == 5
    late = play_tokens.RECORDING.issue(film.pk, lifetime=timedelta(0), now=NOW)
    assert refusal(token=late) == "token_expired"


def test_unknown_name_on_an_open_application_is_awaited_by_live_players(application: Application) -> None:
    """Section 7.2.2.1: what is live, else the recording, else its player waits. For a recording nobody does."""
    film = recorded(application, "film")
    assert refusal("next") == "stream_unknown"
    Application.objects.update(publish_policy="open")
    for wanted in ("any", "live"):
        found = check("next", wanted)
        assert (found.is_awaited, found.name, found.stream, found.recording) == (True, "next", None, None)
    assert (found.path, found.labels) == ("live/next", {"stream": 0, "key": None})
    assert refusal("next", "recorded") == "stream_unknown"
    assert row(check("film")) == film.pk
    assert playback.play_length_s(app="live", name="next", credential="", now=NOW) == 0
    Application.objects.update(play_policy="token")
    assert refusal("next") == "token_missing"
    assert refusal("next", token="any") == "token_invalid"
    Application.objects.update(enabled=False)
    assert refusal("next") == "app_disabled"


@pytest.mark.parametrize("name", ["a b", "..", "x" * 256, "a\x00b", ""])
def test_invalid_name_on_an_open_application_is_not_awaited(application: Application, name: str) -> None:
    Application.objects.update(publish_policy="open")
    assert refusal(name) == "stream_unknown"


def test_a_key_is_no_name_to_wait_for(stream: Stream) -> None:
    Application.objects.update(publish_policy="open")
    own, imported = keys.generate(), keys.create(stream=stream, secret="oldserver-key-1").secret
    for name in (own, mask(own), imported, mask(imported)):
        assert refusal(name) == "stream_unknown"


def download(recording: Recording, name: str = "cam1", *, by_http: bool = True, **times: Any) -> Playable:
    token = play_tokens.DOWNLOAD.issue(recording.pk, now=NOW)
    now = NOW + timedelta(**times)
    return playback.check(app="live", name=name, credential=token, now=now, wanted="recorded", by_http=by_http)


@pytest.mark.parametrize("policy", ["public", "token", "none"])
@pytest.mark.parametrize("state", [COMPLETE, RECORDING, FAILED])
def test_download_token_serves_its_recording_despite_policy_and_disabling(
    stream: Stream, policy: str, state: str
) -> None:
    meant = recorded(stream.application, "cam1", stream=stream, age_h=2, state=state)
    recorded(stream.application, "cam1", stream=stream)
    Application.objects.update(play_policy=policy, enabled=False)
    Stream.objects.update(enabled=False)
    found = download(meant)
    assert found.recording is not None
    assert (row(found), found.stream) == (meant.pk, stream)
    assert found.recording["disposition"] == 'attachment; filename="live-cam1-20260301T100000Z.flv"'
    assert found.recording["mp4_disposition"] == 'attachment; filename="live-cam1-20260301T100000Z.mp4"'
    assert found.is_download


def test_playable_that_was_found_needs_no_further_database_query(
    stream: Stream, django_assert_num_queries: Any
) -> None:
    """Its consumer is in the event loop, where nothing may."""
    film = recorded(stream.application, "film", stream=stream)
    download = play_tokens.DOWNLOAD.issue(film.pk)
    both: Any = {"app": "live", "now": NOW}
    for found in (
        playback.check(**both, name="cam1", credential="", wanted="live"),
        playback.check(**both, name="film", credential="", wanted="recorded"),
        playback.check(**both, name="film", credential=download, wanted="recorded", by_http=True),
        playback.relayed(stream=stream.pk, app="live", name="cam1"),
    ):
        with django_assert_num_queries(0):
            assert (found.takes_token, found.app) == (False, "live")


def test_a_download_s_token_is_good_for_nothing_else(stream: Stream) -> None:
    meant = recorded(stream.application, "cam1", stream=stream)
    recorded(stream.application, "cam2", stream=stream)
    other = Application.objects.create(name="other")
    recorded(other, "cam1")
    Application.objects.update(play_policy="token")
    token = play_tokens.DOWNLOAD.issue(meant.pk, now=NOW)
    assert refusal(wanted="live", token=token) == refusal(wanted="recorded", token=token) == "token_invalid"

    def refused(recording: Recording, name: str = "cam1", **options: Any) -> str:
        with pytest.raises(Refused) as caught:
            download(recording, name, **options)
        return caught.value.reason

    assert refused(meant, by_http=False) == "token_invalid"
    assert refused(meant, "cam2") == "download_unknown"
    assert refused(Recording.objects.get(application=other)) == "download_unknown"
    assert refused(meant, seconds=61) == "download_expired"
    assert play_tokens.PLAY.verify(token, meant.pk, now=NOW) == "invalid"
    assert play_tokens.DOWNLOAD.read(play_tokens.PLAY.issue(meant.pk)) == (0, "invalid")
    Recording.objects.filter(pk=meant.pk).delete()
    meant.pk = play_tokens.DOWNLOAD.read(token, now=NOW)[0]
    assert refused(meant) == "download_unknown"


@pytest.mark.parametrize("state", [COMPLETE, RECORDING, FAILED])
def test_operator_preview_token_serves_only_its_recording_despite_policy(stream: Stream, state: str) -> None:
    meant = recorded(stream.application, "cam1", stream=stream, age_h=2, state=state)
    recorded(stream.application, "cam1", stream=stream)
    Application.objects.update(play_policy="none", enabled=False)
    token = play_tokens.LOOK.issue(meant.pk, now=NOW)

    def look(name: str = "cam1", **options: Any) -> Playable:
        given: dict[str, Any] = {"wanted": "recorded", "by_http": True, "now": NOW} | options
        return playback.check(app="live", name=name, credential=token, **given)

    found = look()
    assert found.recording is not None
    assert (row(found), found.is_preview, found.is_download) == (meant.pk, True, False)
    assert found.recording.get("growing", False) is (state == RECORDING)
    for options, reason in (
        ({"name": "cam2"}, "download_unknown"),
        ({"now": NOW + timedelta(minutes=61)}, "download_expired"),
        ({"by_http": False}, "app_disabled"),
        ({"wanted": "live"}, "app_disabled"),
    ):
        with pytest.raises(Refused) as caught:
            look(**options)
        assert caught.value.reason == reason


def test_play_length_judges_live_state_by_the_shared_clock(stream: Stream) -> None:
    recorded(stream.application, "cam1", stream=stream)
    shared = NOW - timedelta(hours=1)
    hold(stream, expires_at=shared + timedelta(seconds=9))
    assert playback.play_length_s(app="live", name="cam1", credential="", now=NOW, shared_now=shared) == 0


def test_play_length_is_that_of_the_recording_or_0_while_live(stream: Stream) -> None:
    def length(name: str = "cam1") -> float:
        return playback.play_length_s(app="live", name=name, credential="", now=NOW)

    assert length() == 0
    recorded(stream.application, "cam1", stream=stream)
    recorded(stream.application, "film", duration_ms=7250)
    assert (length(), length("mp4:film.mp4")) == (5, 7.25)
    hold(stream, expires_at=NOW + timedelta(seconds=9))
    assert length() == 0


def test_player_of_a_streamless_recording_ends_with_it_or_its_application(application: Application) -> None:
    film = recorded(application, "film")
    node = Node.objects.create(name="node-a")
    Session.objects.create(kind="play", app="live", name="film", stream=None, node=node, address="")

    def due() -> int:
        return len(sessions.due_to_end(node="node-a", now=NOW))

    assert due() == 0
    Application.objects.update(enabled=False)
    assert due() == 1
    Application.objects.update(enabled=True)
    film.delete()
    assert due() == 1


def test_waiting_player_goes_on_only_while_its_name_may_be_published(application: Application) -> None:
    node = Node.objects.create(name="node-a")
    fields = {"app": "live", "name": "next", "stream": None, "node": node, "address": ""}
    player = Session.objects.create(kind="play", **fields)
    publisher = Session.objects.create(kind="publish", **fields)

    def due() -> set[uuid.UUID]:
        return {session for session, _ in sessions.due_to_end(node="node-a", now=NOW)}

    assert due() == {player.pk, publisher.pk}
    Application.objects.update(publish_policy="open")
    assert due() == {publisher.pk}, "whose stream was deleted"
    made = Stream.objects.create(application=application, name="next", enabled=False)
    assert due() == {player.pk, publisher.pk}, "which an operator made"
    made.delete()
    Application.objects.update(enabled=False)
    assert due() == {player.pk, publisher.pk}


@pytest.fixture
def cafe(db: None) -> Stream:
    application, _ = Application.objects.get_or_create(name="live")
    return Stream.objects.create(application=application, name="caf\u00e9")


def test_the_command_prints_the_token_and_the_urls(cafe: Stream, settings: Settings) -> None:
    settings.RTMP_ADDRESS, settings.MEDIA_ADDRESS = ("0.0.0.0", 1935), ("0.0.0.0", 8001)
    found: dict[str, Any] = run_json("playtoken", "live/caf\u00e9", "--hours", "2")
    token = found["token"]
    assert play_tokens.PLAY.verify(token, cafe.pk) == "valid"
    later = timezone.now() + timedelta(hours=2, minutes=1)
    assert play_tokens.PLAY.verify(token, cafe.pk, now=later) == "expired"
    assert abs(datetime.fromisoformat(found["expires_at"]) - later) < timedelta(minutes=2)
    assert found["stream"] == "live/caf\u00e9"
    assert found["play_url"] == f"rtmp://127.0.0.1/live/caf%C3%A9?token={token}"
    assert found["flv_url"] == f"http://127.0.0.1:8001/live/live/caf%C3%A9.flv?token={token}"
    assert found["ws_url"] == f"ws://127.0.0.1:8001/live/live/caf%C3%A9.flv?token={token}"
    assert "flv url: http://127.0.0.1:8001/live/live/caf%C3%A9.flv?token=" in run("playtoken", "live/caf\u00e9")


def test_the_urls_are_those_that_browsers_use(cafe: Stream, settings: Settings) -> None:
    settings.MEDIA_URL_BASE = "https://media.example.org/tv"
    link = media_urls.make_play_link(cafe)
    assert link.flv_url.startswith("https://media.example.org/tv/live/live/")
    assert link.ws_url.startswith("wss://media.example.org/tv/live/live/")
    settings.MEDIA_ADDRESS = None
    link = media_urls.make_play_link(cafe)
    assert (link.flv_url, link.ws_url) == ("", "")


def test_no_token_is_made_for_no_time_or_for_ever_or_where_nobody_may_play(cafe: Stream) -> None:
    for hours in ("0", "-1", "nan", "800"):
        with pytest.raises(CommandError, match="744 at most"):
            run("playtoken", "live/caf\u00e9", "--hours", hours)
    Application.objects.update(play_policy=Application.PlayPolicy.NONE)
    with pytest.raises(CommandError, match="--play token"):
        run("playtoken", "live/caf\u00e9")


def test_the_dashboard_s_own_pages_may_play(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["localhost", "[::1]", ".example.org", "*"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://Live.example.org", "https://*.example.org"]
    settings.HTTP_ADDRESS = ("127.0.0.1", 8000)
    assert media_urls.origins() == {"http://localhost:8000", "http://[::1]:8000", "https://live.example.org"}
    settings.BEHIND_TLS = True
    assert "https://localhost" in media_urls.origins()
    settings.MEDIA_ORIGINS = ["https://WWW.example.org/"]
    assert media_urls.origins() == {"https://www.example.org"}


@pytest.fixture
def recording(cafe: Stream) -> Recording:
    return Recording.objects.create(application=cafe.application, stream=cafe, name="show 1", file="a.flv")


def test_playtoken_command_makes_a_link_for_one_recording(recording: Recording, settings: Any) -> None:
    settings.MEDIA_ADDRESS = ("127.0.0.1", 8001)
    found = run_json("playtoken", "--recording", str(recording.pk), "--hours", "1")
    token = found["token"]
    assert play_tokens.RECORDING.read(token) == (recording.pk, "valid")
    assert found["recording"] == "live/show 1"
    assert found["play_url"] == f"rtmp://127.0.0.1/live/show%201?token={token}"
    assert found["flv_url"] == f"http://127.0.0.1:8001/recordings/live/show%201.flv?token={token}"
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target) == ("recording_token.create", "live/show 1")
    assert token not in str(entry.detail)
    Application.objects.update(play_policy=Application.PlayPolicy.NONE)
    for given in (("--recording", str(recording.pk)), ("live/caf\u00e9",)):
        with pytest.raises(CommandError, match="Nobody may play"):
            run("playtoken", *given)
    with pytest.raises(CommandError, match="no recording 999"):
        run("playtoken", "--recording", "999")
    with pytest.raises(CommandError):
        run("playtoken", "live/caf\u00e9", "--recording", str(recording.pk))
