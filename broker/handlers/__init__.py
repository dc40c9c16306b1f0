"""One file per API key, named as the modules of protocol/messages.

A handler module has ``handle(request, ctx, services)``, which returns the response, or None when it will be given later
through ``ctx.reply``. It may return steps (`ottla.protocol.steps`) that give the one or the other, where much is asked
for: they are taken with turns for others in between. An ``async def handle`` does slow work and is run in a task.

A module may have ``failed(request, code)``, the answer when we have a bug; it is needed where the response has no error
code of its own at the top. ``VERSIONS`` is the range that ApiVersions advertises where it is not the request's.
``REPEATS = True`` says that clients send the same request again and again, that it is always answered at once, and that
the same answer is the same object: the decoded request and the encoded answer are kept for the next one.
``UNENFORCED = True`` marks an API of what is kept and described and not enforced: it is served only where the settings
say so. ``PRIVATE = True`` marks one of our own: it is served, and not advertised.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

from ottla.protocol.apis import ApiKey, api

HANDLERS: tuple[ApiKey, ...] = tuple(ApiKey)
"""The APIs that are served: every one whose messages are declared."""


class Handler(NamedTuple):
    """The parts that a handler module offers."""

    versions: range
    handle: Callable[[Any, Any, Any], Any]
    is_async: bool
    failed: Callable[[Any, int], Any] | None
    repeats: bool
    unenforced: bool
    private: bool


@cache
def handler(key: ApiKey) -> Handler:
    """The handler of an API; its module is imported when first asked for."""
    module = import_module(f"ottla.broker.handlers.{key.module}")
    handle = module.handle
    return Handler(
        versions=getattr(module, "VERSIONS", None) or api(key).request.versions,
        handle=handle,
        is_async=iscoroutinefunction(handle),
        failed=getattr(module, "failed", None),
        repeats=getattr(module, "REPEATS", False),
        unenforced=getattr(module, "UNENFORCED", False),
        private=getattr(module, "PRIVATE", False),
    )
