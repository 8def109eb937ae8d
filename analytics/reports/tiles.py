"""The figures at the head of a report, each with what it was the period before, in words."""

from collections.abc import Callable
from dataclasses import dataclass

from analytics.reports.document import Figures, Tile
from analytics.reports.saying import NOTHING, data_size, number, percent, plural, short, with_unit

LEAST_CHANGE = 0.001
"""Of what it was: a smaller one is none."""

Compare = Callable[[Figures, Figures, str], str]
"""(now, then, what then is called): words."""


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    show: Callable[[Figures], tuple[str, str]]
    """Its value and unit."""
    compare: Compare


def _plain(
    name: str, unit: str = "", shown: Callable[[float | None], str] = short
) -> Callable[[Figures], tuple[str, str]]:
    def show(figures: Figures) -> tuple[str, str]:
        value = shown(figures.get(name))  # type: ignore[arg-type]
        return value, "" if value == NOTHING else unit

    return show


def _size(figures: Figures) -> tuple[str, str]:
    return data_size(figures["delivered_gb"])


def _was(show: Callable[[Figures], tuple[str, str]]) -> Compare:
    """ "week before: 99.7 %" """

    def compare(_: Figures, then: Figures, called: str) -> str:
        value, unit = show(then)
        return "" if value == NOTHING else f"{called}: {with_unit(value, unit)}"

    return compare


def _more(name: str, say: Callable[[float], str], fewer: str = "less") -> Compare:
    """ "12 h more" """

    def compare(now: Figures, then: Figures, called: str) -> str:
        change = now[name] - then[name]  # type: ignore[literal-required]
        if abs(change) <= LEAST_CHANGE * then[name]:  # type: ignore[literal-required]
            return f"as the {called}"
        return f"{say(abs(change))} {'more' if change > 0 else fewer}"

    return compare


def _share_more(name: str) -> Compare:
    """ "8 % more" """

    def compare(now: Figures, then: Figures, called: str) -> str:
        new, old = now[name], then[name]  # type: ignore[literal-required]
        if not old:
            return f"none the {called}" if new else f"as the {called}"
        change = 100 * (new - old) / old
        if abs(change) < 0.5:
            return f"as the {called}"
        return f"{with_unit(number(abs(change)), '%')} {'more' if change > 0 else 'less'}"

    return compare


def _attempts(now: Figures, _: Figures, __: str) -> str:
    tried = now["accepted"] + now["refused"]
    return f"{number(now['accepted'])} of {number(tried)} {plural(tried, 'attempt')}" if tried else "no attempts"


def _count(value: float) -> str:
    return number(round(value))


def _hours(value: float) -> str:
    return with_unit(short(value), "h")


LIVE = Row("Live time", _plain("live_h", "h"), _more("live_h", _hours))
UPTIME = Row("Uptime", _plain("uptime_percent", "%", percent), _was(_plain("uptime_percent", "%", percent)))
RECONNECTS = Row("Reconnects", _plain("reconnects", "", number), _more("reconnects", _count, "fewer"))
SUCCESS = Row("Publish success", _plain("success_percent", "%", percent), _attempts)
PLAYERS = Row("Player hours", _plain("player_hours"), _share_more("player_hours"))
DELIVERED = Row("Delivered", _size, _more("delivered_gb", lambda gigabytes: with_unit(*data_size(gigabytes))))

HEAD = (LIVE, UPTIME, RECONNECTS, SUCCESS, PLAYERS, DELIVERED)


def _told(label: str, name: str, unit: str = "", shown: Callable[[float | None], str] = short) -> Row:
    show = _plain(name, unit, shown)
    return Row(label, show, _was(show))


def _spread(figures: Figures) -> tuple[str, str]:
    return (NOTHING, "") if figures["cv"] is None else (number(100 * figures["cv"]), "%")


def _late(figures: Figures) -> tuple[str, str]:
    if not figures["gop"]:
        return NOTHING, ""
    return percent(sum(figures["gop"][name] for name in ("gop_6", "gop_10", "gop_longer"))), "%"


def _between(figures: Figures) -> tuple[str, str]:
    """More than all of the live time, where nothing broke."""
    if figures["mtbf_h"] is None:
        return (f"> {short(figures['live_h'])}", "h") if figures["live_h"] else (NOTHING, "")
    return short(figures["mtbf_h"]), "h"


MORE = (
    _told("Health", "health_percent", "%", percent),
    Row("Time between breaks", _between, _was(_between)),
    _told("Back after a break", "mttr_s", "s"),
    _told("Reconnects an hour", "reconnects_per_h"),
    _told("Below 70 % of target", "below_percent", "%", percent),
    _told("Connected, nothing sent", "starved_percent", "%", percent),
    _told("Missing frames, estimated", "missing_percent", "%", percent),
    _told("Timestamp jumps an hour", "gaps_per_h"),
    Row("Bitrate's spread", _spread, _was(_spread)),
    Row("Keyframes over 4 s apart", _late, _was(_late)),
    _told("Average players", "average_players"),
    _told("Peak players", "peak_players", "", number),
    _told("Streams at once", "peak_streams", "", number),
    _told("Plays", "plays", "", number),
    _told("Distinct players", "unique_players", "", number),
)
"""What else it counts."""


def tiles(rows: tuple[Row, ...], now: Figures, then: Figures | None, called: str) -> list[Tile]:
    """`called`: the period before, such as "week before". Without figures of it nothing is compared."""
    made: list[Tile] = []
    for row in rows:
        value, unit = row.show(now)
        compared = "" if then is None and row.compare is not _attempts else row.compare(now, then or now, called)
        made.append({"label": row.label, "value": value, "unit": unit, "comparison": compared})
    return made
