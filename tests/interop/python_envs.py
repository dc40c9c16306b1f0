"""Suites in Python: environments of their own, and source distributions, all from PyPI and into the suite's cache."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.interop.suite import NotAvailable, Place, checked

PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]


def python_version() -> str:
    return f"Python {sys.version_info.major}.{sys.version_info.minor}"


def environment(place: Place, name: str, *requirements: str) -> Path:
    """The python of a virtual environment that has the requirements; quick when it was made before.

    Raises:
        NotAvailable: pip could not install them.
    """
    home = place.cache / name
    wanted = "\n".join([*requirements, sys.version])
    done = home / "requirements.done"
    python = home / "bin" / "python"
    if done.exists() and done.read_text("utf-8") == wanted:
        return python
    shutil.rmtree(home, ignore_errors=True)
    checked([sys.executable, "-m", "venv", str(home)])
    checked([str(python), *PIP, "install", *requirements])
    done.write_text(wanted, "utf-8")
    return python


def source(place: Place, requirement: str) -> Path:
    """The unpacked source distribution of ``name==version``, as it was released.

    Raises:
        NotAvailable: it could not be fetched.
    """
    target = place.cache / "sources" / requirement.replace("==", "-")
    if target.exists():
        return target
    target.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.cache) as scratch:
        name = requirement.partition("==")[0]
        fetch = ["download", "--no-deps", "--no-binary", name, "--dest", scratch, requirement]
        checked([sys.executable, *PIP, *fetch])
        [archive] = Path(scratch).glob("*.tar.gz")
        unpacked = Path(scratch) / "unpacked"
        with tarfile.open(archive) as packed:
            packed.extractall(unpacked, filter="data")
        found = list(unpacked.iterdir())
        if len(found) != 1:
            raise NotAvailable(f"{archive.name} has {len(found)} folders at its top")
        os.replace(found[0], target)
    return target
