"""hypothesis strategies for values of AMF0 and AMF3."""

from typing import Any

from hypothesis import strategies as st

from ingest.rtmp.amf import UNDEFINED, UNSUPPORTED, Date, EcmaArray, TypedObject, XmlDocument
from ingest.rtmp.amf.amf3 import WRAPPERS, Array, Dictionary, Externalizable, Items, Object, Vector, Xml

Values = st.SearchStrategy[Any]

texts = st.text(st.characters(codec="utf-8"), max_size=8)
names = texts.filter(bool)
numbers = st.floats(allow_nan=False)
integers = st.integers(-(2**28), 2**28 - 1)


def amf0_branches(inner: Values) -> Values:
    members = st.dictionaries(texts, inner, max_size=4)
    return st.one_of(
        st.lists(inner, max_size=4), members, members.map(EcmaArray), st.builds(TypedObject, texts, members)
    )


amf0_values: Values = st.recursive(
    st.one_of(
        numbers,
        st.booleans(),
        texts,
        st.none(),
        st.sampled_from([UNDEFINED, UNSUPPORTED]),
        st.builds(Date, numbers, st.integers(-32768, 32767)),
        texts.map(XmlDocument),
    ),
    amf0_branches,
    max_leaves=12,
)


def vectors(kind: Items, items: Values, **more: Values) -> Values:
    return st.builds(Vector, st.just(kind), st.lists(items, max_size=4), fixed=st.booleans(), **more)


@st.composite
def objects(draw: st.DrawFn, inner: Values) -> Object:
    sealed = draw(st.dictionaries(texts, inner, max_size=3))
    dynamic = draw(st.booleans())
    others = draw(st.dictionaries(names, inner, max_size=2)) if dynamic else {}
    members = sealed | {name: value for name, value in others.items() if name not in sealed}
    return Object(draw(names), members, sealed=sealed, dynamic=dynamic)


def amf3_branches(inner: Values) -> Values:
    lists = st.lists(inner, max_size=4)
    members = st.dictionaries(names, inner, max_size=4)
    return st.one_of(
        lists,
        st.builds(Array, lists, members.filter(bool)),
        members,
        objects(inner),
        st.builds(Externalizable, st.sampled_from(sorted(WRAPPERS)), inner),
        vectors(Items.OBJECT, inner, type_name=texts),
        st.builds(Dictionary, st.lists(st.tuples(inner, inner), max_size=3), weak_keys=st.booleans()),
        st.lists(inner, min_size=1, max_size=2).map(lambda items: [items, items]),
    )


amf3_values: Values = st.recursive(
    st.one_of(
        st.sampled_from([UNDEFINED, None, True, False]),
        integers,
        numbers,
        texts,
        st.builds(Date, numbers),
        texts.map(XmlDocument),
        texts.map(Xml),
        st.binary(max_size=8),
        vectors(Items.INT, st.integers(-(2**31), 2**31 - 1)),
        vectors(Items.UINT, st.integers(0, 2**32 - 1)),
        vectors(Items.DOUBLE, numbers),
    ),
    amf3_branches,
    max_leaves=12,
)
