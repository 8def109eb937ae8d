"""Captions that an encoder sends as texts, on the watch page: FFmpeg publishes, the server's own packager makes HLS,
and Chromium shows them."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.server_process import ServerProcess, program, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.browser, pytest.mark.clients, pytest.mark.timeout(180)]

CLIP_S = 40
EACH_S = 2


def stamp(seconds: int) -> str:
    return f"00:00:{seconds:02},000"


@pytest.fixture(scope="module")
def captioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text each two seconds, that begins with a keyframe."""
    folder = tmp_path_factory.mktemp("captioned")
    texts = [
        f"{number}\n{stamp(at)} --> {stamp(at + 1)}\nSentence {number}\n"
        for number, at in enumerate(range(EACH_S, CLIP_S, EACH_S), 1)
    ]
    (folder / "texts.srt").write_text("\n".join(texts))
    inputs = ["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=30", "-f", "lavfi", "-i", "sine"]
    inputs += ["-i", str(folder / "texts.srt")]
    options = f"-c:v libx264 -preset ultrafast -bf 0 -pix_fmt yuv420p -g 30 -c:a aac -c:s text -t {CLIP_S} -f flv"
    command = [require_tool("ffmpeg"), "-v", "error", "-y", *inputs, *options.split(), str(folder / "clip.flv")]
    subprocess.run(command, check=True, timeout=60)
    return folder / "clip.flv"


def publishing(clip: Path, url: str) -> list[str]:
    """FFmpeg holds back what belongs beside a text until the next text comes, unless it is told not to."""
    options = ["-map", "0", "-c", "copy", "-max_interleave_delta", "1", "-f", "flv"]
    return ["ffmpeg", "-v", "error", "-re", "-i", str(clip), *options, url]


SHOWN = """() => [...document.getElementById('video').textTracks[0].activeCues ?? []].map((cue) => cue.text)"""
CUES = """() => {
  const video = document.getElementById('video');
  return [video.buffered.start(0), [...video.textTracks[0].cues].map((cue) => [cue.startTime, cue.endTime, cue.text])];
}"""


def begun(cues: list[Any]) -> dict[str, float]:
    """When each text begins; those that go on from one cue to the next do without a gap."""
    found: dict[str, float] = {}
    ends: dict[str, float] = {}
    for start, end, words in cues:
        assert words not in ends or abs(ends[words] - start) < 0.001, words
        found.setdefault(words, start)
        ends[words] = end
    return found


def test_captions_are_shown_by_key_and_menu_in_time_with_the_video(
    page: Page, server: ServerProcess, captioned: Path
) -> None:
    key = server.create_key("live/captioned")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/s0-" in request.url else None)
    with program(*publishing(captioned, f"{server.rtmp}/live/{key['key']}")):
        server.wait_for_state("live/captioned", "live", timeout_s=30)
        url = server.stream("live/captioned")["hls_url"]
        wait_for(lambda: "TYPE=SUBTITLES" in page.request.get(url).text() or None, timeout_s=20, what="subtitles")
        page.goto(f"{server.http}/watch/live/captioned")
        page.locator("#player[data-state=live]").wait_for(timeout=30_000)
        expect(page.locator("#captions")).to_be_visible()
        assert not asked, "nobody has asked for them"
        page.keyboard.press("c")
        page.wait_for_function(f"() => ({SHOWN})().some((words) => words.startsWith('Sentence'))")
        page.wait_for_function("() => new Set([...video.textTracks[0].cues].map((cue) => cue.text)).size > 3")
        first_keyframe, cues = page.evaluate(CUES)
        _, *whole = begun(cues).items()
        for _, start in whole:
            assert abs((start - first_keyframe + 0.5) % 1 - 0.5) < 0.002, "with a keyframe, as it was published"
        page.evaluate("document.getElementById('video').addTextTrack('subtitles', 'Deutsch', 'de')")
        page.click("#settings")
        page.locator("#texts").get_by_label("Deutsch").check()
        modes = "[...document.getElementById('video').textTracks].map(({ mode }) => mode)"
        assert page.evaluate(modes) == ["disabled", "showing"]
        page.locator("#texts").get_by_label("Off").check()
        expect(page.locator("#captions")).to_have_attribute("aria-pressed", "false")
        page.locator("#texts").get_by_label("Captions").check()
        page.wait_for_function(f"() => ({SHOWN})().some((words) => words.startsWith('Sentence'))")
