"""Names that steer a terminal, forge lines or are markup, in everything that commands and the broker's log print."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click.testing
import pytest
from click.testing import CliRunner, Result

from ottla.cli.escapes import compile_format
from ottla.cli.group_watch import Watched, page
from ottla.cli.main import command
from ottla.cli.output import Refused, json_text, plain, table
from ottla.clients import ConsumerRecord
from ottla.observe.logs import logger
from ottla.observe.printable import printable
from ottla.testing import Broker
from tests.support.client import Client, batch
from tests.wire.requests import SUBSCRIBED

TITLE, SCREEN, LINE, RETURN = "\x1b]0;owned\x07", "\x1b[2J\x1b[7;35m", "\nFORGED line", "\rFORGED return"
C1, BIDI, MARKUP = (
    "\x9b2J\x85\x7f\x08",
    "\u202egnp.exe\u2066\u2069\u200f\u2028",
    "[red]x[/red][link=file:///etc]y[/link]",
)
NASTY = TITLE + SCREEN + LINE + RETURN + C1 + BIDI
EVERYTHING = NASTY + MARKUP
STATIC = f"static{EVERYTHING}"
LONG = "\x1b[7;35m" + "n" * 32_000
SECRET = "".join(("s3", "cret--"))  # the lines of a traceback show the code
OWN_STYLE = re.compile(r"\x1b\[(?!7;35m)[0-9;]*m")
"""What our own tables and sentences do on a terminal. None of it is inverse and violet."""

pytestmark = pytest.mark.e2e


def harmless(text: str) -> str:
    """The text of a terminal without our own styles.

    Raises:
        AssertionError: something else in it is no visible character, or a name stands where lines begin.
    """
    text = OWN_STYLE.sub("", text)
    strange = {one for one in text if not one.isprintable() and one != "\n"}
    assert not strange, (strange, text)
    assert not [line for line in text.splitlines() if line.startswith("FORGED")], text
    return text


@dataclass
class Ottla:
    """Runs commands as on a terminal, or in a pipe."""

    bootstrap: str
    on_terminal: bool

    def run(self, *arguments: object, expect: int | None = 0) -> Result:
        env = {"OTTLA_BOOTSTRAP_SERVERS": self.bootstrap, "COLUMNS": "160", "TERM": "xterm-256color"}
        with pytest.MonkeyPatch.context() as patch:
            if self.on_terminal:
                patch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda stream: True, raising=False)
            result = CliRunner(env=env).invoke(command, list(map(str, arguments)), prog_name="ottla", color=None)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert expect is None or result.exit_code == expect, result.output
        return result

    def harmless(self, *arguments: object, expect: int | None = 0) -> str:
        return harmless(self.run(*arguments, expect=expect).output)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nasty")


@pytest.fixture(scope="module")
def broker(data_dir: Path) -> Iterator[Broker]:
    """A broker with a guest whose every name is nasty."""
    settings = {"group.initial.rebalance.delay.ms": 0}
    with (
        Broker(settings, data_dir=data_dir, topics={"orders": 1}) as broker,
        Client(broker.port, EVERYTHING) as guest,
    ):
        protocols = {"range" + EVERYTHING: SUBSCRIBED}
        for group, instance in ((EVERYTHING, None), (STATIC, EVERYTHING), (LONG, None)):
            guest.stable(group, protocols=protocols, instance=instance)
        assert guest.commit(f"{EVERYTHING}-offsets", "orders", committed_metadata=NASTY) == 0
        assert guest.produce("orders", batch(NASTY.encode(), key=NASTY.encode())).error_code == 0
        assert guest.producer(EVERYTHING).error_code == 0
        yield broker


@pytest.fixture(params=[True, False], ids=["terminal", "pipe"])
def ottla(broker: Broker, request: pytest.FixtureRequest) -> Ottla:
    return Ottla(broker.bootstrap_servers, request.param)


def in_id(arguments: tuple[str, ...]) -> str:
    """What a test is called: the words that are not nasty."""
    return " ".join("".join(re.findall(r"^[\w./-]+", one)[:1]) or "nasty" for one in arguments)


LOOKS = (
    ("groups", "list"),
    ("groups", "describe", "--all-groups"),
    ("groups", "describe", EVERYTHING, f"{EVERYTHING}-offsets"),
    ("groups", "wait", EVERYTHING, "--state", "empty", "--timeout", "0.1s"),
    ("groups", "reset-offsets", EVERYTHING, "--to-earliest", "--topic", "orders"),
    ("why", EVERYTHING),
    ("why", EVERYTHING, "--last", "5"),
    ("timeline", EVERYTHING),
    ("transactions", "list"),
    ("transactions", "describe", EVERYTHING),
    ("offsets", "decode"),
    ("offsets", "decode", "--latest"),
)


@pytest.mark.parametrize("arguments", LOOKS, ids=in_id)
def test_no_name_steers_the_terminal(ottla: Ottla, arguments: tuple[str, ...]) -> None:
    shown = ottla.run(*arguments, expect=None)
    assert shown.exit_code in (0, 1), shown.output
    text = harmless(shown.output)
    assert "No such option" not in text
    assert "owned" in text.replace("\n", ""), "the name is not shown at all"


def test_markup_is_shown_as_it_is(ottla: Ottla) -> None:
    text = ottla.harmless("groups", "list")
    assert MARKUP in "".join(line.split("  ")[0].strip() for line in text.splitlines())


@pytest.mark.parametrize(
    "arguments",
    [
        ("groups", "describe", f"no{EVERYTHING}"),
        ("groups", "delete", EVERYTHING),
        ("groups", "delete", f"no{EVERYTHING}"),
        ("topics", "describe", EVERYTHING),
        ("topics", "create", EVERYTHING),
        ("topics", EVERYTHING),
        ("consume", EVERYTHING, "--exit"),
        ("configs", "set", "topic", "orders", f"{EVERYTHING}=1"),
        ("transactions", "describe", f"no{EVERYTHING}"),
        ("log", "dump", f"/nowhere/{NASTY.replace('/', '')}"),
        ("why", EVERYTHING, "--file", f"/nowhere/{EVERYTHING}"),
        ("serve", f"--{EVERYTHING}"),
        (EVERYTHING,),
        (f"--{EVERYTHING}",),
        ("groups", "list", "--state", EVERYTHING),
        ("groups", "list", EVERYTHING),
    ],
    ids=in_id,
)
def test_neither_does_an_error(broker: Broker, arguments: tuple[str, ...]) -> None:
    failed = Ottla(broker.bootstrap_servers, True).run(*arguments, expect=None)
    assert failed.exit_code in (1, 2), failed.output
    harmless(failed.output)


@pytest.mark.parametrize(
    "arguments",
    [
        ("groups", "list"),
        ("groups", "describe", "--all-groups"),
        ("why", EVERYTHING),
        ("why", EVERYTHING, "--last", "3"),
        ("timeline", EVERYTHING),
        ("transactions", "list"),
        ("offsets", "decode"),
    ],
    ids=in_id,
)
def test_json_says_the_name_and_shows_nothing_else(broker: Broker, arguments: tuple[str, ...]) -> None:
    text = Ottla(broker.bootstrap_servers, False).harmless(*arguments, "--format", "json")
    documents = [json.loads(text)] if text[0] == "[" or text.count("\n") == 1 else map(json.loads, text.splitlines())
    assert json.dumps(EVERYTHING)[1:-1] in "".join(map(json.dumps, documents))


def test_records_are_escaped_on_a_terminal_and_as_they_are_in_a_pipe(broker: Broker) -> None:
    arguments = ("consume", "orders", "--from-beginning", "--exit", "--quiet", "--format", r"%k=%s\n")
    piped = Ottla(broker.bootstrap_servers, False).run(*arguments)
    assert piped.stdout_bytes == f"{NASTY}={NASTY}\n".encode()
    shown = Ottla(broker.bootstrap_servers, True).run(*arguments).stdout
    assert "\x1b" not in shown and r"\x1b]0;owned\x07" in shown
    as_json = Ottla(broker.bootstrap_servers, False).harmless(*arguments[:-1], "json")
    assert json.loads(as_json)["value"] == NASTY


def test_neither_does_what_lies_in_files(broker: Broker, data_dir: Path) -> None:
    ottla = Ottla(broker.bootstrap_servers, True)
    for arguments in (("log", "dump", data_dir, "--print-data-log"), ("offsets", "decode", data_dir)):
        assert "owned" in ottla.harmless(*arguments)
    for path in (data_dir / "journal").glob("*.wal"):
        ottla.harmless("log", "dump", path, "--print-data-log")


def test_neither_does_the_live_table(broker: Broker) -> None:
    from rich.console import Console

    watched, out = Watched(), io.StringIO()
    console = Console(file=out, force_terminal=True, width=200)
    console.print(page(watched, [EVERYTHING], 0.0, EVERYTHING))
    console.print(table((EVERYTHING, "b"), [(EVERYTHING, LONG)], title=EVERYTHING))
    assert MARKUP in harmless(out.getvalue()).replace("\n", "")


def test_a_long_name_does_not_make_every_row_as_long() -> None:
    text = plain(("group", "state"), [(LONG, "Empty"), *[("short", "Empty")] * 1_000], [False, False])
    assert len(text) < 2 * len(LONG) + 1_000 * 400


def test_what_is_printable_stays() -> None:
    assert printable("größe_[red]\\x1b 日本") == "größe_[red]\\x1b 日本"
    assert printable(printable(EVERYTHING)) == printable(EVERYTHING)
    assert printable("\ud800\U000e0001") == r"\ud800\U000e0001"
    assert json.loads(json_text({"\ud800\U000e0001\x9b": "日本"})) == {"\ud800\U000e0001\x9b": "日本"}
    assert Refused(f"one{LINE}", "two").message == "one\\nFORGED line\n  two"


def test_the_escapes_of_a_format_are_its_users() -> None:
    record = ConsumerRecord(
        topic="t", partition=0, offset=0, timestamp=0, timestamp_type=0, key=b"\x1b[2J\xff", value=b"a\tb\nc\x9b",
        headers=[("h\r", b"\x07")],
    )  # fmt: skip
    shown = compile_format(r"\e[1m%k %s %h\e[0m", is_safe=True)(record)
    assert shown == b"\x1b[1m" + rb"\x1b[2J\xff " + b"a\tb\nc" + rb"\x9b h\r=\x07" + b"\x1b[0m"


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def a_bug(token: str) -> None:
    raise ValueError(f"{token}{EVERYTHING}"[8:])


@pytest.mark.parametrize("make", [io.StringIO, Screen], ids=["pipe", "terminal"])
def test_a_guest_writes_no_line_of_the_log(make: Callable[[], io.StringIO]) -> None:
    out = make()
    log = logger(stream=out, level="debug")
    log.info(f"Member {EVERYTHING} joined", client_id=NASTY.replace(" ", ""), names=[EVERYTHING], group_id=EVERYTHING)
    log.warning("refused", reason=f"a{EVERYTHING}", error=ValueError(EVERYTHING))
    try:
        a_bug(SECRET)
    except ValueError:
        log.error("A bug", exc_info=True)
    text = harmless(out.getvalue())
    assert text.count("owned") >= 7
    assert "s3cret" not in text, "what the functions of a traceback hold is nobody's business"


def test_a_guest_writes_no_line_of_the_log_for_programs() -> None:
    out = io.StringIO()
    log = logger("json", stream=out)
    log.warning(f"refused {EVERYTHING}", reason=f"a{EVERYTHING}", error=ValueError(EVERYTHING))
    try:
        a_bug(SECRET)
    except ValueError:
        log.error("A bug", exc_info=True)
    assert harmless(out.getvalue()).count("\n") == 2
    assert [json.loads(line)["level"] for line in out.getvalue().splitlines()] == ["warning", "error"]
