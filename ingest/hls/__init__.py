"""HLS and low-latency HLS (draft-pantos-hls-rfc8216bis) of a live stream: fragmented MP4, cut into parts and segments,
its texts as WebVTT, and playlists. Pure: bytes and time come in as arguments.

| file            | subject                                                                                  |
|-----------------|------------------------------------------------------------------------------------------|
| `settings.py`   | what is configured, and all limits                                                       |
| `frames.py`     | a message's headers and frames, track by track                                           |
| `codecs.py`     | what goes into MP4, and how                                                              |
| `boxes.py`      | boxes of MP4 told apart, and put together                                                |
| `tracks.py`     | one track: frames in, fragments out, by libav's muxer                                    |
| `gathering.py`  | the beginning of a run: which tracks there are, how long parts and segments are to be    |
| `timestamps.py` | RTMP's timestamps: unwrapped, and whether they jump                                      |
| `dating.py`     | the time of day of media                                                                 |
| `segments.py`   | parts and segments                                                                       |
| `rendition.py`  | one media playlist: what is asked of it, what is kept                                    |
| `cutting.py`    | a rendition of audio and video: how it is cut                                            |
| `texts.py`      | texts that publishers send as data, and when they are shown                              |
| `subtitles.py`  | renditions of them, as WebVTT                                                            |
| `playlists.py`  | the text of playlists                                                                    |
| `variants.py`   | what the multivariant playlist offers                                                    |
| `packaging.py`  | a stream: runs, tracks, renditions                                                       |
"""

from ingest.hls.packaging import Packaging
from ingest.hls.rendition import Rendition
from ingest.hls.segments import Part, Segment
from ingest.hls.settings import HlsSettings

__all__ = ["HlsSettings", "Packaging", "Part", "Rendition", "Segment"]
