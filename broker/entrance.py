"""How clients get in: the listeners of a broker with their TLS and SASL, and the users who may log in.

What only some listeners need is imported where one does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.clock import Clock
from ottla.broker.core.security.acls import Acls
from ottla.broker.core.security.authorizer import ACL_AUTHORIZER, STANDARD_AUTHORIZER, Authorizer, super_users
from ottla.broker.core.security.session import ANONYMOUS, Session
from ottla.broker.core.topics.catalog import Catalog
from ottla.broker.endpoints import BETWEEN_NODES, Endpoint
from ottla.broker.logger import Logger
from ottla.broker.net.listener import Listener
from ottla.broker.net.socket_server import TLS, SocketServer
from ottla.broker.runtime.audit import Audit
from ottla.broker.runtime.topics import TopicManager
from ottla.broker.settings import Settings

if TYPE_CHECKING:
    from ottla.broker.core.security.scram import Credentials
    from ottla.broker.net.connection import Connection
    from ottla.broker.net.guests import Guests, Lobby, Versions
    from ottla.broker.net.tls import Contexts
    from ottla.broker.runtime.mechanisms import ListenerMechanisms
    from ottla.protocol.sasl.scram import Mechanism


@dataclass
class _Operator:
    """Whoever changes files on this machine: nobody knows who that is."""

    session: Session
    client_host: str = "/"
    client_port: int = 0
    client_id: str = ""


class Entrance:
    """See the module.

    Args:
        server: gets the connections.
        versions: answers ApiVersions of clients that have not said yet who they are.
        topics: has the users, in the catalog.
        directory: of the data; None where everything is in memory.
    """

    def __init__(
        self,
        settings: Settings,
        server: SocketServer,
        versions: Versions,
        topics: TopicManager,
        directory: Path | None,
        clock: Clock,
        log: Logger,
        audit: Audit,
    ) -> None:
        self._settings = settings
        self._server = server
        self._versions = versions
        self._topics = topics
        self._directory = directory
        self._clock = clock
        self._log = log
        self._audit = audit
        self._guests: Guests | None = None
        self._mechanisms: dict[str, ListenerMechanisms] = {}
        topics.on_credentials = self._credentials_changed
        server.tell = self._tell
        server.tell_failed = self._tell_failed

    async def open(
        self, endpoints: Sequence[Endpoint], users: Credentials, node_password: str | None = None
    ) -> list[Endpoint]:
        """Listen; gives the endpoints with the ports that they have.

        Args:
            users: of SCRAM, to add if they are not there.
            node_password: of the other nodes, who come by a listener of their own, which is the last then.

        Raises:
            CannotListen: an address cannot be bound.
            BadSetting: a listener cannot have the TLS or SASL that the settings say.
            EngineError: the users could not be made durable.
            OSError: the secret of the broker can neither be read nor written.
        """
        try:
            await self._add(users, endpoints)
            if node_password is not None:
                # Nodes over a database may be on other machines, which reach this one where clients do.
                host = endpoints[0].host if self._settings.ottla_cluster_url else "127.0.0.1"
                endpoints = [*endpoints, Endpoint(host, 0, BETWEEN_NODES, "SASL_PLAINTEXT")]
            lobbies = await self._lobbies([one for one in endpoints if one.has_sasl], node_password)
            limits = self._settings.by_listener
            listeners = [
                Listener(one, limits.get(f"{one.name.lower()}.max.connections"), lobbies.get(one.name), self._tls(one))
                for one in endpoints
            ]
            await self._server.start(listeners)
        except BaseException:
            self.stop()
            raise
        self._topics.keys.renew = self._server.renew_keys if any(one.tls for one in listeners) else None
        return [listener.endpoint for listener in listeners]

    def _tell(self, event: str, connection: Connection) -> None:
        """Tell the audit of a connection, if it is known whose it is."""
        session = connection.session
        if session.mechanism or session.user != ANONYMOUS.user:
            more = {"tls": connection.tls()} if event == "authenticated" else {"reason": connection.why_closed}
            self._audit.tell_debugging(event, connection, mechanism=session.mechanism or TLS, **more)

    def _tell_failed(self, connection: Connection, reason: str, **more: str) -> None:
        """Tell the audit of a client that TLS did not let in."""
        key = reason, *more.values()
        self._audit.tell_once("authentication_failed", connection, key, mechanism=TLS, reason=reason, **more)

    @property
    def has_users(self) -> bool:
        """Whether there are users in files, which `look_again` reads."""
        return any(mechanisms.has_users for mechanisms in self._mechanisms.values())

    def look_again(self) -> None:
        """Read users in files anew, and tell the audit who they are that came and went."""
        for name, mechanisms in self._mechanisms.items():
            for event, user in mechanisms.look_again():
                self._audit.tell(event, _Operator(Session("", name)), user=user, mechanism="PLAIN")

    def stop(self) -> None:
        """Fetch nothing more for logins, and work at none."""
        for mechanisms in self._mechanisms.values():
            mechanisms.stop()
        if self._guests is not None:
            self._guests.stop()

    async def _add(self, users: Credentials, endpoints: Sequence[Endpoint]) -> None:
        """Add users; who is there already keeps what he has."""

        def added(catalog: Catalog) -> tuple[Catalog, int]:
            credentials = {**users, **catalog.credentials}
            new = len(credentials) - len(catalog.credentials)
            return (replace(catalog, credentials=credentials) if new else catalog), new

        if users and (new := await self._topics.change(added)):
            self._log.info("Users were added", users=new)
        asked = {name for one in endpoints for name in one.mechanisms(self._settings)}
        if not self._topics.catalog.credentials and any(name.startswith("SCRAM-") for name in asked):
            self._log.warning(
                "Nobody can log in by SCRAM: there is no user yet. Stop the broker and say `ottla users set NAME "
                "--data-dir DIR`, or start it with --users-file FILE"
            )

    async def _lobbies(self, endpoints: Sequence[Endpoint], node_password: str | None) -> dict[str, Lobby]:
        """Where clients of listeners with SASL say who they are, by the name of the listener."""
        if not endpoints:
            return {}
        from ottla.broker.net.guests import Guests, Lobby
        from ottla.broker.net.keystores import others_may_read
        from ottla.broker.runtime.mechanisms import ListenerMechanisms, NodeMechanisms, ScramUsers, kept_secret

        settings, clock, server, log = self._settings, self._clock, self._server, self._log
        scram = ScramUsers(lambda: self._topics.catalog.credentials, kept_secret(self._directory))
        nodes = {} if node_password is None else {BETWEEN_NODES: NodeMechanisms(node_password)}
        for one in endpoints:
            if one.name in nodes:
                continue
            self._mechanisms[one.name] = ListenerMechanisms(one, settings, scram, clock, log)
            path = settings.of_listener(one.name, "ottla.sasl.plain.users.file", "PLAIN")
            if self._mechanisms[one.name].has_users and path and others_may_read(path):
                log.warning("Others on this machine can read the users of PLAIN: chmod 600 the file", file=path)
        self._guests = Guests(
            settings,
            clock.real,
            self._audit,
            self._versions,
            server.most_connections,
            wall_ms=clock.wall_ms,
            count=server.count_authentication,
            somebody_went=server.somebody_went,
        )
        for mechanisms in self._mechanisms.values():
            await mechanisms.start()
        most_bytes = "sasl.server.max.receive.size"
        return {
            one.name: Lobby(
                server,
                self._guests,
                one.name,
                nodes.get(one.name) or self._mechanisms[one.name],
                settings.of_listener(one.name, most_bytes),
                has_tls=one.has_tls,
            )
            for one in endpoints
        }

    def _tls(self, endpoint: Endpoint) -> Contexts | None:
        if not endpoint.has_tls:
            return None
        from ottla.broker.net.tls import contexts_of

        return contexts_of(self._topics.broker_configs.settings, endpoint)

    def _credentials_changed(self, changed: list[tuple[str, Mechanism]]) -> None:
        """Close connections of users who have another password now, or none, if the settings say so."""
        if not self._settings.ottla_sasl_scram_terminate_on_change:
            return
        whose = [(f"User:{user}", mechanism.words) for user, mechanism in changed]
        loop = asyncio.get_running_loop()
        for connection in self._server.connections:
            if (connection.session.principal, connection.session.mechanism) in whose:
                # The answer to whoever changes his own goes before.
                loop.call_soon(connection.close, "its user's password was changed or removed")


def authorizer_of(settings: Settings, acls: Acls, log: Logger) -> Authorizer | None:
    """Who decides what clients may do; None if everybody may do everything. Raises ``ValueError``."""
    if not settings.authorizer_class_name:
        return None
    if settings.authorizer_class_name == ACL_AUTHORIZER:
        log.warning("This authorizer is the other one now", authorizer=STANDARD_AUTHORIZER)
    admins = super_users(settings.super_users)
    if not admins and not acls and not settings.allow_everyone_if_no_acl_found:
        log.warning("Nobody may do anything: there is an authorizer, no rule, and nobody in super.users")
    return Authorizer(acls, admins, open_without_rules=settings.allow_everyone_if_no_acl_found)
