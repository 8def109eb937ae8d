"""Push targets on a stream's page in an operator's browser: added, followed as their state changes, and removed; what a
node tells of pushes is put into what the page is sent."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.programs import Keys, on_air
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.serve, pytest.mark.browser, pytest.mark.clients, pytest.mark.timeout(180)]

NOBODY = "rtmp://127.0.0.1:9/live2"
SECRET = "abcd-efgh-ijkl"
REFUSED = {
    "state": "stopped",
    "kbps": 0.0,
    "failure": "refused",
    "code": "NetStream.Publish.BadName",
    "description": "Stream name is in use.",
    "words": "the key is in use already, or wrong",
    "advice": "Stop the other encoder that uses this key.",
}


class Told:
    """What the page is told of pushes, each second, in place of what the node says."""

    def __init__(self, page: Page) -> None:
        self.pushes: list[dict[str, Any]] = []
        page.route_web_socket("**/ws/streams/**", self._route)

    def _route(self, socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        server.on_message(lambda text: socket.send(self._changed(str(text))))

    def _changed(self, text: str) -> str:
        message = json.loads(text)
        if message.get("stream"):
            message["stream"]["pushes"] = self.pushes
        return json.dumps(message)

    def say(self, target: int, **fields: Any) -> None:
        base = {"target": target, "state": "live", "since": time.time() - 75, "kbps": 2612.4, "behind_ms": 0}
        nothing = {"retry_at": None, "failure": "", "code": "", "description": "", "words": "", "advice": ""}
        self.pushes = [base | nothing | fields]


@pytest.mark.journey
@pytest.mark.slow("a push starts, fails and starts again")
def test_push_target_is_added_started_changed_and_removed_in_browser(
    page: Page, server: ServerProcess, keys: Keys, clip: Path
) -> None:
    told = Told(page)
    with on_air(server, keys["pushed"], clip):
        page.goto(f"{server.http}/streams/live/pushed/")
        section = page.locator("#pushes")
        section.get_by_role("button", name="Add a target").click()
        dialog = page.locator("dialog#push")
        dialog.get_by_label("Name").fill("YouTube")
        dialog.get_by_label("Server").fill(NOBODY)
        dialog.get_by_label("Key").fill(SECRET)
        dialog.get_by_label("Starts").select_option("hand")
        dialog.get_by_role("button", name="Save the target").click()
        expect(page.locator("#toast")).to_have_text("The target is added.")
        row = section.locator("[data-target]")
        expect(row).to_contain_text("YouTube")
        expect(row.locator("[data-field=state]")).to_have_text("Not pushing")
        row.get_by_role("button", name="Start the push to YouTube").click()
        expect(page.locator("#events")).to_contain_text("started the push to YouTube.")
        expect(row.get_by_role("button", name="Stop the push to YouTube")).to_be_visible()
        target = int(row.get_attribute("data-target") or 0)
        told.say(target)
        expect(row.locator("[data-field=state]")).to_have_text("Live")
        expect(row.locator("[data-field=figures]")).to_contain_text("2,612\u00a0kbit/s for 1\u00a0min")
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 390, "height": 800})
        told.say(target, **REFUSED)
        expect(row.locator("[data-field=state]")).to_have_text("Failed")
        expect(row.locator("[data-field=why]")).to_contain_text("The key is in use already, or wrong.")
        expect(row.locator("[data-field=why]")).to_contain_text("It said: “Stream name is in use.”")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
        row.get_by_role("button", name="Change YouTube").click()
        expect(dialog.get_by_label("Server")).to_have_value(NOBODY)
        expect(dialog.get_by_label("Key")).to_have_value("")
        dialog.get_by_label("Name").fill("YouTube, main")
        dialog.get_by_role("button", name="Save the target").click()
        expect(row).to_contain_text("YouTube, main")
        assert SECRET not in page.content()
        told.pushes = []
        row.get_by_role("button", name="Remove YouTube, main").click()
        page.locator("dialog#remove-relay").get_by_role("button", name="Remove", exact=True).click()
        expect(section).to_contain_text("Nowhere else.")
        assert SECRET not in page.content()
