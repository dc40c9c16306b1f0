"""`ottla serve`: a broker in the foreground until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.broker.endpoints import Endpoint
from ottla.broker.setting_sources import (
    Loaded,
    did_you_mean,
    from_environment,
    is_known,
    is_of_clusters,
    load,
    meant_by,
    parse_properties,
)
from ottla.broker.settings import BadSetting, Settings
from ottla.cli import garbage
from ottla.cli.listening import Options, check_http, check_issuers, check_keys, listeners, openings
from ottla.cli.output import Refused, say
from ottla.cli.scram_users import initial_users

if TYPE_CHECKING:
    from ottla.broker.core.security.scram import Credentials

LINES_AFTER_S = 0.5
"""Log lines that tell of no trouble wait so long, from the beginning of a start, for what they are written with."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SETTINGS = {
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
    tls_cert: str | None,
    tls_key: str | None,
    sasl: str | None,
    data_dir: str | None,
    ephemeral: bool,
    config_file: str | None,
    pairs: tuple[str, ...],
    topics: tuple[str, ...],
    workbench: bool,
    users_file: str | None,
    add_scram: tuple[str, ...],
    check: bool,
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
    from ottla.observe.logs import logger

    log = logger(log_format, level=log_level)
    try:
        given = {_SETTINGS[name]: value for name, value in settings.items() if value}
        options = [f"{key}={'true' if value is True else value}" for key, value in given.items()]
        if ephemeral or data_dir:
            options.append("log.dirs=")  # those of the file are not used
        where = Options(listen, advertise, tls_cert, tls_key, sasl)
        loaded = settings_of(config_file, (*pairs, *options, *where.pairs()))
        check_http(loaded.settings, by_option=bool(settings["http"]))
        wanted = [_topic(text, loaded.settings.num_partitions) for text in topics]
        found = listeners(loaded.settings, where, log)
        users = initial_users(users_file, add_scram)
        check_keys(found, loaded.settings)
        directory = None if ephemeral else Path(data_dir or loaded.settings.log_dirs or "ottla-data")
        if check:
            check_issuers(found, loaded.settings, log)
            _check(loaded.settings, found, directory, config_file, pairs, users, log)
    except BadSetting as error:
        raise click.UsageError(str(error)) from None
    from ottla.broker.net.descriptors import raise_limit

    raise_limit()
    _warn(loaded, found, log)
    if add_scram:
        log.warning("A password was given as an argument, which others on this machine can see: use --users-file FILE")
    if check:
        say(f"A broker would start and listen at {', '.join(map(str, found))}")
        return
    ready = Path(ready_file) if ready_file else None
    if ready is not None:
        if not ready.parent.is_dir():
            raise click.UsageError(f"--ready-file {ready_file!r}: there is no directory {str(ready.parent)!r}")
        ready.unlink(missing_ok=True)  # of a broker that was killed: it must not say that this one is ready
    broker = {"directory": directory, "endpoints": found, "topics": wanted, "users": users}
    serve = _serve(loaded, ready=ready, log=log, workbench=workbench, **broker)
    sys.exit(_run(serve))


def _check(
    settings: Settings,
    found: Sequence[Endpoint],
    directory: Path | None,
    config_file: str | None,
    pairs: Sequence[str],
    users: Credentials,
    log: Any,
) -> None:
    """Log what `ottla doctor` warns of in the settings and their files.

    Raises:
        BadSetting: it fails one of them.
    """
    from ottla.cli.doctor_access import of_configuration
    from ottla.cli.doctor_checks import FAIL, WARN

    findings = of_configuration(settings, found, directory, config_file, pairs, users=users)
    for one in findings:
        if one.verdict == WARN:
            log.warning(one.check[:1].upper() + one.check[1:], reason=one.found, advice=one.advice)
    if failed := [f"{one.check}: {one.found}" for one in findings if one.verdict == FAIL]:
        raise BadSetting("; ".join(failed))


def _warn(loaded: Loaded, found: Sequence[Endpoint], log: Any) -> None:
    """Say what of the settings is not done, and what is open."""
    if (opening := openings(found, loaded.settings)) is not None:
        log.warning(opening[0], listen=opening[1])
    if loaded.settings.super_users and not loaded.settings.authorizer_class_name:
        log.warning("There are no access rules: super.users means nothing without authorizer.class.name")
    slips = {key: meant for key in loaded.unknown if (meant := meant_by(key))}
    for key, meant in slips.items():
        log.warning("Unknown setting is ignored", key=key, did_you_mean=meant)
    unknown = [key for key in loaded.unknown if key not in slips]
    needless = [*filter(is_of_clusters, unknown), *(f"{key} {listener}" for key, listener in loaded.left_out)]
    for level, what, keys in (
        (log.info, "Settings that one broker alone does not need are left out", needless),
        (log.warning, "Unknown settings are ignored", [key for key in unknown if not is_of_clusters(key)]),
        (log.warning, "Settings that have no effect here", loaded.without_effect),
    ):
        if keys:
            level(what, keys=", ".join(keys))


async def _serve(loaded: Loaded, *, ready: Path | None, log: Any, workbench: bool, **where: Any) -> int:
    """Run a broker until a signal comes; returns the exit code.

    Args:
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
            _tell_taken(where["endpoints"], loaded.settings.ottla_http_listen)
        return 1
    started.set()
    if broker.has_files:
        loop.add_signal_handler(signal.SIGHUP, broker.look_at_files)
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


def _tell_taken(found: Sequence[Endpoint], http: str) -> None:
    """Say who has the ports, and how to go on: the next command would speak to that one.

    Args:
        http: where HTTP was to be served; empty for nowhere.
    """
    from ottla.cli.greeting import Who, bind_error, free_port, greet, holder
    from ottla.observe.http.address import parse_address

    http_host, http_port = parse_address(http, "--http") if http else ("", 0)
    words, used = sys.argv[1:], {*(one.port for one in found), http_port}
    lines, advice, export = [], "To have your own beside it:", []
    moved = list(found)
    for at, (host, port, *_) in enumerate(found):
        if not _is_taken(bind_error(host, port)):
            continue
        who, process = greet(host or "localhost", port), holder(port)
        lines.append(f"Port {port} is taken by {who.value}{process and f' ({process})'}.")
        if port == 9092 and who is Who.OTTLA:
            lines.append("Commands that name no broker speak to that one.")
        if (other := free_port(host, port, used)) is not None:
            used.add(other)
            moved[at] = found[at]._replace(port=other)
    if moved != list(found) and len(found) > 1:  # --listen would make one of them
        told = ", and in advertised.listeners, too" if any(one.advertised for one in found) else ""
        lines.append(f"To have your own beside it, name other ports{told}: listeners={','.join(map(str, moved))}")
    elif moved != list(found):
        host, port, *_ = moved[0]
        words = _with(words, "--listen", f"{host}:{port}")
        advice = "To have your own beside it, and to let the other commands find it:"
        export = [f"  export OTTLA_BOOTSTRAP_SERVERS={host or 'localhost'}:{port}"]
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


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
