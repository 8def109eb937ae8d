"""What names may look like, what is kept of any text, what counts as one address, and whose it is."""

import sys
from ipaddress import ip_network
from unicodedata import category

import pytest
from django.core.exceptions import ValidationError

from ingest import clean
from ingest.addresses import client_of, unit, unit_or_itself
from ingest.models.names import instance_of, is_stream_name, name_within, validate_stream_name

UNSEEN = [chr(code) for code in range(sys.maxunicode + 1) if category(chr(code)) == "Cf"]


@pytest.mark.parametrize("name", ["cam1", "cam.1", "mira@home", "名前", "Кам1", "it's", "a:b,c=d", "🎥", "é"])
def test_valid_stream_names_are_accepted(name: str) -> None:
    validate_stream_name(name)


@pytest.mark.parametrize(("whole", "parts"), [("room/cam1", ("room", "cam1")), ("cam1", ("", "cam1")), ("", ("", ""))])
def test_a_name_has_an_instance_and_what_it_is_called_within(whole: str, parts: tuple[str, str]) -> None:
    assert (instance_of(whole), name_within(whole)) == parts


def test_stream_name_with_invisible_characters_is_refused() -> None:
    assert "\u202e" in UNSEEN
    assert [sign for sign in UNSEEN if is_stream_name(f"cam{sign}1")] == []
    with pytest.raises(ValidationError, match="that can be seen"):
        validate_stream_name("gpj.\u202emac")


def test_text_is_bounded_and_fit_for_rows_and_lines() -> None:
    assert clean.text("OBS 30", 255) == "OBS 30"
    assert clean.text("a\x00b\nc\x9bd\ud800", 255) == "a\ufffdb\ufffdc\ufffdd\ufffd"
    assert clean.text("8\u00a0s für Кам1 🎥", 255) == "8\u00a0s für Кам1 🎥"
    assert clean.text("x" * 300, 255) == "x" * 255
    assert clean.text("a\u202eb\u200bc\ufeffd\u2028e\u2066f\u00adg", 255) == "\ufffd".join("abcdefg")
    assert clean.text("می\u200cخواهم 👩\u200d💻", 255) == "می\u200cخواهم 👩\u200d💻"
    assert clean.text(None, 10) == "None"


def test_values_become_json() -> None:
    given = {"n": 1.5, "inf": float("inf"), "yes": True, "none": None, "list": [1, "a\x00"], 7: object}
    found = clean.jsonable(given)
    assert found["n"] == 1.5
    assert found["inf"] is None
    assert found["list"] == [1, "a\ufffd"]
    assert isinstance(found["7"], str)


def test_values_are_bounded() -> None:
    assert len(clean.jsonable(list(range(1000)))) == clean.MAX_ITEMS
    assert len(clean.jsonable({str(n): n for n in range(1000)})) == clean.MAX_ITEMS
    assert len(clean.jsonable("x" * 1000)) == clean.MAX_TEXT
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert clean.jsonable(deep) == [[[[None]]]]


PROXIES = [ip_network("10.0.0.0/8"), ip_network("2001:db8::/48")]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_address_unit_is_the_ipv4_address_or_the_ipv6_64_network(address: str, expected: str) -> None:
    assert unit(address) == expected


@pytest.mark.parametrize("text", ["", "unix:", "192.0.2"])
def test_text_that_is_no_address_is_its_own_unit(text: str) -> None:
    assert unit_or_itself(text) == text
    with pytest.raises(ValueError, match="address"):
        unit(text)


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", ["192.0.2.7, 10.0.0.2"], "192.0.2.7"),
        ("10.0.0.1", ["198.51.100.9, 192.0.2.7,10.0.0.2"], "192.0.2.7"),
        ("10.0.0.1", ["192.0.2.7", "198.51.100.9"], "198.51.100.9"),
        ("2001:db8::5", ["2001:DB8:1::7"], "2001:db8:1::7"),
        ("::ffff:10.0.0.1", ["::ffff:192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", ["rubbish, 192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", ["192.0.2.7, rubbish"], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.7,"], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.7:4711"], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("192.0.2.7", ["198.51.100.9"], "192.0.2.7"),
        ("", ["198.51.100.9"], ""),
    ],
)
def test_client_address_is_read_only_from_trusted_proxies(peer: str, forwarded: list[str], client: str) -> None:
    assert client_of(peer, forwarded, PROXIES) == client
    assert client_of(peer, forwarded, []) == peer
