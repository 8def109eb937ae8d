"""Publishers that come again, change, jump and stall."""

import re
from datetime import datetime
from pathlib import Path
from random import Random

import pytest

from ingest.hls import HlsSettings
from tests.pure.hls.feeding import FIRST_MSN, WALL, Fed, Message, make_flv, messages_of, shifted
from tests.pure.hls.test_media import assert_same, only, read_timed, track_of
from tests.pure.hls.test_playlists import check_all, check_playlist, numbers, one


def discontinuities(text: str) -> int:
    return len(re.findall(r"^#EXT-X-DISCONTINUITY$", text, re.M))


def maps(text: str) -> list[str]:
    return re.findall(r'^#EXT-X-MAP:URI="c0ffee/(.*)"$', text, re.M)


def test_returning_publisher_begins_behind_a_discontinuity(clip: list[Message], tmp_path: Path) -> None:
    fed = Fed().begin().feed(clip).end(for_good=False)
    text = fed.text()
    assert "#EXT-X-ENDLIST" not in text
    assert one(r"^#EXT-X-MEDIA-SEQUENCE:(\d+)$", text) == FIRST_MSN
    fed.begin(WALL + 60).feed(clip, wall=WALL + 60).end()
    check_all(fed)
    text = fed.text()
    assert discontinuities(text) == 1
    assert maps(text) == ["v0-init-0.mp4"]
    found = track_of(read_timed(fed.file(tmp_path / "out.mp4")), "video")
    decoded = [packet.decoded for packet in found]
    assert decoded == sorted(decoded)
    assert len(decoded) == 2 * len([message for message in only(clip, "video")[1:] if message[2][1] == 1])
    dates = re.findall(r"DATE-TIME:(.*)$", text, re.M)
    assert dates[0] == "2027-01-15T08:00:00.000Z"
    assert "2027-01-15T08:01:00.000Z" in dates


def test_a_new_resolution_has_an_initialisation_segment_of_its_own(
    clip: list[Message], large: list[Message], tmp_path: Path
) -> None:
    fed = Fed().begin().feed(clip).feed(shifted(large, 6000), wall=WALL + 6).end()
    check_all(fed)
    assert discontinuities(fed.text()) == 1
    assert maps(fed.text()) == ["v0-init-0.mp4", "v0-init-1.mp4"]
    video = track_of(read_timed(fed.file(tmp_path / "second.mp4", init=1)), "video")
    assert len(video) == 120
    assert fed.packaging.multivariant().count("RESOLUTION=640x360") == 1


def test_a_header_that_comes_again_changes_nothing(clip: list[Message], tmp_path: Path) -> None:
    headers = [message for message in clip[:4] if message[2][1] == 0]
    assert len(headers) == 2
    again = [(kind, clip[100][1], payload) for kind, _, payload in headers]
    fed = Fed().begin().feed([*clip[:100], *again, *clip[100:]]).end()
    check_all(fed)
    assert discontinuities(fed.text()) == 0
    assert len(fed.inits["v0"]) == 1


@pytest.mark.parametrize("by_ms", [60_000, -5000])
def test_timestamps_that_jump_are_a_discontinuity(clip: list[Message], by_ms: int) -> None:
    cut = next(at for at, message in enumerate(clip) if message[1] >= 4000)
    jumped = shifted(clip[cut:], by_ms)
    fed = Fed().begin().feed(clip[:cut]).feed(jumped, wall=WALL + 4).end()
    check_all(fed)
    assert discontinuities(fed.text()) == 1
    assert sum(numbers(r"EXTINF:([\d.]+)", fed.text())) == pytest.approx(6, abs=1.1)
    dates = re.findall(r"DATE-TIME:(.*)$", fed.text(), re.M)
    assert dates == sorted(dates)


def test_timestamps_that_wrap_go_on(clip: list[Message], tmp_path: Path) -> None:
    wrapping = shifted(clip, 2**32 - 3000)
    fed = Fed().begin().feed(wrapping).end()
    check_all(fed)
    plain = Fed().begin().feed(clip).end()
    assert discontinuities(fed.text()) == 0
    assert_same(read_timed(fed.file(tmp_path / "wrap.mp4")), read_timed(plain.file(tmp_path / "plain.mp4")))


def test_a_burst_at_the_beginning_is_dated_as_if_it_had_come_in_time(clip: list[Message]) -> None:
    """A relay begins with the group of pictures so far, all at once."""
    burst = [message for message in clip if message[1] < 1500]
    fed = Fed().begin(WALL + 1.5, gop_s=1.0)
    for kind, timestamp, payload in burst:
        fed.packaging.take(kind, timestamp, payload, WALL + 1.5)
    assert not fed.packaging.is_ready
    fed.feed(clip[len(burst) :], wall=WALL + 1.5)
    assert fed.packaging.is_ready
    assert "2027-01-15T08:00:00." in re.findall(r"DATE-TIME:(.*)$", fed.text(), re.M)[0]
    assert one(r"08:00:00\.(\d+)Z", fed.text()) < 20


@pytest.mark.parametrize("drift", [0.9998, 1.0002])
def test_dates_follow_a_clock_that_drifts(clip: list[Message], drift: float) -> None:
    """200 millionths: an encoder's clock is off by 0.2 s after 17 minutes."""
    frames = [message for message in clip if message[2][1] == 1]
    fed = Fed().begin(gop_s=1.0).feed(clip)
    for turn in range(1, 170):
        for kind, timestamp, payload in frames:
            at = turn * 6000 + timestamp
            fed.packaging.take(kind, at, payload, WALL + at * drift / 1000)
        check_playlist(fed.text())
    date = datetime.fromisoformat(re.findall(r"DATE-TIME:(.*)$", fed.text(), re.M)[-1]).timestamp()
    assert date == pytest.approx(WALL + 169 * 6 * drift + 4, abs=0.02)


def test_audio_that_comes_later_joins_at_a_keyframe(clip: list[Message], tmp_path: Path) -> None:
    late = [message for message in clip if message[0] == "video" or message[1] > 3200 or message[2][1] == 0]
    late = [message for message in late if message[0] == "video" or message[2][1] == 1 or message[1] > 3000]
    header = next(message for message in clip if message[0] == "audio")
    at = next(number for number, message in enumerate(late) if message[0] == "audio")
    late.insert(at, ("audio", late[at][1], header[2]))
    fed = Fed().begin().feed(late).end()
    check_all(fed)
    text = fed.text()
    assert maps(text) == ["v0-init-0.mp4", "v0-init-1.mp4"]
    assert discontinuities(text) == 1
    second = read_timed(fed.file(tmp_path / "second.mp4", init=1))
    assert track_of(second, "audio")
    video = track_of(read_timed(fed.file(tmp_path / "first.mp4")), "video") + track_of(second, "video")
    assert len(video) == 180
    assert 'CODECS="avc1.' in fed.packaging.multivariant()
    assert ",mp4a.40.2" in fed.packaging.multivariant()


def test_video_that_comes_later_has_a_rendition_of_its_own(clip: list[Message]) -> None:
    late = [message for message in clip if message[0] == "audio" or message[1] >= 3000]
    header = next(message for message in clip if message[0] == "video")
    fed = Fed().begin().feed([*[m for m in late if m[1] < 3000], ("video", 3000, header[2])])
    fed.feed([m for m in late if m[1] >= 3000], wall=WALL + 3).end()
    check_all(fed)
    assert list(fed.packaging.renditions) == ["a0", "v0"]
    assert discontinuities(fed.text("a0")) == 1
    assert fed.packaging.multivariant().count("#EXT-X-STREAM-INF") == 1
    assert "v0.m3u8" in fed.packaging.multivariant()


def test_a_stalled_picture_breaks_no_rule(clip: list[Message]) -> None:
    """Half a second, then three, without pictures, while the sound goes on."""
    gaps = [
        message
        for message in clip
        if message[0] == "audio" or not (1100 < message[1] < 1700 or 2100 < message[1] < 5000)
    ]
    fed = Fed().begin(gop_s=1.0).feed(gaps)
    check_all(fed)
    fed.end()
    check_all(fed)
    whole = [segment for segment in fed.rendition().segments if not segment.lists_parts]
    assert [round(segment.duration, 1) for segment in whole] == [0.6]
    assert discontinuities(fed.text()) == 1
    assert "#EXT-X-INDEPENDENT-SEGMENTS" not in fed.text()


def test_overlong_gop_is_cut_into_several_segments(tmp_path: Path) -> None:
    options = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 600 -sc_threshold 0 -c:a aac -t 14"
    clip = messages_of(make_flv(tmp_path / "clip.flv", options))
    fed = Fed().begin(gop_s=2.0).feed(clip).end()
    check_all(fed)
    durations = [segment.duration for segment in fed.rendition().segments]
    assert max(durations) <= 2.45
    assert "#EXT-X-INDEPENDENT-SEGMENTS" not in fed.text()
    unknown = Fed().begin().feed(clip).end()
    check_all(unknown)
    assert "#EXT-X-INDEPENDENT-SEGMENTS" not in unknown.text()
    assert one(r"^#EXT-X-TARGETDURATION:(\d+)$", unknown.text()) == 6


def test_codecs_unknown_to_browsers_are_left_out_with_a_reason(tmp_path: Path) -> None:
    clip = messages_of(make_flv(tmp_path / "clip.flv", "-c:v flv -c:a aac -t 3"))
    fed = Fed().begin().feed(clip).end()
    check_all(fed)
    assert list(fed.packaging.renditions) == ["a0"]
    assert fed.packaging.left_out.sentences == ["Video track 1 can't be played by HLS: browsers have no H.263 in MP4."]


def test_publisher_that_leaves_while_its_start_is_gathered_ends_nothing(clip: list[Message]) -> None:
    """Sound alone comes of him before he goes, and then he comes again."""
    fed = Fed().begin(gop_s=1.0).feed(clip).end(for_good=False)
    short = [message for message in clip if message[1] < 500 and (message[0] == "audio" or message[2][1] == 0)]
    fed.begin(WALL + 10).feed(short, wall=WALL + 10).end(for_good=False)
    fed.begin(WALL + 20).feed(clip, wall=WALL + 20)
    check_all(fed)
    assert list(fed.packaging.renditions) == ["v0"]
    assert discontinuities(fed.text()) == 1


def test_uneven_frames_make_parts_that_keep_to_the_rules(clip: list[Message]) -> None:
    random = Random(7)
    uneven = [(k, at + random.randrange(10) * (k == "video" and at > 0), payload) for k, at, payload in clip]
    fed = Fed().begin(gop_s=1.0).feed(uneven).end()
    check_all(fed)
    assert 0.3 < one(r"PART-TARGET=([\d.]+)", fed.text()) < 0.345
    assert [len(segment.parts) for segment in fed.rendition().segments] == [7, 7, 7]
    assert "#EXT-X-INDEPENDENT-SEGMENTS" in fed.text()


def test_discontinuities_have_a_limit(clip: list[Message], large: list[Message]) -> None:
    """What can't be shown under the former header is left out until a minute is over."""
    fed = Fed(HlsSettings(breaks_per_minute=3)).begin(gop_s=1.0)
    for turn in range(30):
        fed.feed(shifted((clip, large)[turn % 2][:150], turn * 3000), wall=WALL + turn * 3)
    check_all(fed)
    fed.end()
    begun = [segment.start for segment in fed.found["v0"].values() if segment.is_discontinuous]
    assert len(begun) == 6, "three in each minute"


def test_codec_changed_without_a_header_is_not_offered(clip: list[Message]) -> None:
    other = [(k, at, b"\x2f" + payload[2:]) if k == "audio" else (k, at, payload) for k, at, payload in clip]
    fed = Fed().begin(gop_s=1.0).feed(clip[:150]).feed(other[150:], wall=WALL + clip[150][1] / 1000).end()
    check_all(fed)
    assert "mp4a.6B" not in fed.packaging.multivariant()


def test_initialisation_segments_have_a_limit(clip: list[Message], large: list[Message]) -> None:
    fed = Fed(HlsSettings(init_segments=2)).begin(gop_s=1.0)
    for turn in range(6):
        fed.feed(shifted((clip, large)[turn % 2][:150], turn * 3000), wall=WALL + turn * 3)
    check_all(fed)
    rendition = fed.rendition()
    assert rendition.init(0) is None
    for name in maps(fed.text()):
        assert rendition.init(int(name.removeprefix("v0-init-").removesuffix(".mp4"))) is not None
    assert one(r"DISCONTINUITY-SEQUENCE:(\d+)", fed.text()) > FIRST_MSN // 8


def test_discontinuity_sequence_is_small_and_grows_with_each_start(clip: list[Message]) -> None:
    """Players have arrays of as many (hls.js stands still on one of a billion)."""
    now = 1_795_871_544
    found = []
    for first in (now, now + 10, now + 600):
        fed = Fed(HlsSettings(), first_msn=first).begin(gop_s=1.0).feed(clip[:150])
        assert one(r"^#EXT-X-MEDIA-SEQUENCE:(\d+)$", fed.text()) == first
        found.append(one(r"DISCONTINUITY-SEQUENCE:(\d+)", fed.text()))
    assert found == sorted(set(found))
    assert max(found) < 2000
