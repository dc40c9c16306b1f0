"""The mechanisms of a listener: which users they know, and what the settings have to say."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.core.security.scram import Credentials
from ottla.broker.core.security.users_file import user_line
from ottla.broker.endpoints import Endpoint
from ottla.broker.runtime.mechanisms import SECRET_NAME, ListenerMechanisms, ScramUsers, kept_secret
from ottla.broker.setting_sources import load
from ottla.broker.settings import BadSetting
from ottla.protocol.sasl.exchange import AuthenticationFailed
from ottla.protocol.sasl.scram import Mechanism, credential_of, salted_password
from tests.shell.host import Clock, Log

HERE = Endpoint("127.0.0.1", 0, "SASL", "SASL_PLAINTEXT")
MODULE = "org.apache.kafka.common.security."
ALICE = f'{MODULE}plain.PlainLoginModule required user_alice="pw";'


def mechanisms(
    settings: dict[str, Any], credentials: Credentials | None = None, log: Log | None = None
) -> ListenerMechanisms:
    users = ScramUsers(lambda: credentials or {}, b"secret")
    return ListenerMechanisms(HERE, load(settings).settings, users, Clock(), log or Log())  # type: ignore[arg-type]


def accepts(offered: ListenerMechanisms, user: str, password: str) -> bool:
    exchange = offered.exchange("PLAIN")
    try:
        answer = exchange.take(f"\0{user}\0{password}".encode())
        if not isinstance(answer, bytes):
            exchange.resume(answer())
    except AuthenticationFailed:
        return False
    return exchange.is_complete


def credential(password: str) -> Any:
    mechanism = Mechanism.SCRAM_SHA_512
    salted = salted_password(mechanism, password, b"salt", 4096)
    return credential_of(mechanism, salted, b"salt", 4096)


def test_mechanisms_are_those_of_the_settings_in_their_order() -> None:
    given = {"sasl.enabled.mechanisms": "SCRAM-SHA-512, PLAIN,SCRAM-SHA-512"}
    assert mechanisms(given).names == ["SCRAM-SHA-512", "PLAIN"]
    assert mechanisms(given | {"listener.name.sasl.sasl.enabled.mechanisms": "PLAIN"}).names == ["PLAIN"]


@pytest.mark.parametrize(
    "key", ["listener.name.sasl.plain.sasl.jaas.config", "listener.name.sasl.sasl.jaas.config", "sasl.jaas.config"]
)
def test_users_of_plain(key: str) -> None:
    offered = mechanisms({key: ALICE})
    assert accepts(offered, "alice", "pw")
    assert not accepts(offered, "alice", "wrong") and not accepts(offered, "bob", "pw")


def test_the_users_of_another_listener_are_not_known() -> None:
    assert not accepts(mechanisms({"listener.name.other.plain.sasl.jaas.config": ALICE}), "alice", "pw")


def test_what_is_for_all_mechanisms_may_be_about_another_one() -> None:
    scram = f"{MODULE}scram.ScramLoginModule required;"
    assert not accepts(mechanisms({"sasl.jaas.config": scram}), "alice", "pw")
    with pytest.raises(BadSetting, match="not ScramLoginModule"):
        mechanisms({"listener.name.sasl.plain.sasl.jaas.config": scram})


def test_users_of_plain_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("# users\n" + user_line("bob", Mechanism.SCRAM_SHA_512, credential("pw")) + "\n")
    offered = mechanisms({"ottla.sasl.plain.users.file": str(file), "sasl.jaas.config": ALICE})
    assert accepts(offered, "bob", "pw") and accepts(offered, "alice", "pw")
    assert not accepts(offered, "bob", "no") and not accepts(offered, "carol", "pw")


def test_a_file_of_users_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text(user_line("bob", Mechanism.SCRAM_SHA_512, credential("pw")) + "\n")
    offered = mechanisms({"ottla.sasl.plain.users.file": str(file)})
    assert accepts(offered, "bob", "pw")
    file.write_text("bob")
    assert offered.look_again() == []
    assert accepts(offered, "bob", "pw"), "of what cannot be read nothing is taken"
    file.write_text(user_line("carol", Mechanism.SCRAM_SHA_512, credential("pw")) + "\n")
    assert offered.look_again() == [("credential_removed", "bob"), ("credential_set", "carol")]
    assert accepts(offered, "carol", "pw") and not accepts(offered, "bob", "pw")
    assert offered.look_again() == []


def test_plain_without_users_is_told() -> None:
    log = Log()
    mechanisms({"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": ALICE}, log=log)
    mechanisms({"sasl.enabled.mechanisms": "SCRAM-SHA-512"}, log=log)
    assert log.events == []
    mechanisms({"sasl.enabled.mechanisms": "PLAIN"}, log=log)
    assert [event.partition(":")[0] for event in log.events] == ["Nobody can log in by PLAIN"]


@pytest.mark.parametrize(
    ("content", "said"), [(b"bob:s3cret\n", "line 1"), (b"\xff", "not in UTF-8"), (None, "cannot be read")]
)
def test_a_file_of_users_that_cannot_be_used(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "users"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadSetting, match=said) as caught:
        mechanisms({"ottla.sasl.plain.users.file": str(file)})
    assert "ottla.sasl.plain.users.file" in str(caught.value) and "s3cret" not in str(caught.value)


def test_tokens_need_their_settings() -> None:
    with pytest.raises(BadSetting, match=r"jwks\.endpoint\.url"):
        mechanisms({"sasl.enabled.mechanisms": "OAUTHBEARER"})


def test_users_of_scram_are_those_of_now() -> None:
    credentials: Credentials = {("alice", Mechanism.SCRAM_SHA_512): credential("pw")}
    now = [credentials]
    users = ScramUsers(lambda: now[0], b"secret")
    lookup = users.lookup(Mechanism.SCRAM_SHA_512)
    assert lookup("alice").credential == credential("pw") and not lookup("alice").refused
    assert users.lookup(Mechanism.SCRAM_SHA_512) is lookup, "nothing has changed"
    assert users.lookup(Mechanism.SCRAM_SHA_256)("alice").refused
    now[0] = {}
    assert users.lookup(Mechanism.SCRAM_SHA_512)("alice").refused


def test_sessions_last_as_long_as_the_mechanism_may() -> None:
    offered = mechanisms(
        {"connections.max.reauth.ms": "5", "listener.name.sasl.scram-sha-512.connections.max.reauth.ms": "7"}
    )
    assert [offered.max_reauth_ms(name) for name in ("PLAIN", "SCRAM-SHA-512")] == [5, 7]


def test_the_secret_is_made_once_and_is_its_owners(tmp_path: Path) -> None:
    secret = kept_secret(tmp_path)
    file = tmp_path / SECRET_NAME
    assert len(secret) == 32 and kept_secret(tmp_path) == secret
    file.chmod(0o644)
    assert kept_secret(tmp_path) == secret and stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_bytes(b"cut off")
    assert kept_secret(tmp_path) != secret and kept_secret(tmp_path) == file.read_bytes()
    assert [one.name for one in tmp_path.iterdir()] == [SECRET_NAME]
    assert kept_secret(None) != kept_secret(None)
