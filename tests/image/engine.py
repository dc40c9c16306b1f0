"""What the check asks of a container engine: Docker as it is, or Podman (see `tests.image.podman`)."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.image import podman

ROOT = Path(__file__).parents[2]
DOCKERFILES = (ROOT / "Dockerfile", ROOT / "Dockerfile.pipeline")
PROJECT = "ottla-check"
"""Beside a project of compose.yaml's own name that may be up."""
WITHIN_S = 600
PROFILES = ("--profile", "pipeline", "--profile", "secure", "--profile", "cluster")
DOWN = (*PROFILES, "down", "--volumes")


DATABASE = "postgres:17-trixie"
"""An image that compose.yaml takes as it is."""


def base_images() -> list[str]:
    """What the images are built from, the files' own stages aside."""
    found = [re.findall(r"(?m)^FROM (\S+)(?: AS (\S+))?", path.read_text(encoding="utf-8")) for path in DOCKERFILES]
    stages = {stage for file in found for _, stage in file}
    return sorted({image for file in found for image, _ in file} - stages)


class CommandFailed(Exception):
    """A command of the engine failed; the message has what it said."""


class Engine:
    """One engine, and the project that is brought up with it."""

    name: str
    program: str
    compose: Sequence[str]

    def run(self, *command: str) -> str:
        """Run a command; gives its standard output."""
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, errors="replace")
        if done.returncode:
            said = (done.stdout + done.stderr).strip()
            raise CommandFailed(f"{' '.join(command)}: exit code {done.returncode}\n{said}")
        return done.stdout

    def build(self) -> None:
        """Make both images."""
        raise NotImplementedError

    def up(self, *arguments: str, profile: str = "") -> None:
        profiles = ["--profile", profile] if profile else []
        self.run(*self.compose, "-p", PROJECT, *profiles, "up", "--detach", "--no-build", *arguments)

    def down(self) -> None:
        self.run(*self.compose, "-p", PROJECT, *DOWN)

    def clear(self) -> None:
        """Remove all there is of the project, whatever its state."""
        self.down()

    def containers(self, service: str, *, ended: bool = False) -> list[str]:
        """The ids of a service's running containers, or also of those that have ended."""
        listing = ("ps", "--all") if ended else ("ps",)
        return self._listed(*listing, "--filter", f"label=com.docker.compose.service={service}")

    def everything(self) -> dict[str, list[str]]:
        """What there is of the project, by kind."""
        kinds = {"containers": ("ps", "--all"), "volumes": ("volume", "ls"), "networks": ("network", "ls")}
        return {kind: found for kind, listing in kinds.items() if (found := self._listed(*listing))}

    def _listed(self, *listing: str) -> list[str]:
        label = f"label=com.docker.compose.project={PROJECT}"
        return self.run(self.program, *listing, "--quiet", "--filter", label).split()

    def once(self, *arguments: str) -> str:
        """Run a service's program in a container of its own, to its end; gives its standard output."""
        once = ("--profile", "pipeline", "run", "--rm", "--no-deps", "-T", *arguments)
        return self.run(*self.compose, "-p", PROJECT, *once)

    def ottla(self, *arguments: str, service: str = "broker") -> str:
        """Run `ottla` in the container of a broker; gives its standard output."""
        return self.execute(service, "ottla", *arguments)

    def execute(self, service: str, *command: str) -> str:
        running = self.containers(service)
        if len(running) != 1:
            raise CommandFailed(f"{len(running)} containers of {service} are running, not one")
        return self.run(self.program, "exec", running[0], *command)

    def inspected(self, what: str, field: str) -> str:
        """A field of a container or an image."""
        return self.run(self.program, "inspect", "--format", f"{{{{{field}}}}}", what).strip()

    def log(self, container: str) -> str:
        done = subprocess.run(
            [self.program, "logs", container],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        return done.stdout

    def healthy(self, container: str) -> bool:
        """What the health check says."""
        raise NotImplementedError


class Docker(Engine):
    name = "Docker"
    program = "docker"
    compose = ("docker", "compose")

    def build(self) -> None:
        for image in (*base_images(), DATABASE):
            self.run("docker", "pull", "--quiet", image)
        self.run(*self.compose, "--profile", "pipeline", "build")

    def healthy(self, container: str) -> bool:
        return self.inspected(container, ".State.Health.Status") == "healthy"


class Podman(Engine):
    name = "Podman"
    program = "podman"
    compose = (sys.executable, "-m", "podman_compose", "--in-pod=0")

    def build(self) -> None:
        for tag, file in (("ottla:local", "Dockerfile"), ("ottla-pipeline:local", "Dockerfile.pipeline")):
            self.run("podman", "build", "--network=host", "--tag", tag, "--file", file, ".")

    def down(self) -> None:
        for _ in range(2):  # what --scale added counts as orphans, and the first time holds on to the rest
            self.run(*self.compose, "-p", PROJECT, *DOWN, "--remove-orphans")

    def clear(self) -> None:
        if there := self.run("podman", "ps", "--all", "--quiet").split():
            self.run("podman", "rm", "--force", "--depend", "--time", "0", "--volumes", *there)
        self.run("podman", "volume", "prune", "--force")

    def healthy(self, container: str) -> bool:
        # Nobody else runs it: Podman leaves that to systemd.
        command = ["podman", "healthcheck", "run", container]
        return subprocess.run(command, capture_output=True).returncode == 0


def docker_answers() -> bool:
    return shutil.which("docker") is not None and all(
        subprocess.run(["docker", *command], capture_output=True).returncode == 0
        for command in (["info"], ["compose", "version"])
    )


def engine() -> Engine:
    """The engine that can be had here.

    Raises:
        podman.Unavailable: there is none.
    """
    if docker_answers():
        return Docker()
    podman.prepare()
    return Podman()
