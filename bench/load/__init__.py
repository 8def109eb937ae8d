"""The load generator: publishers and players of real size on one event loop, well under a core.

`Clip` is what is published, `Reel` its bytes on the wire (made once, shared by all publishers), `run` puts a load on a
server and measures a window of it, `run_cycles` connects, publishes and closes as often as it can.
"""
