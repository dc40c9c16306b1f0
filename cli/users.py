"""`ottla users`: who may log in with a password (SCRAM), of a running broker or in a data directory that none uses."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.common import Answer, formatted, with_admin
from ottla.cli.completion import DEFAULT_BOOTSTRAP
from ottla.cli.connecting import connecting, properties, read_secret
from ottla.cli.output import Refused, print_fields, say, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
    from ottla.protocol.sasl.scram import Mechanism

FEWEST_CHARACTERS = 8
"""NIST SP 800-63B asks for no fewer in any password."""

F = TypeVar("F", bound=Callable[..., Any])

MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
LEAST, MOST = 4096, 16_384
"""Iterations, as brokers take them."""


def _place(function: F) -> F:
    """``--data-dir``, or the broker."""
    function = connecting("--password-file")(function)
    function = click.option(
        "--bootstrap-server",
        "-b",
        "bootstrap",
        metavar="HOST:PORT[,…]",
        envvar="OTTLA_BOOTSTRAP_SERVERS",
        show_envvar=True,
        help=f"The broker. [{DEFAULT_BOOTSTRAP}, unless there is --data-dir]",
    )(function)
    return click.option(
        "--data-dir",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        help="A data directory instead, while no broker uses it; one that is new, for the first user.",
    )(function)


def _password(function: F) -> F:
    """The password of the user, from everywhere but the command line."""
    function = click.option(
        "--password-env", metavar="NAME", help="The environment variable with the user's password. [asked for]"
    )(function)
    return click.option(
        "--password-file", metavar="FILE", help="The file with the user's password, without a line break at its end."
    )(function)


mechanism_option = click.option(
    "--mechanism", type=click.Choice(MECHANISMS), default=MECHANISMS[0], show_default=True, help="How it is checked."
)
iterations_option = click.option(
    "--iterations",
    type=click.IntRange(LEAST, MOST),
    default=8192,
    show_default=True,
    help="How much work it is to guess the password.",
)


@click.group("users")
def command() -> None:
    """List users, set their passwords, remove them: SCRAM credentials."""


@command.command(short_help="Set a user's password.")
@click.argument("name")
@_place
@mechanism_option
@iterations_option
@_password
def set(
    name: str,
    data_dir: Path | None,
    bootstrap: str | None,
    mechanism: str,
    iterations: int,
    password_file: str | None,
    password_env: str | None,
) -> None:
    """Set the password of the user NAME, who need not exist.

    With --data-dir it is written into the directory, e.g. for the first user of a new broker.
    """
    kind = _mechanism(mechanism)
    password = _given_password(name, password_file, password_env)
    if len(password) < FEWEST_CHARACTERS:
        warn(f"the password of {name!r} has fewer than {FEWEST_CHARACTERS} characters: it is quick to guess.")
    if data_dir is None:
        _asking(bootstrap, lambda admin: admin.set_user(name, password, kind, iterations))
    else:
        from ottla.protocol.messages import alter_user_scram_credentials as messages

        salted, salt = _salted(password, kind, iterations)
        upsertion = messages.ScramCredentialUpsertion(
            name=name, mechanism=kind, iterations=iterations, salt=salt, salted_password=salted
        )
        _change(data_dir, name, messages.AlterUserScramCredentialsRequest(upsertions=[upsertion]))
    say(f"User {name!r} has a password for {mechanism}.")


@command.command("list")
@_place
@formatted
def list_(data_dir: Path | None, bootstrap: str | None) -> Answer:
    """Show the users, and how their passwords are checked."""
    if data_dir is None:
        found = _asking(bootstrap, lambda admin: admin.list_users())
    else:
        from ottla.broker.core.security.scram import described

        with _catalog(data_dir) as (catalog, _):
            users = described(catalog.credentials, ())
        found = {name: one for name, one in users.items() if isinstance(one, list)}
    rows = [
        {"user": name, "mechanism": mechanism.words, "iterations": iterations}
        for name, credentials in found.items()
        for mechanism, iterations in credentials
    ]
    nothing = "There are no users with passwords; `ottla users set NAME` makes one."
    headings = "user", "mechanism", "iterations"
    return Answer(rows, partial(print_fields, headings, rows, *headings, nothing=nothing))


@command.command(short_help="Remove a user.")
@click.argument("name")
@_place
@click.option("--mechanism", type=click.Choice(MECHANISMS), help="Only the credential for this. [all that there are]")
def remove(name: str, data_dir: Path | None, bootstrap: str | None, mechanism: str | None) -> None:
    """Remove the credentials of the user NAME. Connections that there are stay."""
    from ottla.protocol.sasl.scram import Mechanism

    kinds = list(Mechanism) if mechanism is None else [_mechanism(mechanism)]
    if data_dir is None:

        async def work(admin: Any) -> None:
            having = [one for one, _ in (await admin.list_users()).get(name, ()) if one in kinds]
            if not having:
                raise _no_user(name, mechanism)
            for one in having:
                await admin.remove_user(name, one)

        _asking(bootstrap, work)
    else:
        from ottla.protocol.messages import alter_user_scram_credentials as messages

        with _catalog(data_dir) as (catalog, _):
            having = [one for one in kinds if (name, one) in catalog.credentials]
        if not having:
            raise _no_user(name, mechanism)
        for one in having:
            deletion = messages.ScramCredentialDeletion(name=name, mechanism=one)
            _change(data_dir, name, messages.AlterUserScramCredentialsRequest(deletions=[deletion]))
    say(f"User {name!r} is removed." if mechanism is None else f"User {name!r} has no password for {mechanism} now.")


@command.command(short_help="Print a user as a line of a users file.")
@click.argument("name")
@mechanism_option
@iterations_option
@_password
def hash(name: str, mechanism: str, iterations: int, password_file: str | None, password_env: str | None) -> None:
    """Print the user NAME as `ottla serve --users-file` and ottla.sasl.plain.users.file read it."""
    from ottla.broker.core.security.users_file import user_line
    from ottla.protocol.sasl.scram import credential_of

    kind = _mechanism(mechanism)
    salted, salt = _salted(_given_password(name, password_file, password_env), kind, iterations)
    say(user_line(name, kind, credential_of(kind, salted, salt, iterations)))


def _mechanism(words: str) -> Mechanism:
    from ottla.protocol.sasl.scram import MECHANISMS

    return MECHANISMS[words]


def _salted(password: str, kind: Mechanism, iterations: int) -> tuple[bytes, bytes]:
    """The salted password, and the salt."""
    from ottla.protocol.sasl.scram import salted_password

    salt = secrets.token_bytes(32)
    return salted_password(kind, password, salt, iterations), salt


def _given_password(name: str, file: str | None, variable: str | None) -> str:
    """The password of a user who is to be set.

    Raises:
        click.UsageError: it is nowhere.
    """
    if file is not None:
        return read_secret(file)
    if variable is not None:
        if not (password := os.environ.get(variable)):
            raise click.UsageError(f"--password-env {variable}: the environment has no such variable, or it is empty.")
        return password
    if not sys.stdin.isatty():
        raise click.UsageError("Say where the password is: --password-file FILE, or --password-env NAME.")
    text: str = click.prompt(f"New password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    return text


def _asking(bootstrap: str | None, work: Callable[[Any], Any]) -> Any:
    from ottla.clients.security_admin import SecurityAdmin

    return with_admin(bootstrap or properties().get("bootstrap.servers", DEFAULT_BOOTSTRAP), work, SecurityAdmin)


@contextmanager
def _catalog(data_dir: Path) -> Iterator[tuple[Any, Callable[[Any], None]]]:
    """The catalog of a data directory, and what stores another one.

    Raises:
        Refused: a broker uses it, or it cannot be read or written.
    """
    from ottla.broker.core.topics.catalog import BadCatalog, Catalog
    from ottla.broker.engine import EngineError
    from ottla.broker.storage.local.unused import unused_catalog
    from ottla.cli.damage import refuse_a_part

    refuse_a_part(data_dir)
    try:
        with unused_catalog(str(data_dir)) as (state, store):
            yield Catalog.from_state(state), lambda catalog: store(catalog.state())
    except (BadCatalog, EngineError) as error:
        raise Refused(f"{str(error)[:1].upper()}{str(error)[1:]}.") from None


def _change(data_dir: Path, name: str, request: AlterUserScramCredentialsRequest) -> None:
    from dataclasses import replace

    from ottla.broker.core.security.scram import plan

    with _catalog(data_dir) as (catalog, store):
        planned = plan(catalog.credentials, request)
        if (refusal := planned.refusals[name]) is not None:
            raise Refused(f"{refusal.message}.")
        store(replace(catalog, credentials=planned.credentials))


def _no_user(name: str, mechanism: str | None) -> Refused:
    what = f"There is no user {name!r}" + (f" with a password for {mechanism}." if mechanism else ".")
    return Refused(what, "`ottla users list` shows those that exist.")
