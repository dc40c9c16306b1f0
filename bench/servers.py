"""The servers that the benchmarks run, and the generator that loads them with one request again and again."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import frame_request
from ottla.protocol.schema import Message

HERE = Path(__file__).resolve().parent
COMMANDS = {
    "bare": [sys.executable, str(HERE / "bare_server.py")],
    "mock": [sys.executable, str(HERE / "mock_server.py")],
    "ottla": [sys.executable, "-m", "ottla.cli.main", "serve"],
    "kafka": [sys.executable, str(HERE / "kafka_server.py")],
    "kfake": [str(HERE / ".build" / "kfake")],
}
START_SECONDS = {"kafka": 150.0, "ottla": 300.0}
USUAL_START_SECONDS = 20.0
STOP_SECONDS = 5.0
ANSWER_SECONDS = 60.0
WARM_UP_SECONDS = 1.0
JUST_IN_TIME = frozenset({"kafka", "kafka-flush"})
OTTLA_OPTIONS = ("--set", "group.initial.rebalance.delay.ms=1000", "--set", "max.connections=15000")
"""Long enough for all members of a group to meet in its first generation; and for as many connections as are asked."""
FLUSHED = "log.flush.interval.messages=1"
"""Of Apache Kafka: sync every batch, as Ottla does."""


@dataclass(slots=True)
class Server:
    """A running server process and where it listens."""

    name: str
    pid: int
    host: str
    port: int
    ports: Mapping[str, int] = field(default_factory=dict)
    """Of its other listeners, by their security protocol."""

    def by(self, protocol: str) -> Server:
        """The same, where another listener is."""
        return replace(self, port=self.ports[protocol])


@dataclass(frozen=True, slots=True)
class Load:
    """The generator's load; connection i sends the frame i modulo their number, in each of which the numbers at
    ``rising_at`` rise. With a period all frames are sent once in each, whatever the answers take. See request_load.c.
    """

    frames: Sequence[bytes]
    response_bytes: int
    error_at: int
    rising_at: Sequence[int] = ()
    period_ms: int = 0
    greetings: Sequence[bytes] = ()
    """Sent on each connection before, one after the other: what lets a client in."""


@dataclass(frozen=True, slots=True)
class Run:
    """The generator's figures of one run; see request_load.c."""

    responses: int
    seconds: float
    per_second: float
    p50_us: float
    p99_us: float
    max_us: float
    most_sent: int
    errors: int
    first_error: int
    server_cpu_seconds: float
    generator_cpu_seconds: float
    server_waited_seconds: float
    generator_waited_seconds: float

    @property
    def cpu_us(self) -> float:
        """Server CPU in microseconds per request."""
        return self.server_cpu_seconds / self.responses * 1e6


class BenchError(click.ClickException):
    """A server could not be started or measured."""


class Missing(Exception):
    """A server cannot run on this machine; the message says what it lacks."""


def prepare(name: str) -> None:
    """Fetch or build what a server needs, which is done once.

    Raises:
        Missing: it cannot be had here.
    """
    if name == "kafka":
        from kafka_server import NoJava, jars

        try:
            jars()
        except NoJava as error:
            raise Missing(str(error)) from error
    elif name == "kfake":
        if shutil.which("go") is None:
            raise Missing("go was not found")
        build = ["go", "build", "-mod=readonly", "-o", COMMANDS[name][0], "."]
        done = subprocess.run(
            build, cwd=HERE / "kfake", env=os.environ | {"CGO_ENABLED": "0"}, capture_output=True, text=True
        )
        if done.returncode:
            raise Missing(f"kfake could not be built: {' '.join(done.stderr.split())[-200:]}")


def prepared(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Those of the servers that can be run here, and why the others cannot."""
    there, missing = [], {}
    for name in names:
        try:
            prepare(name.partition("-")[0])
            there.append(name)
        except Missing as error:
            missing[name] = str(error)
    return there, missing


def compile_generator(has_tls: bool = False) -> Path:
    """Compile request_load.c if it changed; returns the program's path. TLS needs the headers of OpenSSL."""
    source, program = HERE / "request_load.c", HERE / ".build" / ("request_load_tls" if has_tls else "request_load")
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(exist_ok=True)
        more = ["-DWITH_TLS", "-lssl", "-lcrypto"] if has_tls else []
        subprocess.run(["cc", "-O2", "-Wall", "-o", str(program), str(source), *more], check=True)
    return program


def pinned(core: int | None) -> Callable[[], None] | None:
    """Give the function that a child process calls before it starts, so that all its threads stay on one core."""
    return None if core is None else lambda: os.sched_setaffinity(0, {core})


@contextlib.contextmanager
def running(
    name: str,
    core: int | None,
    options: Sequence[str] = (),
    path: Path | None = None,
    listeners: Mapping[str, int] | None = None,
) -> Iterator[Server]:
    """Start a server in a process of its own, on one core if given, and end it afterwards.

    ``options`` go to the end of its command. ``path`` is where Python looks for modules first. ``listeners`` are more
    of Ottla's and Kafka's, ports by security protocol, beside the one that asks nobody who he is.

    Raises:
        BenchError: it did not print its address in time.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*COMMANDS[name], *options, *_listening(name, listeners or {})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=_environment(path),
            preexec_fn=pinned(core),
        )
        assert process.stdout is not None and process.stdin is not None
        try:
            overdue = threading.Timer(START_SECONDS.get(name, USUAL_START_SECONDS), process.kill)
            overdue.start()
            address = re.fullmatch(r"(.+):(\d+)(?: (\d+))?\n", process.stdout.readline())
            overdue.cancel()
            if address is None:
                process.kill()
                process.wait()
                log.seek(0)
                tail = log.read().decode(errors="replace").strip().splitlines()[-1:]
                raise BenchError(f"{name} did not start: {''.join(tail)}")
            # One that is not the process that was started says which it is.
            yield Server(name, int(address[3] or process.pid), address[1], int(address[2]), listeners or {})
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


def _listening(name: str, listeners: Mapping[str, int]) -> list[str]:
    """What a command says of where a server listens."""
    more = [f"{protocol}://127.0.0.1:{port}" for protocol, port in listeners.items()]
    if name == "ottla" and more:
        return ["--set", f"listeners=PLAINTEXT://127.0.0.1:{free_port()},{','.join(more)}"]
    return ["--listen", "127.0.0.1:0"] if name == "ottla" else more


def free_port() -> int:
    """A port that nobody has at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _environment(path: Path | None) -> dict[str, str]:
    """With bytecode, and with names that the kernel knows for the threads of Python."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    where = filter(None, (path, HERE / "named_threads", kept.get("PYTHONPATH")))
    return kept | {"PYTHONPATH": os.pathsep.join(map(str, where))}


def measure(
    generator: Path,
    server: Server,
    load: Load,
    connections: int,
    window: int,
    seconds: float,
    core: int | None,
) -> Run:
    """Put one load on one server; the generator runs on `core` if given.

    Raises:
        BenchError: the server closed a connection, stopped answering, or answered an error.
    """
    figures = (connections, window, WARM_UP_SECONDS, seconds, server.pid, load.response_bytes, load.error_at,
               load.period_ms, len(load.greetings), *load.rising_at)  # fmt: skip
    done = subprocess.run(
        [str(generator), server.host, str(server.port), *map(str, figures)],
        input="".join(f"{frame.hex()}\n" for frame in (*load.greetings, *load.frames)),
        capture_output=True,
        text=True,
        preexec_fn=pinned(core),
    )
    if done.returncode:
        raise BenchError(f"{server.name}, {connections:,} at once: {done.stderr.strip()}")
    run = Run(**json.loads(done.stdout))
    if run.errors or not run.responses:
        raise BenchError(f"{server.name}, {connections:,} at once: {run.errors} errors, first {run.first_error}")
    return run


def warm_up(generator: Path, server: Server, load: Load, connections: int, seconds: float, core: int | None) -> None:
    """Have a server that compiles itself while it runs do so before it is measured.

    Raises:
        BenchError: as in `measure`.
    """
    if server.name in JUST_IN_TIME:
        measure(generator, server, load, connections, 1, seconds, core)


def framed(request: Message, version: int) -> bytes:
    """A request as it is sent, with its length."""
    key = ApiKey[re.sub("(?<!^)(?=[A-Z])", "_", type(request).__name__.removesuffix("Request")).upper()]
    body = request.layout(version).encode(request)
    return frame_request(key, version, 0, "bench", body, flexible=version >= request.flexible_from)


def ask(server: Server, request: Message, version: int) -> bytes:
    """Send one request on a connection of its own; the answer behind its correlation id.

    Raises:
        OSError: the server is not there.
    """
    with socket.create_connection((server.host, server.port), ANSWER_SECONDS) as connection:
        connection.sendall(framed(request, version))
        with connection.makefile("rb") as answers:
            return answers.read(int.from_bytes(answers.read(4), "big"))[4:]


def by_turns(servers: Sequence[Server], rounds: int) -> Iterator[Server]:
    """Each server once a round; another one begins each round, so that none always follows the same one."""
    for number in range(rounds):
        first = number % len(servers)
        yield from (*servers[first:], *servers[:first])


def cpu_seconds(server: Server) -> float:
    """CPU time that a server has used until now."""
    return time.clock_gettime((~server.pid << 3) | 2)  # the clock of another process; see clock_getcpuclockid(3)


def thread_seconds(server: Server) -> dict[str, float]:
    """CPU time of each thread of a server until now; that of its main thread is called ``loop``."""
    found: dict[str, float] = {}
    for task in Path(f"/proc/{server.pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            name = "loop" if task.name == str(server.pid) else (task / "comm").read_text().strip()
            found[name] = found.get(name, 0) + int((task / "schedstat").read_text().split()[0]) / 1e9
    return found


def memory_bytes(server: Server) -> int:
    """Resident memory of a server."""
    status = Path(f"/proc/{server.pid}/status").read_text("ascii")
    return int(status.split("VmRSS:", 1)[1].split()[0]) * 1024


@contextlib.contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """The sources as a commit has them, in a folder that goes away afterwards.

    Raises:
        BenchError: there is no such commit here.
    """
    (HERE / ".build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HERE / ".build") as folder:
        made = subprocess.run(["git", "-C", str(HERE.parent), "archive", commit], capture_output=True)
        if made.returncode:
            raise BenchError(made.stderr.decode().strip())
        subprocess.run(["tar", "-x", "-C", folder], input=made.stdout, check=True)
        yield Path(folder)


@contextlib.contextmanager
def started(
    names: Sequence[str], core: int | None, directory: Path, commit: str = "", options: Sequence[str] = ()
) -> Iterator[list[Server]]:
    """Servers that keep what they are given below a directory; ``options`` are more of each Ottla's.

    Beside those of `COMMANDS` there are ``ottla-os``, which answers when the operating system has the bytes, as Apache
    Kafka does, ``kafka-flush``, which syncs as Ottla does, and ``before``, the Ottla of a commit.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        servers = []
        for name in names:
            kind, path, more = name.partition("-")[0], None, list[str]()
            if kind in ("ottla", "before"):
                path = stack.enter_context(tree_of(commit)) / ".types" if kind == "before" else None
                kind, more = "ottla", ["--data-dir", str(directory / name), *OTTLA_OPTIONS, *options]
            elif kind == "kafka":
                more = [str(directory)]
            more += {"ottla-os": ["--set", "ottla.durability=os"], "kafka-flush": [FLUSHED]}.get(name, [])
            servers.append(stack.enter_context(running(kind, core, more, path)))
            servers[-1].name = name
        yield servers


def raise_file_limit() -> None:
    """Let this process and its children open as many files as they may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def choose_cores() -> tuple[int | None, int | None]:
    """A core for the server and one for the generator, not two threads of one core if that can be had."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return None, None
    server = cores[-1]
    siblings = Path(f"/sys/devices/system/cpu/cpu{server}/topology/thread_siblings_list")
    taken: set[int] = set()
    with contextlib.suppress(OSError):
        for part in siblings.read_text().strip().split(","):
            first, _, last = part.partition("-")
            taken.update(range(int(first), int(last or first) + 1))
    return server, next((core for core in cores if core not in taken), cores[0])
