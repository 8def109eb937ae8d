"""Makes x264.json, by hand: `python -m tests.pure.live.health.make_x264`. Needs FFmpeg with libx264.

Sizes of the frames, in bytes, those of keyframes negative, of 100 s and more: colour bars, a fractal, a test picture,
and noise, in scenes of 15 to 25 s; by a constant rate factor, an average and a constant bitrate.
"""

import json
import subprocess
import tempfile
from pathlib import Path

SCENES = ("smptebars", "mandelbrot", "testsrc2", "life=mold=10")
SIZE = "s=320x180:r=30"
LASTING = ((0, 15), (1, 25), (2, 20), (3, 15), (0, 15), (2, 20))
CUT = ";".join(
    f"[{scene}]trim=duration={seconds},setpts=PTS-STARTPTS,format=yuv420p,setsar=1[s{number}]"
    for number, (scene, seconds) in enumerate(LASTING)
)
JOIN = "".join(f"[s{number}]" for number in range(len(LASTING))) + f"concat=n={len(LASTING)}:v=1"
ENCODERS = {
    "crf": ("-crf", "26"),
    "abr": ("-b:v", "600k"),
    "cbr": ("-b:v", "600k", "-minrate", "600k", "-maxrate", "600k", "-bufsize", "1200k"),
}
PROBE = ["ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "packet=size,flags", "-of", "json"]


def sizes(name: str, folder: Path) -> list[int]:
    inputs = (
        [f"testsrc2={SIZE}:d=100"]
        if name == "cbr"
        else [f"{each}{':' if '=' in each else '='}{SIZE}" for each in SCENES]
    )
    made = str(folder / f"{name}.mp4")
    command = ["ffmpeg", "-v", "error", "-y"]
    for each in inputs:
        command += ["-f", "lavfi", "-i", each]
    if name != "cbr":
        command += ["-filter_complex", f"{CUT};{JOIN}"]
    subprocess.run([*command, "-c:v", "libx264", "-preset", "ultrafast", "-g", "60", *ENCODERS[name], made], check=True)
    packets = json.loads(subprocess.run([*PROBE, made], check=True, capture_output=True).stdout)["packets"]
    return [-int(each["size"]) if "K" in each["flags"] else int(each["size"]) for each in packets]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = {name: sizes(name, Path(folder)) for name in ENCODERS}
    Path(__file__).with_name("x264.json").write_text(json.dumps(found))
