"""Log-in and what keeps a session to its owner: who guesses waits, cookies, caches, the password, rights that end, and
whose failed log-ins count behind a proxy."""

import ipaddress
import logging
import re
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.contrib.staticfiles import finders
from django.core.asgi import get_asgi_application
from django.test import Client, override_settings

from dashboard import accounts
from dashboard.accounts import ACCOUNT, DEVICE
from ingest.models import AuditEntry, Stream
from rtmpweb.middleware import ProxiedClient
from tests.dashboard.conftest import PASSWORD, client_of, make_user
from tests.rtmpweb import processes


def log_in(client: Client, password: str, user: str = "mira", address: str = "192.0.2.9") -> str:
    """ "in", or what the page says."""
    answer = client.post("/login/", {"username": user, "password": password}, REMOTE_ADDR=address)
    return answer.content.decode() if answer.status_code == 200 else "in"


@pytest.fixture
def mira(db: None) -> User:
    return make_user("viewer")


@pytest.fixture
def noor(db: None) -> User:
    return make_user("viewer", name="noor")


@pytest.mark.parametrize(("asked", "led_to"), [("/attempts/", "/attempts/"), ("https://example.org/", "/")])
def test_the_right_password_leads_to_what_was_asked_for(client: Client, mira: User, asked: str, led_to: str) -> None:
    answer = client.post("/login/", {"username": "mira", "password": PASSWORD, "next": asked})
    assert (answer.status_code, answer["Location"]) == (302, led_to)
    assert client.get("/").status_code == 200


@pytest.mark.both_forms
def test_ten_failures_lock_the_pair_of_address_and_user_only(client: Client, mira: User, noor: User) -> None:
    """In upper and lower case it is one user."""
    first = log_in(client, "wrong")
    assert "User or password is wrong. After 9 more tries this address must wait 5 min." in first
    for number in range(8):
        log_in(client, "wrong", "MIRA" if number % 2 else "Mira")
    assert "This address must now wait 5 min." in log_in(client, "wrong")
    assert "Too many failed tries. This address must wait 5 min." in log_in(client, PASSWORD)
    assert client.get("/").status_code == 302
    assert log_in(Client(), PASSWORD, address="192.0.2.10") == "in"
    assert log_in(Client(), PASSWORD, "noor") == "in"


@pytest.mark.both_forms
def test_success_forgets_the_failures(client: Client, mira: User) -> None:
    for _ in range(2):
        for _ in range(9):
            log_in(client, "wrong")
        assert log_in(client, PASSWORD) == "in"


def test_an_address_that_goes_through_users_waits_even_if_it_owns_an_account(mira: User) -> None:
    for index in range(60):
        log_in(Client(), "wrong", f"user{index}")
        if index == 30:
            assert log_in(Client(), PASSWORD) == "in"
    assert log_in(Client(), PASSWORD) != "in"
    assert log_in(Client(), PASSWORD, address="192.0.2.10") == "in"


def strangers_guess(times: int = ACCOUNT.most, **cookies: str) -> None:
    """At mira's password, from as many addresses as it takes so that none of them has to wait."""
    for number in range(times):
        client = Client()
        client.cookies.load(cookies)
        assert "User or password is wrong" in log_in(client, "wrong", address=f"198.51.100.{number % 50}")


TOO_MANY = "Too many failed tries at this user, from many addresses. For 60 min"


@pytest.mark.both_forms
def test_many_addresses_together_have_so_many_guesses_at_one_user(mira: User, noor: User) -> None:
    strangers_guess()
    for address in ("198.51.100.99", "198.51.100.98"):
        assert TOO_MANY in log_in(Client(), PASSWORD, address=address)
    assert log_in(Client(), PASSWORD, "noor", "198.51.100.99") == "in"
    limited = AuditEntry.objects.get(action="login.limit")
    assert (limited.actor, limited.target) == ("mira", "mira")


@pytest.mark.both_forms
def test_strangers_lock_no_owner_out(mira: User) -> None:
    """Who has the browser, or is at an address, with which the account was logged in to, gets in all the same."""
    owner = Client()
    assert log_in(owner, PASSWORD) == log_in(Client(), PASSWORD, address="2001:db8:1:2::9") == "in"
    strangers_guess()
    assert log_in(owner, PASSWORD, address="203.0.113.5") == "in"
    for address in ("192.0.2.9", "2001:db8:1:2::77"):
        assert log_in(Client(), PASSWORD, address=address) == "in"
    for address in ("192.0.2.10", "2001:db8:1:3::9"):
        assert TOO_MANY in log_in(Client(), PASSWORD, address=address)


def test_device_cookie_stolen_or_forged_does_not_bypass_the_lock(mira: User, noor: User) -> None:
    owner, other = Client(), Client()
    assert log_in(owner, PASSWORD) == log_in(other, PASSWORD, "noor") == "in"
    name = accounts.cookie_name("mira")
    taken = {name: owner.cookies[name].value}
    forged = {name: other.cookies[accounts.cookie_name("noor")].value}
    strangers_guess(ACCOUNT.most + DEVICE.most, **taken)
    for cookies in (taken, forged):
        client = Client()
        client.cookies.load(cookies)
        assert TOO_MANY in log_in(client, PASSWORD, address="203.0.113.5")


def test_a_network_of_ipv6_is_one_address(mira: User) -> None:
    for number in range(10):
        log_in(Client(), "wrong", address=f"2001:db8:1:2::{number + 1}")
    assert "This address must wait 5 min." in log_in(Client(), PASSWORD, address="2001:db8:1:2::99")
    assert log_in(Client(), PASSWORD, address="2001:db8:1:3::1") == "in"


def test_the_admin_has_no_log_in_of_its_own(client: Client, db: None) -> None:
    assert client.get("/admin/", follow=True).redirect_chain[-1][0] == "/login/?next=/admin/"
    assert client.post("/admin/login/", {"username": "mira", "password": PASSWORD})["Location"].startswith("/login/")
    client.force_login(make_user("viewer"))
    answer = client.get("/admin/", follow=True)
    assert answer.status_code == 403
    assert "Settings are for the roles admin and key manager" in answer.content.decode()


def test_typed_user_and_password_are_not_logged(client: Client, db: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for _ in range(12):
        log_in(client, "guess-8231", "oops-my-password-4711")
    assert "192.0.2.9" in caplog.text
    assert "4711" not in caplog.text
    assert "8231" not in caplog.text


def test_log_out_needs_a_post_and_ends_the_session(viewer: Client) -> None:
    assert viewer.get("/logout/").status_code == 405
    assert viewer.post("/logout/").status_code == 302
    assert viewer.get("/").status_code == 302


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
def test_behind_tls_setting_makes_cookies_secure(behind_tls: str, secure: str, tmp_path: Any) -> None:
    environment = {"RTMPWEB_BEHIND_TLS": behind_tls, "RTMPWEB_DATA_DIR": str(tmp_path), "PATH": ""}
    shown = processes.run(*processes.SHELL, SHOW_SETTINGS, only=environment)
    assert shown.stdout.split("\n")[-2] == f"{secure} True True Lax Lax", shown.stderr


@pytest.mark.parametrize("path", ["/", "/attempts/", "/streams/live/cam-1/", "/nodes/", "/api/v1/streams", "/nowhere/"])
def test_no_cache_keeps_what_is_behind_the_log_in(viewer: Client, stream: Stream, path: str) -> None:
    assert "no-store" in viewer.get(path)["Cache-Control"]


def test_no_cache_keeps_that_somebody_is_logged_out(client: Client, db: None) -> None:
    assert "no-store" in client.get("/")["Cache-Control"]
    assert "no-store" in client.get("/login/")["Cache-Control"]
    assert finders.find("dashboard/css/base.css")
    assert "no-store" not in client.get("/static/dashboard/css/base.css")["Cache-Control"], "static files are kept"


@pytest.mark.parametrize("role", ["viewer", "analyst", ""])
def test_everybody_changes_the_own_password(db: None, role: str) -> None:
    user = make_user(*filter(None, [role]))
    here, elsewhere = client_of(user), client_of(user)
    assert change(here).status_code == 302
    assert here.get("/password/").status_code == 200
    assert not role or 'href="/password/"' in here.get("/").content.decode(), "a page leads to it"
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


async def try_by(proxy: str, forwarded: str, password: str = "") -> int:
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
        assert await try_by("10.0.0.1", f"203.0.113.{number}, 192.0.2.9") == 200
    assert await try_by("10.0.0.1", "192.0.2.9", PASSWORD) == 200
    assert await try_by("10.0.0.2", "192.0.2.10", PASSWORD) == 302
    assert await try_by("192.0.2.9", "203.0.113.1", PASSWORD) == 200  # No proxy of ours: its word counts for nothing.


@pytest.mark.parametrize("path", ["/", "/streams/live/cam-1/", "/api/v1/streams", "/api/v1/streams/live/cam-1"])
def test_user_without_role_sees_no_data_and_the_reason(client: Client, stream: Stream, path: str) -> None:
    anonymous = client.get(path)
    page = client_of(make_user()).get(path).content.decode()
    assert "cam-1" not in page.replace("/streams/live/cam-1", "")
    if path.startswith("/api/"):
        assert anonymous.status_code == 401
    else:
        assert (anonymous.status_code, anonymous["Location"]) == (302, f"/login/?next={path}")
        assert "no role yet" in page


def test_rights_that_end_are_gone_at_the_next_request(db: None) -> None:
    user = make_user("viewer")
    client = client_of(user)
    assert client.get("/").status_code == 200
    user.groups.clear()
    assert client.get("/").status_code == 403
    user.is_superuser = True
    user.save()
    assert client.get("/").status_code == 200
    user.is_active = False
    user.save()
    assert client.get("/").status_code == 302
    assert client.get("/api/v1/streams").status_code == 401
