"""Whether bounds were kept."""

from typing import cast

from bench.bars import BARS, lines
from bench.cases import TABLE, Field
from bench.measure import FIGURES, Figures
from bench.peers import nginx, rtmpweb
from bench.table import Contest, Result


def result(name: str, figure: str, ours: list[float], theirs: list[float] | None = None) -> Result:
    def rounds(values: list[float]) -> list[Figures]:
        return [{figure: value, "other_cores": 0.0} for value in values]

    servers = {rtmpweb.NAME: rounds(ours)} | ({nginx.NAME: rounds(theirs)} if theirs else {})
    return Result(Contest(name, lambda start, seconds: {}, {}, nginx.NAME if theirs else ""), servers)


def test_a_ratio_is_the_median_of_rounds() -> None:
    found = lines([result("fan-out 300x5 Mbps", "cpu_s_per_gb", [0.9, 1.0, 2.0], [1.0, 1.0, 1.0])])
    assert found == [["fan-out 300x5 Mbps: CPU/GB, x nginx", "<= 0.95", "1", "0.9 to 2", "no"]]


def test_some_are_to_be_large() -> None:
    (kept,) = lines([result("connect cycles node", "cycles_per_cpu_s", [300.0, 260.0, 240.0])])
    assert kept[1:] == [">= 250", "260", "240 to 300", "yes"]


def test_a_form_of_our_own_is_no_peer() -> None:
    field = Field("node", cast("rtmpweb.Template", None), "none")
    contest = TABLE["fanout-300x5"](field)
    rounds: list[Figures] = [{"cpu_s_per_gb": 1.0, "other_cores": 0.0}]
    assert len(contest.servers) > 1
    assert lines([Result(contest, dict.fromkeys(contest.servers, rounds))]) == []


def test_a_figure_at_its_bound_is_kept() -> None:
    (kept,) = lines([result("nobody connected, embedded", "busy_cores", [0.02])])
    assert kept[2:] == ["0.02", "", "yes"]


def test_each_is_about_a_case_of_the_table_and_a_figure_that_there_is() -> None:
    field = Field("node", cast("rtmpweb.Template", None), "nginx")  # Nothing is started.
    cases = {contest.name: contest for contest in (make(field) for make in TABLE.values())}
    for bar in BARS:
        assert bar.case in cases
        assert bar.server in cases[bar.case].servers
        assert bar.figure == "ratio" or bar.figure in FIGURES
