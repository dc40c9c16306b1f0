"""`ottla users`: in a data directory, of a running broker, and as lines."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from ottla.broker.core.security.users_file import parse_users
from ottla.protocol.sasl.scram import Mechanism, credential_of, salted_password
from ottla.testing import Broker
from tests.cli.commands import HERE, Ottla

SECRET = "alice-secret"


@pytest.fixture
def password(tmp_path: Path) -> str:
    """A file with a password."""
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    return str(file)


def kept(data_dir: Path) -> list[dict[str, object]]:
    """The credentials in a catalog."""
    return json.loads((data_dir / "catalog.json").read_text())["state"].get("scram", [])


def test_the_first_user_of_a_new_directory(tmp_path: Path, password: str) -> None:
    data = tmp_path / "data"
    said = HERE.run("users", "set", "admin", "--data-dir", data, "--password-file", password).stdout
    assert said == "User 'admin' has a password for SCRAM-SHA-512.\n"
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert stat.S_IMODE((data / "catalog.json").stat().st_mode) == 0o600
    [row] = kept(data)
    assert (row["user"], row["mechanism"], row["iterations"]) == ("admin", "SCRAM_SHA_512", 8192)
    assert SECRET not in (data / "catalog.json").read_text()
    # A broker starts with it, and has the user.
    with Broker(data_dir=data) as broker:
        assert Ottla(broker.bootstrap_servers).json("users", "list") == [
            {"user": "admin", "mechanism": "SCRAM-SHA-512", "iterations": 8192}
        ]


@pytest.mark.parametrize(("given", "warns"), [("1234567", True), ("12345678", False)])
def test_a_password_that_is_quick_to_guess_is_warned_of(tmp_path: Path, given: str, warns: bool) -> None:
    file = tmp_path / "password"
    file.write_text(given)
    ran = HERE.run("users", "set", "admin", "--data-dir", tmp_path / "data", "--password-file", file)
    assert ("fewer than 8 characters" in ran.stderr) == warns and given not in ran.stderr
    assert ran.stdout == "User 'admin' has a password for SCRAM-SHA-512.\n"


def test_a_directory_that_a_broker_uses(tmp_path: Path, password: str) -> None:
    with Broker(data_dir=tmp_path / "data"):
        for command in (["set", "admin", "--password-file", password], ["list"], ["remove", "admin"]):
            said = HERE.run("users", *command, "--data-dir", tmp_path / "data", expect=1).stderr
            assert "in use by another process (pid " in said


def test_users_of_a_directory(tmp_path: Path, password: str) -> None:
    where = "--data-dir", tmp_path
    for name, mechanism in (("bob", "SCRAM-SHA-256"), ("alice", "SCRAM-SHA-512"), ("alice", "SCRAM-SHA-256")):
        HERE.run("users", "set", name, *where, "--mechanism", mechanism, "--password-file", password)
    assert [row[:2] for row in HERE.rows("users", "list", *where)[1:]] == [
        ["alice", "SCRAM-SHA-256"],
        ["alice", "SCRAM-SHA-512"],
        ["bob", "SCRAM-SHA-256"],
    ]
    HERE.run("users", "remove", "bob", *where)
    HERE.run("users", "remove", "alice", "--mechanism", "SCRAM-SHA-256", *where)
    assert [row["user"] for row in kept(tmp_path)] == ["alice"]
    assert "There is no user 'bob'" in HERE.run("users", "remove", "bob", *where, expect=1).stderr
    HERE.run("users", "remove", "alice", *where)
    assert kept(tmp_path) == []
    assert "There are no users" in HERE.run("users", "list", *where).stderr


def test_a_directory_of_another_kind(tmp_path: Path, password: str) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    said = HERE.run("users", "set", "a", "--data-dir", tmp_path, "--password-file", password, expect=1).stderr
    assert "data directory of Apache Kafka" in said


def test_a_user_as_a_line(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_PASSWORD", SECRET)
    lines = HERE.run("users", "hash", "alice", "--password-file", password).stdout
    lines += HERE.run(
        "users", "hash", "bob", "--password-env", "A_PASSWORD", "--mechanism", "SCRAM-SHA-256", "--iterations", 4096
    ).stdout
    users = parse_users(lines)
    assert [(user, mechanism, one.iterations) for (user, mechanism), one in users.items()] == [
        ("alice", Mechanism.SCRAM_SHA_512, 8192),
        ("bob", Mechanism.SCRAM_SHA_256, 4096),
    ]
    for (_, mechanism), one in users.items():
        salted = salted_password(mechanism, SECRET, one.salt, one.iterations)
        assert credential_of(mechanism, salted, one.salt, one.iterations) == one


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["set", "a"], "--password-file FILE, or --password-env NAME"),
        (["set", "a", "--password-env", "NO_SUCH"], "no such variable"),
        (["set", "a", "--iterations", "4095"], "4096"),
        (["set", "a", "--password", "my-secret"], "say --password-file FILE"),
    ],
)
def test_slips(arguments: list[str], words: str) -> None:
    said = HERE.run("users", *arguments, expect=2).stderr
    assert words in said and "my-secret" not in said
