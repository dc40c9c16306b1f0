"""Access to the HTTP port: checked before anything else is done for a request.

The ``Host`` header must name this machine, or a page of the web whose name is made to point here could read everything
(DNS rebinding). On loopback that is loopback's names. Elsewhere it is any address, any name without a dot, which
nobody of the web can have, and names that the settings or the listeners have. Probes may use any name there, too: what
they are told is no secret.

With tokens, programs send one as ``Authorization: Bearer``; a browser, which sends no such header for a page or a
stream, is asked for it once and gets a cookie. Whose token it is decides what he may see.

What changes something needs a token in any case, and no page of another origin may ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from ottla.observe.http.passes import COOKIE_MS, Cookies, Entries, Guesses
from ottla.observe.http.problems import Problem, problem
from ottla.observe.http.tokens import CONSOLE, Tokens
from ottla.observe.http.visitors import TellEntered, TellFailed, Visitor

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not `no-referrer`: browsers would send their own forms with `Origin: null`, as pages from elsewhere do.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
HEADERS_WITH_TLS = {**HEADERS, "Strict-Transport-Security": "max-age=31536000"}
FOR_ALL = ("/healthz", "/readyz")
"""Probes have no token, and learn nothing."""
LOGIN, LOGOUT = "/login", "/logout"
VISITOR = "visitor"
"""Where the state of a request says who asks."""
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
        tokens: of those who may look; None: everybody may.
        cookie: the cookie's name; cookies do not tell ports apart.
        has_tls: the port speaks nothing but TLS.
        now_ms: a clock that does not go back.

    Attributes:
        tell_failed: is told of visitors who are not let in, what was to let them in, and what is wrong with it.
        tell_entered: is told of visitors whom a token lets in, once in a while.
    """

    def __init__(
        self,
        app: ASGIApp,
        log: Logger,
        *,
        host: str,
        tokens: Tokens | None,
        cookie: str,
        now_ms: Callable[[], int],
        allowed_hosts: Iterable[str] = (),
        has_tls: bool = False,
    ) -> None:
        self.app = app
        self._log = log
        self._hosts = {"localhost", "127.0.0.1", "::1", host.lower(), *map(str.lower, allowed_hosts)}
        self._is_any_host = "*" in self._hosts
        self._is_loopback = is_loopback(host)
        self._has_told = False
        self._tokens = tokens
        self._cookies = Cookies(now_ms)
        self._guesses = Guesses(now_ms)
        self._entries = Entries(now_ms)
        self._cookie = cookie
        self._has_tls = has_tls
        self.tell_failed: TellFailed = lambda visitor, mechanism, reason: None
        self.tell_entered: TellEntered = lambda visitor: None
        self._headers = HEADERS_WITH_TLS if has_tls else HEADERS

    def allow(self, host: str) -> None:
        """Take one more name for ours: one that clients of the broker are told."""
        self._hosts.add(host.lower())

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
        address = scope["client"][0] if scope["client"] else ""
        if (tokens := self._tokens) is None or is_probe:
            self._enter(scope, Visitor.of(CONSOLE, address))
            return None
        if scope["path"] in (LOGIN, LOGOUT) and scope["method"] == "POST":
            return await self._login(Request(scope, receive), tokens, address)
        token = _bearer(headers)
        cookie = self._cookie_of(headers) if token is None else ""
        digest = self._cookies.token_of(cookie) if token is None else tokens.digest_of(token)
        name = None if digest is None else tokens.name_of(digest)
        if digest is not None and name is not None:

            def is_welcome() -> bool:
                return tokens.name_of(digest) is not None and (not cookie or self._cookies.token_of(cookie) is not None)

            self._enter(scope, visitor := Visitor.known(name, address, is_welcome))
            if self._entries.is_new(digest, address):
                self.tell_entered(visitor)
            return None
        if token and (refusal := self._wrong(address)):
            return refusal
        if "text/html" in headers.get("accept", "") and scope["method"] == "GET":
            return _page("This console is behind a token.", 401)
        said = "the token is wrong: `ottla token new NAME` makes one"
        if not token:
            said = "send the token: Authorization: Bearer …"
        return problem(401, said, {"WWW-Authenticate": "Bearer"})

    def _enter(self, scope: Scope, visitor: Visitor) -> None:
        scope["state"][VISITOR] = visitor

    def _wrong(self, address: str) -> Response | None:
        """Tell of a wrong token; the answer to somebody who has tried too many."""
        self.tell_failed(Visitor.of("ANONYMOUS", address), "token", "the token is wrong")
        wait_ms = self._guesses.wrong(address)
        if not wait_ms:
            return None
        after_s = -(-wait_ms // 1000)
        return problem(
            429,
            f"too many wrong tokens came from your address: try again in {after_s} s",
            {"Retry-After": str(after_s)},
        )

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

    def _cookie_of(self, headers: Headers) -> str:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return "" if cookie is None else cookie.value

    async def _login(self, request: Request, tokens: Tokens, address: str) -> Response:
        """Give a cookie to a browser that knows a token, or take it back."""
        try:
            check_origin(request.headers)
            if request.scope["path"] == LOGOUT:
                self._cookies.end(self._cookie_of(request.headers))
                return self._home(request, "", 0)
            if _media_type(request.headers) != "application/x-www-form-urlencoded":
                raise Problem(415, "send a form: Content-Type: application/x-www-form-urlencoded")
            body = await read_body(request, MOST_LOGIN_BYTES)
        except Problem as error:
            return problem(error.status, error.detail)
        given = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]
        digest = tokens.digest_of(given.strip().encode(errors="replace"))
        if digest is None:
            return self._wrong(address) or _page("That is not the token.", 401)
        return self._home(request, self._cookies.new(digest), COOKIE_MS // 1000)

    def _home(self, request: Request, cookie: str, age_s: int) -> Response:
        """Send a browser to the console, with a cookie."""
        told = f"{self._cookie}={cookie}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict"
        # Or a proxy with TLS is before us.
        if self._has_tls or request.headers.get("x-forwarded-proto", "").lower() == "https":
            told += "; Secure"
        return Response(status_code=303, headers={"Location": "/", "Set-Cookie": told, "Cache-Control": "no-store"})


def check_origin(headers: Headers) -> None:
    """Let a request through that changes something, if no page of another origin sends it. Raises `Problem`.

    Browsers say so by themselves; programs send neither header.
    """
    origin, host = headers.get("origin"), headers.get("host", "").lower()
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Problem(
            403, "the Sec-Fetch-Site header tells of another site: pages from elsewhere may change nothing here"
        )
    if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
        raise Problem(403, "the Origin header names another origin: pages from elsewhere may change nothing here")


def _media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _bearer(headers: Headers) -> bytes | None:
    """The token of a program, as the bytes that were sent; None if it sends none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip().encode("latin-1") if scheme.lower() == "bearer" else None


def check_write(headers: Headers, *, has_token: bool, has_body: bool) -> None:
    """Let a request through that changes something, and that knows the token if there is one. Raises `Problem`.

    Args:
        has_token: whether the port has a token.
        has_body: whether a JSON body belongs to it.
    """
    if not has_token:
        raise Problem(403, "to change something takes a token: start the broker with --http-token-file FILE")
    check_origin(headers)
    if _bearer(headers) is None and "sec-fetch-site" not in headers and "origin" not in headers:
        raise Problem(
            403, "send the token: Authorization: Bearer …; a cookie alone changes something for browsers only"
        )
    if has_body and _media_type(headers) != "application/json":
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
