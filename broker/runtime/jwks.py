"""The keys of an issuer of tokens, fetched from its JWKS and kept fresh (KIP-768).

A thread fetches; the event loop sees finished sets of keys only. A token that names a key which is not there may be the
first after the issuer changed its keys: they are fetched again, but no client can have that done all the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.core.security.tokens import Key, Rules, UnknownKey, parse_keys, verify
from ottla.broker.logger import Logger
from ottla.broker.settings import BadSetting, Settings
from ottla.protocol.sasl.oauthbearer import OAUTHBEARER, Claims

PREFIX = "sasl.oauthbearer."
URL = f"{PREFIX}jwks.endpoint.url"
MAX_BYTES = 1 << 20
TIMEOUT_S = 10.0
MISS_MS = 10_000
"""Unknown keys have the issuer asked once in this time, all together."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_NO_PYJWT = f"{OAUTHBEARER} needs PyJWT: pip install 'ottla[oauth]'"


class Pace(NamedTuple):
    """How often keys are fetched: after a success, and after a failure, doubled up to the last."""

    refresh_ms: int = 3_600_000
    retry_ms: int = 100
    retry_max_ms: int = 10_000


class Issuer:
    """The issuer whose tokens a listener accepts.

    Args:
        fetch: gives the text of the JWKS; called in a thread. Raises OSError.
        clock: its time is what tokens are held against; fetching goes by the real one.
        of: what log lines name.
    """

    def __init__(
        self, fetch: Callable[[], str], rules: Rules, pace: Pace, clock: Clock, log: Logger, **of: str
    ) -> None:
        self._fetch = fetch
        self._rules = rules
        self._pace = pace
        self._clock = clock
        self._log = log
        self._of = of
        self._keys: tuple[Key, ...] = ()
        self._why = "they have not been fetched yet"
        self._failures = 0
        self._timer: TimerHandle | None = None
        self._fetching: asyncio.Future[None] | None = None
        self._fetched_ms: int | None = None
        self._told_ms: int | None = None
        self._stopped = False

    async def start(self) -> None:
        """Fetch the keys once, whether or not that succeeds; from then on they are kept fresh."""
        await self._begin()

    def stop(self) -> None:
        """Fetch no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def verify(self, token: str) -> Claims:
        """The claims of a token.

        Raises:
            InvalidToken: it is not valid.
        """
        if not self._keys:
            self._tell()
        try:
            return verify(token, self._keys, self._rules, self._clock.wall_ms())
        except UnknownKey:
            self._miss()
            raise

    def _tell(self) -> None:
        now_ms = self._clock.real.monotonic_ms()
        if self._told_ms is None or now_ms - self._told_ms >= 60_000:
            self._told_ms = now_ms
            self._log.warning("no token can be checked: there are no keys of the issuer", why=self._why, **self._of)

    def _miss(self) -> None:
        """A key is not known: ask the issuer again, unless that was done a moment ago.

        Kafka asks once a minute for the same key. An issuer may sign with a key some seconds before it shows it.
        """
        now_ms = self._clock.real.monotonic_ms()
        if self._fetched_ms is None or now_ms - self._fetched_ms >= MISS_MS:
            self._begin()

    def _begin(self) -> asyncio.Future[None]:
        """Have the keys fetched; what is given is done when that is over."""
        if self._fetching is None:
            if self._timer is not None:
                self._timer.cancel()
            loop = asyncio.get_running_loop()
            self._fetching = loop.create_future()
            self._fetched_ms = self._clock.real.monotonic_ms()
            # A daemon, as it may hang in the network while the broker stops.
            threading.Thread(target=self._work, args=(loop,), name="jwks", daemon=True).start()
        return self._fetching

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        outcome: tuple[Key, ...] | Exception
        try:
            outcome = parse_keys(self._fetch())
        except Exception as error:  # whatever a network or a text can do: the next time is what matters
            outcome = error
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(self._done, outcome)

    def _done(self, outcome: tuple[Key, ...] | Exception) -> None:
        pace = self._pace
        if isinstance(outcome, Exception):
            pause_ms = min(pace.retry_ms << min(self._failures, 32), pace.retry_max_ms)
            self._failures += 1
            self._why = str(outcome)
            if self._failures == 1:
                self._log.warning("the keys of the issuer of tokens cannot be fetched", why=self._why, **self._of)
        else:
            if self._failures:
                self._log.info("the keys of the issuer of tokens are here again", keys=len(outcome), **self._of)
            self._keys, self._failures, pause_ms = outcome, 0, pace.refresh_ms
        fetching, self._fetching = self._fetching, None
        if fetching is not None and not fetching.done():
            fetching.set_result(None)
        if not self._stopped:
            real = self._clock.real
            self._timer = real.call_at(real.monotonic_ms() + pause_ms, self._again)

    def _again(self) -> None:
        self._begin()


def issuer_of(settings: Settings, listener: str, clock: Clock, log: Logger) -> Issuer:
    """The issuer of a listener, as the settings have it.

    Raises:
        BadSetting: one is missing, or cannot be.
    """

    def value(key: str) -> Any:
        return settings.of_listener(listener, PREFIX + key, OAUTHBEARER)

    url = value("jwks.endpoint.url")
    if not url:
        raise BadSetting(f"{URL}='': {OAUTHBEARER} needs the keys of the issuer: name an https: or file: URL")
    audiences = tuple(one.strip() for one in value("expected.audience").split(",") if one.strip())
    for name, given in (("audience", bool(audiences)), ("issuer", bool(value("expected.issuer")))):
        if given:
            continue
        if not value(f"allow.unverified.{name}"):
            raise BadSetting(
                f"{PREFIX}expected.{name}='': set it, or tokens that were made for others are accepted; "
                f"{PREFIX}allow.unverified.{name}=true permits that"
            )
        log.warning(f"tokens are accepted whatever their {name} is", listener=listener)
    try:
        import jwt  # noqa: F401
    except ImportError:
        raise BadSetting(f"sasl.enabled.mechanisms: {_NO_PYJWT}") from None
    rules = Rules(
        audiences,
        value("expected.issuer"),
        value("clock.skew.seconds"),
        value("scope.claim.name"),
        value("sub.claim.name"),
    )
    retry = "jwks.endpoint.retry.backoff"
    pace = Pace(value("jwks.endpoint.refresh.ms"), value(f"{retry}.ms"), value(f"{retry}.max.ms"))
    return Issuer(_fetcher(url, _context(settings, listener)), rules, pace, clock, log, listener=listener, url=url)


def fault_of_file(url: str) -> str:
    """Why the keys cannot be read that a file: URL names; empty for those that can, and for other URLs."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return ""
    try:
        parse_keys(_file(unquote(parts.path)))
    except ImportError:
        return _NO_PYJWT
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return str(error)
    return ""


def _context(settings: Settings, listener: str) -> ssl.SSLContext | None:
    """What checks the endpoint's certificate: the machine's authorities, or those set for the mechanism."""
    mine = f"{listener}.{OAUTHBEARER}.".lower()
    given = {
        key: settings.by_listener.get(f"{mine}ssl.truststore.{key}") for key in ("location", "certificates", "type")
    }
    if given["location"] is None and given["certificates"] is None:
        return None
    if given["type"] == "PKCS12":
        raise BadSetting(f"listener.name.{mine}ssl.truststore.type='PKCS12': allowed is PEM")
    try:
        return ssl.create_default_context(cafile=given["location"], cadata=given["certificates"])
    except OSError as error:
        raise BadSetting(f"listener.name.{mine}ssl.truststore: it cannot be read: {error.strerror or error}") from None


def _fetcher(url: str, context: ssl.SSLContext | None) -> Callable[[], str]:
    """What reads a URL.

    Raises:
        BadSetting: the URL is not one that is allowed.
    """
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        path = unquote(parts.path)
        return lambda: _file(path)
    allowed = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    if not allowed or not parts.hostname:
        raise BadSetting(f"{URL}={url!r}: allowed are https: and file:, and http: to this machine")
    return lambda: _get(url, context)


def _file(path: str) -> str:
    with open(path, "rb") as file:
        return _limited(file.read(MAX_BYTES + 1))


def _get(url: str, context: ssl.SSLContext | None) -> str:
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

    class SameHost(HTTPRedirectHandler):
        def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
            old, new = urlsplit(req.full_url), urlsplit(newurl)
            if (old.scheme, old.netloc) != (new.scheme, new.netloc):
                raise HTTPError(req.full_url, code, "it redirects to another host, which is not allowed", headers, fp)
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    opener = build_opener(SameHost, HTTPSHandler(context=context or ssl.create_default_context()))
    with opener.open(Request(url, headers={"Accept": "application/json"}), timeout=TIMEOUT_S) as answer:
        return _limited(answer.read(MAX_BYTES + 1))


def _limited(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise OSError(f"it is longer than {MAX_BYTES} bytes")
    return content.decode()
