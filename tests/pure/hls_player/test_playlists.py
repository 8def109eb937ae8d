"""The rules of one media playlist: nothing against a good one, and each check finds its bad one."""

from collections.abc import Callable

import pytest

from tests.hls.clip import clip
from tests.hls.playlist import apply_delta, read
from tests.hls.playlist_rules import MediaPlaylist, Syntax, playlist_findings

GOOD_COUNTS = (0, 1, 4, 5, 12, 42, 63, 80)


@pytest.mark.parametrize("count", GOOD_COUNTS)
@pytest.mark.parametrize("delta", [False, True])
def test_good_playlists_have_no_fault(count: int, delta: bool) -> None:
    assert playlist_findings(read(clip().playlist(count, delta=delta))) == []


def test_a_good_end_has_no_fault() -> None:
    assert playlist_findings(read(clip().playlist(60, ended=True))) == []


def replaced(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


def without(beginning: str) -> Callable[[str], str]:
    """The lines that begin so."""

    def change(text: str) -> str:
        kept = [line for line in text.split("\n") if not line.startswith(beginning)]
        assert len(kept) < text.count("\n") + 1
        return "\n".join(kept)

    return change


def added(line: str) -> Callable[[str], str]:
    return lambda text: text + line + "\n"


def moved(beginning: str) -> Callable[[str], str]:
    """The first line that begins so, to the end."""

    def change(text: str) -> str:
        lines = text.split("\n")
        line = next(each for each in lines if each.startswith(beginning))
        lines.remove(line)
        return "\n".join([*lines[:-1], line, ""])

    return change


FIRST_PART = '#EXT-X-PART:DURATION=0.20000,URI="p5.0.m4s",INDEPENDENT=YES'
SECOND_PART = '#EXT-X-PART:DURATION=0.20000,URI="p5.1.m4s"'
REPORT = '#EXT-X-RENDITION-REPORT:URI="{}",LAST-MSN=8,LAST-PART=1'

BAD: list[tuple[str, Callable[[str], str]]] = [
    ("characters", lambda text: "\ufeff" + text),
    ("characters", replaced("s4.m4s", "s4\x01.m4s")),
    ("first-line", replaced("#EXTM3U\n", "\n#EXTM3U\n")),
    ("blanks", replaced("s4.m4s", "s4 a.m4s")),
    ("blanks", replaced("#EXT-X-VERSION:6", "#EXT-X-VERSION:6 ")),
    ("known-tags", added("#EXT-X-PART-INFO:PART-TARGET=0.2")),
    ("attribute-lists", replaced("CAN-BLOCK-RELOAD=YES,", "CAN-BLOCK-RELOAD=YES, ")),
    ("attribute-lists", replaced("HOLD-BACK=3.0", "HOLD-BACK=3.0,HOLD-BACK=3.0")),
    ("attribute-lists", replaced(FIRST_PART, FIRST_PART + ",")),
    ("values", replaced('URI="init.mp4"', "URI=init.mp4")),
    ("values", replaced("CAN-BLOCK-RELOAD=YES", "CAN-BLOCK-RELOAD=NO")),
    ("values", replaced("#EXT-X-TARGETDURATION:1", "#EXT-X-TARGETDURATION:1.0")),
    ("values", replaced("#EXTINF:1.00000,", "#EXTINF:1.00000")),
    ("values", replaced("03:04:05.000Z", "03:04.000Z")),
    ("required-attributes", replaced('DURATION=0.20000,URI="p5.1.m4s"', 'URI="p5.1.m4s"')),
    ("once", added("#EXT-X-TARGETDURATION:1")),
    ("target-duration", without("#EXT-X-TARGETDURATION")),
    ("target-duration", replaced("#EXT-X-TARGETDURATION:1", "#EXT-X-TARGETDURATION:0")),
    ("extinf", replaced("#EXTINF:1.00000,\n", "")),
    ("uri", replaced("s4.m4s\n", "")),
    ("within-target", replaced("#EXTINF:1.00000,", "#EXTINF:1.50000,")),
    ("version", replaced("#EXT-X-VERSION:6", "#EXT-X-VERSION:5")),
    ("version", replaced("#EXT-X-VERSION:6", "#EXT-X-VERSION:2")),
    ("numbers-first", moved("#EXT-X-MEDIA-SEQUENCE")),
    ("numbers-first", added("#EXT-X-DISCONTINUITY-SEQUENCE:0")),
    ("map", without("#EXT-X-MAP")),
    ("tags-before-parts", replaced(FIRST_PART, FIRST_PART + "\n#EXT-X-DISCONTINUITY")),
    ("part-inf", without("#EXT-X-PART-INF")),
    ("longest-part", replaced(SECOND_PART, SECOND_PART.replace("0.20000", "0.20100"))),
    ("shortest-part", replaced(SECOND_PART, SECOND_PART.replace("0.20000", "0.16000"))),
    ("parts-sum", replaced(SECOND_PART, SECOND_PART.replace("0.20000", "0.18000"))),
    ("hold-back", replaced(",HOLD-BACK=3.0", ",HOLD-BACK=2.9")),
    ("part-hold-back", replaced(",PART-HOLD-BACK=0.6", "")),
    ("part-hold-back", replaced(",PART-HOLD-BACK=0.6", ",PART-HOLD-BACK=0.39")),
    ("skip-until", replaced("CAN-SKIP-UNTIL=6.0", "CAN-SKIP-UNTIL=5.9")),
    ("skip-until", replaced("CAN-SKIP-UNTIL=6.0", "CAN-SKIP-DATERANGES=YES")),
    ("skip", replaced('#EXT-X-MAP:URI="init.mp4"', "#EXT-X-SKIP:SKIPPED-SEGMENTS=0")),
    ("ended", added("#EXT-X-ENDLIST")),
    ("hints", replaced('TYPE=PART,URI="p8.2.m4s"', 'TYPE=PART,URI="p8.1.m4s"')),
    ("reports", added(REPORT.format("http://server/a1.m3u8"))),
    ("reports", added(REPORT.format("/hls/live/demo/a1.m3u8"))),
    ("dates", replaced("03:04:07.000Z", "03:04:04.900Z")),
    ("dates", replaced("03:04:07.000Z", "03:04:07.000")),
    ("low-latency", replaced("CAN-BLOCK-RELOAD=YES,", "")),
    ("low-latency", without("#EXT-X-PRELOAD-HINT")),
    ("low-latency", without("#EXT-X-PROGRAM-DATE-TIME")),
    ("low-latency", replaced("CAN-SKIP-UNTIL=6.0,", "")),
]

BAD_UPDATES = [
    moved("#EXT-X-SKIP"),
    replaced("CAN-SKIP-UNTIL=6.0", "CAN-SKIP-UNTIL=9.0"),
    replaced("CAN-SKIP-UNTIL=6.0,", ""),
]


@pytest.mark.parametrize(("name", "change"), BAD)
def test_each_check_finds_its_bad_playlist(name: str, change: Callable[[str], str]) -> None:
    text = clip().playlist(42)
    assert name not in {finding.name for finding in playlist_findings(read(text))}
    assert name in {finding.name for finding in playlist_findings(read(change(text)))}


@pytest.mark.parametrize("change", BAD_UPDATES)
def test_bad_delta_updates(change: Callable[[str], str]) -> None:
    found = playlist_findings(read(change(clip().playlist(42, delta=True))))
    assert "skip" in {finding.name for finding in found}


def test_every_check_has_a_bad_playlist() -> None:
    names = set(Syntax.rules()) | set(MediaPlaylist.rules())
    assert names - {name for name, _ in BAD} == {"one-kind"}, "of multivariant playlists, in their tests"


EXCEPTIONS = [
    SECOND_PART.replace("0.20000", "0.16000") + ",INDEPENDENT=YES",
    SECOND_PART.replace("0.20000", "0.16000") + ",GAP=YES",
]


@pytest.mark.parametrize("line", EXCEPTIONS)
def test_independent_or_gap_part_may_be_shorter(line: str) -> None:
    text = clip().playlist(42).replace(SECOND_PART, line)
    assert "shortest-part" not in {finding.name for finding in playlist_findings(read(text))}


def test_the_last_part_of_a_segment_may_be_shorter() -> None:
    last = '#EXT-X-PART:DURATION=0.20000,URI="p5.4.m4s"'
    text = clip().playlist(42).replace(last, last.replace("0.20000", "0.05000"))
    assert "shortest-part" not in {finding.name for finding in playlist_findings(read(text))}


def test_playlist_is_read_into_segments_parts_and_hint() -> None:
    found = read(clip().playlist(42))
    assert (found.media_sequence, found.next_msn, found.last, found.hint) == (0, 8, (8, 1), "p8.2.m4s")
    assert [segment.uri for segment in found.segments] == [f"s{number}.m4s" for number in range(8)]
    assert {segment.map_uri for segment in found.all_segments} == {"init.mp4"}
    assert [len(segment.parts) for segment in found.all_segments] == [0] * 5 + [5] * 3 + [2]
    assert found.length_s == pytest.approx(8.4)


def test_applied_delta_update_equals_the_whole_playlist() -> None:
    whole, delta = (read(clip().playlist(42, delta=delta)) for delta in (False, True))
    assert delta.skipped == 1
    assert apply_delta(read(clip().playlist(41)), delta).all_segments == whole.all_segments


def test_delta_update_of_segments_never_listed_is_refused() -> None:
    with pytest.raises(ValueError, match="never listed"):
        apply_delta(read("#EXTM3U\n"), read(clip().playlist(42, delta=True)))


def test_discontinuities_count_on() -> None:
    text = clip().playlist(42)
    for msn in (2, 5):
        text = text.replace(f"#EXTINF:1.00000,\ns{msn}.", f"#EXT-X-DISCONTINUITY\n#EXTINF:1.00000,\ns{msn}.")
    found = read(text.replace("#EXT-X-MEDIA-SEQUENCE", "#EXT-X-DISCONTINUITY-SEQUENCE:7\n#EXT-X-MEDIA-SEQUENCE"))
    assert [segment.discontinuity for segment in found.all_segments] == [7, 7, 8, 8, 8, 9, 9, 9, 9]


def test_read_tells_media_from_multivariant_playlists() -> None:
    assert not read(clip().playlist(3)).is_multivariant
    assert read(clip().multivariant()).is_multivariant
