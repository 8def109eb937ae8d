"""The ASGI application of a media node, which knows no pages: RTMP connections and the node, from `ingest.server`.

To be imported once Django is set up.
"""

from channels.routing import ProtocolTypeRouter

from ingest.consumers.node import NodeConsumer
from ingest.consumers.rtmp import RtmpConsumer

SCOPES = {"rtmp": RtmpConsumer.as_asgi(), "rtmp.node": NodeConsumer.as_asgi()}

application = ProtocolTypeRouter(SCOPES)
