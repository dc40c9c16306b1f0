"""What ``--secure`` adds to the demo: TLS, users with passwords, and rules that say what each of them may do."""

from __future__ import annotations

import os
import secrets
import ssl
from pathlib import Path
from typing import Any

from ottla.clients.properties import security_options
from ottla.testing.authority import Authority

MECHANISM = "SCRAM-SHA-512"
OPERATOR, SENDER, READER, GUEST = "operator", "sender", "reader", "guest"
"""The users: who may do everything, who may produce, who may consume, and who may log in and do nothing."""
AUDIT_FILE = "audit.jsonl"


class Security:
    """The certificate of the broker, its users and its rules, as files for processes of any kind of client.

    Args:
        directory: for all of it but the certificates, which are gone when the demo ends.

    Attributes:
        audit: the file in which the broker writes down who did what.
    """

    def __init__(self, directory: Path) -> None:
        self._authority = Authority()
        self._directory = directory / "security"
        self._directory.mkdir(parents=True, mode=0o700)
        self.audit = directory / AUDIT_FILE
        self.properties = {name: self._user(name) for name in (OPERATOR, SENDER, READER, GUEST)}

    def _user(self, name: str) -> Path:
        """A new password for a user, in a file of client properties under librdkafka's names."""
        password = secrets.token_hex(16)
        self.write(f"{name}.password", password)
        lines = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self._authority.cafile,
            "sasl.mechanism": MECHANISM,
            "sasl.username": name,
            "sasl.password": password,
        }
        return self.write(f"{name}.properties", "".join(f"{key}={value}\n" for key, value in lines.items()))

    def write(self, name: str, text: str) -> Path:
        """Write a file that its owner alone may read."""
        path = self._directory / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        return path

    def password_file(self, name: str) -> Path:
        return self._directory / f"{name}.password"

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings of the broker."""
        return (
            f"ssl.keystore.location={self._authority.serverfile}",
            f"sasl.enabled.mechanisms={MECHANISM}",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            f"super.users=User:{OPERATOR}",
            f"ottla.audit.file={self.audit}",
        )

    def rules(self, topic: str, group: str) -> list[list[str]]:
        """The commands that say who may do what, without ``ottla``."""
        return [
            ["acls", "add", "--allow-principal", f"User:{SENDER}", "--producer", "--topic", topic],
            ["acls", "add", "--allow-principal", f"User:{READER}", "--consumer", "--topic", topic, "--group", group],
        ]


def properties(path: Path | None) -> dict[str, str]:
    """The lines of a file of client properties; none if there is no file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path is not None else []
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def asyncio_options(path: Path | None, kind: str = "ottla") -> dict[str, Any]:
    """The same as arguments of the included client, or of aiokafka, which takes a context for TLS."""
    options = security_options(properties(path))
    if kind != "ottla" and "ssl_cafile" in options:
        options["ssl_context"] = ssl.create_default_context(cafile=options.pop("ssl_cafile"))
    return options


def config_file() -> Path | None:
    """The file of client properties of this process, as the demo has named it."""
    named = os.environ.get("OTTLA_COMMAND_CONFIG")
    return Path(named) if named else None
