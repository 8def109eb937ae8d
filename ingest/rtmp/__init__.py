"""RTMP 1.0 without I/O: bytes in, events out, bytes to send out.

    connection = ServerConnection(nonce=os.urandom(1528))
    for event in connection.receive_data(data):      # RemoteProtocolError: close the socket
        ...                                          # on a request: accept_*() or reject_*(), then events()
    while connection.has_more_events: connection.events()    # What follows a request that is decided later.
    socket.send(connection.data_to_send())           # after each of these calls

While `connection.paused` is set nothing is read before a decision; the shell had better stop reading from its socket.
"""

from ingest.rtmp import events
from ingest.rtmp.chunk_writer import encode_message
from ingest.rtmp.client import ClientConnection
from ingest.rtmp.errors import LimitExceeded, LocalProtocolError, RemoteProtocolError
from ingest.rtmp.flow import SendingWindow
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import Message, MessageType
from ingest.rtmp.messages.control import UserControl
from ingest.rtmp.server import ServerConnection
from ingest.rtmp.states import Phase

__all__ = [
    "ClientConnection",
    "LimitExceeded",
    "Limits",
    "LocalProtocolError",
    "Message",
    "MessageType",
    "Phase",
    "RemoteProtocolError",
    "SendingWindow",
    "ServerConnection",
    "UserControl",
    "encode_message",
    "events",
]
