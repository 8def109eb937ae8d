"""What playlists say as a stream goes on, and what can be had of it."""

import re
from itertools import pairwise

import pytest

from ingest.hls import HlsSettings
from tests.pure.hls.feeding import FIRST_MSN, WALL, Fed, Message, shifted


def numbers(pattern: str, text: str) -> list[float]:
    return [float(each) for each in re.findall(pattern, text, re.MULTILINE)]


def one(pattern: str, text: str) -> float:
    (found,) = numbers(pattern, text)
    return found


def parts_of(text: str) -> list[list[tuple[float, bool]]]:
    """Duration and independence of each part, by segments, of those that are listed."""
    found: list[list[tuple[float, bool]]] = [[]]
    for line in text.splitlines():
        if line.startswith("#EXT-X-PART:"):
            found[-1].append((float(line.split("DURATION=")[1].split(",")[0]), "INDEPENDENT=YES" in line))
        elif line.startswith("#EXTINF"):
            found.append([])
    return found


def check_playlist(text: str) -> None:
    """What has to hold of any playlist of ours."""
    assert text.startswith(f"#EXTM3U\n#EXT-X-VERSION:{9 if '#EXT-X-SKIP' in text else 6}\n")
    assert text.endswith("\n")
    target = one(r"^#EXT-X-TARGETDURATION:(\d+)$", text)
    durations = numbers(r"^#EXTINF:([\d.]+),$", text)
    assert all(int(duration + 0.5) <= target for duration in durations), (target, durations)
    part_target = one(r"^#EXT-X-PART-INF:PART-TARGET=([\d.]+)$", text)
    listed = parts_of(text)
    for number, parts in enumerate(listed):
        is_open = number == len(listed) - 1 and "#EXT-X-ENDLIST" not in text
        for at, (duration, _) in enumerate(parts):
            assert duration <= part_target + 0.0005
            is_last = at == len(parts) - 1 and not is_open
            assert is_last or duration >= 0.85 * part_target, (duration, part_target)
    hold = re.search(r"^#EXT-X-SERVER-CONTROL:.*PART-HOLD-BACK=([\d.]+),HOLD-BACK=(\d+)", text, re.M)
    assert hold is not None
    assert float(hold[1]) >= 3 * part_target - 0.001
    assert float(hold[2]) >= 3 * target
    assert one(r"CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=(\d+)", text) >= 6 * target
    dates = re.findall(r"^#EXT-X-PROGRAM-DATE-TIME:(.*)$", text, re.M)
    assert dates == sorted(dates)
    assert len(dates) == len(durations) + (listed[-1] != [])
    assert ("#EXT-X-ENDLIST" in text) != ("#EXT-X-PRELOAD-HINT:TYPE=PART" in text)


def check_all(fed: Fed) -> None:
    for name, rendition in fed.packaging.renditions.items():
        check_playlist(rendition.playlist())
        for segment in rendition.segments:
            data = rendition.segment(segment.msn)
            if data is not None and segment.lists_parts:
                parts = [rendition.part(segment.msn, number) for number in range(len(segment.parts))]
                assert data == b"".join(part or b"" for part in parts), name
        for before, after in pairwise(rendition.segments):
            assert after.msn == before.msn + 1
            assert after.start >= before.start


TURN_S = 6


def fed_for(clip: list[Message], turns: int, fed: Fed | None = None) -> Fed:
    """The clip over and over, without a break."""
    fed = (fed or Fed()).begin(gop_s=1.0)
    frames = [message for message in clip if message[2][1] == 1]
    fed.feed(clip)
    for turn in range(1, turns):
        fed.feed(shifted(frames, turn * TURN_S * 1000), wall=WALL + turn * TURN_S, first_ms=turn * TURN_S * 1000)
    return fed


def msns(text: str) -> list[int]:
    return [int(msn) for msn in re.findall(r"^c0ffee/v0-(\d+)\.m4s$", text, re.M)]


def merged(before: str, delta: str) -> list[str]:
    """The playlist that a player has after a delta update: lines of segments, from the former one where left out."""
    skipped = int(one(r"^#EXT-X-SKIP:SKIPPED-SEGMENTS=(\d+)$", delta))
    first = int(one(r"^#EXT-X-MEDIA-SEQUENCE:(\d+)$", delta))
    known = dict(zip(msns(before), numbers(r"^#EXTINF:([\d.]+)", before), strict=True))
    told = dict(zip(range(first + skipped, first + skipped + 1000), numbers(r"^#EXTINF:([\d.]+)", delta), strict=False))
    return [f"{msn} {({**known, **told})[msn]}" for msn in range(first, first + skipped + len(told))]


def test_the_window_slides(clip: list[Message]) -> None:
    fed = fed_for(clip, 20)
    check_all(fed)
    text = fed.text()
    assert sum(numbers(r"EXTINF:([\d.]+)", text)) == pytest.approx(30, abs=2.1)
    first = int(one(r"^#EXT-X-MEDIA-SEQUENCE:(\d+)$", text))
    assert msns(text) == list(range(first, first + len(msns(text))))
    rendition = fed.rendition()
    assert rendition.segment(first) is not None
    assert rendition.segment(first - 16) is not None, "it left the playlist as long ago as that lasts, and a segment"
    assert rendition.segment(first - 17) is None
    assert rendition.segment(rendition.last_msn + 1) is None
    assert rendition.bytes == sum(len(b"".join(fed.kept["v0"][msn])) for msn in fed.kept["v0"] if msn >= first - 16) + (
        sum(part.size for part in rendition.open.parts) if rendition.open else 0
    )


def test_parts_are_listed_near_the_end_alone(clip: list[Message]) -> None:
    text = fed_for(clip, 5).text()
    listed = parts_of(text)
    target = one(r"^#EXT-X-TARGETDURATION:(\d+)$", text)
    with_parts = [number for number, parts in enumerate(listed) if parts]
    assert with_parts[0] > len(listed) - 6
    durations = numbers(r"EXTINF:([\d.]+)", text)
    behind = sum(durations[with_parts[0] :]) + sum(duration for duration, _ in listed[-1])
    assert behind <= 3 * target + 0.001
    assert all(parts[0][1] for parts in listed if parts), "each segment's first part is independent"


def test_a_delta_update_leaves_out_what_players_know(clip: list[Message]) -> None:
    fed = fed_for(clip, 5)
    full, delta = fed.text(), fed.text(skip=True)
    assert one(r"CAN-SKIP-UNTIL=(\d+)", full) == 12
    check_playlist(full)
    assert "#EXT-X-SKIP" not in full
    assert len(delta) < len(full)
    assert merged(full, delta) == [
        f"{msn} {each}" for msn, each in zip(msns(full), numbers(r"EXTINF:([\d.]+)", full), strict=True)
    ]
    kept = sum(numbers(r"EXTINF:([\d.]+)", delta)) + sum(duration for duration, _ in parts_of(delta)[-1])
    assert kept >= 12
    short = fed_for(clip, 1)
    assert short.text(skip=True) == short.text()


def test_playlist_text_is_made_once_per_change(clip: list[Message]) -> None:
    fed = Fed().begin(gop_s=1.0).feed(clip[:150])
    assert fed.text() is fed.text()
    before, changes = fed.text(), len(fed.changes)
    fed.feed(clip[150:200], wall=WALL + clip[150][1] / 1000)
    assert len(fed.changes) > changes
    assert fed.text() != before


def test_blocking_request_target_is_present_awaited_or_too_far(clip: list[Message]) -> None:
    fed = Fed().begin(gop_s=1.0).feed([message for message in clip if message[1] < 3000])
    rendition = fed.rendition()
    newest, part = rendition.last_msn, rendition.last_part
    assert (newest, part) == (FIRST_MSN + 1, 2)
    assert rendition.has(FIRST_MSN)
    assert rendition.has(newest, 2)
    assert not rendition.has(newest, 3)
    assert not rendition.has(newest)
    assert rendition.has(FIRST_MSN, 6)
    assert rendition.has(FIRST_MSN, 7), "as the first part of the next one"
    assert not rendition.is_too_far(newest + 1, 0)
    assert rendition.is_too_far(newest + 2)
    assert rendition.is_too_far(newest + 1, 4)
    assert not rendition.is_too_far(newest, 9), "as many as its segment can have"
    assert rendition.is_too_far(newest, 10)
    hinted = re.findall(r'PRELOAD-HINT:TYPE=PART,URI="c0ffee/v0-(\d+)\.(\d+)\.m4s"', fed.text())
    assert hinted == [(str(newest), "3")]
    assert rendition.part(newest, 3) is None
    assert rendition.part(newest, 2) is not None
    assert rendition.awaits(newest, 3)
    assert rendition.awaits(newest + 1, 0)
    assert not rendition.awaits(newest, 2)
    assert not rendition.awaits(FIRST_MSN, 9), "its segment has ended"
    fed.end()
    assert not rendition.awaits(newest + 1, 0)
    assert rendition.has(newest + 5)
    assert rendition.is_ended
    assert fed.text().endswith("#EXT-X-ENDLIST\n")


def test_every_hint_comes_true(clip: list[Message]) -> None:
    fed = Fed().begin(gop_s=1.0)
    hinted: list[tuple[int, int]] = []
    seen = len(fed.changes)
    for number, message in enumerate(clip):
        fed.feed(clip[number : number + 1], wall=WALL + message[1] / 1000)
        if len(fed.changes) > seen and fed.packaging.is_ready:
            seen = len(fed.changes)
            msn, part = re.findall(r'HINT:TYPE=PART,URI="c0ffee/v0-(\d+)\.(\d+)\.m4s"', fed.text())[0]
            hinted.append((int(msn), int(part)))
    fed.end()
    rendition = fed.rendition()
    assert len(hinted) > 15
    assert all(rendition.part(*each) for each in hinted[:-1])


def test_listed_segments_and_parts_never_change(clip: list[Message]) -> None:
    """Of what was listed, nothing but the first segments and old parts goes."""
    fed = Fed(HlsSettings(window_s=8)).begin(gop_s=1.0)
    lines: dict[str, str] = {}
    targets = set()
    frames = [message for message in clip if message[2][1] == 1]
    fed.feed(clip[:2])
    for turn in range(5):
        for number, message in enumerate(frames):
            wall = WALL + turn * TURN_S + message[1] / 1000
            fed.feed(shifted(frames[number : number + 1], turn * TURN_S * 1000), wall=wall)
            if not fed.packaging.is_ready:
                continue
            text = fed.text().splitlines()
            targets.add(text[2])
            for before, uri in pairwise(text):
                if uri.startswith("c0ffee/"):
                    assert lines.setdefault(uri, before) == before
                if before.startswith("#EXT-X-PART:"):
                    assert lines.setdefault(before.split('"')[1], before) == before
    assert len(targets) == 1
    assert len(lines) > 100


def test_rewind_window_lists_segments_that_left_memory(clip: list[Message]) -> None:
    fed = fed_for(clip, 12, Fed(HlsSettings(rewind_s=60), with_hook=True))
    text = fed.text()
    assert sum(numbers(r"EXTINF:([\d.]+)", text)) == pytest.approx(60, abs=2.1)
    rendition = fed.rendition()
    listed = msns(text)
    assert [("v0", msn) for msn in listed] == fed.whole[-len(listed) :]
    assert rendition.segment(listed[0]) is None
    found = rendition.find(listed[0])
    assert found is not None
    assert not found.is_in_memory
    assert rendition.segment(listed[-10]) is not None
    assert rendition.bytes < 2 * sum(len(b"".join(fed.kept["v0"][msn])) for msn in listed[-16:])


def test_memory_has_a_limit(clip: list[Message]) -> None:
    most = 600_000
    fed = fed_for(clip, 4, Fed(HlsSettings(memory_bytes=most)))
    check_all(fed)
    assert fed.rendition().bytes <= most
    assert one(r"^#EXT-X-MEDIA-SEQUENCE:(\d+)$", fed.text()) > FIRST_MSN


def test_parts_and_segments_have_limits_of_bytes(clip: list[Message]) -> None:
    fed = Fed(HlsSettings(part_bytes=20_000, segment_bytes=60_000)).begin(gop_s=1.0).feed(clip).end()
    check_all(fed)
    for segment in fed.rendition().segments:
        assert segment.size <= 60_000 + 20_000
        assert all(part.size <= 60_000 for part in segment.parts)
    assert len(fed.rendition().segments) > 10


def test_bandwidth_is_of_the_peak(clip: list[Message]) -> None:
    fed = fed_for(clip, 2)
    text = fed.packaging.multivariant()
    peak = max(len(b"".join(data)) * 8 / fed.found["v0"][msn].duration for msn, data in fed.kept["v0"].items())
    assert peak <= one(r":BANDWIDTH=(\d+)", text) < 1.15 * peak
    assert one(r"AVERAGE-BANDWIDTH=(\d+)", text) <= one(r":BANDWIDTH=(\d+)", text)
    early = Fed().begin(gop_s=1.0).feed([message for message in clip if message[1] < 1000])
    assert early.packaging.is_ready
    assert one(r":BANDWIDTH=(\d+)", early.packaging.multivariant()) > 10_000


def test_closed_captions_are_denied_only_where_none_were_seen(clip: list[Message]) -> None:
    """User data of ATSC A/53 in a unit of its own (SEI), as encoders put it before the slices."""
    user_data = b"\x06\x04\x0b\xb5\x00\x31GA94\x03\x00\xff\xff\x80"
    unit = len(user_data).to_bytes(4, "big") + user_data
    captioned = [
        (kind, at, payload[:5] + unit + payload[5:] if kind == "video" and payload[1] == 1 else payload)
        for kind, at, payload in clip
    ]
    assert ",CLOSED-CAPTIONS=NONE\n" in Fed().begin(gop_s=1.0).feed(clip).packaging.multivariant()
    assert "CLOSED-CAPTIONS" not in Fed().begin(gop_s=1.0).feed(captioned).packaging.multivariant()


def test_renditions_report_on_each_other(clip: list[Message]) -> None:
    further: list[Message] = []
    for kind, at, payload in clip:
        again = bytes((0x95, payload[1])) + b"mp4a\x01" + payload[2:]
        further += [(kind, at, payload), *([(kind, at, again)] if kind == "audio" else [])]
    fed = Fed().begin(gop_s=1.0).feed(further)
    check_all(fed)
    rendition = fed.rendition("a1")
    report = f'#EXT-X-RENDITION-REPORT:URI="a1.m3u8",LAST-MSN={rendition.last_msn},LAST-PART={rendition.last_part}\n'
    assert report in fed.text()
    assert 'RENDITION-REPORT:URI="v0.m3u8"' in fed.text("a1")
