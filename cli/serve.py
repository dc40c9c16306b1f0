"""`ottla serve`: a broker in the foreground until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.broker.endpoints import Endpoint
from ottla.broker.setting_sources import (
    Loaded,
    did_you_mean,
    from_environment,
    is_known,
    load,
    meant_by,
    parse_properties,
)
from ottla.broker.settings import BadSetting, Settings
from ottla.cli import garbage
from ottla.cli.database_node import DatabaseNode, check_cluster, name_of, told_of_machine
from ottla.cli.doubts import tell_findings, warn, warn_of_passwords
from ottla.cli.homes import check_homes
from ottla.cli.listening import Options, check_http, check_issuers, check_keys, listeners
from ottla.cli.node import MOST_NODES, Node, Ports, Reports, check_ports, would_listen
from ottla.cli.output import say
from ottla.cli.ready import Told, ready_file
from ottla.cli.scram_users import initial_users

if TYPE_CHECKING:
    from ottla.broker.core.security.scram import Credentials

LINES_AFTER_S = 0.5
"""Log lines that tell of no trouble wait so long, from the beginning of a start, for what they are written with."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SETTINGS = {
    "cluster": "ottla.cluster.url",
    "node_id": "node.id",
    "insecure": "ottla.insecure",
    "http": "ottla.http.listen",
    "http_tls": "ottla.http.tls",
    "http_token_file": "ottla.http.token.file",
    "record": "ottla.recorder.file",
    "metrics_compat": "ottla.metrics.compat",
}
"""Options and the settings that they stand for."""


@click.command("serve")
@click.option(
    "--listen",
    metavar="[HOST:]PORT",
    help="Where to listen. A port alone: this machine only; :PORT: all interfaces; port 0: any free one. "
    "[localhost:9092]",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Let other machines in without authentication: the network is trusted.",
)
@click.option(
    "--tls-cert",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Encrypt with TLS: the certificate chain in PEM, with the key unless --tls-key has it.",
)
@click.option("--tls-key", metavar="FILE", type=click.Path(dir_okay=False), help="The key of --tls-cert, in PEM.")
@click.option(
    "--sasl",
    metavar="MECHANISM[,…]",
    help="Ask clients who they are: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN or OAUTHBEARER.",
)
@click.option("--advertise", metavar="HOST:PORT", help="The address for clients to connect to (behind port mapping).")
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Where topics, groups and offsets are kept. [./ottla-data]",
)
@click.option("--ephemeral", is_flag=True, help="Keep everything in memory; nothing outlives the process.")
@click.option(
    "--nodes",
    metavar="N",
    type=click.IntRange(1, MOST_NODES),
    help="Run N nodes, each in a process of its own: node i has every port plus i. "
    "`ottla cluster status DIR` shows what each of them does.",
)
@click.option(
    "--cluster",
    metavar="URL",
    help="Be a node of the cluster whose logs are in this PostgreSQL: postgresql://USER@HOST:PORT/DATABASE.",
)
@click.option(
    "--node-id",
    metavar="ID",
    type=click.IntRange(0),
    help="The id of this broker; of several nodes, of the first. [1; in a cluster over a database, by ottla.node.name]",
)
@click.option("--node", type=int, hidden=True)
@click.option("--place", type=int, hidden=True)
@click.option("--shared-dir", hidden=True)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="A properties file with Kafka's setting names.",
)
@click.option("--set", "pairs", metavar="KEY=VALUE", multiple=True, help="One setting; wins over file and environment.")
@click.option(
    "--create-topic", "topics", metavar="NAME:PARTITIONS", multiple=True, help="Create a topic if it is not there."
)
@click.option(
    "--http",
    metavar="[HOST:]PORT",
    help="Serve console, metrics and HTTP API there. A port alone: this machine only; :PORT: all interfaces.",
)
@click.option(
    "--metrics-compat",
    metavar="TOOL[,TOOL]",
    help="Show metrics also under the names of kminion, kafka_exporter or lag_exporter.",
)
@click.option(
    "--http-tls",
    is_flag=True,
    help="Serve HTTP with TLS, by the certificate of --tls-cert or ottla.http.ssl.keystore.*.",
)
@click.option(
    "--http-token-file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="HTTP needs a token of this file; `ottla token new NAME` makes one.",
)
@click.option(
    "--record",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Record what happens to groups there: JSON lines if the name ends with .jsonl, else a compact form.",
)
@click.option(
    "--workbench",
    is_flag=True,
    help="For tests: let `ottla fault`, `ottla clock` and HTTP interfere. Whoever reaches the broker can.",
)
@click.option(
    "--users-file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Users of SCRAM to add if they are not there, as `ottla users hash` prints them.",
)
@click.option(
    "--add-scram",
    metavar="MECHANISM=[name=…,password=…]",
    multiple=True,
    help="A user to add if it is not there, as kafka-storage takes it. Others on this machine can see it: for scripts.",
)
@click.option(
    "--check", is_flag=True, help="Read settings, files and keys as a start would, then exit; no port is opened."
)
@click.option(
    "--ready-file",
    "ready_path",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write host:port there once ready.",
)
@click.option(
    "--log-format", type=click.Choice(["console", "json"]), default="console", help="Logs go to standard error."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    help="The lowest level that is logged. [info]",
)
def command(
    listen: str | None,
    advertise: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    sasl: str | None,
    data_dir: str | None,
    ephemeral: bool,
    nodes: int | None,
    node: int | None,
    place: int,
    shared_dir: str,
    config_file: str | None,
    pairs: tuple[str, ...],
    topics: tuple[str, ...],
    workbench: bool,
    users_file: str | None,
    add_scram: tuple[str, ...],
    check: bool,
    ready_path: str | None,
    log_format: str,
    log_level: str,
    **settings: str | int | None,
) -> None:
    """Run a broker. Once it is ready, it prints the host:port at which this machine reaches it.

    Settings have Kafka's names. Give one as --set group.initial.rebalance.delay.ms=0, as a line of --config FILE, or as
    the environment variable OTTLA_GROUP_INITIAL_REBALANCE_DELAY_MS (KAFKA_… works too). `ottla help settings` lists
    them.
    """
    if workbench and settings["cluster"]:
        raise click.UsageError("--workbench moves the time of one broker: leave out --cluster")
    if ephemeral and data_dir:
        raise click.UsageError("--ephemeral keeps nothing on disk: leave out --data-dir")
    from ottla.observe.logs import logger

    log = logger(log_format, level=log_level, node=node)
    options = _pairs(settings)
    if ephemeral or data_dir:
        options.append("log.dirs=")  # those of the file are not used
    where = Options(listen, advertise, tls_cert, tls_key, sasl)
    reports = Reports()
    directory = None if ephemeral else data_dir or ""
    users = users_file, add_scram
    given = _Given(config_file, (*pairs, *options), bool(settings["http"]), where, topics, users, directory, nodes)
    try:
        start = given.read(log)
        own = start.alone() if node is None else start.of_node(node, place, Path(shared_dir), reports, log)
        if check:
            given.check(start, log)
    except BadSetting as error:
        if node is not None:
            reports.failed(error)
        raise click.UsageError(str(error)) from None
    from ottla.broker.net.descriptors import raise_limit

    raise_limit()
    if node is not None:
        sys.exit(_run(_serve(**own, told=reports, log=log, workbench=workbench)))
    warn(start.loaded, start.endpoints, log)
    warn_of_passwords(str(settings["cluster"] or ""), add_scram, log)
    if check:
        say(would_listen(start.endpoints, nodes))
        return
    ready = ready_file(ready_path)
    if nodes is not None:
        sys.exit(_run(start.supervised(nodes, ready, lambda: given.check(given.read(), log), log)))
    told = Told(ready, start.endpoints, start.loaded.settings.ottla_http_listen, log)
    sys.exit(_run(_serve(**own, told=told, log=log, workbench=workbench)))


def _pairs(options: Mapping[str, str | int | None]) -> list[str]:
    """The settings that options stand for."""
    given = {one: value for one, value in options.items() if value or type(value) is int}
    return [f"{_SETTINGS[one]}={'true' if value is True else value}" for one, value in given.items()]


class _Start(NamedTuple):
    """What a broker starts with, by its command line, environment and files. For ``node_name`` see `_serve`."""

    loaded: Loaded
    endpoints: Sequence[Endpoint]
    directory: Path | None
    topics: Sequence[tuple[str, int]]
    users: Credentials
    node_name: str = ""

    def alone(self) -> dict[str, Any]:
        """The arguments of a single broker."""
        return {
            "settings": self.loaded.settings,
            "directory": self.directory,
            "endpoints": self.endpoints,
            "topics": self.topics,
            "users": self.users,
            "node_name": self.node_name,
        }

    def of_node(self, node_id: int, place: int, shared: Path, reports: Reports, log: Any) -> dict[str, Any]:
        """The arguments of one of several nodes. Raises as `Node.place_among`."""
        settings = self.loaded.settings
        node = Node(node_id, place, shared, in_memory=self.directory is None)
        own = {
            "settings": node.settings(settings),
            "directory": node.directory,
            "endpoints": node.endpoints(self.endpoints),
            "why_down": node.why_down,
        }
        if settings.ottla_cluster_url:
            return {**self.alone(), **own, "node_name": ""}
        return {**self.alone(), **own, **node.place_among(reports, log)}

    def supervised(
        self, nodes: int, ready: Path | None, check: Callable[[], object], log: Any
    ) -> Coroutine[Any, Any, int]:
        """Run so many nodes until a signal comes; gives the exit code. For ``check`` see `run_nodes`."""
        from ottla.cli.node_processes import run_nodes

        settings = self.loaded.settings
        ports = Ports(self.endpoints, settings.ottla_http_listen, nodes)
        return run_nodes(sys.argv[1:], ports, settings, self.directory, self.node_name, ready, check, log)


class _Given(NamedTuple):
    """What the command line says. ``directory`` is empty if it names none, and None for one in memory."""

    config_file: str | None
    pairs: tuple[str, ...]
    has_http: bool
    where: Options
    topics: Sequence[str]
    users: tuple[str | None, Sequence[str]]
    directory: str | None
    nodes: int | None

    def read(self, log: Any = None) -> _Start:
        """What a broker, or each of the nodes, starts with as files and environment are now.

        Args:
            log: is told what is doubtful about addresses.

        Raises:
            BadSetting: it would not start.
        """
        loaded = settings_of(self.config_file, (*self.pairs, *self.where.pairs()))
        settings = loaded.settings
        check_http(settings, by_option=self.has_http)
        wanted = [_topic(text, settings.num_partitions) for text in self.topics]
        found = listeners(settings, self.where, log)
        users = initial_users(*self.users)
        if settings.ottla_cluster_url:
            check_cluster(settings, self.directory, self.nodes, found)
            found = told_of_machine(found, log)
            return _Start(loaded, found, None, wanted, users, name_of(settings, found[0]))
        check_keys(found, settings)
        directory = None if self.directory is None else Path(self.directory or settings.log_dirs or "ottla-data")
        if self.nodes is not None:
            check_ports(found, settings.ottla_http_listen, self.nodes)
        if directory is not None:
            check_homes(directory, settings.node_id, self.nodes)
        return _Start(loaded, found, directory, wanted, users)

    def check(self, start: _Start, log: Any) -> None:
        """Read files and keys as a start would; the ``log`` is told what is doubtful. Raises as `read`."""
        settings, found = start.loaded.settings, start.endpoints
        check_issuers(found, settings, log)
        tell_findings(settings, found, start.directory, self.config_file, self.pairs, start.users, log)


async def _serve(
    settings: Settings,
    *,
    told: Told | Reports,
    log: Any,
    workbench: bool,
    node_name: str = "",
    why_down: Callable[[int], str] = lambda node_id: "",
    **where: Any,
) -> int:
    """Run a broker until a signal comes; gives the exit code.

    Args:
        told: is told what becomes of it.
        node_name: by which a node of a cluster over a database gets its id; empty if the settings have that.
        why_down: says why another node is down.
        where: the directory, listeners, users and topics, as `ottla.broker.app.Broker` takes them.
    """
    started, stopping = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if not started.is_set():
            log.info("Stopping as soon as the start is through; a second signal ends it at once")
            _let_signals_end_it(loop)
        stopping.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    told.begin(loop, stop)
    from ottla.broker.app import Broker, CannotStart  # takes a while, in which a signal may come

    garbage.hold()
    log.hold()
    loop.call_later(LINES_AFTER_S, log.prepare)
    node = None
    if settings.ottla_cluster_url:
        try:
            node = await DatabaseNode.join(settings, node_name, where["endpoints"], log)
        except CannotStart as error:
            told.failed(error)
            return 1
        settings = node.settings
        told.joined(node)
    observing = _observed(settings, log, workbench=workbench)
    observing["observing"].why_down = why_down
    broker = Broker(settings, **where, log=log, **observing, **({} if node is None else node.parts))
    broker.on_fatal = lambda: os._exit(70)  # storage that cannot sync must not acknowledge anything more
    try:
        await broker.start()
        if node is not None:
            await node.begin(broker)
    except CannotStart as error:
        told.failed(error)
        return 1
    started.set()
    if broker.has_files:
        loop.add_signal_handler(signal.SIGHUP, broker.look_at_files)
    if not stopping.is_set():
        told.ready(broker, observing["observing"].http_address)
        broker.tell_ready()
        garbage.begin(loop.call_later)
    await stopping.wait()
    log.prepare()
    _let_signals_end_it(loop)
    if node is not None:
        await node.end()
    await broker.stop()
    told.stopped()
    return 0


def _observed(settings: Settings, log: Any, *, workbench: bool) -> dict[str, Any]:
    """What a broker is given so that it is observed; and, with a workbench, can be interfered with."""
    if workbench:
        from ottla.workbench.bench import Workbench
        from ottla.workbench.clock import VirtualClock

        return {"observing": Workbench(settings, log), "clock": VirtualClock}
    from ottla.observe.observatory import Observatory

    return {"observing": Observatory(settings, log)}


def _let_signals_end_it(loop: asyncio.AbstractEventLoop) -> None:
    """Let a second signal end the process at once."""
    for number in SIGNALS:
        loop.remove_signal_handler(number)


def _run(main: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop
    except ImportError:  # not made for every platform
        return asyncio.run(main)
    return uvloop.run(main)


def settings_of(config_file: str | None, pairs: tuple[str, ...]) -> Loaded:
    """The settings of a file, the environment and ``--set``.

    Raises:
        BadSetting: one cannot be used, or asks for security that there is not.
    """
    try:
        file = parse_properties(Path(config_file).read_text(encoding="utf-8")) if config_file else {}
    except UnicodeDecodeError as error:
        raise BadSetting(f"{config_file} is not in UTF-8: {error}") from None
    environment = from_environment(os.environ)
    given = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise BadSetting(f"--set {pair!r}: write KEY=VALUE")
        key = key.strip()
        if not is_known(key, value):
            raise BadSetting(f"--set {key}={value}: there is no such setting{did_you_mean(key)}")
        given[key] = value
    loaded = load(file, environment, given)
    if loaded.unprotected:
        sources = (("--set", given), ("environment", environment), (config_file, file))
        told = {key: f"{key} ({next(name for name, told in sources if key in told)})" for key in loaded.unprotected}
        slips = [f"{told.pop(key)}: there is no such setting{did_you_mean(key)}" for key in [*told] if meant_by(key)]
        if told:
            slips.append(
                f"{', '.join(told.values())}: there is no such protection here. If you can do without it, remove these "
                "settings; `ottla help settings` lists those for TLS, SASL and access control"
            )
        raise BadSetting(" ".join(slips))
    if loaded.settings.super_users:
        from ottla.broker.core.security.authorizer import super_users

        try:
            super_users(loaded.settings.super_users)
        except ValueError as error:
            raise BadSetting(str(error)) from None
    return loaded


def _topic(text: str, default: int) -> tuple[str, int]:
    name, colon, count = text.rpartition(":")
    if not colon:
        name, count = text, str(default)
    if not name or not count.isdecimal() or int(count) < 1:
        raise BadSetting(f"--create-topic {text!r}: write NAME:PARTITIONS, with at least one partition")
    from ottla.broker.core.topics.catalog import invalid_name

    if fault := invalid_name(name):
        raise BadSetting(f"--create-topic {text!r}: {fault[0].lower()}{fault[1:]}")
    return name, int(count)
