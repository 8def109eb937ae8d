"""Services and silences as an operator sets them up: what pages say of a message that is sent, and of a silence."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from tests.receivers import answer, http_receiver
from tests.server_process import ServerProcess


@pytest.mark.journey
def test_test_message_shows_its_delivery_result_on_the_page(page: Page, server: ServerProcess) -> None:
    with http_receiver() as ntfy:
        page.goto(f"{server.http}/alerts/services/create")
        page.get_by_role("navigation", name="Kinds of services").get_by_role("link", name="ntfy").click()
        page.fill("[name=name]", "Anna's phone")
        page.fill("[name=server]", ntfy.url.removesuffix("/hook"))
        page.fill("[name=topic]", "studio-alerts-x7Q2")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".meta")).to_contain_text("topic …x7Q2")
        expect(page.locator("[name=topic]")).to_have_value("")
        first = page.locator("#last li").first
        page.get_by_role("button", name="Send a test message").click()
        expect(first).to_have_text(re.compile(r"Delivered.*Test message, .*: Delivered in \d\.\d s\."))
        ntfy.behaviours = [answer(403, b'{"error": "forbidden"}')]
        page.get_by_role("button", name="Send a test message").click()
        expect(first).to_contain_text("ntfy answered 403 (forbidden): the topic needs an access token")
        assert [got.path for got in ntfy.got] == ["/", "/"]
        assert "studio-alerts-x7Q2" not in server.log
    page.get_by_role("button", name="Delete").first.click()
    page.locator("#delete [type=submit]").click()
    expect(page.locator("#services")).to_contain_text("No services yet")


def test_a_maintenance_window_is_made_and_lifted(page: Page, server: ServerProcess) -> None:
    page.goto(f"{server.http}/alerts/")
    page.get_by_role("button", name="Silence alerts").click()
    dialog = page.locator("#silence")
    expect(dialog.get_by_label("For 30 min")).to_be_checked()
    until = datetime.now(UTC) + timedelta(days=2)
    page.fill("#mute-at", f"{until:%Y-%m-%dT06:00}")
    expect(dialog.get_by_label("Until a time:")).to_be_checked()
    page.fill("#mute-note", "Encoder swap")
    dialog.get_by_role("button", name="Silence").click()
    row = page.locator("#silences li")
    expect(row).to_contain_text(
        f"Everything, all checks: silenced until {until:%-d %b}, 06:00 UTC by admin: Encoder swap"
    )
    row.get_by_role("button", name="Lift").click()
    expect(page.locator("#silences")).to_contain_text("None in force.")
