"""Pin what pyproject.toml asks for, with the hashes of all files of each version: ``make lock``.

A lock is for every supported Python and platform at once; markers tell where they differ. All locks are made together,
so that they can be installed on top of one another. Needs uv.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXTRAS = {
    "image": ("http", "oauth", "tls", "cluster"),  # Dockerfile
    "pipeline": ("spark",),  # Dockerfile.pipeline
    "test": ("demo", "test"),  # make test
    "spark": ("spark", "delta", "iceberg"),  # make test-spark
}
"""The locks of what the project itself needs, with the extras that are in each."""


def wanted() -> dict[str, list[str]]:
    """The requirements that each lock fulfils, as pyproject.toml has them, by the name of the lock."""
    told = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    core, extras = told["project"]["dependencies"], told["project"]["optional-dependencies"]

    def expanded(names: Iterable[str]) -> Iterator[str]:
        for name in names:
            for requirement in extras[name]:
                others = re.fullmatch(r"ottla\[([\w,-]+)\]", requirement)
                yield from expanded(others[1].split(",")) if others else [requirement]

    locks = {lock: sorted({*core, *expanded(names)}) for lock, names in EXTRAS.items()}
    return locks | {"build": told["build-system"]["requires"], "tools": told["dependency-groups"]["tools"]}


def pin(requirements: list[str], into: Path, *arguments: str) -> None:
    """Write the newest versions that go together."""
    command = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
    command += ["--no-annotate", "--custom-compile-command", "make lock", "--output-file", str(into), *arguments, "-"]
    subprocess.run(command, input="\n".join(requirements), text=True, check=True, cwd=HERE.parent)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        together = Path(folder) / "together.txt"
        locks = wanted()
        pin([requirement for lock in locks.values() for requirement in lock], together)
        for name, requirements in locks.items():
            path = HERE / f"{name}.txt"
            path.unlink(missing_ok=True)  # uv would keep its versions
            pin(requirements, path, "--constraint", str(together))


if __name__ == "__main__":
    main()
