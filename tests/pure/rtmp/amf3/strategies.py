"""hypothesis strategies for values of AMF3."""

from typing import Any

from hypothesis import strategies as st

from ingest.rtmp.amf import UNDEFINED, Date, XmlDocument
from ingest.rtmp.amf.amf3 import WRAPPERS, Array, Dictionary, Externalizable, Items, Object, Vector, Xml

texts = st.text(st.characters(codec="utf-8"), max_size=8)
names = texts.filter(bool)
numbers = st.floats(allow_nan=False)
integers = st.integers(-(2**28), 2**28 - 1)
leaves: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([UNDEFINED, None, True, False]),
    integers,
    numbers,
    texts,
    st.builds(Date, numbers),
    texts.map(XmlDocument),
    texts.map(Xml),
    st.binary(max_size=8),
    st.builds(Vector, st.just(Items.INT), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3), fixed=st.booleans()),
    st.builds(Vector, st.just(Items.UINT), st.lists(st.integers(0, 2**32 - 1), max_size=3), fixed=st.booleans()),
    st.builds(Vector, st.just(Items.DOUBLE), st.lists(numbers, max_size=3), fixed=st.booleans()),
)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Object:
    sealed = draw(st.dictionaries(texts, inner, max_size=3))
    dynamic = draw(st.booleans())
    others = draw(st.dictionaries(names, inner, max_size=2)) if dynamic else {}
    class_name = draw(names)
    return Object(
        class_name, sealed | {n: v for n, v in others.items() if n not in sealed}, sealed=sealed, dynamic=dynamic
    )


def branches(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=4)
    members = st.dictionaries(names, inner, max_size=4)
    return st.one_of(
        lists,
        st.builds(Array, lists, members.filter(bool)),
        members,
        objects(inner),
        st.builds(Externalizable, st.sampled_from(sorted(WRAPPERS)), inner),
        st.builds(Vector, st.just(Items.OBJECT), lists, fixed=st.booleans(), type_name=texts),
        st.builds(Dictionary, st.lists(st.tuples(inner, inner), max_size=3), weak_keys=st.booleans()),
        st.lists(inner, min_size=1, max_size=2).map(lambda items: [items, items]),
    )


values: st.SearchStrategy[Any] = st.recursive(leaves, branches, max_leaves=12)


def same(first: Any, second: Any) -> bool:
    """Equal, and of equal types all the way down."""
    if type(first) is not type(second) or first != second:
        return False
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[name], second[name]) for name in first)
    if isinstance(first, Externalizable):
        return same(first.value, second.value)
    if isinstance(first, Array) and not same(first.associative, second.associative):
        return False
    if isinstance(first, list | tuple):
        return all(same(*pair) for pair in zip(first, second, strict=True))
    return True
