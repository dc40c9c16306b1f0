// Program franz_go runs scenarios of franz-go's client against a broker and prints a line of JSON for each.
package main

import "ottla.example/scenarios"

func main() {
	all := []scenarios.Scenario{
		{Name: "produce_and_consume", Run: produceAndConsume},
		{Name: "headers_keys_tombstones", Run: headersKeysTombstones},
		{Name: "big_messages", Run: bigMessages},
		{Name: "too_big_message", Run: tooBigMessage},
		{Name: "read_from_timestamp", Run: readFromTimestamp},
		{Name: "many_partitions_in_one_fetch_session", Run: fetchSession},
		{Name: "topic_deleted_and_made_again", Run: topicMadeAgain},
		{Name: "produce_without_acks", Run: produceWithoutAcks},
		{Name: "oldest_and_newest_versions", Run: oldVersions},
		{Name: "group_join_and_leave", Run: groupJoinAndLeave},
		{Name: "group_crash", Run: groupCrash},
		{Name: "group_static_member", Run: groupStaticMember},
		{Name: "group_static_member_fenced", Run: groupStaticMemberFenced},
		{Name: "group_cooperative", Run: groupCooperative},
		{Name: "group_regex", Run: groupRegex},
		{Name: "group_new_partitions", Run: groupNewPartitions},
		{Name: "consumer_protocol_join_and_leave", Run: modernJoinAndLeave},
		{Name: "consumer_protocol_crash", Run: modernCrash},
		{Name: "consumer_protocol_connections_drop", Run: modernConnectionsDrop},
		{Name: "consumer_protocol_static_member", Run: modernStaticMember},
		{Name: "consumer_protocol_static_member_refused", Run: modernStaticMemberRefused},
		{Name: "consumer_protocol_regex", Run: modernRegex},
		{Name: "consumer_protocol_new_partitions", Run: modernNewPartitions},
		{Name: "consumer_protocol_transaction_offsets", Run: modernTransactions},
		{Name: "commit_and_resume", Run: commitAndResume},
		{Name: "idempotent_producer", Run: idempotentProducer},
		{Name: "transaction_commit", Run: transactionCommit},
		{Name: "transaction_abort", Run: transactionAbort},
		{Name: "transaction_offsets", Run: transactionOffsets},
		{Name: "transaction_fenced", Run: transactionFenced},
		{Name: "transaction_timeout", Run: transactionTimeout},
		{Name: "admin_topics", Run: adminTopics},
		{Name: "admin_configs", Run: adminConfigs},
		{Name: "admin_groups", Run: adminGroups},
		{Name: "admin_records", Run: adminRecords},
		{Name: "admin_quotas", Run: adminQuotas},
		{Name: "admin_cluster", Run: adminCluster},
		{Name: "admin_transactions", Run: adminTransactions},
		{Name: "consumer_protocol_broker_restart", Run: modernBrokerRestart, Alone: true},
		{Name: "broker_restart", Run: brokerRestart, Alone: true},
	}
	for _, codec := range codecs {
		all = append(all, scenarios.Scenario{
			Name: "codec_" + codec.name,
			Run:  func(s *scenarios.S) { codecRoundTrip(s, codec.codec) },
		})
	}
	for _, way := range scenarios.Ways() {
		all = append(all, scenarios.Scenario{Name: way.Name, Run: func(s *scenarios.S) { secured(s, way) }})
	}
	all = append(all, scenarios.Scenario{Name: scenarios.Renewed().Name, Run: renewed})
	scenarios.Main(all)
}
