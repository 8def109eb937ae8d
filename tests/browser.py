"""Headless Chromium on a server that a test (or the script of the documentation's pictures) has started."""

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
"""The first that is there: to draw the same, the first takes a third of the processor's time."""

OPTIONS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]

PATIENCE_MS = 15_000
"""How long a page's content is waited for on a busy machine, where a test names no time of its own."""

SEED = """
import json
from tests.dashboard.demo_data import seed_demo_data
print("IDS", json.dumps(seed_demo_data()))
"""


def furnished(server: ServerProcess) -> dict[str, Any]:
    """Seed the server's database with demo data. Return the ids that paths of pages name."""
    said = server.manage("shell", "--no-imports", "-c", SEED).splitlines()
    (line,) = [line for line in said if line.startswith("IDS")]
    ids: dict[str, Any] = json.loads(line.partition(" ")[2])
    return ids


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """The machine's own Chromium; the calling test is skipped by name where there is none."""
    expect.set_options(timeout=PATIENCE_MS)
    program = require_tool(next(filter(find_tool, BROWSERS), BROWSERS[0]))
    with sync_playwright() as playwright:
        # In UTC, whatever the machine's zone is: a test that is about another says so.
        browser = playwright.chromium.launch(executable_path=program, args=OPTIONS, env={**os.environ, "TZ": "UTC"})
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def quiet(context: BrowserContext, but: str = "\0") -> Iterator[Page]:
    """A page that fails on any error of its scripts, or of what its policy forbids. `but`: in those that may be."""
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


DRAWN = """figure => {
  const canvas = figure.querySelector("canvas");
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return data.some((value, index) => index % 4 === 3 && value > 0);
}"""
"""Whether a chart has drawn anything."""


def saved(page: Page, link: Locator, timeout_ms: float | None = None) -> bytes:
    """What a click has the browser download. `timeout_ms`: None is the browser's own."""
    with page.expect_download(timeout=timeout_ms) as downloading:
        link.click(timeout=timeout_ms)
    return Path(downloading.value.path()).read_bytes()


def log_in(page: Page, server: ServerProcess) -> None:
    """As the administrator that the server's first start made and named; leads to the wall."""
    (password,) = re.findall(r"Password: (\S+)", server.first_start)
    log_in_as(page, server.http, "admin", password)


def log_in_as(page: Page, http: str, user: str, password: str) -> None:
    page.goto(http + "/")
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", password)
    page.click("button[type=submit]")
    page.wait_for_selector("#wall")
