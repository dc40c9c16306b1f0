"""Access to the HTTP port: checked before anything else is done for a request.

The ``Host`` header must name this machine, or a page of the web whose name is made to point here could read everything
(DNS rebinding). On loopback that is loopback's names. Elsewhere it is any address, and any name without a dot, which
nobody of the web can have; behind a token it is any name, as such a page has no cookie of ours. Probes may use any name
there, too: what they are told is no secret.

With a token, programs send it as ``Authorization: Bearer``; a browser, which sends no such header for a page or a
stream, is asked for it once and gets a cookie.

What changes something needs a token in any case, and no page of another origin may ask for it.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla.broker.logger import Logger
from ottla.observe.http.address import ip_of, is_loopback
from ottla.observe.http.bodies import read_body
from ottla.observe.http.problems import Problem, problem

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
HEADERS_WITH_TLS = {**HEADERS, "Strict-Transport-Security": "max-age=31536000"}
FOR_ALL = ("/healthz", "/readyz")
"""Probes have no token, and learn nothing."""
LOGIN = "/login"
MOST_LOGIN_BYTES = 8_192

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Ottla</title>
<h1>Ottla</h1><p>{said}</p>
<form method="post" action="/login"><label>Token <input type="password" name="token" autofocus required></label>
<button>Show the console</button></form></html>
"""


class Access:
    """Lets requests through to an application, or refuses them; sets the headers of every answer.

    Args:
        host: where the port listens.
        allowed_hosts: more names that are ours; ``*`` is any.
        token: what has to be known, empty for nothing.
        secret: makes cookies that nobody else can.
        cookie: the cookie's name; cookies do not tell ports apart.
        has_tls: the port speaks nothing but TLS.
    """

    def __init__(
        self,
        app: ASGIApp,
        log: Logger,
        *,
        host: str,
        token: str,
        secret: bytes,
        cookie: str,
        allowed_hosts: Sequence[str] = (),
        has_tls: bool = False,
    ) -> None:
        self.app = app
        self._log = log
        self._hosts = {"localhost", "127.0.0.1", "::1", host.lower(), *map(str.lower, allowed_hosts)}
        self._is_any_host = "*" in allowed_hosts or (bool(token) and not is_loopback(host))
        self._is_loopback = is_loopback(host)
        self._has_told = False
        self._token = token.encode()
        self._pass = hmac.new(secret, self._token, sha256).hexdigest()
        self._cookie = cookie
        self._has_tls = has_tls
        self._headers = HEADERS_WITH_TLS if has_tls else HEADERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        started = finished = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started, finished
            finished = message["type"] == "http.response.body" and not message.get("more_body", False)
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers[name] = value
            await send(message)

        try:
            refusal = await self._refusal(scope, receive)
            await (refusal or self.app)(scope, receive, send_with_headers)
        except Exception:
            self._log.error("An HTTP request failed", path=scope["path"], exc_info=True)
            if not finished and started:
                scope["state"]["abort"]()
            elif not started:
                await problem(500, "this is a bug of the broker: its log says more")(scope, receive, send_with_headers)

    async def _refusal(self, scope: Scope, receive: Receive) -> Response | None:
        headers = Headers(scope=scope)
        is_probe = scope["path"] in FOR_ALL
        host = _host_of(headers.get("host", ""))
        if not self._is_ours(host) and (self._is_loopback or not is_probe):
            self._tell(host)
            how = "localhost or 127.0.0.1" if self._is_loopback else "an address"
            return problem(
                421, f"the Host header does not name this machine: use {how}, or set ottla.http.allowed.hosts"
            )
        if not self._token or is_probe:
            return None
        if scope["path"] == LOGIN and scope["method"] == "POST":
            return await self._login(Request(scope, receive))
        if self._knows(headers):
            return None
        if "text/html" in headers.get("accept", "") and scope["method"] == "GET":
            return _page("This console is behind a token.", 401)
        return problem(401, "send the token: Authorization: Bearer …", {"WWW-Authenticate": "Bearer"})

    def _tell(self, host: str) -> None:
        """Say once that a name was refused: a program that reads metrics shows its owner nothing but a status."""
        if not self._has_told:
            self._has_told = True
            self._log.warning(
                "HTTP was asked for by a name that is refused: ottla.http.allowed.hosts permits more", host=host[:255]
            )

    def _is_ours(self, host: str) -> bool:
        if self._is_any_host or host in self._hosts:
            return True
        return not self._is_loopback and ("." not in host or ip_of(host) is not None)

    def _knows(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return hmac.compare_digest(token.strip().encode("latin-1"), self._token)  # the bytes that were sent
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self._pass.encode())

    async def _login(self, request: Request) -> Response:
        try:
            body = await read_body(request, MOST_LOGIN_BYTES)
        except Problem as error:
            return problem(error.status, error.detail)
        given = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]
        if not hmac.compare_digest(given.strip().encode(), self._token):
            return _page("That is not the token.", 401)
        cookie = f"{self._cookie}={self._pass}; Path=/; HttpOnly; SameSite=Strict"
        # Or a proxy with TLS is before us.
        if self._has_tls or request.headers.get("x-forwarded-proto", "").lower() == "https":
            cookie += "; Secure"
        return Response(status_code=303, headers={"Location": "/", "Set-Cookie": cookie, "Cache-Control": "no-store"})


def check_write(headers: Headers, *, has_token: bool, has_body: bool) -> None:
    """Let a request through that changes something, and that knows the token if there is one. Raises `Problem`.

    Args:
        has_token: whether the port has a token.
        has_body: whether a JSON body belongs to it.
    """
    if not has_token:
        raise Problem(403, "to change something takes a token: start the broker with --http-token-file FILE")
    origin, host = headers.get("origin"), headers.get("host", "").lower()
    if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
        raise Problem(403, "the Origin header names another origin: pages from elsewhere may change nothing here")
    if has_body and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Problem(415, "send JSON: Content-Type: application/json")


def _page(said: str, status: int) -> Response:
    headers = {"Cache-Control": "no-store", "WWW-Authenticate": "Bearer"}
    return Response(PAGE.format(said=escape(said)), status, headers, "text/html")


def _host_of(header: str) -> str:
    """The name in a Host header, without its port."""
    host = header.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
