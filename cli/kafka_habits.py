"""Command groups that answer the words of Kafka's own tools with the right command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import click

from ottla.observe.printable import printable


class CommandFirst(click.Group):
    """A group whose commands Kafka's tools have as options: ``--describe --group billing``.

    A class that has it names its subject: the option that is an argument here; and by Kafka's words for commands that
    have another name here these names, and all that the words may mean.
    """

    subject = ""
    renamed: Mapping[str, tuple[str, str]] = {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse what begins with an option and say how it is written here.

        Raises:
            click.UsageError: no command comes first.
        """
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            said = printable(args[0].partition("=")[0])
            raise click.UsageError(f"A command comes first, not {said}; try: {self._instead(ctx, args)}", ctx)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises `click.UsageError` for a command that has another name here."""
        if args[0] in self.renamed:
            path = ctx.command_path
            raise click.UsageError(f"There is no `{path} {args[0]}`: {self.renamed[args[0]][1]}.", ctx)
        return super().resolve_command(ctx, args)

    def _instead(self, ctx: click.Context, args: list[str]) -> str:
        named: list[str] = []
        rest: list[str] = []
        chosen = ""
        words = iter(args)
        for word in words:
            option, equals, value = word.partition("=")
            if option == self.subject:
                named += [value if equals else next(words, option.strip("-").upper())]
            elif not chosen and (name := word.removeprefix("--")) in {*self.commands, *self.renamed}:
                chosen = self.renamed[name][0] if name in self.renamed else name
            elif option in ("--bootstrap-server", "-b") and not equals:
                rest += [word, next(words, "HOST:PORT")]
            else:
                rest.append(word)
        chosen = chosen or ("describe" if named else "list")
        return shlex.join([*ctx.command_path.split(), chosen, *named, *rest])
