"""A broker in a thread of this process: its life, and the way to its event loop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ottla.broker import app
from ottla.broker.endpoints import Endpoint, endpoints
from ottla.broker.setting_sources import did_you_mean, load
from ottla.broker.settings import BadSetting, Settings
from ottla.observe.observatory import Observatory
from ottla.testing.authority import Authority, ClientCertificate, authority
from ottla.testing.evidence import WITNESSES
from ottla.testing.logins import OAUTHBEARER, PASSWORDS, GivenSasl, logins_of
from ottla.testing.loop_thread import LoopThread
from ottla.testing.rules import rule_settings, rules_of
from ottla.testing.tokens import AsyncProvider, Tokens
from ottla.testing.topics import GivenTopics, setting_text, wanted_topics
from ottla.workbench.bench import Workbench
from ottla.workbench.clock import VirtualClock

if TYPE_CHECKING:
    from ottla.observe.view import View

T = TypeVar("T")

# What suits tests better than Kafka's defaults; `settings` overrides it.
TEST_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "300",
    # A topic that Kafka does not have: tests that list topics expect their own.
    "ottla.group.events.enable": "false",
}
LOOPBACK = "127.0.0.1"
OWN_SUBJECT = "CN=ottla-testing"
"""Of whom our own clients are, where they have to show a certificate."""
HTTP_SETTINGS = {"ottla.http.listen": "127.0.0.1:0"}


class EmbeddedBroker:
    """A broker on an event loop of its own, in a daemon thread. Use with ``with`` or ``async with``.

    Args:
        settings: Kafka's setting names and values; values may be numbers and booleans. Some defaults differ from
            a served broker: ``group.initial.rebalance.delay.ms=0``, ``group.min.session.timeout.ms=100`` and
            ``ottla.group.events.enable=false``; and of groups of the protocol ``consumer``
            ``group.consumer.assignment.interval.ms=0``, ``group.consumer.heartbeat.interval.ms=200``,
            ``group.consumer.min.heartbeat.interval.ms=100`` and ``group.consumer.min.session.timeout.ms=300``.
        topics: those to create: names, which get one partition each; or a dict of names and partition counts, or of
            names and settings, such as ``{"orders": {"partitions": 3, "cleanup.policy": "compact"}}``.
        data_dir: keep logs there; by default everything is in memory and gone with the broker.
        port: 0 for any free one.
        http: whether to serve console, metrics and HTTP API, on any free port of this machine.
        tls: whether clients have to speak TLS, with certificates of a throw-away authority; ``"mutual"``: they have
            to show a certificate as well, see `client_certificate`. It takes the package trustme (``ottla[test-tls]``).
        sasl: who has to log in, and how: passwords by user, ``("PLAIN", {"alice": "secret"})``, or a mechanism alone,
            with one user. Without a mechanism it is SCRAM-SHA-512. ``"OAUTHBEARER"`` accepts the tokens of `oauth`.
        acls: access control rules, such as ``["User:alice ALLOW READ topic:orders"]``; see `ottla.testing.rules`. What
            no rule allows is denied then; an empty list allows nothing.
        super_users: principals that may do everything, such as ``["User:admin"]``. The verbs of tests, such as
            ``produce``, are carried out by the first of them who can log in, or else by the first user.
        log: a structlog logger; by default the broker is silent.

    Raises:
        ottla.broker.settings.BadSetting: a setting is unknown or out of range.
        TypeError: settings or topics are not given as told above.
        ValueError: one of ``acls`` is no rule.
        ottla.broker.app.CannotStart: on entering; the message says why.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        topics: GivenTopics = None,
        data_dir: Path | str | None = None,
        port: int = 0,
        http: bool = False,
        tls: bool | str = False,
        sasl: GivenSasl = None,
        acls: Sequence[str] | None = None,
        super_users: Sequence[str] = (),
        log: Any = None,
    ) -> None:
        if tls not in (False, True, "mutual"):
            raise TypeError(f"tls={tls!r}: write True, or 'mutual' for clients that show a certificate, too")
        self._is_mutual = tls == "mutual"
        self._authority = authority() if tls else None
        self._logins = logins_of(sasl)
        self._acls = rules_of(acls or ())
        self._super_users = list(super_users)
        secured = self._tls_settings() | ({} if self._logins is None else self._logins.settings())
        secured |= rule_settings(acls, self._super_users)
        self.settings: Settings = _checked(settings or {}, HTTP_SETTINGS if http else {}, secured)
        self._wanted = wanted_topics(topics)
        self._data_dir = Path(data_dir) if data_dir is not None else None
        self._port = port
        self._log = log
        self._thread = LoopThread()
        self._broker: app.Broker | None = None
        self._observatory: Workbench

    @property
    def bootstrap_servers(self) -> str:
        """``127.0.0.1:port``, for any client's option of that name."""
        return self._running.listening

    # TLS

    @property
    def cafile(self) -> str:
        """The file with the authority that clients have to trust, as PEM. Raises RuntimeError without TLS."""
        return self._given_authority.cafile

    def ssl_context(self, subject: str = OWN_SUBJECT) -> ssl.SSLContext:
        """How a client speaks TLS with this broker. Where it has to show a certificate, this has one.

        Args:
            subject: whose certificate that is; see `client_certificate`.

        Raises:
            RuntimeError: the broker has no TLS.
            ValueError: as `client_certificate`.
        """
        given = self._given_authority
        return (
            given.client(subject).ssl_context() if self._is_mutual else ssl.create_default_context(cafile=given.cafile)
        )

    def client_certificate(self, subject: str) -> ClientCertificate:
        """Files with a certificate of a client, ``certfile`` and ``keyfile``, and with the authority, ``cafile``.

        Args:
            subject: ``CN=alice``, or with OU and O as well. The client is then ``User:CN=alice``.

        Raises:
            RuntimeError: the broker has no TLS.
            ValueError: the subject is something else.
        """
        return self._given_authority.client(subject)

    @property
    def security_protocol(self) -> str:
        """What clients have to speak: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        transport = "PLAINTEXT" if self._authority is None else "SSL"
        return transport if self._logins is None else f"SASL_{transport}"

    @property
    def connection(self) -> dict[str, Any]:
        """The options with which our own clients connect."""
        options: dict[str, Any] = {"bootstrap_servers": self.bootstrap_servers}
        if self.security_protocol != "PLAINTEXT":
            options["security_protocol"] = self.security_protocol
        if self._authority is not None:
            options["ssl_context"] = self.ssl_context()
        if self._logins is None:
            return options
        if self._logins.mechanism == OAUTHBEARER:
            user = next((one.partition(":")[2] for one in self._super_users), "")
            provider = AsyncProvider(self._tokens(user))
            return options | {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": provider}
        return options | self._logins.options(self._own_user)

    @property
    def _own_user(self) -> str:
        """Who carries out the verbs of tests; empty for the first user."""
        known = {} if self._logins is None else self._logins.passwords
        names = [one.partition(":")[2] for one in self._super_users]
        return next((name for name in names if name in known), "")

    # users, rules, sessions

    def oauth(self, sub: str = "user", expires_in: int = 60, **claims: Any) -> str:
        """A token that the broker accepts for OAUTHBEARER: ``Broker(sasl="OAUTHBEARER")``.

        Args:
            sub: who has it; the principal is then ``User:`` and this.
            expires_in: seconds of the broker's time until it ends; less than 0: it has ended.
            claims: more of them, or others; one that is None is left out.

        Raises:
            RuntimeError: the broker does not run, or accepts no tokens.
        """
        if self._logins is None or self._logins.mechanism != OAUTHBEARER:
            raise RuntimeError("the broker accepts no tokens: say Broker(sasl='OAUTHBEARER')")
        from ottla.testing.issuer import issuer

        clock = self.workbench.clock
        return issuer().token(sub, self.run(clock.wall_ms) // 1000, expires_in, claims)

    def _tokens(self, user: str) -> Tokens:
        """Tokens for a user, or for one whom the test need not know."""
        return Tokens(user or next(iter(PASSWORDS)), lambda: self.workbench.clock.wall_ms())

    @property
    def denied(self) -> list[dict[str, Any]]:
        """What was denied so far, as the audit tells it: ``principal``, ``operation``, ``resource``, ``name`` …

        Equal ones stand there once in ten seconds.
        """
        workbench = self.workbench
        return self.run(lambda: list(workbench.denials))

    def expire_sessions(self) -> int:
        """End all sessions that end, now: whoever asks for something has to authenticate again first (KIP-368).

        Sessions end if ``connections.max.reauth.ms`` is set, or with their token.

        Returns:
            How many there were.
        """
        return self.run(self.workbench.expire_sessions)

    @property
    def _given_authority(self) -> Authority:
        if self._authority is None:
            raise RuntimeError("the broker has no TLS: say Broker(tls=True), or tls='mutual'")
        return self._authority

    def _tls_settings(self) -> dict[str, str]:
        if (given := self._authority) is None:
            return {}
        mutual = {"ssl.client.auth": "required", "ssl.truststore.location": given.cafile} if self._is_mutual else {}
        return {"ssl.keystore.location": given.serverfile, **mutual}

    # life

    @property
    def http_url(self) -> str:
        """``http://127.0.0.1:port``: where the console is, and the HTTP API."""
        if (http := self.observatory.http) is None:
            raise RuntimeError("the broker serves no HTTP: say Broker(http=True)")
        return http.url

    @property
    def host(self) -> str:
        return self._running.host

    @property
    def port(self) -> int:
        return self._running.port

    def port_of(self, listener: str) -> int:
        """The port of one of several listeners, which the setting ``listeners`` names."""
        return next(one.port for one in self._running.endpoints if one.name == listener.upper())

    def start(self) -> Self:
        """Start and wait until clients can connect."""
        if self._broker is not None:
            raise RuntimeError("the broker runs already")
        self._begin_loop()
        self._observatory = self._new_workbench()
        broker = self._new_broker()
        try:
            self.call(self._serve(broker))
        except BaseException:
            self._end_loop()
            raise
        self._broker = broker
        for witness in WITNESSES:
            witness.started(self)
        return self

    def _new_workbench(self) -> Workbench:
        return Workbench(self.settings, self._log)

    def _new_broker(self, **parts: Any) -> app.Broker:
        return app.Broker(
            self.settings,
            directory=self._data_dir,
            endpoints=self._endpoints(),
            topics=self._wanted,
            users={} if self._logins is None else self._logins.credentials(),
            acls=self._acls,
            log=self._log,
            observing=self._observatory,
            **{"clock": VirtualClock, **parts},
        )

    async def _serve(self, broker: app.Broker) -> None:
        await broker.start()

    async def _die(self, broker: app.Broker) -> None:
        await broker.abandon()

    def stop(self) -> None:
        """Stop as SIGTERM does: open requests are answered, logs made durable."""
        if (broker := self._broker) is not None:
            for witness in WITNESSES:
                witness.stopping(self)
            self._broker = None
            self.call(broker.stop())
            self._end_loop()

    def crash(self) -> None:
        """End as SIGKILL does: connections drop and nothing more is answered.

        With a ``data_dir`` another broker may start on it at once. `BrokerProcess.kill` is the real thing.
        """
        if (broker := self._broker) is not None:
            for witness in WITNESSES:
                witness.stopping(self)
            self._broker = None
            self.call(self._die(broker))
            self._end_loop()

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float = 30) -> T:
        """Run a coroutine on the broker's loop and give its result."""
        return self._thread.call(work, timeout_s)

    def wait(self, work: Coroutine[Any, Any, None], timeout_s: float) -> None:
        """The same as `call` for what a test waits for. A TimeoutError shows the test, and not how it is waited for."""
        __tracebackhide__ = True
        try:
            self.call(work, timeout_s + 30)
        except TimeoutError as error:
            self._waited_in_vain()
            raise TimeoutError(str(error)) from None

    async def wait_async(self, work: Coroutine[Any, Any, None]) -> None:
        """The same for who has an event loop of its own."""
        try:
            await self.call_async(work)
        except TimeoutError:
            self._waited_in_vain()
            raise

    def _waited_in_vain(self) -> None:
        for witness in WITNESSES:
            witness.waited_in_vain(self)

    async def call_async(self, work: Coroutine[Any, Any, T]) -> T:
        """The same as `call` for who has an event loop of its own, which goes on meanwhile."""
        return await self._thread.call_async(work)

    def run(self, function: Callable[[], T]) -> T:
        """Call a function on the broker's loop, where its state may be looked at, and give its result."""
        return self._thread.run(function)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    @property
    def observatory(self) -> Observatory:
        """The broker's observers while it runs; look at them on its loop: see `run`."""
        self._running  # noqa: B018 - it runs
        return self._observatory

    @property
    def workbench(self) -> Workbench:
        """The observers as those who can interfere, with faults for example; on the broker's loop, too."""
        self._running  # noqa: B018 - it runs
        return self._observatory

    @property
    def benches(self) -> list[Workbench]:
        """Its workbench; see `ottla.testing.fault.Served`."""
        return [self.workbench]

    @property
    def views(self) -> list[View]:
        """What is known of its logs; where there are several nodes, by all of them."""
        return [self.observatory.view]

    def _endpoints(self) -> list[Endpoint]:
        if "listeners" in self.settings.given:
            return endpoints(self.settings)
        return [Endpoint(LOOPBACK, self._port, self.security_protocol, self.security_protocol)]

    @property
    def is_running(self) -> bool:
        return self._broker is not None

    @property
    def _running(self) -> app.Broker:
        if self._broker is None:
            raise RuntimeError("the broker does not run: use `with Broker() as broker`, or call start()")
        return self._broker

    def _begin_loop(self) -> None:
        self._thread.start()

    def _end_loop(self) -> None:
        self._thread.end()


def _checked(given: Mapping[str, Any], *more: Mapping[str, str]) -> Settings:
    if not isinstance(given, Mapping):
        raise TypeError(f"settings={given!r}: write a dict of Kafka's names; topics are named by topics=['orders']")
    texts = {key: setting_text(value) for key, value in given.items()}
    loaded = load(TEST_SETTINGS, *more, texts)
    for key in loaded.unknown + loaded.unprotected:
        raise BadSetting(f"unknown setting {key!r}{did_you_mean(key)}")
    return loaded.settings
