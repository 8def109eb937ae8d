"""The validator of a multivariant playlist with its media playlists."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.hls.clip import FPS, clip
from tests.hls.playlist import read
from tests.hls.presentation import Presentation, Rendition

VIDEO, AUDIO = "v0.m3u8?viewer=1", "a1.m3u8?viewer=1"
MEDIA = '#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="{}",NAME="{}",DEFAULT={},AUTOSELECT=YES,CHANNELS="2",URI="a1.m3u8?viewer=1"'


def text() -> str:
    """Of the clip, and of a second rendition with its audio: here it is the same clip."""
    lines = [MEDIA.format("sound", "Main", "YES"), MEDIA.format("sound", "Other", "NO")]
    made = clip().multivariant().replace('CODECS="', 'AUDIO="sound",CODECS="')
    said = int(made.partition("BANDWIDTH=")[2].partition(",")[0])
    return made.replace(f"BANDWIDTH={said}", f"BANDWIDTH={said * 2}") + "\n".join([*lines, ""])


def rendition(other: str) -> Rendition:
    report = f'#EXT-X-RENDITION-REPORT:URI="{other}",LAST-MSN=8,LAST-PART=1\n'
    found = read(clip().playlist(42) + report)
    sizes = {segment.uri: len(clip().segment(segment.msn)) for segment in found.segments}
    return Rendition(found, clip().init, sizes, FPS)


def made(change: Callable[[str], str], of_video: Callable[[Rendition], Rendition]) -> Presentation:
    renditions = {VIDEO: of_video(rendition("a1.m3u8")), AUDIO: rendition("v0.m3u8")}
    return Presentation(read(change(text())), renditions)


def as_is(text: str) -> str:
    return text


def whole(found: Rendition) -> Rendition:
    return found


def replaced(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


def with_playlist(old: str, new: str) -> Callable[[Rendition], Rendition]:
    def change(found: Rendition) -> Rendition:
        assert old in found.playlist.text
        return replace(found, playlist=read(found.playlist.text.replace(old, new)))

    return change


def test_a_good_presentation_has_no_fault() -> None:
    assert made(as_is, whole).findings() == []


BAD: list[tuple[str, Callable[[str], str]]] = [
    ("one-kind", lambda text: text + "#EXT-X-TARGETDURATION:1\n"),
    ("variants", replaced(f"{VIDEO}\n", "")),
    ("bandwidth", replaced("BANDWIDTH=", "BANDWIDTH=1000,AVERAGE-BANDWIDTH=")),
    ("codecs", replaced(",mp4a.40.2", "")),
    ("codecs", replaced("mp4a.40.2", "mp4a.40.5")),
    ("codecs", replaced('",RESOLUTION', ',ac-3",RESOLUTION')),
    ("codecs", replaced("CODECS=", "SUPPLEMENTAL-CODECS=")),
    ("resolution", replaced("320x180", "640x360")),
    ("frame-rate", replaced("25.000", "30.000")),
    ("frame-rate", replaced("25.000", "25.0001")),
    ("groups", replaced('AUDIO="sound"', 'AUDIO="others"')),
    ("members", replaced("Other", "Main")),
    ("members", replaced("DEFAULT=NO", "DEFAULT=YES")),
    ("members", replaced("AUTOSELECT=YES", "AUTOSELECT=NO")),
    ("members", replaced('CHANNELS="2"', 'FORCED=YES,CHANNELS="2"')),
    ("members", replaced("TYPE=AUDIO", "TYPE=VIDEO")),
    ("same-members", lambda text: text + MEDIA.format("more", "Third", "NO") + "\n"),
    ("true-reports", replaced("a1.m3u8", "a2.m3u8")),
]


@pytest.mark.parametrize(("name", "change"), BAD)
def test_each_check_finds_its_bad_playlist(name: str, change: Callable[[str], str]) -> None:
    if name == "true-reports":
        change = lambda text: text.replace("a1.m3u8", "a2.m3u8")  # noqa: E731
    assert name in {finding.name for finding in made(change, whole).findings()}


BAD_RENDITIONS: list[tuple[str, Callable[[Rendition], Rendition]]] = [
    ("bandwidth", lambda found: replace(found, sizes={uri: size * 4 for uri, size in found.sizes.items()})),
    ("targets", with_playlist("TARGETDURATION:1", "TARGETDURATION:2")),
    ("controls", with_playlist("PART-HOLD-BACK=0.6", "PART-HOLD-BACK=0.8")),
    ("types", with_playlist("#EXT-X-INDEPENDENT", "#EXT-X-PLAYLIST-TYPE:EVENT\n#EXT-X-INDEPENDENT")),
    ("dated", with_playlist("#EXT-X-PROGRAM-DATE-TIME", "#IT-WAS")),
    ("all-reported", with_playlist("#EXT-X-RENDITION-REPORT", "#A-REPORT")),
    ("true-reports", with_playlist("LAST-MSN=8", "LAST-MSN=5")),
]


@pytest.mark.parametrize(("name", "change"), BAD_RENDITIONS)
def test_each_check_finds_its_bad_rendition(name: str, change: Callable[[Rendition], Rendition]) -> None:
    assert name in {finding.name for finding in made(as_is, change).findings()}


def test_every_check_has_a_bad_presentation() -> None:
    assert set(Presentation.rules()) == {name for name, _ in [*BAD, *BAD_RENDITIONS]} - {"one-kind"}


def test_reports_may_leave_out_what_is_the_same() -> None:
    found = made(as_is, with_playlist(",LAST-MSN=8,LAST-PART=1", ""))
    assert found.findings() == []


def test_peak_bandwidth_joins_short_segments_to_about_a_target_duration() -> None:
    """Short ones count together."""
    text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n" + "".join(f"#EXTINF:0.5,\n{number}\n" for number in range(4))
    one = Rendition(read(text), sizes={"0": 100, "1": 1000, "2": 1000, "3": 100})
    assert one.peak_bps() == 16_000


def test_reports_of_an_earlier_fetch_are_no_fault() -> None:
    """Who fetched one playlist later finds that it went on."""
    told = with_playlist("LAST-MSN=8", "LAST-MSN=5")
    found = made(as_is, lambda one: replace(told(one), at=-2.0))
    assert found.findings() == []
