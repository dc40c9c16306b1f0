"""Everything that is served, as one ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import quote, unquote, unquote_to_bytes

import msgspec
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ottla.broker.core.security.acls import AclOperation
from ottla.observe.console_files import Files
from ottla.observe.http.access import VISITOR, check_write
from ottla.observe.http.answers import HealthNow
from ottla.observe.http.api import ENDPOINTS, Endpoint
from ottla.observe.http.bodies import read_object
from ottla.observe.http.openapi import document
from ottla.observe.http.parameters import read_query
from ottla.observe.http.parts import Health, Parts
from ottla.observe.http.pauses import Turns
from ottla.observe.http.problems import Problem, problem
from ottla.observe.http.stream import PARAMETERS, EventStream, Feed
from ottla.observe.http.visitors import Visitor

JSON = "application/json"
NOT_KEPT = {"Cache-Control": "no-store"}


class NameConvertor(Convertor[str]):
    """A name in a path as it was encoded: any, even an empty one."""

    regex = "[^/]*"

    def convert(self, value: str) -> str:
        return value


register_url_convertor("name", NameConvertor())


class EncodedPaths:
    """Routes by the path as it was sent, so that a name may hold ``/``; in one spelling, as there are many."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = scope["raw_path"].decode("ascii")
        path = "/".join(quote(unquote_to_bytes(part), safe="") for part in sent.split("/"))
        await self._app({**scope, "path": path}, receive, send)


class ByMethod:
    """Serves a path by the methods that it has, and refuses all others, of which no other route is to know."""

    def __init__(self, serve: dict[str, Callable[[Request], Any]]) -> None:
        self._serve = {**serve, "HEAD": serve["GET"]} if "GET" in serve else serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        serve = self._serve.get(scope["method"])
        if serve is None:
            raise HTTPException(405, headers={"Allow": ", ".join(self._serve)})
        response = await serve(Request(scope, receive, send))
        await response(scope, receive, send)


def application(parts: Parts, feed: Feed, turns: Turns, *, protected: bool, more: Sequence[Endpoint] = ()) -> ASGIApp:
    """The application that serves a broker that is composed.

    Args:
        protected: to those only who know the token.
        more: endpoints besides those of every broker.
    """
    shown = [one for one in (*ENDPOINTS, *more) if one.is_there(parts)]
    routes: list[BaseRoute] = health_routes(parts.health)
    for path in dict.fromkeys(endpoint.path for endpoint in shown):
        serve = {
            one.method: _change(parts, one, protected) if one.method != "GET" else _serve(parts, one, turns)
            for one in shown
            if one.path == path
        }
        routes.append(Route(path.replace("}", ":name}"), ByMethod(serve)))
    routes.append(Route("/v1/stream", _stream(parts, feed)))
    openapi = msgspec.json.encode(document(shown, parts.view.cluster().version, protected=protected))
    routes.append(Route("/v1/openapi.json", Response(openapi, 200, NOT_KEPT, JSON), methods=["GET"]))
    if parts.metrics is not None:
        routes.append(Route("/metrics", _metrics(parts, turns)))
    routes.append(Route("/{file:path}", _file(Files())))
    return EncodedPaths(starlette(routes))


def starlette(routes: list[BaseRoute]) -> Starlette:
    """The routes, with every refusal as a problem."""
    app = Starlette(routes=routes, exception_handlers={Problem: _problem, HTTPException: _refusal, Exception: _bug})
    app.router.redirect_slashes = False
    return app


def health_routes(health: Health) -> list[BaseRoute]:
    """``/healthz``: the process is worth keeping; ``/readyz``: clients are served."""

    async def healthz(request: Request) -> Response:
        return _health(health, health.now, health.status != "failed")

    async def readyz(request: Request) -> Response:
        now = health.now
        return _health(health, now, now == "ready")

    return [Route("/healthz", healthz), Route("/readyz", readyz)]


def _health(health: Health, now: str, well: bool) -> Response:
    body = msgspec.json.encode(HealthNow(now, health.nodes_down(), health.nodes_silent()))
    return Response(body, 200 if well else 503, NOT_KEPT, JSON)


def _change(parts: Parts, endpoint: Endpoint, protected: bool) -> Callable[[Request], Any]:
    has_body = endpoint.body is not None

    async def change(request: Request) -> Response:
        check_write(request.headers, has_token=protected, has_body=has_body)
        names, seen = _names(request), parts.seen_by(visitor_of(request))
        endpoint.check(seen.sight, names)
        read_query(request.scope["query_string"], ())
        body = await read_object(request) if has_body else {}
        answer = await endpoint.handle(seen, names, body)
        return Response(msgspec.json.encode(answer), 200, NOT_KEPT, JSON)

    return change


def visitor_of(request: Request) -> Visitor:
    """Who asks, as `ottla.observe.http.access` found out."""
    visitor: Visitor = request.scope["state"][VISITOR]
    return visitor


def _names(request: Request) -> dict[str, str]:
    return {name: _name(text) for name, text in request.path_params.items()}


def _serve(parts: Parts, endpoint: Endpoint, turns: Turns) -> Callable[[Request], Any]:
    async def serve(request: Request) -> Response:
        names, seen = _names(request), parts.seen_by(visitor_of(request))
        endpoint.check(seen.sight, names)
        query = read_query(request.scope["query_string"], endpoint.parameters)
        async with turns.taken():
            answer = endpoint.handle(seen, names, query)
            if isinstance(answer, Awaitable):
                answer = await answer
            body = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
        return Response(body, 200, NOT_KEPT, JSON)

    return serve


def _name(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise Problem(400, f"{text}: names are encoded as UTF-8") from None


def _stream(parts: Parts, feed: Feed) -> Callable[[Request], Any]:
    async def stream(request: Request) -> Response:
        query, sight = read_query(request.scope["query_string"], PARAMETERS), parts.seen_by(visitor_of(request)).sight
        if query["group"] is not None:
            sight.check_group(query["group"])
        return EventStream(feed, query, request.headers.get("last-event-id", ""), sight)

    return stream


def _metrics(parts: Parts, turns: Turns) -> Callable[[Request], Any]:
    async def metrics(request: Request) -> Response:
        assert parts.metrics is not None
        parts.seen_by(visitor_of(request)).sight.check_cluster(AclOperation.DESCRIBE)
        async with turns.taken():
            body, media_type = await parts.metrics.scrape(request.headers.get("accept", ""))
        return Response(body, 200, {**NOT_KEPT, "Content-Type": media_type})

    return metrics


def _file(files: Files) -> Callable[[Request], Any]:
    async def file(request: Request) -> Response:
        found = files.get(request.path_params["file"])
        if found is None:
            raise Problem(404, "there is nothing here")
        headers = {"Cache-Control": "no-cache", "ETag": found.etag, "Content-Type": found.media_type}
        if found.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(found.content, 200, headers)

    return file


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem(error.status, error.detail, {"Retry-After": "1"} if error.status == 503 else None)


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    details = {404: "there is nothing here", 405: f"{request.method} is not among what is allowed here"}
    headers = dict(error.headers or {})
    return problem(error.status_code, details.get(error.status_code, error.detail), headers)


async def _bug(request: Request, error: Exception) -> Response:
    return problem(500, "this is a bug of the broker: its log says more")
