"""How rounds become a table."""

import json
from contextlib import nullcontext
from pathlib import Path

from bench.measure import Figures
from bench.peers import Server, Start
from bench.table import Contest, Result, markdown, run_rounds, save


def figures(cost: float, others: float = 0.0) -> Figures:
    return {"cpu_s_per_gb": cost, "other_cores": others, "lost": 0}


def result(ours: list[Figures], theirs: list[Figures]) -> Result:
    contest = Contest("ingest", lambda start, seconds: {}, {}, "theirs")
    return Result(contest, {"ours": ours, "theirs": theirs})


def test_the_ratio_is_taken_in_each_round() -> None:
    """Of medians it would be 3 / 3."""
    found = result([figures(cost) for cost in (2, 3, 8)], [figures(cost) for cost in (1, 3, 4)])
    assert found.ratio("ours") == "2.00"
    assert found.ratio("theirs") == ""
    assert found.median("ours")["cpu_s_per_gb"] == 3


def test_rounds_with_noise_are_left_out() -> None:
    ours = [figures(2), figures(9, others=1.0), figures(9)]
    theirs = [figures(1), figures(1), figures(1, others=1.0)]
    assert result(ours, theirs).ratio("ours") == "2.00"


def test_a_ratio_of_noise_alone_says_so() -> None:
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
