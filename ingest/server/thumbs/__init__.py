"""Thumbnails: a small picture of each live stream's last keyframe, made in a process of its own.

| file            | subject                                                                       |
|-----------------|-------------------------------------------------------------------------------|
| `thumbnails.py` | whose turn it is, each second; what becomes of a picture, or of none          |
| `request.py`    | what of a keyframe's message is decoded, and what is not even tried           |
| `process.py`    | the thread that asks the process, starts it again, and is done with it in time |
| `decoder.py`    | the program of that process                                                   |
| `settings.py`   | how often, how many, how large                                                |
"""
