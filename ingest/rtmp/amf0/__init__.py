"""AMF0, the encoding of commands and data (Action Message Format 0, sections 2 and 3).

How the types map to Python:

| marker                  | Python                                                       |
|-------------------------|--------------------------------------------------------------|
| 00 number               | float (int is taken for encoding)                            |
| 01 boolean              | bool                                                         |
| 02 string, 0C long      | str; the encoder chooses by its length in UTF-8              |
| 03 object               | dict                                                         |
| 05 null                 | None                                                         |
| 06 undefined            | UNDEFINED                                                    |
| 07 reference            | the value that it stands for; Reference within that value    |
| 08 ECMA array           | EcmaArray                                                    |
| 0A strict array         | list                                                         |
| 0B date                 | Date                                                         |
| 0D unsupported          | UNSUPPORTED                                                  |
| 0F XML document         | XmlDocument                                                  |
| 10 typed object         | TypedObject                                                  |
| 11 AMF3                 | what `amf3` makes of it; the encoder takes Amf3              |
| 04 movie clip, 0E record set (reserved), 09 (only as an end) | refused                 |

What is decoded is always a finite tree: a reference to a value that encloses it is given as `Reference`, so nobody who
walks a peer's data can be caught in a loop, and what references stand for is counted against the limit of elements.
"""

from ingest.rtmp.amf import UNDEFINED, UNSUPPORTED, Date, Reference, Singleton, XmlDocument
from ingest.rtmp.amf0.decoder import Decoder, decode, decode_all
from ingest.rtmp.amf0.encoder import Encoder, encode
from ingest.rtmp.amf0.plain import Plain
from ingest.rtmp.amf0.types import Amf3, EcmaArray, TypedObject

__all__ = [
    "UNDEFINED",
    "UNSUPPORTED",
    "Amf3",
    "Date",
    "Decoder",
    "EcmaArray",
    "Encoder",
    "Plain",
    "Reference",
    "Singleton",
    "TypedObject",
    "XmlDocument",
    "decode",
    "decode_all",
    "encode",
]
