"""Settings: what it leads to, for whom; an application made by clicking; the way to a stream's form and back."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Page, expect

from ingest.models import Application, AuditEntry, Stream, StreamKey
from ingest.services import keys
from tests.dashboard.conftest import PASSWORD, client_of, lacks, make_user
from tests.media import make_clip
from tests.server_process import ServerProcess, program, wait_for

BY_SCRIPT = {"X-Requested-With": "fetch"}
CHURCH = {"application": "church", "stream": "sunday", "play_policy": "token", "record": "none"}


def links(page: str) -> dict[str, str]:
    """{words: URL} of the page's list of settings."""
    return {words: url for url, words in re.findall(r'<li><a href="([^"]+)">([^<]+)</a><p>', page)}


SHARED = {
    *("Applications", "Streams", "Stream keys", "Encoder log-ins", "Push targets", "Pull sources"),
    *("Time zone", "Your password"),
}
OF_ADMINS = {"Alert rules, services and webhooks", "Users and roles", "API tokens"}


@pytest.mark.parametrize(
    ("role", "more"),
    [("key manager", set()), ("admin", OF_ADMINS), ("", {*OF_ADMINS, "Report schedules", "Schedules"})],
)
def test_each_link_of_settings_opens_for_who_sees_it(db: None, role: str, more: set[str]) -> None:
    """Without any mark but the role; "" is a superuser."""
    client = client_of(make_user(role, name="mira") if role else make_user(name="root", is_superuser=True))
    page = client.get("/settings/").content.decode()
    found = links(page)
    assert found.keys() == {*SHARED, *more, "All forms and records"}
    assert {words: client.get(url).status_code for words, url in found.items()} == dict.fromkeys(found, 200)
    assert ("Create an application" in page) == (role != "key manager")


def test_the_menu_has_settings_for_who_may_change_something(db: None) -> None:
    seen = {}
    for role in ("viewer", "operator", "key manager", "analyst", "admin"):
        page = client_of(make_user(role, name=role)).get("/").content.decode()
        seen[role] = 'href="/settings/"' in page
    assert seen == {"viewer": False, "operator": False, "key manager": True, "analyst": False, "admin": True}


def test_environment_settings_are_shown_without_secrets(boss: Client, settings: Any) -> None:
    settings.KEEP_SESSIONS_DAYS, settings.EMAIL_URL = 12, "smtp://robot:s3cret@mail.example.org"
    page = boss.get("/settings/").content.decode()
    assert lacks(page, "12 days", "RTMPWEB_KEEP_SESSIONS_DAYS", "RTMPWEB_EMAIL_URL", "for ever") == []
    assert "s3cret" not in page
    assert "mail.example.org" not in page


@pytest.mark.both_forms
def test_an_application_is_made_with_what_publishing_takes(boss: Client) -> None:
    answer = boss.post("/settings/applications/create", CHURCH, headers=BY_SCRIPT)
    assert answer.status_code == 201
    assert "no-store" in answer["Cache-Control"]
    (secret,) = set(re.findall(r"rk_[A-Za-z0-9]{32}", answer.content.decode()))
    key = keys.find(secret=secret)
    assert key is not None
    assert key.stream.path == "church/sunday"
    application = Application.objects.get(name="church")
    assert (application.publish_policy, application.play_policy, application.record) == ("key", "token", "none")
    made = set(AuditEntry.objects.values_list("action", flat=True))
    assert made == {"application.create", "stream.create", "key.create"}


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"application": "live"}, "application", "There is an application live already"),
        ({"application": "a b"}, "application", "letters, digits"),
        ({"stream": "a b"}, "stream", "without blanks"),
        ({"play_policy": "some"}, "play_policy", "valid choice"),
    ],
)
def test_invalid_application_form_reports_the_error_at_its_field(
    boss: Client, stream: Stream, given: dict[str, str], field: str, words: str
) -> None:
    answer = boss.post("/settings/applications/create", CHURCH | given, headers=BY_SCRIPT)
    assert answer.status_code == 422
    assert words in " ".join(answer.json()["errors"][field])
    assert not StreamKey.objects.exists()
    assert Application.objects.count() == 1


def test_a_streams_page_leads_to_its_settings_and_saving_leads_back(manager: Client, stream: Stream) -> None:
    assert '"/streams/live/cam-1/settings"' in manager.get("/streams/live/cam-1/").content.decode()
    form = manager.get("/streams/live/cam-1/settings?of=audio")["Location"]
    assert form == f"/admin/ingest/stream/{stream.pk}/change/?next=/streams/live/cam-1/#id_expect_audio"
    assert 'id="id_expect_audio"' in manager.get(form).content.decode()
    given = {
        "application": stream.application_id,
        "name": "cam-1",
        "enabled": "on",
        "takeover": "reject",
        "idle_timeout_s": 10,
        "first_media_timeout_s": 20,
        "expect_video": "on",
        **{
            f"{rows}-{which}_FORMS": 0
            for rows in ("health_overrides", "expected_times")
            for which in ("TOTAL", "INITIAL")
        },
    }
    answer = manager.post(form.partition("#")[0], given)
    assert (answer.status_code, answer["Location"]) == (302, "/streams/live/cam-1/")
    stream.refresh_from_db()
    assert stream.expect_audio is False
    elsewhere = manager.post(f"/admin/ingest/stream/{stream.pk}/change/?next=//example.org/", given)
    assert elsewhere["Location"] == "/admin/ingest/stream/"


def test_every_settings_link_target_is_on_the_stream_form(boss: Client, stream: Stream) -> None:
    from dashboard.sessions.advice import CHECK_SETTINGS, OWN_LIMITS
    from dashboard.settings import PARTS

    form = boss.get(f"/admin/ingest/stream/{stream.pk}/change/").content.decode()
    assert [anchor for anchor in PARTS.values() if f'id="{anchor}"' not in form] == []
    assert {part for part, _ in (*CHECK_SETTINGS.values(), OWN_LIMITS)} <= {*PARTS, "key"}
    assert boss.get("/streams/live/cam-1/settings?of=key")["Location"] == "/keys/?q=cam-1"
    assert boss.get("/settings/?stream=live/cam-1")["Location"] == "/streams/live/cam-1/settings"
    assert "There is no stream live/none" in boss.get("/settings/?stream=live/none").content.decode()


def test_the_admin_leads_back_to_the_dashboard_in_its_words(boss: Client, stream: Stream) -> None:
    page = boss.get(f"/admin/ingest/stream/{stream.pk}/change/").content.decode()
    trail = re.sub(
        r"\s+", " ", re.sub(r"<[^>]+>", "", page.partition('class="breadcrumbs">')[2].partition("</nav>")[0])
    )
    assert trail.strip() == "Settings / Streams / live/cam-1"
    assert lacks(page, 'href="/"', 'href="/settings/"', 'action="/logout/"') == []
    index = boss.get("/admin/").content.decode()
    assert lacks(index, "Streams and who may publish", "Users and scripts", "Records (read only)", "Roles") == []
    assert "Solar" not in index
    assert "Report deliverys" not in index
    assert "<h1>Refused connections</h1>" in boss.get("/admin/ingest/attempt/").content.decode()


def test_user_without_role_sees_the_reason_and_can_log_out(db: None) -> None:
    client = client_of(make_user(name="mira"))
    answer = client.get("/")
    page = answer.content.decode()
    assert answer.status_code == 403
    assert lacks(page, "Your account has no role yet", "Settings, Users and roles", "mira", 'action="/logout/"') == []
    assert "Go to the wall" not in page
    assert client.post("/logout/").status_code == 302
    refused = client_of(make_user("viewer", name="vera")).get("/keys/").content.decode()
    assert lacks(refused, "Your role does not allow this", "vera", 'action="/logout/"', "Go to the wall") == []


@pytest.mark.matrix
@pytest.mark.serve
@pytest.mark.browser
@pytest.mark.clients
def test_an_application_made_by_clicking_is_published_to(own: tuple[ServerProcess, Page], tmp_path: Any) -> None:
    server, page = own
    clip = make_clip(tmp_path / "clip.flv", seconds=1)
    page.click("nav[aria-label=Main] >> text=Settings")
    page.click("text=Create an application")
    page.fill("#application-name", "church")
    page.fill("#application-stream", "sunday")
    page.click("#application button[type=submit]")
    expect(page.locator("#made")).to_contain_text("Key created for church/sunday")
    url = f"{server.rtmp}/church/{page.locator('#made-key').inner_text()}"
    page.locator("#made").get_by_role("button", name="Copy").first.click()  # Else the page asks before the key is lost.
    loop = ("-v", "error", "-re", "-stream_loop", "-1", "-i", str(clip), "-c", "copy", "-f", "flv")
    with program("ffmpeg", *loop, url):
        _live(server, "church/sunday")
    page.goto(f"{server.http}/streams/church/sunday/")
    page.click(".head >> text=Settings")
    expect(page.locator("h1")).to_have_text("Change stream")
    page.click("#user-tools >> text=Settings")
    expect(page.locator("h1")).to_have_text("Settings")


def _live(server: ServerProcess, path: str) -> None:
    wait_for(lambda: server.stream(path)["state"] == "live", timeout_s=9, what=f"{path} live")


def test_the_admins_theme_is_the_dashboards(db: None) -> None:
    root = client_of(User.objects.create_superuser("root", "", PASSWORD))
    page = root.get("/admin/").content.decode()
    assert lacks(page, "dashboard/css/tokens", "dashboard/js/admintheme") == []
    assert "admin/js/theme" not in page
