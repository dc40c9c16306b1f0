"""A secured broker beside that of a suite: SASL over TLS, certificates of clients, and sessions that end.

Programs find in their environment what `Secured.told` has. Their scenarios have the same names in every language:
``secured_scram``, ``secured_plain``, ``secured_oauthbearer`` and ``secured_mutual_tls`` write, read in a group that
commits, and are refused with something wrong; ``secured_reauthentication`` reads for longer than a session lasts.
"""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from ottla.testing import BrokerProcess
from ottla.testing.authority import authority
from ottla.testing.issuer import issuer
from ottla.testing.logins import PASSWORDS, Logins
from tests.differential.real_kafka import free_port
from tests.interop.suite import QUICK_CONSUMER_GROUPS, Result

LIFETIME_MS = 2_000
RENEWALS = 3
"""So often is the session of a client renewed that reads for ``SECURED_READING_MS``."""
SUBJECT = "CN=client"
LISTENERS = {"SAFE": "SASL_SSL", "MUTUAL": "SSL", "BRIEF": "SASL_SSL", "OPEN": "SASL_PLAINTEXT"}
"""MUTUAL asks for a certificate, sessions of BRIEF end, and OPEN is for tests of other projects that know no TLS."""
REFUSED = {"secured_scram": "SCRAM-SHA-512", "secured_plain": "PLAIN"}
"""Scenarios in which somebody fails by a mechanism. Who has a wrong token may go before he hears that he failed."""
[(USER, PASSWORD)] = PASSWORDS.items()


class Secured:
    """The broker while it runs.

    Attributes:
        told: what programs are told, by the name of the environment variable.
    """

    def __init__(self, broker: BrokerProcess, ports: Mapping[str, int]) -> None:
        self._broker = broker
        shown = authority().client(SUBJECT)
        now_s = int(time.time())
        self.told: Mapping[str, str] = {
            **{f"SECURED_{name}": f"127.0.0.1:{port}" for name, port in ports.items()},
            "SECURED_CA": shown.cafile,
            "SECURED_CERT": shown.certfile,
            "SECURED_KEY": shown.keyfile,
            "SECURED_USER": USER,
            "SECURED_PASSWORD": PASSWORD,
            "SECURED_TOKEN": issuer().token(USER, now_s, 3600, {}),
            "SECURED_WRONG_TOKEN": issuer().token(USER, now_s, 3600, {"aud": "somebody-else"}),
            "SECURED_READING_MS": str(LIFETIME_MS * (RENEWALS + 1)),
        }

    def judged(self, results: Iterable[Result]) -> Iterator[Result]:
        """The results; those of secured scenarios are held against what the broker has counted."""
        for result in results:
            wrong = self._wrong(result.test.rpartition(" ")[2]) if result.outcome == "passed" else ""
            yield replace(result, outcome="failed", reason=wrong) if wrong else result
        if "Traceback" in (log := self._broker.log_text()):
            at = log.index("Traceback")
            yield Result("(secured broker's log)", "failed", log[max(0, at - 1000) : at + 3000])

    def _wrong(self, scenario: str) -> str:
        if scenario in REFUSED and not self._counted("failed_authentications", "SAFE", REFUSED[scenario]):
            return "the broker has refused nobody"
        if scenario == "secured_reauthentication":
            renewed, killed = (
                self._counted(what, "BRIEF", "SCRAM-SHA-512")
                for what in ("successful_reauthentications", "expired_connections_killed")
            )
            if renewed < RENEWALS or killed:
                return f"{renewed} sessions were renewed and {killed} ended with their connections"
        return ""

    def _counted(self, what: str, listener: str, mechanism: str) -> int:
        with urllib.request.urlopen(f"{self._broker.http_url}/metrics", timeout=10) as answer:
            page = answer.read().decode()
        told = rf'^ottla_{what}_total{{listener="{listener}",mechanism="{mechanism}"}} (\d+)'
        return sum(map(int, re.findall(told, page, re.MULTILINE)))


@contextmanager
def secured(plain: Mapping[str, str] = PASSWORDS) -> Iterator[Secured]:
    """Start it; with access rules, by which nobody but the user and the owner of the certificate may do anything.

    Args:
        plain: passwords by user of PLAIN.
    """
    ports = {name: free_port() for name in LISTENERS}
    settings: dict[str, object] = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
        **Logins("PLAIN", plain).settings(),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN,OAUTHBEARER",
        "listener.name.brief.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.brief.connections.max.reauth.ms": LIFETIME_MS,
        **issuer().settings(),
        "ssl.keystore.location": authority().serverfile,
        "ssl.truststore.location": authority().cafile,
        "listener.name.mutual.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{USER};User:{SUBJECT};User:console",
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 500,
        **QUICK_CONSUMER_GROUPS,
    }
    user = ("--add-scram", f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]")
    with BrokerProcess(settings=settings, http=True, arguments=user) as broker:
        yield Secured(broker, ports)
