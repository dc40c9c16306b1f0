"""Tokens of OAUTHBEARER: whether one is signed by a known key, and says what it has to (KIP-768).

PyJWT checks signatures, with the algorithms that are listed here; what a token says is checked here, as time is an
argument. Both PyJWT and what it needs come with the extra ``oauth``, and are imported when there are keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.protocol.sasl.oauthbearer import Claims, InvalidToken

if TYPE_CHECKING:
    import jwt

ALGORITHMS: Mapping[str, tuple[str, str]] = {
    "RS256": ("RSA", ""), "RS384": ("RSA", ""), "RS512": ("RSA", ""),
    "PS256": ("RSA", ""), "PS384": ("RSA", ""), "PS512": ("RSA", ""),
    "ES256": ("EC", "P-256"), "ES384": ("EC", "P-384"), "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", ""),
}  # fmt: skip
"""The type of key for each, and its curve. Never none, nor what is signed with a key that both sides have."""
_PUBLIC = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
MAX_KID_LENGTH = 1000
MOST_TRIED = 8
"""So many keys are tried for a token that names none."""


class UnknownKey(InvalidToken):
    """A token is signed by a key that is not known (any more, or yet)."""


class BadKeys(ValueError):
    """A text that is no set of keys."""


class Key(NamedTuple):
    """A public key of an issuer.

    Attributes:
        kid: its id, maybe empty.
        kind, curve: as in `ALGORITHMS`.
        algorithm: the only one that it is for; empty for any.
        public: the key itself, as PyJWT takes it.
    """

    kid: str
    kind: str
    curve: str
    algorithm: str
    public: Any


class Rules(NamedTuple):
    """What a token has to say.

    Attributes:
        audiences: of which it names one; none: any will do.
        issuer: that it names; empty: any will do.
        skew_seconds: how far the issuer's clock may be from ours.
        scope_claim, name_claim: where scopes are, and the name of the principal.
    """

    audiences: Sequence[str] = ()
    issuer: str = ""
    skew_seconds: int = 30
    scope_claim: str = "scope"
    name_claim: str = "sub"


def parse_keys(text: str) -> tuple[Key, ...]:
    """The keys of a JWKS (RFC 7517). Those that are not for signatures, or cannot be read, are left out.

    Raises:
        BadKeys: it is none, or not one of its keys can be used.
    """
    try:
        rows = json.loads(text)["keys"]
        keys = tuple(key for row in rows if (key := _key(row)) is not None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadKeys("it is no JWKS: it has to be an object with 'keys'") from None
    if not keys:
        raise BadKeys(f"it has no key for signatures of the types {', '.join(_PUBLIC)}")
    return keys


def _key(row: Mapping[str, Any]) -> Key | None:
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

    kind, algorithm, curve = row.get("kty"), row.get("alg") or "", row.get("crv") or ""
    kid = row.get("kid") or ""
    if kind not in _PUBLIC or row.get("use", "sig") != "sig" or (algorithm and algorithm not in ALGORITHMS):
        return None
    if "verify" not in row.get("key_ops", ["verify"]) or not isinstance(kid, str):
        return None
    parts = {name: row[name] for name in _PUBLIC[kind] if name in row} | {"kty": kind}
    reader: Any = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}[kind]
    try:
        return Key(kid, kind, curve, algorithm, reader.from_jwk(parts))
    except Exception:  # whatever is wrong with one of them, the others are of use
        return None


def verify(token: str, keys: Sequence[Key], rules: Rules, now_ms: int) -> Claims:
    """The claims of a token that is valid.

    Raises:
        UnknownKey: none of the keys has the id that it names.
        InvalidToken: it is not valid for another reason.
    """
    shown: dict[str, str] = {}
    try:
        return _claims(token, keys, rules, now_ms, shown)
    except InvalidToken as error:
        error.shown = shown
        raise


def _claims(token: str, keys: Sequence[Key], rules: Rules, now_ms: int, shown: dict[str, str]) -> Claims:
    """See `verify`. ``shown`` gets what may be told of a token that is not valid."""
    payload = _payload(token, keys, shown)
    name = payload.get(rules.name_claim)
    if isinstance(name, str):
        shown["sub"] = name[:MAX_KID_LENGTH]
    ends_ms = _check_times(payload, rules.skew_seconds, now_ms)
    if rules.issuer and payload.get("iss") != rules.issuer:
        raise InvalidToken("it has another issuer, or none")
    audience = payload.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if rules.audiences and not any(one in rules.audiences for one in named if isinstance(one, str)):
        raise InvalidToken("it is for another audience, or for none")
    _check_scopes(payload.get(rules.scope_claim, []), rules.scope_claim)
    if not isinstance(name, str) or not name.strip():
        raise InvalidToken(f"the claim {rules.name_claim!r} names nobody")
    return Claims(name, ends_ms)


def _payload(token: str, keys: Sequence[Key], shown: dict[str, str]) -> Mapping[str, Any]:
    """What a token says, if one of the keys has signed it."""
    import jwt

    signatures = _signatures()
    try:
        header = signatures.get_unverified_header(token)
    except jwt.PyJWTError:
        raise InvalidToken("its header cannot be read") from None
    algorithm, kid = header.get("alg"), header.get("kid", "")
    if isinstance(kid, str) and kid:
        shown["kid"] = kid[:MAX_KID_LENGTH]
    if not keys:
        raise InvalidToken("there are no keys to check it with")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise InvalidToken("its algorithm is not permitted")
    if "crit" in header:
        raise InvalidToken("its header wants what is not there")
    if not isinstance(kid, str) or len(kid) > MAX_KID_LENGTH:
        raise InvalidToken("the id of its key cannot be one")
    kind, curve = ALGORITHMS[algorithm]
    named = [key for key in keys if key.kid == kid] if kid else keys
    if not named:
        raise UnknownKey("it is signed by a key that is not among the issuer's")
    fitting = [
        key
        for key in named
        if key.kind == kind and curve in ("", key.curve) and key.algorithm in ("", algorithm)
    ]  # fmt: skip
    for key in fitting[:MOST_TRIED]:
        try:
            content = json.loads(signatures.decode(token, key.public, [algorithm]))
        except jwt.PyJWTError:
            continue
        except (ValueError, RecursionError):
            break
        if isinstance(content, dict):
            return content
        break
    raise InvalidToken("its signature is not that of a fitting key, or it says nothing that can be read")


@cache
def _signatures() -> jwt.PyJWS:
    import jwt

    return jwt.PyJWS(list(ALGORITHMS))


def _check_times(payload: Mapping[str, Any], skew_seconds: int, now_ms: int) -> int:
    """When the token ends (Unix ms). With the boundaries that Kafka's library has."""
    times = {name: payload[name] for name in ("exp", "iat", "nbf") if name in payload}
    for name, at in times.items():
        if isinstance(at, bool) or not isinstance(at, int | float) or not abs(at) < 1e12:
            raise InvalidToken(f"the claim {name!r} is no time")
    if "exp" not in times or "iat" not in times:
        raise InvalidToken("it does not say when it was made, and when it ends")
    now = now_ms / 1000
    if now - skew_seconds >= times["exp"]:
        raise InvalidToken("it has ended")
    if any(times[name] > now + skew_seconds for name in ("iat", "nbf") if name in times):
        raise InvalidToken("it is of the future")
    return int(times["exp"] * 1000)


def _check_scopes(scopes: Any, claim: str) -> None:
    """Scopes decide nothing, and must be some. What is neither a text nor a list counts as none, as in Kafka."""
    listed = [scopes] if isinstance(scopes, str) else scopes if isinstance(scopes, list) else []
    if not all(isinstance(one, str) and one.strip() for one in listed):
        raise InvalidToken(f"the claim {claim!r} has something that is no scope")
    if len({one.strip() for one in listed}) < len(listed):
        raise InvalidToken(f"the claim {claim!r} has a scope twice")
