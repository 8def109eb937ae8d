"""What people enter of other servers: split, checked, and shown without what is secret."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from ingest.models import Application, Node
from ingest.services.relay_urls import (
    BLANKS,
    NO_APP,
    NO_HOST,
    NO_KEY,
    NO_NAME,
    NOT_RTMP,
    OURSELVES,
    PRIVATE,
    QUERY,
    USER_INFO,
    split_pull,
    split_push,
    without_secrets,
)

pytestmark = pytest.mark.django_db

YOUTUBE = "rtmp://a.rtmp.youtube.com/live2"


@pytest.mark.parametrize(
    ("url", "key", "server", "secret"),
    [
        (YOUTUBE, "abcd-1234", YOUTUBE, "abcd-1234"),
        (f"{YOUTUBE}/", " abcd-1234 ", YOUTUBE, "abcd-1234"),
        (f" {YOUTUBE}/abcd-1234 ", "", YOUTUBE, "abcd-1234"),
        (f"{YOUTUBE}/abcd-1234", "abcd-1234", YOUTUBE, "abcd-1234"),
        (
            "RTMPS://Live-API-S.facebook.com:443/rtmp/",
            "FB-1?s_bl=1&a=x/y",
            "rtmps://live-api-s.facebook.com:443/rtmp",
            "FB-1?s_bl=1&a=x/y",
        ),
        ("rtmps://example.org/app/inst/key?user=a/b", "", "rtmps://example.org/app/inst", "key?user=a/b"),
        ("rtmp://[2001:4860::1]:1936/app/key", "", "rtmp://[2001:4860::1]:1936/app", "key"),
    ],
)
def test_server_and_key_come_apart_or_as_one(url: str, key: str, server: str, secret: str) -> None:
    assert split_push(url, key) == (server, secret)


@pytest.mark.parametrize(
    ("url", "key", "field", "words"),
    [
        ("http://example.org/app", "k", "url", NOT_RTMP),
        ("a.rtmp.youtube.com/live2", "k", "url", NOT_RTMP),
        ("", "k", "url", NOT_RTMP),
        ("rtmp:///app", "k", "url", NO_HOST),
        ("rtmp://exa mple.org/app", "k", "url", BLANKS),
        ("rtmp://example.org:0/app", "k", "url", NO_HOST),
        ("rtmp://example.org:65536/app", "k", "url", NO_HOST),
        ("rtmp://example.org:/app", "k", "url", NO_HOST),
        ("rtmp://[::1/app", "k", "url", NO_HOST),
        ("rtmp://[:::1]/app", "k", "url", NO_HOST),
        ("rtmp://example.org", "k", "url", NO_APP),
        ("rtmp://example.org/app", "", "key", NO_KEY),
        ("rtmp://example.org/app", "two words", "key", BLANKS),
        ("rtmp://example.org/app", "a\x00b", "key", BLANKS),
        ("rtmp://example.org/app?x=1", "k", "url", QUERY),
        ("rtmp://user:pw@example.org/app", "k", "url", USER_INFO),
        ("rtmp://127.0.0.1/app", "k", "url", PRIVATE),
        ("rtmp://localhost/app", "k", "url", PRIVATE),
        ("rtmp://[::1]:1936/app", "k", "url", PRIVATE),
        ("rtmp://10.1.2.3/app", "k", "url", PRIVATE),
        ("rtmp://169.254.169.254/app", "k", "url", PRIVATE),
    ],
)
def test_invalid_push_target_is_refused_with_the_reason(url: str, key: str, field: str, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        split_push(url, key)
    assert refused.value.message_dict == {field: [words]}


@pytest.mark.parametrize("length", [501, 2000])
def test_push_server_or_key_that_is_too_long_is_refused(length: int) -> None:
    with pytest.raises(ValidationError, match="too long"):
        split_push(f"rtmp://example.org/{'a' * length}", "k")
    with pytest.raises(ValidationError, match="512 characters at most"):
        split_push("rtmp://example.org/app", "k" * (length + 12))


def test_private_networks_may_be_allowed(settings: Any) -> None:
    settings.RELAY_PRIVATE = True
    assert split_push("rtmp://10.1.2.3/app/key", "") == ("rtmp://10.1.2.3/app", "key")


@pytest.mark.parametrize(
    "url",
    [
        "rtmp://127.0.0.1/live/key",
        "rtmp://localhost:1935/live/key",
        "rtmps://localhost:1936/live/key",
        "rtmp://ingest.example.org/live/key",
        "rtmp://INGEST.example.org./live/inst/key",
        "rtmp://node-b.example.org:1940/live/key",
    ],
)
def test_push_target_on_this_installation_is_refused(settings: Any, url: str) -> None:
    settings.RELAY_PRIVATE = True
    settings.RTMP_ADDRESS, settings.RTMPS_ADDRESS = ("0.0.0.0", 1935), ("0.0.0.0", 1936)
    settings.RTMP_HOST = "ingest.example.org"
    Application.objects.create(name="live")
    Node.objects.create(name="b", url="rtmp://node-b.example.org:1940")
    with pytest.raises(ValidationError) as refused:
        split_push(url, "")
    assert refused.value.message_dict == {"url": [OURSELVES]}


def test_another_server_on_this_machine_is_not_ourselves(settings: Any) -> None:
    settings.RELAY_PRIVATE = True
    Application.objects.create(name="live")
    assert split_push("rtmp://127.0.0.1:1940/live/key", "")[0] == "rtmp://127.0.0.1:1940/live"
    assert split_push("rtmp://127.0.0.1/other/key", "")[0] == "rtmp://127.0.0.1/other"


@pytest.mark.parametrize(
    ("text", "url", "name", "shown"),
    [
        ("rtmp://example.org/app/cam1", "rtmp://example.org/app", "cam1", "rtmp://example.org/app/cam1"),
        (
            "rtmps://bob:hunter2@Example.org:444/app/inst/cam1?token=abcdef",
            "rtmps://bob:hunter2@example.org:444/app/inst",
            "cam1?token=abcdef",
            "rtmps://…@example.org:444/app/inst/cam1?…",
        ),
    ],
)
def test_a_source_is_shown_without_what_is_secret(text: str, url: str, name: str, shown: str) -> None:
    source = split_pull(text)
    assert (source.url, source.name, source.shown) == (url, name, shown)
    assert "hunter2" not in repr(source)
    assert "abcdef" not in repr(source)


@pytest.mark.parametrize(
    ("text", "words"),
    [("rtmp://example.org/app", NO_NAME), ("http://example.org/app/cam1", NOT_RTMP), ("rtmp://127.0.0.1/a/b", PRIVATE)],
)
def test_invalid_pull_source_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        split_pull(text)
    assert refused.value.messages == [words]


@pytest.mark.parametrize(
    ("said", "secret"),
    [
        ("Stream abcd-1234 is taken", "abcd-1234"),
        ("rtmp://host/live2/abcd-1234: no", "abcd-1234"),
        ("No such stream: FB-12345678", "FB-12345678?s_bl=1"),
        ("Bad signature s%2Fecret-of-mine", "x?sig=s/ecret-of-mine"),
        ("user bob:hunter2222", "bob:hunter2222"),
    ],
)
def test_secrets_quoted_by_another_server_are_masked(said: str, secret: str) -> None:
    masked = without_secrets(said, secret)
    assert "…" in masked
    for part in ("1234", "12345678", "ecret-of-mine", "hunter2222"):
        assert part not in masked
