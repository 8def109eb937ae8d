"""What encoders send in the tests of this folder, in all codecs."""

from pathlib import Path

from tests.media import make_clip, make_enhanced_clip

CODECS = {
    "hevc-ac3": (["hevc"], ["ac3"]),
    "h264-eac3": (["h264"], ["eac3"]),
    "av1-opus": (["av1"], ["opus"]),
    "vp9-flac": (["vp9"], ["flac"]),
    "tracks": (["h264", "hevc"], ["aac", "opus"]),
}
"""{clip: its video and audio codecs}: those that need Enhanced RTMP."""


class Clips:
    """By their codecs, each made when it is first asked for: few of the workers need them all."""

    def __init__(self, clip: Path, folder: Path) -> None:
        self._made = {"h264-aac": clip}
        self._folder = folder

    def __getitem__(self, name: str) -> Path:
        if name not in self._made:
            self._made[name] = self._make(name, self._folder / f"{name}.flv")
        return self._made[name]

    def _make(self, name: str, path: Path) -> Path:
        if name == "sharp":  # Its keyframes have more bytes than the server puts into a chunk.
            return make_clip(path, seconds=3, video_kbps=8_000, size="1280x720")
        if name == "vvc-aac":  # Whose encoder takes long for more than the smallest picture.
            return make_enhanced_clip(path, ["vvc"], ["aac"], seconds=5, size="160x90")
        return make_enhanced_clip(path, *CODECS[name], seconds=5)
