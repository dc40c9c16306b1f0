package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"ottla.example/scenarios"
)

func adminTopics(s *scenarios.S) {
	adm, name := admin(s), s.Unique("topic")
	retention := "60000"
	detail := &sarama.TopicDetail{
		NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &retention},
	}
	s.Must("validating", adm.CreateTopic(name, detail, true))
	s.Must("creating", adm.CreateTopic(name, detail, false))
	err := adm.CreateTopic(name, detail, false)
	s.Want(errors.Is(err, sarama.ErrTopicAlreadyExists), "creating it again: %v", err)
	err = adm.CreateTopic("no/such/name", detail, false)
	s.Want(errors.Is(err, sarama.ErrInvalidTopic), "creating no/such/name: %v", err)
	err = adm.CreateTopic(name+"-r", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 3}, false)
	s.Want(errors.Is(err, sarama.ErrInvalidReplicationFactor), "creating with three replicas: %v", err)
	s.Eventually("listing", func() (bool, string) {
		listed, err := adm.ListTopics()
		s.Must("listing", err)
		return listed[name].NumPartitions == 3, "not there"
	})
	listed, err := adm.ListTopics()
	s.Must("listing", err)
	s.Equal("replication factor", listed[name].ReplicationFactor, 1)
	s.Equal("retention.ms in the list", *listed[name].ConfigEntries["retention.ms"], retention)
	s.Must("growing", adm.CreatePartitions(name, 5, nil, false))
	err = adm.CreatePartitions(name, 2, nil, false)
	s.Want(errors.Is(err, sarama.ErrInvalidPartitions), "shrinking: %v", err)
	s.Eventually("growing", func() (bool, string) {
		described, err := adm.DescribeTopics([]string{name, "__consumer_offsets"})
		s.Must("describing", err)
		for _, one := range described {
			s.Equal("internal", one.IsInternal, one.Name == "__consumer_offsets")
		}
		at := slices.IndexFunc(described, func(t *sarama.TopicMetadata) bool { return t.Name == name })
		return len(described[at].Partitions) == 5, strconv.Itoa(len(described[at].Partitions))
	})
	s.Must("deleting", adm.DeleteTopic(name))
	s.Eventually("deletion", func() (bool, string) {
		listed, err := adm.ListTopics()
		s.Must("listing", err)
		_, there := listed[name]
		return !there, "there"
	})
	err = adm.DeleteTopic(name)
	s.Want(errors.Is(err, sarama.ErrUnknownTopicOrPartition), "deleting it again: %v", err)
}

func adminConfigs(s *scenarios.S) {
	name, adm := topic(s, 1, map[string]string{"retention.ms": "3600000"}), admin(s)
	entry := func(key string) sarama.ConfigEntry {
		found, err := adm.DescribeConfigs([]*sarama.ConfigResource{{Type: sarama.TopicResource, Name: name}},
			sarama.DescribeConfigsOptions{IncludeSynonyms: true})
		s.Must("describing", err)
		s.Want(found[0].ErrorCode == 0, "describing %s: %s", name, found[0].ErrorMsg)
		at := slices.IndexFunc(found[0].Configs, func(c sarama.ConfigEntry) bool { return c.Name == key })
		s.Want(at >= 0, "%s is not described", key)
		return found[0].Configs[at]
	}
	valued := func(key, wanted string) {
		s.Eventually(key, func() (bool, string) {
			value := entry(key).Value
			return value == wanted, value
		})
	}
	alter := func(operation sarama.IncrementalAlterConfigsOperation, key, value string) error {
		return adm.IncrementalAlterConfig(sarama.TopicResource, name,
			map[string]sarama.IncrementalAlterConfigsEntry{key: {Operation: operation, Value: &value}}, false)
	}
	valued("retention.ms", "3600000")
	s.Equal("its source", entry("retention.ms").Source, sarama.SourceTopic)
	s.Equal("source of cleanup.policy", entry("cleanup.policy").Source, sarama.SourceDefault)
	s.Must("setting", alter(sarama.IncrementalAlterConfigsOperationSet, "retention.ms", "7200000"))
	valued("retention.ms", "7200000")
	s.Must("appending", alter(sarama.IncrementalAlterConfigsOperationAppend, "cleanup.policy", "compact"))
	valued("cleanup.policy", "delete,compact")
	s.Must("subtracting", alter(sarama.IncrementalAlterConfigsOperationSubtract, "cleanup.policy", "delete"))
	valued("cleanup.policy", "compact")
	s.Must("deleting", alter(sarama.IncrementalAlterConfigsOperationDelete, "cleanup.policy", ""))
	valued("cleanup.policy", "delete")
	err := alter(sarama.IncrementalAlterConfigsOperationSet, "retention.ms", "soon")
	s.Want(errors.Is(err, sarama.ErrInvalidConfig), "setting retention.ms to soon: %v", err)
	size := "2000000"
	s.Must("replacing", adm.AlterConfig(sarama.TopicResource, name, map[string]*string{"segment.bytes": &size}, false))
	valued("segment.bytes", size)
	s.Equal("retention.ms after all was replaced", entry("retention.ms").Source, sarama.SourceDefault)
	brokers, _, err := adm.DescribeCluster()
	s.Must("describing the cluster", err)
	id := strconv.Itoa(int(brokers[0].ID()))
	ofBroker, err := adm.DescribeConfigs([]*sarama.ConfigResource{{Type: sarama.BrokerResource, Name: id}},
		sarama.DescribeConfigsOptions{})
	s.Must("describing the broker", err)
	s.Want(slices.ContainsFunc(ofBroker[0].Configs, func(c sarama.ConfigEntry) bool {
		return c.Name == "node.id" && c.Value == id
	}), "node.id %s is not described", id)
}

func adminGroups(s *scenarios.S) {
	name, other, group := topic(s, 2, nil), topic(s, 1, nil), s.Unique("group")
	adm := admin(s)
	produce(s, producer(s), messages(name, scenarios.Values("value", 50))...)
	m := join(s, group, name)
	allGot(s, scenarios.Values("value", 50), m)
	committed(s, group, name, 50)
	listed, err := adm.ListConsumerGroups()
	s.Must("listing", err)
	s.Equal("type in the list", listed[group], "consumer")
	described, err := adm.DescribeConsumerGroups([]string{group})
	s.Must("describing", err)
	s.Equal("state", described[0].State, "Stable")
	s.Equal("members", len(described[0].Members), 1)
	for _, one := range described[0].Members {
		s.Equal("client id", one.ClientId, "sarama-suite")
		subscribed, err := one.GetMemberMetadata()
		s.Must("reading a subscription", err)
		s.Equal("subscription", subscribed.Topics, []string{name})
	}
	err = adm.DeleteConsumerGroup(group)
	s.Want(errors.Is(err, sarama.ErrNonEmptyGroup), "deleting a group with members: %v", err)
	err = adm.DeleteConsumerGroupOffset(group, name, 0)
	s.Want(errors.Is(err, sarama.ErrGroupSubscribedToTopic), "deleting offsets of a subscribed topic: %v", err)
	m.leave()
	altered, err := adm.AlterConsumerGroupOffsets(group,
		map[string]map[int32]sarama.OffsetAndMetadata{other: {0: {Offset: 7, LeaderEpoch: -1, Metadata: "here"}}}, nil)
	s.Must("altering offsets", err)
	s.Equal("error of altering offsets", altered.Errors[other][0], sarama.ErrNoError)
	several, err := adm.ListConsumerGroupOffsetsBatch(map[string]map[string][]int32{group: nil, s.Unique("unknown"): nil})
	s.Must("asking for offsets of several groups", err)
	s.Equal("groups", len(several), 2)
	found, err := adm.ListConsumerGroupOffsets(group, map[string][]int32{other: {0}})
	s.Must("asking for offsets", err)
	s.Equal("offset", found.GetBlock(other, 0).Offset, 7)
	s.Equal("metadata", found.GetBlock(other, 0).Metadata, "here")
	s.Must("deleting an offset", adm.DeleteConsumerGroupOffset(group, other, 0))
	found, err = adm.ListConsumerGroupOffsets(group, map[string][]int32{other: {0}})
	s.Must("asking for offsets", err)
	s.Equal("the deleted offset", found.GetBlock(other, 0).Offset, -1)
	s.Must("deleting the group", adm.DeleteConsumerGroup(group))
	err = adm.DeleteConsumerGroup(group)
	s.Want(errors.Is(err, sarama.ErrGroupIDNotFound), "deleting it again: %v", err)
}

func adminRecords(s *scenarios.S) {
	name, adm := topic(s, 1, nil), admin(s)
	start := time.UnixMilli(1_700_000_000_000)
	to := producer(s)
	for i, message := range messages(name, scenarios.Values("value", 50)) {
		message.Timestamp = start.Add(time.Duration(i) * time.Second)
		produce(s, to, message)
	}
	offset := func(at int64) int64 {
		listed, err := adm.ListOffsets(map[string]map[int32]int64{name: {0: at}}, nil)
		s.Must("listing offsets", err)
		s.Equal("error of listing offsets", listed[name][0].Err, sarama.ErrNoError)
		return listed[name][0].Offset
	}
	s.Equal("oldest", offset(sarama.OffsetOldest), 0)
	s.Equal("newest", offset(sarama.OffsetNewest), 50)
	s.Equal("at nineteen seconds", offset(start.Add(19*time.Second).UnixMilli()), 19)
	s.Equal("a millisecond later", offset(start.Add(19*time.Second).UnixMilli()+1), 20)
	s.Must("deleting records", adm.DeleteRecords(name, map[int32]int64{0: 30}))
	s.Equal("oldest after deleting", offset(sarama.OffsetOldest), 30)
	s.Equal("values", sortedValues(read(s, name, sarama.OffsetOldest).take(20)), scenarios.Values("value", 50)[30:])
	err := adm.DeleteRecords(name, map[int32]int64{0: 500})
	s.Want(errors.Is(err, sarama.ErrOffsetOutOfRange), "deleting beyond the end: %v", err)
}

func adminCluster(s *scenarios.S) {
	adm := admin(s)
	brokers, controller, err := adm.DescribeCluster()
	s.Must("describing", err)
	s.Equal("brokers", len(brokers), len(s.Brokers()))
	var ids []int32
	for _, broker := range brokers {
		ids = append(ids, broker.ID())
	}
	s.Want(slices.Contains(ids, controller), "the controller is %d", controller)
	name := topic(s, 2, nil)
	produce(s, producer(s), messages(name, scenarios.Values("value", 100))...)
	directories, err := adm.DescribeLogDirs(ids)
	s.Must("describing log directories", err)
	var size int64
	for _, directory := range slices.Concat(slices.Collect(maps.Values(directories))...) {
		for _, one := range directory.Topics {
			if one.Topic == name {
				for _, partition := range one.Partitions {
					size += partition.Size
				}
			}
		}
	}
	s.Want(size > 0, "the log takes no room")
	moving, err := adm.ListPartitionReassignments(name, []int32{0, 1})
	s.Must("listing reassignments", err)
	s.Equal("reassignments", len(moving), 0)
}

// adminQuotas limits what one client may produce in a second: it is told to wait.
func adminQuotas(s *scenarios.S) {
	name, id, adm := topic(s, 1, nil), s.Unique("client"), admin(s)
	entity := []sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Name: id}}
	described := func() map[string]float64 {
		found, err := adm.DescribeClientQuotas([]sarama.QuotaFilterComponent{
			{EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Match: id},
		}, true)
		s.Must("describing", err)
		if len(found) == 0 {
			return nil
		}
		return found[0].Values
	}
	s.Must("altering", adm.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 10_000}, false))
	s.Eventually("the quota", func() (bool, string) {
		got := described()
		return len(got) == 1 && got["producer_byte_rate"] == 10_000, fmt.Sprint(got)
	})
	limited := config(func(c *sarama.Config) { c.ClientID = id })
	to, err := sarama.NewSyncProducer(s.Brokers(), limited)
	s.Must("opening a producer", err)
	s.Cleanup(func() { _ = to.Close() })
	produce(s, to, &sarama.ProducerMessage{Topic: name, Value: sarama.ByteEncoder(noise(150_000))})
	s.Eventually("waits that it was told", func() (bool, string) {
		var longest int64
		for metric, figures := range limited.MetricRegistry.GetAll() {
			if most, is := figures["max"].(int64); is && strings.HasPrefix(metric, "throttle-time-in-ms-for-broker-") {
				longest = max(longest, most)
			}
		}
		return longest > 1000, fmt.Sprint(longest)
	})
	s.Must("removing", adm.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "producer_byte_rate", Remove: true}, false))
	s.Eventually("the quota's removal", func() (bool, string) {
		got := described()
		return len(got) == 0, fmt.Sprint(got)
	})
}
