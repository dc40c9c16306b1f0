"""Servers of PostgreSQL: the programs that are installed, a directory for each, as an ordinary user."""

from __future__ import annotations

import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from examples.demo.processes import Failed

USER = "ottla"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "on",
    "max_connections": "100",
    "wal_retrieve_retry_interval": "50ms",
    "log_min_messages": "warning",
}
SYNCHRONOUS = {"wal_keep_size": "512MB", "synchronous_standby_names": "ANY 1 (standby)"}


def programs() -> Path | None:
    """Where the programs of the newest server are; None if none is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    where = shutil.which("postgres")
    return found[-1].parent if found else Path(where).parent if where else None


def _ordinary_user() -> str | None:
    """As whom a server runs: it refuses to be root. None for whoever runs this."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in known)


def free_port() -> int:
    """A port that is free, and below those that the system gives to connections: it stays free for a restart."""
    while True:
        port = random.randrange(20_000, 32_768)
        with suppress(OSError), socket.socket() as one:
            one.bind(("127.0.0.1", port))
            return port


class PostgresServer:
    """One server. It is up from `start` to `stop`, and then its directory is still there."""

    def __init__(self, directory: Path, port: int | None = None) -> None:
        self.data = directory
        self.port = port or free_port()
        self._programs = programs()
        self._user = _ordinary_user()

    def run(self, program: str, *arguments: str) -> None:
        assert self._programs is not None
        command = [str(self._programs / program), *arguments]
        # Not to a pipe: a server that goes on in the background would keep it open.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                command,
                user=self._user,
                group=self._user and _group(self._user),
                extra_groups=[] if self._user else None,
                cwd="/",
                stdout=said,
                stderr=said,
                timeout=120,
            )
            said.seek(0)
            if done.returncode:
                raise Failed(f"{' '.join(command)} ended with exit code {done.returncode}: {said.read().decode()}")

    def create(self) -> None:
        """Make an empty one."""
        self.run("initdb", "-D", str(self.data), "-A", "trust", "-U", USER, "-E", "UTF8", "--no-locale", "-k", "-N")
        self.configure(SETTINGS)

    def clone_of(self, primary: PostgresServer, by_port: int) -> None:
        """Make a standby, which follows a server by way of another port of it."""
        source = f"host=127.0.0.1 port={primary.port} user={USER}"
        self.run("pg_basebackup", "-D", str(self.data), "-d", source, "-c", "fast", "-N")
        (self.data / "standby.signal").touch()
        followed = f"host=127.0.0.1 port={by_port} user={USER} application_name=standby"
        self.configure({"primary_conninfo": followed})

    def configure(self, settings: Mapping[str, str]) -> None:
        """Set what counts from the next start or `reload` on."""
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        self.run("pg_ctl", "-D", str(self.data), "-l", f"{self.data}.log", "-o", f"-p {self.port}", "-w", "start")

    def reload(self) -> None:
        os.kill(self.pid, signal.SIGHUP)

    def crash(self) -> None:
        """End at once, as when the power fails."""
        self.run("pg_ctl", "-D", str(self.data), "-m", "immediate", "-w", "stop")

    def stop(self) -> None:
        """End, unless it has ended."""
        if (self.data / "postmaster.pid").exists():
            self.crash()

    def promote(self) -> None:
        """Let a standby be the primary."""
        self.run("pg_ctl", "-D", str(self.data), "-w", "promote")

    @property
    def pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])


class Servers:
    """A server with a synchronous standby, which can take over.

    Attributes:
        primary: the one that can be written to. standby: the other.
    """

    def __init__(self, directory: Path) -> None:
        self.primary, self.standby = (PostgresServer(directory / name) for name in ("a", "b"))

    def start(self) -> None:
        self.primary.create()
        self.primary.start()
        self.follow()

    def stop(self) -> None:
        for server in (self.primary, self.standby):
            server.stop()

    def follow(self) -> None:
        """Make a standby of the primary, and from now on wait for it with each commit."""
        self.standby.clone_of(self.primary, self.primary.port)
        self.standby.start()
        self.primary.configure(SYNCHRONOUS)
        self.primary.reload()

    def promote(self) -> None:
        """Let the standby take over. The old primary goes on, alone, and commits nothing any more."""
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary


def _group(user: str) -> int:
    return pwd.getpwnam(user).pw_gid


def new_directory() -> Path:
    """A directory for servers, which their user may enter."""
    directory = Path(tempfile.mkdtemp(prefix="ottla-postgresql-"))
    user = _ordinary_user()
    if user is not None:
        shutil.chown(directory, user)
    return directory
