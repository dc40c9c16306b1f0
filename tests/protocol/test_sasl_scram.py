"""SCRAM, both ends: the vectors of the RFC, another implementation on the other side, and what is refused."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

import pytest
import scramp
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.sasl.exchange import AuthenticationFailed
from ottla.protocol.sasl.scram import (
    Credential,
    Found,
    Mechanism,
    ScramClient,
    ScramServer,
    credential_of,
    escaped,
    nonce_of,
    salted_password,
    unescaped,
)
from tests.protocol.wire_values import examples

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
BOTH = pytest.mark.parametrize("mechanism", Mechanism)
NONCE = nonce_of(bytes(range(24)))
INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"
OTHER_NAME = "Authentication failed: Client requested an authorization id that is different from username"


def credential(password: str, mechanism: Mechanism = SHA_512, salt: bytes = b"salt of sixteen.") -> Credential:
    return credential_of(mechanism, salted_password(mechanism, password, salt, 4096), salt, 4096)


def server(password: str = "secret", refused: str = "", mechanism: Mechanism = SHA_512) -> ScramServer:
    return ScramServer(mechanism, lambda name: Found(credential(password, mechanism), refused), NONCE)


def client(name: str = "alice", password: str = "secret", mechanism: Mechanism = SHA_512) -> ScramClient:
    return ScramClient(mechanism, name, password, "of-the-client")


def exchanged(ours: ScramClient, theirs: ScramServer) -> None:
    final = ours.answer(theirs.take(ours.first()))
    assert final is not None and not theirs.is_complete
    assert ours.answer(theirs.take(final)) is None
    assert theirs.is_complete and theirs.ends_ms is None


def refusal(theirs: ScramServer, *tokens: bytes) -> AuthenticationFailed:
    """The error of the last token; the others are taken."""
    for token in tokens[:-1]:
        theirs.take(token)
    with pytest.raises(AuthenticationFailed) as raised:
        theirs.take(tokens[-1])
    assert not theirs.is_complete
    return raised.value


def test_the_vector_of_rfc_7677() -> None:
    """User "user", password "pencil": every message to the byte."""
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    known = credential_of(SHA_256, salted_password(SHA_256, "pencil", salt, 4096), salt, 4096)
    ours = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    theirs = ScramServer(SHA_256, lambda name: Found(known), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = ours.first()
    assert first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = theirs.take(first)
    assert challenge == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = ours.answer(challenge)
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    verdict = theirs.take(final)
    assert verdict == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert ours.answer(verdict) is None
    assert theirs.is_complete and theirs.name == "user"


@pytest.mark.parametrize(
    "mechanism, user, password, salt, iterations, transcript",
    [
        (
            SHA_512,
            "a,b=c",
            "with = and , ü",
            b"salt of sixteen.",
            4096,
            (
                "n,,n=a=2Cb=3Dc,r=o4vn17p75wd4el9gbw3dueqcj",
                "r=o4vn17p75wd4el9gbw3dueqcjjp37723czsy0wwsgry3pknwq6,s=c2FsdCBvZiBzaXh0ZWVuLg==,i=4096",
                "c=biws,r=o4vn17p75wd4el9gbw3dueqcjjp37723czsy0wwsgry3pknwq6,p=z8gyD3z1Q+IrDDFbeMoQkXmgmZc9McH+XRotUv"
                "oZpjK45XMyF0d/ApvT5Xbvmp1p0ZLhbsSQzrH77EnQYNkO0g==",
                "v=NmSGTN+tZTaMRi0QEGK3AMuRSKJdkaQ6wYu0R54ktJJqnYjHUzSOTpnqImuC/3nrdhz2r10Jo3Me4GqZ0NSVQg==",
            ),
        ),
        (
            SHA_256,
            "alice",
            "alice-secret",
            bytes((1, 2, 3)),
            8192,
            (
                "n,,n=alice,r=2s2wyucxhdb0603odyyu9devl",
                "r=2s2wyucxhdb0603odyyu9devlvpb42gfhz8tbq0qfxies5zknu,s=AQID,i=8192",
                "c=biws,r=2s2wyucxhdb0603odyyu9devlvpb42gfhz8tbq0qfxies5zknu,p=76zFKyK3lNxajB6jnBzTJn2xrea6S/AOAk1TXSg/"
                "zhU=",
                "v=7ihXXlzT8YTLsyxXg+VWoKK9w1khmUHhEfDW+7G383s=",
            ),
        ),
    ],
    ids=["512", "256"],
)
def test_transcripts_of_kafka(
    mechanism: Mechanism, user: str, password: str, salt: bytes, iterations: int, transcript: tuple[str, ...]
) -> None:
    """What ScramSaslClient and ScramSaslServer of Apache Kafka 4.4 said to each other."""
    first, challenge, final, verdict = (line.encode() for line in transcript)
    nonce = transcript[0].rpartition(",r=")[2]
    ours = ScramClient(mechanism, user, password, nonce)
    salted = salted_password(mechanism, password, salt, iterations)
    known = Found(credential_of(mechanism, salted, salt, iterations))
    theirs = ScramServer(mechanism, lambda name: known, transcript[1][2:].partition(",")[0].removeprefix(nonce))
    assert (ours.first(), theirs.take(first)) == (first, challenge)
    assert (ours.answer(challenge), theirs.take(final)) == (final, verdict)
    assert ours.answer(verdict) is None
    assert (theirs.name, theirs.is_complete) == (user, True)


# What SASLprep, which scramp has and Kafka has not, leaves as it is.
PLAIN_TEXTS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)


@examples(20)
@given(PLAIN_TEXTS, PLAIN_TEXTS, st.sampled_from(Mechanism), st.binary(min_size=12, max_size=40))
def test_scramp_is_let_in(name: str, password: str, mechanism: Mechanism, salt: bytes) -> None:
    other = scramp.ScramClient([mechanism.words], name, password)
    theirs = ScramServer(mechanism, lambda user: Found(credential(password, mechanism, salt)), NONCE)
    other.set_server_first(theirs.take(other.get_client_first().encode()).decode())
    other.set_server_final(theirs.take(other.get_client_final().encode()).decode())
    assert theirs.is_complete and theirs.name == name


@examples(20)
@given(PLAIN_TEXTS, PLAIN_TEXTS, st.sampled_from(Mechanism), st.binary(min_size=12, max_size=40))
def test_scramp_lets_us_in(name: str, password: str, mechanism: Mechanism, salt: bytes) -> None:
    kind = scramp.ScramMechanism(mechanism.words)
    salt, stored_key, server_key, iterations = kind.make_auth_info(password, salt=salt, iteration_count=4096)
    asked: list[str] = []
    other = kind.make_server(lambda user: asked.append(user) or (salt, stored_key, server_key, iterations))
    ours = ScramClient(mechanism, name, password, "of-the-client")
    other.set_client_first(ours.first().decode())
    final = ours.answer(other.get_server_first().encode())
    assert final is not None
    other.set_client_final(final.decode())
    assert ours.answer(other.get_server_final().encode()) is None
    assert asked == [name]
    assert credential(password, mechanism, salt) == Credential(salt, iterations, stored_key, server_key)


@BOTH
@pytest.mark.parametrize("name", ["alice", "a,b=c", "jürgen", "al ice", "=2C", "日本"])
def test_names_and_passwords_are_taken_as_they_are(mechanism: Mechanism, name: str) -> None:
    theirs = server("pass wörd ﬁ", mechanism=mechanism)  # SASLprep would make two letters of the last
    exchanged(client(name, "pass wörd ﬁ", mechanism), theirs)
    assert theirs.name == name


@given(st.text())
def test_names_come_back(name: str) -> None:
    assert "," not in escaped(name)
    assert unescaped(escaped(name)) == name


@pytest.mark.parametrize("password, refused", [("other", ""), ("secret", "nobody has the name")])
def test_a_wrong_password_and_an_unknown_user_hear_the_same(password: str, refused: str) -> None:
    ours, theirs = client(password=password), server(refused=refused)
    final = ours.answer(theirs.take(ours.first()))
    assert final is not None
    error = refusal(theirs, final)
    assert (error.told, error.reason) == (INVALID, refused or "the password is wrong")
    assert theirs.name == "alice"


def test_an_authorization_id_is_the_users_name() -> None:
    assert refusal(server(), b"n,a=bob,n=alice,r=x").told == OTHER_NAME
    # Kafka compares it as it came, which is no name with a comma or an equals sign.
    assert refusal(server(), b"n,a=a=2Cb,n=a=2Cb,r=x").told == OTHER_NAME
    theirs = server()
    challenge = theirs.take(b"n,a=alice,n=alice,r=x")
    assert theirs.name == "alice"
    # Our client sends none: what it answers has another header, so that one is refused.
    final = ScramClient(SHA_512, "alice", "secret", "x").answer(challenge)
    assert final is not None
    assert refusal(theirs, final).reason == "its last message has another header than its first"


def signed_by_hand(first: bytes, extension: bytes = b"", twice: bytes = b"") -> bytes:
    """The server's last message to a client that sends exactly this first, and says more in its last.

    Args:
        twice: stands before the nonce in the last message.
    """
    import hashlib
    import hmac

    theirs = server()
    challenge = theirs.take(first)
    header, bare = first[: first.index(b"n=")], first[first.index(b"n=") :]
    header = header.partition(b"m=")[0]
    nonce = challenge[2 : challenge.index(b",")]
    final = b"c=" + b64encode(header) + b",r=" + twice + nonce + extension
    signed = bare + b"," + challenge + b"," + final
    salted = hashlib.pbkdf2_hmac("sha512", b"secret", b"salt of sixteen.", 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha512")
    signature = hmac.digest(hashlib.sha512(client_key).digest(), signed, "sha512")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    verdict = theirs.take(final + b",p=" + b64encode(proof))
    assert theirs.is_complete
    assert verdict == b"v=" + b64encode(hmac.digest(hmac.digest(salted, b"Server Key", "sha512"), signed, "sha512"))
    return verdict


@pytest.mark.parametrize(
    "first, extension",
    [
        (b"n,,n=alice,r=x,x=1", b""),
        (b"n,,n=alice,r=x,tokenauth=false", b",ext=a b=c"),
        (b"n,a=alice,n=alice,r=x", b""),
        (b"n,,m=reserved,n=alice,r=x", b""),
        (b"n,,n=a=2Cb=3Dc,r=!~", b""),
    ],
)
def test_extensions_are_ignored_and_signed(first: bytes, extension: bytes) -> None:
    signed_by_hand(first, extension)


def test_a_client_may_send_its_part_of_the_nonce_twice() -> None:
    """As librdkafka before 2.6.1 does, and kcat with it; Kafka looks at the end of the nonce alone."""
    signed_by_hand(b"n,,n=alice,r=of-the-client", twice=b"of-the-client")


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,n=alice",
        b"y,,n=alice,r=x",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"n,,n=al=2Dice,r=x",
        b"n,a=a=,n=alice,r=x",
        b"n,,n=al\0ice,r=x",
        b"n,,n=alice,r=a b",
        b"n,,n=alice,r=\xc3\xa9",
        b"n,,n=\xff,r=x",
        b"n,,n=alice,r=x,1=1",
        b"n,,n=alice,r=x,",
        b"n,,n=alice,r=x,tokenauth=true",
        b"n,,n=alice,r=" + b"x" * 1025,
        b"\0alice\0secret",
    ],
)
def test_first_messages_that_are_none(first: bytes) -> None:
    assert refusal(server(), first).told == INVALID


@pytest.mark.parametrize(
    "change",
    [
        lambda final: b"",
        lambda final: final.replace(b"c=biws", b"c=eSws"),  # the header is that of "y"
        lambda final: final.replace(b"c=biws", b"c=bi"),
        lambda final: final.replace(b",p=", b"x,p="),
        lambda final: final.replace(b",r=of", b",r=f"),
        lambda final: final[:-8],
        lambda final: final + b",x=1",
        lambda final: final[: final.index(b"p=") + 2] + b64encode(bytes(64)),
        lambda final: final[: final.index(b"p=") + 2] + b64encode(bytes(65)),
        lambda final: final[: final.index(b",p=")],
        lambda final: final.replace(b",p=", b",ext=1,p="),
    ],
)
def test_last_messages_that_are_none(change: object) -> None:
    ours, theirs = client(), server()
    final = ours.answer(theirs.take(ours.first()))
    assert callable(change)
    assert refusal(theirs, change(final)).told == INVALID


class Careless(ScramClient):
    """A client that proves what it knows with another nonce, or with more behind the proof."""

    def __init__(self, nonce: bytes, more: bytes = b"") -> None:
        super().__init__(SHA_512, "alice", "secret", "of-the-client")
        self._given = nonce, more

    def _final(self, challenge: bytes) -> bytes:
        nonce, more = self._given
        salted = salted_password(SHA_512, "secret", b"salt of sixteen.", 4096)
        client_key = hmac.digest(salted, b"Client Key", "sha512")
        final = b"c=biws,r=" + nonce
        signed = b",".join((self._bare.encode(), challenge, final))
        signature = hmac.digest(hashlib.sha512(client_key).digest(), signed, "sha512")
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        return final + b",p=" + b64encode(proof + more)


def test_a_right_proof_with_another_nonce_or_something_behind_it() -> None:
    """What is signed is what the client has said: whether it said what it had to is looked at as well."""
    good = f"of-the-client{NONCE}".encode()
    ours, theirs = Careless(good), server()
    final = ours.answer(theirs.take(ours.first()))
    assert final is not None and theirs.take(final) and theirs.is_complete
    for careless in (
        Careless(b"of-another" + NONCE.encode()),
        Careless(NONCE.encode()),
        Careless(b"x"),
        Careless(good, b"x"),
    ):
        theirs = server()
        final = careless.answer(theirs.take(careless.first()))
        assert final is not None
        assert refusal(theirs, final).told == INVALID


def test_no_proof_of_another_exchange() -> None:
    ours, theirs = client(), server()
    final = ours.answer(theirs.take(ours.first()))
    assert final is not None
    again = ScramServer(SHA_512, lambda name: Found(credential("secret")), nonce_of(bytes(24)))
    assert refusal(again, client().first(), final).told == INVALID


@pytest.mark.parametrize(
    "challenge, words",
    [
        (b"", "not in the form"),
        (b"r=other,s=c2FsdA==,i=4096", "nonce"),
        (b"r=of-the-client,s=c2FsdA==,i=4096", "nonce"),
        (b"r=of-the-client!,s=c2FsdA==,i=4095", "4095 iterations"),
        (b"r=of-the-client!,s=c2FsdA==,i=10000001", "10000001 iterations"),
        (b"r=of-the-client!,s=c2F,i=4096", "not in the form"),
        (b"e=other-error", "not in the form"),
    ],
)
def test_a_client_is_not_led_astray(challenge: bytes, words: str) -> None:
    with pytest.raises(AuthenticationFailed, match=words):
        client().answer(challenge)


def test_a_client_wants_the_broker_to_know_the_password() -> None:
    ours, theirs = client(), server()
    final = ours.answer(theirs.take(ours.first()))
    assert final is not None
    verdict = theirs.take(final)
    for wrong in (b"", b"v=", verdict[:-4], b"v=" + b64encode(bytes(64))):
        with pytest.raises(AuthenticationFailed, match="does not know the password"):
            ours.answer(wrong)
    with pytest.raises(AuthenticationFailed, match="unknown-user"):
        ours.answer(b"e=unknown-user")
    assert ours.answer(verdict + b",x=1") is None


def test_an_empty_salt_is_sent_as_it_is() -> None:
    theirs = ScramServer(SHA_512, lambda name: Found(credential("secret", salt=b"")), NONCE)
    ours = client()
    challenge = theirs.take(ours.first())
    assert b",s=,i=4096" in challenge
    final = ours.answer(challenge)
    assert final is not None
    theirs.take(final)
    assert theirs.is_complete


def test_nothing_shows_a_secret() -> None:
    known = credential("secret")
    shown = repr((known, Found(known), client(), server()))
    for secret in (known.salt, known.stored_key, known.server_key, b"secret"):
        assert repr(secret)[2:-1] not in shown
