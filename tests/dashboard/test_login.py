"""Log-in: wrong passwords are counted by address and user, and by user alone, and who guesses waits."""

import logging

import pytest
from django.test import Client

from dashboard import accounts
from dashboard.throttle import ACCOUNT, DEVICE
from ingest.models import AuditEntry
from tests.dashboard.conftest import PASSWORD, make_user


def try_login(
    client: Client, password: str, user: str = "mira", address: str = "192.0.2.9", path: str = "/login/"
) -> int:
    return client.post(path, {"username": user, "password": password}, REMOTE_ADDR=address).status_code


def text_after(client: Client, password: str) -> str:
    answer = client.post("/login/", {"username": "mira", "password": password}, REMOTE_ADDR="192.0.2.9")
    return answer.content.decode()


def test_the_right_password_leads_to_the_page_that_was_asked_for(client: Client, db: None) -> None:
    make_user("viewer")
    answer = client.post("/login/", {"username": "mira", "password": PASSWORD, "next": "/attempts/"})
    assert (answer.status_code, answer["Location"]) == (302, "/attempts/")
    assert client.get("/").status_code == 200


def test_it_leads_to_no_other_site(client: Client, db: None) -> None:
    make_user("viewer")
    answer = client.post("/login/", {"username": "mira", "password": PASSWORD, "next": "https://example.org/"})
    assert answer["Location"] == "/"


@pytest.mark.both_forms
def test_ten_failures_lock_the_pair_of_address_and_user_only(client: Client, db: None) -> None:
    make_user("viewer")
    make_user("viewer", name="noor")
    for _ in range(10):
        assert try_login(client, "wrong") == 200
    assert "Too many failed tries. This address must wait 5 min." in text_after(client, PASSWORD)
    assert client.get("/").status_code == 302
    assert try_login(Client(), PASSWORD, address="192.0.2.10") == 302
    assert try_login(Client(), PASSWORD, user="noor") == 302


def test_the_page_says_how_many_tries_are_left(client: Client, db: None) -> None:
    make_user("viewer")
    assert "User or password is wrong. After 9 more tries this address must wait 5 min." in text_after(client, "x")
    for _ in range(8):
        try_login(client, "x")
    assert "This address must now wait 5 min." in text_after(client, "x")


def test_upper_and_lower_case_are_one_user_to_the_count(client: Client, db: None) -> None:
    make_user("viewer")
    for index in range(10):
        try_login(client, "wrong", user="MIRA" if index % 2 else "Mira")
    assert "Too many failed tries" in text_after(client, PASSWORD)


@pytest.mark.both_forms
def test_success_forgets_the_failures(client: Client, db: None) -> None:
    make_user("viewer")
    for _ in range(9):
        try_login(client, "wrong")
    assert try_login(client, PASSWORD) == 302
    for _ in range(9):
        try_login(client, "wrong")
    assert try_login(client, PASSWORD) == 302


def test_an_address_that_goes_through_users_waits_even_if_it_owns_an_account(db: None) -> None:
    make_user("viewer")
    for index in range(60):
        try_login(Client(), "wrong", user=f"user{index}")
        if index == 30:
            assert try_login(Client(), PASSWORD) == 302
    assert try_login(Client(), PASSWORD) == 200
    assert try_login(Client(), PASSWORD, address="192.0.2.10") == 302


def strangers_guess(times: int = ACCOUNT.failures, **cookies: str) -> None:
    """At mira's password, from as many addresses as it takes so that none of them has to wait."""
    for number in range(times):
        client = Client()
        client.cookies.load(cookies)
        assert "User or password is wrong" in text_from(client, "wrong", f"198.51.100.{number % 50}")


def text_from(client: Client, password: str, address: str) -> str:
    answer = client.post("/login/", {"username": "mira", "password": password}, REMOTE_ADDR=address)
    return answer.content.decode() if answer.status_code == 200 else "in"


@pytest.mark.both_forms
def test_many_addresses_together_have_so_many_guesses_at_one_user(db: None) -> None:
    make_user("viewer")
    make_user("viewer", name="noor")
    strangers_guess()
    for address in ("198.51.100.99", "198.51.100.98"):
        assert "Too many failed tries at this user, from many addresses. For 60 min" in text_from(
            Client(), PASSWORD, address
        )
    assert try_login(Client(), PASSWORD, user="noor", address="198.51.100.99") == 302
    limited = AuditEntry.objects.get(action="login.limit")
    assert (limited.actor, limited.target) == ("mira", "mira")


@pytest.mark.both_forms
def test_strangers_lock_no_owner_out(db: None) -> None:
    """Who has the browser, or is at an address, with which the account was logged in to, gets in all the same."""
    make_user("viewer")
    owner = Client()
    assert text_from(owner, PASSWORD, "192.0.2.9") == text_from(Client(), PASSWORD, "2001:db8:1:2::9") == "in"
    strangers_guess()
    assert text_from(owner, PASSWORD, "203.0.113.5") == "in"
    assert text_from(Client(), PASSWORD, "192.0.2.9") == "in"
    assert text_from(Client(), PASSWORD, "2001:db8:1:2::77") == "in"
    for address in ("192.0.2.10", "2001:db8:1:3::9"):
        assert "Too many failed tries at this user" in text_from(Client(), PASSWORD, address)


def test_a_browsers_cookie_is_no_way_round(db: None) -> None:
    make_user("viewer")
    make_user("viewer", name="noor")
    owner, noor = Client(), Client()
    assert text_from(owner, PASSWORD, "192.0.2.9") == "in"
    assert try_login(noor, PASSWORD, user="noor") == 302
    name = accounts.cookie_name("mira")
    taken = {name: owner.cookies[name].value}
    forged = {name: noor.cookies[accounts.cookie_name("noor")].value}
    strangers_guess(ACCOUNT.failures + DEVICE.failures, **taken)
    for cookies in (taken, forged):
        client = Client()
        client.cookies.load(cookies)
        assert "Too many failed tries at this user" in text_from(client, PASSWORD, "203.0.113.5")


def test_a_network_of_ipv6_is_one_address(db: None) -> None:
    make_user("viewer")
    for number in range(10):
        text_from(Client(), "wrong", f"2001:db8:1:2::{number + 1}")
    assert "This address must wait 5 min." in text_from(Client(), PASSWORD, "2001:db8:1:2::99")
    assert text_from(Client(), PASSWORD, "2001:db8:1:3::1") == "in"


def test_the_admin_has_no_log_in_of_its_own(client: Client, db: None) -> None:
    assert client.get("/admin/", follow=True).redirect_chain[-1][0] == "/login/?next=/admin/"
    assert client.post("/admin/login/", {"username": "mira", "password": PASSWORD})["Location"].startswith("/login/")
    client.force_login(make_user("viewer"))
    answer = client.get("/admin/", follow=True)
    assert answer.status_code == 403
    assert "staff" in answer.content.decode()


def test_what_was_typed_is_in_no_log(client: Client, db: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for _ in range(12):
        try_login(client, "guess-8231", user="oops-my-password-4711")
    assert "192.0.2.9" in caplog.text
    assert "4711" not in caplog.text
    assert "8231" not in caplog.text


def test_log_out_needs_a_post_and_ends_the_session(viewer: Client) -> None:
    assert viewer.get("/logout/").status_code == 405
    assert viewer.post("/logout/").status_code == 302
    assert viewer.get("/").status_code == 302


@pytest.mark.parametrize("path", ["/login/", "/logout/", "/theme/", "/zone/", "/streams/live/cam-1/kick"])
def test_every_form_needs_the_csrf_token(db: None, path: str) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("operator"))
    assert client.post(path).status_code == 403
