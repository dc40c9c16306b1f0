"""docs/data-directory.md says which release reads which format, as the code and the version of this project have it."""

from __future__ import annotations

import re

import pytest

from ottla.broker.engine import Corrupt
from ottla.broker.storage.local.layout import FORMAT, decode_meta, encode_meta
from tests.house.sources import PROJECT, ROOT

VERSION: str = PROJECT["version"]
ROWS: dict[int, tuple[str, str]] = {
    int(number): (written, read)
    for number, written, read in re.findall(
        r"^\| (\d+) \| ([^|]*) \| ([^|]*) \|", (ROOT / "docs/data-directory.md").read_text("utf-8"), re.MULTILINE
    )
}


def meta(number: int) -> bytes:
    return re.sub(rb"format=\d+", b"format=%d" % number, encode_meta("MkU3OEVBNTcwNTJENDM2Qk", 1))


def test_todays_format_is_in_the_table() -> None:
    written, read = ROWS[FORMAT]
    assert VERSION in written, "the release that writes it"
    assert VERSION in read
    assert max(ROWS) == FORMAT


@pytest.mark.parametrize("number", ROWS)
def test_every_format_of_the_table_is_read(number: int) -> None:
    assert decode_meta(meta(number), "meta.properties")[2] == number
    assert VERSION in ROWS[number][1]


@pytest.mark.parametrize("number", [0, FORMAT + 1])
def test_another_format_is_refused_with_both_numbers(number: int) -> None:
    with pytest.raises(Corrupt, match=rf"format '{number}', this version writes {FORMAT}"):
        decode_meta(meta(number), "meta.properties")
