"""Recording of what is published, beside the media path: FLV files that play at any moment.

| file            | subject                                                                       |
|-----------------|-------------------------------------------------------------------------------|
| `session.py`    | one publish session's recording: its order, its end, who is told what         |
| `recorders.py`  | all of a node's, until their files are closed                                 |
| `recorder.py`   | the event loop's side of one: a queue that is bounded, batches for the threads |
| `writers.py`    | the threads                                                                   |
| `recording.py`  | the threads' side of one: files, times, failures                              |
| `file.py`       | one file: made, continued, finished, mended                                   |
| `names.py`      | where it is                                                                   |
| `reports.py`    | what is told of it                                                            |
| `settings.py`   | what an operator can set                                                      |
"""

from ingest.server.recording.file import held, mend
from ingest.server.recording.names import file_of
from ingest.server.recording.settings import RecordingSettings

__all__ = ["RecordingSettings", "file_of", "held", "mend"]
