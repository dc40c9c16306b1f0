"""The users that a broker adds at its start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.broker.core.security.users_file import user_line
from ottla.broker.settings import BadSetting
from ottla.cli.scram_users import initial_users
from ottla.cli.serve import command
from ottla.protocol.sasl.scram import Mechanism, credential_of, salted_password

PASSWORD = "s3cret,=x"
OPTION = f'SCRAM-SHA-512=[name=admin,password="{PASSWORD}"]'


def test_a_user_of_an_option() -> None:
    ((who, credential),) = initial_users(None, [OPTION]).items()
    assert who == ("admin", Mechanism.SCRAM_SHA_512)
    assert credential.iterations == 4096
    salted = salted_password(who[1], PASSWORD, credential.salt, 4096)
    assert credential == credential_of(who[1], salted, credential.salt, 4096)
    other = initial_users(None, ["SCRAM-SHA-256=[iterations=8192,name=a b,password=p=q]"])
    assert other["a b", Mechanism.SCRAM_SHA_256].iterations == 8192


def test_an_option_counts_before_a_line_of_the_file(tmp_path: Path) -> None:
    mechanism, file = Mechanism.SCRAM_SHA_512, tmp_path / "users"
    known = credential_of(mechanism, b"salted", b"salt", 5000)
    file.write_text("\n".join(user_line(name, mechanism, known) for name in ("admin", "bob")))
    users = initial_users(str(file), [OPTION])
    assert users["bob", mechanism] == known
    assert users["admin", mechanism].iterations == 4096


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("admin:s3cret", "write 'SCRAM-SHA-512="),
        ("SCRAM-SHA-1=[name=admin,password=s3cret]", "the mechanisms are SCRAM-SHA-256 and SCRAM-SHA-512"),
        ("SCRAM-SHA-512=[password=s3cret]", "write 'SCRAM-SHA-512="),
        ("SCRAM-SHA-512=[name=admin]", "write 'SCRAM-SHA-512="),
        ("SCRAM-SHA-512=[name=admin,passwort=s3cret]", "write 'SCRAM-SHA-512="),
        ("SCRAM-SHA-512=[name=admin,password=s3cret,iterations=1000]", "allowed are 4096 to 16384"),
        ("SCRAM-SHA-512=[name=admin,password=s3cret,iterations=many]", "allowed are 4096 to 16384"),
    ],
)
def test_an_option_that_cannot_be_read(option: str, said: str) -> None:
    with pytest.raises(BadSetting) as caught:
        initial_users(None, [option])
    assert said in str(caught.value) and "s3cret" not in str(caught.value)


def check(*options: str) -> Result:
    return CliRunner().invoke(command, ["--check", "--ephemeral", "--log-format", "json", *options])


def test_a_start_can_be_checked() -> None:
    result = check("--listen", "0", "--sasl", "SCRAM-SHA-512", "--add-scram", OPTION)
    assert (result.exit_code, result.stdout) == (0, "A broker would start and listen at SASL_PLAINTEXT://localhost:0\n")
    weak, shown = map(json.loads, result.stderr.splitlines())
    assert (weak["level"], weak["event"]) == ("warning", "Users") and "fewer than 8192 iterations" in weak["reason"]
    assert shown["level"] == "warning" and "A password was given as an argument" in shown["event"]
    assert "s3cret" not in result.output


def test_a_check_tells_of_a_default_with_which_no_topic_can_be_created() -> None:
    result = check("--nodes", "3", "--set", "default.replication.factor=3")
    (told,) = map(json.loads, result.stderr.splitlines())
    assert (told["level"], told["reason"]) == ("warning", "default.replication.factor=3, and there are no replicas")


def test_a_start_of_several_nodes_can_be_checked() -> None:
    names = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"
    result = check("--nodes", "2", "--set", names, "--set", "listeners=A://localhost:9092,B://localhost:0")
    assert (result.exit_code, result.stdout) == (
        0,
        "2 nodes would start and listen at A://localhost:9092, B://localhost:0; A://localhost:9093, B://localhost:0\n",
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--users-file", "/no/such/file"], "--users-file: /no/such/file cannot be read"),
        (["--sasl", "OAUTHBEARER"], "jwks.endpoint.url"),
        (["--sasl", "PLAIN", "--set", "sasl.jaas.config=s3cret"], "sasl.jaas.config"),
        (["--sasl", "PLAIN", "--set", "ottla.sasl.plain.users.file=/no/such/file"], "cannot be read"),
        (["--tls-cert", "/no/such/file"], "/no/such/file"),
    ],
)
def test_what_a_start_would_stumble_over(options: list[str], said: str) -> None:
    result = check(*options)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split()) and "s3cret" not in result.output
