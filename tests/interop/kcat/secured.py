"""Scenarios with a broker that asks who comes; `tests.interop.secured` starts it and tells where it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from tests.interop.kcat.scenarios import create
from tests.interop.suite import NotHere
from tests.support.clients.kcat import Kcat
from tests.support.waiting import wait_for

Told = Mapping[str, str]


def sasl(told: Told, mechanism: str, *, wrong: bool = False) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": told["SECURED_CA"],
        "sasl.mechanism": mechanism,
        "sasl.username": told["SECURED_USER"],
        "sasl.password": "wrong" if wrong else told["SECURED_PASSWORD"],
    }


def mutual_tls(told: Told, *, wrong: bool = False) -> dict[str, str]:
    shown = {"ssl.certificate.location": told["SECURED_CERT"], "ssl.key.location": told["SECURED_KEY"]}
    return {"security.protocol": "SSL", "ssl.ca.location": told["SECURED_CA"], **({} if wrong else shown)}


def ways(
    kcat: Kcat, topic: str, told: Told, *, listener: str, settings: Callable[..., dict[str, str]], refusal: str
) -> None:
    """Write, read in a group that commits, have another member go on from there; and be refused."""

    def there(*, wrong: bool = False) -> Kcat:
        return Kcat(told[f"SECURED_{listener}"], kcat.closing, kcat.libraries, settings(told, wrong=wrong))

    create(there(), topic)
    for number in range(2):
        lines = [f"{number} {one}" for one in range(20)]
        there()("-P", "-t", topic, "-p", "0", stdin="\n".join(lines))
        member = there().member(topic, topic)
        wait_for(lambda: member.values == lines, f"what was written: {number}", show=lambda: member.notes)  # noqa: B023
        member.stop()
    assert refusal in there(wrong=True)("-L", fails=True)


def oauthbearer(kcat: Kcat, topic: str, told: Told) -> None:
    raise NotHere("kcat has no option for a token: it makes some that are not signed, or fetches them by HTTP")


def reauthentication(kcat: Kcat, topic: str, told: Told) -> None:
    """Read for some lifetimes of a session: it is renewed each time, and nothing is lost or comes twice."""
    there = Kcat(told["SECURED_BRIEF"], kcat.closing, kcat.libraries, sasl(told, "SCRAM-SHA-512"))
    create(there, topic)
    member = there.member(topic, topic)
    lines: list[str] = []
    end = time.monotonic() + int(told["SECURED_READING_MS"]) / 1000
    while time.monotonic() < end:
        more = [f"line {len(lines) + one}" for one in range(10)]
        there("-P", "-t", topic, "-p", "0", stdin="\n".join(more))
        lines += more
    wait_for(lambda: len(member.values) >= len(lines), "everything to be read", show=lambda: member.notes)
    member.stop()
    assert member.values == lines


_PASSWORDS = {"listener": "SAFE", "refusal": "Authentication failed"}
SECURED: dict[str, Callable[..., None]] = {
    "secured_scram": partial(ways, settings=partial(sasl, mechanism="SCRAM-SHA-512"), **_PASSWORDS),
    "secured_plain": partial(ways, settings=partial(sasl, mechanism="PLAIN"), **_PASSWORDS),
    "secured_oauthbearer": oauthbearer,
    "secured_mutual_tls": partial(ways, listener="MUTUAL", settings=mutual_tls, refusal="alert certificate required"),
    "secured_reauthentication": reauthentication,
}
