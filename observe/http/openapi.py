"""The OpenAPI document, made of the table of endpoints and of the structs that they answer with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from ottla.observe.http.answers import HealthNow
from ottla.observe.http.api import Endpoint
from ottla.observe.http.parameters import Parameter
from ottla.observe.http.problems import MEDIA_TYPE, ProblemDetails

SAYS = """Read-only, but for `/v1/workbench` where there is one.
Names in paths are percent-encoded, and may hold any character, even `/` as `%2F`.
Times are Unix milliseconds where a name ends with `_ms`, and says nothing else. Errors are problems (RFC 9457)."""


def document(shown: Sequence[Endpoint], version: str, *, protected: bool) -> dict[str, Any]:
    """The document of a broker's version for what is shown, to those who know the token if it is ``protected``."""
    bodies = [endpoint.body for endpoint in shown if endpoint.body is not None]
    types = [ProblemDetails, HealthNow, *(endpoint.answer for endpoint in shown), *bodies]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schema_of = {id(one): schema for one, schema in zip(types, schemas, strict=True)}
    refusal, health = schemas[:2]
    paths: dict[str, Any] = {
        "/healthz": {"get": _operation("healthz", "Whether the process is worth keeping.", health, {503: health})},
        "/readyz": {"get": _operation("readyz", "Whether clients are served.", health, {503: health})},
    }
    for endpoint in shown:
        names = re.findall(r"{(\w+)}", endpoint.path)
        statuses = [400, *([404] if names else ()), *([401, 403, 429] if protected else ())]
        if endpoint.method != "GET":
            statuses += [403, 409, 413, 415, 504]
        operation = _operation(
            endpoint.name,
            endpoint.says,
            schema_of[id(endpoint.answer)],
            dict.fromkeys(statuses, refusal),
            names,
            endpoint.parameters,
        )
        if endpoint.body is not None:
            content = {"application/json": {"schema": schema_of[id(endpoint.body)]}}
            operation["requestBody"] = {"required": True, "content": content}
        if protected:
            operation["security"] = [{"token": []}]
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ottla", "version": version, "description": SAYS},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}} if protected else {},
        },
    }


def _operation(
    name: str,
    says: str,
    schema: dict[str, Any],
    errors: dict[int, dict[str, Any]],
    names: Sequence[str] = (),
    parameters: Sequence[Parameter] = (),
) -> dict[str, Any]:
    given = [
        {"name": one, "in": "path", "required": True, "schema": {"type": "string"}, "description": f"Which {one}."}
        for one in names
    ]
    given += [
        {"name": one.name, "in": "query", "required": False, "schema": one.schema(), "description": one.says}
        for one in parameters
    ]
    answers: dict[str, Any] = {"200": {"description": says, "content": {"application/json": {"schema": schema}}}}
    for status, body in errors.items():
        media_type = "application/json" if status == 503 else MEDIA_TYPE
        answers[str(status)] = {"description": "See `detail`.", "content": {media_type: {"schema": body}}}
    return {"operationId": name, "summary": says, "parameters": given, "responses": answers}
