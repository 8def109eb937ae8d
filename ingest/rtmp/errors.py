"""The two ways in which a connection fails. Anything else that escapes from `ingest.rtmp` is a bug."""


class RemoteProtocolError(Exception):
    """The peer broke the protocol. The connection is dead: nothing further may be given to it.

    The text names what was wrong and never quotes what the peer sent, as that may hold a stream key.
    """


class LimitExceeded(RemoteProtocolError):  # noqa: N818 - says what happened; it is an error by its base.
    """The peer went over one of `Limits`."""


class LocalProtocolError(Exception):
    """Our own side asked for what the connection's state, or the encoding, doesn't allow."""
