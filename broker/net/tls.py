"""TLS of listeners: contexts made from settings, and made anew when their files change; who a certificate is.

Imported only where there is TLS. Nobody else in the broker imports `ssl`.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from math import inf
from typing import Any, Final, NamedTuple, cast

from ottla.broker.clock import Clock
from ottla.broker.core.security.certificates import Certificate, host_of, read_certificate
from ottla.broker.core.security.principal_rules import BadRules, Rule, principal_name, read_rules
from ottla.broker.endpoints import Endpoint, endpoints
from ottla.broker.logger import Logger
from ottla.broker.net.keystores import (
    Lookup,
    Material,
    Unreadable,
    as_file,
    doubts,
    faults,
    in_words,
    now_ms,
    of_http,
    of_listener,
    out_of_time,
    read_material,
    signature,
    unix_ms,
)
from ottla.broker.settings import BadSetting, Settings

SHUTDOWN_S: Final = 1.0
"""A client that does not answer the end of TLS must not keep its connection."""
RETRY_S: Final = 1.0
TRIES: Final = 10
"""Files that do not fit each other are looked at so often before it is said: key and certificate are two."""
WARN_DAYS: Final = 14
DAY_MS: Final = 86_400_000

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_SUITES_OF_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_BROKEN: Final = re.compile(r"[-_](NULL|ANON|A(?:EC)?DH|EXP(?:ORT)?\d*|3?DES|RC4|MD5)[-_]")
"""What a suite has in its name that encrypts nothing, asks the broker for no certificate, or can be broken."""
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST")
"""What OpenSSL says of clients that speak something else."""
_NEW_CERTIFICATE_IS_REFUSED = "New keys or certificates are not used, the old ones stay"


class Contexts:
    """The TLS of one listener.

    Args:
        listener: the name by which settings may be for it alone.
        with_sasl: names are those of SASL: a certificate is asked for only where the settings say so for this
            listener, and makes no principal.
        look_up: gives the settings that count for it; `ottla.broker.net.keystores.of_http` for HTTP.
        told: the host that clients are told, for which they want the certificate to be; None: the address at which they
            reached the listener; empty: there is nothing to look for.

    Attributes:
        rules: make the names of principals; see `principal_of`.

    Raises:
        BadSetting: there can be none; the message names setting and file.
    """

    def __init__(
        self,
        settings: Settings,
        listener: str,
        *,
        with_sasl: bool = False,
        look_up: Callable[[Settings, str], Lookup] = of_listener,
        told: str | None = "",
    ) -> None:
        self.listener = listener
        self._told = told
        self._with_sasl = with_sasl
        self._of = look_up
        self._lock = threading.Lock()  # files are looked at in a thread
        self._interval_s = settings.ottla_tls_reload_interval_ms / 1000
        self._asked_to_look = asyncio.Event()
        self._good_from_ms: float = inf  # of a certificate that was refused as it comes too early
        name, auth = look_up(settings, listener)("ssl.client.auth")
        self._ignored: list[str] = []
        if with_sasl and name == "ssl.client.auth" and auth != "none":
            self._ignored.append(
                f"{name}={auth} does not count for {listener}, whose clients say by SASL who they are; set "
                f"listener.name.{listener.lower()}.{name} if they are to show a certificate as well"
            )
        asked = self._asked(settings)
        self.rules = _rules(asked)
        self._put(asked, _made(asked, read_material(asked)))

    def _asked(self, settings: Settings) -> Lookup:
        """On a listener with SASL ``ssl.client.auth`` counts only if it is for that listener, as in Kafka."""
        look_up = self._of(settings, self.listener)

        def asked(key: str) -> tuple[str, Any]:
            name, value = look_up(key)
            return (name, "none") if self._with_sasl and name == "ssl.client.auth" else (name, value)

        return asked

    def _put(self, look_up: Lookup, made: _Made) -> None:
        """Use something from now on."""
        self._look_up, self._made = look_up, made
        self._signature: tuple[object, ...] = ()  # they are read once more: one may have changed since it was read

    @property
    def context(self) -> ssl.SSLContext:
        """For handshakes that begin now."""
        return self._made.context

    @property
    def chain(self) -> Sequence[Certificate]:
        """The certificate of the broker, and those of who signed it."""
        return self._made.chain

    @property
    def ends_ms(self) -> int:
        """When the certificate ends, in Unix milliseconds."""
        return unix_ms(self.chain[0].not_after)

    def faults(self) -> list[str]:
        """Why clients do not take the certificate, a sentence each."""
        return faults(self._made.material.chain_name, self.chain[0], self._told or "")

    def warnings(self) -> list[str]:
        """What is doubtful about keys, certificates and their settings, besides `faults`; a sentence each."""
        return [*self._ignored, *doubts(self._made.material, self.chain, by_address=self._told is None)]

    def renew(self, settings: Settings, *, validate_only: bool = False) -> None:
        """Use what other settings name, or the same again, whose files may have changed. This may block.

        Raises:
            BadSetting: it cannot be used, or is for others than before; the old one stays.
        """
        look_up = self._asked(settings)
        with self._lock:
            made = self._made_anew(look_up, read_material(look_up))
            if not validate_only:
                self._put(look_up, made)

    def look_again(self, *, anyway: bool = False) -> bool:
        """Look whether the files are others than before, and use them if so; whether they are. This may block.

        Args:
            anyway: read them though they look as they did when they were last read.

        Raises:
            BadSetting: as `renew`. They are not read again then before they change, or are good.
        """
        with self._lock:
            found = signature(self._made.material.files)
            if found == self._signature and not anyway and now_ms() < self._good_from_ms:
                return False
            self._signature, self._good_from_ms = found, inf
            material = read_material(self._look_up)
            if material.digest() == self._made.material.digest():
                return False
            self._put(self._look_up, self._made_anew(self._look_up, material))
            return True

    def _made_anew(self, look_up: Lookup, material: Material) -> _Made:
        """What may be put in the place of what is used, as it is for the same names (KIP-978). May raise BadSetting."""
        trusts = bool(self._made.material.trusted)
        if bool(material.trusted) != trusts:
            what = "vanish" if trusts else "appear"
            raise BadSetting(f"{material.trust_name}: a truststore cannot {what} while the broker runs; restart it")
        made = _made(look_up, material)
        old, new = self.chain[0], made.chain[0]
        if new != old and (fault := out_of_time(new)):
            advice = "; put one there that is good now"
            if now_ms() < unix_ms(new.not_before):
                self._good_from_ms, advice = unix_ms(new.not_before), ", and is taken then"
            raise BadSetting(f"{material.chain_name}: the new certificate {fault}{advice}")
        if old.subject.casefold() != new.subject.casefold() and not look_up("ssl.allow.dn.changes")[1]:
            raise BadSetting(
                f"{material.chain_name}: the new certificate is of {new.subject!r}, the old one of {old.subject!r}; "
                "put one of the same subject there, or set ssl.allow.dn.changes=true if the change is meant"
            )
        missing = [name for name in old.alternative_names if name not in new.alternative_names]
        if missing and not look_up("ssl.allow.san.changes")[1]:
            names = ", ".join(host_of(name) or name.hex() for name in missing)
            raise BadSetting(
                f"{material.chain_name}: the new certificate is not for {names}, as the old one was; put one there "
                "that is, or set ssl.allow.san.changes=true if the change is meant"
            )
        return made

    # -- connections

    async def accept(self, sock: socket.socket, protocol: asyncio.BaseProtocol, timeout_s: float) -> None:
        """Let a connection begin with a handshake.

        Raises:
            OSError: it failed; see `reason_of`. The protocol hears nothing then.
        """
        _arriving.set(arrival := _Arrival(sock))
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                sock,
                ssl=self.context,
                ssl_handshake_timeout=timeout_s,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except ConnectionResetError:
            if not arrival.is_answered:
                raise
            raise ConnectionAbortedError(
                "the client left once it had seen the certificate, which it may not trust"
            ) from None

    @staticmethod
    def reason_of(error: OSError) -> str:
        """Why a handshake failed; empty if the client has just gone, as those do that look whether a port is open."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"the certificate of the client: {error.verify_message}"
        if isinstance(error, ssl.SSLError):
            if error.reason in _NO_TLS:
                return "the client does not speak TLS"
            return (error.reason or "not understood").replace("_", " ").lower()
        return "" if isinstance(error, ConnectionResetError | BrokenPipeError) else str(error)

    def principal_of(self, der: bytes) -> str | None:
        """The principal of a client by its certificate; see the function."""
        return principal_of(der, self.rules)

    @staticmethod
    def subject_of(der: bytes) -> str:
        """The subject of a certificate, as rules see it; empty if it is too long for them."""
        try:
            return read_certificate(der).subject
        except ValueError:
            return ""

    # -- while the broker runs

    def look_soon(self) -> None:
        """Let `watch` read the files now, whether they look new or not."""
        self._asked_to_look.set()

    async def watch(self, log: Logger, clock: Clock) -> None:
        """Look after files and the end of the certificate, until it is cancelled. Files are read in a thread."""
        tries, told_ms = 0, 0
        while True:
            is_asked = await self._pause(RETRY_S if tries else self._interval_s)
            try:
                changed = await asyncio.to_thread(self.look_again, anyway=is_asked or tries > 0)
                tries = 0
                if changed:
                    log.info("New keys and certificates are used", listener=self.listener, until=self.until)
                    self.tell_doubts(log)
            except BadSetting as error:
                # One of two files may be written and the other one not yet.
                tries = (tries + 1) % TRIES if isinstance(error, Unreadable) else 0
                if not tries:
                    log.error(_NEW_CERTIFICATE_IS_REFUSED, listener=self.listener, reason=str(error))
            now_ms = clock.wall_ms()
            if now_ms - told_ms >= DAY_MS and self.ends_ms - now_ms < WARN_DAYS * DAY_MS:
                told_ms = now_ms
                what = "ends soon" if now_ms < self.ends_ms else "has ended: clients do not take it any more"
                log.warning(f"The certificate of a listener {what}", listener=self.listener, until=self.until)

    async def _pause(self, seconds: float) -> bool:
        """Wait for some time, or until somebody asks; whether somebody did."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._asked_to_look.wait(), seconds)
        is_asked = self._asked_to_look.is_set()
        self._asked_to_look.clear()
        return is_asked

    @property
    def until(self) -> str:
        """The end of the certificate as people read it, in UTC."""
        return in_words(self.chain[0].not_after)

    def all_doubts(self) -> list[str]:
        """What `tell_doubts` logs."""
        return [*self.faults(), *self.warnings()]

    def tell_doubts(self, log: Logger) -> None:
        """Log what is doubtful."""
        for warning in self.all_doubts():
            log.warning("TLS", listener=self.listener, reason=warning)


def contexts_of(settings: Settings, endpoint: Endpoint) -> Contexts:
    """The TLS of a listener.

    Raises:
        BadSetting: there can be none.
    """
    told = endpoint.told[0] if endpoint.told else None if endpoint.is_for_others else ""
    return Contexts(settings, endpoint.name, with_sasl=endpoint.has_sasl, told=told)


def contexts_of_http(settings: Settings) -> Contexts:
    """The TLS of the HTTP port: ``ottla.http.ssl.keystore.*``, or else that of the first listener that has any.

    Raises:
        BadSetting: there can be none.
    """
    listener = next((one.name for one in endpoints(settings) if one.has_tls), "")
    try:
        return Contexts(settings, "HTTP", look_up=lambda given, _: of_http(given, listener))
    except BadSetting as error:
        raise BadSetting(f"ottla.http.tls=true: {error}") from None


def principal_of(der: bytes, rules: Sequence[Rule]) -> str | None:
    """The principal of a client by its certificate, which was verified; None: no rule fits, and it has to go."""
    try:
        name = principal_name(read_certificate(der).subject, rules)
    except ValueError:  # a subject that is too long
        return None
    return None if name is None else f"User:{name}"


# -- contexts


class _Made(NamedTuple):
    """A context, and what it is made of."""

    context: ssl.SSLContext
    material: Material
    chain: Sequence[Certificate]


def _made(look_up: Lookup, material: Material) -> _Made:
    chain = material.certificates()
    return _Made(_context(look_up, material), material, chain)


class _Arrival:
    """The handshake that a task is about."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.is_answered = False


_arriving: ContextVar[_Arrival | None] = ContextVar("_arriving", default=None)


class _Connection(ssl.SSLObject):
    """Tells a client why its handshake fails, as Kafka does: event loops close at once, and drop TLS's last words.

    Without them a client takes it for a network that fails, and goes on trying. Whoever speaks no TLS hears none.
    """

    heard: ssl.MemoryBIO
    words: ssl.MemoryBIO

    def read(self, len: int = 1024, buffer: Any = None) -> Any:
        """Read what was decrypted, without asking OpenSSL where nothing has come.

        Event loops look once more after each request, and that error takes OpenSSL longer than to decrypt a request.
        """
        if not self.heard.pending and not self.pending():
            raise ssl.SSLWantReadError
        return super().read(len, buffer)

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if self.words.pending and (arrival := _arriving.get()) is not None:
                arrival.is_answered = True
            raise
        except ssl.SSLError as error:
            if (arrival := _arriving.get()) is not None and error.reason not in _NO_TLS:
                with suppress(OSError):
                    arrival.sock.send(self.words.read())
            raise


class _Context(ssl.SSLContext):
    sslobject_class = _Connection

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *more: Any, **others: Any) -> ssl.SSLObject:
        connection = cast(_Connection, super().wrap_bio(incoming, outgoing, *more, **others))
        connection.heard, connection.words = incoming, outgoing
        return connection


def _context(look_up: Lookup, material: Material) -> ssl.SSLContext:
    context = _Context(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    versions = [version for version in _VERSIONS if version in _list(look_up("ssl.enabled.protocols")[1])]
    suites_name, suites = look_up("ssl.cipher.suites")
    versions = _set_suites(context, suites_name, _list(suites), versions)
    context.minimum_version, context.maximum_version = _VERSIONS[versions[0]], _VERSIONS[versions[-1]]
    _load_key(context, material)
    auth_name, auth = look_up("ssl.client.auth")
    if auth != "none" and not material.trusted:
        raise BadSetting(
            f"{auth_name}={auth}: certificates of clients are held against those in {material.trust_name}, which is "
            "not set; name a file with the authorities of your clients (PEM)"
        )
    context.verify_mode = _CLIENT_AUTH[auth]
    if material.trusted:
        _load_trusted(context, material)
    if material.revoked:
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        with as_file(material.revoked) as path:
            context.load_verify_locations(cafile=path)
    return context


def _load_key(context: ssl.SSLContext, material: Material) -> None:
    def password() -> str:
        if not material.key_password:
            raise BadSetting(f"{material.key_name}: the key is encrypted; set ssl.key.password")
        return material.key_password

    try:
        with as_file(material.key + material.chain) as path:
            context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise Unreadable(
                f"{material.key_name}: the key does not belong to the first certificate of the chain"
            ) from None
        hint = "; ssl.key.password may be wrong" if material.key_password else ""
        reason = (error.reason or "it is not in a form that OpenSSL reads").replace("_", " ").lower()
        raise Unreadable(f"{material.key_name}: key or certificate cannot be used: {reason}{hint}") from None


def _load_trusted(context: ssl.SSLContext, material: Material) -> None:
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Java, what is trusted need not have signed itself
    try:
        context.load_verify_locations(cadata=material.trusted.decode())
    except ssl.SSLError as error:
        raise Unreadable(f"{material.trust_name}: a certificate in it cannot be read: {error.reason}") from None


def _set_suites(context: ssl.SSLContext, name: str, suites: list[str], versions: list[str]) -> list[str]:
    """Limit a context to cipher suites, by Java's names or OpenSSL's; returns the versions of TLS that they leave."""
    if not suites:
        return versions
    newer = [suite for suite in _SUITES_OF_1_3 if suite in suites]
    older = [_name_of_openssl(suite) for suite in suites if suite not in newer]
    if newer and len(newer) < len(_SUITES_OF_1_3) and "TLSv1.3" in versions:
        missing = ", ".join(suite for suite in _SUITES_OF_1_3 if suite not in newer)
        raise BadSetting(
            f"{name}: the suites of TLS 1.3 can only be used together or not at all; add {missing}, or remove "
            f"{', '.join(newer)}"
        )
    if broken := [suite for suite in suites if _BROKEN.search(f"-{suite.upper()}-")]:
        raise BadSetting(
            f"{name}: {', '.join(broken)} does not encrypt, shows no certificate, or can be broken: as in Java, none "
            "with NULL, anon, EXPORT, DES, RC4 or MD5 is allowed; name others, as "
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, or leave it empty for those that are safe"
        )
    context.set_ciphers("ALL:!aNULL")
    known = [cipher["name"] for cipher in context.get_ciphers()]
    if unknown := [suite for suite in older if suite not in known or suite in _SUITES_OF_1_3]:
        raise BadSetting(f"{name}: OpenSSL has no {', '.join(unknown)}; `openssl ciphers` lists those that it has")
    context.set_ciphers(":".join(older) or "DEFAULT")
    left = [version for version in versions if (newer if version == "TLSv1.3" else older)]
    if not left:
        raise BadSetting(f"{name}: none of the suites is of {', '.join(versions)}, which ssl.enabled.protocols allows")
    return left


def _name_of_openssl(suite: str) -> str:
    """``TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256`` is ``ECDHE-RSA-AES128-SHA256``; other names are as they are."""
    exchange, is_javas, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not is_javas:
        return suite
    cipher = cipher.replace("_CBC", "").replace("AES_", "AES").replace("POLY1305_SHA256", "POLY1305")
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")


def _rules(look_up: Lookup) -> Sequence[Rule]:
    name, text = look_up("ssl.principal.mapping.rules")
    try:
        return read_rules(text)
    except BadRules as error:
        raise BadSetting(f"{name}: {error}") from None


def _list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
