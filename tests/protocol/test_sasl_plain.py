"""PLAIN, both ends: what each form of the one message is answered."""

from __future__ import annotations

import pytest

from ottla.protocol.sasl.exchange import AuthenticationFailed, Derivation
from ottla.protocol.sasl.plain import PlainClient, PlainServer

USERS = {"alice": "alice-secret", "jürgen": "geheim\N{REPLACEMENT CHARACTER}", "bob": "pass word"}
WRONG = "Authentication failed: Invalid username or password"


def server() -> PlainServer:
    return PlainServer(lambda user, password: USERS.get(user) == password, lambda *_: False)


def told(token: bytes) -> str:
    theirs = server()
    with pytest.raises(AuthenticationFailed) as raised:
        theirs.take(token)
    assert not theirs.is_complete
    assert "secret" not in f"{raised.value} {raised.value.reason}"
    return raised.value.told


@pytest.mark.parametrize("name", USERS)
def test_who_knows_the_password_is_let_in(name: str) -> None:
    ours, theirs = PlainClient(name, USERS[name]), server()
    challenge = theirs.take(ours.first())
    assert challenge == b"" and ours.answer(challenge) is None
    assert theirs.is_complete and (theirs.name, theirs.ends_ms) == (name, None)


@pytest.mark.parametrize(
    "token, words",
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0alice-secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0alice-secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0other-secret", WRONG),
        (b"\0carol\0alice-secret", WRONG),
        (b"bob\0alice\0other-secret", WRONG),
        (b"\0alice\0alice-secret\xff", WRONG),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_words_for_what_is_wrong(token: bytes, words: str) -> None:
    assert told(token) == words


def test_bytes_that_are_no_text_match_as_in_java() -> None:
    theirs = server()
    assert theirs.take("\0jürgen\0geheim".encode() + b"\xff") == b""
    assert theirs.is_complete


def test_the_own_name_may_be_the_authorization_id() -> None:
    theirs = server()
    theirs.take(b"alice\0alice\0alice-secret")
    assert theirs.is_complete


@pytest.mark.parametrize("salted, complete", [(b"right", True), (b"wrong", False)])
def test_a_check_may_take_a_thread(salted: bytes, complete: bool) -> None:
    def check(user: str, password: str) -> Derivation:
        return lambda: salted

    theirs = PlainServer(check, lambda user, password, result: (user, password, result) == ("alice", "x", b"right"))
    derive = theirs.take(b"\0alice\0x")
    assert callable(derive) and not theirs.is_complete
    if complete:
        assert theirs.resume(derive()) == b""
    else:
        with pytest.raises(AuthenticationFailed, match="the password is wrong, or nobody has the name"):
            theirs.resume(derive())
    assert theirs.is_complete is complete
