"""What both encodings of values, AMF0 and AMF3, are made of: the types that mean the same, and bounded reading."""

from ingest.rtmp.amf.reader import Reader
from ingest.rtmp.amf.types import UNDEFINED, UNSUPPORTED, Date, Reference, Singleton, XmlDocument
from ingest.rtmp.amf.writer import Writer, utf8

__all__ = [
    "UNDEFINED",
    "UNSUPPORTED",
    "Date",
    "Reader",
    "Reference",
    "Singleton",
    "Writer",
    "XmlDocument",
    "utf8",
]
