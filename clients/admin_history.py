"""The part of the admin client that only Ottla's broker answers: what happened to groups, and why."""

from __future__ import annotations

from ottla.clients.admin_calls import AdminCalls
from ottla.clients.errors import KafkaConnectionError, KafkaError, KafkaTimeout, UnsupportedByBroker, error_of
from ottla.protocol.messages.describe_group_history import DescribeGroupHistoryRequest, DescribeGroupHistoryResponse


class AdminHistory(AdminCalls):
    """See `ottla.clients.admin.Admin`, which is what to use."""

    async def describe_group_history(
        self,
        group_id: str,
        view: str = "why",
        *,
        generation: int | None = None,
        last: int | None = None,
        since_ms: int | None = None,
        after: int = 0,
    ) -> bytes:
        """The history of a group as JSON. Only Ottla's broker answers this call.

        Args:
            group_id: the group.
            view: ``why`` for its rebalances, explained; ``timeline`` for what is drawn; ``events`` as recorded.
            generation: only the rebalance that led to this generation.
            last: the number of rebalances, the newest ones.
            since_ms: only what began at this time (Unix ms) or later.
            after: for ``events``, the number of the event after which to begin.

        Raises:
            UnsupportedByBroker: the broker is not Ottla, or an older one.
        """
        request = DescribeGroupHistoryRequest(
            group_id=group_id,
            view=view,
            generation=-1 if generation is None else generation,
            last=-1 if last is None else last,
            since_ms=-1 if since_ms is None else since_ms,
            after=after,
        )

        async def attempt() -> bytes:
            coordinator = await self._coordinator(group_id)
            try:
                answer = await self._running().send(coordinator.node_id, request, DescribeGroupHistoryResponse)
            except KafkaTimeout:
                raise
            except KafkaConnectionError as error:
                # Kafka closes a connection on which it is asked for what it does not know. If it is there all the
                # same, that was why.
                await self._running().ask(frozenset())
                raise UnsupportedByBroker(
                    "the broker does not know DescribeGroupHistory: only Ottla keeps the history of groups"
                ) from error
            if answer.error_code:
                refused = error_of(answer.error_code, f"history of group {group_id!r}", answer.error_message)
                raise KafkaError(str(refused), refused.code)  # it is Ottla, so not UnsupportedByBroker
            return answer.body

        return await self._again(attempt)
