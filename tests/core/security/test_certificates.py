"""Names of certificates as Java prints them, and what else is read of certificates."""

from __future__ import annotations

import datetime
from ipaddress import ip_address
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.core.security.certificates import MOST_NAME_BYTES, name_of, read_certificate

UTF8, PRINTABLE, TELETEX, IA5, GENERAL, UNIVERSAL, BMP = 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E
NUMERIC, OCTETS, SEQUENCE, SET, IDENTIFIER = 0x12, 0x04, 0x30, 0x31, 0x06
TYPES = {
    "CN": "2.5.4.3",
    "C": "2.5.4.6",
    "L": "2.5.4.7",
    "ST": "2.5.4.8",
    "STREET": "2.5.4.9",
    "O": "2.5.4.10",
    "OU": "2.5.4.11",
    "UID": "0.9.2342.19200300.100.1.1",
    "DC": "0.9.2342.19200300.100.1.25",
}
SUBJECTS: list[tuple[list[list[tuple[Any, ...]]], str]] = [
    ([[("CN", "alice")]], "CN=alice"),
    (
        [
            [("C", "CZ", PRINTABLE)],
            [("ST", "Praha")],
            [("L", "Praha")],
            [("O", "Ottla")],
            [("OU", "Brokers")],
            [("CN", "broker-1")],
        ],
        "CN=broker-1,OU=Brokers,O=Ottla,L=Praha,ST=Praha,C=CZ",
    ),
    (
        [[("C", "DE", PRINTABLE)], [("O", "Müller & Söhne")], [("CN", "Jörg Groß")]],
        "CN=Jörg Groß,O=Müller & Söhne,C=DE",
    ),
    ([[("CN", "żółć ěščřž")]], "CN=żółć ěščřž"),
    ([[("CN", "日本語")]], "CN=日本語"),
    ([[("CN", "😀 smile")]], "CN=😀 smile"),
    ([], ""),
    ([[("CN", "")]], "CN="),
    ([[("O", "")], [("CN", "x")]], "CN=x,O="),
    (
        [[("1.2.840.113549.1.9.1", "alice@example.com", IA5)], [("CN", "alice")]],
        "CN=alice,1.2.840.113549.1.9.1=#1611616c696365406578616d706c652e636f6d",
    ),
    ([[("CN", "alice"), ("UID", "a17")]], "CN=alice+UID=a17"),
    ([[("UID", "a17"), ("CN", "alice"), ("OU", "x")], [("O", "y")]], "O=y,UID=a17+CN=alice+OU=x"),
    ([[("DC", "com", IA5)], [("DC", "example", IA5)], [("CN", "Bob", PRINTABLE)]], "CN=Bob,DC=example,DC=com"),
    ([[("STREET", "Na Příkopě 1")], [("CN", "x")]], "CN=x,STREET=Na Příkopě 1"),
    ([[("CN", "a,b")]], "CN=a\\,b"),
    ([[("CN", "a+b")]], "CN=a\\+b"),
    ([[("CN", 'say "hi"')]], 'CN=say \\"hi\\"'),
    ([[("CN", "back\\slash")]], "CN=back\\\\slash"),
    ([[("CN", "<a>;b")]], "CN=\\<a\\>\\;b"),
    ([[("CN", "a=b")]], "CN=a\\=b"),
    ([[("CN", "#1")]], "CN=\\#1"),
    ([[("CN", "a#1")]], "CN=a\\#1"),
    ([[("CN", " lead")]], "CN=\\ lead"),
    ([[("CN", "trail ")]], "CN=trail\\ "),
    ([[("CN", "  both  ")]], "CN=\\ \\ both\\ \\ "),
    ([[("CN", " ")]], "CN=\\ "),
    ([[("CN", "in  side")]], "CN=in  side"),
    ([[("CN", "nul\x00byte")]], "CN=nul\\00byte"),
    ([[("CN", "line\nbreak\ttab")]], "CN=line\nbreak\ttab"),
    ([[("CN", "\rcr\r")]], "CN=\\\rcr\\\r"),
    ([[("CN", b"J\xf6rg", TELETEX)]], "CN=J�rg"),
    ([[("CN", b"\x00J\x00\xf6\x00r\x00g", BMP)]], "CN=\\00J\\00�\\00r\\00g"),
    (
        [[("CN", b"\x00\x00\x00J\x00\x00\x00\xf6\x00\x00\x00r\x00\x00\x00g", UNIVERSAL)]],
        "CN=#1c100000004a000000f60000007200000067",
    ),
    ([[("CN", "12345", NUMERIC)]], "CN=#12053132333435"),
    ([[("CN", "ia5", IA5)]], "CN=ia5"),
    ([[("CN", "general", GENERAL)]], "CN=general"),
    ([[("CN", b"bad\xff\xc3utf")]], "CN=bad��utf"),
    ([[("2.5.4.5", "4711", PRINTABLE)], [("CN", "serial")]], "CN=serial,2.5.4.5=#130434373131"),
    (
        [[("2.5.4.12", "Dr.")], [("2.5.4.42", "Ota")], [("2.5.4.4", "David")], [("CN", "Ota David")]],
        "CN=Ota David,2.5.4.4=#0c054461766964,2.5.4.42=#0c034f7461,2.5.4.12=#0c0344722e",
    ),
    ([[("1.3.6.1.4.1.311.60.2.1.3", "CZ", PRINTABLE)], [("CN", "ev")]], "CN=ev,1.3.6.1.4.1.311.60.2.1.3=#1302435a"),
    ([[("2.999.1", "x")], [("CN", "arc")]], "CN=arc,2.999.1=#0c0178"),
    ([[("CN", "x" * 200)]], "CN=" + "x" * 200),
    ([[("CN", "a/b*?$")]], "CN=a/b*?$"),
    ([[("OU", "one")], [("OU", "two")], [("CN", "twice")]], "CN=twice,OU=two,OU=one"),
    ([[("CN", "ﬁ ligature ß İ")]], "CN=ﬁ ligature ß İ"),
    ([[("CN", "\ufeffbom\u200d")]], "CN=\ufeffbom\u200d"),
    ([[("CN", b"\x01\x02", OCTETS)]], "CN=#04020102"),
    ([[("CN", ", +")]], "CN=\\, \\+"),
]
"""Subjects in the order of the certificate, and what ``new X500Principal(der).getName()`` of Java 17 makes of them."""


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def identifier(kind: str) -> bytes:
    first, second, *others = map(int, TYPES.get(kind, kind).split("."))
    encoded = b""
    for number in (first * 40 + second, *others):
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.append(number & 0x7F | 0x80)
        encoded += bytes(reversed(digits))
    return der(IDENTIFIER, encoded)


def attribute(kind: str, value: str | bytes, tag: int = UTF8) -> bytes:
    return der(SEQUENCE, identifier(kind) + der(tag, value.encode() if isinstance(value, str) else value))


def rdns_of(subject: list[list[tuple[Any, ...]]]) -> bytes:
    return b"".join(der(SET, b"".join(attribute(*one) for one in rdn)) for rdn in subject)


@pytest.mark.parametrize(("subject", "printed"), SUBJECTS)
def test_a_subject_is_printed_as_java_does(subject: list[list[tuple[Any, ...]]], printed: str) -> None:
    assert name_of(rdns_of(subject)) == printed


def test_the_longest_subject() -> None:
    longest = rdns_of([[("CN", "x" * (MOST_NAME_BYTES - 17))]])
    assert len(longest) == MOST_NAME_BYTES
    assert name_of(longest) == "CN=" + "x" * (MOST_NAME_BYTES - 17)
    with pytest.raises(ValueError, match="4096 are allowed"):
        name_of(rdns_of([[("CN", "x" * (MOST_NAME_BYTES - 16))]]))


# certificates

KEY = generate_private_key(SECP256R1())
BEGIN = datetime.datetime(1999, 12, 31, 23, 59, 58, tzinfo=datetime.UTC)


def certificate(end: datetime.datetime, *names: x509.GeneralName) -> bytes:
    subject, issuer = (x509.Name.from_rfc4514_string(name) for name in ("CN=b,O=Ottla", "CN=CA"))
    builder = x509.CertificateBuilder(issuer, subject, KEY.public_key(), 17, BEGIN, end)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(KEY, SHA256()).public_bytes(Encoding.DER)


def test_a_certificate() -> None:
    names = [x509.DNSName("b.example"), x509.IPAddress(ip_address("10.0.0.1")), x509.IPAddress(ip_address("::1"))]
    uri = x509.UniformResourceIdentifier("spiffe://example/b")
    found = read_certificate(certificate(datetime.datetime(2049, 1, 2, 3, 4, 5, tzinfo=datetime.UTC), *names, uri))
    assert (found.subject, found.issuer) == ("CN=b,O=Ottla", "CN=CA")
    assert (found.not_before, found.not_after) == ("19991231235958Z", "20490102030405Z")
    assert found.names == ["b.example", "10.0.0.1", "::1"]
    assert len(found.alternative_names) == 4
    assert not found.signed_itself


def test_a_certificate_of_the_distant_future_without_names() -> None:
    found = read_certificate(certificate(datetime.datetime(2050, 1, 1, tzinfo=datetime.UTC)))
    assert found.not_after == "20500101000000Z"
    assert found.names == [] == list(found.alternative_names)


def test_what_is_cut_off_is_refused() -> None:
    whole = certificate(datetime.datetime(2049, 1, 1, tzinfo=datetime.UTC), x509.DNSName("b"))
    for end in range(len(whole)):
        with pytest.raises(ValueError, match=r"."):
            read_certificate(whole[:end])


@settings(max_examples=300)
@given(st.binary(max_size=60), st.integers(0, 300), st.binary(min_size=1, max_size=4))
def test_nonsense_is_refused_in_one_way(prefix: bytes, at: int, change: bytes) -> None:
    whole = certificate(datetime.datetime(2049, 1, 1, tzinfo=datetime.UTC), x509.DNSName("b"))
    for data in (prefix, whole[:at] + change + whole[at + len(change) :]):
        try:
            found = read_certificate(data)
            assert isinstance(found.names, list)
        except ValueError:
            pass
