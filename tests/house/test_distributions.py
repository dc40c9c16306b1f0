"""What is published: a source distribution that a reader unpacks, installs as the README says, and uses and tests.

Nothing is fetched: what is needed comes from the environment that runs the tests.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.house.fences import Reader, fences
from tests.house.sources import PROJECT, ROOT
from tests.house.test_documents_run import ELSEWHERE
from tests.house.test_wheel import environment
from tests.support import processes

pytestmark = pytest.mark.slow

NAME = f"ottla-{PROJECT['version']}"
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
"""pip reads the second one as the value of the option ``--build-isolation``."""
USES_THE_FIXTURE = """
def test_broker(ottla_broker):
    assert ottla_broker.port > 0
"""


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = processes.without("PYTHON", "COV", "PIP_") | {"PATH": path}
    return processes.run(*command, cwd=cwd, env=kept | OFFLINE | more, timeout_s=600)


def checkout(home: Path) -> Path:
    """A copy of what git has, or of everything where there is no git."""
    home.mkdir()
    if (ROOT / ".git").exists() and shutil.which("git"):
        names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
        for name in filter(None, names):
            if not (ROOT / name).exists():
                continue  # it was removed
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, home / name, follow_symlinks=False)
    else:
        shutil.copytree(ROOT, home, dirs_exist_ok=True, symlinks=True)
    return home


def test_the_distributions(tmp_path: Path) -> None:
    """One test, as each part needs the one before."""
    source = checkout(tmp_path / "checkout")
    there = listed(source)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "dist", source, cwd=tmp_path)
    built = {path.name for path in (tmp_path / "dist").iterdir()}
    assert built == {f"{NAME}.tar.gz", f"{NAME}-py3-none-any.whl"}
    with tarfile.open(tmp_path / "dist" / f"{NAME}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / NAME
    check_source(there, listed(unpacked))
    check_wheel(tmp_path / "dist" / f"{NAME}-py3-none-any.whl")
    commands = environment(tmp_path / "environment")
    install = fences(unpacked / "README.md")[0].commands()[0][0]
    assert install == "pip install '.[http]'"
    run("bash", "-c", install, cwd=unpacked, PIP_PYTHON=str(commands / "python"))
    check_five_minutes(commands, unpacked, tmp_path)
    check_tests(commands, unpacked, tmp_path)


def listed(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


def check_source(there: set[str], packed: set[str]) -> None:
    """It has every file of the checkout, but what needs one."""
    assert {name for name in there - packed if not name.startswith((".ci/", ".git"))} == set(), "MANIFEST.in"
    made = {name for name in packed - there if not name.startswith(("ottla.egg-info/", "cli/docs/"))}  # made, or linked
    assert made == {"PKG-INFO", "setup.cfg"}


def check_wheel(wheel: Path) -> None:
    """What a registry shows of it; and the files of the data pipeline that are no modules."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        text = archive.read(f"{NAME}.dist-info/METADATA").decode()
    assert f"\nVersion: {PROJECT['version']}\n" in text and "\nLicense-Expression: Apache-2.0\n" in text
    assert "\nDescription-Content-Type: text/markdown\n" in text and "\n# Ottla\n" in text
    assert text.count("\nAuthor") == 1
    assert {name.split("/")[0] for name in names} == {"ottla", f"{NAME}.dist-info"}
    assert not {name for name in names if name.endswith(".toml")}
    sql = {f"ottla/{path.relative_to(ROOT)}" for path in (ROOT / "pipeline").rglob("*.sql")}
    assert sql and sql <= names
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {PROJECT['version']}" in changes, "the CHANGELOG has a section for this version"


def check_five_minutes(commands: Path, unpacked: Path, tmp_path: Path) -> None:
    """The README's commands, with what was installed: broker, console and clients."""
    home = tmp_path / "reader"
    home.mkdir()
    with Reader(home, commands) as reader:
        begin, five_minutes = (one for one in fences(unpacked / "README.md")[:3] if "$ ottla" in one.text)
        reader.say(*begin.commands()[1])
        reader.say("python -c 'import ottla.broker.app as app; print(app.__file__)'", [f"{commands.parent}…"])
        for name in (path.name for path in (ROOT / "observe/console").iterdir()):
            page = "" if name == "index.html" else name
            with urllib.request.urlopen(f"http://127.0.0.1:{reader.http_port}/{page}", timeout=10) as answer:
                assert answer.status == 200, name
        reader.follow(five_minutes, (*ELSEWHERE, "kcat"))


def check_tests(commands: Path, unpacked: Path, tmp_path: Path) -> None:
    """pytest finds the fixtures; tests of the source distribution run with what was installed from it."""
    (tmp_path / "test_fixture.py").write_text(USES_THE_FIXTURE)
    pytest_ = (commands / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert "1 passed" in run(*pytest_, "test_fixture.py", cwd=tmp_path)
    some = ("tests/house/test_sizes.py", "tests/house/test_documents.py", "tests/protocol/test_framing.py")
    assert " passed" in run(*pytest_, *some, cwd=unpacked)
