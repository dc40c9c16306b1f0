"""The wheel, built and installed in an environment of its own, has every module, and every module can be imported.

Modules of the data pipeline need what the extra ``spark`` brings; where it is not installed they may say so.
"""

from __future__ import annotations

import json
import shutil
import site
import sys
import sysconfig
import venv
import zipfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tests.house.sources import PROJECT, ROOMS, ROOT, room_modules
from tests.support import processes

OF_SPARK = {"numpy", "pandas", "pyarrow", "pyspark"}
"""What the extra ``spark`` brings, and ``test`` does not: only the data pipeline may lack it."""

IMPORT_ALL = f"""
import importlib, json, os, pkgutil
import ottla
names, places, missing = [], set(), {{}}

def import_all(paths, prefix):
    for module in pkgutil.iter_modules(paths, prefix):
        if module.name.endswith("__main__"):
            continue  # it is there to run, not to be imported
        names.append(module.name)
        try:
            places.add(importlib.import_module(module.name).__file__)
        except ModuleNotFoundError as error:
            name = (error.name or "").partition(".")[0]
            if not module.name.startswith("ottla.pipeline.") or name not in {sorted(OF_SPARK)}:
                raise
            missing[module.name] = name
        if module.ispkg:
            import_all([os.path.join(path, module.name.rpartition(".")[2]) for path in paths], module.name + ".")

import_all(list(ottla.__path__), "ottla.")
about = {{"names": names, "places": sorted(places), "missing": missing, "init": getattr(ottla, "__file__", None)}}
print(json.dumps(about))
"""


run = partial(processes.run, env=processes.without("PYTHON", "COV"))


def build_wheel(tmp_path: Path) -> Path:
    """Built from a copy, so that nothing is left in the source tree and nothing left there gets in."""
    source, out = tmp_path / "source", tmp_path / "wheel"
    out.mkdir()
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-c", f"from setuptools import build_meta; build_meta.build_wheel({str(out)!r})", cwd=source)
    (built,) = out.glob("*.whl")
    return built


def environment(home: Path) -> Path:
    """A fresh environment without Ottla. Dependencies are those of the environment that runs the tests.

    They are joined by a path file, which does not carry over an editable install of ottla itself.

    Returns:
        The folder of its commands.
    """
    venv.create(home, with_pip=False)
    target = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    others = dict.fromkeys([*site.getsitepackages(), sysconfig.get_path("platlib")])
    (target / "dependencies.pth").write_text("\n".join(others) + "\n")
    return home / "bin"


def install(wheel: Path, home: Path) -> Path:
    """A fresh environment with the wheel in it. Returns the folder of its commands."""
    commands = environment(home)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", home / "bin" / "python")
    run(*pip, "install", "--no-deps", "--no-index", "--quiet", wheel, cwd=home)
    return commands


def test_the_wheel(tmp_path: Path) -> None:
    """One test, so that parallel workers do not each build it."""
    wheel = build_wheel(tmp_path)
    check_contents(wheel)
    commands = install(wheel, tmp_path / "environment")
    check_imports(commands)
    check_command(commands)
    check_dependencies(commands)


def check_contents(wheel: Path) -> None:
    """It holds the rooms with the files of the console, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"ottla"}
    assert {name.split("/")[1] for name in names if name.startswith("ottla/")} == set(ROOMS)
    modules = (name.removesuffix(".py").replace("/", ".") for name in names if name.endswith(".py"))
    assert {module.removesuffix(".__init__") for module in modules} == room_modules()
    console = {f"ottla/{path.relative_to(ROOT)}" for path in (ROOT / "observe/console").iterdir()}
    assert "ottla/observe/console/index.html" in console
    assert console <= set(names)
    pages = {f"ottla/cli/docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert {name for name in names if name.startswith("ottla/cli/docs/")} == pages


def check_imports(commands: Path) -> None:
    """Every module can be imported, and comes from the wheel; those of the data pipeline where there is Spark."""
    imported = json.loads(run(commands / "python", "-c", IMPORT_ALL, cwd=commands))
    assert set(imported["names"]) == {name for name in room_modules() if not name.endswith("__main__")}
    assert all(place.startswith(str(commands.parent)) for place in imported["places"])
    assert imported["init"] is None, "ottla is a namespace package"
    absent = {name for name in OF_SPARK if find_spec(name) is None}
    assert set(imported["missing"].values()) <= absent, imported["missing"]


def check_command(commands: Path) -> None:
    """``ottla`` is there and knows its version; whatever else is an entry point can be loaded."""
    assert "serve" in run(commands / "ottla", "--help", cwd=commands)
    assert PROJECT["version"] in run(commands / "ottla", "--version", cwd=commands)
    load = "from importlib.metadata import distribution; print([e.load() for e in distribution('ottla').entry_points])"
    assert "| 70 |" in run(commands / "ottla", "help", "exit-codes", cwd=commands)
    assert "ottla.testing.plugin" in run(commands / "python", "-c", load, cwd=commands)


def check_dependencies(commands: Path) -> None:
    """Broker, client and command import nothing that only the tests bring."""
    listed = (
        "import sys, ottla.broker.app, ottla.cli.main, ottla.clients;"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    loaded = set(run(commands / "python", "-c", listed, cwd=commands).split())
    assert {"click", "msgspec"} <= loaded
    assert not loaded & {"hypothesis", "pytest", "kio", "kafka", "aiokafka", "confluent_kafka", "snappy", "lz4"}


def test_the_images_have_the_pages_too() -> None:
    """In the tree cli/docs is a link, which a build of an image does not follow."""
    assert (ROOT / "cli" / "docs").readlink() == Path("../docs")
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines.index("!cli") < lines.index("cli/docs") < lines.index("!docs")
    for name in ("Dockerfile", "Dockerfile.pipeline"):
        steps = (ROOT / name).read_text().splitlines()
        assert steps.index("COPY docs cli/docs") == steps.index("COPY cli cli") + 1
