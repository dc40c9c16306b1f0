"""How commands connect: TLS and SASL, by options, the environment, a file of client properties, or a profile."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ottla.cli.output import Refused

F = TypeVar("F", bound=Callable[..., Any])

_META = "ottla.connecting"
_PASSWORD = "OTTLA_PASSWORD"
_FLAGS = {
    "security_protocol": ("--security-protocol", "PROTOCOL", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."),
    "sasl_mechanism": ("--sasl-mechanism", "MECHANISM", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."),
    "sasl_plain_username": ("--username", "NAME", "Who you are, for PLAIN and SCRAM."),
    "password_file": ("--password-file", "FILE", f"A file with the password; or it is in {_PASSWORD}."),
    "token_file": ("--token-file", "FILE", "A file with the token, for OAUTHBEARER."),
    "ssl_cafile": ("--cafile", "FILE", "The authorities to trust, as PEM."),
    "ssl_certfile": ("--certfile", "FILE", "Your certificate, as PEM."),
    "ssl_keyfile": ("--keyfile", "FILE", "Its key, if it is in another file."),
}
"""By the option of a client, or what becomes one, the option of commands."""


def profile_directory() -> Path:
    """Where profiles are."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "ottla"


def connecting(*without: str) -> Callable[[F], F]:
    """The options that say how to connect. They are kept for `client_options`; the command itself gets none of them.

    Args:
        without: options that mean something else in this command.
    """

    def decorate(function: F) -> F:
        for name, (flag, metavar, text) in reversed(_FLAGS.items()):
            if flag in without:
                continue
            variable = f"OTTLA_{flag.strip('-').replace('-', '_').upper()}"
            function = _option(flag, name, metavar=metavar, envvar=variable, hidden=True, help=text)(function)
        text = "A file NAME.properties in ~/.config/ottla. [default, if there is one]"
        function = _option("--profile", metavar="NAME", envvar="OTTLA_PROFILE", is_eager=True, hidden=True, help=text)(
            function
        )
        return _option(
            "--command-config",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False),
            envvar="OTTLA_COMMAND_CONFIG",
            show_envvar=True,
            is_eager=True,
            help="Kafka's client properties: TLS, who you are. `ottla help connecting` has options for each.",
        )(function)

    return decorate


def _option(*flags: str, **more: Any) -> Callable[[F], F]:
    return click.option(*flags, expose_value=False, callback=_keep, **more)


connecting_options = connecting()


def _keep(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None and parameter.name is not None:
        context.meta.setdefault(_META, {})[parameter.name] = value


def kept(context: click.Context | None = None) -> dict[str, str]:
    """What the options of this command line say, by the names of a client's options."""
    context = context or click.get_current_context(silent=True)
    found: dict[str, str] = context.meta.get(_META, {}) if context else {}
    return found


def properties() -> dict[str, str]:
    """The lines of the profile and of the file that this command line names; those of the file win.

    Raises as `_files`.
    """
    return {key: text for lines in _files().values() for key, text in lines.items()}


def _files() -> dict[Path, dict[str, str]]:
    """The profile and the file that this command line names, and the lines of each.

    Raises:
        Refused: there is no such profile.
        click.UsageError: a file cannot be read.
    """
    given = kept()
    files: list[Path] = []
    name = given.get("profile")
    profile = profile_directory() / f"{name or 'default'}.properties"
    if profile.is_file():
        files.append(profile)
    elif name is not None:
        there = ", ".join(sorted(one.stem for one in profile_directory().glob("*.properties"))) or "none"
        raise Refused(f"There is no profile {name!r}: there is no file {profile}.", f"Profiles that exist: {there}.")
    if "command_config" in given:
        files.append(Path(given["command_config"]))
    if not files:
        return {}
    from ottla.broker.setting_sources import parse_properties, resolved
    from ottla.broker.settings import BadSetting

    found: dict[Path, dict[str, str]] = {}
    for file in files:
        try:
            lines = parse_properties(file.read_text(encoding="utf-8"))
            found[file] = {key: resolved(key, text, os.environ) for key, text in lines.items()}
        except (OSError, UnicodeDecodeError, BadSetting) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise click.UsageError(f"{file}: {why}.") from None
    return found


def is_secured() -> bool:
    """Whether somebody has said how to connect."""
    return bool(kept() or properties())


def security_said() -> dict[str, Any]:
    """What the command line and its files say about security, by the names of a client's options."""
    from ottla.clients.properties import security_options

    said = security_options(properties()) | kept()
    return said | {"security_protocol": str(said.get("security_protocol", "PLAINTEXT")).upper()}


def client_options(bootstrap: str) -> dict[str, Any]:
    """The options of a client that connects as this command line says.

    Raises:
        click.UsageError: it contradicts itself, or a file cannot be read.
    """
    from ottla.clients.errors import OptionError
    from ottla.clients.options import ClientOptions
    from ottla.clients.properties import FileTokens, security_options

    given = dict(kept())
    try:
        options = {"bootstrap_servers": bootstrap} | security_options(properties())
        given.pop("profile", None)
        given.pop("command_config", None)
        if (file := given.pop("password_file", None)) is not None:
            options["sasl_plain_password"] = read_secret(file)
        if (file := given.pop("token_file", None)) is not None:
            options["sasl_oauth_token_provider"] = FileTokens(file)
        options |= given
        if "security_protocol" in given:
            options["security_protocol"] = given["security_protocol"].upper()
        if "sasl_plain_username" in options and "sasl_plain_password" not in options:
            options["sasl_plain_password"] = _asked(f"Password of {options['sasl_plain_username']}")
        ClientOptions(**options)
        if isinstance(tokens := options.get("sasl_oauth_token_provider"), FileTokens):
            read_secret(tokens.path, "token")  # the client looks for it later, again and again
    except OptionError as error:
        raise click.UsageError(as_written(str(error))) from None
    return options


def source_options() -> dict[str, str]:
    """The same for the pipeline's source, by its names. Raises as `client_options`."""
    from ottla.clients.properties import NAMES, TOKEN_URL

    given = kept()
    found = {key: value for key, value in properties().items() if key in NAMES}
    flags = {
        "security_protocol": "security.protocol",
        "sasl_mechanism": "sasl.mechanism",
        "sasl_plain_username": "sasl.username",
        "ssl_cafile": "ssl.ca.location",
        "ssl_certfile": "ssl.certificate.location",
        "ssl_keyfile": "ssl.key.location",
    }
    found |= {key: given[name] for name, key in flags.items() if name in given}
    if "password_file" in given:
        found["sasl.password"] = read_secret(given["password_file"])
    elif "sasl.username" in found and "sasl.password" not in found:
        found["sasl.password"] = _asked(f"Password of {found['sasl.username']}") or ""
    if "token_file" in given:
        found[TOKEN_URL] = Path(given["token_file"]).absolute().as_uri()
    return {f"kafka.{key}": value for key, value in found.items()}


def read_secret(file: str, what: str = "password") -> str:
    """The text of a file without the line break at its end.

    Raises:
        click.UsageError: it cannot be read, or is empty.
    """
    try:
        text = Path(file).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(
            f"{file}: {error.strerror if isinstance(error, OSError) else 'it is no text'}."
        ) from None
    if not text:
        raise click.UsageError(f"{file}: it is empty; write the {what} into it.")
    return text


def _asked(what: str) -> str | None:
    """A password from the environment, or from the terminal if there is one."""
    if (password := os.environ.get(_PASSWORD)) is not None:
        return password
    context = click.get_current_context(silent=True)
    if not sys.stdin.isatty() or (context is not None and context.resilient_parsing):
        return None
    text: str = click.prompt(what, hide_input=True, err=True)
    return text


def as_written(text: str) -> str:
    """The message about a client's option, named as its user wrote it: an option of commands, or a line of a file."""
    from ottla.clients.properties import written

    files = _files()
    named = {name: flag for name, (flag, _, _) in _FLAGS.items()} | {
        "sasl_plain_password": "--password-file",
        "sasl_oauth_token_provider": "--token-file",
    }
    given = {named[name] for name in kept() if name in named}
    named |= {name: key for name, key in written(properties()).items() if named.get(name) not in given}
    text = re.sub(r"\b(s(?:sl|asl|ecurity)_\w+)", lambda found: named.get(found[1], found[1]), text)
    text = re.sub(r"^([\w.-]+)=None: ", r"\1: ", text)  # nobody has written that
    key = re.match(r"[\w.]*", text)
    file = next((file for file, lines in reversed(files.items()) if key is not None and key[0] in lines), None)
    text = text if text.endswith("?") else f"{text}."
    return text if file is None else f"{file}: {text}"
