"""What ``/metrics`` shows: in good form, bounded, and under the names that others know."""

from __future__ import annotations

import asyncio
import math
import re
import threading

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from ottla.broker.settings import Settings
from ottla.observe.metrics.catalogue import SPECS
from ottla.observe.metrics.collector import Metrics
from ottla.observe.why.history import Running
from tests.observe.metrics.looked_at import Looked, Ring, group, member, metrics, offset, topic

ALL = ("kminion", "kafka_exporter", "lag_exporter")

# From the sources of each tool: what it exposes, and with which labels.
KMINION = {
    "kminion_exporter_up": {"version"},
    "kminion_kafka_cluster_info": {"cluster_version", "broker_count", "controller_id", "cluster_id"},
    "kminion_kafka_broker_info": {"broker_id", "address", "port", "rack_id", "is_controller"},
    "kminion_kafka_broker_log_dir_size_total_bytes": {"broker_id", "address", "port", "rack_id"},
    "kminion_kafka_topic_log_dir_size_total_bytes": {"topic_name"},
    "kminion_kafka_topic_info": {"topic_name", "partition_count", "replication_factor", "cleanup_policy"},
    "kminion_kafka_topic_partition_low_water_mark": {"topic_name", "partition_id"},
    "kminion_kafka_topic_low_water_mark_sum": {"topic_name"},
    "kminion_kafka_topic_partition_high_water_mark": {"topic_name", "partition_id"},
    "kminion_kafka_topic_high_water_mark_sum": {"topic_name"},
    "kminion_kafka_consumer_group_info": {"group_id", "protocol", "protocol_type", "state", "coordinator_id"},
    "kminion_kafka_consumer_group_members": {"group_id"},
    "kminion_kafka_consumer_group_empty_members": {"group_id"},
    "kminion_kafka_consumer_group_topic_members": {"group_id", "topic_name"},
    "kminion_kafka_consumer_group_topic_assigned_partitions": {"group_id", "topic_name"},
    "kminion_kafka_consumer_group_topic_offset_sum": {"group_id", "topic_name"},
    "kminion_kafka_consumer_group_topic_partition_lag": {"group_id", "topic_name", "partition_id"},
    "kminion_kafka_consumer_group_topic_lag": {"group_id", "topic_name"},
    "kminion_kafka_consumer_group_offset_commits_total": {"group_id"},
}
KAFKA_EXPORTER = {
    "kafka_brokers": set(),
    "kafka_broker_info": {"id", "address"},
    "kafka_topic_partitions": {"topic"},
    "kafka_topic_partition_current_offset": {"topic", "partition"},
    "kafka_topic_partition_oldest_offset": {"topic", "partition"},
    "kafka_topic_partition_leader": {"topic", "partition"},
    "kafka_topic_partition_replicas": {"topic", "partition"},
    "kafka_topic_partition_in_sync_replica": {"topic", "partition"},
    "kafka_topic_partition_leader_is_preferred": {"topic", "partition"},
    "kafka_topic_partition_under_replicated_partition": {"topic", "partition"},
    "kafka_consumergroup_current_offset": {"consumergroup", "topic", "partition"},
    "kafka_consumergroup_current_offset_sum": {"consumergroup", "topic"},
    "kafka_consumergroup_lag": {"consumergroup", "topic", "partition"},
    "kafka_consumergroup_lag_sum": {"consumergroup", "topic"},
    "kafka_consumergroup_members": {"consumergroup"},
}
MEMBER = {"cluster_name", "group", "topic", "partition", "member_host", "consumer_id", "client_id"}
LAG_EXPORTER = {
    "kafka_partition_latest_offset": {"cluster_name", "topic", "partition"},
    "kafka_partition_earliest_offset": {"cluster_name", "topic", "partition"},
    "kafka_consumergroup_group_offset": MEMBER,
    "kafka_consumergroup_group_lag": MEMBER,
    "kafka_consumergroup_group_lag_seconds": MEMBER,
    "kafka_consumergroup_group_max_lag": {"cluster_name", "group", "is_simple_consumer"},
    "kafka_consumergroup_group_max_lag_seconds": {"cluster_name", "group", "is_simple_consumer"},
    "kafka_consumergroup_group_sum_lag": {"cluster_name", "group"},
    "kafka_consumergroup_group_topic_sum_lag": {"cluster_name", "group", "topic"},
    "kafka_consumergroup_poll_time_ms": {"cluster_name"},
}


Series = dict[tuple[str, ...], float]


def scrape(measured: Metrics, accept: str = "") -> tuple[bytes, str]:
    """The metrics and their content type."""
    return asyncio.run(measured.scrape(accept))


def scraped(view: Looked, *compat: str, settings: Settings | None = None) -> dict[str, Series]:
    """Sample name → values of the labels, by name → value."""
    text = scrape(metrics(view, *compat, settings=settings))[0].decode()
    found: dict[str, Series] = {}
    for family in plain(text):
        for sample in family.samples:
            series = found.setdefault(sample.name, {})
            labels = tuple(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            assert labels not in series, (sample.name, labels)
            series[labels] = sample.value
    return found


@pytest.fixture
def view() -> Looked:
    return Looked()


# Form


def test_names_types_and_units_are_as_prometheus_wants_them() -> None:
    for spec in SPECS:
        name, kind, told, labels = spec.name, spec.kind, spec.help, spec.labels
        assert re.fullmatch(r"ottla(_[a-z]+)+", name), name
        assert told[-1] == "." and (told[0].isupper() or told[0].isdigit()), name
        assert (kind == "counter") == name.endswith("_total"), name
        if kind == "histogram":
            assert name.endswith("_seconds"), name
        assert not re.search(r"_(ms|milliseconds|minutes|kb|mb|percent|count|sum|bucket|gauge|counter)$", name), name
        for word in ("duration", "age", "slack"):
            if f"_{word}" in name:
                assert name.removesuffix("_total").endswith(("_seconds", "_ratio")), name
        for label in labels:
            assert re.fullmatch(r"[a-z]+(_[a-z]+)*", label) and label not in ("le", "quantile", "job", "instance"), name
            assert not name.endswith(f"_by_{label}"), name
    assert len({spec.name for spec in SPECS}) == len(SPECS)


@pytest.mark.parametrize("compat", [(), ALL])
def test_what_is_shown_is_what_was_declared(view: Looked, compat: tuple[str, ...]) -> None:
    view.groups["balanced"] = group("balanced", "Stable", member("m", {"orders": [0]}, epoch=3, state="STABLE"))
    view.groups["balanced"].protocol = "consumer"
    text = scrape(metrics(view, *compat))[0].decode()
    declared = {spec.name.removesuffix("_total"): spec for spec in SPECS}
    shown = {family.name: family for family in plain(text) if family.name.startswith("ottla_")}
    assert shown.keys() == declared.keys()
    for name, family in shown.items():
        assert (family.type, family.documentation) == (declared[name].kind, declared[name].help)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(declared[name].labels), sample


def test_openmetrics_is_spoken_to_those_who_ask(view: Looked) -> None:
    body, content_type = scrape(metrics(view, *ALL), "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert content_type.startswith("application/openmetrics-text")
    assert {family.name for family in openmetrics(body.decode())} >= {"ottla_groups", "kafka_brokers"}
    assert scrape(metrics(view), "text/plain")[1].startswith("text/plain")


def test_a_scrape_asks_the_recorder_where_its_events_come_from(view: Looked) -> None:
    asked: list[int] = []

    class Asked(Ring):
        @property
        def memory_bytes(self) -> int:  # type: ignore[override]
            asked.append(threading.get_ident())
            return 4_096

    measured = metrics(view)
    measured.sources.recorder = Asked()
    body, _ = scrape(measured)
    assert b"ottla_recorder_memory_bytes 4096.0" in body
    assert asked == [threading.get_ident()]


def test_what_a_rebalance_has_cost_is_told_while_it_runs(view: Looked) -> None:
    measured = metrics(view)
    measured.sources.running = lambda: [Running("busy", 0, 7_000)]
    for _ in range(2):
        text = scrape(measured)[0].decode()
        assert 'ottla_group_partition_unavailable_seconds_total{group="busy"} 9.5' in text, "2.5 s from before"
        assert "ottla_partition_unavailable_seconds_total 7.0" in text


def test_names_with_any_characters_are_written_so_that_they_can_be_read_again(view: Looked) -> None:
    strange = 'a"b\\c\nd/{}ü'
    view.groups[strange] = view.groups["empty"]
    view.groups[strange].group_id = strange
    del view.groups["empty"]
    assert scraped(view)["ottla_group_members"][f"group={strange}",] == 0


# Values


def test_groups_are_told_by_state_members_and_lag(view: Looked) -> None:
    found = scraped(view)
    assert found["ottla_groups"]["state=Stable",] == 1
    assert found["ottla_groups"]["state=CompletingRebalance",] == 0
    assert found["ottla_group_members"]["group=busy",] == 3
    assert found["ottla_group_lag_records"]["group=busy", "partition=0", "topic=orders"] == 6
    assert found["ottla_group_lag_seconds"]["group=busy", "partition=0", "topic=orders"] == 1.5
    assert found["ottla_group_total_lag_records"] == {("group=busy",): 6, ("group=empty",): 0, ("group=simple",): 29}
    assert found["ottla_group_max_lag_seconds"]["group=simple",] == 60
    assert ("group=empty", "partition=0", "topic=gone") not in found["ottla_group_lag_records"]
    assert found["ottla_group_committed_offset"]["group=empty", "partition=0", "topic=gone"] == 5


def test_no_sum_is_told_of_which_another_node_knows_a_part(view: Looked) -> None:
    view.committed["busy"][1] = msgspec.structs.replace(offset("orders", 1, 5, None, None), has_unknown_end=True)
    found = scraped(view)
    assert found["ottla_group_lag_records"]["group=busy", "partition=0", "topic=orders"] == 6
    assert found["ottla_group_committed_offset"]["group=busy", "partition=1", "topic=orders"] == 5
    assert found["ottla_group_total_lag_records"] == {("group=empty",): 0, ("group=simple",): 29}
    assert ("group=busy",) not in found["ottla_group_max_lag_seconds"]
    kafka, lag, kminion = (scraped(view, name) for name in ("kafka_exporter", "lag_exporter", "kminion"))
    assert ("consumergroup=busy", "topic=orders") not in kafka["kafka_consumergroup_lag_sum"]
    sums = {row[1]: value for row, value in lag["kafka_consumergroup_group_sum_lag"].items()}
    assert math.isnan(sums["group=busy"])
    assert sums["group=simple"] == 29
    assert ("group_id=busy", "topic_name=orders") not in kminion["kminion_kafka_consumer_group_topic_lag"]


def test_a_barrier_is_told_while_it_is_open(view: Looked) -> None:
    assert scraped(view)["ottla_group_barrier_age_seconds"] == {("barrier=join", "group=waiting"): 12.5}


def test_slack_is_that_of_the_member_that_has_least(view: Looked) -> None:
    found = scraped(view)
    assert found["ottla_group_heartbeat_slack_seconds"] == {("group=busy",): 4.5, ("group=waiting",): 44}
    assert found["ottla_group_heartbeat_slack_ratio"]["group=busy",] == 0.1


def test_rebalances_and_what_stood_still_are_counted(view: Looked) -> None:
    found = scraped(view)
    assert found["ottla_rebalances_total"] == {("cause=member-left",): 2}
    assert found["ottla_group_rebalances_total"]["group=busy",] == 2
    assert found["ottla_group_partition_unavailable_seconds_total"]["group=busy",] == 2.5
    assert found["ottla_rebalance_duration_seconds_sum"][()] == 3


def test_requests_syncs_recorder_and_sentinels_are_told(view: Looked) -> None:
    found = scraped(view)
    assert found["ottla_requests_total"]["api=Heartbeat", "error=REBALANCE_IN_PROGRESS"] == 1
    assert found["ottla_requests_total"]["api=Heartbeat", "error=NONE"] == 1
    assert found["ottla_request_duration_seconds_count"]["api=Heartbeat",] == 2
    assert found["ottla_journal_sync_duration_seconds_sum"][()] == 0.0007
    assert found["ottla_recorder_memory_bytes"][()] == 4096
    assert found["ottla_sentinels_active"]["sentinel=zombie",] == 1
    assert found["ottla_sentinels_raised_total"]["sentinel=zombie",] == 2
    assert found["ottla_connections_opened_total"][()] == 9
    assert found["ottla_failed_authentications_total"]["listener=SASL_SSL", "mechanism=PLAIN"] == 3
    assert found["ottla_denied_total"]["operation=READ", "resource=TOPIC"] == 2
    assert found["ottla_tls_certificate_expiry_seconds"]["listener=EXTERNAL",] == 1_900_000_000.5


def test_internal_topics_are_told_by_size_alone(view: Looked) -> None:
    found = scraped(view)
    assert found["ottla_topic_size_bytes"] == {("topic=orders",): 6_000, ("topic=__consumer_offsets",): 300}
    assert {labels[1] for labels in found["ottla_partition_end_offset"]} == {"topic=orders"}


def test_how_long_a_scrape_took_is_told_by_the_next(view: Looked) -> None:
    told = metrics(view)
    assert b"ottla_metrics_collect_duration_seconds 0.0\n" in scrape(told)[0]
    assert b"ottla_metrics_collect_duration_seconds 0.001\n" in scrape(told)[0]


# Bounds


def test_no_more_groups_are_shown_than_the_settings_allow(view: Looked) -> None:
    found = scraped(view, *ALL, settings=Settings(ottla_metrics_max_groups=2))
    assert set(found["ottla_group_members"]) == {("group=busy",), ("group=empty",)}
    assert set(found["kafka_consumergroup_members"]) == {("consumergroup=busy",), ("consumergroup=empty",)}
    assert found["ottla_metrics_left_out"]["what=groups",] == 2
    assert found["ottla_groups"]["state=Empty",] == 2


def test_no_more_partitions_are_shown_than_the_settings_allow(view: Looked) -> None:
    view.all_topics["more"] = topic("more", 1, 1)
    found = scraped(view, *ALL, settings=Settings(ottla_metrics_max_partitions=4))
    # Those of users come before internal ones, and a topic is shown whole or not at all.
    assert set(found["kafka_topic_partitions"]) == {("topic=orders",), ("topic=__consumer_offsets",)}
    assert found["ottla_metrics_left_out"]["what=partitions",] == 2
    assert found["ottla_partitions"][()] == 6


def test_partitions_that_other_nodes_lead_take_no_room_and_are_not_counted(view: Looked) -> None:
    for one in view.all_topics["orders"].partitions[1:]:
        one.is_led_here = False
    view.all_topics["more"] = topic("more", 1, 1, 1)
    found = scraped(view, *ALL, settings=Settings(ottla_metrics_max_partitions=2))
    assert set(found["kafka_topic_partitions"]) == {("topic=orders",), ("topic=__consumer_offsets",)}
    assert found["ottla_metrics_left_out"]["what=partitions",] == 3
    assert found["ottla_partitions"][()] == 5


def test_no_more_offsets_are_shown_than_the_settings_allow(view: Looked) -> None:
    found = scraped(view, *ALL, settings=Settings(ottla_metrics_max_group_partitions=3))
    shown = {labels[0] for labels in found["ottla_group_lag_records"]}
    assert shown == {"group=busy", "group=simple"}
    assert found["ottla_metrics_left_out"]["what=group_partitions",] == 2


def test_nothing_is_left_out_where_there_is_room(view: Looked) -> None:
    assert set(scraped(view)["ottla_metrics_left_out"].values()) == {0}


# The names of others


@pytest.mark.parametrize(
    ("name", "expected"), [("kminion", KMINION), ("kafka_exporter", KAFKA_EXPORTER), ("lag_exporter", LAG_EXPORTER)]
)
def test_each_set_has_the_names_and_labels_of_its_tool(view: Looked, name: str, expected: dict[str, set[str]]) -> None:
    own = scraped(view)
    found = {sample: series for sample, series in scraped(view, name).items() if sample not in own}
    labels = {sample: {label.split("=")[0] for row in series for label in row} for sample, series in found.items()}
    assert labels == expected


def test_sets_do_not_clash(view: Looked) -> None:
    text = scrape(metrics(view, *ALL))[0].decode()
    names = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert len(names) == len(set(names))


def test_kminion_tells_states_by_a_label_and_only_lag_that_is_known(view: Looked) -> None:
    found = scraped(view, "kminion")
    rows = {row[1]: (row[4], value) for row, value in found["kminion_kafka_consumer_group_info"].items()}
    assert rows["group_id=busy"] == ("state=Stable", 1)
    assert rows["group_id=empty"] == ("state=Empty", 0)
    assert found["kminion_kafka_consumer_group_empty_members"] == {("group_id=busy",): 1, ("group_id=waiting",): 2}
    assert found["kminion_kafka_consumer_group_topic_assigned_partitions"]["group_id=busy", "topic_name=orders"] == 3
    assert found["kminion_kafka_consumer_group_topic_lag"]["group_id=busy", "topic_name=orders"] == 6
    assert found["kminion_kafka_consumer_group_topic_offset_sum"]["group_id=busy", "topic_name=orders"] == 24
    assert found["kminion_kafka_consumer_group_offset_commits_total"]["group_id=busy",] == 41
    assert found["kminion_kafka_topic_high_water_mark_sum"]["topic_name=orders",] == 60


def test_kafka_exporter_has_a_row_for_each_partition_of_a_topic_that_is_consumed(view: Looked) -> None:
    found = scraped(view, "kafka_exporter")
    lags = {row[1]: value for row, value in found["kafka_consumergroup_lag"].items() if row[0] == "consumergroup=busy"}
    assert lags == {"partition=0": 6, "partition=1": 0, "partition=2": -1}
    assert found["kafka_consumergroup_lag_sum"]["consumergroup=busy", "topic=orders"] == 6
    assert found["kafka_consumergroup_current_offset_sum"]["consumergroup=busy", "topic=orders"] == 24
    assert found["kafka_consumergroup_members"]["consumergroup=empty",] == 0
    assert found["kafka_broker_info"] == {("address=broker.example:9092", "id=1"): 1}


def test_lag_exporter_names_members_and_knows_lag_in_seconds(view: Looked) -> None:
    rows = {}
    for row, value in scraped(view, "lag_exporter")["kafka_consumergroup_group_lag_seconds"].items():
        labels = dict(label.split("=", 1) for label in row)
        rows[labels["group"], labels["topic"], labels["partition"]] = (
            labels["client_id"],
            labels["member_host"],
            value,
        )
    assert rows["busy", "orders", "0"] == ("a", "/10.0.0.7", 1.5)
    assert rows["simple", "orders", "2"] == ("unknown", "unknown", 60)
    client, _, never_committed = rows["busy", "orders", "2"]
    assert client == "b" and math.isnan(never_committed)


def test_lag_exporter_keeps_groups_without_members_and_knows_simple_ones(view: Looked) -> None:
    found = scraped(view, "lag_exporter")
    assert found["kafka_consumergroup_group_max_lag"] == {
        ("cluster_name=cluster", "group=busy", "is_simple_consumer=false"): 6,
        ("cluster_name=cluster", "group=empty", "is_simple_consumer=false"): 0,
        ("cluster_name=cluster", "group=simple", "is_simple_consumer=true"): 29,
    }
    assert found["kafka_consumergroup_group_sum_lag"]["cluster_name=cluster", "group=busy"] == 6
