"""What holds for the project as a whole: import rules, locked dependencies, documents."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))


def test_the_import_rules_hold() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# --- Locked dependencies ---


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_names_no_registry_and_no_folder(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    assert not re.search(r"^\s*-", text.replace("    --hash", "hash"), re.MULTILINE), "no pip options"
    assert not re.search(r"(?<![\w.])/\w", text), "no folder of the machine that made it"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_locked_package_has_a_hash(lock: Path) -> None:
    entries = re.split(r"^(?=[a-z0-9])", lock.read_text(), flags=re.MULTILINE)
    packages = [entry for entry in entries if "==" in entry]
    assert packages
    for package in packages:
        assert "--hash=sha256:" in package, package.splitlines()[0]


def test_what_the_project_asks_for_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for lock, asked in (
        ("base", project["dependencies"]),
        ("dev", project["dependencies"] + project["optional-dependencies"]["dev"]),
    ):
        locked = set(
            re.findall(r"^([a-z0-9.-]+)==", (ROOT / "requirements" / f"{lock}.lock").read_text(), re.MULTILINE)
        )
        for requirement in asked:
            name = re.split(r"[^\w.-]", requirement)[0].split("~")[0].lower()
            assert name in locked, f"{name} is not in {lock}.lock: run make lock"


def test_the_front_end_lock_names_no_registry() -> None:
    assert '"resolved"' not in (ROOT / "package-lock.json").read_text()


# --- Documentation ---


def test_every_setting_is_documented() -> None:
    known = set(re.findall(r'env\.\w+\("([A-Z_]+)"', (ROOT / "rtmpweb" / "settings.py").read_text()))
    described = set(re.findall(r"^\| `([A-Z_]+)`", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE))
    assert known <= described, f"not in docs/operations.md: {known - described}"
    assert described <= known | {"JAVA_HOME"}, f"described, but not read: {described - known}"


def test_links_between_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.relative_to(ROOT)} -> {target}"


def test_the_table_of_protocol_support_names_code_and_tests_that_are_there() -> None:
    text = (ROOT / "docs" / "protocol-support.md").read_text()
    tests = "\n".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    for name in set(re.findall(r"\btest_\w+(?!\w|\.py)\b(?!\.py)", text)):
        assert f"def {name}(" in tests, name
    folders = (ROOT, ROOT / "ingest" / "rtmp", ROOT / "tests" / "ingest" / "rtmp")
    for path in set(re.findall(r"`([\w/]+(?:\.py|/))(?:::\w+)?`", text)):
        assert any((folder / path).exists() for folder in folders), path
    for state in re.findall(r"^\| [\d.-]+ \| [^|]+ \| ([^|]+) \|", text, re.MULTILINE):
        assert re.match(r"complete|partial: |not yet|not needed: ", state), state
