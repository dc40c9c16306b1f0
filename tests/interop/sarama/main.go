// Program sarama runs scenarios of IBM's sarama against a broker and prints a line of JSON for each.
package main

import (
	"github.com/IBM/sarama"
	"ottla.example/scenarios"
)

func main() {
	all := []scenarios.Scenario{
		{Name: "produce_and_consume", Run: produceAndConsume},
		{Name: "headers_keys_tombstones", Run: headersKeysTombstones},
		{Name: "big_messages", Run: bigMessages},
		{Name: "too_big_message", Run: tooBigMessage},
		{Name: "read_from_timestamp", Run: readFromTimestamp},
		{Name: "produce_without_acks", Run: produceWithoutAcks},
		{Name: "offset_out_of_range", Run: offsetOutOfRange},
		{Name: "unknown_topic", Run: unknownTopic},
		{Name: "group_join_and_leave", Run: groupJoinAndLeave},
		{Name: "group_crash", Run: groupCrash},
		{Name: "group_static_member", Run: groupStaticMember},
		{Name: "group_cooperative", Run: groupCooperative},
		{Name: "group_strategies", Run: groupStrategies},
		{Name: "group_new_partitions", Run: groupNewPartitions},
		{Name: "commit_and_resume", Run: commitAndResume},
		{Name: "offset_manager", Run: offsetManager},
		{Name: "idempotent_producer", Run: idempotentProducer},
		{Name: "transaction_commit", Run: transactionCommit},
		{Name: "transaction_abort", Run: transactionAbort},
		{Name: "transaction_offsets", Run: transactionOffsets},
		{Name: "transaction_fenced", Run: transactionFenced},
		{Name: "admin_topics", Run: adminTopics},
		{Name: "admin_configs", Run: adminConfigs},
		{Name: "admin_groups", Run: adminGroups},
		{Name: "admin_records", Run: adminRecords},
		{Name: "admin_quotas", Run: adminQuotas},
		{Name: "admin_cluster", Run: adminCluster},
		{Name: "broker_restart", Run: brokerRestart, Alone: true},
	}
	for name, codec := range codecs {
		all = append(all, scenarios.Scenario{
			Name: "codec_" + name,
			Run:  func(s *scenarios.S) { codecRoundTrip(s, codec) },
		})
	}
	// What sarama sends depends on the version of Kafka that it is told.
	for _, version := range []sarama.KafkaVersion{
		sarama.V2_1_0_0, sarama.V2_4_0_0, sarama.DefaultVersion, sarama.V3_6_0_0, sarama.V4_0_0_0, sarama.MaxVersion,
	} {
		all = append(all, scenarios.Scenario{
			Name: "as_for_kafka_" + version.String(),
			Run:  func(s *scenarios.S) { asFor(s, version) },
		})
	}
	for _, way := range scenarios.Ways() {
		all = append(all, scenarios.Scenario{Name: way.Name, Run: func(s *scenarios.S) { secured(s, way) }})
	}
	all = append(all, scenarios.Scenario{Name: scenarios.Renewed().Name, Run: renewed})
	scenarios.Main(all)
}
