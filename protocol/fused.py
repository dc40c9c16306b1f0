"""Straight-line decode and encode code, made from a layout's leaf.

A `StructLeaf` is walked once and a Python function is written: runs of fixed-size fields become one
``struct.unpack_from``, strings and arrays become inline code with the same checks that the leaves make. The function
does what ``Layout.parse`` or ``Layout.build`` do, ten to forty times faster; property tests hold the two together.
When a decoder refuses, `Layout.decode` lets the leaf find the path of the field that is wrong, unless the
message is long.

Each function can be written as steps, too (`ottla.protocol.steps`): the same code, which stops between array items.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from ottla.protocol.errors import MalformedFrame
from ottla.protocol.framing import SHARED_BYTES, gathered
from ottla.protocol.primitives import (
    MAX_TEXT_BYTES,
    SMALL_UVARINTS,
    UNKNOWN_BYTE_ITEMS,
    ArrayLeaf,
    Fixed,
    Leaf,
    Sized,
    UuidLeaf,
    cut_text,
    uuid_of,
    uvarint,
    uvarint_bytes,
)
from ottla.protocol.structs import StructLeaf, WireField, answer_too_large, has_records, most_answered, shared_default

Encoder = Callable[[Any], bytes]

STEP_ITEMS: Final = 500
"""Array items that are decoded or encoded in one step. One takes a microsecond or two; those within it count, too."""

ITEM_BYTES: Final = 64
"""As one item count so many bytes of what is written once and stands in a message again and again."""

GATHERED_BYTES: Final = 64 << 10
"""Responses with records, or with what they say again and again, are left in pieces if they are at least so large."""

FOLDED_CHUNKS: Final = 4096
"""So many small chunks of a message are joined before it goes on. Each takes fifty bytes besides what it holds."""

FOLDING_ITEMS: Final = 64
"""The chunks of shorter arrays are not counted."""


class _Source:
    """Lines of the function being written, and the objects that it names; with ``in_steps`` it is a generator."""

    def __init__(self, in_steps: bool = False) -> None:
        self.in_steps = in_steps
        self.lines: list[str] = ["    since = 0"] if in_steps else []
        self.names: dict[str, Any] = {
            "uvarint": uvarint,
            "uvarint_bytes": uvarint_bytes,
            "cut_text": cut_text,
            "SMALL": SMALL_UVARINTS,
            "new": object.__new__,
            "uuid_of": uuid_of,
            "bad": _bad,
        }
        self.depth = 1
        self.counter = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def pause(self, items: str = "1") -> None:
        """Let the function stop here, after so many items, if it is made of steps."""
        if self.in_steps:
            self.line(f"since += {items}")
            self.line(f"if since >= {STEP_ITEMS}:")
            self.line("    since = 0")
            self.line("    yield")

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def bind(self, stem: str, value: Any) -> str:
        """A name for an object; one name for one object."""
        for name, bound in self.names.items():
            if bound is value:
                return name
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def packer(self, stem: str, code: str) -> str:
        method = "unpack_from" if stem == "unpack" else "pack"
        key = f"{stem}_{code.replace('?', 'B1')}"
        self.names.setdefault(key, getattr(struct.Struct(">" + code), method))
        return key

    def compile(self, signature: str) -> Any:
        if self.in_steps:
            self.line("yield")  # never reached: what has no arrays has no other step
        text = f"def {signature}:\n" + "\n".join(self.lines) + "\n"
        exec(compile(text, f"<fused {signature}>", "exec"), self.names)
        return self.names[signature.partition("(")[0]]


_WRONG = {
    "null": "null where it is not allowed",
    "short": "more bytes announced than are left",
    "long": "a string of more than 32,767 bytes",
    "count": "more items announced than bytes are left",
    "items": "more array items and tags than one message may hold",
    "tags": "more tags announced than bytes are left",
    "tag": "a tagged field is not as long as announced",
}


def _bad(what: str) -> MalformedFrame:
    return MalformedFrame(_WRONG[what])


# ---------------------------------------------------------------------------------------------------------- decoding


def fused_decoder(layout: StructLeaf, max_items: int, *, in_steps: bool = False) -> Any:
    """Write ``decode(data, offset) -> message`` for a layout's leaf; with ``in_steps`` as steps.

    ``max_items`` bounds the items of all its arrays, and its tags, together.

    The function raises MalformedFrame, IndexError, struct.error or UnicodeDecodeError for bytes that the leaf
    refuses; it ignores what follows the message.
    """
    source = _Source(in_steps)
    source.line("end = len(data)")
    source.line(f"left = {max_items}")
    result = _DecodeWriter(source).struct(layout)
    source.line(f"return {result}")
    return source.compile("decode(data, p=0)")


class _DecodeWriter:
    """Writes reading code. ``p`` is the position, ``end`` the length of the data.

    Fixed fields are not read where they stand but gathered, until something of variable size needs the position:
    then all of them, and the length prefix that follows, are read by one ``unpack_from``.
    """

    def __init__(self, source: _Source) -> None:
        self.source = source
        self.pending: list[tuple[str, str]] = []  # (struct code, target)

    def flush(self, extra: tuple[str, str] | None = None) -> None:
        run = self.pending + ([extra] if extra else [])
        self.pending = []
        if not run:
            return
        codes = "".join(code for code, _ in run)
        targets = ", ".join(target for _, target in run)
        self.source.line(f"{targets}, = {self.source.packer('unpack', codes)}(data, p)")
        self.source.line(f"p += {struct.calcsize('>' + codes)}")

    def struct(self, leaf: StructLeaf) -> str:
        """Write the reading of a struct's fields; returns the variable that holds the object."""
        source = self.source
        self.flush()
        target = source.fresh("o")
        source.line(f"{target} = new({source.bind('Cls', leaf.cls)})")
        for name, field_leaf in leaf.fields:
            self.value(field_leaf, f"{target}.{name}")
        for field in leaf.absent:
            source.line(f"{target}.{field.name} = {self.default(field)}")
        if leaf.flexible:
            self.tags(leaf, target)
        self.flush()
        return target

    def default(self, field: WireField) -> str:
        if isinstance(field.default, list):
            return "[]"
        if isinstance(field.default, type):
            return f"{self.source.bind('Cls', field.default)}()"
        if field.default is None or isinstance(field.default, (bool, int, str, bytes)):
            return repr(field.default)
        return self.source.bind("default", field.default)

    def value(self, leaf: Leaf, target: str) -> None:
        match leaf:
            case Fixed():
                self.pending.append((leaf.code, target))
            case UuidLeaf():
                raw = self.source.fresh("u")
                self.flush(("16s", raw))
                self.source.line(f"{target} = uuid_of({raw})")
            case Sized():
                self.sized(leaf, target)
            case ArrayLeaf():
                self.array(leaf, target)
            case StructLeaf():
                self.nested(leaf, target)
            case _:
                raise TypeError(f"no fused form for {leaf!r}")

    def length(self, leaf: Sized | ArrayLeaf, code: str) -> str:
        """Read a length or count into a variable: -1 or less is null."""
        source = self.source
        size = source.fresh("n")
        if leaf.compact:
            self.flush(("B", size))
            source.line(f"if {size} > 127:")
            source.line(f"    {size}, p = uvarint(data, p - 1)")
            if isinstance(leaf, Sized) and leaf.text:
                source.line(f"    if {size} > {MAX_TEXT_BYTES + 1}: raise bad('long')")
            source.line(f"{size} -= 1")
        else:
            self.flush((code, size))
        return size

    def sized(self, leaf: Sized, target: str) -> None:
        source = self.source
        size = self.length(leaf, leaf.length_code)
        source.line(f"if {size} < 0:")
        if leaf.nullable:
            source.line(f"    {target} = None")
            source.line("else:")
        else:
            source.line("    raise bad('null')")
        if leaf.nullable:
            source.depth += 1
        source.line(f"q = p + {size}")
        source.line("if q > end: raise bad('short')")
        part = f"data[p:q]{'.decode()' if leaf.text else ''}"
        if leaf.shared:
            part += f" if {size} < {SHARED_BYTES} else memoryview(data)[p:q]"
        source.line(f"{target} = {part}")
        source.line("p = q")
        if leaf.nullable:
            source.depth -= 1

    def array(self, leaf: ArrayLeaf, target: str) -> None:
        source = self.source
        count = self.length(leaf, "i")
        source.line(f"if {count} < 0:")
        source.line(f"    {target} = None" if leaf.nullable else "    raise bad('null')")
        minimum = max(1, leaf.item.minimum)
        source.line(f"elif {count} * {minimum} > end - p:")
        source.line("    raise bad('count')")
        source.line("else:")
        source.depth += 1
        source.line(f"left -= {count}")
        source.line("if left < 0: raise bad('items')")
        if isinstance(leaf.item, Fixed):
            source.line(f"{target} = list(unpack('>%d{leaf.item.code}' % {count}, data, p))")
            source.names["unpack"] = struct.unpack_from
            source.line(f"p += {count} * {minimum}")
        else:
            items, item = source.fresh("xs"), source.fresh("x")
            source.line(f"{items} = {target} = []")
            source.line(f"for _ in range({count}):")
            source.depth += 1
            if isinstance(leaf.item, StructLeaf) and not leaf.item.nullable:
                item = self.struct(leaf.item)
            else:
                self.value(leaf.item, item)
                self.flush()
            source.line(f"{items}.append({item})")
            source.pause()
            source.depth -= 1
        source.depth -= 1

    def nested(self, leaf: StructLeaf, target: str) -> None:
        source = self.source
        if not leaf.nullable:
            source.line(f"{target} = {self.struct(leaf)}")
            return
        marker = source.fresh("n")
        self.flush(("b", marker))
        source.line(f"if not {marker}:" if leaf.is_tagged else f"if {marker} < 0:")
        source.line(f"    {target} = None")
        source.line("else:")
        source.depth += 1
        source.line(f"{target} = {self.struct(leaf)}")
        source.depth -= 1

    def tags(self, leaf: StructLeaf, target: str) -> None:
        """Tagged fields: known ones are read, unknown ones skipped (KIP-482)."""
        source = self.source
        count = source.fresh("n")
        self.flush(("B", count))
        source.line(f"if {count}:")
        source.depth += 1
        tag, size, stop = source.fresh("tag"), source.fresh("n"), source.fresh("stop")
        source.line(f"{count}, p = uvarint(data, p - 1)")
        source.line(f"if {count} * 2 > end - p: raise bad('tags')")
        source.line(f"left -= {count}")
        source.line("if left < 0: raise bad('items')")
        source.line(f"for _ in range({count}):")
        source.depth += 1
        source.line(f"{tag}, p = uvarint(data, p)")
        source.line(f"{size}, p = uvarint(data, p)")
        source.line(f"{stop} = p + {size}")
        source.line(f"if {stop} > end: raise bad('tag')")
        for field, field_leaf in leaf.tagged:
            source.line(f"if {tag} == {field.tag}:")
            # Read from a copy that ends where the tag ends: its counts and lengths are bounded by it.
            source.line(f"    {target}.{field.name}, left = {self.tag_reader(field_leaf)}(data[p:{stop}], left)")
        source.line(f"if {tag} not in {tuple(field.tag for field, _ in leaf.tagged)}:")
        source.line(f"    left -= {size} * {UNKNOWN_BYTE_ITEMS}")
        source.line("    if left < 0: raise bad('items')")
        source.line(f"p = {stop}")
        source.depth -= 2

    def tag_reader(self, leaf: Leaf) -> str:
        inner = _Source()
        inner.line("p = 0")
        inner.line("end = len(data)")
        writer = _DecodeWriter(inner)
        writer.value(leaf, "value")
        writer.flush()
        inner.line("if p != end: raise bad('tag')")
        inner.line("return value, left")
        return self.source.bind("tag_reader", inner.compile("tag_reader(data, left)"))


# ---------------------------------------------------------------------------------------------------------- encoding


def fused_encoder(layout: StructLeaf) -> Encoder:
    """Write ``encode(message) -> bytes`` for a layout's leaf."""
    source = _Source()
    writer = _EncodeWriter(source, has_records(layout))
    writer.struct(layout, "o")
    source.line(f"return {writer.finish()}")
    encode: Encoder = source.compile("encode(o)")
    return encode


def fused_response_encoder(layout: StructLeaf, header_tags: bool, *, in_steps: bool = False) -> Any:
    """Write ``encode_response(message, correlation_id) -> frame`` with length and response header in front.

    The function raises AnswerTooLarge, as soon as it is known. With ``in_steps`` it gives the frame as steps, and
    leaves large ones in pieces whatever is in them.
    """
    most = most_answered(layout)
    source = _Source(in_steps)
    writer = _EncodeWriter(source, has_records(layout), most, partial(answer_too_large, layout.cls, most))
    writer.pending.append(("i", "LENGTH"))
    writer.pending.append(("i", "correlation_id"))
    if header_tags:
        writer.pending.append(("B", "0"))
    writer.struct(layout, "o")
    source.line(f"return {writer.finish(framed=True)}")
    return source.compile("encode_response(o, correlation_id)")


def folding(items: list[Any], chunks: list[bytes], most: int, too_large: Callable[[], Exception]) -> Iterator[Any]:
    """Give the items one by one. What has been written of them is joined now and then, in place."""
    begin = len(chunks)
    for item in items:
        if len(chunks) - begin > FOLDED_CHUNKS:
            if sum(map(len, chunks)) > most:
                raise too_large()
            chunks[begin:] = gathered(chunks[begin:], 0).pieces
            begin = len(chunks)
        yield item


class _EncodeWriter:
    """Writes building code: fixed fields are gathered into one ``pack``, the rest are chunks joined at the end.

    Args:
        has_records: whether record batches are among the chunks, which are not to be copied more than is needed.
        most: how many bytes there may be; ``too_large`` makes what is raised for more.
    """

    def __init__(
        self,
        source: _Source,
        has_records: bool = False,
        most: int = sys.maxsize,
        too_large: Callable[[], Exception] = OverflowError,
    ) -> None:
        self.source = source
        self.pending: list[tuple[str, str]] = []  # (struct code, expression)
        self.chunked = False
        self.has_records = has_records
        # Also what stands in a message again and again is there once; and to join all of it would be one long step.
        self.is_gathered = has_records or source.in_steps
        self.most = most
        self.too_large = source.names["too_large"] = too_large

    def chunks(self) -> None:
        """Begin the list of chunks, unless it has begun."""
        if not self.chunked:
            self.chunked = True
            self.source.line("w = []")
            self.source.line("add = w.append")

    def packed(self) -> str:
        codes = "".join(code for code, _ in self.pending)
        values = ", ".join(expression for _, expression in self.pending)
        self.pending = []
        return f"{self.source.packer('pack', codes)}({values})"

    def flush(self) -> None:
        if self.pending:
            self.chunks()
            self.source.line(f"add({self.packed()})")

    def finish(self, framed: bool = False) -> str:
        """The expression of the whole message."""
        source = self.source
        if not self.chunked:
            size = struct.calcsize(">" + "".join(code for code, _ in self.pending))
            source.names["LENGTH"] = size - 4
            return self.packed() if self.pending else "b''"
        self.flush()
        if framed:
            # The first chunk begins with the length, known only now.
            source.names["LENGTH"] = 0
            source.line("size = sum(map(len, w))")
            source.line(f"if size > {self.most}: raise too_large()")
            source.line(f"w[0] = {source.packer('pack', 'i')}(size - 4) + w[0][4:]")
        if framed and self.is_gathered:
            source.names["gathered"] = gathered
            return f"b''.join(w) if size < {GATHERED_BYTES} else gathered(w, size)"
        return "b''.join(w)"

    def struct(self, leaf: StructLeaf, value: str) -> None:
        for name, field_leaf in leaf.fields:
            self.value(field_leaf, f"{value}.{name}")
        if leaf.flexible:
            if leaf.tagged:
                self.tags(leaf, value)
            else:
                self.pending.append(("B", "0"))

    def value(self, leaf: Leaf, value: str) -> None:
        match leaf:
            case Fixed():
                self.pending.append((leaf.code, value))
            case UuidLeaf():
                self.pending.append(("16s", f"{value}.bytes"))
            case Sized():
                self.sized(leaf, value)
            case ArrayLeaf():
                self.array(leaf, value)
            case StructLeaf():
                self.nested(leaf, value)
            case _:
                raise TypeError(f"no fused form for {leaf!r}")

    def null(self, leaf: Sized | ArrayLeaf) -> str:
        return "b'\\0'" if leaf.compact else repr(b"\xff" * leaf.minimum)

    def sized(self, leaf: Sized, value: str) -> None:
        source = self.source
        data = source.fresh("s")
        source.line(f"{data} = {value}")
        if leaf.nullable:
            self.flush()
            self.chunks()
            source.line(f"if {data} is None:")
            source.line(f"    add({self.null(leaf)})")
            source.line("else:")
            source.depth += 1
        if leaf.text:
            source.line(f"{data} = {data}.encode()")
        if leaf.cut:
            source.line(f"if len({data}) > {MAX_TEXT_BYTES}: {data} = cut_text({data})")
        if leaf.compact:
            self.flush()
            self.chunks()
            size = source.fresh("n")
            source.line(f"{size} = len({data}) + 1")
            source.line(f"add(SMALL[{size}] if {size} < 128 else uvarint_bytes({size}))")
        else:
            self.pending.append((leaf.length_code, f"len({data})"))
            self.flush()
        source.line(f"add({data})")
        if leaf.nullable:
            source.depth -= 1

    def array(self, leaf: ArrayLeaf, value: str) -> None:
        source = self.source
        items = source.fresh("xs")
        self.flush()
        self.chunks()
        source.line(f"{items} = {value}")
        if leaf.nullable:
            source.line(f"if {items} is None:")
            source.line(f"    add({self.null(leaf)})")
            source.line("else:")
            source.depth += 1
        if leaf.compact:
            source.line(f"add(uvarint_bytes(len({items}) + 1))")
        else:
            source.line(f"add({source.packer('pack', 'i')}(len({items})))")
        if isinstance(leaf.item, Fixed):
            source.names["pack"] = struct.pack
            source.line(f"add(pack('>%d{leaf.item.code}' % len({items}), *{items}))")
        elif leaf.repeats:
            self.repeated(leaf.item, items)
        else:
            item = source.fresh("x")
            are_left = self.has_records and not source.in_steps
            source.line(f"for {item} in {items if are_left else self.folded(items)}:")
            source.depth += 1
            before = len(source.lines)
            self.value(leaf.item, item)
            self.flush()
            source.pause()
            if len(source.lines) == before:
                source.line("pass")
            source.depth -= 1
        if leaf.nullable:
            source.depth -= 1

    def folded(self, items: str) -> str:
        self.source.names["folding"] = folding
        return f"{items} if len({items}) < {FOLDING_ITEMS} else folding({items}, w, {self.most}, too_large)"

    def repeated(self, leaf: Leaf, items: str) -> None:
        """Items of which one may be the same object as another, here or in another array of this field."""
        source = self.source
        self.is_gathered = True
        inner = _Source(source.in_steps)
        writer = _EncodeWriter(inner, self.has_records, self.most, self.too_large)
        writer.value(leaf, "value")
        inner.line(f"return {writer.finish()}")
        build = source.bind("item_writer", inner.compile("item_writer(value)"))
        known, item, part = source.fresh("known"), source.fresh("x"), source.fresh("s")
        source.lines.insert(0, f"    {known} = {{}}")
        # The message holds every item until it is written: no other object gets the id of one.
        source.line(f"for {item} in {self.folded(items) if source.in_steps else items}:")
        source.depth += 1
        source.line(f"{part} = {known}.get(id({item}))")
        built = f"(yield from {build}({item}))" if source.in_steps else f"{build}({item})"
        source.line(f"if {part} is None: {part} = {known}[id({item})] = {built}")
        source.line(f"add({part})")
        source.pause(f"1 + len({part}) // {ITEM_BYTES}")
        source.depth -= 1

    def nested(self, leaf: StructLeaf, value: str) -> None:
        source = self.source
        if not leaf.nullable:
            self.struct(leaf, value)
            return
        self.flush()
        self.chunks()
        source.line(f"if {value} is None:")
        source.line(f"    add({leaf.null!r})")
        source.line("else:")
        source.depth += 1
        self.pending.append(("b", "1"))
        self.struct(leaf, value)
        self.flush()
        source.depth -= 1

    def tags(self, leaf: StructLeaf, value: str) -> None:
        """Tagged fields are written only where they differ from their default."""
        source = self.source
        self.flush()
        self.chunks()
        tags = source.fresh("t")
        source.line(f"{tags} = []")
        for field, field_leaf in leaf.tagged:
            inner = _Source()
            writer = _EncodeWriter(inner)
            writer.value(field_leaf, "value")
            inner.line(f"return {writer.finish()}")
            build = source.bind("tag_writer", inner.compile("tag_writer(value)"))
            if isinstance(field.default, list):
                source.line(f"if {value}.{field.name} is None or len({value}.{field.name}):")
            elif isinstance(field_leaf, UuidLeaf):
                source.line(f"if {value}.{field.name}.int != {field.default.int}:")  # UUID.__eq__ is Python
            else:
                is_struct = isinstance(field.default, type)
                default = source.bind("default", shared_default(field.default) if is_struct else field.fresh_default())
                # Comparing structs costs more than all else that is written of them.
                quick = f"{value}.{field.name} is not {default} and " if is_struct else ""
                source.line(f"if {quick}{value}.{field.name} != {default}:")
            source.line(f"    {tags}.append(({field.tag}, {build}({value}.{field.name})))")
        source.line(f"add(uvarint_bytes(len({tags})))")
        source.line(f"for tag, s in {tags}:")
        source.line("    add(uvarint_bytes(tag)); add(uvarint_bytes(len(s))); add(s)")
