"""What of a stream HLS can't carry, and why: sentences for who would watch it."""

from ingest.hls.codecs import name_of
from ingest.hls.frames import Key
from ingest.live.message import Kind


class LeftOut:
    """Of a packaging. `most`: sentences; each is there once."""

    def __init__(self, most: int) -> None:
        self.sentences: list[str] = []
        self.tracks: set[Key] = set()
        """Those that no codec of browsers has, or whose header no player could read."""
        self._most = most

    def __bool__(self) -> bool:
        return bool(self.sentences)

    def __str__(self) -> str:
        return " ".join(self.sentences)

    def codec(self, key: Key, fourcc: bytes) -> None:
        """A track of a codec that browsers have not."""
        kind, number = key
        name = f"{kind.capitalize()} track {number + 1}"
        self.track(key, f"{name} can't be played by HLS: browsers have no {name_of(fourcc)} in MP4.")

    def track(self, key: Key, sentence: str) -> None:
        self.tracks.add(key)
        self._say(sentence)

    def further(self, kind: Kind, most: int) -> None:
        """Tracks beyond so many of a kind."""
        self._say(f"More than {most} tracks of {kind}: the further ones are left out.")

    def frames(self, name: str) -> None:
        """Those of a track that was begun."""
        self._say(f"{name} is left out: too many of its frames can't be put into MP4.")

    def _say(self, sentence: str) -> None:
        if sentence not in self.sentences and len(self.sentences) < self._most:
            self.sentences.append(sentence)
