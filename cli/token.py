"""`ottla token`: tokens for the HTTP port."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.output import Refused, note, say


@click.group("token")
def command() -> None:
    """Make tokens for the HTTP port: for browsers, and for programs that read metrics or the API."""


@command.command(short_help="Make a token.")
@click.argument("name")
@click.option(
    "--file",
    "path",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append the line by which the broker knows it: the file of `ottla serve --http-token-file`.",
)
def new(name: str, path: Path | None) -> None:
    """Make a token for NAME and print it; nobody can read it again. To access rules its owner is User:NAME.

    The file has only its digest. A running broker reads the file again when it changes.
    """
    from ottla.observe.http.tokens import append_line, new_token

    if not name.isprintable() or len(name.split()) != 1 or name.startswith("#"):
        raise click.UsageError(f"{name!r}: a name has no blanks, and does not begin with #")
    token, line = new_token(name)
    if path is not None:
        try:
            append_line(path, line)
        except OSError as error:
            raise Refused(f"{path} cannot be written: {error.strerror}") from None
    say(token)
    if path is None:
        note(f"The line for the file of --http-token-file: {line}")
