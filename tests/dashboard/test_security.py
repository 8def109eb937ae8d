"""What keeps a session to its owner: cookies, caches, the password, and whose failed log-ins count behind a proxy."""

import ipaddress
import re
import subprocess
import sys
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.staticfiles import finders
from django.core.asgi import get_asgi_application
from django.test import Client, override_settings

from dashboard import accounts
from ingest.models import AuditEntry, Stream
from rtmpweb.middleware import ProxiedClient
from tests.dashboard.conftest import PASSWORD, client_of, make_user
from tests.server_process import ROOT

NEW_PASSWORD = "correct-horse-battery"
NETWORK = ipaddress.ip_network("10.0.0.0/8")

SHOW_SETTINGS = """
from django.conf import settings
print(settings.SESSION_COOKIE_SECURE, settings.CSRF_COOKIE_SECURE, settings.SECURE_SSL_REDIRECT,
    settings.SESSION_COOKIE_HTTPONLY, settings.CSRF_COOKIE_HTTPONLY, settings.SESSION_COOKIE_SAMESITE,
    settings.CSRF_COOKIE_SAMESITE)
"""


def change(client: Client, old: str = PASSWORD, new: str = NEW_PASSWORD, again: str = "") -> Any:
    return client.post("/password/", {"old_password": old, "new_password1": new, "new_password2": again or new})


# --- Cookies ---


@override_settings(SESSION_COOKIE_SECURE=True, CSRF_COOKIE_SECURE=True)
def test_behind_tls_every_cookie_is_secure_and_for_this_site_only(client: Client, db: None) -> None:
    make_user("viewer")
    client.get("/login/")
    client.post("/login/", {"username": "mira", "password": PASSWORD})
    client.post("/theme/", {"theme": "dark"})
    assert set(client.cookies) == {"csrftoken", "sessionid", "theme", accounts.cookie_name("mira")}
    for name, cookie in client.cookies.items():
        assert cookie["secure"], name
        assert cookie["samesite"] == "Lax", name
        assert bool(cookie["httponly"]) == (name != "theme"), name  # A page's own script switches the theme.


@pytest.mark.parametrize(("behind_tls", "secure"), [("yes", "True True True"), ("no", "False False False")])
def test_one_setting_makes_them_secure(behind_tls: str, secure: str, tmp_path: Any) -> None:
    environment = {"RTMPWEB_BEHIND_TLS": behind_tls, "RTMPWEB_DATA_DIR": str(tmp_path), "PATH": ""}
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", SHOW_SETTINGS]
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert shown.stdout.split("\n")[-2] == f"{secure} True True Lax Lax", shown.stderr


# --- Caches ---


@pytest.mark.parametrize("path", ["/", "/attempts/", "/streams/live/cam-1/", "/nodes/", "/api/v1/streams", "/nowhere/"])
def test_no_cache_keeps_what_is_behind_the_log_in(viewer: Client, stream: Stream, path: str) -> None:
    assert "no-store" in viewer.get(path)["Cache-Control"]


def test_no_cache_keeps_that_somebody_is_logged_out(client: Client, db: None) -> None:
    assert "no-store" in client.get("/")["Cache-Control"]
    assert "no-store" in client.get("/login/")["Cache-Control"]


def test_static_files_are_kept(client: Client, db: None) -> None:
    assert finders.find("dashboard/css/base.css")
    assert "no-store" not in client.get("/static/dashboard/css/base.css")["Cache-Control"]


# --- The password ---


@pytest.mark.parametrize("role", ["viewer", "analyst", ""])
def test_everybody_changes_the_own_password(db: None, role: str) -> None:
    user = make_user(*filter(None, [role]))
    here, elsewhere = client_of(user), client_of(user)
    assert change(here).status_code == 302
    assert here.get("/password/").status_code == 200
    assert elsewhere.get("/password/").status_code == 302
    user.refresh_from_db()
    assert user.check_password(NEW_PASSWORD)
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.target) == ("mira", "password.change", "mira")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"old": "wrong"}, "old password was entered incorrectly"),
        ({"new": "Zq7-x"}, "too short"),
        ({"new": "password"}, "too common"),
        ({"again": "another-one-altogether"}, "match"),
    ],
)
def test_a_password_that_will_not_do_says_why(db: None, given: dict[str, str], said: str) -> None:
    user = make_user("viewer")
    page = change(client_of(user), **given).content.decode()
    assert said in page
    assert not any(value in page for value in given.values() if value != "password")
    user.refresh_from_db()
    assert user.check_password(PASSWORD)
    assert not AuditEntry.objects.exists()


def test_a_page_leads_to_it(viewer: Client) -> None:
    assert 'href="/password/"' in viewer.get("/").content.decode()


# --- Behind a proxy ---


async def try_login(proxy: str, forwarded: str, password: str = "") -> int:
    """One try by a fresh browser, that reaches us by `proxy`, which says whom it `forwarded`."""
    application = ProxiedClient(get_asgi_application(), [NETWORK])
    transport = httpx.ASGITransport(application, client=(proxy, 4000))
    headers = {"X-Forwarded-For": forwarded}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as browser:
        page = (await browser.get("/login/")).text
        (token,) = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        form = {"csrfmiddlewaretoken": token, "username": "mira", "password": password or "wrong"}
        return (await browser.post("/login/", data=form)).status_code


@pytest.mark.django_db(transaction=True)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_failures_count_for_the_client_that_a_trusted_proxy_names() -> None:
    await sync_to_async(make_user)("viewer")
    for number in range(10):
        # What a client itself puts into the header stands before what the proxy adds, and changes nothing.
        assert await try_login("10.0.0.1", f"203.0.113.{number}, 192.0.2.9") == 200
    assert await try_login("10.0.0.1", "192.0.2.9", PASSWORD) == 200
    assert await try_login("10.0.0.2", "192.0.2.10", PASSWORD) == 302
    assert (
        await try_login("192.0.2.9", "203.0.113.1", PASSWORD) == 200
    )  # No proxy of ours: its word counts for nothing.
