"""The wall in a browser, on made-up nodes: order, filters, keys, stale figures, who dropped, kiosk, many streams."""

import json
import random
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, StorageState, WebSocketRoute, expect

from dashboard.streams.snapshots import marks_text
from ingest.contracts import Issue, RefusedGroup, StreamSnapshot
from ingest.pages import Drop, drop
from tests import snapshots
from tests.browser import quiet
from tests.dashboard.test_wall import Node, made, picture
from tests.loops import run
from tests.server_process import ServerProcess, wait_for

pytestmark = [pytest.mark.serve, pytest.mark.browser, pytest.mark.timeout(180)]


THUMBNAIL = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="320" height="180"><rect width="320" height="180" fill="#2d6a8e"/>'
    '<path d="M60 170 110 50h100l50 120Z" fill="#3f8f64"/></svg>'
)


def issue(check: str = "bitrate_low", level: str = "bad", **fields: Any) -> Issue:
    usual = {
        "since": time.time() - 112,
        "title": "Bitrate is far below its target",
        "advice": "The uplink can’t carry this bitrate: lower the bitrate, or use wired Ethernet.",
    }
    return snapshots.issue(check, level, **(usual | fields))


def varied(snapshot: StreamSnapshot, chance: random.Random) -> StreamSnapshot:
    """The stream a second later: all figures that move on a healthy stream have moved."""
    fields = {
        "video_kbps": chance.gauss(2480, 60),
        "audio_kbps": chance.gauss(128, 1),
        "wire_kbps": chance.gauss(2650, 60),
        "out_kbps": chance.gauss(7800, 90),
        "fps": chance.gauss(30, 0.05),
        "fps_media": chance.gauss(30, 0.02),
        "open_gop_age": chance.uniform(0, 2),
        "drift": chance.gauss(12, 3),
        "drift_dev": chance.gauss(3, 1),
        "av_skew": chance.gauss(-8, 5),
        "idle_ms": chance.randrange(40),
        "rtt_ms": chance.gauss(14, 2),
        "players": max(0, snapshot["players"] + chance.choice((0, 0, 0, 1, -1))),
    }
    return snapshot | fields  # type: ignore[return-value]


def dropped(stream: StreamSnapshot, at: float, reason: str = "tcp_reset", **fields: Any) -> Drop:
    own = {"app": stream["app"], "name": stream["name"], "node": stream["node"]}
    made: Any = drop(session=stream["session_id"] or "", stream=stream["id"], at=at, reason=reason, **own)
    return cast(Drop, made | fields)


def refused(count: int, ago_s: float, over_s: float, **fields: Any) -> RefusedGroup:
    """Wrong keys of one encoder, the last one `ago_s` ago, all within `over_s`."""
    at = time.time() - ago_s
    usual = {"reason": "key_unknown", "words": "Wrong key", "app": "live", "name": "…", "address": "203.0.113.7"}
    return cast(RefusedGroup, usual | {"count": count, "since": at - over_s, "at": at} | fields)


class Wall:
    """The wall in a browser, on made-up nodes. Open the page after this is made."""

    def __init__(self, page: Page, *nodes: Node, drops: Sequence[Drop] = ()) -> None:
        self.nodes = nodes
        self.drops = drops
        self.at = time.time()
        self.sockets: list[WebSocketRoute] = []
        self.away = False
        for node in nodes:
            run(node.tick(self.at))
        page.route_web_socket("**/ws/live/", self._open)
        page.route("**/live/recent/", lambda route: route.fulfill(json={"items": {}}))
        page.route("**/thumbnail.webp*", lambda route: route.fulfill(content_type="image/svg+xml", body=THUMBNAIL))

    def _open(self, socket: WebSocketRoute) -> None:
        if self.away:
            socket.close(code=4503)
            return
        self.sockets = [socket]
        socket.send(run(picture(self.nodes, self.drops)))

    def tell(self, *, lost: bool = False) -> list[dict[str, Any]]:
        """All nodes report the next second. The messages do not arrive if they are `lost`."""
        self.at += 1
        messages = [run(node.tick(self.at)) for node in self.nodes]
        for message in [] if lost else messages:
            self.say(message["text"])
        return [json.loads(message["text"]) for message in messages]

    def mark(self, stream: int, *, muted: Iterable[Any] = (), acknowledged: Iterable[Any] = ()) -> None:
        marks = {str(stream): {"muted": list(muted), "acknowledged": list(acknowledged)}}
        nothing: dict[str, Any] = {"kind": "update", "at": self.at, "node": "", "nodes": [], "streams": [], "gone": []}
        self.say(json.dumps(nothing | {"marks": marks}))

    def say(self, text: str) -> None:
        for socket in self.sockets:
            socket.send(text)

    def cut(self) -> None:
        """The server goes away until a test sets `away` to False."""
        self.away = True
        for socket in self.sockets:
            socket.close(code=4503)


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


@pytest.mark.journey
def test_the_worst_come_first_and_move_there_when_they_get_worse(page: Page, server: ServerProcess, node: Node) -> None:
    wall = opened(page, server, Wall(page, node))
    assert names(page, "#attention") == ["arena", "court"]
    assert names(page, "#well") == ["lecture", "studio", "harbour", "demo"]
    expect(page.locator("#attention .sec")).to_contain_text("2 streams, worst first")
    expect(page.locator("#well .sec")).to_contain_text("3 good, 1 waiting for media")
    expect(page.locator("[data-bad-count]").first).to_contain_text("1")
    node.put(made(4, "lecture", health="bad", issues=[issue("starving")]))
    wall.tell()
    expect(page.locator("#attention .stream")).to_have_count(3)
    assert names(page, "#attention") == ["lecture", "arena", "court"]
    expect(card(page, "live/lecture").locator(".chip")).to_have_text("Bad")
    expect(page.locator("#announce")).to_contain_text("live/lecture: Bad")
    node.streams.pop(1)
    wall.tell()
    expect(card(page, "live/arena")).to_have_count(0)
    expect(page.locator('#offline a[data-stream="live/arena"]')).to_be_visible()


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


def test_wall_of_two_nodes_has_a_filter_by_node(page: Page, server: ServerProcess, node: Node) -> None:
    other = Node("ingest-2")
    other.put(made(9, "van"))
    opened(page, server, Wall(page, node, other))
    expect(page.locator("#nodes [data-node]")).to_have_count(2)
    page.select_option("select[name=node]", "ingest-2")
    assert names(page) == ["van"]


# --- What a card says ---


def test_a_card_has_its_picture_and_says_how_old_it_is(page: Page, server: ServerProcess, node: Node) -> None:
    wall = opened(page, server, Wall(page, node))
    image = card(page, "live/arena").locator("img")
    expect(image).to_be_visible()
    expect(image).to_have_attribute("src", re.compile(r"/streams/live/arena/thumbnail\.webp\?v=5$"))
    expect(card(page, "live/lecture").locator("img")).to_be_hidden()
    expect(card(page, "live/lecture").locator(".tag")).to_have_text("live, no picture of H.264")
    node.put(made(1, "arena", health="bad", issues=[issue()], thumbnail=6, idle_ms=14_200))
    wall.tell()
    expect(image).to_have_attribute("src", re.compile(r"v=6$"))
    expect(card(page, "live/arena").locator(".tag")).to_have_text("Last picture 14\u00a0s ago")


def test_card_of_a_pushed_stream_says_so_while_it_is_pushed(page: Page, server: ServerProcess, node: Node) -> None:
    node.put(made(7, "pushed"))
    wall = opened(page, server, Wall(page, node))
    shown = card(page, "live/pushed").locator('[data-field="pushing"]')
    expect(shown).to_be_hidden()
    node.put(node.streams[7] | {"pushing": {"live": 2, "failing": 1}})
    wall.tell()
    expect(shown).to_have_text("Pushed to 2 other servers, 1 push fails")
    node.put(node.streams[7] | {"pushing": None})
    wall.tell()
    expect(shown).to_be_hidden()


def test_wall_card_shows_silences_and_acknowledgements(page: Page, server: ServerProcess, node: Node) -> None:
    (trouble,) = node.streams[1]["issues"]
    wall = opened(page, server, Wall(page, node))
    expect(card(page, "live/arena").locator(".why")).to_contain_text("lower the bitrate, or use wired Ethernet")
    known = {"check": "bitrate_low", "level": "bad", "since": trouble["since"]}
    wall.mark(1, muted=[{"check": "", "until": None}], acknowledged=[known])
    expect(card(page, "live/arena").locator(".marks")).to_have_text("Silenced")
    expect(card(page, "live/arena").locator(".why")).to_contain_text("Acknowledged")
    wall.mark(1)
    expect(card(page, "live/arena").locator(".marks")).to_be_hidden()
    expect(card(page, "live/arena").locator(".why")).not_to_contain_text("Acknowledged")


def test_unacknowledged_bad_streams_come_before_handled_ones(page: Page, server: ServerProcess, node: Node) -> None:
    trouble = issue("gop_long")
    node.put(
        made(1, "arena", health="bad", issues=[issue()]),
        made(2, "court", health="bad", issues=[trouble]),
        made(4, "lecture", health="bad", issues=[issue(), issue("rtt_high")]),
    )
    wall = opened(page, server, Wall(page, node))
    assert names(page, "#attention") == ["lecture", "court", "arena"], "and of those, who has the more players"
    wall.mark(2, acknowledged=[{"check": "gop_long", "level": "bad", "since": trouble["since"]}])
    expect(card(page, "live/court").locator(".why")).to_contain_text("Acknowledged")
    assert names(page, "#attention") == ["lecture", "arena", "court"]


def test_wall_cards_reorder_by_players_slowly_and_not_under_the_pointer(
    page: Page, server: ServerProcess, node: Node
) -> None:
    page.clock.install()
    wall = opened(page, server, Wall(page, node))
    assert names(page, "#well") == ["lecture", "studio", "harbour", "demo"]
    node.put(made(5, "harbour", app="cams", players=50))
    wall.tell()
    expect(card(page, "cams/harbour").locator('[data-field="players"]')).to_have_text("50")
    assert names(page, "#well") == ["lecture", "studio", "harbour", "demo"]
    card(page, "cams/harbour").hover()
    page.clock.run_for(20_000)
    assert names(page, "#well") == ["lecture", "studio", "harbour", "demo"]
    page.locator("h1").hover()
    page.clock.run_for(2_000)
    assert names(page, "#well") == ["lecture", "harbour", "studio", "demo"]


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


def test_an_encoder_that_dies_is_bad_until_it_is_back(page: Page, server: ServerProcess, node: Node) -> None:
    wall = opened(page, server, Wall(page, node))
    begun = time.time()
    node.dropped.append(dropped(node.streams.pop(3), time.time()))
    wall.tell()
    studio = card(page, "live/studio")
    expect(studio).to_have_attribute("data-state", "dropped")
    assert time.time() - begun < 2
    assert names(page, "#attention") == ["studio", "arena", "court"]
    expect(studio.locator(".chip")).to_have_text("Bad")
    expect(studio.locator(".why")).to_contain_text("Dropped: connection reset. Check that the encoder is running")
    expect(page.locator("[data-bad-count]").first).to_contain_text("2")
    expect(page.locator('#by-health [data-count="bad"]')).to_have_text("2")
    expect(page).to_have_title(re.compile(r"^\(2 bad\)"))
    expect(page.locator("#announce")).to_contain_text("live/studio: Bad. Dropped: connection reset.")
    expect(page.locator('#offline a[data-stream="live/studio"]')).to_have_count(0)
    node.put(made(3, "studio", session_id="another", since=time.time() + 1, players=7))
    wall.tell()
    expect(studio).to_have_attribute("data-state", "live")
    assert names(page, "#attention") == ["arena", "court"]
    item = page.locator('#strip [data-dropped="live/studio"]')
    expect(item).to_contain_text("Dropped: connection reset")
    expect(item).to_contain_text(re.compile("Back after \\d"))


def test_earlier_drop_is_bad_on_the_wall_until_acknowledged(page: Page, server: ServerProcess, node: Node) -> None:
    now = time.time()
    van = made(20, "van")
    drops = [dropped(van, now - 7200, "idle_timeout")]
    wall = opened(page, server, Wall(page, node, drops=drops))
    assert names(page, "#attention") == ["van", "arena", "court"]
    expect(card(page, "live/van").locator(".facts")).to_contain_text("Off for2\u00a0h")
    expect(page.locator('#strip [data-dropped="live/van"]')).to_have_count(0)
    asked: list[str] = []

    def acknowledged(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(json={"detail": "Done."})

    page.route("**/acknowledge", acknowledged)
    card(page, "live/van").get_by_role("button", name="Seen").click()
    wait_for(lambda: asked, timeout_s=5, what="the end is acknowledged")
    assert asked == [f"{server.http}/sessions/{van['session_id']}/acknowledge"]
    seen: Any = dict(drops[0]) | {"seen": True}
    wall.say(marks_text(now, {}, [seen]))
    expect(card(page, "live/van")).to_have_count(0)
    expect(page.locator("[data-bad-count]").first).to_contain_text("1")


def test_intended_stop_is_shown_offline_and_not_as_a_drop(page: Page, server: ServerProcess, node: Node) -> None:
    wall = opened(page, server, Wall(page, node))
    node.streams.pop(3)
    wall.tell()
    expect(page.locator('#offline a[data-stream="live/studio"]')).to_be_visible()
    expect(page.locator("#announce")).to_contain_text("live/studio has ended.")
    assert names(page, "#attention") == ["arena", "court"]
    expect(page.locator("#strip")).to_be_hidden()


def test_refused_encoders_stand_in_the_strip_and_at_the_menu_until_they_are_seen(
    page: Page, server: ServerProcess, node: Node
) -> None:
    wall = opened(page, server, Wall(page, node))
    expect(page.locator("#strip")).to_be_hidden()
    hostile = "<img src=x onerror=alert(1)>"
    node.fields["refused"] = [
        refused(8, 5, 40),
        refused(1, 90, 0, reason="key_expired", words="Key expired", name=hostile, address="198.51.100.20"),
    ]
    wall.tell()
    items = page.locator('#strip [data-item="refused"]')
    expect(items).to_have_count(2)
    expect(items.first).to_contain_text("Wrong key")
    expect(items.first).to_contain_text("8 in 40\u00a0s, from 203.0.113.7")
    expect(items.first.locator("a")).to_have_attribute("href", "/attempts/?reason=key_unknown&address=203.0.113.7")
    expect(items.last).to_contain_text(hostile)
    badge = page.locator("[data-refused-count]").first
    expect(badge).to_contain_text("9")
    expect(page.locator("#announce")).to_contain_text("Refused: Wrong key, from 203.0.113.7.")
    page.click("#refused-seen")
    expect(items).to_have_count(0)
    expect(badge).to_be_hidden()
    node.fields["refused"].append(refused(2, 0, -2, address="192.0.2.9"))
    wall.tell()
    expect(items).to_have_count(1)
    expect(badge).to_contain_text("2")
    page.context.clear_cookies(name="refused_seen")


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


@pytest.mark.journey
def test_wall_page_model_merges_updates_to_the_state_of_the_nodes(page: Page, server: ServerProcess) -> None:
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


@pytest.mark.journey
def test_wall_shortcuts_search_step_open_and_show_help(page: Page, server: ServerProcess, node: Node) -> None:
    page.route("**/streams/live/arena/", lambda route: route.fulfill(content_type="text/html", body="<h1>arena</h1>"))
    opened(page, server, Wall(page, node))
    for key, name in (("j", "arena"), ("j", "court"), ("k", "arena")):
        page.keyboard.press(key)
        expect(card(page, f"live/{name}").locator("h3 a")).to_be_focused()
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


def pass_time(page: Page, wall: Wall, seconds: int) -> None:
    """On a page whose clock is installed: the server goes on telling."""
    for _ in range(seconds // 4):
        page.clock.run_for(4_000)
        wall.tell()


def test_kiosk_turns_pages_shows_new_trouble_and_staleness(page: Page, server: ServerProcess) -> None:
    node = Node()
    node.put(made(300, "arena", health="bad", issues=[issue()]), *(made(stream) for stream in range(1, 201)))
    page.clock.install()
    wall = opened(page, server, Wall(page, node), "?kiosk=1")
    bar = page.locator("#kiosk-bar")
    expect(bar).to_be_visible()
    expect(bar.locator('[data-count="bad"]')).to_have_text("Bad 1")
    for hidden in (".rail", "#filters", "#offline"):
        expect(page.locator(hidden)).to_be_hidden()
    turned = bar.locator("[data-part=page]")
    expect(turned).to_have_text(re.compile(r"^Page 1 of \d+$"))
    well = page.locator("#well .stream:visible h3")
    first = well.all_text_contents()
    pass_time(page, wall, 12)
    expect(turned).to_have_text(re.compile(r"^Page 2 of \d+$"))
    assert not set(first) & set(well.all_text_contents())
    expect(card(page, "live/arena")).to_be_in_viewport(ratio=1)
    expect(page.locator("html")).to_have_class(re.compile("idle"))
    assert page.locator("body").evaluate("body => getComputedStyle(body).cursor") == "none"
    wall.tell()
    node.put(made(1, health="bad", issues=[issue()]))
    wall.tell()
    expect(turned).to_have_text(re.compile("^Page 1 of"))
    expect(card(page, "live/cam-1")).to_be_in_viewport(ratio=1)
    page.clock.run_for(13_000)
    wall.cut()
    expect(page.locator("#stale")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(bar).to_be_hidden()
    expect(page.locator("#filters")).to_be_visible()
    expect(page.locator(".stream:visible")).to_have_count(201)
    assert "kiosk" not in page.url
    page.keyboard.press("f")
    expect(bar).to_be_visible()


def test_kiosk_shows_bad_streams_on_every_page_of_300_streams(page: Page, server: ServerProcess) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    node = Node()
    trouble = [made(stream, health="bad", issues=[issue()]) for stream in range(1, 5)]
    node.put(*trouble, *(made(stream) for stream in range(5, 301)))
    page.clock.install()
    wall = opened(page, server, Wall(page, node), "?kiosk=1")
    turned, well = page.locator("[data-part=page]"), page.locator("#well .stream:visible h3")
    expect(turned).to_have_text(re.compile("^Page 1 of"))
    pages = int((turned.text_content() or "").rpartition(" ")[2])
    assert pages <= 4
    seen: set[str] = set()
    for number in range(1, pages + 1):
        expect(turned).to_have_text(f"Page {number} of {pages}")
        for stream in range(1, 5):
            expect(card(page, f"live/cam-{stream}")).to_be_in_viewport(ratio=1)
        expect(well.last).to_be_in_viewport(ratio=1)
        seen |= set(well.all_text_contents())
        pass_time(page, wall, 12)
    assert len(seen) == 296
    expect(turned).to_have_text(f"Page 1 of {pages}")


def test_more_trouble_than_fits_has_the_first_pages_and_the_worst_stay(page: Page, server: ServerProcess) -> None:
    node = Node()
    node.put(
        *(made(stream, health="bad", issues=[issue()]) for stream in range(1, 4)),
        *(made(stream, health="warning", issues=[issue("rtt_high", "warning")]) for stream in range(4, 41)),
        *(made(stream) for stream in range(41, 61)),
    )
    page.clock.install()
    wall = opened(page, server, Wall(page, node), "?kiosk=1")
    turned, attention = page.locator("[data-part=page]"), page.locator("#attention .stream:visible h3")
    expect(turned).to_have_text(re.compile("^Page 1 of"))
    expect(page.locator("#kiosk-more")).to_have_text(re.compile(r"^\d+ more, page by page: \d+ warning$"))
    expect(page.locator("#well")).to_be_hidden()
    seen: set[str] = set()
    for _ in range(int((turned.text_content() or "").rpartition(" ")[2])):
        for stream in range(1, 4):
            expect(card(page, f"live/cam-{stream}")).to_be_in_viewport(ratio=1)
        expect(attention.last).to_be_in_viewport(ratio=1)
        seen |= set(attention.all_text_contents())
        pass_time(page, wall, 12)
    assert len(seen) == 40


def test_a_wall_of_4k_reads_as_one_of_1080_lines(page: Page, server: ServerProcess, node: Node) -> None:
    sizes = []
    for scale in (1, 2):
        page.set_viewport_size({"width": 1920 * scale, "height": 1080 * scale})
        opened(page, server, Wall(page, node), "?kiosk=1")
        box = card(page, "live/arena").bounding_box()
        assert box is not None
        text = card(page, "live/arena").evaluate("card => parseFloat(getComputedStyle(card).fontSize)")
        sizes.append([text / scale, box["width"] / scale, box["height"] / scale, box["x"] / scale])
    assert sizes[0] == pytest.approx(sizes[1], rel=0.02)


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


def test_wall_on_a_phone_folds_good_streams_to_names(page: Page, server: ServerProcess) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    node = Node()
    node.put(made(300, "arena", health="bad", issues=[issue()]), *(made(stream) for stream in range(1, 300)))
    wall = opened(page, server, Wall(page, node))
    name = card(page, "live/cam-39")
    expect(name).to_be_visible()
    assert names(page, "#attention") == ["arena"]
    expect(name.locator(".facts")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollHeight") < 9_000
    node.put(made(39, health="warning", issues=[issue("gop_long", "warning")]))
    wall.tell()
    expect(name.locator(".why")).to_be_visible()
    page.get_by_role("button", name="Show cards").click()
    expect(card(page, "live/cam-79").locator(".facts")).to_be_visible()
    assert "well=cards" in page.url
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("button", name="Show names").click()
    expect(card(page, "live/cam-79").locator(".facts")).to_be_hidden()
    assert "well=names" in page.url
    page.route("**/streams/live/cam-79/", lambda route: route.fulfill(content_type="text/html", body="<h1>79</h1>"))
    card(page, "live/cam-79").locator("h3 a").click()
    page.wait_for_url("**/streams/live/cam-79/")


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
