"""The way to a group's coordinator, as a client asks, again and again: FindCoordinator, then the node that it names."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import frame_request, skip_tags
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.schema import Message

EVERY_S = 0.02
TIMEOUT_S = 2.0
Address = tuple[str, int]


class Way:
    """See the module.

    Args:
        nodes: where each node is.
        note: is told of what is not as it was.
        timeout_s: how long a node is waited for.

    Attributes:
        coordinator: the node that was named last.
        steps: all that was told.
    """

    def __init__(self, group: str, nodes: Mapping[int, Address], note: Callable[[str], None], timeout_s: float) -> None:
        self.group = group
        self.coordinator: int | None = None
        self.steps: list[str] = []
        self._nodes = nodes
        self._note = note
        self._timeout_s = timeout_s

    async def watch(self) -> None:
        """Ask the nodes in turn, until cancelled."""
        for node_id in itertools.cycle(self._nodes):
            said = await self._asked(node_id)
            if said and said not in self.steps[-1:]:
                self.steps.append(said)
                self._note(f"  the way to {self.group!r}: {said}")
            await asyncio.sleep(EVERY_S)

    async def _asked(self, node_id: int) -> str:
        """What a client hears on its way; empty where the node that it asks first is not there."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group])
        try:
            answer = await ask(self._nodes[node_id], ApiKey.FIND_COORDINATOR, 4, request, self._timeout_s)
        except (OSError, EOFError, TimeoutError):
            return ""
        (found,) = answer.coordinators
        if found.error_code:
            return f"FindCoordinator → {ErrorCode(found.error_code).name}"
        self.coordinator = found.node_id
        return f"FindCoordinator → node {found.node_id} → {await self.state_at((found.host, found.port))}"

    async def state_at(self, where: Address) -> str:
        """What a node says when it is asked for the group."""
        try:
            request = DescribeGroupsRequest(groups=[self.group])
            answer = await ask(where, ApiKey.DESCRIBE_GROUPS, 5, request, self._timeout_s)
        except (OSError, EOFError, TimeoutError):
            return "nobody answers"
        (group,) = answer.groups
        return (
            ErrorCode(group.error_code).name
            if group.error_code
            else f"{group.group_state}, {len(group.members)} members"
        )


async def ask(where: Address, key: ApiKey, version: int, request: Message, timeout_s: float = TIMEOUT_S) -> Any:
    """Send one request on a connection of its own, and give its answer.

    Raises:
        OSError, EOFError, TimeoutError: there is none.
    """
    row = api(key)
    flexible = row.request_header_version(version) == 2
    body = row.request.layout(version).encode(request)
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(*where)
        try:
            writer.write(frame_request(key, version, 1, "the-way", body, flexible=flexible))
            answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        finally:
            writer.close()
    return row.response.layout(version).decode(
        answer[skip_tags(answer, 4) if row.response_header_version(version) else 4 :]
    )
