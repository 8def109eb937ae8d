"""Secrets leave apps, names, URLs and command objects in one place, and `connect` takes little work to read."""

import sys
from types import FrameType
from typing import Any

import pytest

from ingest import credentials
from ingest.credentials import (
    LONGEST_QUERY,
    is_token,
    mask,
    may_hold_secret,
    scrub,
    scrub_text,
    scrub_url,
    split_app,
    split_play,
    split_publish,
)
from ingest.rtmp import LimitExceeded, ServerConnection, encode_message, events
from ingest.rtmp.amf import amf3
from ingest.server.asgi import Caller, read_caller
from tests.pure.rtmp.pair import SERVER_NONCE
from tests.pure.rtmp.test_conversations import AMF0, VALUES, connect
from tests.rtmpdecode import HANDSHAKE_BYTES

KEY = "rk_7Qd4abcdefghijklmnopqrstuvwxyz0"
IMPORTED = "my-old-camera-key"


@pytest.mark.parametrize(
    ("raw", "name", "credential", "query"),
    [
        ("live", "live", "", {}),
        ("live/", "live", "", {}),
        ("/live//", "live", "", {}),
        ("live/_definst_", "live", "", {}),
        ("live/_definst_/", "live", "", {}),
        ("a/b", "a/b", "", {}),
        ("", "", "", {}),
        ("?", "", "", {}),
        (f"live?key={KEY}", "live", KEY, {"key": "rk_7Qd4…"}),
        (f"live/?key={KEY}&x=1", "live", KEY, {"key": "rk_7Qd4…", "x": "1"}),
        (f"live?token={IMPORTED}", "live", IMPORTED, {"token": "my-…"}),
        (f"live?token=t&key={KEY}", "live", KEY, {"token": "…", "key": "rk_7Qd4…"}),
        ("live?authmod=adobe&user=bob&response=Tw==", "live", "", {"authmod": "adobe", "user": "…", "response": "…"}),
        ("live?key=a%2Bb%3D", "live", "a+b=", {"key": "a…"}),
        ("live?key=first&key=second", "live", "first", {"key": "f…"}),
    ],
)
def test_app_is_split_into_name_credential_and_masked_query(
    raw: str, name: str, credential: str, query: dict[str, str]
) -> None:
    found = split_app(raw)
    assert (found.name, found.credential, found.query) == (name, credential, query)


@pytest.mark.parametrize(
    ("raw", "app_credential", "name", "credential", "is_name"),
    [
        (KEY, "", "rk_7Qd4…", KEY, True),
        (IMPORTED, "", "my-…", IMPORTED, True),
        (f"{KEY}?auth=1", "", "rk_7Qd4…", KEY, True),
        (f"cam1?key={KEY}", "", "cam1", KEY, False),
        (f"cam1/?key={IMPORTED}", "", "cam1", IMPORTED, False),
        ("cam1", KEY, "cam1", KEY, False),
        (f"cam1?key={KEY}", "other", "cam1", KEY, False),
        (KEY, "token-of-the-app", "rk_7Qd4…", KEY, True),
        (IMPORTED, IMPORTED, "my-…", IMPORTED, True),
        ("", "", "", "", True),
    ],
)
def test_publish_name_is_split_into_masked_name_and_credential(
    raw: str, app_credential: str, name: str, credential: str, is_name: bool
) -> None:
    found = split_publish(raw, app_credential)
    assert (found.name, found.credential, found.credential_is_name) == (name, credential, is_name)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (f"flv:{KEY}", "flv:rk_7Qd4…"),
        (f"mp4:{KEY}.mp4", "mp4:rk_7Qd4….mp4"),
        (f"cam1/{KEY}", "cam1/rk_7Qd4…"),
        (f"/cam1/{KEY}/x", "cam1/rk_7Qd4…/x"),
        (f"cam1 {KEY}", "cam1 rk_7Qd4…"),
        ("cam1/low", "cam1/low"),
        ("cam-my-old-camera", "cam-my-old-camera"),
    ],
)
def test_a_key_anywhere_in_a_name_is_masked(raw: str, shown: str) -> None:
    assert split_play(raw, "").name == shown
    assert split_play(f"{raw}?token=abc", "").name == shown
    assert split_publish(f"{raw}?key=another", "").name == shown


def test_a_credential_that_is_repeated_in_the_names_path_is_masked() -> None:
    assert split_publish(f"cam1/{IMPORTED}?key={IMPORTED}", "").name == "cam1/my-…"
    assert split_play(f"cam1/{IMPORTED}", IMPORTED).name == "cam1/my-…"


@pytest.mark.parametrize(
    ("query", "credential", "shown"),
    [
        (f"Key={KEY}", KEY, {"Key": "rk_7Qd4…"}),
        (f"KEY={IMPORTED}", IMPORTED, {"KEY": "my-…"}),
        (f"Token=t&Key={IMPORTED}", IMPORTED, {"Token": "…", "Key": "my-…"}),
        (f"key=&KEY={IMPORTED}&Key=later", IMPORTED, {"key": "", "KEY": "my-…", "Key": "l…"}),
        (KEY, "", {"rk_7Qd4…": ""}),
        (IMPORTED, "", {"my-…": ""}),
        (f"{KEY}=1", "", {"rk_7Qd4…": "1"}),
        (f"x={KEY}", "", {"x": "rk_7Qd4…"}),
    ],
)
def test_a_query_in_whatever_form_shows_no_secret(query: str, credential: str, shown: dict[str, str]) -> None:
    app, publish, play = split_app(f"live?{query}"), split_publish(f"cam1?{query}", ""), split_play(f"cam1?{query}", "")
    assert app.query == play.query == publish.query
    assert app.credential == play.credential == credential
    assert app.query == shown


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"token={KEY}", True),
        ("x=1&Token=abc", True),
        ("key=&token=abc", True),
        (f"key={KEY}", False),
        (f"token=abc&KEY={KEY}", False),
        ("token=", False),
        ("", False),
    ],
)
def test_is_token_tells_a_token_from_a_key_in_the_query(query: str, expected: bool) -> None:
    assert is_token(split_app(f"live?{query}").query) is expected


def test_play_name_masks_a_stream_key_and_yields_the_token() -> None:
    assert split_play(KEY, "").name == "rk_7Qd4…"
    assert split_play("cam1?token=abc", "").name == "cam1"
    assert split_play("cam1?token=abc", "").credential == "abc"


@pytest.mark.parametrize("secret", ["a", "ab", "abcd", "secret", "twelve-chars", IMPORTED, KEY, "é" * 40])
def test_a_mask_never_shows_more_than_a_third(secret: str) -> None:
    shown = mask(secret).removesuffix("…")
    assert secret.startswith(shown)
    assert len(shown) <= len(secret) / 3
    assert mask(secret).endswith("…")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("rtmp://host/live", "rtmp://host/live"),
        (f"rtmp://host/live/{IMPORTED}", "rtmp://host/live"),
        (f"rtmp://host:1935/live/{IMPORTED}?x=1", "rtmp://host:1935/live?x=1"),
        (f"rtmp://host/live?key={KEY}", "rtmp://host/live?key=rk_7Qd4…"),
        (f"rtmp://host/live?a=1&TOKEN={IMPORTED}#f", "rtmp://host/live?a=1&TOKEN=my-…#f"),
        ("rtmp://bob:hunter2@host/live", "rtmp://…@host/live"),
        (f"rtmp://host/other/{KEY}", "rtmp://host/other/rk_7Qd4…"),
    ],
)
def test_url_is_reduced_to_its_app_with_secrets_masked(url: str, expected: str) -> None:
    assert scrub_url(url, "live") == expected


def test_a_command_object_is_masked_at_every_depth() -> None:
    command = {"app": f"live?key={IMPORTED}", "list": [{"deep": f"x {IMPORTED} y"}], "number": 1.0, "none": None}
    found = scrub(command, IMPORTED)
    assert IMPORTED not in repr(found)
    assert found["number"] == 1.0
    assert found["none"] is None
    value: object = KEY
    for _ in range(100):
        value = [value]
    assert KEY not in repr(scrub(value))


@pytest.mark.parametrize(
    "value",
    [
        amf3.Array([KEY], {"a": KEY}),
        amf3.Object("P", {"a": KEY, KEY: 1}),
        amf3.Dictionary([(KEY, KEY)]),
        amf3.Externalizable("flex.messaging.io.ObjectProxy", {"a": KEY}),
        amf3.Vector(amf3.Items.OBJECT, [KEY], type_name=KEY),
        amf3.Xml(KEY),
        KEY.encode(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_of_amf3_are_masked(value: object) -> None:
    assert KEY in repr(value)
    assert KEY not in repr(scrub([value]))


def test_an_encoded_secret_in_a_text_is_masked_whole_and_an_empty_one_masks_nothing() -> None:
    assert scrub_text("rtmp://host/live?key=%41bcdefghijklmnop&x=1") == "rtmp://host/live?key=…&x=1"
    assert scrub_text("plain", "") == "plain"


def test_query_over_the_longest_length_is_ignored() -> None:
    longest = f"key={KEY}&x=".ljust(LONGEST_QUERY, "y")
    assert split_app(f"live?{longest}").credential == KEY
    assert split_app(f"live?{longest}y") == split_app("live")


def test_a_text_that_comes_again_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def look(text: str, *secrets: str) -> str:
        seen.append(text)
        return scrub_text(text, *secrets)

    monkeypatch.setattr(credentials, "scrub_text", look)
    long = f"{KEY} " * 100
    found = scrub([{long: 1.0}, {long: [long]}, amf3.Xml(long)])
    assert KEY not in repr(found)
    assert seen == [long]


LOGIN = "authmod=adobe&user=bob&challenge=c35fe970&response=1nfboAiXDpvdX6/wZpK0Dg==&opaque=CHAL1=="


def test_adobe_login_fields_are_read_from_the_app_query() -> None:
    """Values come as they are: base64 has its signs."""
    found = split_app(f"live/x?{LOGIN}&nc=%30%31")
    assert found.login == {
        "authmod": "adobe",
        "user": "bob",
        "salt": "",
        "opaque": "CHAL1==",
        "nonce": "",
        "challenge": "c35fe970",
        "cnonce": "",
        "nc": "01",
        "response": "1nfboAiXDpvdX6/wZpK0Dg==",
        "app": "live/x",
    }
    assert split_app("live?user=bob&response=x").login is None


@pytest.mark.parametrize("order", [1, -1])
def test_adobe_login_fields_are_masked_in_queries_texts_and_urls(order: int) -> None:
    query = "&".join(LOGIN.split("&")[::order])
    text = scrub_text(f"rtmp://host/live?{query}")
    url = scrub_url(f"rtmp://host/live/secret-name?{query}#x", "live")
    shown = [split_app(f"live?{query}").query, text, url, scrub({"tcUrl": f"rtmp://host/live?{query}"})]
    for part in ("bob", "c35fe970", "1nfbo", "CHAL1", "secret-name"):
        assert part not in str(shown)
    assert text.count("…") == 4
    assert may_hold_secret(f"x rtmp://host/live?{query}".encode(), "")


def test_user_field_outside_an_adobe_login_is_not_masked() -> None:
    assert scrub_text("http://host/page?user=bob&response=json") == "http://host/page?user=bob&response=json"
    assert split_publish("cam1?user=bob&key=secret-key", "").query["user"] == "bob"


MOST_CALLS = 60_000
"""Of functions, Python's own included: about 20 ms."""

MOST_LOOKS = 1.5
"""How often each byte that came is looked at for secrets: once, and some more in the address and what surrounds it."""

SIZES = [1_000, 8_000, 30_000, 62_000]
"""Bytes. `Limits.command_message_bytes` is 65,536."""

SECRETS = {
    "keys": "&key=",
    "keys in code": "&key=%41",
    "users": "://@",
    "beginnings of keys": "rk_",
    "fields": "?a=%41&",
    "slashes": "/a",
}


def read(value: bytes = b"", **properties: Any) -> tuple[int, Caller]:
    """How many calls it took, and what came of it. No text may have been looked through for each reference to it."""
    server = ServerConnection(nonce=SERVER_NONCE)
    server.receive_data(b"\x03" + bytes(HANDSHAKE_BYTES - 1))
    data = encode_message(connect(value, **properties), chunk_stream_id=3, chunk_size=128)
    calls = looked_at = 0

    def called(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls, looked_at
        calls += event in ("call", "c_call")
        if event == "call" and frame.f_code is scrub_text.__code__:
            looked_at += len(frame.f_locals["text"])

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        (event,) = server.receive_data(data)
        assert isinstance(event, events.ConnectRequested)
        caller = read_caller(event)
    finally:
        sys.setprofile(before)
    assert looked_at < MOST_LOOKS * len(data)
    return calls, caller


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", VALUES | AMF0)
def test_reading_any_value_in_connect_takes_bounded_work(name: str, size: int) -> None:
    value = b"\x11" + VALUES[name](size) if name in VALUES else AMF0[name](size)
    try:
        calls, _ = read(value)
    except LimitExceeded:
        return
    assert calls < MOST_CALLS


@pytest.mark.parametrize("property_name", ["app", "tcUrl", "swfUrl", "flashVer", "other"])
@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_reading_any_text_in_connect_takes_bounded_work(text: str, property_name: str) -> None:
    properties: dict[str, Any] = {property_name: f"rtmp://host/live?{text * (60_000 // len(text))}"}
    calls, caller = read(**properties)
    assert calls < MOST_CALLS
    assert "key=%41" not in repr(caller)
