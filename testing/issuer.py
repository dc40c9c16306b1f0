"""An issuer of tokens for tests of OAUTHBEARER: a key that this process makes, and the file with its public half."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

NAME = "https://issuer.ottla.test"
AUDIENCE = "ottla"
ALGORITHM = "ES256"
KEY_ID = "ottla-testing"


class Issuer:
    """Signs tokens that nobody else accepts; its file is gone when the process ends.

    Raises:
        ModuleNotFoundError: the package PyJWT is missing; the message says how to install it.
    """

    def __init__(self) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
            from jwt.algorithms import ECAlgorithm
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "OAUTHBEARER in tests needs PyJWT: pip install 'ottla[oauth]'", name=error.name
            ) from error
        self._key: Any = generate_private_key(SECP256R1())
        self._folder = tempfile.TemporaryDirectory(prefix="ottla-jwks-")
        jwk = json.loads(ECAlgorithm.to_jwk(self._key.public_key()))
        self._jwks = Path(self._folder.name) / "jwks.json"
        self._jwks.write_text(json.dumps({"keys": [jwk | {"kid": KEY_ID, "alg": ALGORITHM, "use": "sig"}]}))

    def settings(self) -> dict[str, str]:
        """The settings of a broker that accepts its tokens."""
        return {
            "sasl.oauthbearer.jwks.endpoint.url": self._jwks.as_uri(),
            "sasl.oauthbearer.expected.issuer": NAME,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }

    def token(self, sub: str, now_s: int, expires_in: int, claims: Mapping[str, Any]) -> str:
        """A signed token. A claim that is None is left out."""
        import jwt

        payload = {"sub": sub, "iat": now_s, "exp": now_s + expires_in, "iss": NAME, "aud": AUDIENCE} | dict(claims)
        kept = {name: value for name, value in payload.items() if value is not None}
        return jwt.encode(kept, self._key, ALGORITHM, headers={"kid": KEY_ID})


@cache
def issuer() -> Issuer:
    """The issuer of this process."""
    return Issuer()
