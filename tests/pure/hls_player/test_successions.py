"""The validator of a playlist that is fetched again and again."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.hls.clip import PART_S, clip
from tests.hls.playlist import read
from tests.hls.succession import Fetch, Succession

Change = Callable[[int, str], str]


def fetched(count: int, text: str, asked: tuple[int, int] | None = None) -> Fetch:
    return Fetch(read(text), count * PART_S, asked)


def good(first: int = 12, last: int = 80, *, delta: bool = True) -> list[tuple[int, str]]:
    """(parts that are there, the text): each third one is a delta update, then the whole one of the same moment."""
    found = []
    for count in range(first, last + 1):
        if delta and count % 3 == 0:
            found.append((count, clip().playlist(count, delta=True)))
        found.append((count, clip().playlist(count, ended=count == 80)))
    return found


def test_a_good_succession_has_no_fault() -> None:
    assert Succession([fetched(*each) for each in good()]).findings() == []


def test_blocking_answers_with_the_requested_part_have_no_fault() -> None:
    asked = [fetched(count, clip().playlist(count), ((count - 1) // 5, (count - 1) % 5)) for count in range(12, 40)]
    assert Succession(asked).findings() == []
    whole = [fetched(count * 5, clip().playlist(count * 5), (count - 1, -1)) for count in range(3, 8)]
    assert Succession(whole).findings() == []


def test_a_player_that_slept_finds_nothing_wrong() -> None:
    late = [fetched(12, clip().playlist(12)), fetched(79, clip().playlist(79), (2, 2))]
    assert Succession(late).findings() == []


def from_on(count: int, old: str, new: str) -> Change:
    def change(at: int, text: str) -> str:
        return text.replace(old, new) if at >= count else text

    return change


def test_every_check_has_a_bad_succession() -> None:
    assert set(Succession.rules()) == {name for name, *_ in BAD} | ALONE


ALONE = {"blocked", "goes-on", "skips", "deltas-apply"}
"""They have tests of their own."""
TYPE = "#EXT-X-TARGETDURATION:1"
BAD: list[tuple[str, Change]] = [
    ("deltas-equal", lambda _, text: text.replace("03:04:08", "03:04:09") if "SKIP:" in text else text),
    ("deltas-equal", lambda _, text: text.replace('"p12', '"q12') if "SKIP:" in text else text),
    ("never-back", from_on(70, "#EXT-X-MEDIA-SEQUENCE:5", "#EXT-X-MEDIA-SEQUENCE:4")),
    ("removed-in-order", from_on(55, "#EXT-X-MEDIA-SEQUENCE:2", "#EXT-X-MEDIA-SEQUENCE:3")),
    ("unchanged", from_on(30, "s2.m4s", "other.m4s")),
    ("unchanged", from_on(30, "p5.1.m4s", "other.m4s")),
    ("unchanged", from_on(29, '#EXT-X-PART:DURATION=0.20000,URI="p5.1.m4s"\n', "")),
    ("unchanged", from_on(28, "T03:04:09", "T03:04:10")),
    ("constants", from_on(40, TYPE, "#EXT-X-TARGETDURATION:2")),
    ("constants", from_on(40, "PART-TARGET=0.2", "PART-TARGET=0.25")),
    (
        "discontinuities",
        lambda _, text: text.replace("#EXTINF:1.00000,\ns1.", "#EXT-X-DISCONTINUITY\n#EXTINF:1.00000,\ns1."),
    ),
    ("removed-early", lambda _, text: text.replace(TYPE, "#EXT-X-TARGETDURATION:4")),
    ("event", lambda _, text: text.replace(TYPE, f"{TYPE}\n#EXT-X-PLAYLIST-TYPE:EVENT")),
    ("event", lambda _, text: text.replace(TYPE, f"{TYPE}\n#EXT-X-PLAYLIST-TYPE:VOD")),
    ("ended-for-good", lambda at, text: text + "#EXT-X-ENDLIST\n" if at == 40 else text),
    ("hints-kept", lambda at, text: text.replace('PART,URI="p8.2.', 'PART,URI="p8.3.')),
]


@pytest.mark.parametrize(("name", "change"), BAD)
def test_each_check_finds_its_bad_succession(name: str, change: Change) -> None:
    bad = [fetched(count, change(count, text)) for count, text in good()]
    assert name in {finding.name for finding in Succession(bad).findings()}


def test_delta_update_of_segments_never_listed_is_a_fault() -> None:
    found = Succession([fetched(12, clip().playlist(12)), fetched(60, clip().playlist(60, delta=True))]).findings()
    assert "deltas-apply" in {finding.name for finding in found}


def test_blocking_answer_that_came_too_early_is_a_fault() -> None:
    for asked in ((8, 2), (8, -1)):
        found = Succession([fetched(42, clip().playlist(42), asked)]).findings()
        assert [finding.name for finding in found] == ["blocked"]


def test_stalled_stream_is_a_fault_unless_the_player_was_held_up() -> None:
    late = [fetched(count, clip().playlist(count)) for count in (40, 41, 42, 43)]
    late += [Fetch(read(clip().playlist(45)), 45 * PART_S + 1)]
    assert [finding.name for finding in Succession(late).findings()] == ["goes-on"]
    late[-1] = replace(late[-1], held_up_s=1.0)
    assert Succession(late).findings() == [], "nor did the player"


def test_whole_playlist_is_a_fault_where_a_delta_update_was_due() -> None:
    for count, names in ((34, []), (60, ["skips"])):
        asked = Fetch(read(clip().playlist(count)), skip=True)
        assert [finding.name for finding in Succession([asked]).findings()] == names


def test_delta_update_of_an_ended_playlist_is_a_fault() -> None:
    fetches = [fetched(count, clip().playlist(count)) for count in (59, 60)]
    fetches.append(fetched(60, clip().playlist(60, delta=True, ended=True)))
    assert "skips" in {finding.name for finding in Succession(fetches).findings()}
