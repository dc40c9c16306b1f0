"""The check of batches that replace segments, for every engine."""

from collections.abc import Sequence

from ottla.protocol.compression import Buffer
from ottla.protocol.records import HEADER_SIZE, BatchError, parse_header


def check_replacement(first_offset: int, next_offset: int, batches: Sequence[Buffer]) -> None:
    """Raise ``ValueError`` unless the batches are whole, rise and lie between the ends."""
    due = first_offset
    for batch in batches:
        try:
            header = parse_header(bytes(batch[:HEADER_SIZE]))
        except BatchError as error:
            raise ValueError(f"what should replace a segment is no batch: {error}") from None
        if header.base_offset < due or header.last_offset >= next_offset or header.size != len(batch):
            raise ValueError(f"the batch at {header.base_offset} does not lie in its place")
        due = header.last_offset + 1
