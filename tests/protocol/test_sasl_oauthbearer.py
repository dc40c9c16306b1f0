"""OAUTHBEARER, both ends: the first message, and what is said of a token that is not accepted."""

from __future__ import annotations

import json

import pytest

from ottla.protocol.sasl.exchange import AuthenticationFailed
from ottla.protocol.sasl.oauthbearer import Claims, InvalidToken, OAuthBearerClient, OAuthBearerServer

TOKEN = "eyJh.eyJz.c2ln-_"
INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"


def verify(token: str) -> Claims:
    if token != TOKEN:
        raise InvalidToken("it is another")
    return Claims("alice", 1_700_000_000_000)


def test_who_shows_a_token_is_let_in() -> None:
    ours, theirs = OAuthBearerClient(TOKEN), OAuthBearerServer(verify)
    assert ours.first() == b"n,,\1auth=Bearer eyJh.eyJz.c2ln-_\1\1"
    assert theirs.take(ours.first()) == b"" and ours.answer(b"") is None
    assert theirs.is_complete
    assert (theirs.name, theirs.ends_ms) == ("alice", 1_700_000_000_000)


@pytest.mark.parametrize(
    "first",
    [
        b"n,a=alice,\1auth=bearer  eyJh.eyJz.c2ln-_\1\1",
        b"n,,\1host=example.org\1auth=BEARER eyJh.eyJz.c2ln-_\1port=143\1\1",
    ],
)
def test_first_messages(first: bytes) -> None:
    theirs = OAuthBearerServer(verify)
    assert theirs.take(first) == b""
    assert theirs.is_complete


def test_a_client_sends_extensions() -> None:
    ours = OAuthBearerClient(TOKEN, {"logicalCluster": "lkc-1", "pool": "a=b c"}, "al,ice")
    assert ours.first() == b"n,a=al=2Cice,\1auth=Bearer eyJh.eyJz.c2ln-_\1logicalCluster=lkc-1\1pool=a=b c\1\1"


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\1",
        b"y,,\1auth=Bearer eyJh.eyJz.c2ln-_\1\1",
        b"n,,auth=Bearer eyJh.eyJz.c2ln-_\1\1",
        b"n,,\1auth=Bearer eyJh.eyJz.c2ln-_\1",
        b"n,,\1auth=Basic eyJh.eyJz.c2ln-_\1\1",
        b"n,,\1auth=Bearer\1\1",
        b"n,,\1auth=Bearer eyJh.eyJz.c2ln!\1\1",
        b"n,,\1auth=Bearer eyJh.eyJz.c2ln-_\1auth=Bearer eyJh.eyJz.c2ln-_\1\1",
        b"n,,\1au2h=Bearer eyJh.eyJz.c2ln-_\1\1",
        b"n,a=al=ice,\1auth=Bearer eyJh.eyJz.c2ln-_\1\1",
        b"n,,\1auth=Bearer \xff.a.b\1\1",
    ],
)
def test_first_messages_that_are_none(first: bytes) -> None:
    with pytest.raises(AuthenticationFailed) as raised:
        OAuthBearerServer(verify).take(first)
    assert raised.value.told == INVALID


@pytest.mark.parametrize(
    "token", ["eyJh.eyJz.other", "eyJh.eyJz.c2ln+/=", "eyJh.eyJz", "a.b.c.d", "a.b." + "c" * 16_384]
)
@pytest.mark.parametrize("then", [b"\1", b"", b"n,,\1auth=Bearer eyJh.eyJz.c2ln-_\1\1"])
def test_an_invalid_token_is_told_of_twice(token: str, then: bytes) -> None:
    """First as a challenge, and then as the error: whatever the client says to the challenge."""
    ours, theirs = OAuthBearerClient(token), OAuthBearerServer(verify)
    challenge = theirs.take(ours.first())
    assert json.loads(challenge) == {"status": "invalid_token"} and not theirs.is_complete
    assert ours.answer(challenge) == b"\1"
    with pytest.raises(AuthenticationFailed) as raised:
        theirs.take(then)
    assert raised.value.told == challenge.decode()
    assert token not in raised.value.reason and not theirs.is_complete


def test_an_authorization_id_is_the_tokens_name() -> None:
    theirs = OAuthBearerServer(verify)
    with pytest.raises(AuthenticationFailed, match="different from the token's principal name"):
        theirs.take(b"n,a=bob,\1auth=Bearer eyJh.eyJz.c2ln-_\1\1")


@pytest.mark.parametrize(
    "token, extensions, words",
    [
        ("", {}, "the token"),
        ("secret\1auth=x", {}, "the token"),
        (TOKEN, {"auth": "secret"}, "'auth'"),
        (TOKEN, {"a1": "secret"}, "'a1'"),
        (TOKEN, {"pool": "secret\1"}, "'pool'"),
    ],
)
def test_what_cannot_be_sent_is_named_and_not_shown(token: str, extensions: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        OAuthBearerClient(token, extensions)
    assert "secret" not in str(raised.value)
