"""Where a broker listens by its command line and settings, and whether it may: what is open has to be asked for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ottla.broker.endpoints import DEFAULT_LISTENER, PROTOCOLS, Endpoint, address_of, check_names, endpoints
from ottla.broker.settings import BadSetting, Settings

DEFAULT = "localhost:9092"


class Options(NamedTuple):
    """The options of `ottla serve` about its listener.

    They make one, or move that of the settings, and add to what protects it: they never take away from that.
    """

    listen: str | None = None
    advertise: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    sasl: str | None = None

    def pairs(self) -> list[str]:
        """The settings that the options stand for.

        Raises:
            BadSetting: one of them needs another one.
        """
        if self.tls_key and not self.tls_cert:
            raise BadSetting("--tls-key: say --tls-cert FILE, too, with the certificate that belongs to the key")
        pairs = [f"sasl.enabled.mechanisms={self.sasl}"] if self.sasl else []
        if self.tls_cert:
            pairs.append(f"ssl.keystore.location={self.tls_cert}")
        if self.tls_key:
            pairs.append(f"ottla.tls.key.location={self.tls_key}")
        return pairs

    @property
    def protocol(self) -> str:
        plaintext, tls, sasl_plaintext, sasl_tls = PROTOCOLS
        if self.sasl:
            return sasl_tls if self.tls_cert else sasl_plaintext
        return tls if self.tls_cert else plaintext

    def listener(self, address: tuple[str, int], settings: Settings) -> Endpoint:
        """The listener of --listen: that of the settings, at this address, or a new one where they name none.

        Raises:
            BadSetting: the settings name several listeners, and some have TLS or SASL, which one would not have.
        """
        found = endpoints(settings) if "listeners" in settings.given else []
        if len(found) > 1 and any(one.has_tls or one.has_sasl for one in found):
            raise BadSetting(
                f"--listen makes one listener, and the settings name {len(found)}, with TLS or SASL: leave --listen "
                f"out, or say the other addresses as --set listeners={','.join(map(str, found))}"
            )
        if len(found) != 1:
            return Endpoint(*address, self.protocol, self.protocol)
        (one,) = found
        has_sasl, has_tls = one.has_sasl or bool(self.sasl), one.has_tls or bool(self.tls_cert)
        protocol = PROTOCOLS[2 * has_sasl + has_tls]
        name = protocol if one.name == DEFAULT_LISTENER else one.name
        return Endpoint(*address, name, protocol)


def listeners(settings: Settings, options: Options = Options(), log: Any = None) -> list[Endpoint]:  # noqa: B008
    """The listeners of a broker: that of the options, if they name one, or else those of the settings.

    Args:
        log: is told where the advertised address is not as the settings have it.

    Raises:
        BadSetting: one is no address, lacks a setting, or is open to other machines and the settings do not permit it.
    """
    listen = options.listen
    if not listen and (options.tls_cert or options.sasl):
        if "listeners" in settings.given:
            raise BadSetting("--tls-cert and --sasl are for the listener of --listen HOST:PORT: say that, too")
        listen = DEFAULT
    if not listen:
        found = endpoints(settings)
        if options.advertise and len(found) > 1:
            raise BadSetting("--advertise is for one listener: say advertised.listeners=NAME://HOST:PORT,… instead")
        if options.advertise:
            found = [found[0]._replace(advertised=_told(options.advertise))]
        where = f"listeners={settings.listeners!r}"
    else:
        listen = f"localhost:{listen}" if listen.isdecimal() else listen
        where = f"--listen {listen!r}"
        found = [_told_of(options.listener(address_of(listen, where), settings), settings, options, log)]
    # Where --listen stands for several, what is set for them means nothing, and is no slip.
    check_names([*found, *(endpoints(settings) if "listeners" in settings.given else [])], settings)
    for one in found:
        _check(one, where, settings, options)
    return found


def _told_of(one: Endpoint, settings: Settings, options: Options, log: Any) -> Endpoint:
    """A listener of --listen, with the address that clients are told."""
    if options.advertise:
        return one._replace(advertised=_told(options.advertise))
    if one.name not in (item.partition("://")[0].strip().upper() for item in settings.advertised_listeners.split(",")):
        return one
    told = {other.name: other.advertised for other in endpoints(settings)}.get(one.name)
    return one._replace(advertised=_following(told, one, settings, log))


def _told(text: str) -> tuple[str, int]:
    address = address_of(text, f"--advertise {text!r}")
    if not all(address):
        raise BadSetting(f"advertised address {text!r}: clients need a host and a port they can connect to")
    return address


def _following(told: tuple[str, int] | None, one: Endpoint, settings: Settings, log: Any) -> tuple[str, int] | None:
    """The advertised address, where --listen may say another port than the settings.

    Settings that advertise the port on which they listen map no port: the advertised one is then that of --listen.
    """
    if told is None or told[1] == one.port:
        return told
    key, configured = "advertised.listeners", f"{told[0]}:{told[1]}"
    if "listeners" in settings.given and any(
        other.name == one.name and other.port == told[1] for other in endpoints(settings)
    ):
        where = f"{told[0]}:{one.port}" if one.port else "the address that they reached"
        if log is not None:
            log.info("The advertised port follows --listen", key=key, configured=configured, clients_connect_to=where)
        return (told[0], one.port) if one.port else None
    if log is not None:
        log.warning(
            "Clients are told another port than --listen says: without port mapping, say --advertise HOST:PORT",
            key=key,
            configured=configured,
            clients_connect_to=configured,
        )
    return told


def _check(one: Endpoint, where: str, settings: Settings, options: Options) -> None:
    """Refuse a listener that lacks a setting, or is more open than the settings permit."""
    if one.has_tls and not any(
        settings.of_listener(one.name, key) for key in ("ssl.keystore.location", "ssl.keystore.key")
    ):
        raise BadSetting(
            f"{where}: {one.name} needs a certificate; say --tls-cert FILE, or set ssl.keystore.location (or "
            f"listener.name.{one.name.lower()}.ssl.keystore.location)"
        )
    mechanisms = one.mechanisms(settings)
    if one.has_sasl and not mechanisms:
        raise BadSetting(
            f"{where}: {one.name} has no mechanism; name some in sasl.enabled.mechanisms, as SCRAM-SHA-512"
        )
    if settings.ottla_insecure or is_this_machine(one.host):
        return
    if not one.asks(settings):
        alone, ask = f"{one.name}://127.0.0.1:{one.port} in listeners", "SASL_SSL as its protocol"
        if options.listen:
            alone, ask = f"--listen 127.0.0.1:{one.port}", "--tls-cert FILE --sasl SCRAM-SHA-512"
        if one.has_tls and not options.tls_cert:
            ask = f"listener.name.{one.name.lower()}.ssl.client.auth=required"
        raise BadSetting(
            f"{where}: other machines reach this, and there is no authentication; say {alone} to serve this machine "
            f"alone, {ask} to ask who comes, or --insecure if you trust the network"
        )
    if one.has_tls:
        return
    if options.sasl:
        raise BadSetting(
            f"{where} --sasl: other machines reach this, and nothing is encrypted; say --tls-cert FILE, or --insecure "
            "if you trust the network"
        )
    if "PLAIN" in mechanisms and not settings.of_listener(one.name, "ottla.sasl.plain.without.tls"):
        raise BadSetting(
            f"{where}: with PLAIN passwords go over the network as they are, and {one.name} has no TLS; set "
            "sasl.enabled.mechanisms=SCRAM-SHA-512, or ottla.sasl.plain.without.tls=true if you trust the network"
        )


def check_keys(found: Sequence[Endpoint], settings: Settings) -> None:
    """Read what the listeners need of files, as a start does.

    Raises:
        BadSetting: one is missing, or cannot be used.
    """
    for one in found:
        if "PLAIN" in one.mechanisms(settings):
            from ottla.broker.runtime.mechanisms import plain_users  # with what hashes passwords

            plain_users(one.name, settings)
        if "OAUTHBEARER" in one.mechanisms(settings):
            asyncio.run(_check_issuer(one.name, settings))


async def _check_issuer(listener: str, settings: Settings, log: Any = None) -> None:
    """Whether the settings name an issuer of tokens; and with a ``log``, which is told of it, whether it has keys."""
    from ottla.broker.clock import LoopClock
    from ottla.broker.logger import Silent
    from ottla.broker.runtime.jwks import URL, fault_of_file, issuer_of

    issuer = issuer_of(settings, listener, LoopClock(asyncio.get_running_loop()), log or Silent())
    url = settings.of_listener(listener, URL, "OAUTHBEARER")
    if log is not None and not fault_of_file(url):
        await issuer.start()
        issuer.stop()


def check_issuers(found: Sequence[Endpoint], settings: Settings, log: Any) -> None:
    """Fetch the keys of issuers of tokens, as a start does, and log what is doubtful; doctor tells of files."""
    for one in found:
        if "OAUTHBEARER" in one.mechanisms(settings):
            asyncio.run(_check_issuer(one.name, settings, log))


def openings(found: Sequence[Endpoint], settings: Settings) -> tuple[str, str] | None:
    """A sentence about what other machines may do, and which listeners that is about; None: nothing to warn of."""
    weak: list[str] = []
    everything = False
    for one in found:
        faults = [] if one.has_tls else ["nothing is encrypted"]
        if not one.asks(settings):
            faults.append("nobody is asked who he is")
        if not settings.authorizer_class_name:
            faults.append("there are no access rules")
            everything = everything or (not one.asks(settings) and not is_this_machine(one.host))
        if faults and not is_this_machine(one.host):
            where = str(one) if one.host else f"{one.name} on all interfaces, port {one.port}"
            weak.append(f"{where} ({', '.join(faults)})")
    if not weak:
        return None
    if everything:
        return "The broker is open to other machines: whoever reaches it may do everything", "; ".join(weak)
    return "The broker is open to other machines", "; ".join(weak)


def check_http(settings: Settings, *, by_option: bool = False) -> None:
    """Check where the HTTP port is to be, which ``--http`` may have said.

    Raises:
        BadSetting: it is no address, or other machines reach it without a token and the settings do not permit that
            (with access rules they never do); or tokens cannot be read.
    """
    if settings.ottla_http_listen:
        from ottla.observe.http.address import parse_address

        name = "--http" if by_option else "ottla.http.listen"
        host, port = parse_address(settings.ottla_http_listen, name)
        if not (settings.ottla_insecure or settings.ottla_http_token_file or is_this_machine(host)):
            raise BadSetting(
                f"{name} {settings.ottla_http_listen!r}: other machines reach this, and there is no authentication; "
                f"say --http {port} to serve this machine alone, --http-token-file FILE, or --insecure if you trust "
                "the network"
            )
        if settings.authorizer_class_name and not (settings.ottla_http_token_file or is_this_machine(host)):
            raise BadSetting(
                f"{name} {settings.ottla_http_listen!r}: other machines reach this, and access rules need to know who "
                f"looks; say --http-token-file FILE (`ottla token new NAME` makes tokens), or --http {port} to serve "
                "this machine alone"
            )
        if settings.ottla_http_token_file:
            _check_tokens(settings.ottla_http_token_file)
    elif settings.ottla_http_token_file:
        raise BadSetting("there is a token for HTTP, but no port: add --http PORT")


def _check_tokens(file: str) -> None:
    from ottla.observe.http.tokens import read_tokens

    try:
        read_tokens(Path(file))
    except (OSError, UnicodeDecodeError) as error:
        why = "it is no text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise BadSetting(
            f"ottla.http.token.file={file!r}: {why}; `ottla token new NAME --file FILE` makes one"
        ) from None


def is_this_machine(host: str) -> bool:
    """Whether every address that a host stands for is one of loopback; an empty one stands for all interfaces."""
    from ottla.observe.http.address import is_loopback

    if not host:
        return False
    try:
        # As bytes, as the listener does.
        found = socket.getaddrinfo(host.encode() if host.isascii() else host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return host == "localhost"  # which needs no hosts file
    return all(is_loopback(str(address[0])) for *_, address in found)
