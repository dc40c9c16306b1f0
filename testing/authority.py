"""A throw-away authority for brokers with TLS, and the certificates that it gives out."""

from __future__ import annotations

import ssl
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

SERVER_NAMES = ("localhost", "127.0.0.1", "::1")
_PARTS = {"CN": "common_name", "O": "organization_name", "OU": "organization_unit_name"}


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
            raise ModuleNotFoundError("TLS in tests needs trustme: pip install 'ottla[test-tls]'", name=error.name) from error
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
            subject: ``CN=alice``, or with ``OU`` and ``O`` as well: ``CN=alice,OU=billing,O=example``.

        Raises:
            ValueError: it is something else.
        """
        if subject not in self._clients:
            parts = dict(part.strip().partition("=")[::2] for part in subject.split(","))
            if not parts.keys() <= _PARTS.keys() or not all(parts.values()):
                raise ValueError(f"client_certificate({subject!r}): write CN=…, or CN=…,OU=…,O=…")
            issued = self._ca.issue_cert(**{_PARTS[key]: value for key, value in parts.items()})
            number = len(self._clients)
            files = self._path(f"client-{number}.pem"), self._path(f"client-{number}.key")
            Path(files[0]).write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))
            issued.private_key_pem.write_to_path(files[1])
            Path(files[1]).chmod(0o600)
            self._clients[subject] = ClientCertificate(*files, self.cafile)
        return self._clients[subject]

    def _path(self, name: str) -> str:
        return str(Path(self._folder.name) / name)


@cache
def authority() -> Authority:
    """The authority of this process: to make one takes longer than to start a broker."""
    return Authority()
