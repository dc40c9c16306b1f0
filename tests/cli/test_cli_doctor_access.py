"""`ottla doctor` about who gets in and what he may do: users, super users, rules, and files with secrets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.doctor_checks import FAIL, OK, WARN
from ottla.testing.issuer import issuer
from tests.cli.commands import HERE
from tests.cli.test_cli_doctor import checks

RULES = ("--set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer")
HERE_SASL = ("--no-disk", "--set", "listeners=SASL_PLAINTEXT://localhost:0")
SCRAM = (*HERE_SASL, "--set", "sasl.enabled.mechanisms=SCRAM-SHA-512")
PLAIN = (*HERE_SASL, "--set", "sasl.enabled.mechanisms=PLAIN")


@pytest.fixture
def password(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("a long password")
    path.chmod(0o600)
    return path


def set_user(directory: Path, name: str, password: Path, *options: str) -> None:
    HERE.run("users", "set", name, "--data-dir", directory, "--password-file", password, *options)


def test_passwords_that_are_quick_to_guess(tmp_path: Path, password: Path) -> None:
    place = ("--data-dir", tmp_path / "data")
    found = checks(*place, *SCRAM)["users"]
    words = "nobody can log in at SASL_PLAINTEXT: there is no user of SCRAM-SHA-512"
    assert (found["verdict"], found["found"]) == (WARN, words)
    assert words in HERE.run("serve", "--check", *place, *SCRAM[1:]).stderr
    more = ("--add-scram", "SCRAM-SHA-512=[name=admin,password=secret-of-admin]")
    assert words not in HERE.run("serve", "--check", *place, *SCRAM[1:], *more).stderr
    set_user(tmp_path / "data", "alice", password)
    assert checks(*place, *SCRAM)["users"]["verdict"] == OK
    set_user(tmp_path / "data", "bob", password, "--iterations", "8191")
    found = checks(*place, *SCRAM)["users"]
    assert (found["verdict"], found["details"]) == (WARN, {"credentials": 2, "weak": ["bob (SCRAM-SHA-512: 8191)"]})
    assert "`ottla users set NAME` takes 8192" in found["advice"]


def test_users_of_plain_that_are_quick_to_guess(tmp_path: Path, password: Path) -> None:
    users = tmp_path / "users"
    users.write_text(HERE.run("users", "hash", "carol", "--iterations", 4096, "--password-file", password).stdout)
    users.chmod(0o600)
    place = ("--data-dir", tmp_path / "data", "--set", f"ottla.sasl.plain.users.file={users}")
    assert checks(*place, *PLAIN)["users"]["details"]["weak"] == ["carol (SCRAM-SHA-512: 4096)"]
    assert "no user of SCRAM-SHA-512" in checks(*place, *SCRAM)["users"]["found"], "no listener has PLAIN"
    found = checks(*place[:2], *PLAIN)["users"]
    assert (found["verdict"], "ottla.sasl.plain.users.file" in found["advice"]) == (WARN, True)


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (SCRAM, ["User:root"]),
        ((*HERE_SASL, "--set", "sasl.enabled.mechanisms=SCRAM-SHA-256"), ["User:admin", "User:root"]),
        ((*PLAIN, "--set", 'sasl.jaas.config=a.PlainLoginModule required user_root="secret";'), ["User:admin"]),
        ((*SCRAM, "--set", "ottla.http.listen=127.0.0.1:0", "--set", "super.users=User:console"), []),
        (("--no-disk", "--set", "super.users=User:ANONYMOUS;Group:a"), ["Group:a"]),
    ],
)
def test_super_users_without_a_credential(
    tmp_path: Path, password: Path, given: tuple[str, ...], missing: list[str]
) -> None:
    set_user(tmp_path / "data", "admin", password)
    words = ("--data-dir", tmp_path / "data", "--set", "super.users=User:admin;User:root", *given)
    assert "super users" not in checks(*words), "without rules they are like all"
    found = checks(*words, *RULES)["super users"]
    assert (found["verdict"], found["details"]["missing"]) == (WARN if missing else OK, missing)
    assert ("ottla users set NAME --data-dir DIR" in found["advice"]) is bool(missing)


def test_super_users_of_whom_only_an_issuer_knows(tmp_path: Path) -> None:
    tokens = (*HERE_SASL, "--set", "sasl.enabled.mechanisms=SCRAM-SHA-512,OAUTHBEARER")
    found = checks("--data-dir", tmp_path, "--set", "super.users=User:admin", *tokens, *RULES)["super users"]
    assert (found["verdict"], "has a token or a certificate" in found["found"]) == (OK, True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("User:Admin", "User:Admin (did you mean User:admin?)"),
        ("user:admin", "user:admin (did you mean User:admin?)"),
        ("user:root", "user:root"),
    ],
)
def test_a_super_user_with_a_slip(tmp_path: Path, password: Path, name: str, words: str) -> None:
    """Though tokens may say who comes, nobody is ever of the type ``user``."""
    set_user(tmp_path / "data", "admin", password)
    tokens = ("--set", "listeners=SASL_PLAINTEXT://localhost:0", "--set", "sasl.enabled.mechanisms=SCRAM-SHA-512")
    given = ("--data-dir", tmp_path / "data", "--set", f"super.users={name}", *RULES)
    for more in ((), ("--set", "listener.name.b.sasl.enabled.mechanisms=OAUTHBEARER")):
        listeners = "listeners=SASL_PLAINTEXT://localhost:0" + (",B://localhost:0" if more else "")
        protocols = "listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,B:SASL_PLAINTEXT"
        found = checks("--no-disk", *given, *tokens, *more, "--set", protocols, "--set", listeners)["super users"]
        assert (found["verdict"], found["found"]) == (WARN, f"nobody can log in as {words}")


@pytest.mark.parametrize(
    ("given", "check", "words"),
    [
        (("allow.everyone.if.no.acl.found=true",), "access rules", "what no rule is about is open to everybody"),
        ((), "access rules", "nobody may do anything: there is no rule, and nobody in super.users"),
        (("super.users=User:admin",), "access rules", ""),
        (("super.users=User:admin", "ottla.insecure=true"), "insecure", "ottla.insecure=true permits listeners"),
        (("super.users=User:admin",), "insecure", ""),
    ],
)
def test_what_is_open_or_closed_to_all_is_told_before_a_start(
    tmp_path: Path, given: tuple[str, ...], check: str, words: str
) -> None:
    """Though no listener is open now."""
    pairs = [part for pair in given for part in ("--set", pair)]
    place = ("--data-dir", tmp_path / "data", *RULES, *pairs, "--set", "listeners=PLAINTEXT://localhost:0")
    found = checks("--no-disk", *place).get(check)
    assert (found is not None) is bool(words)
    said = " ".join(HERE.run("serve", "--check", *place).stderr.split())
    assert ((check.capitalize() in said), words in said) == (bool(words), True)
    assert found is None or (found["verdict"] == WARN and words in found["found"])


def test_a_directory_with_a_rule_is_not_closed_to_all(ottla_broker_factory: Callable[..., Any], tmp_path: Path) -> None:
    broker = ottla_broker_factory(data_dir=tmp_path / "data", acls=["User:a ALLOW ALL cluster"])
    broker.stop()
    assert "access rules" not in checks("--no-disk", "--data-dir", tmp_path / "data", *RULES)


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "No such file"), ("", "it is no JWKS"), ("{}", "it is no JWKS"), ('{"keys":[]}', "it has no key for sign")],
)
@pytest.mark.parametrize("more", ["", ",SCRAM-SHA-512"])
def test_keys_of_an_issuer_without_which_nobody_can_log_in(
    tmp_path: Path, text: str | None, why: str, more: str
) -> None:
    """They fail where there is no other mechanism."""
    keys = tmp_path / "keys.json"
    if text is not None:
        keys.write_text(text)
    given = issuer().settings() | {"sasl.oauthbearer.jwks.endpoint.url": keys.as_uri()}
    given["sasl.enabled.mechanisms"] = f"OAUTHBEARER{more}"
    pairs = [part for pair in given.items() for part in ("--set", "=".join(pair))]
    words = (*HERE_SASL, "--data-dir", tmp_path, *pairs)
    found = checks(*words, expect=not more)["SASL of SASL_PLAINTEXT"]
    assert (found["verdict"], "JSON Web Key Set" in found["advice"]) == (WARN if more else FAIL, True)
    told = f"sasl.oauthbearer.jwks.endpoint.url={keys.as_uri()}: {why}"
    assert told in found["found"]
    said = " ".join(HERE.run("serve", "--check", *words[1:], expect=0 if more else 2).stderr.split())
    assert ("SASL of SASL_PLAINTEXT" in said, said.count(told)) == (True, 1)


def test_keys_of_an_issuer_that_are_good(tmp_path: Path) -> None:
    pairs = [part for pair in issuer().settings().items() for part in ("--set", "=".join(pair))]
    words = ("--data-dir", tmp_path, "--set", "sasl.enabled.mechanisms=OAUTHBEARER", *pairs)
    assert "SASL of SASL_PLAINTEXT" not in checks(*HERE_SASL, *words)


def test_the_http_port_is_looked_at(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    http = ("--set", "ottla.http.listen=0.0.0.0:0", "--set", f"ottla.http.token.file={tokens}")
    said = "No such file or directory; `ottla token new NAME --file"
    assert said in checks("--no-disk", "--listen", "127.0.0.1:0", *http, expect=1)["settings"]["found"]
    assert said in " ".join(HERE.run("serve", "--ephemeral", "--listen", "127.0.0.1:0", *http, expect=2).stderr.split())
    tokens.write_text("alice a-good-one-of-20-chars")
    found = checks("--no-disk", "--listen", "127.0.0.1:0", *http)["HTTP"]
    assert (found["verdict"], found["found"]) == (WARN, "other machines reach it, and nothing is encrypted")


def test_rules_about_topics_that_do_not_exist(ottla_broker_factory: Callable[..., Any], tmp_path: Path) -> None:
    broker = ottla_broker_factory(
        data_dir=tmp_path / "data", acls=["User:admin ALLOW ALL cluster"], super_users=["User:ANONYMOUS"]
    )
    ask = ("--data-dir", tmp_path / "data", "--no-disk", "-b", broker.bootstrap_servers)
    assert checks(*ask)["rules"]["verdict"] == OK
    HERE.run("topics", "create", "orders", "-b", broker.bootstrap_servers)
    add = ("acls", "add", "-b", broker.bootstrap_servers, "--allow-principal", "User:a")
    HERE.run(*add, "--consumer", "--topic", "ordres", "--group", "billing")
    HERE.run(*add, "--operation", "Read", "--topic", "ord", "--topic", "pay", "--resource-pattern-type", "prefixed")
    HERE.run(*add, "--operation", "Read", "--topic", "*", "--topic", "orders", "--topic", "__consumer_offsets")
    found = checks(*ask)["rules"]
    assert found["details"]["without"] == ["topic 'ordres'", "group 'billing'", "topics that begin with 'pay'"]
    assert "topic 'ordres' (2 rules)" in found["found"] and "ottla acls remove" in found["advice"]
    broker.stop()
    found = checks(*ask[:-2])["rules"]
    assert found["details"]["without"] == ["topic 'ordres'", "topics that begin with 'pay'"], "groups are not looked at"


def test_rules_for_principals_who_are_nobody(ottla_broker_factory: Callable[..., Any], tmp_path: Path) -> None:
    """Of a certificate or a token only its issuer knows; then a name in another case is a slip all the same."""
    acls = [f"User:{name} ALLOW READ topic:orders" for name in ("alice", "alcie", "Alice", "*")]
    place = ("--no-disk", "--data-dir", tmp_path / "data")
    broker = ottla_broker_factory(data_dir=tmp_path / "data", acls=[*acls, "user:alice DENY READ topic:orders"])
    assert "principals" not in checks(*place, "-b", broker.bootstrap_servers), "there are no users"
    broker.stop()
    slip = "User:Alice (did you mean User:alice?)"
    broker = ottla_broker_factory(
        data_dir=tmp_path / "data", sasl=("SCRAM-SHA-512", {"alice": "alice-secret"}), super_users=["User:alice"]
    )
    login = ("--security-protocol", "SASL_PLAINTEXT", "--sasl-mechanism", "SCRAM-SHA-512", "--username", "alice")
    secret = tmp_path / "secret"
    secret.write_text("alice-secret")
    found = checks(*place, "-b", broker.bootstrap_servers, *login, "--password-file", secret)["principals"]
    assert "say --config FILE" in found["advice"]
    broker.stop()
    for given in ((), SCRAM[1:]):
        found = checks(*place, *given)["principals"]
        assert found["verdict"] == WARN
        assert found["details"]["missing"] == ["User:Alice", "User:alcie", "user:alice"]
        assert f"nobody can log in as {slip}, User:alcie" in found["found"]
    found = checks(*place, *SCRAM[1:], "--set", "sasl.enabled.mechanisms=SCRAM-SHA-512,OAUTHBEARER")["principals"]
    assert found["details"]["missing"] == ["User:Alice", "user:alice"]


def test_secrets_that_others_may_read(tmp_path: Path, password: Path) -> None:
    tmp_path.chmod(0o755)
    config = tmp_path / "broker.properties"
    config.write_text(f"ssl.key.password=${{file:{password}}}\nottla.audit.file={tmp_path / 'audit'}\n")
    set_user(tmp_path / "data", "alice", password)
    words = ("--data-dir", tmp_path / "data", "--no-disk", "--config", config)
    found = checks(*words)["secrets"]
    assert (found["verdict"], found["found"]) == (OK, "2 files besides keys that nobody reads but the owner")
    password.chmod(0o640)
    (tmp_path / "audit").touch(0o644)
    (tmp_path / "data" / "catalog.json").chmod(0o644)  # in a directory that is closed to others
    found = checks(*words)["secrets"]
    assert (found["verdict"], found["details"]["open"]) == (WARN, [str(password), str(tmp_path / "audit")])
    assert found["advice"] == f"chmod go= {password} {tmp_path / 'audit'}"
    config.write_text("ssl.key.password=secret\n")
    (tmp_path / "data").chmod(0o755)
    found = checks(*words)["secrets"]
    assert found["details"]["open"] == [str(tmp_path / "data" / "catalog.json"), str(config)]
    tmp_path.chmod(0o700)
    assert checks(*words)["secrets"]["details"]["open"] == [str(tmp_path / "data" / "catalog.json")]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("admin", "'admin' is no principal; write it with its type"),
        ("User:a,User:b", "semicolons stand between principals"),
    ],
)
def test_super_users_that_cannot_be_are_told_before_a_start(given: str, said: str) -> None:
    found = checks("--no-disk", *RULES, "--set", f"super.users={given}", expect=1)
    assert found["settings"]["verdict"] == FAIL
    assert said in found["settings"]["found"]
    assert said in HERE.run("serve", "--check", "--ephemeral", *RULES, "--set", f"super.users={given}", expect=2).stderr
