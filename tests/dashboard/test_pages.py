"""What pages show, and what a strict policy, contrast and the words in two languages ask of them and of their files."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from django.utils.formats import date_format

from dashboard import vendor
from dashboard.templatetags import ui
from ingest.contracts import END_REASONS, ENDS
from ingest.models import Stream
from tests.dashboard.conftest import client_of, lacks, make_stream, make_user

PAGES = ("/", "/attempts/", "/recordings/", "/streams/live/cam-1/")


def forbidden(page: str) -> list[str]:
    """What a strict policy forbids of a page or a template: styles, handlers and scripts in the text itself."""
    inline = re.findall(r"<style|<[^<>]*\s(?:style|on[a-z]+)\s*=", page)
    scripts = re.findall(r"<script([^>]*)>", page)
    return inline + [script for script in scripts if "src=" not in script and "application/json" not in script]


def block(client: Client, path: str, name: str) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200
    (found,) = re.findall(rf'<script id="{name}" type="application/json">(.*?)</script>', answer.content.decode())
    return json.loads(found)


@pytest.mark.parametrize("path", [*PAGES, "/login/"])
def test_a_page_has_a_strict_policy_and_keeps_it(operator: Client, stream: Stream, path: str) -> None:
    answer = operator.get(path)
    policy = answer["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert lacks(policy, "default-src 'self'", "frame-ancestors 'none'") == []
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"
    assert forbidden(answer.content.decode()) == []


def test_wall_bootstrap_data_has_the_urls_of_its_script(viewer: Client, stream: Stream) -> None:
    data = block(viewer, "/", "bootstrap")
    assert data["ws"] == "/ws/live/"
    assert data["stream_url"].replace("__APP__", "live").replace("__NAME__", "cam-1") == "/streams/live/cam-1/"
    assert viewer.get(data["attempts_url"]).status_code == 200
    assert data["server"].startswith("rtmp://")


def test_the_theme_is_in_the_first_byte_of_the_page(viewer: Client) -> None:
    assert 'data-theme="dark"' not in viewer.get("/").content.decode()
    answer = viewer.post("/theme/", {"theme": "dark", "next": "/attempts/"})
    assert answer["Location"] == "/attempts/"
    assert 'data-theme="dark"' in viewer.get("/").content.decode()
    viewer.post("/theme/", {"theme": "system"})
    assert "data-theme=" not in viewer.get("/").content.decode().split(">")[1]
    viewer.cookies["theme"] = '"><script>'
    assert "data-theme=" not in viewer.get("/").content.decode().split(">")[1]


def test_the_theme_switch_leads_to_no_other_site(viewer: Client) -> None:
    assert viewer.post("/theme/", {"theme": "dark", "next": "//example.org/"})["Location"] == "/"


def test_navigation_has_what_the_role_may_open(db: None) -> None:
    make_stream("cam-1")

    def labels(client: Client) -> list[str]:
        return [item.label for item in client.get("/").context["navigation"]]

    plain = labels(client_of(make_user("viewer", name="a")))
    assert plain[:3] == ["Wall", "Sessions", "Refused connections"]
    assert "Keys" not in plain
    keeper = make_user("key manager", name="b")
    keeper.is_staff = True
    keeper.save()
    assert "Keys" in labels(client_of(keeper))


ROOT = Path(__file__).resolve().parents[2]
MAILS = {ROOT / "templates" / "reports", ROOT / "templates" / "dashboard" / "mail"}
"""They are sent, not served: what reads e-mail takes its look from style attributes alone."""
TEMPLATES = sorted(path for path in (ROOT / "templates").rglob("*.html") if MAILS.isdisjoint(path.parents))
STATIC = ROOT / "dashboard" / "static" / "dashboard"
CSS = STATIC / "css"

Tokens = dict[str, str]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_template_keeps_the_strict_policy_and_its_icons_exist(template: Path) -> None:
    text = template.read_text()
    assert forbidden(text) == []
    icons = ROOT / "templates" / ("watch" if template.parent.name == "watch" else "dashboard") / "_icons.html"
    symbols = set(re.findall(r'<symbol id="i-([a-z]+)"', icons.read_text()))
    assert set(re.findall(r'{% icon "([a-z]+)"', text)) <= symbols


def test_every_static_file_that_a_template_names_exists() -> None:
    named = {name for path in TEMPLATES for name in re.findall(r"{% static '([^']+)' %}", path.read_text())}
    own = {name for name in named if not name.startswith("vendor/")}
    assert own
    assert [name for name in own if finders.find(name) is None] == []
    assert {Path(name).name for name in named - own} <= {Path(name).name for name in vendor.FILES}


def test_every_module_that_a_script_imports_exists() -> None:
    for script in (*(STATIC / "js").glob("*.js"), *(STATIC.parent / "watch").glob("*.js")):
        for name in re.findall(r'from "(\.[^"]+)"', script.read_text()):
            assert (script.parent / name).is_file(), f"{script.name} imports {name}"


def _tokens() -> dict[str, Tokens]:
    """The light set, and the dark one as the system's choice and as the user's."""
    text = (CSS / "tokens.css").read_text()
    blocks = re.findall(r"([^{}]*)\{([^{}]*--bg:[^{}]*)\}", text)
    assert len(blocks) == 3
    names = ("light", "system dark", "chosen dark")
    return {
        name: dict(re.findall(r"(--[\w-]+):\s*([^;]+);", body)) for name, (_, body) in zip(names, blocks, strict=True)
    }


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


TEXT_PAIRS = [
    *[(text, on) for text in ("--text", "--text-2", "--text-3") for on in ("--bg", "--surface", "--sunken")],
    *[(text, "--surface") for text in ("--accent", "--good", "--warn", "--bad", "--none")],
    *[(f"--{health}", f"--{health}-tint") for health in ("good", "warn", "bad", "none")],
    ("--text", "--accent-tint"),
    ("--on-solid", "--solid"),
]
MARK_PAIRS = [
    (mark, "--surface")
    for mark in ("--line-strong", "--focus", "--good-mark", "--warn-mark", "--bad-mark", "--none-mark", "--series")
]


@pytest.mark.parametrize("theme", ["light", "system dark", "chosen dark"])
def test_theme_colours_meet_minimum_contrast(theme: str) -> None:
    tokens = _tokens()[theme]
    low = {
        pair: round(_contrast(tokens[pair[0]], tokens[pair[1]]), 2)
        for pairs, floor in ((TEXT_PAIRS, 4.5), (MARK_PAIRS, 3.0))
        for pair in pairs
        if _contrast(tokens[pair[0]], tokens[pair[1]]) < floor
    }
    assert low == {}


def test_system_dark_and_chosen_dark_have_equal_colours() -> None:
    tokens = _tokens()
    assert tokens["system dark"] == tokens["chosen dark"]


def test_every_end_reason_has_words_in_templates_and_in_scripts() -> None:
    script = (STATIC / "js" / "events.js").read_text()
    assert set(END_REASONS) == set(ENDS)
    of_players = {reason: end.player_words for reason, end in ENDS.items() if end.player_words}
    for name, words in (
        ("END_WORDS", {reason: end.words for reason, end in ENDS.items()}),
        ("PLAYER_END_WORDS", of_players),
    ):
        table = re.search(rf"const {name} = \{{(.*?)\}};", script, re.DOTALL)
        assert table is not None
        assert dict(re.findall(r'(\w+): "([^"]+)"', table.group(1))) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0\u00a0s"),
        (59.4, "59\u00a0s"),
        (60, "1\u00a0min 0\u00a0s"),
        (3599, "59\u00a0min 59\u00a0s"),
        (5909, "1\u00a0h 38\u00a0min"),
        (6 * 86400 + 4 * 3600 + 1, "6\u00a0d 4\u00a0h"),
        (-5, "0\u00a0s"),
    ],
)
def test_a_length_of_time_in_words(seconds: float, words: str) -> None:
    start = datetime(2026, 11, 14, tzinfo=UTC)
    assert ui.lasted(start, start + timedelta(seconds=seconds)) == words


def test_a_time_in_the_admin_is_short_and_says_its_zone() -> None:
    assert date_format(datetime(2026, 11, 14, 20, 54, tzinfo=UTC), "DATETIME_FORMAT") == "2026-11-14 20:54Z"


def test_reason_code_is_shown_in_words_and_other_text_unchanged() -> None:
    assert ui.reason_words("key_unknown") == "Wrong key"
    assert ui.reason_words("The stream key is not known.") == "The stream key is not known."


def test_icon_escapes_its_arguments() -> None:
    assert '"><script>' not in ui.icon('"><script>', '"><script>')


def test_the_lock_file_names_no_registry_and_pins_everything() -> None:
    lock = json.loads((ROOT / "package-lock.json").read_text())
    wanted = json.loads((ROOT / "package.json").read_text())["dependencies"]
    assert "://" not in (ROOT / "package-lock.json").read_text()
    for name, version in wanted.items():
        package = lock["packages"][f"node_modules/{name}"]
        assert package["version"] == version
        assert package["integrity"].startswith("sha512-")


def test_vendor_copies_what_has_changed_and_nothing_else(tmp_path: Path) -> None:
    modules, target = tmp_path / "node_modules", tmp_path / "vendor"
    for name in vendor.FILES:
        (modules / name).parent.mkdir(parents=True, exist_ok=True)
        (modules / name).write_text(name)
    assert vendor.copy(modules, target) == [target / Path(name).name for name in vendor.FILES]
    assert vendor.copy(modules, target) == []
    (modules / vendor.FILES[0]).write_text("newer")
    assert vendor.copy(modules, target) == [target / Path(vendor.FILES[0]).name]
    assert (target / Path(vendor.FILES[0]).name).read_text() == "newer"


def test_vendor_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=Path(vendor.FILES[0]).name):
        vendor.copy(tmp_path / "node_modules", tmp_path / "vendor")
