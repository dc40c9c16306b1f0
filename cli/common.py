"""Shared by the commands that talk to a broker: options, subjects, and failures as sentences."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click
from click.core import ParameterSource

from ottla.cli.completion import DEFAULT_BOOTSTRAP, complete_topics
from ottla.cli.connecting import as_written, client_options, connecting_options, is_secured, properties
from ottla.cli.greeting import Who, addresses, greet, no_broker
from ottla.cli.output import Refused, print_json
from ottla.clients.durations import parse_duration_ms
from ottla.observe.printable import printable

if TYPE_CHECKING:
    from ottla.clients import Admin, KafkaError

    _OptionType = click.ParamType[float]
else:
    _OptionType = click.ParamType  # before click 8.2 it is not generic

IMPATIENT: dict[str, Any] = {"socket_connection_setup_timeout_ms": 4_000, "retry_silent_brokers": False}
"""Options of a client that does not wait for a broker that takes no connection for so long: it hangs."""

A = TypeVar("A", bound="Admin")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def bootstrap_option(function: F) -> F:
    """``--bootstrap-server``, and how to connect to it: see `ottla.cli.connecting`."""
    return click.option(
        "--bootstrap-server",
        "-b",
        "bootstrap",
        metavar="HOST:PORT[,…]",
        envvar="OTTLA_BOOTSTRAP_SERVERS",
        show_envvar=True,
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        callback=_of_properties,
        help="The broker to ask; of several, the first that answers. By default it must be an Ottla.",
    )(connecting_options(function))


def _of_properties(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """The brokers that a profile or a file names, if the command line names none."""
    if context.get_parameter_source("bootstrap") is not ParameterSource.DEFAULT or context.resilient_parsing:
        return value
    return properties().get("bootstrap.servers", value)


def _format_option(help: str) -> Callable[[F], F]:
    kinds = click.Choice(["text", "json"])
    return click.option("--format", "output_format", type=kinds, default="text", show_default=True, help=help)


format_option = _format_option("Tables for people, or JSON for programs.")
lines_format_option = _format_option("Lines for people, or a JSON object on each line.")


class Answer(NamedTuple):
    """The result of a command.

    Attributes:
        document: for JSON.
        print_text: prints the same for people.
        failure: ends the command once that is printed.
    """

    document: Any
    print_text: Callable[[], None]
    failure: Exception | None = None


def formatted(function: Callable[..., Answer]) -> Callable[..., None]:
    """``--format``, for a command whose function returns its answer."""

    @format_option
    @wraps(function)
    def command(output_format: str, **options: Any) -> None:
        answer = function(**options)
        if output_format == "json":
            print_json(answer.document)
        else:
            answer.print_text()
        if answer.failure is not None:
            raise answer.failure

    return command


def asks_broker(function: Callable[..., Awaitable[T]]) -> Callable[..., T]:
    """``--bootstrap-server``, for a command whose function gets an admin client first. Raises as `with_admin`."""

    @bootstrap_option
    @wraps(function)
    def command(bootstrap: str, **options: Any) -> T:
        return with_admin(bootstrap, lambda admin: function(admin, **options))

    return command


class Subjects:
    """The subjects of a command, named by position or by option. The function gets each once, in order.

    Args:
        noun: the word for one of them.
        flags: the option, with its long name first.
        required: whether a command without a subject is a usage error; else it gets an empty list, or None.
    """

    def __init__(
        self,
        noun: str,
        *flags: str,
        metavar: str,
        complete: Callable[..., list[str]] | None = None,
        help: str = "The same as an argument.",
    ) -> None:
        self.noun = noun
        self.flag = flags[0].removeprefix("--")
        self.complete = complete
        self.option = click.option(*flags, "more", metavar=metavar, multiple=True, shell_complete=complete, help=help)

    def many(self, parameter: str, metavar: str, *, required: bool = True, completed: bool = True) -> Callable[[F], F]:
        """Any number of subjects, as a list."""

        def choose(given: Sequence[str], more: Sequence[str]) -> list[str]:
            return names(given, more, self.flag, self.noun) if required else list(dict.fromkeys([*given, *more]))

        complete = self.complete if completed else None
        return self._chosen(choose, parameter, metavar=metavar, nargs=-1, shell_complete=complete)

    def one(self, parameter: str, *, required: bool = True) -> Callable[[F], F]:
        """A single subject."""

        def choose(given: str | None, more: Sequence[str]) -> str | None:
            return one_name(given, more, self.noun) if required or given is not None or more else None

        metavar = f"[{self.noun.upper()}]"
        return self._chosen(choose, parameter, metavar=metavar, required=False, shell_complete=self.complete)

    def _chosen(self, choose: Callable[[Any, Sequence[str]], Any], parameter: str, **argument: Any) -> Callable[[F], F]:
        def decorate(function: F) -> F:
            @click.argument(parameter, **argument)
            @self.option
            @wraps(function)
            def command(more: tuple[str, ...], **options: Any) -> Any:
                return function(**options | {parameter: choose(options[parameter], more)})

            return cast(F, command)

        return decorate


TOPICS = Subjects("topic", "--topic", "-t", metavar="TOPIC", complete=complete_topics)


class Duration(_OptionType):
    """An option that is a duration, as ``30s``, ``1m30s`` or ``500ms``; its value is in seconds.

    Args:
        shortest, longest: the bounds, written as durations, too.
    """

    name = "duration"

    def __init__(self, shortest: str = "0ms", longest: str = "5200w") -> None:
        self.bounds = shortest, longest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            found, low, high = (parse_duration_ms(one) / 1000 for one in (value, *self.bounds))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not low <= found <= high:
            self.fail(f"{value!r} is not within {' to '.join(self.bounds)}.", param, ctx)
        return found


def duration_option(*flags: str, shortest: str = "0ms", longest: str = "5200w", **options: Any) -> Callable[[F], F]:
    """An option that is a `Duration`; its default is shown if there is one."""
    shown = True if "default" in options else None
    return click.option(*flags, type=Duration(shortest, longest), metavar="DURATION", show_default=shown, **options)


def names(positional: Sequence[str], optional: Sequence[str], what: str, noun: str = "") -> list[str]:
    """The subjects of a command, given by position or by option; each once, in order.

    Args:
        what: the option's name; ``noun`` says the same in words, if that differs.

    Raises:
        click.UsageError: none was given.
    """
    found = list(dict.fromkeys([*positional, *optional]))
    if not found:
        raise click.UsageError(f"Name a {noun or what}: as an argument, or with --{what}.")
    return found


def one_name(name: str | None, more: Sequence[str], noun: str) -> str:
    """The one subject of a command. Raises as `names`, and for several."""
    wanted = names(() if name is None else (name,), more, noun)
    if len(wanted) > 1:
        raise click.UsageError(f"Name one {noun} at a time.")
    return wanted[0]


def near(name: str, known: Iterable[str]) -> str:
    """The known name that was most likely meant, or nothing."""
    from difflib import get_close_matches

    others = [one for one in known if one != name]
    close = get_close_matches(name, others, 1) or [one for one in others if name.lower() in one.lower()]
    return close[0] if close else ""


def missing(noun: str, name: str, known: Iterable[str], more: str = "", *, command: str = "") -> Refused:
    """The error for a group or the like that does not exist: it names the one that was meant, or where to see all.

    Args:
        noun: ``group``, ``topic`` and so on.
        more: ends the sentence that says so.
        command: lists those that exist, if it is not called as the noun is.
    """
    known = list(known)
    shown = next((one for one in known if one != name and printable(one) == name), None)
    advice = [f"`ottla {command or f'{noun}s'} list` shows those that exist."]
    if shown is not None:
        advice = [f"Its name holds characters that are shown as escapes. In bash and zsh it is written {word(shown)}"]
    elif meant := near(name, known):
        advice = [f"Did you mean {meant!r}?" if meant.isprintable() else f"Did you mean {word(meant)}?"]
    elif noun == "topic":
        advice.append(f"`ottla topics create {word(name)}` makes it.")
    return Refused(f"There is no {noun} {name!r}{more}.", *advice)


def word(name: str) -> str:
    """A name as a word of a command line for bash and zsh, in visible characters only."""
    if name.isprintable():
        return shlex.quote(name)
    return "$'" + "".join(_in_quotes(one) for one in name) + "'"


def _in_quotes(one: str) -> str:
    if one in "\\'":
        return f"\\{one}"
    if one.isprintable():
        return one
    return f"\\u{ord(one):04x}" if ord(one) < 1 << 16 else f"\\U{ord(one):08x}"


def pair(option: str, text: str, form: str = "KEY=VALUE") -> tuple[str, str]:
    """Split the value of an option at its first equals sign.

    Raises:
        click.UsageError: it has none, or nothing before it.
    """
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.UsageError(f"{option} {text!r}: write {form}.")
    return key, value


def topics_exist(wanted: Iterable[str], known: Iterable[str]) -> None:
    """Raises `Refused` for the first topic that does not."""
    existing = set(known)
    for name in wanted:
        if name not in existing:
            raise missing("topic", name, existing)


def topic_partitions(text: str) -> tuple[str, list[int] | None]:
    """``orders`` is all partitions of a topic, ``orders:0,3`` some; ``orders:2-5`` a range, both ends included.

    Raises:
        click.UsageError: it cannot be read.
    """
    topic, colon, listed = text.partition(":")
    if topic and not colon:
        return topic, None
    partitions: list[int] = []
    for part in listed.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip(), re.ASCII)
        if not topic or match is None:
            raise click.UsageError(f"--topic {text!r}: write TOPIC, or TOPIC:PARTITION,PARTITION…")
        partitions += range(int(match[1]), int(match[2] or match[1]) + 1)
    return topic, sorted(set(partitions))


def chosen_partitions(topic: str, wanted: Sequence[int] | None, known: Iterable[int]) -> list[int]:
    """The partitions that are wanted of a topic; all that it has for None.

    Raises:
        Refused: it has no such partition.
    """
    known = sorted(known)
    if stray := sorted(set(wanted or ()) - set(known)):
        raise Refused(f"Topic {topic!r} has no partition {stray[0]}: it has 0 to {known[-1]}.")
    return known if wanted is None else list(wanted)


class Silent:
    """The brokers that do not answer, while a command shows what the others do."""

    def __init__(self) -> None:
        self.addresses: set[str] = set()

    async def spare(self, call: Awaitable[T]) -> T | dict[Any, Any]:
        """What a call gives; by name what brokers answered, if others are silent. Raises what is wrong besides."""
        from ottla.clients.errors import BrokerSilent, SomeFailed

        try:
            return await call
        except BrokerSilent as error:
            errors, found = [error], {}
        except SomeFailed as failed:
            errors, found = [one for one in failed.errors.values() if isinstance(one, BrokerSilent)], failed.results
            if len(errors) < len(failed.errors):
                raise
        self.addresses |= {error.address for error in errors}
        return found

    @property
    def failure(self) -> Refused | None:
        """Ends the command, if there are any."""
        return silent(self.addresses) if self.addresses else None


def silent(addresses: Iterable[str]) -> Refused:
    """The error for brokers that take no connection, or say nothing on it."""
    who = sorted(addresses)
    return Refused(
        f"{' and '.join(who)} {'does' if len(who) == 1 else 'do'} not answer: the groups that it coordinates and the "
        "partitions that it leads are missing.",
        "Does the process hang? Of several nodes `ottla cluster status DIR` has the process, and since when.",
    )


def with_admin(bootstrap: str, work: Callable[[A], Awaitable[T]], kind: type[A] | None = None) -> T:
    """Run with an admin client that is connected, and give the result.

    Args:
        kind: the class of the client, if it is not `Admin` itself.

    Raises:
        Refused: no broker answers, or it refuses.
        click.UsageError: the address cannot be one.
    """

    async def main() -> T:
        from ottla.cli.silence import waiting_told
        from ottla.clients import Admin

        admin = cast(A, (kind or Admin)(**client_options(bootstrap) | IMPATIENT))
        async with waiting_told(admin, bootstrap), admin:
            return await work(admin)

    return run(main(), bootstrap)


def run(main: Coroutine[Any, Any, T], bootstrap: str) -> T:
    """Run a coroutine; the clients' errors become one sentence each. Raises as `with_admin`."""
    import logging

    from ottla.clients.errors import (
        AuthenticationFailed,
        BrokerSilent,
        KafkaConnectionError,
        KafkaError,
        OptionError,
        SomeFailed,
    )

    # What the clients log is said again, shorter, by the error that ends the command.
    logging.getLogger("ottla.clients").addHandler(logging.NullHandler())
    try:
        _await_listener(bootstrap)
        _not_a_strangers(bootstrap)
    except BaseException:
        main.close()
        raise
    try:
        return asyncio.run(main)
    except KafkaConnectionError as error:
        raise no_broker(bootstrap, str(error), reason(str(error))) from None
    except BrokerSilent as error:
        raise silent([error.address]) from None
    except SomeFailed as error:
        said = dict.fromkeys(_sentence(_plain(one)) for one in error.errors.values())  # of each partition the same
        raise Refused(*said) from None
    except KafkaError as error:
        if isinstance(error, AuthenticationFailed) and "invalid_token" in str(error):  # all that clients are told
            advice = "It may have ended, or be for another audience. The broker's log and audit say why."
            raise Refused(f"The broker does not accept the token: {error}", advice) from None
        raise Refused(_sentence(_plain(error))) from None
    except OptionError as error:
        raise click.UsageError(as_written(str(error))) from None


def _await_listener(bootstrap: str, patience_s: float = 2.0) -> None:
    """Give a broker that was started a moment ago the time to listen; nothing happens if it never does."""
    import socket
    import time

    known = addresses(bootstrap)
    deadline = time.monotonic() + patience_s
    while True:
        for host, port in known:
            try:
                socket.create_connection((host, port), timeout=patience_s).close()
                return
            except ConnectionRefusedError:
                continue
            except (OSError, OverflowError):
                return
        if time.monotonic() > deadline or not known:
            return
        time.sleep(0.1)


def _not_a_strangers(bootstrap: str) -> None:
    """Refuse to go to the default address if another broker than Ottla has it: nobody has said that it is meant.

    Whoever starts `ottla serve` where a Kafka has the port, and goes on with the next command, would change that one.
    """
    context = click.get_current_context(silent=True)
    if context is None or context.get_parameter_source("bootstrap") is not ParameterSource.DEFAULT or is_secured():
        return
    for host, port in addresses(bootstrap or DEFAULT_BOOTSTRAP):
        if (who := greet(host, port)) in (Who.BROKER, Who.STRANGER):
            raise Refused(
                f"The broker at {DEFAULT_BOOTSTRAP} is none of Ottla's: {who.value} has the port.",
                f"If that is the one you mean, say so: -b {DEFAULT_BOOTSTRAP}",
                "To have an Ottla beside it:           ottla serve --listen localhost:9093",
                "and for all other commands:           export OTTLA_BOOTSTRAP_SERVERS=localhost:9093",
            )


def reason(text: str) -> str:
    """The last clause of a connection error says why: ``… [Errno 111] Connect call failed ('127.0.0.1', 9)``."""
    if "Errno 111" in text or "refused" in text.lower():
        return "connection refused"
    return text.removeprefix("no broker answers: ")


_SELF_EXPLAINING = (
    "INVALID_CONFIG",
    "INVALID_PARTITIONS",
    "INVALID_REPLICATION_FACTOR",
    "INVALID_REQUEST",
    "INVALID_TOPIC_EXCEPTION",
)
"""Errors whose name says less than what brokers send with them."""


def _plain(error: KafkaError) -> str:
    """The text of an error, without its name if the text says more."""
    from ottla.clients.errors import BrokerSilent

    if isinstance(error, BrokerSilent):
        return f"{error.address} does not answer"
    tried, named, said = str(error).partition(f": {error.code.text}; ")
    if named and error.code.name in _SELF_EXPLAINING:
        return f"Cannot {tried}: {said[:1].lower()}{said[1:]}"
    return str(error).replace("ssl_cafile", "--cafile")  # clients' options have other names


_PLACE = re.compile(r"(?P<topic>[\w.-]+)-(?P<partition>\d+): (?P<what>.+)", re.ASCII | re.DOTALL)
_ADDRESS = re.compile(r"[\w.-]+:\d+: ", re.ASCII)


def _sentence(text: str) -> str:
    """With a capital letter, but none for the name of a topic or a machine, and a full stop."""
    if place := _PLACE.fullmatch(text):
        text = f"Topic {place['topic']!r}, partition {place['partition']}: {place['what']}"
    if not _ADDRESS.match(text):
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
