"""Names that are somebody's and names that are nobody's, right passwords and wrong ones: they cost the same.

Time is not measured here: what takes it is counted, which is HMACs, hashes that are salted, and comparisons.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from ottla.broker.core.security.plain_users import PlainUsers
from ottla.broker.core.security.scram import Credentials, Lookup
from ottla.protocol.sasl.exchange import AuthenticationFailed
from ottla.protocol.sasl.plain import PlainServer
from ottla.protocol.sasl.scram import Credential, Mechanism, ScramClient, ScramServer, credential_of, salted_password

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
SALT = b"salt of sixteen."
CHANCE = bytes(range(32))
USERS = ["alice", "nobody", "a", "n" * 200, "old"]
PASSWORDS = ["alice-secret", "x", "y" * 300]


class Costs(Counter[str]):
    """What is counted: HMACs, comparisons with their lengths; and iterations of salted hashes by their name."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.iterations: Counter[str] = Counter()
        digest, compare, salt = hmac.digest, hmac.compare_digest, hashlib.pbkdf2_hmac

        def digested(key: bytes, message: bytes, how: Any) -> bytes:
            self["HMAC"] += 1
            return digest(key, message, how)

        def compared(one: bytes, other: bytes) -> bool:
            self[f"comparison of {len(one)} with {len(other)}"] += 1
            return compare(one, other)

        def salted(name: str, password: bytes, salt_: bytes, iterations: int) -> bytes:
            self.iterations[name] += iterations
            return salt(name, password, salt_, iterations)

        patch.setattr(hmac, "digest", digested)
        patch.setattr(hmac, "compare_digest", compared)
        patch.setattr(hashlib, "pbkdf2_hmac", salted)

    def of(self, work: Callable[[], object]) -> dict[str, int]:
        """Of something that ends well, or with wrong credentials."""
        self.clear()
        self.iterations.clear()
        with suppress(AuthenticationFailed):
            work()
        return dict(self)


def kept(password: str, iterations: int = 4096, mechanism: Mechanism = SHA_512) -> Credential:
    return credential_of(mechanism, salted_password(mechanism, password, SALT, iterations), SALT, iterations)


def credentials() -> Credentials:
    return {("alice", SHA_512): kept("alice-secret"), ("bob", SHA_512): kept("bob"), ("old", SHA_512): kept("x", 4095)}


def test_scram_costs_the_same_for_every_name_and_password(monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = Lookup(credentials(), SHA_512, b"of the broker")
    costs = Costs(monkeypatch)

    def first_of(user: str) -> dict[str, int]:
        server = ScramServer(SHA_512, lookup, "nonce")
        return costs.of(lambda: server.take(f"n,,n={user},r=abc".encode()))

    def last_of(user: str, password: str) -> tuple[dict[str, int], bool]:
        server, client = ScramServer(SHA_512, lookup, "nonce"), ScramClient(SHA_512, user, password, "abc")
        final = client.answer(server.take(client.first()))
        assert final is not None
        return costs.of(lambda: server.take(final)), server.is_complete

    assert [first_of(user) for user in USERS] == [{"HMAC": 3}] * len(USERS)
    for user in USERS:
        for password in PASSWORDS:
            cost, is_in = last_of(user, password)
            # The signature of the broker is made for those alone who are let in.
            assert is_in is ((user, password) == ("alice", "alice-secret"))
            assert cost == {"HMAC": 1 + is_in, "comparison of 64 with 64": 1}, (user, password)


def test_plain_costs_the_same_where_passwords_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    users = PlainUsers({"alice": "alice-secret", "old": "z"}, {}, CHANCE)
    costs = Costs(monkeypatch)
    for user in USERS:
        for password in PASSWORDS:
            cost = costs.of(lambda user=user, password=password: users.check(user, password, 0))  # type: ignore[misc]
            assert cost == {"comparison of 32 with 32": 1}, (user, password)


def test_plain_costs_the_same_where_passwords_are_salted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a file have their own mechanisms and iterations, and others have a password in the settings besides."""
    hashed = {
        ("alice", SHA_512): kept("alice-secret"),
        ("a", SHA_512): kept("z", 8192),
        ("old", SHA_256): kept("z", 5000, SHA_256),
        ("n" * 200, SHA_256): kept("z", 4096, SHA_256),
    }
    users = PlainUsers({"jaas": "jaas-secret"}, hashed, CHANCE)
    costs = Costs(monkeypatch)

    def log_in(user: str, password: str) -> Callable[[], None]:
        def work() -> None:
            server = PlainServer(
                lambda name, shown: users.check(name, shown, 0),
                lambda name, shown, fits: users.settle(name, shown, fits, 0),
            )
            derive = server.take(f"\0{user}\0{password}".encode())
            if callable(derive):
                server.resume(derive())

        return work

    for user in [*USERS, "jaas"]:
        for password in [*PASSWORDS, "jaas-secret"]:
            cost = costs.of(log_in(user, password))
            if (user, password) == ("jaas", "jaas-secret"):
                assert cost == {"comparison of 32 with 32": 1}
            elif (user, password) == ("alice", "alice-secret"):  # which is remembered, by one HMAC more
                assert costs.iterations == {"sha512": 4096} and cost["HMAC"] == 4
            else:
                assert costs.iterations == {"sha512": 8192, "sha256": 5000}, (user, password)
                compared = sum(count for what, count in cost.items() if what.startswith("comparison"))
                assert (cost["HMAC"], compared) == (3, 2), (user, password)


def test_iterations_of_the_client_do_not_depend_on_the_name() -> None:
    """What the broker says of a name that is nobody's makes its client work as hard as that of a user."""
    lookup = Lookup(credentials(), SHA_512, b"of the broker")
    told = {user: lookup(user).credential for user in USERS}
    assert {(one.iterations, len(one.salt)) for one in told.values()} == {(4096, 16)}
