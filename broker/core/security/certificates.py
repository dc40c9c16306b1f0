"""What an X.509 certificate (RFC 5280) says: whose it is, for which names, and until when.

Read from its DER, so that nothing has to be imported for it: a certificate of a client comes with every connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final, NamedTuple

MOST_NAME_BYTES: Final = 4_096
"""A longer subject is refused: what it is told as is held against patterns."""

_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_GENERALIZED_TIME: Final = 0x18
_SUBJECT_ALTERNATIVE_NAME: Final = bytes.fromhex("551d11")
_HOST: Final = 0x82
_ADDRESS: Final = 0x87
_KEYWORDS: Final = {
    bytes.fromhex(encoded): keyword
    for encoded, keyword in (
        ("550403", "CN"),
        ("550406", "C"),
        ("55040a", "O"),
        ("55040b", "OU"),
        ("550407", "L"),
        ("550408", "ST"),
        ("550409", "STREET"),
        ("0992268993f22c640119", "DC"),
        ("0992268993f22c640101", "UID"),
    )
}
"""The types that RFC 2253 has words for, by their object identifiers."""
_TEXTS: Final = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E)
"""UTF8String, PrintableString, TeletexString, IA5String, GeneralString, BMPString: what Java prints as text."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')


class Certificate(NamedTuple):
    """A certificate.

    Attributes:
        subject: as Java prints it; see `name_of`.
        issuer: the same of who signed it.
        not_before, not_after: from when and until when it is good, in UTC: ``20261231235959Z``.
        alternative_names: each as the DER of a GeneralName.
    """

    subject: str
    issuer: str
    not_before: str
    not_after: str
    alternative_names: tuple[bytes, ...]

    @property
    def names(self) -> list[str]:
        """The hosts and addresses that it is for."""
        return [text for one in self.alternative_names if (text := host_of(one))]

    @property
    def signed_itself(self) -> bool:
        """Whether it is the end of a chain."""
        return self.issuer == self.subject


def host_of(general_name: bytes) -> str:
    """The host or the address that an alternative name is; empty if it is of another kind."""
    (tag, value, _), *_ = _parts(general_name)
    if tag == _ADDRESS and len(value) in (4, 16):
        return str(ip_address(value))
    return value.decode("ascii", "replace") if tag == _HOST else ""


def read_certificate(der: bytes) -> Certificate:
    """Read a certificate.

    Raises:
        ValueError: it is none.
    """
    (_, outer, _), *_ = _parts(der)
    (_, signed, _), *_ = _parts(outer)
    fields = [*_parts(signed)]
    if fields and fields[0][0] == _VERSION:
        del fields[0]
    if len(fields) < 6:
        raise ValueError("a certificate with too few fields")
    _, _, (_, issuer, _), (_, validity, _), (_, subject, _), _, *more = fields
    begin, end = [_time(tag, value) for tag, value, _ in _parts(validity)]
    names = [name for tag, value, _ in more if tag == _EXTENSIONS for name in _alternative_names(value)]
    return Certificate(name_of(subject), name_of(issuer), begin, end, tuple(names))


def name_of(rdns: bytes) -> str:
    """A name in the form of RFC 2253, to the letter as Java's ``X500Principal.getName()`` has it.

    Args:
        rdns: the relative distinguished names in DER, without the SEQUENCE around them.

    Raises:
        ValueError: it is no name, or too long.
    """
    if len(rdns) > MOST_NAME_BYTES:
        raise ValueError(f"a name of {len(rdns)} bytes; {MOST_NAME_BYTES} are allowed")
    names = ["+".join(_attribute(pair) for _, pair, _ in _parts(value)) for _, value, _ in _parts(rdns)]
    return ",".join(reversed(names))


def _attribute(pair: bytes) -> str:
    """One attribute: ``CN=alice``, or its dotted number and the DER of its value."""
    (_, kind, _), (tag, value, whole) = _parts(pair)
    keyword = _KEYWORDS.get(kind)
    if keyword is None:
        return f"{_dotted(kind)}=#{whole.hex()}"
    if tag not in _TEXTS:
        return f"{keyword}=#{whole.hex()}"
    text = value.decode("utf-8", "replace")  # also what is no UTF-8: so does Java
    inner = text.strip(" \r")
    lead = len(text) - len(text.lstrip(" \r"))
    escaped = "".join("\\" + c if c in _ESCAPED else "\\00" if c == "\0" else c for c in inner)
    outside = ["".join("\\" + c for c in blanks) for blanks in (text[:lead], text[lead + len(inner) :])]
    return f"{keyword}={outside[0]}{escaped}{outside[1]}"


def _dotted(kind: bytes) -> str:
    """An object identifier in numbers: 1.2.840.113549.1.9.1."""
    numbers, number = [], 0
    for byte in kind:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("an object identifier without a number")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _time(tag: int, value: bytes) -> str:
    """A time with four digits for the year: in two, 50 and later are of the last century (RFC 5280, 4.1.2.5.1)."""
    text = value.decode("ascii", "replace")
    if tag != _GENERALIZED_TIME:
        text = ("19" if text[:2] >= "50" else "20") + text
    if len(text) != 15 or not text[:-1].isdecimal() or text[-1] != "Z":
        raise ValueError(f"a time that is none: {text!r}")
    return text


def _alternative_names(wrapped: bytes) -> Iterator[bytes]:
    """The names in the extension for them, which is one of several."""
    for _, extensions, _ in _parts(wrapped):
        for _, extension, _ in _parts(extensions):
            (_, kind, _), *_, (_, value, _) = _parts(extension)
            if kind == _SUBJECT_ALTERNATIVE_NAME:
                for _, names, _ in _parts(value):
                    yield from (whole for _, _, whole in _parts(names))


def _parts(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The elements that follow each other: tag, content, and the whole of each.

    Raises:
        ValueError: it is no DER.
    """
    at = 0
    while at < len(data):
        begin, tag = at, data[at]
        at += 2
        length = data[begin + 1] if at <= len(data) else len(data)
        if length >= 0x80:
            count = length & 0x7F
            length = int.from_bytes(data[at : at + count], "big")
            at += count
        if at + length > len(data):
            raise ValueError("a certificate that is cut off")
        yield tag, data[at : at + length], data[begin : at + length]
        at += length
