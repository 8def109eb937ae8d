"""Who may watch a stream: its own policy over its application's, its links' generation, and what a change ends."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.test import Client

from ingest.models import Application, AuditEntry, Node, Recording, Session, Stream
from ingest.services import actions, audit, media_urls, play_policy, play_tokens, playback, sessions
from ingest.services.authorization import ConnectRequest, connect
from ingest.services.playback import Playable, Wanted
from ingest.services.refusals import Refused
from tests.ingest.admitting import NOW
from tests.ingest.operators import run, run_json

ACTOR = audit.command("test")


def check(name: str = "cam1", token: str = "", wanted: Wanted = "live") -> Playable:
    return playback.check(app="live", name=name, credential=token, now=NOW, wanted=wanted)


def refusal(name: str = "cam1", token: str = "", wanted: Wanted = "live") -> str:
    with pytest.raises(Refused) as caught:
        check(name, token, wanted)
    return caught.value.reason


def link(stream: Stream) -> str:
    stream.refresh_from_db()
    return media_urls.make_play_link(stream, media_urls.LASTING).token


@pytest.mark.parametrize("of_application", Application.PlayPolicy.values)
def test_a_streams_own_policy_is_what_holds(stream: Stream, of_application: str) -> None:
    Application.objects.update(play_policy=of_application)
    Stream.objects.update(play_policy="public")
    assert not check().takes_token
    Stream.objects.update(play_policy="token")
    assert refusal() == "token_missing"
    assert check(token=link(stream)).takes_token
    Stream.objects.update(play_policy="none")
    assert refusal(token=link(stream)) == "play_not_allowed"
    Stream.objects.update(play_policy="")
    expected = {"public": "", "token": "token_missing", "none": "play_not_allowed"}[of_application]
    assert (refusal() if expected else "") == expected


def test_a_recording_goes_by_its_streams_policy(stream: Stream, cam2: Stream) -> None:
    Application.objects.update(play_recordings="as_live")
    film = Recording.objects.create(
        application=stream.application, stream=stream, name="film", file="f.flv", state=Recording.State.COMPLETE
    )
    assert check("film", wanted="recorded").recording
    Stream.objects.filter(pk=stream.pk).update(play_policy="none")
    assert refusal("film", wanted="recorded") == "play_not_allowed"
    assert refusal("film", play_tokens.RECORDING.issue(film.pk, now=NOW), "recorded") == "play_not_allowed"
    assert check("cam2").stream == cam2


def test_a_new_generation_ends_the_links_so_far(stream: Stream) -> None:
    Stream.objects.update(play_policy="token")
    before = play_tokens.PLAY.issue(stream.pk)
    assert check(token=before).stream == stream, "a token of the time before there were generations"
    first = link(stream)
    made = play_policy.new_link(ACTOR, stream=stream)
    for old in (before, first):
        assert refusal(token=old) == "token_invalid"
    assert check(token=made.token).stream == stream
    assert check(token=link(stream)).stream == stream
    assert play_policy.new_link(ACTOR, stream=stream).token != made.token
    assert refusal(token=made.token) == "token_invalid"


@pytest.mark.parametrize(("policy", "ends"), [("public", True), ("none", True), ("", True), ("token", False)])
def test_links_end_when_the_policy_leaves_by_link(stream: Stream, policy: str, ends: bool) -> None:
    play_policy.change(ACTOR, stream, play_policy="token")
    old = link(stream)
    play_policy.change(ACTOR, stream, play_policy=policy)
    play_policy.change(ACTOR, stream, play_policy="token")
    assert (refusal(token=old) if ends else check(token=old).name) == ("token_invalid" if ends else "cam1")


def test_switch_between_equal_own_and_application_policy_keeps_links(stream: Stream) -> None:
    Application.objects.update(play_policy="token")
    stream.application.refresh_from_db()
    old = link(stream)
    play_policy.change(ACTOR, stream, play_policy="token")
    play_policy.change(ACTOR, stream, play_policy="")
    assert check(token=old).name == "cam1"


def test_application_policy_change_ends_links_of_streams_without_own_policy(stream: Stream, cam2: Stream) -> None:
    """One with a policy of its own keeps its links, and its players."""
    application = stream.application
    actions.save_application(ACTOR, application, play_policy="token")
    Stream.objects.filter(pk=cam2.pk).update(play_policy="token")
    old, own = link(stream), link(cam2)
    Session.objects.create(kind="play", app="live", name="cam1", stream=stream, address="")
    Session.objects.create(kind="play", app="live", name="cam2", stream=cam2, address="")
    actions.save_application(ACTOR, application, play_policy="none")
    assert [row.name for row in Session.objects.exclude(stop_requested="")] == ["cam1"]
    actions.save_application(ACTOR, application, play_policy="token")
    assert refusal(token=old) == "token_invalid"
    assert check("cam2", token=own).stream == cam2


def test_replaced_or_expired_play_token_is_refused_at_connect(stream: Stream) -> None:
    """Where the application lets all play, its streams may not."""
    enter = partial(ConnectRequest, app="live", address="127.0.0.1", is_token=True)
    play_policy.change(ACTOR, stream, play_policy="token")
    old = link(stream)
    connect(enter(credential=old), NOW)
    connect(enter(credential="a CDN's own"), NOW)
    play_policy.new_link(ACTOR, stream=stream)
    with pytest.raises(Refused, match="token_invalid"):
        connect(enter(credential=old), NOW)
    late = play_tokens.PLAY.issue(stream.pk, generation=2, lifetime=timedelta(0), now=NOW)
    with pytest.raises(Refused, match="token_expired"):
        connect(enter(credential=late), NOW)


def test_policy_or_link_change_ends_players_it_no_longer_admits(stream: Stream, cam2: Stream) -> None:
    node = Node.objects.create(name="node-a")

    def begin(of: Stream, kind: str = "play") -> Session:
        return Session.objects.create(kind=kind, app="live", name=of.name, stream=of, node=node, address="")

    publisher, player, other = begin(stream, "publish"), begin(stream), begin(cam2)
    publisher.is_pull = True  # Else it would end for want of a key.
    publisher.save()

    def due() -> set[Any]:
        return {session for session, _ in sessions.due_to_end(node="node-a", now=NOW)}

    play_policy.change(ACTOR, stream, hls_always=True)
    assert due() == set()
    play_policy.change(ACTOR, stream, play_policy="token")
    assert sessions.due_to_end(node="node-a", now=NOW) == [(player.pk, "key_revoked")]
    sessions.end(session=player.pk, reason="key_revoked")
    player.refresh_from_db()
    assert player.end_description == "Who may watch the stream was changed."
    by_link = begin(stream)
    play_policy.new_link(ACTOR, stream=stream)
    assert due() == {by_link.pk}
    sessions.end(session=by_link.pk, reason="key_revoked")
    begin(stream)
    play_policy.change(ACTOR, stream, play_policy="public")
    assert due() == set(), "whoever had a link may go on"
    assert other.pk not in due()


def test_unknown_play_policy_is_refused(stream: Stream) -> None:
    with pytest.raises(ValidationError, match="not a valid choice"):
        play_policy.change(ACTOR, stream, play_policy="some")
    assert not AuditEntry.objects.exists()


def test_stream_command_sets_play_policy_and_makes_new_links(stream: Stream, settings: Any) -> None:
    settings.HLS_ADDRESS, settings.HLS_URL_BASE = ("0.0.0.0", 8002), ""
    settings.PUBLIC_URL = "https://live.example.org"
    found = run_json("stream", "set", "live/cam1", "--play", "token", "--hls-always", "on")
    assert (found["play_policy"], found["hls_always"]) == ("token", True)
    assert found["hls_url"] == "http://127.0.0.1:8002/hls/live/cam1/index.m3u8"
    assert found["watch_url"] == "https://live.example.org/watch/live/cam1"
    assert "play=token" in run("stream", "show", "live/cam1")
    made = run_json("stream", "new-link", "live/cam1")
    assert check(token=made["token"]).name == "cam1"
    assert made["watch_url"] == f"https://live.example.org/watch/live/cam1?token={made['token']}"
    assert made["hls_url"] == f"http://127.0.0.1:8002/hls/{made['token']}/live/cam1/index.m3u8"
    assert f"watch url: {found['watch_url']}?token=" in run("stream", "new-link", "live/cam1")
    run("stream", "set", "live/cam1", "--play", "none")
    for words in (("stream", "new-link", "live/cam1"), ("playtoken", "live/cam1")):
        with pytest.raises(CommandError, match="stream set live/cam1 --play token"):
            run(*words)
    actions = [*AuditEntry.objects.order_by("pk").values_list("action", flat=True)]
    assert actions == ["stream.play_policy", "play_token.replace", "play_token.replace", "stream.play_policy"]
    assert run_json("stream", "set", "live/cam1", "--play", "as-application")["play_policy"] == ""


def test_hls_and_watch_urls_follow_the_address_settings(stream: Stream, settings: Any) -> None:
    settings.HLS_ADDRESS = None
    made = media_urls.make_play_link(stream)
    assert (made.hls_url, made.watch_url, media_urls.watch_url(stream=stream)) == ("", "", "")
    settings.HLS_ADDRESS, settings.HLS_URL_BASE, settings.PUBLIC_URL = ("::", 8002), "", ""
    stream.name = "studio/café 1"
    path = "live/studio/caf%C3%A9%201"
    assert (
        media_urls.hls_url(stream=stream, page="tv.example.org") == f"http://tv.example.org:8002/hls/{path}/index.m3u8"
    )
    assert media_urls.watch_url(stream=stream, site="http://tv.example.org") == f"http://tv.example.org/watch/{path}"
    settings.HLS_URL_BASE = "https://cdn.example.org"
    assert media_urls.hls_url(stream=stream, page="x") == f"https://cdn.example.org/hls/{path}/index.m3u8"


def test_the_admins_form_ends_the_links_too(stream: Stream, admin_client: Client) -> None:
    Stream.objects.update(play_policy="token")
    old = link(stream)
    page = admin_client.get(f"/admin/ingest/stream/{stream.pk}/change/")
    form = page.context["adminform"].form
    values = {name: value for name, value in form.initial.items() if value not in (None, "", False)}
    for formset in page.context["inline_admin_formsets"]:
        values |= {f"{formset.formset.prefix}-{name}": 0 for name in ("TOTAL_FORMS", "INITIAL_FORMS")}
    answer = admin_client.post(f"/admin/ingest/stream/{stream.pk}/change/", values | {"play_policy": "public"})
    assert answer.status_code == 302, answer.context["adminform"].errors
    Stream.objects.update(play_policy="token")
    assert refusal(token=old) == "token_invalid"
