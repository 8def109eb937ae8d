"""The wall in a browser, on made-up nodes: order, filters, keys, stale figures, who dropped, kiosk, many streams."""

import json
import random
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, expect

from tests.browser import quiet
from tests.loops import run
from tests.server_process import ServerProcess, wait_for
from tests.wallfeed import Node, Wall, issue, made, picture, varied

pytestmark = [pytest.mark.serve, pytest.mark.browser, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def context(browser: Browser, logged_in: StorageState) -> Iterator[BrowserContext]:
    """One for all, so that scripts and styles are fetched once."""
    made = browser.new_context(viewport={"width": 1280, "height": 900}, storage_state=logged_in)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """Fails on any error of its scripts, but that a made-up server went away."""
    with quiet(context, but="WebSocket") as opened:
        yield opened


@pytest.fixture
def node() -> Node:
    """Two streams in trouble, three that are well (one of them of another application), one that waits."""
    node = Node("ingest-1")
    node.put(
        made(1, "arena", health="bad", issues=[issue()], thumbnail=5),
        made(2, "court", health="warning", issues=[issue("gop_long", "warning", title="Keyframe interval 8 s.")]),
        made(3, "studio", players=7, thumbnail=5),
        made(4, "lecture", players=70),
        made(5, "harbour", app="cams"),
        made(6, "demo", state="waiting", health="none", since=time.time() - 6, video_kbps=None, fps=None, media={}),
    )
    return node


def names(page: Page, section: str = "") -> list[str]:
    links = page.locator(f"{section} .stream h3 a")
    return [text.partition("/")[2] for text in links.all_text_contents()]


def opened(page: Page, server: ServerProcess, wall: Wall, query: str = "") -> Wall:
    page.goto(f"{server.http}/{query}")
    expect(page.locator(".stream").first).to_be_attached()
    return wall


def card(page: Page, name: str) -> Any:
    return page.locator(f'.stream[data-stream="{name}"]')


# --- Order and filters ---


def test_the_worst_come_first_and_move_there_when_they_get_worse(page: Page, server: ServerProcess, node: Node) -> None:
    wall = opened(page, server, Wall(page, node))
    assert names(page, "#attention") == ["arena", "court"]
    assert names(page, "#well") == ["harbour", "lecture", "studio", "demo"]
    expect(page.locator("#attention .sec")).to_contain_text("2 streams, worst first")
    expect(page.locator("#well .sec")).to_contain_text("3 good, 1 waiting for media")
    expect(page.locator("[data-bad-count]").first).to_contain_text("1")
    node.put(made(4, "lecture", health="bad", issues=[issue("starving")]))
    wall.tell()
    expect(page.locator("#attention .stream")).to_have_count(3)
    assert names(page, "#attention") == ["arena", "lecture", "court"]
    expect(card(page, "live/lecture").locator(".chip")).to_have_text("Bad")
    expect(page.locator("#announce")).to_contain_text("live/lecture: Bad")
    node.streams.pop(1)
    wall.tell()
    expect(card(page, "live/arena")).to_have_count(0)
    expect(page.locator('#offline a[data-stream="live/arena"]')).to_be_visible()


def test_a_stream_in_its_first_seconds_is_checking(page: Page, server: ServerProcess, node: Node) -> None:
    node.put(made(4, "lecture", health="none", checking_s=7))
    wall = opened(page, server, Wall(page, node))
    chip = card(page, "live/lecture").locator(".chip").first
    expect(chip).to_have_text("Checking, 7 s")
    expect(page.locator("#well .sec")).to_contain_text("2 good, 1 not checked yet")
    node.put(made(4, "lecture", health="none", checking_s=6))
    wall.tell()
    expect(chip).to_have_text("Checking, 6 s")
    node.put(made(4, "lecture", checking_s=None))
    wall.tell()
    expect(chip).to_have_text("Good")


def test_filters_by_health_application_name_and_order_stay_in_the_address(
    page: Page, server: ServerProcess, node: Node
) -> None:
    opened(page, server, Wall(page, node))
    page.get_by_text("Bad", exact=False).locator("input").first.check(force=True)
    assert names(page) == ["arena"]
    page.locator('input[name=health][value=""]').check(force=True)
    page.select_option("select[name=app]", "cams")
    assert names(page) == ["harbour"]
    page.select_option("select[name=app]", "")
    page.select_option("select[name=order]", "players")
    assert names(page, "#well")[:2] == ["lecture", "studio"]
    page.fill("input[name=q]", "stu")
    assert names(page) == ["studio"]
    page.reload()
    expect(page.locator("input[name=q]")).to_have_value("stu")
    expect(card(page, "live/studio")).to_be_visible()
    assert names(page) == ["studio"]
    page.fill("input[name=q]", "nobody")
    expect(page.locator("#no-match")).to_be_visible()
    page.click("#show-all")
    assert len(names(page)) == 6
    expect(page.locator("select[name=node]")).to_be_hidden()


def test_two_nodes_have_a_filter_and_a_stream_of_both_is_its_publishers(
    page: Page, server: ServerProcess, node: Node
) -> None:
    other = Node("ingest-2")
    waiting: Any = {"state": "waiting", "health": "none", "session_id": None, "since": None}
    other.put(made(3, "studio", **waiting), made(9, "van"))
    wall = opened(page, server, Wall(page, node, other))
    expect(card(page, "live/studio")).to_have_attribute("data-state", "live")
    other.put(made(3, "studio", **waiting, players=99))
    wall.tell()
    expect(page.locator("#nodes [data-node]")).to_have_count(2)
    expect(card(page, "live/studio").locator('[data-field="players"]')).to_have_text("7")
    page.select_option("select[name=node]", "ingest-2")
    assert names(page) == ["van"]
    page.select_option("select[name=node]", "")
    node.streams.pop(3)
    wall.tell()
    expect(card(page, "live/studio")).to_have_attribute("data-state", "waiting")
    other.streams.pop(3)
    wall.tell()
    expect(card(page, "live/studio")).to_have_count(0)


# --- What a card says ---


def test_a_card_has_its_picture_and_says_how_old_it_is(page: Page, server: ServerProcess, node: Node) -> None:
    node.put(made(7, "mic", video_kbps=0.0, media={"audio_codec": "AAC"}))
    wall = opened(page, server, Wall(page, node))
    image = card(page, "live/arena").locator("img")
    expect(image).to_be_visible()
    expect(image).to_have_attribute("src", re.compile(r"/streams/live/arena/thumbnail\.webp\?v=5$"))
    expect(card(page, "live/lecture").locator("img")).to_be_hidden()
    for name, words in (("lecture", "no picture of H.264"), ("demo", "no picture yet"), ("mic", "sound only")):
        expect(card(page, f"live/{name}").locator(".tag")).to_have_text(f"live, {words}")
    node.put(made(1, "arena", health="bad", issues=[issue()], thumbnail=6, idle_ms=14_200))
    wall.tell()
    expect(image).to_have_attribute("src", re.compile(r"v=6$"))
    expect(card(page, "live/arena").locator(".tag")).to_have_text("Last picture 14\u00a0s ago")


def test_what_operators_said_stands_on_the_card(page: Page, server: ServerProcess, node: Node) -> None:
    (trouble,) = node.streams[1]["issues"]
    wall = opened(page, server, Wall(page, node))
    expect(card(page, "live/arena").locator(".why")).to_contain_text("lower the bitrate, or use wired Ethernet")
    known = {"check": "bitrate_low", "level": "bad", "since": trouble["since"]}
    wall.mark(1, muted=[{"check": "", "until": None}], acknowledged=[known])
    expect(card(page, "live/arena").locator(".marks")).to_have_text("Muted")
    expect(card(page, "live/arena").locator(".why")).to_contain_text("Acknowledged")
    wall.mark(1)
    expect(card(page, "live/arena").locator(".marks")).to_be_hidden()
    expect(card(page, "live/arena").locator(".why")).not_to_contain_text("Acknowledged")


def test_of_the_bad_ones_those_that_nobody_takes_care_of_come_first(
    page: Page, server: ServerProcess, node: Node
) -> None:
    trouble = issue("gop_long")
    node.put(
        made(1, "arena", health="bad", issues=[trouble]),
        made(2, "court", health="bad", issues=[issue()]),
        made(4, "lecture", health="bad", issues=[issue(), issue("rtt_high")]),
    )
    wall = opened(page, server, Wall(page, node))
    assert names(page, "#attention") == ["lecture", "arena", "court"]
    wall.mark(1, acknowledged=[{"check": "gop_long", "level": "bad", "since": trouble["since"]}])
    expect(card(page, "live/arena").locator(".why")).to_contain_text("Acknowledged")
    assert names(page, "#attention") == ["lecture", "court", "arena"]
    wall.mark(4, muted=[{"check": "", "until": time.time() + 600}])
    expect(card(page, "live/lecture").locator(".marks")).to_have_text("Muted")
    assert names(page, "#attention") == ["court", "arena", "lecture"]


def test_the_nodes_issues_stand_in_its_strip(page: Page, server: ServerProcess, node: Node) -> None:
    wall = opened(page, server, Wall(page, node))
    strip = page.locator('[data-node="ingest-1"]')
    expect(strip).to_have_attribute("data-health", "good")
    node.fields["issues"] = [issue("disk_free", "warning", title="8 % of the disk is free.", advice="Make room.")]
    wall.tell()
    expect(strip).to_have_attribute("data-health", "warning")
    expect(strip).to_contain_text("Make room.")
    expect(strip).not_to_contain_text("draining")
    node.fields["draining"] = True
    wall.tell()
    expect(strip).to_contain_text("ingest-1 (draining)")


def test_who_dropped_has_its_reason_and_whether_it_is_back(page: Page, server: ServerProcess, node: Node) -> None:
    now = int(time.time())
    node.put(made(3, "studio", since=float(now - 2)))
    ends = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now - ago_s)) for ago_s in (40, 700)]
    items = [
        {"id": "a", "app": "live", "name": "studio", "ended_at": ends[0], "end_reason": "tcp_reset"},
        {"id": "b", "app": "live", "name": "pop-up", "ended_at": ends[1], "end_reason": "kicked"},
    ]
    page.route("**/api/v1/sessions?*", lambda route: route.fulfill(json={"items": items, "count": len(items)}))
    wall = opened(page, server, Wall(page, node))
    wall.tell()
    strip = page.locator("#dropped")
    expect(strip.locator('[data-dropped="live/studio"]')).to_contain_text("Connection reset")
    expect(strip.locator('[data-dropped="live/studio"]')).to_contain_text("Back after 38\u00a0s")
    expect(strip.locator('[data-dropped="live/pop-up"]')).to_contain_text("Kicked by an operator")
    expect(strip.locator('[data-dropped="live/pop-up"]')).to_contain_text("Off for 11\u00a0min")


# --- What gets lost ---


def test_the_page_says_since_when_it_is_stale_and_heals_by_a_snapshot(
    page: Page, server: ServerProcess, node: Node
) -> None:
    wall = opened(page, server, Wall(page, node))
    wall.tell()
    wall.cut()
    stale = page.locator("#stale")
    expect(stale).to_be_visible()
    expect(stale).to_contain_text(re.compile(r"Stale since \d\d:\d\d:\d\d\."))
    expect(page.locator("html")).to_have_class(re.compile("stale-on"))
    node.put(made(5, "harbour", app="cams", health="bad", issues=[issue()]))
    wall.tell(lost=True)
    wall.away = False
    stale.get_by_role("button").click()
    expect(stale).to_be_hidden()
    expect(card(page, "cams/harbour")).to_have_attribute("data-health", "bad")


def test_a_page_merges_what_the_server_tells(page: Page, server: ServerProcess) -> None:
    """Random changes of two nodes, by the page's own model, against what the nodes know."""
    chance = random.Random(7)
    nodes = (Node("n1"), Node("n2"))
    texts: list[str] = []
    for second in range(60):
        for each in nodes:
            for stream in range(1, 6):
                fate = chance.random()
                if fate < 0.1:
                    each.streams.pop(stream, None)
                elif fate < 0.6:
                    state = chance.choice(("live", "waiting"))
                    health = chance.choice(("good", "bad"))
                    each.put(varied(made(stream, state=state, health=health, since=None), chance))
            texts.append(run(each.tick(100.0 + second))["text"])
    page.goto(server.http + "/login/")
    merged = page.evaluate(
        """async ([address, texts]) => {
            const { Streams } = await import(address);
            const streams = new Streams();
            for (const text of texts) streams.take(JSON.parse(text));
            return [1, 2, 3, 4, 5].map((id) => streams.get(id)).filter(Boolean);
        }""",
        [f"{server.http}/static/dashboard/js/streams.js", texts],
    )
    expected = json.loads(run(picture(nodes)))["streams"]
    fields = ("id", "node", "state", "health", "video_kbps", "fps", "players")
    assert {each["id"]: [each[name] for name in fields] for each in merged} == {
        each["id"]: [each[name] for name in fields] for each in expected
    }


# --- Keys ---


def test_keys_find_step_open_and_tell_of_themselves(page: Page, server: ServerProcess, node: Node) -> None:
    page.route("**/streams/live/arena/", lambda route: route.fulfill(content_type="text/html", body="<h1>arena</h1>"))
    opened(page, server, Wall(page, node))
    for key, name in (("j", "arena"), ("j", "court"), ("k", "arena")):
        page.keyboard.press(key)
        expect(card(page, f"live/{name}").locator("a")).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("input[name=q]")).to_be_focused()
    page.keyboard.type("jk")
    expect(page.locator("input[name=q]")).to_have_value("jk")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    keys = page.locator("#keys-help")
    expect(keys).to_be_visible()
    expect(keys).to_contain_text("Kiosk mode")
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/streams/live/arena/")


@pytest.mark.parametrize("path", ["/attempts/", "/recordings/", "/analytics/", "/system/"])
def test_every_page_tells_of_its_keys(page: Page, server: ServerProcess, path: str) -> None:
    page.goto(server.http + path)
    page.keyboard.press("?")
    expect(page.locator("#keys-help")).to_be_visible()
    expect(page.locator("#keys-help")).not_to_contain_text("Kiosk mode")


# --- The kiosk ---


def test_the_kiosk_turns_its_pages_and_stays_truthful(page: Page, server: ServerProcess) -> None:
    node = Node()
    node.put(made(100, "arena", health="bad", issues=[issue()]), *(made(stream) for stream in range(1, 41)))
    page.clock.install()
    wall = opened(page, server, Wall(page, node), "?kiosk=1")
    bar = page.locator("#kiosk-bar")
    expect(bar).to_be_visible()
    expect(bar.locator('[data-count="bad"]')).to_have_text("Bad 1")
    for hidden in (".rail", "#filters", "#offline"):
        expect(page.locator(hidden)).to_be_hidden()
    expect(bar.locator("[data-part=page]")).to_have_text(re.compile(r"^Page 1 of \d+$"))
    page.clock.run_for(13_000)
    wait_for(lambda: page.evaluate("scrollY") > 100, timeout_s=5, what="the next page is shown")
    expect(page.locator("html")).to_have_class(re.compile("idle"))
    assert page.locator("body").evaluate("body => getComputedStyle(body).cursor") == "none"
    wall.tell()
    node.put(made(1, health="bad", issues=[issue()]))
    wall.tell()
    wait_for(lambda: page.evaluate("scrollY") == 0, timeout_s=5, what="a stream that got worse is shown")
    page.clock.run_for(13_000)
    wall.cut()
    expect(page.locator("#stale")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(bar).to_be_hidden()
    expect(page.locator("#filters")).to_be_visible()
    assert "kiosk" not in page.url
    page.keyboard.press("f")
    expect(bar).to_be_visible()


# --- Small screens, many streams ---


@pytest.mark.parametrize("query", ["", "?kiosk=1"])
def test_at_320_pixels_nothing_is_cut_off_at_the_side(
    page: Page, server: ServerProcess, node: Node, query: str
) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    node.put(made(8, "a-very-long-name-of-a-stream-" * 4, health="bad", issues=[issue(title="x" * 80)]))
    opened(page, server, Wall(page, node), query)
    expect(page.locator("#attention")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 320


def test_nothing_moves_for_who_wants_less_motion(
    browser: Browser, logged_in: StorageState, server: ServerProcess
) -> None:
    calm = browser.new_context(reduced_motion="reduce", storage_state=logged_in)
    page = calm.new_page()
    node = Node()
    node.put(*(made(stream) for stream in range(1, 30)))
    wall = opened(page, server, Wall(page, node))
    wall.tell()
    page.keyboard.press("?")
    assert page.evaluate("document.getAnimations().filter((each) => each.playState === 'running').length") == 0
    calm.close()


@pytest.mark.parametrize(
    ("before_s", "seconds_s"), [(4, 4), pytest.param(70, 30, marks=pytest.mark.soak, id="until sparklines are full")]
)
def test_five_hundred_streams_are_drawn_as_far_as_they_are_seen(
    page: Page, server: ServerProcess, before_s: int, seconds_s: int
) -> None:
    """Its figures are told in docs/performance.md; here they have to be within bounds that a busy machine keeps."""
    chance = random.Random(1)
    node = Node()
    node.put(*(made(stream, thumbnail=1) for stream in range(1, 501)))
    wall = opened(page, server, Wall(page, node))
    expect(page.locator(".stream")).to_have_count(500)
    drawn = page.locator('.spark path.line[d^="M"]')
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})  # The processor's time, not the clock's.

    def seconds(count: int) -> dict[str, float]:
        for _ in range(count):
            node.put(*(varied(each, chance) for each in node.streams.values()))
            wall.tell()
            page.evaluate("() => new Promise(requestAnimationFrame)")
        session.send("HeapProfiler.collectGarbage")
        return {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}

    first = seconds(before_s)
    assert 4 <= drawn.count() <= 120
    last = seconds(seconds_s)
    assert (last["ScriptDuration"] - first["ScriptDuration"]) / seconds_s < 0.08
    assert last["JSHeapUsedSize"] - first["JSHeapUsedSize"] < 1_000_000
    assert last["Nodes"] - first["Nodes"] < 500
    expect(card(page, "live/cam-1").locator('[data-field="video_kbps"]')).to_have_text(
        f"{round(node.streams[1]['video_kbps'] or 0):,}"
    )
