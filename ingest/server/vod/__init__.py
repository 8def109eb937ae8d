"""Playing of recordings, which are FLV files (RTMP 1.0, section 7.2.2.1).

| file         | subject                                                                              |
|--------------|--------------------------------------------------------------------------------------|
| `span.py`    | which part of a recording is asked for                                               |
| `tape.py`    | an open file: its messages in batches; runs in the threads                           |
| `library.py` | the threads that read for all players of a node, and what they know of each file     |
| `feed.py`    | one player's read-ahead, from the event loop                                         |
| `pace.py`    | how far a recording may be sent, by the clock                                        |
| `lane.py`    | a player's own chunk streams, with header compression                                |
| `sending.py` | what waits for one player, and what of it may go                                     |
| `playing.py` | a play session: what is sent when, and what it is asked while it plays               |

Bytes of a recording are not shared between players, unlike those of a live stream.
"""
