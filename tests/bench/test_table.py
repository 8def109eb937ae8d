"""How rounds become a table, and whether bounds were kept."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import cast

import pytest

from bench.bars import BARS, lines
from bench.cases import TABLE, Field
from bench.measure import FIGURES, Figures
from bench.peers import Server, Start, nginx, rtmpweb
from bench.table import Contest, Result, markdown, run_rounds, save


def figures(cost: float, others: float = 0.0) -> Figures:
    return {"cpu_s_per_gb": cost, "other_cores": others, "lost": 0}


def result(ours: list[Figures], theirs: list[Figures]) -> Result:
    contest = Contest("ingest", lambda start, seconds: {}, {}, "theirs")
    return Result(contest, {"ours": ours, "theirs": theirs})


def test_ratio_is_the_median_of_each_rounds_own_ratio() -> None:
    """Of medians it would be 3 / 3."""
    found = result([figures(cost) for cost in (2, 3, 8)], [figures(cost) for cost in (1, 3, 4)])
    assert found.ratio("ours") == "2.00"
    assert found.ratio("theirs") == ""
    assert found.median("ours")["cpu_s_per_gb"] == 3


def test_rounds_with_noise_are_left_out_and_a_ratio_of_noise_alone_says_so() -> None:
    ours = [figures(2), figures(9, others=1.0), figures(9)]
    theirs = [figures(1), figures(1), figures(1, others=1.0)]
    assert result(ours, theirs).ratio("ours") == "2.00"
    assert result([figures(2, others=1.0)], [figures(1)]).ratio("ours") == "~2.00"


def test_other_figures_make_another_table() -> None:
    ingest = result([figures(2)], [figures(1)])
    connect = Contest("connect", lambda start, seconds: {}, {}, "theirs", "cycles_per_cpu_s")
    cycles: list[Figures] = [{"cycles_per_cpu_s": 70, "other_cores": 0}]
    first, second = markdown([ingest, Result(connect, {"ours": cycles, "theirs": cycles})]).split("\n\n")
    assert first.splitlines()[0] == "| case | server | ratio | CPU s/GB | lost | others |"
    assert first.splitlines()[2] == "| ingest | ours | 2.00 | 2.00 | 0 | 0.00 |"
    assert second.splitlines()[0] == "| case | server | ratio | cycles/CPU s | others |"
    assert second.splitlines()[3] == "| connect | theirs |  | 70 | 0.00 |"


def test_rounds_are_interleaved(tmp_path: Path) -> None:
    order: list[str] = []

    def start_of(name: str) -> Start:
        return lambda: nullcontext(Server(0, name, "bench", str))

    def measure(start: Start, seconds: float) -> Figures:
        with start() as server:
            order.append(server.url)
        return figures(seconds)

    servers = {name: start_of(name) for name in ("ours", "theirs")}
    results = run_rounds(
        [Contest("first", measure, servers, "theirs"), Contest("second", measure, servers, "theirs")],
        rounds=2,
        seconds=5,
    )
    assert order == ["ours", "theirs"] * 4
    lines = markdown(results).splitlines()
    assert [line.split(" | ")[:3] for line in lines[2:]] == [
        ["| first", "ours", "1.00"],
        ["| first", "theirs", ""],
        ["| second", "ours", "1.00"],
        ["| second", "theirs", ""],
    ]
    assert len({line.count("|") for line in lines}) == 1
    save(results, tmp_path / "rounds.json")
    rows = json.loads((tmp_path / "rounds.json").read_text())["rows"]
    assert [(row["case"], row["server"], row["round"]) for row in rows][:3] == [
        ("first", "ours", 0),
        ("first", "ours", 1),
        ("first", "theirs", 0),
    ]


def of_case(name: str, figure: str, ours: list[float], theirs: list[float] | None = None) -> Result:
    def rounds(values: list[float]) -> list[Figures]:
        return [{figure: value, "other_cores": 0.0} for value in values]

    servers = {rtmpweb.NAME: rounds(ours)} | ({nginx.NAME: rounds(theirs)} if theirs else {})
    return Result(Contest(name, lambda start, seconds: {}, {}, nginx.NAME if theirs else ""), servers)


@pytest.mark.parametrize(
    ("name", "figure", "ours", "theirs", "told"),
    [
        (
            *("fan-out 300x5 Mbps", "cpu_s_per_gb", [0.9, 1.0, 2.0], [1.0, 1.0, 1.0]),
            ["fan-out 300x5 Mbps: CPU/GB, x nginx", "<= 0.95", "1", "0.9 to 2", "no"],
        ),
        (
            "connect cycles node",
            "cycles_per_cpu_s",
            [300.0, 260.0, 240.0],
            None,
            [">= 250", "260", "240 to 300", "yes"],
        ),
        ("nobody connected, embedded", "busy_cores", [0.02], None, ["0.02", "", "yes"]),
    ],
    ids=["a ratio is the median of rounds", "some are to be large", "a figure at its bound is kept"],
)
def test_bound_is_listed_with_its_measured_value_and_verdict(
    name: str, figure: str, ours: list[float], theirs: list[float] | None, told: list[str]
) -> None:
    (line,) = lines([of_case(name, figure, ours, theirs)])
    assert line[-len(told) :] == told


def test_contest_of_only_our_own_servers_is_checked_against_no_bound() -> None:
    field = Field("node", cast("rtmpweb.Template", None), "none")
    contest = TABLE["fanout-300x5"](field)
    rounds: list[Figures] = [{"cpu_s_per_gb": 1.0, "other_cores": 0.0}]
    assert len(contest.servers) > 1
    assert lines([Result(contest, dict.fromkeys(contest.servers, rounds))]) == []


def test_each_bound_names_an_existing_case_server_and_figure() -> None:
    field = Field("node", cast("rtmpweb.Template", None), "nginx")  # Nothing is started.
    cases = {contest.name: contest for contest in (make(field) for make in TABLE.values())}
    for bar in BARS:
        assert bar.case in cases
        assert bar.server in cases[bar.case].servers
        assert bar.figure == "ratio" or bar.figure in FIGURES
