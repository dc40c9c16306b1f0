"""TLS between the source and a cluster: options as librdkafka and Kafka's own clients name them, for files in PEM."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.clients.errors import OptionError

SECURITY_NAMES = (
    "kafka.security.protocol",
    "kafka.ssl.ca.location",
    "kafka.ssl.certificate.location",
    "kafka.ssl.endpoint.identification.algorithm",
    "kafka.ssl.key.location",
    "kafka.ssl.key.password",
    "kafka.ssl.truststore.location",
    "kafka.ssl.truststore.type",
)
SECURITY_PREFIXES = ("kafka.sasl.", "kafka.ssl.", "kafka.security.", "sasl.", "ssl.", "security.")


@dataclass(frozen=True, slots=True)
class Tls:
    """The settings of encrypted connections.

    Attributes:
        ca: a file with the certificates that are trusted; empty trusts those of the machine.
        certificate, key, password: what the source shows for itself, if brokers ask for it; ``key`` may be in the
            file of the certificate.
        check_host: whether the broker's certificate has to be of the address that is connected to.
    """

    ca: str = ""
    certificate: str = ""
    key: str = ""
    password: str = ""
    check_host: bool = True

    def context(self) -> ssl.SSLContext:
        """For connections.

        Raises:
            OptionError: a file cannot be read.
        """
        try:
            made = ssl.create_default_context(cafile=self.ca or None)
        except (OSError, ssl.SSLError) as error:
            raise OptionError(f"option 'kafka.ssl.ca.location' is {self.ca!r}: {_why(error)}") from None
        made.check_hostname = self.check_host
        if self.certificate:
            try:
                made.load_cert_chain(self.certificate, self.key or None, self.password or None)
            except (OSError, ssl.SSLError) as error:
                raise OptionError(
                    f"option 'kafka.ssl.certificate.location' is {self.certificate!r}: {_why(error)}"
                ) from None
        return made


def _why(error: OSError) -> str:
    """Describe the fault of a file."""
    if isinstance(error, ssl.SSLError):
        return "it cannot be read; allowed: a file in PEM, and the password of its key"
    return error.strerror or str(error)


def refuse_security(key: str) -> OptionError:
    """Why an option of security is not possible."""
    if ".sasl." in f".{key.lower()}":
        return OptionError(
            f"option {key!r} is not possible: the source speaks TLS, and no SASL. Read through a listener without it, "
            "or a copy of the log directory with option 'path'"
        )
    return OptionError(
        f"option {key!r} is not possible; for TLS there are {', '.join(SECURITY_NAMES)}, all of them for files in PEM"
    )


def parse_tls(options: Mapping[str, str]) -> Tls | None:
    """The settings of TLS among options; None for none.

    Raises:
        OptionError: it cannot be.
    """
    protocol = options.get("kafka.security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in ("PLAINTEXT", "SSL"):
        hint = "; the source speaks no SASL" if protocol.startswith("SASL") else ""
        raise OptionError(f"option 'kafka.security.protocol' is {protocol!r}; allowed: PLAINTEXT, SSL{hint}")
    given = [name for name in SECURITY_NAMES[1:] if name in options]
    if protocol == "PLAINTEXT":
        if given:
            raise OptionError(f"option {given[0]!r} is given without kafka.security.protocol=SSL")
        return None
    if options.get("kafka.ssl.truststore.type", "PEM").strip().upper() != "PEM" or (
        "kafka.ssl.truststore.location" in options and "kafka.ssl.truststore.type" not in options
    ):
        raise OptionError(
            "option 'kafka.ssl.truststore.location' needs 'kafka.ssl.truststore.type' PEM: the source reads no Java "
            "key stores; `keytool -exportcert -rfc` makes PEM of them"
        )
    algorithm = options.get("kafka.ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in ("https", "", "none"):
        raise OptionError(
            f"option 'kafka.ssl.endpoint.identification.algorithm' is {algorithm!r}; allowed: https, none, or nothing"
        )
    tls = Tls(
        options.get("kafka.ssl.ca.location") or options.get("kafka.ssl.truststore.location", ""),
        options.get("kafka.ssl.certificate.location", ""),
        options.get("kafka.ssl.key.location", ""),
        options.get("kafka.ssl.key.password", ""),
        algorithm == "https",
    )
    tls.context()
    return tls
