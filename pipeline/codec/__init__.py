"""From bytes of a log to columns, with numpy and Arrow: no Spark, no loop over records, no socket.

Reading goes in two steps. `walk` finds the records in the bytes of one partition, as Fetch gives them or as a segment
holds them, and keeps them as columns of numbers over one buffer (`Chunk`). `decode` makes a table's rows of them:

    chunk = walk(data, topic="__consumer_offsets", partition=7, start_offset=100, end_offset=5000)
    rows = decode("commits", chunk)    # a pyarrow.RecordBatch with exactly schema("commits")
    # and so on at data[chunk.consumed:] with more bytes behind it, or with a Fetch from chunk.next_offset

What cannot be read is never lost and never an exception: a record goes to the rows of kind ``quarantine`` with the
reason, a batch to `Chunk.damage` (and to ``quarantine`` too). What is committed, deleted or aborted is decided by the
log: control batches and those of aborted transactions are left out. A log without Fetch to name its aborted
transactions is scanned for them by `Transactions`.
"""

from __future__ import annotations

from ottla.pipeline.codec.chunk import Aborted, Chunk, Damage
from ottla.pipeline.codec.kinds import KINDS, UnknownKind, decode, schema, table_of
from ottla.pipeline.codec.transactions import Transactions
from ottla.pipeline.codec.walk import walk

__all__ = ["KINDS", "Aborted", "Chunk", "Damage", "Transactions", "UnknownKind", "decode", "schema", "table_of", "walk"]
