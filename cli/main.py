"""`ottla`: the command groups, each imported when it is called, so that `ottla --help` is instant."""

from __future__ import annotations

import gc
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

COMMANDS = {
    "serve": "Run a broker.",
    "topics": "List, describe, create, delete and grow topics.",
    "groups": "List, describe, delete groups and reset their offsets.",
    "why": "Say why a group rebalanced, who held it up, and what to do.",
    "timeline": "Draw who joined, waited, owned and was silent when.",
    "produce": "Send lines of a file or of standard input to a topic.",
    "consume": "Print the records of topics, alone or as a member of a group.",
    "pipeline": "Keep the history of groups as tables, with Spark.",
    "lake": "Write topics to Parquet, every record once; compact it.",
    "users": "List users, set their passwords, remove them.",
    "acls": "List, add and remove access control rules; test who may do what.",
    "token": "Make tokens for the HTTP port.",
    "configs": "Show and change settings of topics, of groups and of the broker.",
    "fault": "Let requests fail on purpose, or play a failure of production.",
    "clock": "Show a broker's clock, freeze it, move it ahead, for tests.",
    "transactions": "List transactions; find and abort those that hang.",
    "offsets": "Read __consumer_offsets, of a broker or of files.",
    "replay": "Play a recording back: does the coordinator decide the same?",
    "cluster": "Show nodes, drain them, move partitions between them, check their database.",
    "doctor": "Check the machine, the disk and the settings.",
    "recover": "Say what is damaged in a data directory, or discard what is damaged.",
    "log": "Look into segment files: print, check and follow them.",
    "help": "Print a page of the documentation: settings, exit-codes, completion, …",
}
"""One line of help for each command, which is in the module of its name."""

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells count: 128 and the number of the signal."""
RENAMED = {
    "--format-output": "--format",
    "--interval-ms": "--interval, with a unit: --interval 200ms",
    "--json": "--format json",
    "--max-records": "--max-messages",
    "--password": "--password-file FILE, or have it in OTTLA_PASSWORD: whoever lists processes sees arguments",
    "--seconds": "--disk-time, with a unit: --disk-time 1s",
    "--timeout-ms": "--timeout, with a unit: --timeout 500ms",
}
"""Old names of options, and names that other tools have; and what to say instead."""
_NO_NUMBER = re.compile(r"(.*) is not a valid (integer|float)", re.DOTALL)
_NO_COMMAND = re.compile(r"No such command ('.*'|\".*\")", re.DOTALL)


class LazyGroup(click.Group):
    """A click group whose commands are modules with a ``command`` attribute."""

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        with _harmless_errors():
            return super().make_context(*arguments, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse options of a command that stand before it: here they go after it.

        Raises:
            click.UsageError: with the command line as it is written here.
        """
        ours = {name for one in self.get_params(ctx) for name in one.opts}
        at = next((at for at, word in enumerate(args) if word in COMMANDS), 0)
        if at and args[0].startswith("-") and args[0] not in ours and not ctx.resilient_parsing:
            right = shlex.join(["ottla", *args[at:], *args[:at]])
            raise click.UsageError(f"Options go after the command; try: {right}", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _harmless_errors():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            from ottla.cli.output import note

            note("Stopped before it was done.")
            ctx.exit(INTERRUPTED)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"ottla.cli.{cmd_name}").command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands, none of which is imported for that, and the options."""
        named = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@contextmanager
def _harmless_errors() -> Iterator[None]:
    """Let no control character of an argument into what ends a command."""
    try:
        yield
    except click.ClickException as error:
        from ottla.observe.printable import printable

        if type(error).__name__ == "NoArgsIsHelpError":  # help, which is ours; before click 8.2 it is no error
            raise
        if isinstance(error, click.NoSuchOption) and error.ctx is not None:
            said = RENAMED.get(error.option_name, "")
            if any(said.split(",")[0].split(" ")[0] in one.opts for one in error.ctx.command.params):
                raise click.UsageError(f"There is no {error.option_name}: say {said}.", error.ctx) from None
        if isinstance(error, click.UsageError) and error.ctx and (unknown := _NO_COMMAND.match(error.message)):
            error = _no_command(unknown[1], error.ctx)
        if isinstance(error, click.BadParameter) and (wrong := _NO_NUMBER.match(error.message)):
            error.message = f"{wrong[1]}: write {_number(error.param)}."  # type: ignore[misc]
        # A failure may have lines of ours, of which each is printable; what is wrong with an argument is one.
        lines = [error.message] if isinstance(error, click.UsageError) else error.message.split("\n")
        error.message = "\n".join(map(printable, lines))  # type: ignore[misc]
        raise error from None


def _no_command(unknown: str, context: click.Context) -> click.UsageError:
    """The error for a command that does not exist, named in quotes; it names the one that was meant."""
    from ottla.cli.common import near

    group, path = context.command, context.command_path
    meant = near(unknown[1:-1], group.list_commands(context)) if isinstance(group, click.Group) else ""
    advice = f"did you mean `{path} {meant}`?" if meant else f"`{path} --help` lists those that exist."
    return click.UsageError(f"There is no command {unknown}; {advice}", context)


def _number(parameter: click.Parameter | None) -> str:
    """The numbers that a parameter takes, in words."""
    kind = parameter.type if parameter else None
    noun = "a number" if isinstance(kind, click.types.FloatParamType) else "a whole number"
    low, high = (kind.min, kind.max) if isinstance(kind, click.IntRange | click.FloatRange) else (None, None)
    start = "" if low is None else f" from {low}"
    return noun + start + (f" to {high}" if high is not None else " up" if start else "")


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="ottla", prog_name="ottla")
def command() -> None:
    """The broker whose consumer groups you can see, stop, rewind and script."""


def main() -> None:
    """The entry point of the `ottla` script; `ottla help exit-codes` tells what it ends with."""
    gc.set_threshold(100_000)  # a tenth of a start went into collecting what imports never leave: garbage
    command(prog_name="ottla")


if __name__ == "__main__":
    main()
