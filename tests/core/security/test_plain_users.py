"""Users of PLAIN: passwords as they are, passwords as SCRAM keeps them, and lines of text."""

from __future__ import annotations

import hmac

import pytest

from ottla.broker.core.security.plain_users import MOST_REMEMBERED, REMEMBERED_MS, PlainUsers, users_of_jaas
from ottla.broker.core.security.scram import Credentials
from ottla.broker.core.security.users_file import BadUsersFile, parse_users, user_line
from ottla.protocol.sasl.jaas import BadJaas
from ottla.protocol.sasl.scram import Credential, Mechanism, credential_of, salted_password

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
CHANCE = bytes(range(32))


def kept(password: str, mechanism: Mechanism = SHA_256, salt: bytes = b"salt", iterations: int = 4096) -> Credential:
    return credential_of(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


HASHED: Credentials = {("bob", SHA_256): kept("bob-secret"), ("carol", SHA_512): kept("carol-secret", SHA_512)}


def let_in(users: PlainUsers, user: str, password: str, now_ms: int = 0) -> tuple[bool, bool]:
    """Whether the user is let in, and whether that took a derivation."""
    verdict = users.check(user, password, now_ms)
    if isinstance(verdict, bool):
        return verdict, False
    return users.settle(user, password, verdict(), now_ms), True


@pytest.mark.parametrize(
    "user, password, outcome",
    [
        ("alice", "alice-secret", True),
        ("alice", "alice-secret ", False),
        ("alice", "", False),
        ("Alice", "alice-secret", False),
        ("nobody", "alice-secret", False),
    ],
)
def test_passwords_that_are_known(user: str, password: str, outcome: bool) -> None:
    assert let_in(PlainUsers({"alice": "alice-secret"}, {}, CHANCE), user, password) == (outcome, False)


@pytest.mark.parametrize(
    "user, password, outcome",
    [
        ("bob", "bob-secret", True),
        ("carol", "carol-secret", True),
        ("bob", "carol-secret", False),
        ("nobody", "bob-secret", False),
    ],
)
def test_passwords_that_are_derived(user: str, password: str, outcome: bool) -> None:
    assert let_in(PlainUsers({}, HASHED, CHANCE), user, password) == (outcome, True)


def test_an_unknown_user_costs_a_derivation_too() -> None:
    users = PlainUsers({"alice": "alice-secret"}, HASHED, CHANCE)
    assert let_in(users, "nobody", "x") == (False, True)
    assert let_in(users, "alice", "alice-secret") == (True, False)
    assert let_in(users, "alice", "x") == (False, True)


def test_who_has_a_password_is_not_let_in_by_the_one_of_the_file() -> None:
    users = PlainUsers({"bob": "another"}, HASHED, CHANCE)
    assert let_in(users, "bob", "bob-secret") == (False, True)
    assert let_in(users, "bob", "another") == (True, False)


def test_what_succeeded_is_remembered_for_a_minute() -> None:
    users = PlainUsers({}, HASHED, CHANCE)
    assert let_in(users, "bob", "wrong", 0) == (False, True)
    assert let_in(users, "bob", "wrong", 1) == (False, True)
    assert let_in(users, "bob", "bob-secret", 1000) == (True, True)
    assert let_in(users, "bob", "bob-secret", 1000 + REMEMBERED_MS - 1) == (True, False)
    assert let_in(users, "bob", "bob-secrets", 1000) == (False, True)
    assert let_in(users, "bob", "bob-secret", 1000 + REMEMBERED_MS) == (True, True)


def test_what_is_remembered_is_of_one_user() -> None:
    """A name that begins as the password ends is another one's."""
    users = PlainUsers({}, HASHED, CHANCE)
    assert let_in(users, "bob", "bob-secret") == (True, True)
    for user, password in [
        ("bobbob", "-secret"),
        ("bo", "bbob-secret"),
        ("carol", "bob-secret"),
        ("bobb", "ob-secret"),
    ]:
        assert let_in(users, user, password) == (False, True)


def test_a_bounded_number_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.core.security.plain_users.MOST_REMEMBERED", 1)
    assert MOST_REMEMBERED > 1
    users = PlainUsers({}, HASHED, CHANCE)
    assert let_in(users, "bob", "bob-secret") == (True, True)
    assert let_in(users, "carol", "carol-secret") == (True, True)
    assert let_in(users, "carol", "carol-secret") == (True, False)
    assert let_in(users, "bob", "bob-secret") == (True, True)


def test_passwords_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((len(a), len(b))) or compare(a, b))
    users = PlainUsers({"alice": "alice-secret"}, {}, CHANCE)
    for user, password in [("alice", "alice-secret"), ("alice", "x"), ("nobody", "x")]:
        users.check(user, password, 0)
    assert compared == [(32, 32)] * 3


def test_users_of_a_login_module() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    text = f'{module} username="admin" password="x" user_alice="alice-secret" user_="odd";'
    assert users_of_jaas(text) == {"alice": "alice-secret", "": "odd"}
    assert users_of_jaas(" ") == {}
    with pytest.raises(BadJaas, match="ScramLoginModule"):
        users_of_jaas("org.apache.kafka.common.security.scram.ScramLoginModule required;")


def test_lines_come_back() -> None:
    credentials = {
        ("alice", SHA_256): kept("a"),
        ("a:b,c=d $ü", SHA_512): kept("b", SHA_512, b"\0" * 33, 16_384),
        ("alice", SHA_512): kept("a", SHA_512),
    }
    lines = [user_line(user, mechanism, one) for (user, mechanism), one in credentials.items()]
    assert lines[0].startswith("alice:SCRAM-SHA-256$4096:c2FsdA==$")
    assert parse_users("# users\n\n" + "\r\n".join(lines)) == credentials


GOOD = user_line("alice", SHA_256, kept("a"))


@pytest.mark.parametrize(
    "line, words",
    [
        ("alice", "line 2: write what"),
        ("alice:secret", "line 2: write what"),
        (GOOD.replace("SHA-256", "SHA-1"), "line 2: write what"),
        (GOOD.replace("4096", "4095"), "4095 iterations"),
        (GOOD.replace("4096", "16385"), "16385 iterations"),
        (GOOD.replace("SHA-256", "SHA-512"), "64 bytes"),
        (GOOD.replace("$4096:c2FsdA==", "$4096:c2FsdA="), "not in Base64"),
        (f"{GOOD}\n{GOOD}", "line 3: the user has a line"),
    ],
)
def test_lines_that_cannot_be_read_are_named_and_not_shown(line: str, words: str) -> None:
    with pytest.raises(BadUsersFile, match=words) as raised:
        parse_users(f"# users\n{line}")
    assert "secret" not in str(raised.value) and "c2Fs" not in str(raised.value)
