"""A catalog that several nodes share, in a file or in one process: changes over a version, and who hears of them."""

import asyncio
import json
import os

import pytest

from ottla.broker.engine import Corrupt, Outdated, StorageFull, Unavailable, Unknown
from ottla.broker.storage.local import catalog as catalogs
from ottla.broker.storage.local.catalog import FileCatalog, locked
from ottla.broker.storage.local.engine import LocalEngine
from ottla.broker.storage.local.files import Files
from ottla.broker.storage.local.unused import unused_catalog
from ottla.broker.storage.memory import MemoryCatalog, MemoryDocument, MemoryEngine


class Node:
    """One of the nodes: its catalog, and how often it heard that somebody else may have changed it."""

    def __init__(self, catalog):
        self.catalog = catalog
        self.heard = 0
        catalog.on_changed = self.hear

    def hear(self):
        self.heard += 1

    def look(self):
        """Look at the file as the node does from time to time; in memory it was told already."""
        if isinstance(self.catalog, FileCatalog):
            self.catalog.look()


@pytest.fixture(params=["file", "memory"])
def nodes(request, tmp_path):
    document = MemoryDocument()
    return [Node(FileCatalog(str(tmp_path)) if request.param == "file" else MemoryCatalog(document)) for _ in range(3)]


async def test_what_one_stores_the_others_read(nodes):
    first, second, third = nodes
    assert await first.catalog.store({"number": 1}, over=0) == 1
    assert (second.catalog.load(), second.catalog.version) == (None, 0)
    await second.catalog.refresh()
    assert (second.catalog.load(), second.catalog.version) == ({"number": 1}, 1)
    assert await second.catalog.store({"number": 2}, over=1) == 2
    for node in (first, third):
        await node.catalog.refresh()
        assert (node.catalog.load(), node.catalog.version) == ({"number": 2}, 2)


async def test_a_change_that_was_planned_on_an_older_one_is_not_made(nodes):
    first, second, _ = nodes
    await first.catalog.store({"number": 1}, over=0)
    with pytest.raises(Outdated):
        await second.catalog.store({"number": 2}, over=0)
    await second.catalog.refresh()
    assert second.catalog.load() == {"number": 1}


async def test_every_change_is_made_over_the_one_before(nodes):
    """Counters that all nodes raise at once, each trying until it succeeds."""

    async def raise_it(node):
        for _ in range(10):
            while True:
                state = node.catalog.load() or {"number": 0}
                try:
                    await node.catalog.store({"number": state["number"] + 1}, over=node.catalog.version)
                    break
                except Outdated:
                    await node.catalog.refresh()

    await asyncio.gather(*map(raise_it, nodes))
    await nodes[0].catalog.refresh()
    assert (nodes[0].catalog.load(), nodes[0].catalog.version) == ({"number": 30}, 30)


async def test_the_others_hear_of_a_change(nodes):
    for node in nodes:
        node.look()
        node.look()
    heard = [node.heard for node in nodes]
    await nodes[0].catalog.store({"number": 1}, over=0)
    nodes[1].look()
    assert nodes[1].heard > heard[1]
    await nodes[1].catalog.refresh()
    assert nodes[1].catalog.version == 1


@pytest.mark.parametrize("kind", ["local", "memory"])
async def test_engines_take_it_for_their_own(kind, tmp_path, new_uuid):
    def engine(node_id):
        catalog = FileCatalog(str(tmp_path))
        if kind == "memory":
            return MemoryEngine(node_id=node_id, new_uuid=new_uuid, catalog=catalog)
        directory = str(tmp_path if node_id == 1 else tmp_path / f"nodes/{node_id}")
        return LocalEngine(directory, node_id=node_id, new_uuid=new_uuid, threaded=False, catalog=catalog)

    engines = [engine(1), engine(2)]
    for one in engines:
        await one.open()
    await engines[0].catalog.store({"number": 1}, over=0)
    await engines[1].catalog.refresh()
    await engines[1].catalog.store({"number": 2}, over=1)
    for one in engines:
        await one.close()
    # A single broker goes on where node 1 has been.
    single = LocalEngine(str(tmp_path), node_id=1, new_uuid=new_uuid, threaded=False)
    await single.open()
    assert (single.catalog.load(), single.catalog.version) == ({"number": 2}, 2)
    await single.close()


# -- the file


@pytest.fixture
def file_catalog(tmp_path):
    return FileCatalog(str(tmp_path))


async def test_a_catalog_without_a_version_is_the_first(tmp_path, file_catalog):
    (tmp_path / "catalog.json").write_text(json.dumps({"format": 1, "state": {"number": 1}}))
    await file_catalog.refresh()
    assert (file_catalog.load(), file_catalog.version) == ({"number": 1}, 1)
    assert await file_catalog.store({"number": 2}, over=1) == 2


async def test_one_that_looks_as_before_is_read_once_more(tmp_path, file_catalog):
    """Where it was replaced twice within a tick of the clock, ``stat`` may not tell."""
    await file_catalog.store({"number": 1}, over=0)
    node = Node(file_catalog)
    path = tmp_path / "catalog.json"
    before = os.stat(path)
    path.write_bytes(path.read_bytes().replace(b'"number": 1', b'"number": 7').replace(b'version": 1', b'version": 2'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    node.look()
    assert node.heard == 1
    await file_catalog.refresh()
    assert file_catalog.load() == {"number": 7}
    for _ in range(5):
        node.look()
    assert node.heard == 2  # and then it is left alone


async def test_a_lock_that_is_kept_fails_the_change(tmp_path, file_catalog, monkeypatch):
    monkeypatch.setattr(catalogs, "LOCK_S", 0)
    path = str(tmp_path / "catalog.lock")
    with locked(Files(), path), pytest.raises(Unavailable, match="held by another process"):
        await file_catalog.store({"number": 1}, over=0)
    assert not (tmp_path / "catalog.json").exists()
    assert await file_catalog.store({"number": 1}, over=0) == 1


async def test_a_change_waits_for_the_one_before(tmp_path, file_catalog):
    with locked(Files(), str(tmp_path / "catalog.lock")):
        change = asyncio.ensure_future(file_catalog.store({"number": 1}, over=0))
        done, _ = await asyncio.wait([change], timeout=0.02)
        assert not done
    assert await change == 1


class Full(Files):
    def write(self, handle, pieces, offset):
        raise OSError(28, "No space left on device")


class Unsynced(Files):
    def sync_directory(self, handle):
        raise OSError(5, "Input/output error")


async def test_no_room_leaves_the_old_one(tmp_path):
    await FileCatalog(str(tmp_path)).store({"number": 1}, over=0)
    full = FileCatalog(str(tmp_path), files=Full())
    await full.refresh()
    with pytest.raises(StorageFull):
        await full.store({"number": 2}, over=1)
    await full.refresh()
    assert full.load() == {"number": 1}


async def test_a_change_that_cannot_be_synced_is_in_doubt(tmp_path):
    catalog, told = FileCatalog(str(tmp_path), files=Unsynced()), []
    catalog.on_fatal = told.append
    with pytest.raises(Unknown) as raised:
        await catalog.store({"number": 1}, over=0)
    assert told == [raised.value]


async def test_one_that_cannot_be_read_is_refused(tmp_path, file_catalog):
    (tmp_path / "catalog.json").write_text("{")
    with pytest.raises(Corrupt, match=r"catalog\.json"):
        await file_catalog.refresh()


async def test_what_a_command_changes_beside_nodes_counts(tmp_path, file_catalog):
    await file_catalog.store({"number": 1}, over=0)
    with unused_catalog(str(tmp_path)) as (state, store):
        store({"number": state["number"] + 1})
    with pytest.raises(Outdated):
        await file_catalog.store({"number": 9}, over=1)
    await file_catalog.refresh()
    assert (file_catalog.load(), file_catalog.version) == ({"number": 2}, 2)
