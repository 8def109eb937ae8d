"""AMF3 as `amf0` has AMF0: both ways in one module."""

from ingest.rtmp.amf.amf3_decoder import Decoder, decode
from ingest.rtmp.amf.amf3_encoder import Encoder, encode

__all__ = ["Decoder", "Encoder", "decode", "encode"]
