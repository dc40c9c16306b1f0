"""The level of the broker's log as a setting (KIP-412). There is one logger, Kafka's ``root``."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.core.configs.alterations import Alteration, Operation
from ottla.broker.core.refusal import Refusal, bad_request
from ottla.protocol.errors import ErrorCode

ROOT = "root"

_OURS = {"TRACE": "debug", "DEBUG": "debug", "INFO": "info", "WARN": "warning", "ERROR": "error", "FATAL": "error"}
_KAFKAS = {"debug": "DEBUG", "info": "INFO", "warning": "WARN", "error": "ERROR"}


class Logger(Protocol):
    """A log whose level can be changed: debug, info, warning or error, the least severe that is written."""

    level: str


def kafkas_level(level: str) -> str:
    """The name that Kafka has for a level of ours."""
    return _KAFKAS[level]


def other_node(name: str, node_id: int) -> Refusal | None:
    """Why the loggers of a node are not ours, if they are not."""
    if name == str(node_id):
        return None
    return bad_request(f"This is broker {node_id}; the loggers of '{name}' were asked for")


def planned_level(alteration: Alteration, present: str, node_id: int) -> str | Refusal:
    """The level that the log has after an alteration; it holds until the broker ends."""
    if refusal := other_node(alteration.resource_name, node_id):
        return refusal
    names = [change.name for change in alteration.changes]
    if alteration.replaces or len(set(names)) != len(names):
        return bad_request("Levels are changed one by one, each once")
    level = present
    for name, value, operation in alteration.changes:
        if operation not in (Operation.SET, Operation.DELETE):
            return bad_request("A level can be set, and nothing else")
        if name != ROOT:
            return Refusal(ErrorCode.INVALID_CONFIG, f"There is no logger {name}; the only one is {ROOT}")
        if operation == Operation.DELETE:
            return bad_request(f"The logger {ROOT} always has a level")
        found = _OURS.get((value or "").strip())
        if found is None:
            return Refusal(ErrorCode.INVALID_CONFIG, f"There is no level {value}; allowed are {', '.join(_OURS)}")
        level = found
    return level
