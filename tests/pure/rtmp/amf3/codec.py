"""AMF3 as `amf0` has AMF0: both ways in one module."""

from ingest.rtmp.amf.amf3_decoder import Decoder
from ingest.rtmp.amf.amf3_encoder import Encoder

__all__ = ["Decoder", "Encoder", "decode", "encode"]

decode = Decoder.decode
encode = Encoder.encode
