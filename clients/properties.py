"""Options of security under the names that properties files have for them: Kafka's own clients' and librdkafka's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ottla.clients.errors import OptionError
from ottla.protocol.sasl.jaas import KEY as JAAS
from ottla.protocol.sasl.jaas import BadJaas, Login, parse_jaas

TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_AS_IT_IS = {
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
"""Values that options take as they are; the stores of Kafka's clients are files in PEM."""
_STORES = {"ssl.truststore.location": "ssl.truststore.type", "ssl.keystore.location": "ssl.keystore.type"}
_OTHERS = {
    "security.protocol": "security_protocol",
    "ssl.endpoint.identification.algorithm": "ssl_check_hostname",
    TOKEN_URL: "sasl_oauth_token_provider",
}
NAMES = (*_AS_IT_IS, *_STORES.values(), *_OTHERS, JAAS)
"""What is read."""
_PREFIXES = ("sasl.", "security.", "ssl.", "enable.ssl.")
_OF_JAVA = (
    "sasl.client.callback.", "sasl.kerberos.", "sasl.login.", "security.providers", "ssl.enabled.protocols",
    "ssl.keymanager.algorithm", "ssl.protocol", "ssl.provider", "ssl.secure.random.", "ssl.trustmanager.algorithm",
)  # fmt: skip
"""Prefixes of what tells Java how to go about it; without it nothing is less safe."""
_CONVERT = "`openssl pkcs12 -in FILE -out FILE.pem` makes PEM of PKCS12, `keytool -importkeystore` PKCS12 of JKS"


class FileTokens:
    """A token provider that reads a file at each connection: whoever renews tokens writes it anew.

    Args:
        path: the file; what it has is the token.
        more: what the broker is told besides.
    """

    def __init__(self, path: str, more: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._more = dict(more or {})

    async def token(self) -> str:
        return (await asyncio.to_thread(Path(self.path).read_text, encoding="utf-8")).strip()

    def extensions(self) -> Mapping[str, str]:
        return self._more


def security_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """The options of security among properties, for `ClientOptions`. What is about anything else is left out.

    Raises:
        OptionError: one cannot be read, or is about security and not known; secrets are not shown.
    """
    options: dict[str, Any] = {}
    for key, text in properties.items():
        if not key.startswith(_PREFIXES) or key.startswith(_OF_JAVA):
            continue
        value = text.strip()
        if key in _AS_IT_IS:
            if (store := _STORES.get(key)) and properties.get(store, "JKS").strip().upper() != "PEM":
                raise OptionError(f"{key}={value!r}: allowed are files in PEM, and {store}=PEM; {_CONVERT}")
            if options.setdefault(_AS_IT_IS[key], value) != value:
                raise OptionError(f"{key}: another line says something else; leave one of them out")
        elif key == "security.protocol":
            options["security_protocol"] = value.upper()
        elif key == "ssl.endpoint.identification.algorithm":
            if value.lower() not in ("https", "none", ""):
                raise OptionError(f"{key}={value!r}: allowed is https, or nothing to accept any name")
            options["ssl_check_hostname"] = value.lower() == "https"
        elif key == JAAS:
            options |= _login(text)
        elif key not in NAMES:
            near = get_close_matches(key, NAMES, 1, 0.85)
            hint = f"did you mean {near[0]}?" if near else f"possible are {', '.join(NAMES)}"
            raise OptionError(f"{key}: it is about security, and not possible here; {hint}")
    if TOKEN_URL in properties:
        more = options.pop("extensions", {})
        options["sasl_oauth_token_provider"] = FileTokens(_path(properties[TOKEN_URL].strip()), more)
    elif options.pop("extensions", None) is not None:
        raise OptionError(f"{TOKEN_URL}: OAUTHBEARER needs it: the file: URL of a file with the token")
    return options


def written(properties: Mapping[str, str]) -> dict[str, str]:
    """Which property says it, for each option of security that properties say."""
    names = _AS_IT_IS | _OTHERS
    found = {names[key]: key for key in properties if key in names}
    if JAAS in properties:
        with suppress(OptionError):  # which is told where it is read
            found |= dict.fromkeys(_login(properties[JAAS]), JAAS)
    return found


def _login(text: str) -> dict[str, Any]:
    try:
        login = parse_jaas(text)
    except BadJaas as error:
        raise OptionError(str(error)) from None
    if login.module == "OAuthBearerLoginModule":
        return {"extensions": _extensions(login)}
    if login.module not in ("PlainLoginModule", "ScramLoginModule"):
        possible = "PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule"
        raise OptionError(f"{JAAS}: {login.module} is not possible; possible are {possible}")
    if login.options.get("tokenauth", "false").lower() == "true":
        raise OptionError(f"{JAAS}: tokenauth is not possible: there are no delegation tokens here")
    named = {"sasl_plain_username": "username", "sasl_plain_password": "password"}
    return {option: login.options[key] for option, key in named.items() if key in login.options}


def _extensions(login: Login) -> dict[str, str]:
    prefix = "extension_"
    if strange := sorted(key for key in login.options if not key.startswith(prefix)):
        raise OptionError(f"{JAAS}: {strange[0]} is not possible; a token comes from the file that {TOKEN_URL} names")
    return {key.removeprefix(prefix): value for key, value in login.options.items()}


def _path(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "file" or not parts.path:
        raise OptionError(f"{TOKEN_URL}={url!r}: allowed is the file: URL of a file with the token")
    return unquote(parts.path)
