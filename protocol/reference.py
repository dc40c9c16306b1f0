"""The construct object of a leaf, for `protocol.codec=construct` and for tests: the reference of the fused codecs."""

from __future__ import annotations

from typing import Any

from construct import Construct

from ottla.protocol.primitives import Leaf


class Reference(Construct):  # type: ignore[misc]
    """Reads and writes as its leaf does, and can be a part of other constructs."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self.leaf = leaf

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        return self.leaf.parse(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        return self.leaf.build(obj, stream, context, path)
