"""Texts that publishers send as data, as viewers get them: by WebVTT, beside what they belong to."""

import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.hls import HlsSettings
from ingest.hls.subtitles import written
from ingest.hls.texts import Cue, read_text
from ingest.rtmp.amf import amf0
from tests.hls.playlist import read
from tests.hls.presentation import Presentation, Rendition
from tests.hls.succession import Fetch, Succession
from tests.pure.hls.feeding import FIRST_MSN, WALL, Fed, Message, shifted
from tests.pure.hls.test_playlists import check_playlist, one

Shown = tuple[int, int, str]
"""From and until when, in ms of RTMP, and what."""


def text(at_ms: int, words: Any, **fields: Any) -> Message:
    return ("data", at_ms, amf0.encode("onTextData", {"text": words, **fields}))


def merged(*several: Iterable[Message]) -> list[Message]:
    return sorted((message for each in several for message in each), key=lambda message: message[1])


def ms(stamp: str) -> int:
    hours, minutes, seconds = stamp.split(":")
    return round((int(hours) * 60 + int(minutes)) * 60_000 + float(seconds) * 1000)


def cues(file: bytes) -> list[Shown]:
    """Of a WebVTT file of ours, in ms of the media."""
    head, *blocks = file.decode().split("\n\n")
    mapped = re.fullmatch(r"WEBVTT\nX-TIMESTAMP-MAP=LOCAL:([\d:.]+),MPEGTS:(\d+)", head)
    assert mapped is not None, head
    shift = int(mapped[2]) / 90 - ms(mapped[1])
    assert blocks[-1] == ""
    found = []
    for block in blocks[:-1]:
        times, *lines = block.split("\n")
        start, end = times.split(" --> ")
        found.append((round(ms(start) + shift), round(ms(end) + shift), "\n".join(lines)))
    return found


def joined(found: Iterable[Shown]) -> list[Shown]:
    """What viewers see: a cue that goes on where the one before ended with the same text is one with it."""
    seen: list[Shown] = []
    for start, end, words in found:
        if seen and seen[-1][1:] == (start, words):
            seen[-1] = (seen[-1][0], end, words)
        else:
            seen.append((start, end, words))
    return seen


def all_cues(fed: Fed, name: str = "s0") -> list[Shown]:
    return joined(cue for data in fed.kept[name].values() for cue in cues(b"".join(data)))


def assert_aligned(fed: Fed, name: str = "s0", main: str = "v0") -> None:
    """Number by number it is what the other playlist says, but for files, maps and reports."""
    said = [
        re.sub(r"\b(?:c0ffee/)?[vas]\d+(-[\d.]+)?\.(m4s|vtt|m3u8)", r"file\1", fed.text(each)) for each in (name, main)
    ]
    lines = [
        [
            line.replace(",INDEPENDENT=YES", "")
            for line in text.splitlines()
            if "MAP" not in line and "REPORT" not in line
        ]
        for text in said
    ]
    assert lines[0] == lines[1]


@pytest.fixture(scope="module")
def captioned(clip: list[Message]) -> Fed:
    texts = [text(1210, "Good morning."), text(2005, "And <welcome> & more.\nA second line."), text(4500, "")]
    return Fed(with_hook=True).begin(gop_s=1.0).feed(merged(clip, texts)).end()


def test_texts_are_shown_when_they_were_sent_to_the_millisecond(captioned: Fed) -> None:
    assert all_cues(captioned) == [
        (1210, 2005, "Good morning."),
        (2005, 4500, "And &lt;welcome&gt; &amp; more.\nA second line."),
    ]


def test_subtitle_playlist_stays_aligned_with_the_main_one(clip: list[Message]) -> None:
    fed = Fed().begin(gop_s=1.0)
    fetches: dict[str, list[Fetch]] = {"v0": [], "s0": []}
    for message in merged(clip, [text(3210, "Here.", language="en")]):
        fed.feed([message], first_ms=0)
        if "s0" in fed.packaging.renditions:
            assert_aligned(fed)
            for name, fetched in fetches.items():
                fetched.append(Fetch(read(fed.text(name))))
    fed.end()
    check_playlist(fed.text("s0"))
    assert_aligned(fed)
    for fetched in fetches.values():
        assert Succession(fetched).findings() == []
    assert re.findall(r'REPORT:URI="(\w+\.m3u8)"', fetches["v0"][-1].playlist.text) == ["s0.m3u8"]
    index = read(fed.packaging.multivariant("viewer=1"))
    listed = {f"{name}.m3u8?viewer=1": Rendition(read(fed.text(name))) for name in fetches}
    assert Presentation(index, listed).findings() == []
    (tag,) = index.group("SUBTITLES", index.variants[0][0].text("SUBTITLES"))
    assert (tag.text("NAME"), tag.text("LANGUAGE"), tag.text("URI")) == (
        "Captions (en)",
        "en",
        "s0.m3u8?viewer=1",
    )
    assert "AUTOSELECT=YES" in index.text


def test_subtitles_are_offered_only_after_the_first_text(clip: list[Message]) -> None:
    fed = Fed().begin(gop_s=1.0).feed(clip[:200])
    assert "SUBTITLES" not in fed.packaging.multivariant()
    fed.feed([text(clip[200][1], "Now.")], first_ms=0)
    assert 'SUBTITLES="subtitles"' in fed.packaging.multivariant()
    assert_aligned(fed)
    rendition = fed.rendition("s0")
    assert cues(rendition.segment(FIRST_MSN) or b"") == [], "of what was before it has no cues"


def test_each_part_is_a_file_of_its_own(clip: list[Message]) -> None:
    fed = Fed().begin(gop_s=1.0).feed(merged(clip[:200], [text(1000, "On and on.")]))
    rendition = fed.rendition("s0")
    segment = rendition.segments[0]
    parts = [cues(bytes(rendition.part(segment.msn, number) or b"")) for number in range(len(segment.parts))]
    assert [cue for part in parts for cue in part] == cues(rendition.segment(segment.msn) or b"")
    assert parts[-1] == [(round(segment.parts[-1].start * 1000), round(segment.end * 1000), "On and on.")]
    assert rendition.part(segment.msn, len(segment.parts)) is None


def test_a_text_lasts_six_seconds_at_most(clip: list[Message]) -> None:
    frames = [message for message in clip if message[2][1] == 1]
    twice = [*clip, *shifted(frames, 6000)]
    fed = Fed().begin(gop_s=1.0).feed(merged(twice, [text(1500, "Once.")])).end()
    assert all_cues(fed) == [(1500, 7500, "Once.")]


def test_texts_before_the_tracks_are_known_are_shown(clip: list[Message]) -> None:
    fed = Fed().begin().feed(merged(clip, [text(100, "Early."), text(900, "")])).end()
    assert all_cues(fed) == [(100, 900, "Early.")]


def test_a_text_that_comes_late_is_shown_from_then_on(clip: list[Message]) -> None:
    messages = [*clip[:200], text(clip[199][1] - 1000, "Late."), *clip[200:]]
    ((start, _, words),) = all_cues(Fed().begin(gop_s=1.0).feed(messages).end())
    assert clip[199][1] - 400 < start <= clip[199][1]
    assert words == "Late."


def test_text_with_a_senseless_time_is_shown_at_once(clip: list[Message]) -> None:
    later = shifted(clip, 3_600_000)
    place = 200
    messages = [*later[:place], text(0, "At zero."), *later[place:]]
    fed = Fed().begin(gop_s=1.0).feed(messages).end()
    ((start, _, words),) = all_cues(fed)
    assert words == "At zero."
    assert abs(start - clip[place - 1][1]) <= 1, "from the packaging's beginning on"


def test_text_ends_at_a_discontinuity_and_later_ones_keep_their_time(clip: list[Message], large: list[Message]) -> None:
    """No text goes on over it; what comes then has the time of what it belongs to."""
    fed = Fed().begin(gop_s=1.0).feed(merged(clip, [text(5000, "Before.")])).end(for_good=False)
    fed.begin(WALL + 8, 1.0)
    again = merged(shifted(large, 90_000), [text(91_000, "After.")])
    fed.feed(again, wall=WALL + 8)
    assert_aligned(fed)
    assert one(r"^#EXT-X-DISCONTINUITY-SEQUENCE:(\d+)$", fed.text("s0")) == one(
        r"^#EXT-X-DISCONTINUITY-SEQUENCE:(\d+)$", fed.text()
    )
    assert fed.text("s0").count("#EXT-X-DISCONTINUITY\n") == 1
    fed.end()
    before, after = all_cues(fed)
    (begun,) = [segment.start * 1000 for segment in fed.found["s0"].values() if segment.is_discontinuous]
    assert (before[0], before[2], after[2]) == (5000, "Before.", "After.")
    assert before[1] <= begun
    first_ms = next(at for kind, at, payload in again if kind == "video" and payload[1] == 1)
    assert abs(after[0] - begun - (91_000 - first_ms)) <= 1


def test_new_main_rendition_has_subtitles_of_its_own(clip: list[Message]) -> None:
    """Video comes to what was sound alone: who had its subtitles is told that they end, and there are others."""
    sound = [message for message in clip if message[0] == "audio"]
    fed = Fed().begin().feed(merged(sound, [text(2000, "Heard.")]))
    assert_aligned(fed, main="a0")
    fed.feed(merged(shifted(clip, 6000), [text(11_000, "Seen.")]), wall=WALL + 6, first_ms=6000)
    assert set(fed.packaging.renditions) >= {"v0", "s1"}
    assert_aligned(fed, "s1")
    index = read(fed.packaging.multivariant())
    assert [tag.text("URI") for tag in index.all("EXT-X-MEDIA") if tag.attributes["TYPE"] == "SUBTITLES"] == ["s1.m3u8"]


def test_text_languages_and_track_ids_make_separate_tracks(clip: list[Message]) -> None:
    texts = [
        text(1000, "One.", language="en", trackid=1.0),
        text(1100, "Eins.", language="de", trackid=2.0),
        text(1200, "Uno.", language="en", trackid=3.0),
        text(1300, "?", language='x"\n#EXT', trackid=float("nan")),
        text(1400, "Trop.", language="fr", trackid=4.0),
        text(1500, "Two.", language="en", trackid=1.0),
    ]
    fed = Fed().begin(gop_s=1.0).feed(merged(clip, texts))
    index = read(fed.packaging.multivariant())
    said = [(tag.text("NAME"), tag.text("LANGUAGE")) for tag in index.all("EXT-X-MEDIA")]
    assert said == [("Captions (en)", "en"), ("Captions (de)", "de"), ("Captions (en) 2", "en"), ("Captions", "")]
    fed.end()
    assert [words for _, _, words in all_cues(fed)] == ["One.", "Two."]
    assert [words for _, _, words in all_cues(fed, "s1")] == ["Eins."]


HOSTILE = {
    "a cue": ("a\n\n00:00.000 --> 99:00.000\nb", "a\n00:00.000 --&gt; 99:00.000\nb"),
    "markup": ("<script>&lt;", "&lt;script&gt;&amp;lt;"),
    "controls": ("a\x00\x07\x1b[0m\x85b\u2028c", "a[0m\nb\nc"),
    "halves of pairs": ("a\ud800b", "a\ufffd\ufffd\ufffdb"),
    "blanks": (" \t \r\n\r\n x \r\n ", "x"),
    "lines": ("\n".join("abcdefghijkl"), "\n".join("abcdefgh")),
    "length": ("x" * 5000, "x" * 500),
    "languages that are written from right to left": ("\u202eשלום\u202c", "\u202eשלום\u202c"),
}


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_text_is_reduced_to_one_plain_cue(clip: list[Message], words: str) -> None:
    sent, shown = HOSTILE[words]
    payload = b"\x02\x00\x0aonTextData\x03\x00\x04text\x0c"
    content = sent.encode("utf-8", "surrogatepass")
    message: Message = ("data", 1000, payload + len(content).to_bytes(4, "big") + content + b"\x00\x00\x09")
    fed = Fed().begin(gop_s=1.0).feed(merged(clip, [text(900, "."), message])).end()
    assert [words for _, _, words in all_cues(fed)] == [".", shown]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x02\x00\x0aonTextData",
        b"\x02\x00\x0aonTextData\x03",
        amf0.encode("onTextData", None),
        amf0.encode("onTextData", {"text": 5}),
        amf0.encode("onTextData", [{"text": "in a list"}]),
        amf0.encode("onTextData", {"text": "x" * 20_000}),
        amf0.encode("onMetaData", {"text": "another message"}),
        amf0.encode("onTextData", {"text": {"text": "deep"}}),
    ],
)
def test_data_without_a_text_offers_no_subtitles(clip: list[Message], payload: bytes) -> None:
    fed = Fed().begin(gop_s=1.0).feed(merged(clip, [("data", 1000, payload)]))
    assert "SUBTITLES" not in fed.packaging.multivariant()


def test_plain_string_is_shown_as_a_text(clip: list[Message]) -> None:
    fed = Fed().begin(gop_s=1.0).feed(merged(clip, [("data", 1000, amf0.encode("onTextData", "Plain."))])).end()
    assert [words for _, _, words in all_cues(fed)] == ["Plain."]


def test_texts_over_the_rate_limit_are_dropped(clip: list[Message]) -> None:
    flood = [text(2000 + number, f"{number}") for number in range(900)]
    fed = Fed(HlsSettings(texts_per_s=5)).begin(gop_s=1.0).feed(merged(clip, flood)).end()
    assert {int(words) for _, _, words in all_cues(fed)} == {0, 1, 2, 3, 4}


def test_texts_without_media_wait_in_bounds(clip: list[Message]) -> None:
    fed = Fed(HlsSettings(waiting_texts=3, texts_per_s=10**6)).begin(gop_s=1.0)
    fed.feed(text(number, f"{number}") for number in range(500))
    assert not fed.packaging.renditions
    fed.feed(shifted(clip, 500), first_ms=0).end()
    assert [words for _, _, words in all_cues(fed)][-1] == "499"


WORDS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\r<>&- :0"), max_size=60)


@given(WORDS)
def test_any_words_make_exactly_one_valid_cue(words: str) -> None:
    found = read_text(amf0.encode("onTextData", {"text": words}), HlsSettings())
    assert found is not None
    blocks = written(Cue(0, 1000, found.lines or ("-",))).split("\n\n")
    assert blocks[1:] == [""]
    times, *lines = blocks[0].split("\n")
    assert times == "00:00:00.000 --> 00:00:01.000"
    assert lines
    assert not any(each in line for line in lines for each in ("-->", "<", "\r"))


def test_whole_subtitle_segments_are_handed_on_with_the_main_ones(captioned: Fed) -> None:
    mains = [msn for name, msn in captioned.whole if name == "v0"]
    assert [msn for name, msn in captioned.whole if name == "s0"] == mains
