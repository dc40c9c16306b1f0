"""Suites whose sources are crates: fetched from crates.io by cargo, and checked by it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.interop.suite import NotAvailable, Place, checked

_MANIFEST = """\
[package]
name = "ottla-interop"
version = "0.0.0"
edition = "2021"

[lib]
path = "nothing.rs"

[dependencies]
{name} = "={version}"
"""


def rust_version() -> str:
    """``1.95.0``."""
    return checked(["rustc", "--version"]).split()[1]


def copied_crate(place: Place, name: str, version: str) -> Path:
    """A writable copy of a crate in the suite's cache.

    Raises:
        NotAvailable: it could not be fetched.
    """
    target = place.cache / f"{name}-{version}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=place.cache) as folder:
            asked = Path(folder) / "Cargo.toml"
            asked.write_text(_MANIFEST.format(name=name, version=version), "utf-8")
            (asked.parent / "nothing.rs").touch()
            told = checked(["cargo", "metadata", "--quiet", "--format-version=1", f"--manifest-path={asked}"])
            # What cargo says besides, of the index and of downloads, stands before it.
            packages = json.loads(told[told.index("{") :])["packages"]
            found = next(package for package in packages if package["name"] == name)
            copy = Path(folder) / "copy"
            shutil.copytree(Path(found["manifest_path"]).parent, copy)
            os.replace(copy, target)
    return target


def built_tests(source: Path, target: Path, names: Sequence[str]) -> dict[str, Path]:
    """Build some of a crate's integration tests, with the versions that its lock file names: name → program.

    Raises:
        NotAvailable: it does not build; the reason has the end of what was printed.
    """
    command = ["cargo", "test", "--locked", "--no-run", "--message-format=json"]
    command += [part for name in names for part in ("--test", name)]
    env = {**os.environ, "CARGO_TARGET_DIR": str(target), "RUSTUP_TOOLCHAIN": toolchain()}
    done = subprocess.run(command, cwd=source, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotAvailable(f"`cargo test --no-run` failed: {' '.join(done.stderr.split())[-300:]}")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    programs = {row["target"]["name"]: Path(row["executable"]) for row in found if row.get("executable")}
    return {name: programs[name] for name in names}


def toolchain() -> str:
    """rustup's own choice: a crate may ask for a toolchain that is not here. Nothing where there is no rustup."""
    try:
        shown = subprocess.run(["rustup", "default"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return shown.stdout.partition(" ")[0].strip()
