"""A throw-away authority for brokers with TLS, and the certificates that it gives out."""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

SERVER_NAMES = ("localhost", "127.0.0.1", "::1")
_BEGIN, _END = datetime(2000, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)


class ClientCertificate(NamedTuple):
    """The certificate of a client: files of PEM, as clients take them.

    Attributes:
        certfile: the certificate; keyfile: its key.
        cafile: the authority of the broker.
    """

    certfile: str
    keyfile: str
    cafile: str

    def ssl_context(self) -> ssl.SSLContext:
        """The same for clients that take a context."""
        context = ssl.create_default_context(cafile=self.cafile)
        context.load_cert_chain(self.certfile, self.keyfile)
        return context


class Authority:
    """Signs certificates that nobody else trusts; its files are gone when the process ends.

    Raises:
        ModuleNotFoundError: the package trustme is missing; the message says how to install it.
    """

    def __init__(self) -> None:
        try:
            import trustme
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "TLS in tests needs trustme: pip install 'ottla[test-tls]'", name=error.name
            ) from error
        self._ca = trustme.CA()
        self._folder = tempfile.TemporaryDirectory(prefix="ottla-tls-")
        self._clients: dict[str, ClientCertificate] = {}
        self.cafile = self._path("ca.pem")
        self._ca.cert_pem.write_to_path(self.cafile)
        self.serverfile = self._path("server.pem")
        self._ca.issue_cert(*SERVER_NAMES).private_key_and_cert_chain_pem.write_to_path(self.serverfile)
        Path(self.serverfile).chmod(0o600)

    def client(self, subject: str) -> ClientCertificate:
        """A certificate of a client; the same one each time.

        Args:
            subject: a name as RFC 4514 has it, the last part first: ``CN=alice`` or ``CN=alice,OU=billing,O=example``.

        Raises:
            ValueError: it is something else.
        """
        if subject not in self._clients:
            number = len(self._clients)
            files = self._path(f"client-{number}.pem"), self._path(f"client-{number}.key")
            for path, pem in zip(files, self._signed(subject), strict=True):
                Path(path).write_bytes(pem)
                Path(path).chmod(0o600)
            self._clients[subject] = ClientCertificate(*files, self.cafile)
        return self._clients[subject]

    def _signed(self, subject: str) -> tuple[bytes, bytes]:
        """A certificate with just this subject, and its key: trustme adds parts of its own."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            load_pem_private_key,
        )

        try:
            name = x509.Name.from_rfc4514_string(subject)
        except ValueError:
            raise ValueError(f"client_certificate({subject!r}): write CN=…, or CN=…,OU=…,O=…") from None
        key = generate_private_key(SECP256R1())
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(x509.load_pem_x509_certificate(self._ca.cert_pem.bytes()).subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_BEGIN)
            .not_valid_after(_END)
        )
        signer: Any = load_pem_private_key(self._ca.private_key_pem.bytes(), None)
        signed = builder.sign(signer, SHA256()).public_bytes(Encoding.PEM)
        return signed, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def _path(self, name: str) -> str:
        return str(Path(self._folder.name) / name)


@cache
def authority() -> Authority:
    """The authority of this process: to make one takes longer than to start a broker."""
    return Authority()
