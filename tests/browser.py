"""Headless Chromium on a server that a test, or the script of the documentation's pictures, has started."""

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from tests.server_process import ServerProcess
from tests.tools import find_tool, require_tool

BROWSERS = ("chromium-headless-shell", "chromium")
"""In order of preference: the first needs a third of the processor's time to draw the same."""
OPTIONS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
PATIENCE_MS = 15_000
"""The default time to wait for a page's content: the machine may be busy."""

SEED = """
import json
from tests.dashboard.demo_data import seed_demo_data
print("IDS", json.dumps(seed_demo_data()))
"""

DRAWN = """figure => {
  const canvas = figure.querySelector("canvas");
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return data.some((value, index) => index % 4 === 3 && value > 0);
}"""
"""True if a chart has drawn anything."""


def furnished(server: ServerProcess) -> dict[str, Any]:
    """Seed the server's database with demo data. Return the ids that paths of pages name."""
    said = server.manage("shell", "--no-imports", "-c", SEED).splitlines()
    (line,) = [line for line in said if line.startswith("IDS")]
    ids: dict[str, Any] = json.loads(line.partition(" ")[2])
    return ids


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start the machine's own Chromium, in UTC whatever the machine's time zone is. Raises SkipTest without one."""
    expect.set_options(timeout=PATIENCE_MS)
    program = require_tool(next(filter(find_tool, BROWSERS), BROWSERS[0]))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=OPTIONS, env={**os.environ, "TZ": "UTC"})
        with contextlib.closing(browser):
            yield browser


@contextlib.contextmanager
def quiet(context: BrowserContext, but: str = "\0") -> Iterator[Page]:
    """Open a page that must have no errors of scripts or of its policy, except those that contain `but`."""
    opened = context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(error.stack or str(error)))
    opened.on(
        "console",
        lambda message: faults.append(f"{message.text} {message.location}") if message.type == "error" else None,
    )
    yield opened
    opened.close()
    unexpected = [fault for fault in faults if but not in fault]
    assert not unexpected, unexpected


def saved(page: Page, link: Locator, timeout_ms: float | None = None) -> bytes:
    """Click a link and return the downloaded file."""
    with page.expect_download(timeout=timeout_ms) as downloading:
        link.click(timeout=timeout_ms)
    return Path(downloading.value.path()).read_bytes()


def log_in(page: Page, server: ServerProcess) -> None:
    """Log in as the administrator that the server's first start made; this leads to the wall."""
    (password,) = re.findall(r"Password: (\S+)", server.first_start)
    log_in_as(page, server.http, "admin", password)


def log_in_as(page: Page, http: str, user: str, password: str) -> None:
    page.goto(http + "/")
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", password)
    page.click("button[type=submit]")
    page.wait_for_selector("#wall")
