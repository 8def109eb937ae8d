"""FLV files as MP4 files that need not be written: an MP4's head is made from an index of the FLV's frames, and behind
it stands the FLV file itself, byte for byte. Pure.

| file         | subject                                                                            |
|--------------|------------------------------------------------------------------------------------|
| `limits.py`  | how much is gathered, and the one error: why there is no MP4, in a sentence         |
| `frames.py`  | the index: where each frame of each track stands in the FLV, its times, its codec   |
| `entries.py` | what a decoder needs, as MP4 has it (ISO/IEC 14496-12, 8.5.2)                       |
| `timing.py`  | times in a track's own scale                                                        |
| `movie.py`   | the head: ftyp, moov, and the beginning of mdat                                     |

    head = movie_head(scan_frames(stream, limits), limits)
    # The MP4 is head, then the FLV's bytes up to frames.end.

A frame's bytes are the same in both formats. Tags' headers stay between them, where no table of the MP4 points to.
"""
