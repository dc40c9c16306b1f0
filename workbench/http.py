"""The endpoints of the HTTP port with which a workbench is controlled: the verbs of `ottla.workbench.control`."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from ottla.broker.handlers.services import ControlRefused
from ottla.observe.http.api import Endpoint
from ottla.observe.http.parts import Parts
from ottla.observe.http.problems import Problem
from ottla.protocol.errors import ErrorCode
from ottla.workbench.control import VERBS, Control, Nothing, Which

HOME = "/v1/workbench"
STATUSES = {
    ErrorCode.RESOURCE_NOT_FOUND: 404,
    ErrorCode.POLICY_VIOLATION: 409,
    ErrorCode.REQUEST_TIMED_OUT: 504,
}
"""Of what is refused; all else is 400."""
TABLE = (
    ("GET", "/faults", "faults", "faults.list", "The faults in force."),
    ("POST", "/faults", "add_fault", "faults.add", "Set a fault."),
    ("DELETE", "/faults", "remove_faults", "faults.remove", "Remove all faults, and let go of what they hold."),
    ("POST", "/faults/release", "release_faults", "faults.release", "Let go of what all faults hold."),
    ("DELETE", "/faults/{fault}", "remove_fault", "faults.remove", "Remove a fault, and let go of what it holds."),
    ("POST", "/faults/{fault}/release", "release_fault", "faults.release", "Let go of what a fault holds."),
    ("GET", "/clock", "clock", "clock.show", "How time goes."),
    ("POST", "/clock/freeze", "freeze_clock", "clock.freeze", "Let time stand still."),
    ("POST", "/clock/resume", "resume_clock", "clock.resume", "Let time go as fast as it really does."),
    ("POST", "/clock/scale", "scale_clock", "clock.scale", "Let time go so many times as fast as it really does."),
    ("POST", "/clock/advance", "advance_clock", "clock.advance", "Move time ahead. Answered once all is done."),
    ("POST", "/groups/{group}/pause", "pause_group", "groups.pause", "Pause a group."),
    ("POST", "/groups/{group}/resume", "resume_group", "groups.resume", "Let a group go on."),
)
"""Method, path, name, verb, and what it does. What the path names, the body does not."""


def endpoints(control: Control) -> list[Endpoint]:
    """The endpoints for a workbench."""

    def endpoint(method: str, path: str, name: str, verb: str, says: str) -> Endpoint:
        takes = VERBS[verb].takes
        body = None if method != "POST" else Nothing if takes is Which or "{" in path else takes

        async def handle(parts: Parts, names: dict[str, str], given: dict[str, Any]) -> Struct:
            if body is Nothing and given:
                raise Problem(400, "nothing can be said here: the body has to be {}")
            named: dict[str, Any] = {"number": _number(names["fault"])} if "fault" in names else {**names}
            try:
                return await control.do(verb, named | given)
            except ControlRefused as refused:
                raise Problem(STATUSES.get(refused.code, 400), str(refused)) from None

        return Endpoint(f"{HOME}{path}", name, says, VERBS[verb].gives, handle, method=method, body=body)

    return [endpoint(*row) for row in TABLE]


def _number(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text, re.ASCII):
        raise Problem(404, f"there is no fault {text!r}: faults have numbers")
    return int(text)
