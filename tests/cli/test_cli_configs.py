"""`ottla configs` against a broker."""

from __future__ import annotations

from typing import Any


def configs(ottla: Any, *arguments: str) -> dict[str, dict[str, Any]]:
    (described,) = ottla.json("configs", "describe", *arguments)
    return {row["name"]: row for row in described["configs"]}


def test_settings_of_a_topic_are_changed_and_shown(ottla: Any) -> None:
    assert configs(ottla, "orders") == {}
    text = ottla.run("configs", "alter", "orders", "--add-config", "retention.ms=5000,segment.bytes=2097152").stdout
    assert text == "Changed topic 'orders': retention.ms=5000, segment.bytes=2097152.\n"
    found = configs(ottla, "--entity-type", "topics", "--entity-name", "orders")
    assert {key: (row["value"], row["source"]) for key, row in found.items()} == {
        "retention.ms": ("5000", "topic"),
        "segment.bytes": ("2097152", "topic"),
    }
    text = ottla.run("configs", "alter", "orders", "--delete-config", "retention.ms").stdout
    assert text == "Changed topic 'orders': retention.ms back to its default.\n"
    assert set(configs(ottla, "orders")) == {"segment.bytes"}


def test_a_value_with_commas_stands_in_brackets(ottla: Any) -> None:
    ottla.run("configs", "alter", "orders", "--add-config", "cleanup.policy=[compact,delete],retention.ms=1")
    assert configs(ottla, "orders")["cleanup.policy"]["value"] == "compact,delete"


def test_what_is_in_force(ottla: Any) -> None:
    found = configs(ottla, "orders", "--all")
    assert found["retention.ms"]["source"] == "default" and found["retention.ms"]["documentation"]
    assert set(configs(ottla, "orders", "--key", "retention.ms")) == {"retention.ms"}
    rows = ottla.rows("configs", "describe", "orders", "--all")
    assert rows[0] == ["Topic", "orders"] and rows[1] == ["KEY", "VALUE", "FROM"]
    nothing = ottla.run("configs", "describe", "orders")
    assert "Nothing is set" in nothing.stderr


def test_settings_of_the_broker(ottla: Any) -> None:
    assert configs(ottla, "1", "--entity-type", "brokers", "--all")["node.id"]["read_only"]
    ottla.run("configs", "alter", "1", "--entity-type", "brokers", "--add-config", "log.retention.ms=9000")
    row = configs(ottla, "1", "--entity-type", "brokers")["log.retention.ms"]
    assert (row["value"], row["source"]) == ("9000", "broker")
    assert configs(ottla, "--entity-type", "brokers") == configs(ottla, "1", "--entity-type", "brokers"), (
        "there is only one to be meant"
    )
    assert "no broker's id" in ottla.run("configs", "describe", "x", "--entity-type", "brokers", expect=1).stderr
    refused = ottla.run(
        "configs", "alter", "1", "--entity-type", "brokers", "--add-config", "node.id=2", expect=1
    ).stderr
    assert "node.id" in refused


def test_settings_of_a_group_that_need_not_exist(ottla: Any) -> None:
    group = ("billing", "--entity-type", "groups")
    key = "consumer.session.timeout.ms"
    text = ottla.run("configs", "alter", *group, "--add-config", f"{key}=46000").stdout
    assert text == f"Changed group 'billing': {key}=46000.\n"
    assert {name: (row["value"], row["source"]) for name, row in configs(ottla, *group).items()} == {
        key: ("46000", "group")
    }
    assert configs(ottla, *group, "--all")["consumer.heartbeat.interval.ms"]["source"] != "group"
    assert ottla.rows("configs", "describe", *group)[0] == ["Group", "billing"]
    for change, words in ((f"{key}=1", key), ("consumer.sesion.timeout.ms=46000", f"did you mean '{key}'?")):
        assert words in ottla.run("configs", "alter", *group, "--add-config", change, expect=1).stderr
    ottla.run("configs", "alter", *group, "--delete-config", key)
    assert configs(ottla, *group) == {}
    assert "Name a group" in ottla.run("configs", "describe", "--entity-type", "groups", expect=2).stderr


def test_what_is_said_of_settings_of_groups(ottla: Any) -> None:
    alter, of_group = ("configs", "alter"), ("billing", "--entity-type", "groups")
    said = ottla.run(*alter, *of_group, "--add-config", "session.timeout.ms=46000", expect=1).stderr
    assert "did you mean 'consumer.session.timeout.ms'?" in said
    said = ottla.run(*alter, *of_group, "--add-config", "consumer.session.timeout.ms=1", expect=1).stderr
    assert " to 60000; to change that, restart the broker with another group.consumer.min.session.timeout.ms or" in said
    for value in ("abc", "7s"):
        said = ottla.run(*alter, *of_group, "--add-config", f"consumer.session.timeout.ms={value}", expect=1).stderr
        assert "not a whole number of milliseconds, such as 7000" in said and "restart" not in said
    said = ottla.run(
        *alter,
        *of_group,
        "--add-config",
        "consumer.session.timeout.ms=5000,consumer.heartbeat.interval.ms=6000",
        expect=1,
    ).stderr
    assert "consumer.session.timeout.ms (5000) must be greater than consumer.heartbeat.interval.ms (6000)" in said
    bound = "group.consumer.min.session.timeout.ms"
    said = ottla.run(*alter, "1", "--entity-type", "brokers", "--add-config", f"{bound}=1000", expect=1).stderr
    assert said.startswith(f"Error: Cannot change settings of broker 1: {bound} cannot be changed while the broker run")
    assert f"restart it with --set {bound}=VALUE" in said
    rows = ottla.rows("configs", "describe", *of_group, "--all")
    assert ["consumer.session.timeout.ms", "45000", "default"] in rows
    assert ["share.session.timeout.ms", "45000", "default", "no", "effect"] in rows


def test_refusals_change_nothing(ottla: Any) -> None:
    assert "nonsense" in ottla.run("configs", "alter", "orders", "--add-config", "nonsense=1", expect=1).stderr
    ottla.run("configs", "alter", "absent", "--add-config", "retention.ms=1", expect=1)
    ottla.run("configs", "describe", "absent", expect=1)
    ottla.run("configs", "alter", "orders", "--add-config", "retention.ms=1", "--validate-only")
    assert configs(ottla, "orders") == {}


def test_unknown_keys_are_refused_wherever_they_stand(ottla: Any) -> None:
    for options, expected in (
        (["orders", "--delete-config", "nope"], "A topic has no setting 'nope'."),
        (["orders", "--add-config", "compresion.type=gzip"], "'compresion.type'; did you mean 'compression.type'?"),
        (["1", "--entity-type", "brokers", "--delete-config", "log.retention.mss"], "did you mean 'log.retention.ms'?"),
    ):
        assert expected in ottla.run("configs", "alter", *options, expect=1).stderr
    for key in ("listener.name.x.ssl.keystore.type", "leader.replication.throttled.rate"):
        ottla.run("configs", "alter", "1", "--entity-type", "brokers", "--delete-config", key)
    assert configs(ottla, "orders") == {}


def test_settings_without_effect_are_told(ottla: Any) -> None:
    done = ottla.run("configs", "alter", "orders", "--add-config", "preallocate=true,retention.ms=5")
    assert done.stderr == "preallocate is kept and shown, but has no effect on this broker.\n"
    assert ottla.run("configs", "alter", "orders", "--delete-config", "preallocate").stderr == ""
    broker = ("1", "--entity-type", "brokers", "--add-config", "log.preallocate=true")
    assert "log.preallocate is kept" in ottla.run("configs", "alter", *broker).stderr


def test_hints(ottla: Any) -> None:
    said = ottla.run("configs", "alter", "orders", "--add-config", "cleanup.policy=compact,delete", expect=2).stderr
    assert "cleanup.policy=[compact,delete]" in said
