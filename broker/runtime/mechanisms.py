"""The SASL mechanisms of a listener, with the users that they know."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Final

from ottla.broker.clock import Clock
from ottla.broker.core.security.authorizer import NODE
from ottla.broker.core.security.plain_users import PlainUsers, users_of_jaas
from ottla.broker.core.security.scram import Credentials, Lookup
from ottla.broker.core.security.users_file import BadUsersFile, parse_users
from ottla.broker.endpoints import Endpoint
from ottla.broker.logger import Logger
from ottla.broker.settings import BadSetting, Settings
from ottla.protocol.sasl.exchange import ServerExchange
from ottla.protocol.sasl.jaas import KEY, BadJaas, parse_jaas
from ottla.protocol.sasl.oauthbearer import OAUTHBEARER, OAuthBearerServer
from ottla.protocol.sasl.plain import PLAIN, PlainServer
from ottla.protocol.sasl.scram import (
    LEAST_ITERATIONS,
    MECHANISMS,
    NONCE_BYTES,
    Found,
    Mechanism,
    ScramClient,
    ScramServer,
    credential_of,
    nonce_of,
    salted_password,
)

if TYPE_CHECKING:
    from ottla.broker.runtime.jwks import Issuer

SECRET_NAME: Final = "sasl.secret"
"""A file beside the catalog: it makes salts for names that are nobody's, the same after a restart."""
NODE_SECRET_NAME: Final = "nodes.secret"
"""A file in the directory of several nodes, by which they know each other."""
NODE_MECHANISM: Final = Mechanism.SCRAM_SHA_512
_SECRET_BYTES: Final = 32
_USERS_FILE: Final = "ottla.sasl.plain.users.file"
_PLAIN_MODULE: Final = "PlainLoginModule"


class ScramUsers:
    """The users of SCRAM as the catalog has them now.

    Args:
        credentials: gives those of all users; the same object as long as nothing has changed.
        secret: of this broker; see `kept_secret`.
    """

    def __init__(self, credentials: Callable[[], Credentials], secret: bytes) -> None:
        self._credentials = credentials
        self._secret = secret
        self._of: Credentials | None = None
        self._lookups: dict[Mechanism, Lookup] = {}

    def lookup(self, mechanism: Mechanism) -> Callable[[str], Found]:
        """What finds the credential of a user."""
        credentials = self._credentials()
        if credentials is not self._of:
            self._of = credentials
            self._lookups.clear()
        if mechanism not in self._lookups:
            self._lookups[mechanism] = Lookup(credentials, mechanism, self._secret)
        return self._lookups[mechanism]


class NodeMechanisms:
    """The mechanism of the listener for the other nodes; see `ottla.broker.net.authentication.Mechanisms`.

    A node has its id for a name, and all have one password, which is in no catalog.

    Args:
        password: what `node_password` gives.
    """

    principal_type = NODE
    names: Sequence[str] = (NODE_MECHANISM.words,)

    def __init__(self, password: str) -> None:
        salt = token_bytes(_SECRET_BYTES)
        salted = salted_password(NODE_MECHANISM, password, salt, LEAST_ITERATIONS)
        self._credential = credential_of(NODE_MECHANISM, salted, salt, LEAST_ITERATIONS)

    def max_reauth_ms(self, mechanism: str) -> int:
        return 0

    def exchange(self, mechanism: str) -> ServerExchange:
        found = Found(self._credential)
        return ScramServer(NODE_MECHANISM, lambda name: found, nonce_of(token_bytes(NONCE_BYTES)))


def node_exchange(node_id: int, password: str) -> ScramClient:
    """The other end of such an exchange: a node that tells another one who it is."""
    return ScramClient(NODE_MECHANISM, str(node_id), password, nonce_of(token_bytes(NONCE_BYTES)))


class ListenerMechanisms:
    """The mechanisms of one listener; see `ottla.broker.net.authentication.Mechanisms`.

    Args:
        clock: its time is what tokens are held against.

    Raises:
        BadSetting: one of them cannot be had as the settings are.
    """

    principal_type = "User"

    def __init__(self, endpoint: Endpoint, settings: Settings, scram: ScramUsers, clock: Clock, log: Logger) -> None:
        self.names = endpoint.mechanisms(settings)
        self._listener = endpoint.name
        self._settings = settings
        self._scram = scram
        self._clock = clock
        self._log = log
        self._plain = self._read_plain() if PLAIN in self.names else None
        self._issuer: Issuer | None = None
        if OAUTHBEARER in self.names:
            from ottla.broker.runtime.jwks import issuer_of  # with what checks signatures

            self._issuer = issuer_of(settings, endpoint.name, clock, log)

    async def start(self) -> None:
        """Fetch what has to be fetched; whether that succeeds is told in the log."""
        if self._issuer is not None:
            await self._issuer.start()

    def stop(self) -> None:
        """Fetch nothing more."""
        if self._issuer is not None:
            self._issuer.stop()

    @property
    def has_users(self) -> bool:
        """Whether it has users of its own, which `look_again` reads."""
        return self._plain is not None

    def look_again(self) -> list[tuple[str, str]]:
        """Read the users of PLAIN anew, for logins from now on; those that there were stay if they cannot be read.

        Returns:
            What that did to whom, in the words of the audit.
        """
        if self._plain is None:
            return []
        before = self._plain.known
        try:
            self._plain = self._read_plain()
        except BadSetting as error:
            self._log.error("The users of PLAIN stay as they were", listener=self._listener, reason=str(error))
            return []
        now = self._plain.known
        gone = [("credential_removed", user) for user in before if user not in now]
        others = [("credential_set", user) for user, kept in now.items() if before.get(user) != kept]
        row = {"users": len(now), "set": len(others), "removed": len(gone)}
        self._log.info("The users of PLAIN were read again", listener=self._listener, **row)
        return gone + others

    def _read_plain(self) -> PlainUsers:
        users = plain_users(self._listener, self._settings)
        if not users.known:
            what = "Nobody can log in by PLAIN: name a file of users in ottla.sasl.plain.users.file"
            self._log.warning(what, listener=self._listener)
        return users

    def max_reauth_ms(self, mechanism: str) -> int:
        most_ms: int = self._settings.of_listener(self._listener, "connections.max.reauth.ms", mechanism)
        return most_ms

    def exchange(self, mechanism: str) -> ServerExchange:
        """A new exchange of one of them."""
        if mechanism in MECHANISMS:
            kind = MECHANISMS[mechanism]
            return ScramServer(kind, self._scram.lookup(kind), nonce_of(token_bytes(NONCE_BYTES)))
        if mechanism == OAUTHBEARER:
            assert self._issuer is not None
            return OAuthBearerServer(self._issuer.verify)
        users, now_ms = self._plain, self._clock.real.monotonic_ms
        assert users is not None
        return PlainServer(
            lambda user, password: users.check(user, password, now_ms()),
            lambda user, password, salted: users.settle(user, password, salted, now_ms()),
        )


def plain_users(listener: str, settings: Settings) -> PlainUsers:
    """The users of PLAIN on a listener, as `read_plain_users` finds them. Raises as that does."""
    return PlainUsers(*read_plain_users(listener, settings), token_bytes(32))


def read_plain_users(listener: str, settings: Settings) -> tuple[dict[str, str], Credentials]:
    """The passwords of ``sasl.jaas.config``, and the users of ``ottla.sasl.plain.users.file``.

    Raises:
        BadSetting: the one or the other cannot be read; the message shows nothing of it.
    """
    try:
        passwords = users_of_jaas(_plain_login(listener, settings))
    except BadJaas as error:
        raise BadSetting(f"listener {listener}: {error}") from None
    path = settings.of_listener(listener, _USERS_FILE, PLAIN)
    return passwords, read_users(path, _USERS_FILE) if path else {}


def _plain_login(listener: str, settings: Settings) -> str:
    """The text for PLAIN; one that is for all mechanisms of a listener may be about another one."""
    text: str = settings.of_listener(listener, KEY, PLAIN)
    if f"{listener}.{PLAIN}.{KEY}".lower() in settings.by_listener or not text.strip():
        return text
    return text if parse_jaas(text).module == _PLAIN_MODULE else ""


def read_users(path: str, where: str) -> Credentials:
    """The users in a file, as ``ottla users hash`` prints them.

    Args:
        where: the setting or option that names it.

    Raises:
        BadSetting: it cannot be read.
    """
    try:
        return parse_users(Path(path).read_text(encoding="utf-8"))
    except BadUsersFile as error:
        raise BadSetting(f"{where}: {path}, {error}") from None
    except UnicodeDecodeError:
        raise BadSetting(f"{where}: {path} is not in UTF-8") from None
    except OSError as error:
        raise BadSetting(f"{where}: {path} cannot be read: {error.strerror}") from None


def node_password(directory: Path) -> str:
    """The password by which the nodes of a directory know each other, made when it is asked for first.

    Raises:
        OSError: it can neither be read nor written.
    """
    return kept_secret(directory, NODE_SECRET_NAME).hex()


def kept_secret(directory: Path | None, name: str = SECRET_NAME) -> bytes:
    """The secret of a broker, made at its first start; without a directory it is of this run.

    Raises:
        OSError: it can neither be read nor written.
    """
    if directory is None:
        return token_bytes(_SECRET_BYTES)
    path = directory / name
    try:
        secret = path.read_bytes()
        if len(secret) == _SECRET_BYTES:
            path.chmod(0o600)
            return secret
    except FileNotFoundError:
        pass
    secret = token_bytes(_SECRET_BYTES)
    temporary = path.with_name(f"{name}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, secret)
        os.fsync(handle)
    finally:
        os.close(handle)
    temporary.replace(path)
    return secret
