"""Compare the locks with published advisories: ``make audit``.

Exit code 1 if a version that is installed has a known vulnerability. Where the advisories cannot be reached the last
line begins with ``skipped:``, as nothing can be said then.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def report(lock: Path) -> dict[str, Any]:
    """What pip-audit knows about the versions of a lock; with a ``failure`` instead if it could not ask."""
    program = shutil.which("pip-audit", path=str(Path(sys.executable).parent)) or "pip-audit"
    command = [program, "--disable-pip", "--require-hashes", "--requirement", str(lock), "--format", "json"]
    done = subprocess.run([*command, "--progress-spinner", "off"], capture_output=True, text=True)
    try:
        told: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {"failure": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    return told


def verdict(reports: dict[str, dict[str, Any]]) -> tuple[list[str], int]:
    """The lines to print and the exit code, for the reports of locks by their names."""
    lines, known, unknown = [], set(), {}
    for lock, told in reports.items():
        if "failure" in told:
            unknown[lock] = told["failure"]
        for one in told.get("dependencies", ()):
            if "skip_reason" in one:
                unknown[one["name"]] = one["skip_reason"]
                continue
            known.add((one["name"], one["version"]))
            for flaw in one["vulns"]:
                mended = f", mended in {', '.join(flaw['fix_versions'])}" if flaw["fix_versions"] else ""
                lines.append(f"vulnerable: {one['name']} {one['version']} ({lock}.txt): {flaw['id']}{mended}")
    code = 1 if lines else 0
    lines.append(f"{len(known)} packages were compared with the advisories")
    if unknown:
        name, reason = next(iter(unknown.items()))
        lines.append(f"skipped: the advisories of {len(unknown)} could not be asked for, {name} for one: {reason}")
    return lines, code


if __name__ == "__main__":
    said, code = verdict({lock.stem: report(lock) for lock in sorted(HERE.glob("*.txt"))})
    print("\n".join(said))
    sys.exit(code)
