"""Every file and name that CONTRIBUTING.md sends a newcomer to is there: files from the root, names in the files that
the same recipe speaks of.
"""

import re
from pathlib import Path

import pytest

from tests.server_process import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text()

FILE = re.compile(r"(?=.*/|.*\.md$)[\w.-]+(/[\w.-]+)*(/|\.(py|md|js|html|txt|toml|jsonl))")
NAME = re.compile(r"@?[A-Za-z_]\w*(\.\w+)*(\(\.\.\.\))?")
COMMANDS = ("make", "manage.py", ".venv/bin/python", "TESTS_FORM=production")
MADE = ("var/",)
"""What only a run has."""


def recipes() -> list[tuple[str, str]]:
    """Each with its title: it begins in bold, and ends before the next one."""
    _, _, text = TEXT.partition("## Where to add")
    return re.findall(r"^\*\*(.+?)\*\*(.*?)(?=^\*\*|\Z)", text, re.DOTALL | re.MULTILINE)


RECIPES = recipes()


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def files(text: str) -> list[str]:
    return [each for each in quoted(text) if FILE.fullmatch(each) and not each.startswith(MADE)]


def test_contributing_has_recipes() -> None:
    assert len(RECIPES) > 25


def test_every_file_named_in_contributing_exists() -> None:
    links = [each for each in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in each]
    words = [
        word for each in quoted(TEXT) if each.startswith(COMMANDS) for word in each.split() if FILE.fullmatch(word)
    ]
    missing = [each for each in [*files(TEXT), *links, *words] if not (ROOT / each).exists()]
    assert not missing, f"CONTRIBUTING.md names what is not there: {', '.join(missing)}"


@pytest.mark.parametrize(("title", "body"), RECIPES, ids=[title for title, _ in RECIPES])
def test_every_name_is_in_the_files_of_its_recipe(title: str, body: str) -> None:
    text = "\n".join(_contents(ROOT / each) for each in files(title + body))
    names = {each.removeprefix("@").removesuffix("(...)").rpartition(".")[2] for each in quoted(body) if _is_name(each)}
    missing = sorted(name for name in names if not re.search(rf"\b{re.escape(name)}\b", text))
    assert not missing, f"No file of the recipe “{title}” has {', '.join(missing)}"


def _is_name(text: str) -> bool:
    return bool(NAME.fullmatch(text)) and not FILE.fullmatch(text)


def _contents(path: Path) -> str:
    if path.is_dir():
        found = [each for each in path.rglob("*") if each.suffix in (".py", ".js", ".html", ".md")]
        return "\n".join(each.read_text() for each in found)
    return path.read_text() if path.exists() else ""
