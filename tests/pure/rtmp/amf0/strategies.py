"""hypothesis strategies for values of AMF0."""

from typing import Any

from hypothesis import strategies as st

from ingest.rtmp.amf import UNDEFINED, UNSUPPORTED, Date, EcmaArray, TypedObject, XmlDocument

names = st.text(st.characters(codec="utf-8"), max_size=8)
numbers = st.floats(allow_nan=False)
leaves: st.SearchStrategy[Any] = st.one_of(
    numbers,
    st.booleans(),
    names,
    st.none(),
    st.sampled_from([UNDEFINED, UNSUPPORTED]),
    st.builds(Date, numbers, st.integers(-32768, 32767)),
    names.map(XmlDocument),
)
values: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(names, inner, max_size=4),
        st.dictionaries(names, inner, max_size=4).map(EcmaArray),
        st.builds(TypedObject, names, st.dictionaries(names, inner, max_size=4)),
    ),
    max_leaves=12,
)
