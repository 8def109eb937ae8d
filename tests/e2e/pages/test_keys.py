"""A key from its making on the page to an encoder that publishes with it, in a real browser and with a real FFmpeg."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import quiet
from tests.e2e.test_secrets import holders
from tests.programs import LOOPED, publishing
from tests.server_process import ServerProcess, program, wait_for

pytestmark = [pytest.mark.serve, pytest.mark.browser, pytest.mark.clients, pytest.mark.timeout(180)]


NOTE_LABELS = """() => {
    window.labels = [];
    const label = document.querySelector("[data-do='copy:made-key'] span");
    new MutationObserver(() => labels.push(label.textContent)).observe(label, { childList: true, characterData: true,
        subtree: true });
}"""
"""Keeps what the button says, as it says that it has copied for a moment only: `labels`."""


def make(page: Page, server: ServerProcess, stream: str, *, test_only: bool = False) -> tuple[str, str]:
    """Makes a key on the page of keys: what its dialog says to paste, server and key."""
    page.goto(f"{server.http}/keys/")
    page.click(".head [data-do='open:create']")
    page.fill("#create-stream", stream)
    page.fill("#create-label", f"for {stream}")
    page.set_checked("#create input[name=test_only]", test_only)
    page.click("#create button[type=submit]")
    expect(page.locator("#made-title")).to_have_text(f"Key created for {stream}")
    rtmp, key, url = (
        (page.locator(f"#made-{field}").text_content() or "").strip() for field in ("server", "key", "url")
    )
    assert url == f"{rtmp}/{key}"
    return rtmp, key


def step(page: Page, name: str) -> Any:
    return page.locator(f'#steps [data-step="{name}"]')


def wait_until_gone(page: Page, secret: str) -> None:
    """A dialog is hidden at once; its close event, which takes the secret out, comes after that."""
    page.wait_for_function("secret => !document.documentElement.outerHTML.includes(secret)", arg=secret)


def test_a_key_is_copied_and_its_encoder_fills_the_checklist(
    page: Page, server: ServerProcess, clip: Path, tmp_path: Path
) -> None:
    rtmp, key = make(page, server, "live/tried")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate(NOTE_LABELS)
    page.click("[data-do='copy:made-key']")
    wait_for(lambda: "Copied" in page.evaluate("labels"), timeout_s=15, what="the button says so")
    assert page.evaluate("navigator.clipboard.readText()") == key
    page.click("#made a.btn")  # Test the connection.
    expect(page.locator("#waits")).to_contain_text("Waiting for your encoder")
    assert key not in page.url
    with program(*publishing(clip, f"{rtmp}/rk_{'x' * 32}", *LOOPED)) as wrong:
        wrong.wait(timeout=30)
    refused = page.locator('#refusals [data-reason="key_unknown"]')
    expect(refused).to_contain_text("The stream key is not known.", timeout=15_000)
    expect(refused).to_contain_text("Paste the key again")
    expect(step(page, "key")).to_have_attribute("data-state", "bad")
    with program(*publishing(clip, f"{rtmp}/{key}", *LOOPED)):
        for name in ("connect", "key", "publish", "video", "audio", "keyframes", "bitrate"):
            expect(step(page, name)).to_have_attribute("data-state", "good", timeout=25_000)
        expect(step(page, "video")).to_contain_text("H.264")
        expect(step(page, "keyframes")).to_contain_text("1.0 s")
        expect(step(page, "verdict").locator("b")).not_to_have_text("Verdict", timeout=25_000)
    expect(page.locator("#waits")).to_contain_text("The encoder has stopped", timeout=15_000)
    page.go_back()
    page.wait_for_selector("#list")
    page.reload()
    assert key not in page.content()
    expect(page.locator("#list").get_by_role("link", name="for live/tried", exact=True)).to_have_count(1)
    for secret in (key, "x" * 32):
        assert secret not in server.log
        assert holders(server.folder, secret) == []


def test_a_test_is_judged_while_the_stream_is_on_air(page: Page, server: ServerProcess, clip: Path) -> None:
    rtmp, real = make(page, server, "live/both")
    _, trial = make(page, server, "live/both", test_only=True)
    href = page.get_attribute("#made a.btn", "href")
    with program(*publishing(clip, f"{rtmp}/{trial}", *LOOPED)):
        page.goto(f"{server.http}{href}")
        expect(step(page, "video")).to_have_attribute("data-state", "good", timeout=20_000)
        expect(step(page, "key")).to_contain_text("as a test")
        page.goto(f"{server.http}/")
        card = page.locator('[data-stream="live/both"][data-state="live"]')
        assert server.stream("live/both")["state"] == "offline"
        expect(card).to_have_count(0)
        with program(*publishing(clip, f"{rtmp}/{real}", *LOOPED)):
            expect(card).to_be_visible(timeout=15_000)
            assert server.stream("live/both")["state"] == "live"
            page.goto(f"{server.http}{href}")
            expect(page.locator("#waits")).to_contain_text("Your encoder publishes")
    assert len(server.sessions("live/both")) == 2


@pytest.mark.journey
@pytest.mark.slow("an encoder publishes in real time")
def test_a_rotated_key_is_shown_once_and_both_work_in_the_grace(page: Page, server: ServerProcess, clip: Path) -> None:
    rtmp, old = make(page, server, "live/rotated")
    page.click("#made [data-do=close].solid")
    page.click("#made [data-made=leave]")
    expect(page.locator("#made")).to_be_hidden()
    wait_until_gone(page, old)
    page.locator("#list").get_by_role("link", name="for live/rotated", exact=True).click()
    page.click("[data-do='open:rotate']")
    page.select_option("#rotate-grace", "1h")
    page.click("#rotate button[type=submit]")
    expect(page.locator("#made-title")).to_have_text("Key rotated for live/rotated")
    new = (page.locator("#made-key").text_content() or "").strip()
    assert re.fullmatch(r"rk_\w{32}", new)
    assert new != old
    for secret in (old, new):
        with program(*publishing(clip, f"{rtmp}/{secret}", *LOOPED)):
            server.wait_for_state("live/rotated", "live", timeout_s=30)
        server.wait_for_state("live/rotated", "offline", timeout_s=30)


@pytest.mark.parametrize("by", ["esc", "close", "backdrop", "done"])
def test_closing_the_dialog_of_an_uncopied_key_asks_first(page: Page, server: ServerProcess, by: str) -> None:
    _, key = make(page, server, f"live/asked-{by}")
    ways: dict[str, Callable[[], object]] = {
        "esc": lambda: page.keyboard.press("Escape"),
        "close": lambda: page.click("#made .dlg-head [data-do=close]"),
        "backdrop": lambda: page.mouse.click(5, 5),
        "done": lambda: page.click("#made [data-do=close].solid"),
    }
    leave = ways[by]
    leave()
    asked = page.locator("#made [data-part=ask]")
    expect(asked).to_contain_text("Nothing was copied")
    expect(page.locator("#made-key")).to_be_hidden()
    page.click("#made [data-made=back]")
    expect(page.locator("#made-key")).to_have_text(key)
    leave()
    expect(asked).to_be_visible()
    page.click("#made [data-made=leave]")
    expect(page.locator("#made")).to_be_hidden()
    wait_until_gone(page, key)


def test_no_number_of_escapes_loses_a_key(page: Page, server: ServerProcess) -> None:
    _, key = make(page, server, "live/escaped")
    for _ in range(5):
        page.keyboard.press("Escape")
    expect(page.locator("#made")).to_be_visible()
    assert key in page.content()
    with page.expect_event("dialog") as asked:
        page.evaluate("setTimeout(() => location.assign('/sessions/'))")
    assert asked.value.type == "beforeunload"
    asked.value.dismiss()
    assert page.url == f"{server.http}/keys/"


def test_copied_key_message_contains_server_key_and_encoder_settings(page: Page, server: ServerProcess) -> None:
    rtmp, key = make(page, server, "live/colleague")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#made [data-do='copy:made-message']")
    expect(page.locator("#made-message")).to_contain_text("whoever has the key can go on air")
    text = page.evaluate("navigator.clipboard.readText()")
    for part in ("live/colleague", f"Server: {rtmp}\n", f"Stream Key: {key}\n", "Keyframe Interval: 2 s", "Custom..."):
        assert part in text
    assert "&" not in text
    page.click("#made [data-do=close].solid")
    expect(page.locator("#made")).to_be_hidden()
    wait_until_gone(page, key)


def test_a_key_that_was_selected_and_copied_is_not_asked_about(page: Page, server: ServerProcess) -> None:
    make(page, server, "live/by-hand")
    page.evaluate("getSelection().selectAllChildren(document.getElementById('made-key'))")
    page.keyboard.press("Control+C")
    page.keyboard.press("Escape")
    expect(page.locator("#made")).to_be_hidden()


def test_a_streamer_without_a_log_in_tests_by_a_link(
    page: Page, server: ServerProcess, browser: Browser, clip: Path
) -> None:
    rtmp, real = make(page, server, "live/streamer")
    page.click("#made [data-do=close].solid")
    page.click("#made [data-made=leave]")
    page.locator("#list").get_by_role("link", name="for live/streamer", exact=True).click()
    page.click("[data-do='open:link']")
    page.select_option("#link-lifetime", "1h")
    page.click("#link button[type=submit]")
    url = (page.locator("#made-link").text_content() or "").strip()
    page.click("#made [data-do='copy:made-message']")
    expect(page.locator("#made-message")).to_contain_text(url)
    page.click("#made [data-do=close].solid")
    expect(page.locator("#links [data-link]")).to_have_count(1)
    wait_until_gone(page, url)
    stranger = browser.new_context(viewport={"width": 390, "height": 844})
    with quiet(stranger, but="404") as own:
        own.goto(url)
        expect(own.locator("#stream")).to_have_text("live/streamer")
        expect(own.locator("#server")).to_have_text(rtmp)
        key = (own.locator("#key").text_content() or "").strip()
        assert key == url.partition("#")[2] != real
        with program(*publishing(clip, f"{rtmp}/rk_{'y' * 32}", *LOOPED)) as wrong:
            wrong.wait(timeout=30)
        expect(own.locator('#refusals [data-reason="key_unknown"]')).to_contain_text("Copy the key of this page again")
        with program(*publishing(clip, f"{rtmp}/{key}", *LOOPED)):
            for name in ("connect", "key", "publish", "video", "audio", "keyframes", "bitrate"):
                expect(step(own, name)).to_have_attribute("data-state", "good", timeout=25_000)
            expect(own.locator("#waits")).to_have_text("Your encoder publishes")
            assert server.stream("live/streamer")["state"] == "offline"
            expect(step(own, "verdict").locator("b")).not_to_have_text("Verdict", timeout=25_000)
        expect(own.locator("#waits")).to_have_text("The encoder has stopped", timeout=15_000)
        expect(step(own, "verdict").locator("b")).to_have_text(re.compile("It worked|Ended"))
        expect(step(own, "keyframes")).to_have_attribute("data-state", "good")
        page.click("#links [data-link] button")
        expect(page.locator("#links")).to_contain_text("Revoked")
        expect(own.locator("#closed")).to_contain_text("This link is unknown, has expired or was revoked.")
        expect(own.locator("#test")).to_be_hidden()
    stranger.close()
    assert key not in server.log
    assert holders(server.folder, key) == []
