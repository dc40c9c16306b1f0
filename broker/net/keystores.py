"""Keys and certificates as settings give them: PEM in the settings themselves, files of PEM, files of PKCS12."""

from __future__ import annotations

import calendar
import os
import re
import stat
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

from ottla.broker.core.security.certificates import Certificate, read_certificate
from ottla.broker.settings import FIELDS, BadSetting, Settings

Lookup: TypeAlias = Callable[[str], tuple[str, Any]]
"""Gives, for a key of TLS, the name under which its value was set, and the value."""

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_JKS: Final = (bytes.fromhex("feedfeed"), bytes.fromhex("cececece"))
_DER: Final = b"\x30"
_STORES: Final = {"keystore": "ssl.keystore", "truststore": "ssl.truststore"}


class Unreadable(BadSetting):
    """A file is missing, or is not what it should be: somebody may be about to write it."""


@dataclass(frozen=True, slots=True, repr=False)
class Material:
    """What a listener shows, and whom it trusts. All of it is PEM; it has no repr, for a key is in it.

    Attributes:
        key_password: of an encrypted key; else empty.
        chain: the certificate of the key, then those of who signed it.
        trusted: the authorities of clients; empty where none are.
        revoked: lists of certificates that are not good any more.
        key_name, chain_name, trust_name: the settings that the key, its certificate and the trusted ones come from,
            with their file.
        files: those that were read; key_file: the one of them that the key is in, or empty.
    """

    key: bytes
    key_password: str
    chain: bytes
    trusted: bytes
    revoked: bytes
    key_name: str
    chain_name: str
    trust_name: str
    files: tuple[str, ...]
    key_file: str

    def digest(self) -> bytes:
        """Tells whether something else was read."""
        parts = (self.key, self.key_password.encode(), self.chain, self.trusted, self.revoked)
        return sha256(b"".join(sha256(part).digest() for part in parts)).digest()

    def certificates(self) -> list[Certificate]:
        """The chain, read.

        Raises:
            BadSetting: one of them is no certificate.
        """
        try:
            return [read_certificate(der) for der in ders(self.chain)]
        except ValueError as error:
            raise BadSetting(f"{self.chain_name}: a certificate in it cannot be read: {error}") from None


def of_listener(settings: Settings, listener: str) -> Lookup:
    """The settings of TLS that count for a listener."""

    def look_up(key: str) -> tuple[str, Any]:
        own = f"{listener.lower()}.{key}"
        name = f"listener.name.{own}" if own in settings.by_listener else key
        return name, settings.of_listener(listener, key)

    return look_up


def of_http(settings: Settings, listener: str) -> Lookup:
    """The settings of TLS that count for HTTP: its own, or else those of a listener. It asks for no certificates."""
    has_own = settings.ottla_http_ssl_keystore_location or settings.ottla_http_ssl_keystore_key
    of_other = of_listener(settings, listener)

    def look_up(key: str) -> tuple[str, Any]:
        if key.startswith(("ssl.truststore.", "ottla.tls.crl.")) or key == "ssl.client.auth":
            return key, FIELDS[key].default
        if not has_own:
            return of_other(key)
        own = f"ottla.http.{key}"
        if own in FIELDS:
            return own, getattr(settings, FIELDS[own].name)
        return (key, "") if key == "ottla.tls.key.location" else of_other(key)

    return look_up


def read_material(look_up: Lookup) -> Material:
    """Read what the settings name.

    Raises:
        Unreadable: a file is missing, or not what it should be.
        BadSetting: settings are missing, or contradict each other.
    """
    files: dict[str, bytes] = {}
    key, chain, key_name, chain_name, key_file = _keystore(look_up, files)
    trusted, trust_name = _truststore(look_up, files)
    crl_name, crl = look_up("ottla.tls.crl.location")
    revoked = b""
    if crl:
        revoked = _blocks(_text(crl_name, crl, files), "X509 CRL")
        if not revoked:
            raise Unreadable(f"{crl_name}={crl}: there is no list of revoked certificates (X509 CRL) in it")
    _, password = look_up("ssl.key.password")
    return Material(key, password, chain, trusted, revoked, key_name, chain_name, trust_name, tuple(files), key_file)


def ders(pem: bytes) -> Iterator[bytes]:
    """The DER of each part of a PEM. Raises ValueError for what is no Base64."""
    return (b64decode(block[2]) for block in _BLOCK.finditer(pem.decode("ascii")))


# -- stores


def _keystore(look_up: Lookup, files: dict[str, bytes]) -> tuple[bytes, bytes, str, str, str]:
    """Key, chain, the settings that each of them comes from, and the file that the key is in."""
    type_name, kind = look_up("ssl.keystore.type")
    location_name, location = look_up("ssl.keystore.location")
    key_name, key_text = look_up("ssl.keystore.key")
    chain_name, chain_text = look_up("ssl.keystore.certificate.chain")
    apart_name, apart = look_up("ottla.tls.key.location")
    _check_store(look_up, "keystore", given_inline=bool(key_text or chain_text), files=files)
    if key_text or chain_text:
        if not (key_text and chain_text):
            missing, there = (key_name, chain_name) if chain_text else (chain_name, key_name)
            raise BadSetting(f"{missing}: {there} is set, and a key takes its certificate chain: set both")
        key, chain = _key_in(key_text), _blocks(chain_text, "CERTIFICATE")
        if not key or not chain:
            missing, what = (chain_name, "certificate") if key else (key_name, "private key")
            raise BadSetting(f"{missing}: there is no {what} in it; write the PEM, from -----BEGIN to -----END")
        return key, chain, key_name, chain_name, ""
    if not location:
        raise BadSetting(
            f"{location_name}: TLS takes a certificate and its key; name the file that they are in (PEM), or set "
            f"{type_name}=PKCS12 and name a keystore"
        )
    where = f"{location_name}={location}"
    if kind == "PKCS12":
        key, chain = _from_pkcs12(look_up, "keystore", _data(location_name, location, files))
        if not key:
            raise Unreadable(f"{where}: there is no private key in it")
        return key, chain, where, where, location
    text = _text(location_name, location, files)
    chain, key, key_file = _blocks(text, "CERTIFICATE"), _key_in(text), location
    if apart:
        key, key_file, key_where = _key_in(_text(apart_name, apart, files)), apart, f"{apart_name}={apart}"
    else:
        key_where = where
    if not chain:
        raise Unreadable(f"{where}: there is no certificate in it")
    if not key:
        raise Unreadable(f"{key_where}: there is no private key in it; {apart_name} may name another file")
    return key, chain, key_where, where, key_file


def _truststore(look_up: Lookup, files: dict[str, bytes]) -> tuple[bytes, str]:
    """The authorities of clients, and the setting that they come from."""
    _, kind = look_up("ssl.truststore.type")
    location_name, location = look_up("ssl.truststore.location")
    name, text = look_up("ssl.truststore.certificates")
    _check_store(look_up, "truststore", given_inline=bool(text), files=files)
    if not text and not location:
        return b"", location_name
    where = name
    if location:
        where = f"{location_name}={location}"
        if kind == "PKCS12":
            trusted = _from_pkcs12(look_up, "truststore", _data(location_name, location, files))[1]
        else:
            trusted = _blocks(_text(location_name, location, files), "CERTIFICATE")
    else:
        trusted = _blocks(text, "CERTIFICATE")
    if not trusted:
        raise Unreadable(f"{where}: there is no certificate in it")
    return trusted, where


def _check_store(look_up: Lookup, store: str, *, given_inline: bool, files: dict[str, bytes]) -> None:
    """Refuse what Kafka refuses: settings of which one would have to be ignored."""
    prefix = _STORES[store]
    type_name, kind = look_up(f"{prefix}.type")
    location_name, location = look_up(f"{prefix}.location")
    password_name, password = look_up(f"{prefix}.password")
    if given_inline and (location or kind != "PEM"):
        other = f"{location_name}={location}" if location else f"{type_name}={kind}"
        raise BadSetting(f"{other}: the {store} is in the settings as PEM already; remove one of the two")
    if password and kind == "PEM":
        with suppress(Unreadable):
            _data(location_name, location, files)  # tells what to do with a JKS, which has such a password
        raise BadSetting(
            f"{password_name}: PEM has no password of its own; set ssl.key.password for an encrypted key, or "
            f"{type_name}=PKCS12 for another form"
        )


def _convert(path: str, type_name: str) -> str:
    return (
        f"a keystore of Java's own form, which nothing else reads; make PKCS12 of it: keytool -importkeystore "
        f"-srckeystore {path} -destkeystore {Path(path).stem}.p12 -deststoretype PKCS12, then set {type_name}=PKCS12"
    )


def _from_pkcs12(look_up: Lookup, store: str, data: bytes) -> tuple[bytes, bytes]:
    """Key (empty where there is none) and certificates of a store."""
    prefix = _STORES[store]
    where = "{}={}".format(*look_up(f"{prefix}.location"))
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ModuleNotFoundError:
        type_name, _ = look_up(f"{prefix}.type")
        raise BadSetting(f"{type_name}=PKCS12 needs cryptography: pip install 'ottla[tls]'") from None
    password_name, password = look_up(f"{prefix}.password")
    try:
        found = pkcs12.load_pkcs12(data, password.encode() or None)
    except ValueError:
        raise Unreadable(f"{where}: is no PKCS12, or {password_name} is not its password") from None
    key = found.key and found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    held = [found.cert, *found.additional_certs] if found.cert else found.additional_certs
    return key or b"", b"".join(one.certificate.public_bytes(Encoding.PEM) for one in held)


# -- files and PEM


def _data(name: str, path: str, files: dict[str, bytes]) -> bytes:
    """The content of a file, which is read once."""
    if path not in files:
        try:
            files[path] = Path(path).read_bytes()
        except OSError as error:
            raise Unreadable(f"{name}={path}: cannot be read: {error.strerror or error}") from None
    if files[path].startswith(_JKS):
        raise BadSetting(f"{name}={path}: {_convert(path, name.removesuffix('location') + 'type')}")
    return files[path]


def _text(name: str, path: str, files: dict[str, bytes]) -> str:
    data = _data(name, path, files)
    if data.startswith(_DER) and name.endswith("store.location"):
        raise BadSetting(f"{name}={path}: is no PEM; set {name.removesuffix('location')}type=PKCS12 if it is that")
    return data.decode("utf-8", "replace")


def _key_in(text: str) -> bytes:
    return _blocks(text, "PRIVATE KEY")


def _blocks(text: str, kind: str) -> bytes:
    r"""The parts of PEM of a kind. In a property line breaks may be ``\n`` or blanks, as Kafka has it."""
    found = (block for block in _BLOCK.finditer(text.replace("\\n", "\n")) if block[1].endswith(kind))
    return "".join(f"-----BEGIN {one[1]}-----\n{_lines(one[2])}\n-----END {one[1]}-----\n" for one in found).encode()


def _lines(body: str) -> str:
    if ":" in body:  # headers of the older form of encrypted keys, whose lines count
        return body.strip()
    packed = "".join(body.split())
    return "\n".join(packed[at : at + 64] for at in range(0, len(packed), 64))


@contextmanager
def as_file(data: bytes) -> Iterator[str]:
    """A path from which OpenSSL reads bytes: it takes keys from nothing else. In memory, where the system can."""
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("ottla-tls"), "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        import tempfile

        with tempfile.NamedTemporaryFile() as file:  # which its owner alone may read
            file.write(data)
            file.flush()
            yield file.name


def signature(paths: Iterable[str]) -> tuple[object, ...]:
    """What changes when one of the files does: time, size and inode. A file that is missing has none."""

    def one(path: str) -> object:
        try:
            found = os.stat(path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    return tuple(one(path) for path in paths)


def others_may_read(path: str) -> bool:
    """Whether a file may be read by others than its owner and this process.

    Files of root's may be read by a group, too: so Kubernetes mounts secrets for a process that is not root.
    """
    try:
        found = os.stat(path)
    except OSError:
        return False
    is_given_to_us = found.st_uid == 0 and os.geteuid() != 0
    return bool(found.st_mode & (stat.S_IROTH if is_given_to_us else stat.S_IROTH | stat.S_IRGRP))


# -- what is wrong with them


def faults(where: str, certificate: Certificate, told: str) -> list[str]:
    """What a start goes on with, though no client would."""
    found = []
    if fault := out_of_time(certificate):
        found.append(f"{where}: the certificate {fault}, and clients do not take it; put one there that is good now")
    names = [name.lower() for name in certificate.names]
    # Where there are no names at all, some clients look at the subject.
    if told and names and not {told.lower(), f"*.{told.lower().partition('.')[2]}"} & {*names}:
        found.append(
            f"{where}: clients are told {told}, and the certificate is not for that, but for "
            f"{', '.join(certificate.names)}; name one of these in advertised.listeners, or put one there that is "
            f"for {told}"
        )
    return found


def out_of_time(certificate: Certificate) -> str:
    """Why a certificate is not good now, as words that go on after it; empty if it is."""
    if now_ms() < unix_ms(certificate.not_before):
        return f"is not good before {in_words(certificate.not_before)}"
    if now_ms() >= unix_ms(certificate.not_after):
        return f"ended at {in_words(certificate.not_after)}"
    return ""


def doubts(material: Material, chain: Sequence[Certificate], *, by_address: bool = False) -> list[str]:
    """What a start goes on with, and somebody should know of.

    Args:
        by_address: clients of other machines are told the address at which they reached the listener.
    """
    found = []
    if not _is_in_order(chain):
        found.append(
            f"{material.chain_name}: the chain is not in order: each certificate has to be followed by that of its "
            "issuer"
        )
    if material.key_file and others_may_read(material.key_file):
        found.append(f"{material.key_name}: others than the owner may read the key: chmod 600 {material.key_file}")
    if by_address and chain[0].names and not any(map(_is_address, chain[0].names)):
        found.append(
            f"{material.chain_name}: clients are told the address at which they reached the broker, and the "
            f"certificate is not for that, but for {', '.join(chain[0].names)}; name in "
            "advertised.listeners what it is for, or have one issued for the address"
        )
    return found


def _is_address(name: str) -> bool:
    """Whether it is one by which other machines reach this one."""
    try:
        return not ip_address(name).is_loopback
    except ValueError:
        return False


def _is_in_order(chain: Sequence[Certificate]) -> bool:
    return all(one.issuer == above.subject for one, above in pairwise(chain))


def now_ms() -> int:
    """Unix time, as TLS goes by it, in milliseconds."""
    return time.time_ns() // 1_000_000


def in_words(text: str) -> str:
    """``20261231235959Z`` as people read it, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.strptime(text, "%Y%m%d%H%M%SZ"))


def unix_ms(text: str) -> int:
    """The Unix time of ``20261231235959Z``."""
    return calendar.timegm(time.strptime(text, "%Y%m%d%H%M%SZ")) * 1000
