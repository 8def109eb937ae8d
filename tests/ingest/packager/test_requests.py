"""What a path and a query name, by the public functions of `ingest.packager.requests`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.packager.requests import Directives, Target, read_directives, read_target

TOKEN = "eyJzIjoxfQ:1vOabc:sig-nature_1"


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/hls/live/demo/index.m3u8", Target("index", "live", "demo")),
        ("/hls/live/room/demo/index.m3u8", Target("index", "live", "room/demo")),
        (f"/hls/{TOKEN}/live/demo/index.m3u8", Target("index", "live", "demo", TOKEN)),
        (f"/hls/{TOKEN}/live/room/demo/state.json", Target("state", "live", "room/demo", TOKEN)),
        ("/hls/live/demo/beacon", Target("beacon", "live", "demo")),
        ("/hls/live/demo/v0.m3u8", Target("playlist", "live", "demo", rendition="v0")),
        ("/hls/live/demo/a12.m3u8", Target("playlist", "live", "demo", rendition="a12")),
        (
            "/hls/live/demo/01ab23cd/v0-1764000000.m4s",
            Target("segment", "live", "demo", rendition="v0", epoch="01ab23cd", number=1764000000),
        ),
        (
            f"/hls/{TOKEN}/live/room/demo/01ab23cd/v0-17.3.m4s",
            Target("part", "live", "room/demo", TOKEN, "v0", "01ab23cd", 17, 3),
        ),
        ("/hls/live/demo/s0.m3u8", Target("playlist", "live", "demo", rendition="s0")),
        (
            "/hls/live/demo/01ab23cd/s0-17.vtt",
            Target("segment", "live", "demo", rendition="s0", epoch="01ab23cd", number=17),
        ),
        (
            "/hls/live/demo/01ab23cd/s1-17.3.vtt",
            Target("part", "live", "demo", rendition="s1", epoch="01ab23cd", number=17, part=3),
        ),
        (
            "/hls/live/demo/01ab23cd/v0-init-2.mp4",
            Target("init", "live", "demo", rendition="v0", epoch="01ab23cd", number=2),
        ),
    ],
)
def test_a_path_names_a_file(path: str, target: Target) -> None:
    assert read_target(path) == target


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/hls/",
        "/hls/live",
        "/hls/live/index.m3u8",
        "/hls/live/demo/",
        "/hls/live//index.m3u8",
        "/hls/live/demo/other.m3u8",
        "/hls/live/demo/v0-1.m4s",  # Without an epoch.
        "/hls/live/demo/xyz/v0-1.m4s",
        "/hls/live/demo/01ab23cd/v0-1.mp4",
        "/hls/live/demo/01ab23cd/v0-init-1.m4s",
        "/hls/live/demo/01ab23cd/v0-1.vtt",
        "/hls/live/demo/01ab23cd/s0-1.m4s",
        "/hls/live/demo/01ab23cd/s0-init-0.mp4",
        "/hls/live/demo/01ab23cd/../../etc/v0-1.m4s",
        "/hls/a/b/c/d/index.m3u8",
        "/hls/live/de?mo/index.m3u8",
        "/hls/live/de\0mo/index.m3u8",  # PostgreSQL has no such text.
        "/hls/li\nve/demo/index.m3u8",
        f"/hls/{'x' * 5000}/demo/index.m3u8",
    ],
)
def test_there_is_nothing_under_other_paths(path: str) -> None:
    assert read_target(path) is None


@given(st.text(max_size=80))
def test_any_path_is_read_without_an_error(path: str) -> None:
    found = read_target(f"/hls/{path}")
    assert found is None or (found.app and found.name)


@pytest.mark.parametrize(
    ("query", "directives"),
    [
        (b"", Directives()),
        (b"viewer=ab12", Directives(viewer="ab12")),
        (b"_HLS_msn=17", Directives(17)),
        (b"viewer=ab&_HLS_msn=17&_HLS_part=0&_HLS_skip=YES", Directives(17, 0, True, "ab")),
        (b"_HLS_skip=v2", Directives(skip=True)),
        (b"_HLS_part=1", Directives(is_wrong=True)),
        (b"_HLS_msn=-1", Directives(is_wrong=True)),
        (b"_HLS_msn=one", Directives(is_wrong=True)),
        (b"_HLS_msn=1&_HLS_part=1.5", Directives(is_wrong=True)),
        (b"_HLS_msn=" + b"9" * 40, Directives(is_wrong=True)),
        (b"&".join([b"a=b"] * 100), Directives()),
    ],
)
def test_delivery_directives_are_read_from_the_query(query: bytes, directives: Directives) -> None:
    assert read_directives(query) == directives


@given(st.binary(max_size=80))
def test_any_query_is_read_without_an_error(query: bytes) -> None:
    read_directives(query)
