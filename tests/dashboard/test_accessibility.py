"""Every page in headless Chromium, with data on it: axe-core finds nothing, the policy is kept, the console is empty;
light and dark, wide and on a phone, and each dialog.

The pages are those of `test_roles.TABLE`, so that a new one is looked at without being named here. axe-core comes with
the front-end packages (package.json) and is served to nobody.
"""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser import chromium, furnished, log_in
from tests.dashboard.test_roles import TABLE
from tests.media import make_clip
from tests.server_process import ROOT, ServerProcess, program, running, wait_for
from tests.tools import require_tool

# A first start alone may take two minutes.
pytestmark = [pytest.mark.serve, pytest.mark.browser, pytest.mark.clients, pytest.mark.matrix, pytest.mark.timeout(240)]

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"

VIOLATIONS = """
async ([within, rules]) => {
  const options = rules.length ? { runOnly: rules } : { rules: { "target-size": { enabled: true } } };
  const { violations } = await axe.run(within ?? document, { resultTypes: ["violations"], ...options });
  const why = (node) => node.failureSummary.split("\\n").at(-1).trim();
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 160)}: ${why(node)}`));
}
"""

DIALOGS = """
async ([chosen, rules]) => {
  const found = [];
  for (const dialog of document.querySelectorAll(chosen)) {
    dialog.showModal();
    found.push(...(await (VIOLATIONS)([dialog, rules])).map((words) => `#${dialog.id}: ${words}`));
    dialog.close();
  }
  return found;
}
""".replace("VIOLATIONS", VIOLATIONS)

OWN = "dialog[id]:not(#more, #keys-help)"
"""A page's own dialogs,"""
COMMON = "#more, #keys-help"
"""and those of every page, which are looked at on two: for each dialog axe-core reads the whole page."""

COLOURS = ["color-contrast"]
"""Rules that the theme makes a difference to,"""
PHONE = ["target-size", "scrollable-region-focusable", "region"]
"""and those that the width does."""
SCHEMES: tuple[tuple[Literal["light", "dark"], list[str]], ...] = (("light", []), ("dark", COLOURS))
"""With the rules that are asked of each; none: all."""

WATCH = """
window.brokenRules = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.brokenRules.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""

NO_PAGES = ("/metrics", "/live/recent/", "/live/expected/", "/system/alarms", "/healthz", "/audit/export")
"""For scripts."""
ELSEWHERE = ("/watch/live/cam-1",)
"""Looked at with something to play: tests/e2e/pages/test_watch_page.py."""
FILES = ("/settings", "/download", ".csv", ".json", ".pdf", ".webp", "/data", "/progress")
"""How paths end that lead to a file."""

ADMIN = ("/admin/", "/admin/ingest/streamkey/", "/admin/ingest/streamkey/add/", "/admin/auth/user/add/")
ERRORS = ("/nowhere/", "/streams/live/none/", "/api/v1/nowhere")


def is_page(row: str) -> bool:
    method, path = row.split(" ")
    if path.startswith("/api/"):
        return path == "/api/v1/docs"
    return method == "GET" and path not in NO_PAGES + ELSEWHERE and not path.endswith(FILES)


PAGES = tuple(row.split(" ")[1] for row in TABLE if is_page(row) and row != "GET /login/")


@dataclass(frozen=True, slots=True)
class House:
    """The server, and by what its pages are found."""

    server: ServerProcess
    ids: dict[str, Any]

    def url(self, path: str) -> str:
        return self.server.http + path.format(**self.ids)


def player(url: str) -> list[str]:
    return ["ffmpeg", "-v", "error", "-i", url, "-f", "null", "-"]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """With one stream on air, and all that the rows of the table name."""
    require_tool("ffmpeg")
    folder = tmp_path_factory.mktemp("house")
    clip = make_clip(folder / "clip.flv", seconds=20, video_kbps=400, fps=25, gop=150, size="320x180")
    with running(folder / "var") as server:
        ids = furnished(server)
        recording = folder / "var" / "recordings" / "live" / "cam-1.flv"
        recording.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(clip, recording)
        key = server.create_key("live/on-air")["key"]
        url = f"{server.rtmp}/live/{key}"
        clip_again = ["-re", "-stream_loop", "-1", "-i", str(clip), "-c", "copy", "-f", "flv"]
        with program("ffmpeg", "-v", "error", *clip_again, url), program(*player(f"{server.rtmp}/live/wrong")):
            server.wait_for_state("live/on-air", "live", timeout_s=20)
            wait_for(lambda: server.items("/api/v1/attempts?reason=stream_unknown"), timeout_s=10, what="a refusal")
            yield House(server, ids)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def context(browser: Browser, house: House) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    made.add_init_script(WATCH)
    page = made.new_page()
    log_in(page, house.server)
    page.close()
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    opened = context.new_page()
    yield opened
    opened.close()


def visit(page: Page, url: str) -> list[str]:
    """Opens the page, and waits until all that its scripts ask for has come; what the policy forbade, and what is on
    the console.
    """
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
    page.goto(url, wait_until="networkidle")
    return faults + [f"policy: {rule}" for rule in page.evaluate("window.brokenRules")]


def violations(page: Page, dialogs: str = OWN) -> list[str]:
    """What axe-core says: light, dark, on a phone, and of the dialogs that are chosen (CSS)."""
    found = []
    page.evaluate(AXE.read_text())
    for scheme, rules in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        found += [f"{scheme}: {words}" for words in page.evaluate(VIOLATIONS, [None, rules])]
        found += [f"{scheme}: {words}" for words in page.evaluate(DIALOGS, [dialogs, rules])]
    page.set_viewport_size({"width": 360, "height": 780})
    return found + [f"phone: {words}" for words in page.evaluate(VIOLATIONS, [None, PHONE])]


def assert_none(found: list[str]) -> None:
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", [*PAGES, *ERRORS])
def test_a_page_keeps_the_policy_and_axe_finds_nothing(page: Page, house: House, path: str) -> None:
    faults = visit(page, house.url(path))
    assert_none([fault for fault in faults if path not in ERRORS or "status of 404" not in fault])
    assert_none(violations(page))


@pytest.mark.parametrize("path", ["/", "/sessions/"])
def test_axe_finds_nothing_in_the_dialogs_of_every_page(page: Page, house: House, path: str) -> None:
    visit(page, house.url(path))
    assert page.locator(COMMON).count() == 2
    assert_none(violations(page, COMMON))


def test_the_login_page_keeps_the_policy_and_axe_finds_nothing(browser: Browser, house: House) -> None:
    context = browser.new_context(reduced_motion="reduce")
    context.add_init_script(WATCH)
    page = context.new_page()
    faults = visit(page, house.url("/login/"))
    page.fill("input[name=username]", "nobody")
    page.fill("input[name=password]", "wrong")
    page.click("button[type=submit]")
    page.wait_for_selector("#login-error")
    found = violations(page)
    context.close()
    assert_none(faults)
    assert_none(found)


def test_a_test_link_is_shown_and_opened_for_everybody(page: Page, house: House) -> None:
    """What is shown once, what asks before it is lost, and the streamer's page with the link's test."""
    faults = visit(page, house.url("/keys/{key}/"))
    page.click("[data-do='open:link']")
    page.click("#link button[type=submit]")
    url = (page.locator("#made-link").text_content() or "").strip()
    page.evaluate(AXE.read_text())
    found = page.evaluate(VIOLATIONS, ["#made", []])
    page.keyboard.press("Escape")
    found += page.evaluate(VIOLATIONS, ["#made", []])
    page.click("[data-made=back]")
    page.click("#made [data-do='copy:made-message']")
    found += page.evaluate(VIOLATIONS, ["#made", []])
    page.click("#made [data-do=close].solid")
    page.goto(url)
    page.locator("#stream", has_text="live/cam-1").wait_for()
    assert_none([*faults, *found, *violations(page)])


@pytest.mark.parametrize("path", ADMIN)
def test_the_admin_keeps_the_policy(page: Page, house: House, path: str) -> None:
    assert_none(visit(page, house.url(path)))


def test_no_page_scrolls_sideways_on_a_small_phone(page: Page, house: House) -> None:
    page.set_viewport_size({"width": 320, "height": 700})
    wide = {}
    for path in PAGES:
        page.goto(house.url(path))
        page.evaluate("() => new Promise(requestIdleCallback)")  # Its scripts have run.
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 320:
            wide[path] = width
    assert wide == {}


def refused(house: House, app: str) -> None:
    subprocess.run(player(f"{house.server.rtmp}/{app}/x"), capture_output=True, timeout=30)


SOONER_MS = 11_000  # Than the page looks unasked, which would show the row too.


def test_a_refused_attempt_appears_on_the_open_page(page: Page, house: House) -> None:
    visit(page, house.url("/attempts/"))
    rows = page.locator("tr[data-reason=unknown_app]", has_text="nowhere-at-all")
    assert rows.count() == 0
    refused(house, "nowhere-at-all")
    rows.wait_for(timeout=SOONER_MS)
    assert "unknown-app" not in page.locator("#announce").inner_text()


def test_an_attempt_whose_row_is_written_late_appears_too(page: Page, house: House) -> None:
    url = house.url("/attempts/")
    faults = visit(page, url)
    before = page.request.get(url).text()
    told = "() => document.getElementById('announce').innerText !== ''"
    page.route(url, lambda route: route.fulfill(body=before, content_type="text/html"))
    with page.expect_response(url):  # What it looks at soon.
        refused(house, "written-late")
        page.wait_for_function(told, timeout=SOONER_MS)
    page.unroute(url)
    rows = page.locator("tr[data-reason=unknown_app]", has_text="written-late")
    rows.wait_for(timeout=SOONER_MS)
    assert not faults
