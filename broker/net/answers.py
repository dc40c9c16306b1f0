"""Answers on their way to a client that may read slowly or not at all.

A large answer is handed to the transport in pieces, while it takes them. The rest is ours: it is given back at once
when the connection is closed.
"""

from __future__ import annotations

import asyncio
from collections import deque

from ottla.protocol.framing import Gathered

PIECE_BYTES = (1 << 20) + (64 << 10)
"""About how much is handed over at once. A megabyte, as consumers ask of each partition, is one piece."""
TLS_PIECE_BYTES = 128 << 10
"""The same under TLS. What it has encrypted lies in a transport below, and nobody can ask how much waits there: it
takes 64 KiB, and then the piece that it is given."""

Frame = bytes | Gathered
Buffer = bytes | bytearray | memoryview


class Answers:
    """See the module.

    Attributes:
        paused: the transport takes no more for now.
    """

    __slots__ = ("_below_bytes", "_piece_bytes", "_piece_taken", "_transport", "_unsent", "_unsent_bytes", "paused")

    def __init__(self, transport: asyncio.Transport, *, has_tls: bool = False) -> None:
        self._transport = transport
        self._piece_bytes = TLS_PIECE_BYTES if has_tls else PIECE_BYTES
        self._below_bytes = 2 * TLS_PIECE_BYTES if has_tls else 0  # below TLS, once that takes no more
        self._unsent: deque[Buffer] = deque()  # what the transport did not take
        self._unsent_bytes = 0
        self._piece_taken = 0  # bytes of the first one that the transport took: it lives on as a whole
        self.paused = False

    def __bool__(self) -> bool:
        """True if some of them wait here."""
        return bool(self._unsent)

    @property
    def unread_bytes(self) -> int:
        """Bytes that wait to be sent."""
        return self.kept_bytes - self._piece_taken

    @property
    def kept_bytes(self) -> int:
        """Bytes of memory that are held for them."""
        return self._unsent_bytes + self._transport.get_write_buffer_size() + self.paused * self._below_bytes

    def send(self, frame: Frame) -> bool:
        """Send an answer, or as much of it as the transport takes; True if it waits, as the client does not read."""
        if self._transport.is_closing():
            return False
        if self._unsent or len(frame) > self._piece_bytes:
            self._unsent.extend(frame.pieces if isinstance(frame, Gathered) else (frame,))
            self._unsent_bytes += len(frame)
            if self.paused:
                return True
            self.send_more()
        elif isinstance(frame, Gathered):
            self._transport.writelines(frame.pieces)
        else:
            self._transport.write(frame)
        return False

    def send_more(self) -> None:
        """Hand the transport what it takes; with its last byte it says that it takes no more."""
        unsent = self._unsent
        while unsent and not self.paused:
            pieces: list[Buffer] = []
            room = most = self._piece_bytes
            while unsent and room > 0:
                whole, taken = unsent[0], self._piece_taken
                left = min(len(whole) - taken, most)
                if taken or left < len(whole):
                    # A copy: a view would keep the whole alive as long as the transport has it, also when it is killed.
                    pieces.append(bytes(memoryview(whole)[taken : taken + left]))
                else:
                    pieces.append(whole)
                if taken + left < len(whole):
                    self._piece_taken += left
                else:
                    self._piece_taken = 0
                    self._unsent_bytes -= len(whole)
                    unsent.popleft()
                room -= left
            self._transport.writelines(pieces)

    def drop(self) -> None:
        """Give up what the transport has not taken."""
        self._unsent.clear()
        self._unsent_bytes = self._piece_taken = 0
