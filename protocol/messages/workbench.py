"""Workbench (key 20002): faults, time and pauses of a broker, for whoever tests what its clients do. Ottla's own.

It is not among the APIs that a broker advertises. A broker without a workbench does not serve it.
"""

from __future__ import annotations

from ottla.protocol.schema import Bytes, Int16, Message, String, Words, message, wire

CLIENT_ID = "ottla-workbench"
"""No fault takes hold of a client of this name: whoever sets faults must be able to remove them, whatever they are."""


@message(versions=range(1), flexible_from=0)
class WorkbenchRequest(Message):
    """Ask for what a workbench does, where there is one.

    ``verb`` is ``faults.add``, for example (`ottla.workbench.control` has them all), and ``body`` a JSON object of its
    arguments; empty if there are none.
    """

    verb: str = wire(String)
    body: bytes = wire(Bytes)


@message(versions=range(1), flexible_from=0)
class WorkbenchResponse(Message):
    """A JSON document."""

    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0, default=None)
    body: bytes = wire(Bytes)
