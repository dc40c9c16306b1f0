"""`ottla fault play` and `show`: failures of production that happen by themselves, and their files."""

from __future__ import annotations

import shutil
import textwrap
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.output import Refused, on_terminal, print_table, say

if TYPE_CHECKING:
    from ottla.testing.cast import Cast
    from ottla.testing.play import Line, Outcome
    from ottla.workbench.failures import Failure

WIDEST = 120
TIME = "{:9.1f} s  "
OTTLA = "ottla.testing.ottla_cast:CAST"


def _fitting(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from ottla.workbench.failures import names

    return [name for name in names() if name.startswith(incomplete)]


@click.command(short_help="Let a failure of production happen: ottla fault play lost-sync-answer")
@click.argument("name", required=False, shell_complete=_fitting)
@click.option(
    "--cast",
    "cast_name",
    default=OTTLA,
    show_default=True,
    metavar="MODULE:NAME",
    help="The clients that play: an ottla.testing.cast.Cast of yours.",
)
def play(name: str | None, cast_name: str) -> None:
    """Start a broker, let clients come and a failure happen, and tell what they saw and what `ottla why` says.

    NAME is a failure of the library, or a YAML file of yours. Without it the library is listed. The exit code is 0 if
    the failure showed itself as its file says.
    """
    from ottla.testing.play import play

    if name is None:
        _list()
        return
    failure = _load(name)
    cast = _cast(cast_name)
    _begin(failure)
    outcome = play(failure, cast, _tell)
    _end(failure, outcome)
    if not outcome.is_right:
        raise Refused(
            f"The failure {name} did not show itself as its file says.", f"`ottla fault show {name}` prints the file."
        )


@click.command(short_help="Print the file of a failure.")
@click.argument("name", shell_complete=_fitting)
def show(name: str) -> None:
    """Print the file of a failure: what it stands for, its story, its steps, and what must come of them."""
    from ottla.workbench.failures import text_of

    _load(name)
    say(*text_of(name).splitlines())


def _list() -> None:
    from ottla.workbench.failures import all_failures

    print_table(("failure", "what happens"), [(one.name, one.title) for one in all_failures()])


def _load(name: str) -> Failure:
    """A failure of the library, or of a file."""
    from ottla.workbench.failures import SUFFIX, BadFailure, Failure, load

    path = Path(name)
    try:
        if path.suffix == SUFFIX:
            return Failure.read(path.stem, path.read_text(encoding="utf-8"))
        return load(name)
    except (BadFailure, OSError, UnicodeDecodeError) as error:
        raise Refused(f"{str(error)[:1].upper()}{str(error)[1:]}.", "`ottla fault play` lists the failures.") from None


def _cast(name: str) -> Cast:
    from pkgutil import resolve_name

    from ottla.testing.cast import Cast

    try:
        found = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise click.UsageError(f"--cast {name}: {error}; write MODULE:NAME, such as {OTTLA}") from None
    if not isinstance(found, Cast):
        raise click.UsageError(f"--cast {name} is no Cast of ottla.testing.cast, but {type(found).__name__}")
    return found


# What is told


def _begin(failure: Failure) -> None:
    say(failure.title, bold=True)
    for one in failure.stands_for:
        _wrapped("  ", f"{one.text}: {one.url}", dim=True)
    say()
    for paragraph in failure.story.strip().split("\n\n"):
        _wrapped("  ", " ".join(paragraph.split()))
        say()
    say("What happens, by the broker's clock, which stands but where it is moved", bold=True)


def _tell(line: Line) -> None:
    """Tell of a step, of what a client saw, or of what the broker logged."""
    time = TIME.format(line.at_ms / 1000)
    if not line.who:
        _wrapped(time, f"› {line.text}", bold=True)
    elif line.who == "broker":
        _wrapped(time, f"broker: {line.text}", dim=True)
    else:
        _wrapped(time, f"{line.who} {line.text}")


def _end(failure: Failure, outcome: Outcome) -> None:
    say()
    say("What each client saw", bold=True)
    for role, text in outcome.saw.items():
        _wrapped("  ", f"{role}: {text}")
    say()
    say(f"What `ottla why {failure.group}` says", bold=True)
    said = set()
    for episode in outcome.episodes:
        _wrapped("  ", episode.headline)
        for advice in episode.advice:
            if advice.text not in said:
                said.add(advice.text)
                _wrapped("    ", f"What to do: {advice.text}", fg="green" if on_terminal() else None)
    say()
    say("The verdict", bold=True)
    if outcome.stuck:
        _wrapped("  ✗ ", f"it did not come to its end: {outcome.stuck}", fg="red" if on_terminal() else None)
    for finding in outcome.findings:
        colour = "green" if finding.is_so else "red"
        _wrapped(f"  {'✓' if finding.is_so else '✗'} ", finding.text, fg=colour if on_terminal() else None)


@cache
def _width() -> int:
    return min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)


def _wrapped(indent: str, text: str, *, bold: bool = False, dim: bool = False, fg: str | None = None) -> None:
    lines = textwrap.wrap(text, _width() - len(indent), break_on_hyphens=False, break_long_words=False) or [""]
    say(
        indent + lines[0],
        *(" " * len(indent) + line for line in lines[1:]),
        bold=bold,
        dim=dim and on_terminal(),
        fg=fg,
    )
