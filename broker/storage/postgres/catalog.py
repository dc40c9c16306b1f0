"""The catalog of nodes that share a database: its document, and which logs are those of which partitions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from itertools import count, repeat
from typing import Any, Final, cast
from uuid import UUID

from ottla.broker.cluster.plan import LogRow
from ottla.broker.cluster.view import NOBODY
from ottla.broker.engine import Outdated, Unavailable
from ottla.broker.storage.postgres.connections import Link
from ottla.broker.storage.postgres.database import Answer, ReadCatalog, Refusal, StoreCatalog, Take
from ottla.protocol.internal_topics import INTERNAL_TOPICS

MOVED: Final = "an operator moved it"
MOST_TRIES: Final = 20
"""How often a change is sent again because somebody holds one of its logs."""


class PostgresCatalog:
    """See the module and `ottla.broker.engine.Catalog`.

    Args:
        writer: tells the stores of this life of a node from all others.
        followers: topics whose logs are led where those of another topic are, partition by partition.
    """

    def __init__(self, link: Link, writer: Callable[[], str], followers: Mapping[str, str]) -> None:
        self.version = 0
        self.on_changed: Callable[[], None] = lambda: None
        self._link = link
        self._writer = writer
        self._followers = followers
        self._state: dict[str, Any] | None = None
        self._logs: dict[str, list[int]] = {}
        self._stores = count()

    def load(self) -> dict[str, Any] | None:
        return copy.deepcopy(self._state)

    def logs_of(self, topic_id: UUID) -> list[int]:
        """The logs of a topic, by partition; none of a topic that is not known yet."""
        return self._logs.get(str(topic_id), [])

    def look(self) -> None:
        """The database tells each node of what the others store."""

    async def refresh(self) -> None:
        self._take(*await self._read())

    async def store(self, state: Mapping[str, Any], *, over: int, called: str = MOVED) -> int:
        """See `ottla.broker.engine.Catalog`.

        Args:
            called: why logs with other homes are to go there at once; empty if that has time.
        """
        if over != self.version:
            raise Outdated(f"the catalog has version {self.version}, the change was planned on {over}")
        state = copy.deepcopy(dict(state))
        logs, created = await self._logs_for(state["topics"])
        document = {"state": state, "logs": logs, "writer": f"{self._writer()}/{next(self._stores)}"}
        known = self._homes(self._state, self._logs)
        homes = self._homes(state, logs)
        wanted = StoreCatalog(
            over,
            document,
            created,
            tuple((log_id, home) for log_id, home in homes.items() if known.get(log_id, home) != home),
            tuple(known.keys() - homes.keys()),
            called,
        )
        for _ in range(MOST_TRIES):
            answer = await self._sent(wanted)
            if answer is not None and answer.refusal is Refusal.LOCK_NOT_AVAILABLE:
                continue
            if answer is not None and answer.result is not None:
                self._take(over + 1, document)
                return self.version
            # Somebody was faster, or it was stored and the answer was lost.
            version, found = await self._read()
            if version == over:
                continue
            if found == document:
                self._take(version, document)
                return version
            raise Outdated(f"the catalog has version {version}, the change was planned on {over}")
        raise Unavailable("somebody keeps logs of the change locked")

    async def rehome(self, homes: Mapping[int, int]) -> None:
        """Let logs be at home at other nodes, and go there in time. Raises as `store`."""
        if (state := self.load()) is not None:
            for topic in state["topics"].values():
                logs = self._logs[topic["topic_id"]]
                topic["homes"] = [homes.get(*one) for one in zip(logs, topic["homes"], strict=True)]
            await self.store(state, over=self.version, called="")

    async def _sent(self, statement: StoreCatalog) -> Answer | None:
        answers: list[Answer | None] = []

        def told(answer: Answer | None) -> None:
            answers.append(answer)

        self._link.ask(statement, told)
        await self._link.answer(ReadCatalog())  # behind it
        return answers[0]

    async def _read(self) -> tuple[int, Any]:
        answer = await self._link.answer(ReadCatalog())
        version, document = cast("tuple[int, Any]", answer.result)
        return version, document

    def _take(self, version: int, document: Any) -> None:
        self.version = version
        if document:
            self._state, self._logs = document["state"], document["logs"]

    async def _logs_for(self, topics: Mapping[str, Any]) -> tuple[dict[str, list[int]], tuple[LogRow, ...]]:
        """The logs of all topics, by their ids, and those among them that are new."""
        logs = {row["topic_id"]: self._logs.get(row["topic_id"], []) for row in topics.values()}
        missing = sum(row["partitions"] - len(logs[row["topic_id"]]) for row in topics.values())
        if not missing:
            return logs, ()
        first = (await self._link.answer(Take("log", missing))).result
        assert isinstance(first, int)
        numbers = count(first)
        created = []
        for name, row in sorted(topics.items(), key=lambda item: item[0] in self._followers):  # they come last
            own = logs[row["topic_id"]] = list(logs[row["topic_id"]])
            followed = topics.get(self._followers.get(name, ""))
            for partition in range(len(own), row["partitions"]):
                own.append(next(numbers))
                follows = None if followed is None else logs[followed["topic_id"]][partition]
                home = row["homes"][partition] if "homes" in row else NOBODY  # until the first node has started
                created.append(LogRow(own[-1], home, NOBODY, 0, -1, name in INTERNAL_TOPICS, follows))
        return logs, tuple(created)

    @staticmethod
    def _homes(state: Mapping[str, Any] | None, logs: Mapping[str, list[int]]) -> dict[int, int]:
        """The home of each log."""
        rows = [] if state is None else state["topics"].values()
        return {
            log_id: home
            for row in rows
            for log_id, home in zip(logs.get(row["topic_id"], ()), row.get("homes") or repeat(NOBODY), strict=False)
        }
