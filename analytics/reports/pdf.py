"""A report as PDF, A4: the same as the page says. reportlab is loaded only where one is made.

A web process has it done by another (`analytics.reports.subprocess_jobs`), and never loads what draws.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from analytics.reports import charts
from analytics.reports.document import MOST_ROWS, Chart, Document, StreamRow, breaks, breaks_head, lost_min, share
from analytics.wording import Tile, level_words, marked, number, percent, short, with_unit

if TYPE_CHECKING:
    from reportlab.platypus import Flowable, Paragraph

TEXT, ASIDE, LINE = "#14181d", "#5c6672", "#dfe3e8"
COLOURS = {"bad": "#b0241c", "warning": "#855000", "good": "#1c6a41", "none": "#535d69"}
"""The design's light tokens."""

MARGIN, PADDING = 42, 6
"""Of the page, and of the frame that reportlab has in it: points, as all lengths here."""
EDGE = MARGIN + PADDING
WIDTH = 595.28 - 2 * EDGE
TILES_IN_ROW = 3
ROOM = 90
"""Below a heading there is at least this, for it and the first of what it is over; else it begins the next page."""
SIZES = {
    "body": (9.5, 13.5),
    "small": (8, 11),
    "lede": (11.5, 16.5),
    "h1": (20, 25),
    "h2": (12.5, 16),
    "value": (14, 18),
}
"""Size and leading."""

SANS, BOLD = "DejaVuSans", "DejaVuSans-Bold"
EAST = {"kana": "HeiseiKakuGo-W5", "hangul": "HYGothic-Medium", "han": "STSong-Light"}
"""For signs that DejaVu lacks: fonts that readers of PDF bring."""


def pdf(document: Document) -> bytes:
    from reportlab.lib.pagesizes import A4
    from reportlab.platypus import SimpleDocTemplate

    _register()
    buffer = io.BytesIO()
    title = f"{document['title']}: {document['period']['words']}"
    template = SimpleDocTemplate(
        buffer,
        pagesize=A4,
        leftMargin=MARGIN,
        rightMargin=MARGIN,
        topMargin=MARGIN,
        bottomMargin=MARGIN,
        title=title,
        author="rtmpweb",
        lang="en",
    )

    def foot(canvas: Any, _: object) -> None:
        canvas.setFont(SANS, 7.5)
        canvas.setFillColor(ASIDE)
        canvas.drawString(EDGE, MARGIN / 2, title)
        canvas.drawRightString(EDGE + WIDTH, MARGIN / 2, f"Page {canvas.getPageNumber()}")

    template.build(list(_story(document)), onFirstPage=foot, onLaterPages=foot)
    return buffer.getvalue()


@cache
def _register() -> None:
    """The fonts that matplotlib brings, and names of those that readers have."""
    import matplotlib as mpl
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.pdfbase.ttfonts import TTFont

    folder = Path(mpl.get_data_path()) / "fonts" / "ttf"
    for name in (SANS, BOLD):
        pdfmetrics.registerFont(TTFont(name, folder / f"{name}.ttf"))
    pdfmetrics.registerFontFamily(SANS, normal=SANS, bold=BOLD, italic=SANS, boldItalic=BOLD)
    for name in EAST.values():
        pdfmetrics.registerFont(UnicodeCIDFont(name))


def _east(sign: str) -> str:
    """The font for a sign of East Asia that DejaVu lacks; empty for any other."""
    code = ord(sign)
    if 0x3040 <= code < 0x3100:
        return EAST["kana"]
    if 0xAC00 <= code < 0xD7B0 or 0x1100 <= code < 0x1200:
        return EAST["hangul"]
    return EAST["han"] if 0x3000 <= code < 0xA000 or 0xF900 <= code < 0xFB00 or 0xFF00 <= code < 0xFFF0 else ""


def _text(text: str) -> str:
    parts = []
    for font, signs in groupby(text, _east):
        run = escape("".join(signs))
        parts.append(f'<font name="{font}">{run}</font>' if font else run)
    return "".join(parts)


def _paragraph(
    markup: str,
    kind: str = "body",
    *,
    colour: str = TEXT,
    right: bool = False,
    before: float = 0,
    after: float = 0,
) -> "Paragraph":
    """`before` and `after`: the space above and below it."""
    from reportlab.lib.enums import TA_LEFT, TA_RIGHT
    from reportlab.lib.styles import ParagraphStyle
    from reportlab.platypus import Paragraph

    size, leading = SIZES[kind]
    style = ParagraphStyle(
        kind,
        fontName=SANS,
        fontSize=size,
        leading=leading,
        textColor=colour,
        alignment=TA_RIGHT if right else TA_LEFT,
        spaceBefore=before,
        spaceAfter=after,
        splitLongWords=True,
    )
    return Paragraph(markup, style)


def _story(document: Document) -> "Iterator[Flowable]":
    yield from _head(document)
    yield _tiles(document["tiles"])
    yield from _heading("What went wrong, and what to do")
    found = [(each["level"], each["what"], each["advice"]) for each in document["findings"]]
    yield _level_rows(found) if found else _paragraph("Nothing was measured.")
    for chart in document["charts"]:
        yield from _chart(chart)
    if document["best"]:
        yield from _heading("Best streams")
        yield _level_rows([("good", row["stream"], f"{row['reason']}.") for row in document["best"]])
    if document["streams"]:
        yield from _streams(document)
    if document["refusals"]:
        yield from _heading("Refused connections, by reason")
        yield _listing([(row["words"], number(row["count"]), "") for row in document["refusals"]])
    yield from _heading("More figures")
    more = document["more"]
    yield _listing([(tile["label"], with_unit(tile["value"], tile["unit"]), tile["comparison"]) for tile in more])
    yield _paragraph(_text(document["footnote"]), "small", colour=ASIDE)


def _head(document: Document) -> "Iterator[Flowable]":
    scope = f" · {document['scope_words']}" if document["scope"] else ""
    period, hours = document["period"], document["completeness"]
    yield _paragraph(_text(document["title"] + scope), colour=ASIDE, after=2)
    yield _paragraph(f"<b>{_text(period['words'])}</b>", "h1", after=6)
    lede = "".join(f"<b>{_text(part)}</b>" if bold else _text(part) for part, bold in marked(document["lede"]))
    yield _paragraph(lede, "lede", after=8)
    made = (
        f"Period {period['begins']} to {period['ends']} · Time zone {period['time_zone']} · Data {hours['done']} of "
        f"{hours['expected']} hours · Metrics version {document['metric_version']} · Made {document['made_words']}"
    )
    yield _paragraph(_text(made), "small", colour=ASIDE, after=8)
    for note in document["notes"]:
        yield _paragraph(f"<b>Note.</b> {_text(note)}", colour=COLOURS["warning"], after=6)


def _tiles(tiles: Sequence[Tile]) -> "Flowable":
    cells = [
        [
            _paragraph(_text(tile["label"]), "small", colour=ASIDE),
            _paragraph(f'<b>{_text(tile["value"])}</b> <font size="9">{_text(tile["unit"])}</font>', "value"),
            _paragraph(_text(tile["comparison"]), "small", colour=ASIDE),
        ]
        for tile in tiles
    ]
    rows = [cells[first : first + TILES_IN_ROW] for first in range(0, len(cells), TILES_IN_ROW)]
    frame = ("GRID", (0, 0), (-1, -1), 0.6, LINE)
    return _table(rows, [WIDTH / TILES_IN_ROW] * TILES_IN_ROW, [frame, *_padding(8, 6)])


def _level_rows(rows: Sequence[tuple[str, str, str]]) -> "Flowable":
    """Of each its level, what it is of in bold, and what is said of it."""
    cells = [[_level(level), _paragraph(f"<b>{_text(title)}</b> {_text(words)}")] for level, title, words in rows]
    return _table(cells, [68, WIDTH - 68], _padding(0, 3))


def _chart(chart: Chart) -> "Iterator[Flowable]":
    from reportlab.platypus import Image

    width, height = charts.SIZE
    drawn = Image(io.BytesIO(charts.png(chart)), WIDTH, WIDTH * height / width)
    yield from _heading(chart["title"], ROOM + drawn.drawHeight)
    yield _paragraph(_text(chart["caption"]), "small", colour=ASIDE, after=4)
    yield drawn


BREAKS = "breaks"
"""The column whose head the document says."""

COLUMNS: tuple[tuple[str, float, Callable[[StreamRow], str]], ...] = (
    ("Lost, min", 36, lambda row: short(lost_min(row))),
    (BREAKS, 38, lambda row: number(breaks(row))),
    ("Uptime, %", 42, lambda row: percent(row["uptime_percent"])),
    ("Live, h", 36, lambda row: short(row["live_h"])),
    ("Health score", 40, lambda row: number(row["health_percent"])),
    ("Median, kbit/s", 44, lambda row: number(row["p50"])),
    (
        "5th–95th percentile",
        66,
        lambda row: "" if row["p5"] is None else f"{number(row['p5'])} to {number(row['p95'])}",
    ),
    ("Below target, %", 44, lambda row: percent(row["below_percent"])),
    ("Peak players", 42, lambda row: number(row["peak_players"])),
)
"""Of a stream, after its name and its health: head, width, what stands there."""
NAME_WIDTH = WIDTH - sum(width for _, width, _ in COLUMNS)


def _streams(document: Document) -> "Iterator[Flowable]":
    streams = document["streams"]
    yield from _heading("Streams, most affected first")
    heads = (breaks_head(document) if name == BREAKS else name for name, _, _ in COLUMNS)
    head = [_small("Stream"), *(_small(name, right=True) for name in heads)]
    rows = [
        [_name(row), *(_small(show(row), TEXT, right=True) for _, _, show in COLUMNS)] for row in streams[:MOST_ROWS]
    ]
    lines = ("LINEBELOW", (0, 0), (-1, -1), 0.6, LINE)
    yield _table([head, *rows], [NAME_WIDTH, *(width for _, width, _ in COLUMNS)], [lines, *_padding(2, 4)], repeat=1)
    if len(streams) > MOST_ROWS:
        yield _paragraph(f"{number(len(streams) - MOST_ROWS)} more are in the CSV.", "small", colour=ASIDE)


def _name(row: StreamRow) -> "list[Flowable]":
    word = _text(f"{level_words(row['worst'])} {share(row)}".rstrip())
    worst = f'<font color="{COLOURS[row["worst"]]}"><b>{word}</b></font>'
    reason = f" {_text(row['reason'])}" if row["reason"] else ""
    return [_small(row["stream"], TEXT), _paragraph(f"{worst}{reason}", "small", colour=ASIDE)]


def _listing(rows: Sequence[tuple[str, str, str]]) -> "Flowable":
    cells = [
        [_small(label, TEXT), _small(value, TEXT, right=True), _small(aside, right=True)]
        for label, value, aside in rows
    ]
    lines = ("LINEBELOW", (0, 0), (-1, -1), 0.6, LINE)
    return _table(cells, [WIDTH * 0.45, WIDTH * 0.2, WIDTH * 0.35], [lines, *_padding(2, 3)])


def _heading(text: str, room: float = ROOM) -> "Iterator[Flowable]":
    """Never the last of a page. reportlab's `keepWithNext` would take a whole table to the next page with it."""
    from reportlab.platypus import CondPageBreak

    yield CondPageBreak(room)
    yield _paragraph(f"<b>{_text(text)}</b>", "h2", before=14, after=4)


def _level(level: str) -> "Paragraph":
    return _paragraph(f"<b>{_text(level_words(level))}</b>", colour=COLOURS[level])


def _small(text: str, colour: str = ASIDE, *, right: bool = False) -> "Paragraph":
    return _paragraph(_text(text).replace("\n", "<br/>"), "small", colour=colour, right=right)


def _padding(sides: float, ends: float) -> list[Any]:
    whole = ((0, 0), (-1, -1))
    return [
        ("LEFTPADDING", *whole, sides),
        ("RIGHTPADDING", *whole, sides),
        ("TOPPADDING", *whole, ends),
        ("BOTTOMPADDING", *whole, ends),
        ("VALIGN", *whole, "TOP"),
    ]


def _table(
    rows: Sequence[Sequence[Any]], widths: Sequence[float], style: Sequence[Any], *, repeat: int = 0
) -> "Flowable":
    from reportlab.platypus import Table, TableStyle

    return Table(rows, widths, repeatRows=repeat, style=TableStyle(list(style)), hAlign="LEFT", spaceAfter=4)
