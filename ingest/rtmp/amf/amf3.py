"""AMF3, the encoding that ActionScript 3 brought (Action Message Format 3, January 2013).

How the types map to Python; *ref* says which table they can come from again:

| marker                     | Python                                                         | ref     |
|----------------------------|----------------------------------------------------------------|---------|
| 00 undefined               | UNDEFINED                                                      |         |
| 01 null                    | None                                                           |         |
| 02 false, 03 true          | bool                                                           |         |
| 04 integer, of 29 bits     | int; the encoder writes others as doubles                      |         |
| 05 double                  | float                                                          |         |
| 06 string                  | str                                                            | strings |
| 07 XML document            | XmlDocument                                                    | objects |
| 08 date                    | Date, without zone                                             | objects |
| 09 array                   | list (tuple is taken for encoding)                             | objects |
|    with associative part   | Array: a list, with `associative`                              | objects |
| 0A object, anonymous       | dict                                                           | objects |
|    of a class, or sealed   | Object: a dict, with `traits`                                  | objects |
|    externalizable          | Externalizable, of `WRAPPERS`; others are refused              | objects |
| 0B XML                     | Xml                                                            | objects |
| 0C byte array              | bytes                                                          | objects |
| 0D, 0E, 0F, 10 vector      | Vector: a list, with `items`, `fixed`, `type_name`             | objects |
| 11 dictionary              | Dictionary: a list of pairs, with `weak_keys`                  | objects |

Traits, too, come again as references to a table of their own, within objects.

A reference is decoded as the value that it stands for, and as `Reference` within that value: what is decoded is always
a finite tree. What references stand for is counted against the limit of elements, strings by their length.

An externalizable object has no length on the wire, so that of an unknown class can't even be skipped.

All values of one message share their tables (section 4.1), those in AMF0 (marker 11) too: so read BlazeDS, Red5 and
PyAMF. `Decoder` and `Encoder` have the tables as long as they live; `decode` has them for one value.
"""

from ingest.rtmp.amf import UNDEFINED, Date, Reference, XmlDocument
from ingest.rtmp.amf.amf3_decoder import Decoder, decode
from ingest.rtmp.amf.amf3_encoder import Encoder, encode
from ingest.rtmp.amf.amf3_types import WRAPPERS, Array, Dictionary, Externalizable, Items, Object, Traits, Vector, Xml

__all__ = [
    "UNDEFINED",
    "WRAPPERS",
    "Array",
    "Date",
    "Decoder",
    "Dictionary",
    "Encoder",
    "Externalizable",
    "Items",
    "Object",
    "Reference",
    "Traits",
    "Vector",
    "Xml",
    "XmlDocument",
    "decode",
    "encode",
]
