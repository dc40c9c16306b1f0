"""`WorkbenchAdmin`: an admin client for the workbench of an Ottla, which can let requests fail and move time."""

from __future__ import annotations

import json
from typing import Any

from ottla.clients.admin import Admin
from ottla.clients.errors import KafkaError, error_code
from ottla.protocol.messages.workbench import CLIENT_ID, WorkbenchRequest, WorkbenchResponse


class WorkbenchAdmin(Admin):
    """An admin client of a broker that was started with ``ottla serve --workbench``.

    ```python
    async with WorkbenchAdmin(bootstrap_servers="localhost:9092") as admin:
        fault = await admin.ask("faults.add", api="SyncGroup", group="billing", drop="response", times=1)
        await admin.ask("faults.remove", number=fault["number"])
    ```

    Args:
        options: those of `AdminOptions`. By default the client id is one of which no fault takes hold.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"client_id": CLIENT_ID, **options})

    async def ask(self, verb: str, /, **arguments: Any) -> Any:
        """Ask for something, once: it is not repeated, as nobody knows how often it would be done.

        Args:
            verb: such as ``faults.add``; `ottla.workbench.control` has all of them.
            arguments: those of the verb, as JSON can tell them.

        Returns:
            What the broker's JSON document says.

        Raises:
            UnsupportedByBroker: the broker has no workbench.
            KafkaError: it refuses; the message says why.
        """
        request = WorkbenchRequest(verb=verb, body=json.dumps(arguments).encode())
        unknown = "the broker has no workbench: start it with `ottla serve --workbench`"
        answer = await self._calls.send_ours(self._calls.any_node, request, WorkbenchResponse, unknown)
        if answer.error_code:
            code = error_code(answer.error_code)
            raise KafkaError(answer.error_message or code.text, code)
        return json.loads(answer.body)
