"""Keys of an issuer of tokens, and tokens that PyJWT signs with them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

NOW_S = 1_700_000_000
NOW_MS = NOW_S * 1000
CLAIMS: dict[str, Any] = {
    "sub": "alice",
    "iat": NOW_S - 10,
    "exp": NOW_S + 600,
    "iss": "https://issuer",
    "aud": "ottla",
}


@cache
def private(algorithm: str, number: int = 0) -> Any:
    """A private key for an algorithm; another for each number."""
    match algorithm:
        case "EdDSA":
            return ed25519.Ed25519PrivateKey.generate()
        case "ES256" | "ES384" | "ES512":
            return ec.generate_private_key(
                {"2": ec.SECP256R1(), "3": ec.SECP384R1(), "5": ec.SECP521R1()}[algorithm[2]]
            )
        case _:
            return rsa.generate_private_key(65537, 2048)


def jwk(key: Any, **more: Any) -> dict[str, Any]:
    """A key's public half, as JWKS has it."""
    public = key.public_key()
    kind = {"RSAPublicKey": RSAAlgorithm, "Ed25519PublicKey": OKPAlgorithm}.get(type(public).__name__, ECAlgorithm)
    return json.loads(kind.to_jwk(public)) | more


def jwks(*rows: dict[str, Any]) -> str:
    return json.dumps({"keys": rows})


def token(key: Any, algorithm: str = "ES256", headers: dict[str, Any] | None = None, **claims: Any) -> str:
    """A signed token with `CLAIMS` and these; None leaves one out."""
    payload = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    return jwt.PyJWS().encode(json.dumps(payload).encode(), key, algorithm, headers={"typ": "JWT"} | (headers or {}))
