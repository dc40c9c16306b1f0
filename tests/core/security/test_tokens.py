"""Tokens of OAUTHBEARER: which are valid. PyJWT signs them."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest

from ottla.broker.core.security.tokens import ALGORITHMS, BadKeys, Rules, UnknownKey, parse_keys, verify
from ottla.protocol.sasl.oauthbearer import Claims, InvalidToken
from tests.core.security.issuer_keys import CLAIMS, NOW_MS, NOW_S, jwk, jwks, private, token

KEY = private("ES256")
KEYS = parse_keys(jwks(jwk(KEY, kid="one")))
RULES = Rules(audiences=("ottla", "other"), issuer="https://issuer")
NAMED = {"kid": "one"}


def why(text: str, rules: Rules = RULES, keys: Any = KEYS) -> str:
    with pytest.raises(InvalidToken) as raised:
        verify(text, keys, rules, NOW_MS)
    assert not any(part in str(raised.value) for part in text.split(".") if part)
    return str(raised.value)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("headers", [{"kid": "one"}, {}])
def test_every_algorithm(algorithm: str, headers: dict[str, str]) -> None:
    key = private(algorithm)
    others = [jwk(private(other), kid=other) for other in ("RS256", "ES256", "EdDSA") if other != algorithm]
    keys = parse_keys(jwks(*others, jwk(key, kid="one")))
    assert verify(token(key, algorithm, headers), keys, RULES, NOW_MS) == Claims("alice", (NOW_S + 600) * 1000)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW_S - 29},
        {"iat": NOW_S + 30, "nbf": NOW_S + 30},
        {"nbf": NOW_S - 5},
        {"exp": NOW_S + 0.5},
        {"aud": ["else", "other"]},
        {"scope": "read write"},
        {"scope": ["read", "write"]},
        {"scope": []},
        {"scope": None},
        {"scope": 7},
    ],
)
def test_valid_claims(claims: dict[str, Any]) -> None:
    named, ends_ms = verify(token(KEY, **claims), KEYS, RULES, NOW_MS)
    assert (named, ends_ms) == ("alice", int((CLAIMS | claims)["exp"] * 1000))


@pytest.mark.parametrize(
    "claims, words",
    [
        ({"exp": NOW_S - 30}, "has ended"),
        ({"exp": NOW_S - 31}, "has ended"),
        ({"exp": None}, "does not say when"),
        ({"iat": None}, "does not say when"),
        ({"iat": NOW_S + 31}, "of the future"),
        ({"nbf": NOW_S + 31}, "of the future"),
        ({"exp": str(NOW_S + 600)}, "no time"),
        ({"exp": True}, "no time"),
        ({"exp": 1e300}, "no time"),
        ({"iss": "https://issuer/"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "else"}, "another audience"),
        ({"aud": ["else"]}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"sub": None}, "'sub' names nobody"),
        ({"sub": " "}, "'sub' names nobody"),
        ({"sub": 7}, "'sub' names nobody"),
        ({"scope": ""}, "no scope"),
        ({"scope": ["read", " "]}, "no scope"),
        ({"scope": ["read", 7]}, "no scope"),
        ({"scope": ["read", "read"]}, "twice"),
    ],
)
def test_claims_that_are_not_accepted(claims: dict[str, Any], words: str) -> None:
    assert words in why(token(KEY, **claims))


@pytest.mark.parametrize(
    "text, shown",
    [
        (token(KEY, headers=NAMED, exp=NOW_S - 60), {"kid": "one", "sub": "alice"}),
        (token(KEY, headers=NAMED, sub=" "), {"kid": "one", "sub": " "}),
        (token(KEY, exp=NOW_S - 60), {"sub": "alice"}),
        (token(private("ES256", 1), headers=NAMED), {"kid": "one"}),
        (token(KEY, headers={"kid": "two"}), {"kid": "two"}),
        (token(KEY, headers={"kid": "x" * 5000}), {"kid": "x" * 1000}),
        (token(private("ES256", 1)), {}),
    ],
)
def test_what_the_log_may_have_of_a_token_that_is_not_valid(text: str, shown: dict[str, str]) -> None:
    """Whose it is only if a key of the issuer has signed it."""
    with pytest.raises(InvalidToken) as raised:
        verify(text, KEYS, RULES, NOW_MS)
    assert raised.value.shown == shown


def test_rules_may_ask_for_less_and_for_other_claims() -> None:
    rules = Rules(skew_seconds=0, scope_claim="roles", name_claim="client")
    text = token(KEY, iss=None, aud=None, sub=None, scope="", roles=["a"], client="svc")
    assert verify(text, KEYS, rules, NOW_MS).name == "svc"
    assert "has ended" in why(token(KEY, client="svc", exp=NOW_S), rules)


def signed(header: dict[str, Any], secret: bytes | None = None) -> str:
    """A token that PyJWT would not make: signed with a secret, or not at all."""

    def encoded(part: bytes) -> str:
        return base64.urlsafe_b64encode(part).decode().rstrip("=")

    text = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(CLAIMS).encode())}"
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), 'sha256') if secret else b'')}"


def test_algorithms_are_not_taken_from_the_token() -> None:
    assert "algorithm" in why(signed({"alg": "none", "kid": "one"}))
    assert "algorithm" in why(signed({"alg": "None"}))
    assert "algorithm" in why(signed({"kid": "one"}))
    # Signed with what everybody knows: the bytes of the public key.
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert "algorithm" in why(signed({"alg": "HS256", "kid": "one"}, public))
    # A key is for the algorithm of its type, its curve, and its own `alg`.
    assert "fitting key" in why(token(private("RS256"), "RS256", NAMED))
    assert "fitting key" in why(token(private("ES384"), "ES384", NAMED))
    rsa = private("RS256")
    only = parse_keys(jwks(jwk(rsa, kid="one", alg="RS256")))
    assert verify(token(rsa, "RS256"), only, RULES, NOW_MS).name == "alice"
    assert "fitting key" in why(token(rsa, "PS256"), keys=only)


def test_other_signatures() -> None:
    good = token(KEY)
    header, payload, signature = good.split(".")
    assert "fitting key" in why(token(private("ES256", 1), headers=NAMED))
    assert "fitting key" in why(f"{header}.{token(KEY, sub='admin').split('.')[1]}.{signature}")
    assert "fitting key" in why(f"{header}.{payload}.")
    assert "header" in why(f"x.{payload}.{signature}")
    assert "header" in why(token(KEY, headers={"crit": ["exp"], "exp": 1}))
    assert "header" in why(signed({"alg": "ES256", "b64": False}))
    assert "wants what is not there" in why(signed({"alg": "ES256", "crit": ["b64"], "b64": True}))


@pytest.mark.parametrize("kid", ["../../etc/passwd", "two", "x" * 1000])
def test_a_key_that_is_not_known(kid: str) -> None:
    with pytest.raises(UnknownKey) as raised:
        verify(token(KEY, headers={"kid": kid}), KEYS, RULES, NOW_MS)
    assert raised.value.shown == {"kid": kid}


def test_the_id_of_a_key_is_bounded() -> None:
    with pytest.raises(InvalidToken) as raised:
        verify(token(KEY, headers={"kid": "x" * 1001}), KEYS, RULES, NOW_MS)
    assert not isinstance(raised.value, UnknownKey)


def test_eight_keys_are_tried_for_a_token_that_names_none() -> None:
    rows = [jwk(private("ES256", number), kid=str(number)) for number in range(1, 10)]
    keys = parse_keys(jwks(*rows))
    assert verify(token(private("ES256", 8)), keys, RULES, NOW_MS).name == "alice"
    assert "fitting key" in why(token(private("ES256", 9)), keys=keys)


def test_without_keys_nothing_is_valid() -> None:
    assert "no keys" in why(token(KEY), keys=())


def test_keys_that_are_of_no_use_are_left_out() -> None:
    good = jwk(KEY, kid="one")
    rows: list[Any] = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "hmac"},
        jwk(private("RS256"), kid="encryption", use="enc"),
        jwk(private("RS256"), kid="other", alg="RSA-OAEP"),
        jwk(private("RS256"), kid="wrapping", key_ops=["wrapKey"]),
        good | {"kid": "off the curve", "x": good["y"]},
        {"kty": "EC", "kid": "halved"},
        good | {"kid": 7},
        good,
    ]
    assert [key.kid for key in parse_keys(jwks(*rows))] == ["one"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"keys": 7}',
        '{"keys": [7]}',
        '{"keys": []}',
        '{"keys": [{"kty": "oct", "k": "c2Vj"}]}',
        "[" * 9999,
    ],
)
def test_texts_that_are_no_keys(text: str) -> None:
    with pytest.raises(BadKeys):
        parse_keys(text)
