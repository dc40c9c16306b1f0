"""Three nodes of Ottla in this process."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from ottla.broker.app import Broker
from ottla.broker.cluster.placement import Static
from ottla.broker.logger import Silent
from ottla.broker.runtime.looking import ClusterFile
from ottla.broker.settings import FIELDS, Settings
from ottla.broker.storage.local.catalog import FileCatalog
from tests.differential.real_kafka import CLUSTER_ID, free_port
from tests.differential.three_kafkas import IDS


class ThreeNodes:
    """Three nodes of Ottla, which share a catalog and keep their logs in memory; use with ``with``.

    They run in a thread, and are told which of them are up as by a supervisor.

    Attributes:
        ports: by node id, as clients reach them.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        self.ports = {node_id: free_port() for node_id in IDS}
        self._directory = Path(tempfile.mkdtemp(prefix="ottla-three-nodes-"))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._brokers: dict[int, Broker] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        self._tell(IDS)
        for node_id in IDS:
            self._run(self._start(node_id))
        return self

    def _tell(self, up: Sequence[int]) -> None:
        rows = [
            {
                "node_id": node_id,
                "state": "up" if node_id in up else "down",
                "epoch": 0,
                "endpoints": {"PLAINTEXT": ["127.0.0.1", port]},
            }
            for node_id, port in self.ports.items()
        ]
        self._document = {"format": 1, "cluster_id": CLUSTER_ID, "nodes": rows}
        (self._directory / "cluster.json").write_text(json.dumps(self._document), "utf-8")

    async def _start(self, node_id: int) -> None:
        placement, catalog = Static(node_id, self._document), FileCatalog(str(self._directory))
        nodes = ClusterFile(str(self._directory / "cluster.json"), placement.read, Silent())
        settings = Settings(node_id=node_id, **{FIELDS[key].name: value for key, value in self.settings.items()})
        broker = self._brokers[node_id] = Broker(
            settings,
            directory=None,
            port=self.ports[node_id],
            placement=placement,
            catalog=catalog,
            cluster_id=CLUSTER_ID,
            looks=(catalog.look, nodes.look),
        )
        await broker.start()

    def kill(self, node_id: int) -> None:
        """End a node as kill -9 does."""
        self._run(self._brokers.pop(node_id).abandon())
        self._tell(list(self._brokers))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def __exit__(self, *_: object) -> None:
        for node_id in list(self._brokers):
            self.kill(node_id)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        shutil.rmtree(self._directory, ignore_errors=True)
