from ingest import clean


def test_text_is_bounded_and_fit_for_rows_and_lines() -> None:
    assert clean.text("OBS 30", 255) == "OBS 30"
    assert clean.text("a\x00b\nc\x9bd\ud800", 255) == "a\ufffdb\ufffdc\ufffdd\ufffd"
    assert clean.text("8\u00a0s für Кам1 🎥", 255) == "8\u00a0s für Кам1 🎥"
    assert clean.text("x" * 300, 255) == "x" * 255
    assert clean.text("a\u202eb\u200bc\ufeffd\u2028e\u2066f\u00adg", 255) == "\ufffd".join("abcdefg")
    assert clean.text("می\u200cخواهم 👩\u200d💻", 255) == "می\u200cخواهم 👩\u200d💻"
    assert clean.text(None, 10) == "None"


def test_values_become_json() -> None:
    given = {"n": 1.5, "inf": float("inf"), "yes": True, "none": None, "list": [1, "a\x00"], 7: object}
    found = clean.jsonable(given)
    assert found["n"] == 1.5
    assert found["inf"] is None
    assert found["list"] == [1, "a\ufffd"]
    assert isinstance(found["7"], str)


def test_values_are_bounded() -> None:
    assert len(clean.jsonable(list(range(1000)))) == clean.MAX_ITEMS
    assert len(clean.jsonable({str(n): n for n in range(1000)})) == clean.MAX_ITEMS
    assert len(clean.jsonable("x" * 1000)) == clean.MAX_TEXT
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert clean.jsonable(deep) == [[[[None]]]]
