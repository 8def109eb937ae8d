"""How a stream is cut into parts and segments, and what of it is kept: all limits of the packager, with their units."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HlsSettings:
    part_target_ms: int = 300
    """A part is the longest run of whole frames that is not over it, and one frame at least."""
    segment_target_s: float = 2.0
    """A segment ends at the first keyframe that comes so late, or later."""
    default_target_s: int = 6
    """EXT-X-TARGETDURATION where no second keyframe came while `targets_ms` went by."""
    max_target_s: int = 12
    """The most that EXT-X-TARGETDURATION is. Longer groups of pictures are cut within."""
    window_s: float = 30.0
    """Of segments in a playlist and in memory; seven target durations at least."""
    rewind_s: float = 0.0
    """How long segments are listed, if that is longer than the window. Who serves them has their bytes elsewhere."""
    parts_targets: int = 3
    """Target durations from the end within which parts are listed."""
    skip_targets: int = 6
    """Target durations from the end that a delta update never leaves out (CAN-SKIP-UNTIL)."""
    grace_s: float = 60.0
    """What has left the playlist can be had for as long as the playlist is, and for one segment (6.2.2), but no longer
    than this."""

    layout_ms: int = 1000
    """Of media of one kind alone, until the other kind is not waited for any more."""
    keyframe_wait_ms: int = 10_000
    """Of media, until video that has a header and no keyframe is not waited for any more."""
    targets_ms: int = 2500
    """Of media, until a second keyframe is not waited for any more."""
    settle_s: float = 0.1
    """Since the first message of a publisher, before anything is served: until then comes a burst."""

    jump_ms: int = 10_000
    """Forward from all that came: more is a discontinuity."""
    reorder_ms: int = 500
    """Backward within a track: more is a discontinuity, less is put right behind the frame before."""
    most_stragglers: int = 50
    """Frames of a former timeline that are left out after a jump; more of them are a jump back."""

    tracks_per_kind: int = 16
    part_bytes: int = 8 * 1024 * 1024
    segment_bytes: int = 64 * 1024 * 1024
    memory_bytes: int = 384 * 1024 * 1024
    """Of all renditions. Beyond it the oldest segments go."""
    fragments_per_part: int = 512
    """Of the track that a rendition is cut by."""
    gathered_frames: int = 8192
    """That wait until the layout and the targets are known."""
    init_segments: int = 16
    """Of a rendition. With the oldest go the segments that need it."""
    breaks_per_minute: int = 30
    """Discontinuities by new headers and by jumps. What would need more is left out until a minute is over."""
    faults_per_track: int = 100
    """Frames that can't be put into a fragment, until the track is left out."""
    text_s: float = 6.0
    """How long a text of the publisher's is shown, unless another one of its track comes before."""
    text_tracks: int = 4
    """Languages and numbers that texts are told apart by. What is of further ones is left out, as is what is over the
    following."""
    texts_per_s: int = 20
    text_message_bytes: int = 16 * 1024
    text_characters: int = 500
    """Of a text; what is longer is cut there."""
    text_lines: int = 8
    waiting_texts: int = 64
    """That came before media of their time, of a track, or before it is known which tracks there are."""
    sentences: int = 32
    """Of what is left out."""
