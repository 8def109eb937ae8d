"""FLV files (Video File Format 10.1, annex E; Enhanced RTMP for what is in their tags): read, write, and seek in. Pure.

| file             | subject                                                                          |
|------------------|----------------------------------------------------------------------------------|
| `tags.py`        | tags, from bytes as they come or from a stream, and back                         |
| `metadata.py`    | onMetaData, with the index of keyframes                                          |
| `seek_points.py` | a file's time, and where keyframes and headers stand, found while tags pass      |
| `index.py`       | the same of a file: where to begin for a time, and how long it is                |
| `writer.py`      | a file that plays at any moment, and that players seek in once finished          |
| `recording.py`   | files of recordings: named, locked, written, and closed properly after a crash   |

Files are streams that a caller opened. `FlvError` says that something is no FLV file, or where it ceases to be one.
"""

from ingest.flv.index import FlvIndex, read_index, scan
from ingest.flv.metadata import SeekPoint, decode_metadata
from ingest.flv.tags import FlvError, Tag, TagReader
from ingest.flv.writer import FlvWriter

__all__ = [
    "FlvError",
    "FlvIndex",
    "FlvWriter",
    "SeekPoint",
    "Tag",
    "TagReader",
    "decode_metadata",
    "read_index",
    "scan",
]
