"""Carries out a Dockerfile without a container engine, as far as that can be done.

Every stage gets an empty directory as its root. COPY takes what .dockerignore lets through; RUN is run by the shell
with the absolute paths of the image put below that root, and with this machine's Python for the base image's. What
would change this machine (making a user) is only printed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

# Directories of the image that its instructions may name.
IMAGE_PATHS = ("/opt/", "/src", "/var/lib/")
PRELUDE = r"""
set -eu
groupadd() { echo "    (not run here: groupadd $*)"; }
useradd() { echo "    (not run here: useradd $*)"; }
if [ "$(id -u)" != 0 ]; then
    install() { echo "    (owner left out: install $*)"; for last; do :; done; mkdir -p "$last"; }
fi
"""


class StepFailed(Exception):
    """An instruction cannot be carried out; the message says which, and why."""


@dataclass(frozen=True)
class Instruction:
    """One instruction, its continuation lines joined."""

    name: str
    arguments: str


def parse(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile."""
    instructions = []
    logical = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#") or not (line.strip() or logical):
            continue
        logical += line.strip().removesuffix("\\")
        if line.rstrip().endswith("\\"):
            continue
        name, _, arguments = logical.partition(" ")
        instructions.append(Instruction(name.upper(), arguments.strip()))
        logical = ""
    return instructions


def context_files(root: Path) -> list[Path]:
    """The files that the build gets to see, relative to the root, by .dockerignore."""
    patterns = [line.strip() for line in (root / ".dockerignore").read_text(encoding="utf-8").splitlines()]
    patterns = [pattern for pattern in patterns if pattern and not pattern.startswith("#")]
    found = []
    for folder, folders, names in os.walk(root):
        here = Path(folder).relative_to(root)
        folders[:] = [name for name in folders if name != ".git"]
        found += [here / name for name in names if not _ignored(here / name, patterns)]
    return sorted(found)


def _ignored(path: Path, patterns: list[str]) -> bool:
    ignored = False
    for pattern in patterns:
        plain = pattern.removeprefix("!")
        if any(_matches(part, plain) for part in (path, *path.parents) if part != Path(".")):
            ignored = not pattern.startswith("!")
    return ignored


def _matches(path: Path, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatchcase(path.name, pattern.removeprefix("**/"))
    return len(path.parts) == len(Path(pattern).parts) and fnmatchcase(path.as_posix(), pattern)


@dataclass
class Image:
    """The last stage, carried out.

    Attributes:
        root: its root directory.
        environment: what ENV set, paths rewritten.
        settings: the last arguments of USER, WORKDIR, VOLUME, EXPOSE, ENTRYPOINT, CMD, HEALTHCHECK.
    """

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)

    def command(self, name: str) -> list[str]:
        """The exec form of ENTRYPOINT, CMD or HEALTHCHECK."""
        text = self.settings[name]
        parsed = json.loads(text[text.index("[") :])
        return [str(part) for part in parsed]


class Build:
    """Carries out the stages one after the other, each in ``work/root``, which is the image's ``/``."""

    def __init__(self, context: Path, work: Path) -> None:
        self._context = context
        self._files = context_files(context)
        self._work = work
        self._stages: dict[str, Path] = {}
        self._name = ""
        self._folder = "/"
        self.image = Image(work / "root")

    def run(self) -> Image:
        """All of it; gives the last stage."""
        for instruction in parse((self._context / "Dockerfile").read_text(encoding="utf-8")):
            print(f"  {instruction.name} {instruction.arguments}"[:160], flush=True)
            self._carry_out(instruction)
        return self.image

    def _carry_out(self, instruction: Instruction) -> None:
        arguments = instruction.arguments
        match instruction.name:
            case "FROM":
                self._begin_stage(arguments)
            case "WORKDIR":
                self._folder = arguments
                self._inside(arguments).mkdir(parents=True, exist_ok=True)
                self.image.settings["WORKDIR"] = arguments
            case "RUN":
                self._shell(arguments)
            case "COPY":
                self._copy(arguments)
            case "ENV":
                for pair in shlex.split(arguments):
                    key, _, value = pair.partition("=")
                    self.image.environment[key] = self._rewritten(value)
            case "USER" | "VOLUME" | "EXPOSE" | "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
                self.image.settings[instruction.name] = arguments
            case "LABEL":
                pass
            case other:
                raise StepFailed(f"Dockerfile: {other} is not known here")

    def _begin_stage(self, arguments: str) -> None:
        image, *rest = arguments.split()
        if not re.fullmatch(r"[\w./-]+:[\w.-]*\d[\w.-]*", image):
            raise StepFailed(f"Dockerfile: FROM {image} is not pinned by a version tag")
        root = self.image.root
        if self._name:
            # Virtual environments hold absolute paths: a stage is put away, and the next has the same root.
            self._stages[self._name] = root.rename(self._work / f"stage-{self._name}")
        root.mkdir(parents=True)
        self._name = rest[1] if rest[:1] in (["AS"], ["as"]) else "last"
        self._folder = "/"
        self.image = Image(root)

    def _inside(self, path: str) -> Path:
        """A path of the image on this machine."""
        return self.image.root / path.lstrip("/") if path.startswith("/") else self._inside(self._folder) / path

    def _rewritten(self, text: str) -> str:
        """A text with the image's absolute paths put below the stage's root."""
        return re.sub(
            r"(?<![\w/.-])(" + "|".join(map(re.escape, IMAGE_PATHS)) + ")", lambda m: f"{self.image.root}{m[1]}", text
        )

    def _shell(self, script: str) -> None:
        tools = self._work / "tools"
        tools.mkdir(exist_ok=True)
        python = tools / "python"
        if not python.exists():
            # The interpreter below the environment that this runs in, as the base image's is below none.
            python.write_text(f'#!/bin/sh\nexec "{sys._base_executable}" "$@"\n', encoding="utf-8")  # type: ignore[attr-defined]
            python.chmod(0o755)
        self.image.root.joinpath("var/lib").mkdir(parents=True, exist_ok=True)
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("OTTLA_", "KAFKA_", "PYTHON", "VIRTUAL_"))
        }
        environment = {**kept, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(
            ["sh", "-c", PRELUDE + self._rewritten(script)],
            cwd=self._inside(self._folder),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise StepFailed(f"RUN {script}: exit code {done.returncode}\n{done.stdout}")
        for line in done.stdout.splitlines():
            if line.startswith("    ("):
                print(line)

    def _copy(self, arguments: str) -> None:
        *sources, target = [part for part in shlex.split(arguments) if not part.startswith("--")]
        stage = re.search(r"--from=(\S+)", arguments)
        if stage:
            for source in sources:
                shutil.copytree(self._stages[stage[1]] / source.lstrip("/"), self._inside(target), symlinks=True)
            return
        for source in sources:
            found = [path for path in self._files if path == Path(source) or Path(source) in path.parents]
            if not found:
                raise StepFailed(f"Dockerfile: COPY {source}: .dockerignore lets nothing of it through")
            for path in found:
                # A folder's content is copied into the target, a file under its own name.
                inner = path.relative_to(source) if path != Path(source) else Path(path.name)
                to = self._inside(target) / inner
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self._context / path, to)
