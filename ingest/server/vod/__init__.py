"""Playing of recordings, which are FLV files (RTMP 1.0, section 7.2.2.1).

A `playback.Playback` has a recording read ahead by the threads of `library`, from an open `flv_source.FlvSource`, and
sends it by the clock on chunk streams of its own (`pacing`). Bytes of a recording are not shared between players as
those of a live stream are.
"""
