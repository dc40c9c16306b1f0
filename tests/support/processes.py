"""Programs that tests run to their end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command: str, timeout_s: float = 120, code: int = 0, stdin: str = "") -> str:
    """Run a program in the repository's root, which must end with this exit code; gives what it printed."""
    done = subprocess.run(
        command, cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == code, f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def python(module: str, *arguments: str, timeout_s: float = 120, code: int = 0) -> str:
    """The same of a Python module, such as ``ottla.cli``."""
    return run(sys.executable, "-m", module, *arguments, timeout_s=timeout_s, code=code)
