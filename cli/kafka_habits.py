"""Command groups that answer the words of Kafka's own tools with the right command."""

from __future__ import annotations

import shlex

import click

from ottla.broker.observe.printable import printable


class CommandFirst(click.Group):
    """A group whose commands Kafka's tools have as options: ``--describe --group billing``.

    A class that has it names its subject: the option that is an argument here.
    """

    subject = ""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse what begins with an option and say how it is written here.

        Raises:
            click.UsageError: no command comes first.
        """
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            said = printable(args[0].partition("=")[0])
            raise click.UsageError(f"A command comes first, not {said}; try: {self._instead(ctx, args)}", ctx)
        return super().parse_args(ctx, args)

    def _instead(self, ctx: click.Context, args: list[str]) -> str:
        named: list[str] = []
        rest: list[str] = []
        chosen = ""
        words = iter(args)
        for word in words:
            option, equals, value = word.partition("=")
            if option == self.subject:
                named += [value if equals else next(words, option.strip("-").upper())]
            elif not chosen and word.removeprefix("--") in self.commands:
                chosen = word.removeprefix("--")
            elif option in ("--bootstrap-server", "-b") and not equals:
                rest += [word, next(words, "HOST:PORT")]
            else:
                rest.append(word)
        chosen = chosen or ("describe" if named else "list")
        return shlex.join([*ctx.command_path.split(), chosen, *named, *rest])
