"""The users that `ottla serve` adds at its start: of ``--users-file``, and of ``--add-scram`` as for kafka-storage."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.broker.settings import BadSetting

if TYPE_CHECKING:
    from ottla.broker.core.security.scram import Credentials
    from ottla.protocol.sasl.scram import Credential, Mechanism

_OPTION = re.compile(r"([A-Z0-9-]+)=\[(.*)\]", re.DOTALL)
_FORM = "write 'SCRAM-SHA-512=[name=NAME,password=PASSWORD]', maybe with iterations=NUMBER"


def initial_users(file: str | None, options: Sequence[str]) -> Credentials:
    """The users of a file and of options; an option counts before a line of the file.

    Raises:
        BadSetting: one cannot be read; the message shows no password.
    """
    if not file and not options:
        return {}
    from ottla.broker.runtime.mechanisms import read_users  # with what hashes passwords

    users: dict[tuple[str, Mechanism], Credential] = dict(read_users(file, "--users-file") if file else {})
    return users | dict(map(_user, options))


def _user(option: str) -> tuple[tuple[str, Mechanism], Credential]:
    from secrets import token_bytes

    from ottla.broker.core.security.scram import MOST_ITERATIONS
    from ottla.protocol.sasl.scram import LEAST_ITERATIONS, MECHANISMS, credential_of, salted_password

    match = _OPTION.fullmatch(option.strip())
    if match is None or match[1] not in MECHANISMS:
        raise BadSetting(f"--add-scram: {_FORM}; the mechanisms are {' and '.join(MECHANISMS)}")
    mechanism, parts = MECHANISMS[match[1]], _parts(match[2])
    name, password = parts.get("name", ""), parts.get("password", "")
    iterations = parts.get("iterations", str(LEAST_ITERATIONS))
    if not name or not password or parts.keys() - {"name", "password", "iterations"}:
        raise BadSetting(f"--add-scram: {_FORM}")
    if not iterations.isdecimal() or not LEAST_ITERATIONS <= int(iterations) <= MOST_ITERATIONS:
        raise BadSetting(f"--add-scram: iterations of {name!r}: allowed are {LEAST_ITERATIONS} to {MOST_ITERATIONS}")
    salt = token_bytes(32)
    salted = salted_password(mechanism, password, salt, int(iterations))
    return (name, mechanism), credential_of(mechanism, salted, salt, int(iterations))


def _parts(text: str) -> Mapping[str, str]:
    """``name=admin,password="a,b"``: quotes hold a comma."""
    found = re.findall(r'(?:^|,)\s*([a-z]+)=("[^"]*"|[^,]*)', text)
    return {key: value.strip('"') for key, value in found}
