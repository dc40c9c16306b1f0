"""`ottla serve`: a broker in the foreground until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import signal
import socket
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import click

from ottla.broker.setting_sources import (
    ALIASES,
    CONTROLLER_LISTENERS,
    Loaded,
    did_you_mean,
    from_environment,
    is_of_clusters,
    load,
    meant_by,
    parse_properties,
    protects,
)
from ottla.broker.settings import FIELDS, BadSetting, Settings
from ottla.cli import garbage
from ottla.cli.output import Refused, say

LINES_AFTER_S = 0.5
"""Log lines that tell of no trouble wait so long, from the beginning of a start, for what they are written with."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SETTINGS = {
    "insecure": "ottla.insecure",
    "http": "ottla.http.listen",
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
    help="Let other machines in, though there is no authentication: the network is trusted.",
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
    "--http-token-file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="HTTP needs the token in this file.",
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
@click.option("--ready-file", metavar="FILE", type=click.Path(dir_okay=False), help="Write host:port there once ready.")
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
    data_dir: str | None,
    ephemeral: bool,
    config_file: str | None,
    pairs: tuple[str, ...],
    topics: tuple[str, ...],
    workbench: bool,
    ready_file: str | None,
    log_format: str,
    log_level: str,
    **settings: str | bool | None,
) -> None:
    """Run a broker. Once it is ready, it prints the host:port at which this machine reaches it.

    Settings have Kafka's names. Give one as --set group.initial.rebalance.delay.ms=0, as a line of --config FILE, or as
    the environment variable OTTLA_GROUP_INITIAL_REBALANCE_DELAY_MS (KAFKA_… works too). `ottla help settings` lists
    them.
    """
    if ephemeral and data_dir:
        raise click.UsageError("--ephemeral keeps nothing on disk: leave out --data-dir")
    try:
        given = {_SETTINGS[name]: value for name, value in settings.items() if value}
        options = [f"{key}={'true' if value is True else value}" for key, value in given.items()]
        if ephemeral or data_dir:
            options.append("log.dirs=")  # those of the file are not used
        loaded = settings_of(config_file, (*pairs, *options))
        check_http(loaded.settings, by_option=bool(settings["http"]))
        wanted = [_topic(text, loaded.settings.num_partitions) for text in topics]
        host, port = listening_address(listen, loaded.settings)
        advertised = _advertised(advertise, loaded.settings.advertised_listeners)
    except BadSetting as error:
        raise click.UsageError(str(error)) from None
    from ottla.broker.net.descriptors import raise_limit
    from ottla.observe.logs import logger

    raise_limit()
    log = logger(log_format, level=log_level)
    _warn(loaded, host, port, log)
    if listen and not advertise:
        advertised = _following(advertised, port, loaded.settings, log)
    ready = Path(ready_file) if ready_file else None
    if ready is not None:
        if not ready.parent.is_dir():
            raise click.UsageError(f"--ready-file {ready_file!r}: there is no directory {str(ready.parent)!r}")
        ready.unlink(missing_ok=True)  # of a broker that was killed: it must not say that this one is ready
    directory = None if ephemeral else Path(data_dir or loaded.settings.log_dirs or "ottla-data")
    where = {"directory": directory, "host": host, "port": port, "advertised": advertised, "topics": wanted}
    serve = _serve(loaded, ready=ready, log=log, workbench=workbench, **where)
    sys.exit(_run(serve))


def _warn(loaded: Loaded, host: str, port: int, log: Any) -> None:
    """Say what of the settings is not done, and what is open."""
    if not _is_this_machine(host):
        where = f"{host}:{port}" if host else f"all interfaces, port {port}"
        log.warning("The broker is open to other machines: whoever reaches it may do everything", listen=where)
    slips = {key: meant for key in loaded.unknown if (meant := meant_by(key))}
    for key, meant in slips.items():
        log.warning("Unknown setting is ignored", key=key, did_you_mean=meant)
    unknown = [key for key in loaded.unknown if key not in slips]
    needless = [*filter(is_of_clusters, unknown), *(f"{key} {listener}" for key, listener in loaded.left_out)]
    for level, what, keys in (
        (log.info, "Settings that one broker alone does not need are left out", needless),
        (log.warning, "Unknown settings are ignored", [key for key in unknown if not is_of_clusters(key)]),
        (log.warning, "Settings that have no effect yet", loaded.without_effect),
    ):
        if keys:
            level(what, keys=", ".join(keys))


async def _serve(loaded: Loaded, *, ready: Path | None, log: Any, workbench: bool, **where: Any) -> int:
    """Run a broker until a signal comes; returns the exit code.

    Args:
        where: the directory, addresses and topics, as `ottla.broker.app.Broker` takes them.
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
    from ottla.broker.app import Broker, CannotStart  # takes a while, in which a signal may come

    garbage.hold()
    log.hold()
    loop.call_later(LINES_AFTER_S, log.prepare)
    broker = Broker(loaded.settings, **where, log=log, **_observed(loaded.settings, log, workbench=workbench))
    broker.on_fatal = lambda: os._exit(70)  # storage that cannot sync must not acknowledge anything more
    try:
        await broker.start()
    except CannotStart as error:
        log.error("Cannot start", reason=str(error))
        if _is_taken(error):
            _tell_taken(where["host"], where["port"], loaded.settings.ottla_http_listen)
        return 1
    started.set()
    if not stopping.is_set():
        if ready is not None:
            _write_atomically(ready, f"{broker.listening}\n")
        say(broker.listening)
        broker.tell_ready()
        garbage.begin(loop.call_later)
    await stopping.wait()
    log.prepare()
    _let_signals_end_it(loop)
    await broker.stop()
    if ready is not None:
        _remove(ready)
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


def _is_taken(error: BaseException | None) -> bool:
    """Whether a start failed since another process has the port."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return error is not None and error.errno == errno.EADDRINUSE


def _tell_taken(host: str, port: int, http: str) -> None:
    """Say who has the ports, and how to go on: the next command would speak to that one.

    Args:
        http: where HTTP was to be served; empty for nowhere.
    """
    from ottla.cli.greeting import Who, bind_error, free_port, greet, holder
    from ottla.observe.http.address import parse_address

    http_host, http_port = parse_address(http, "--http") if http else ("", 0)
    words, used = sys.argv[1:], {port, http_port}
    lines, advice, export = [], "To have your own beside it:", []
    if _is_taken(bind_error(host, port)):
        who, process = greet(host or "localhost", port), holder(port)
        lines.append(f"Port {port} is taken by {who.value}{process and f' ({process})'}.")
        if port == 9092 and who is Who.OTTLA:
            lines.append("Commands that name no broker speak to that one.")
        if (other := free_port(host, port, used)) is not None:
            used.add(other)
            address = f"{host or 'localhost'}:{other}"
            words = _with(words, "--listen", address if host else f":{other}")
            advice = "To have your own beside it, and to let the other commands find it:"
            export = [f"  export OTTLA_BOOTSTRAP_SERVERS={address}"]
    if http and _is_taken(bind_error(http_host, http_port)):
        process = holder(http_port)
        lines.append(f"Port {http_port}, for HTTP, is taken{process and f' by {process}'}.")
        if (other := free_port(http_host, http_port, used)) is not None:
            words = _with(words, "--http", f"{http.removesuffix(str(http_port))}{other}")
    if words != sys.argv[1:]:
        lines += [advice, f"  {shlex.join(['ottla', *words])}", *export]
    if lines:
        Refused(*lines).show()


def _with(words: Sequence[str], option: str, value: str) -> list[str]:
    """The same command line, but with this value of an option."""
    kept = [word for at, word in enumerate(words) if word != option and words[at - 1 : at] != [option]]
    return [*(word for word in kept if not word.startswith(f"{option}=")), option, value]


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
        if key not in FIELDS and key not in ALIASES and key != CONTROLLER_LISTENERS and not protects(key, value):
            raise BadSetting(f"--set {key}={value}: there is no such setting{did_you_mean(key)}")
        given[key] = value
    loaded = load(file, environment, given)
    if loaded.unprotected:
        sources = (("--set", given), ("environment", environment), (config_file, file))
        keys = [f"{key} ({next(name for name, told in sources if key in told)})" for key in loaded.unprotected]
        raise BadSetting(
            f"{', '.join(keys)}: there is no TLS, SASL or access control here yet: what this is to protect would be "
            "open. Remove these settings, and let only trusted clients reach the port"
        )
    return loaded


def listening_address(listen: str | None, settings: Settings) -> tuple[str, int]:
    """The address to listen at, by ``--listen`` or else by the settings.

    Raises:
        BadSetting: it is no address, or other machines reach it and the settings do not permit that.
    """
    if listen and listen.isdecimal():
        listen = f"localhost:{listen}"
    host, port = _address(listen, "--listen") if listen else _listener(settings.listeners, "listeners")
    if not settings.ottla_insecure and not _is_this_machine(host):
        where = f"--listen {listen!r}" if listen else f"listeners={settings.listeners!r}"
        raise BadSetting(
            f"{where}: other machines reach this, and there is no authentication; say --listen 127.0.0.1:{port} to "
            "serve this machine alone, or --insecure if you trust the network"
        )
    return host, port


def _is_this_machine(host: str) -> bool:
    """Whether every address that a host stands for is one of loopback; an empty one stands for all interfaces."""
    from ottla.observe.http.address import is_loopback

    if not host:
        return False
    try:
        # As bytes, as the listener does.
        found = socket.getaddrinfo(host.encode() if host.isascii() else host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return host == "localhost"  # which needs no hosts file
    return all(is_loopback(str(address[0])) for *_, address in found)


def _address(text: str, option: str) -> tuple[str, int]:
    """``host:port``, ``:port``, ``[::1]:port``."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise BadSetting(f"{option} {text!r}: write HOST:PORT, with a port from 0 to 65535")
    return host.strip("[]"), int(port)


def _listener(text: str, key: str) -> tuple[str, int]:
    """The address of a Kafka listener setting: ``PLAINTEXT://host:port``."""
    name, separator, address = text.strip().partition("://")
    if not separator or name.upper() != "PLAINTEXT" or "," in text:
        raise BadSetting(f"{key}={text!r}: allowed is one PLAINTEXT://host:port")
    return _address(address, key)


def check_http(settings: Settings, *, by_option: bool = False) -> None:
    """Check where the HTTP port is to be, which ``--http`` may have said.

    Raises:
        BadSetting: it is no address, or other machines reach it without a token and the settings do not permit that.
    """
    if settings.ottla_http_listen:
        from ottla.observe.http.address import parse_address

        name = "--http" if by_option else "ottla.http.listen"
        host, port = parse_address(settings.ottla_http_listen, name)
        if not (settings.ottla_insecure or settings.ottla_http_token_file or _is_this_machine(host)):
            raise BadSetting(
                f"{name} {settings.ottla_http_listen!r}: other machines reach this, and there is no authentication; "
                f"say --http {port} to serve this machine alone, --http-token-file FILE, or --insecure if you trust "
                "the network"
            )
    elif settings.ottla_http_token_file:
        raise BadSetting("there is a token for HTTP, but no port: add --http PORT")


def _advertised(option: str | None, setting: str) -> tuple[str, int] | None:
    if option:
        address = _address(option, "--advertise")
    elif setting:
        address = _listener(setting, "advertised.listeners")
    else:
        return None
    if not address[0] or not address[1]:
        raise BadSetting(
            f"advertised address {option or setting!r}: clients need a host and a port they can connect to"
        )
    return address


def _following(told: tuple[str, int] | None, port: int, settings: Settings, log: Any) -> tuple[str, int] | None:
    """The advertised address, where --listen may say another port than the settings.

    Settings that advertise the port on which they listen map no port: the advertised one is then that of --listen.
    """
    if told is None or told[1] == port:
        return told
    key, configured = "advertised.listeners", f"{told[0]}:{told[1]}"
    if "listeners" in settings.given and settings.listeners.endswith(f":{told[1]}"):
        where = f"{told[0]}:{port}" if port else "the address that they reached"
        log.info("The advertised port follows --listen", key=key, configured=configured, clients_connect_to=where)
        return (told[0], port) if port else None
    log.warning(
        "Clients are told another port than --listen says: without port mapping, say --advertise HOST:PORT",
        key=key,
        configured=configured,
        clients_connect_to=configured,
    )
    return told


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


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
