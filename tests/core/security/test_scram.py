"""SCRAM credentials: what is kept of a password, what may be changed, and what is told."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64decode

import pytest

from ottla.broker.core.refusal import Refusal
from ottla.broker.core.security.scram import (
    Credentials,
    Lookup,
    credentials_from_state,
    credentials_state,
    described,
    plan,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.sasl.scram import Credential, Mechanism

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512


def upsertion(user: str = "u", mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"password"
    )


def setting(*upsertions: ScramCredentialUpsertion) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(upsertions=list(upsertions))


def changed(
    *upsertions: ScramCredentialUpsertion, remove: tuple[tuple[str, int], ...] = (), present: Credentials | None = None
) -> tuple[set[tuple[str, Mechanism]], dict[str, int]]:
    request = setting(*upsertions)
    request.deletions = [ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in remove]
    planned = plan(present or {}, request)
    codes = {user: refusal.error_code if refusal else 0 for user, refusal in planned.refusals.items()}
    return set(planned.credentials), codes


def test_the_keys_are_those_of_the_standard() -> None:
    """The example of RFC 7677: user "user", password "pencil"."""
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    given = upsertion("user")
    given.salt, given.salted_password = salt, salted
    planned = plan({}, setting(given))
    kept = planned.credentials["user", SHA_256]
    auth_message = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,"
        b"i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    proof = b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(kept.stored_key, auth_message, "sha256")
    client_key = bytes(one ^ two for one, two in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == kept.stored_key
    verifier = hmac.digest(kept.server_key, auth_message, "sha256")
    assert verifier == b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert salted not in kept


def test_one_change_of_a_user_in_a_request() -> None:
    assert changed(upsertion(), upsertion(mechanism=SHA_512)) == (set(), {"u": ErrorCode.DUPLICATE_RESOURCE})
    three = changed(upsertion(), upsertion(), upsertion(), upsertion("v"))
    assert three == ({("v", SHA_256)}, {"u": ErrorCode.DUPLICATE_RESOURCE, "v": 0})
    present = plan({}, setting(upsertion())).credentials
    both = changed(upsertion(mechanism=SHA_512), remove=(("u", SHA_256),), present=present)
    assert both == ({("u", SHA_256)}, {"u": ErrorCode.DUPLICATE_RESOURCE})
    assert changed(remove=(("u", SHA_256),), present=present) == (set(), {"u": 0})


def test_the_first_error_of_a_user_stays() -> None:
    assert changed(upsertion(iterations=1), upsertion()) == (set(), {"u": ErrorCode.UNACCEPTABLE_CREDENTIAL})


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16_384), 0),
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_upsertions(wanted: ScramCredentialUpsertion, code: int) -> None:
    assert changed(wanted)[1] == {wanted.name: code}


def test_what_is_not_there_cannot_be_removed() -> None:
    assert changed(remove=(("u", SHA_256),)) == (set(), {"u": ErrorCode.RESOURCE_NOT_FOUND})
    assert changed(remove=(("u", 9),)) == (set(), {"u": ErrorCode.UNSUPPORTED_SASL_MECHANISM})


def test_what_is_told() -> None:
    present = plan({}, setting(upsertion(), upsertion("v", SHA_512, 5000))).credentials
    present = plan(present, setting(upsertion(mechanism=SHA_512))).credentials
    everybody = {"u": [(SHA_256, 4096), (SHA_512, 4096)], "v": [(SHA_512, 5000)]}
    assert described(present, []) == everybody
    assert described(present, ["v"]) == {"v": everybody["v"]}
    told = described(present, ["x", "v", "v", "v"])
    codes = {user: row.error_code for user, row in told.items() if isinstance(row, Refusal)}
    assert codes == {"x": ErrorCode.RESOURCE_NOT_FOUND, "v": ErrorCode.DUPLICATE_RESOURCE}


def test_what_is_stored_is_read_again() -> None:
    present = plan({}, setting(upsertion(), upsertion("v", SHA_512))).credentials
    assert credentials_from_state(json.loads(json.dumps(credentials_state(present)))) == present


def usable(salt: bytes, iterations: int) -> Credential:
    return Credential(salt, iterations, b"stored" * 5, b"server" * 5)


KNOWN: Credentials = {
    ("alice", SHA_256): usable(b"a" * 20, 8192),
    ("bob", SHA_256): usable(b"b" * 20, 8192),
    ("carol", SHA_256): usable(b"c" * 9, 4096),
    ("old", SHA_256): usable(b"d" * 9, 4095),
    ("dora", SHA_512): usable(b"e" * 70, 16_384),
}


def test_users_are_found() -> None:
    found = Lookup(KNOWN, SHA_256, b"of the broker")
    assert found("alice") == (KNOWN["alice", SHA_256], "")
    assert found("carol") == (KNOWN["carol", SHA_256], "")
    assert found("dora").refused == "the user has no password for SCRAM-SHA-256, but for SCRAM-SHA-512"


@pytest.mark.parametrize(
    "mechanism, credentials, length, iterations",
    [(SHA_256, KNOWN, 20, 8192), (SHA_512, KNOWN, 70, 16_384), (SHA_256, {}, 32, 4096), (SHA_512, {}, 32, 4096)],
)
def test_a_name_that_is_nobodys_looks_like_a_user(
    mechanism: Mechanism, credentials: Credentials, length: int, iterations: int
) -> None:
    made_up, refused = Lookup(credentials, mechanism, b"of the broker")("nobody")
    assert refused == "nobody has the name"
    assert (len(made_up.salt), made_up.iterations) == (length, iterations)
    size = mechanism.hash().digest_size
    assert len(made_up.stored_key) == len(made_up.server_key) == size
    assert len({made_up.salt, made_up.stored_key, made_up.server_key}) == 3
    # The same after a restart; another for another name, mechanism or broker.
    assert Lookup(credentials, mechanism, b"of the broker")("nobody").credential == made_up
    others = [
        Lookup(credentials, mechanism, b"of the broker")("nobody2"),
        Lookup(credentials, mechanism, b"of another")("nobody"),
        Lookup({}, SHA_256 if mechanism is SHA_512 else SHA_512, b"of the broker")("nobody"),
    ]
    assert made_up.salt[:20] not in [other.credential.salt[:20] for other in others]


def test_too_few_iterations_are_as_an_unknown_user() -> None:
    made_up, refused = Lookup(KNOWN, SHA_256, b"of the broker")("old")
    assert made_up.iterations == 8192 and made_up.salt != KNOWN["old", SHA_256].salt
    assert "4095 iterations" in refused


def test_a_known_user_costs_as_many_hashes_as_an_unknown_one(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[bytes] = []
    digest = hmac.digest
    monkeypatch.setattr(hmac, "digest", lambda key, msg, how: counted.append(msg) or digest(key, msg, how))
    found = Lookup(KNOWN, SHA_256, b"of the broker")
    numbers = []
    for user in ("alice", "nobody", "old"):
        counted.clear()
        found(user)
        numbers.append(len(counted))
    assert numbers[0] > 0 and len(set(numbers)) == 1
