package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"ottla.example/scenarios"
)

func adminTopics(s *scenarios.S) {
	adm, name := admin(s), s.Unique("topic")
	checked, err := adm.ValidateCreateTopics(s.Ctx, 3, 1, nil, name)
	s.Must("validating", err)
	s.Must("validating "+name, checked.Error())
	made, err := adm.CreateTopics(s.Ctx, 3, -1, map[string]*string{"retention.ms": kadm.StringPtr("60000")}, name)
	s.Must("creating", err)
	s.Must("creating "+name, made.Error())
	s.Equal("partitions told at creation", made[name].NumPartitions, 3)
	_, err = adm.CreateTopic(s.Ctx, 3, 1, nil, name)
	s.Want(errors.Is(err, kerr.TopicAlreadyExists), "creating it again: %v", err)
	_, err = adm.CreateTopic(s.Ctx, 1, 1, nil, "no/such/name")
	s.Want(errors.Is(err, kerr.InvalidTopicException), "creating no/such/name: %v", err)
	_, err = adm.CreateTopic(s.Ctx, 1, 3, nil, name+"-r")
	s.Want(errors.Is(err, kerr.InvalidReplicationFactor), "creating with three replicas: %v", err)
	listed, err := adm.ListTopics(s.Ctx)
	s.Must("listing", err)
	s.Want(listed.Has(name), "%s is not listed", name)
	s.Equal("partitions", len(listed[name].Partitions), 3)
	s.Equal("replicas", listed[name].Partitions.NumReplicas(), 1)
	byID, err := adm.ListTopics(s.Ctx, name)
	s.Must("listing one", err)
	s.Equal("id", byID[name].ID, made[name].ID)
	grown, err := adm.CreatePartitions(s.Ctx, 2, name)
	s.Must("growing", err)
	s.Must("growing "+name, grown.Error())
	shrunk, err := adm.UpdatePartitions(s.Ctx, 2, name)
	s.Must("shrinking", err)
	s.Want(errors.Is(shrunk.Error(), kerr.InvalidPartitions), "shrinking: %v", shrunk.Error())
	listed, err = adm.ListTopics(s.Ctx, name)
	s.Must("listing", err)
	s.Equal("partitions after growing", len(listed[name].Partitions), 5)
	deleted, err := adm.DeleteTopic(s.Ctx, name)
	s.Must("deleting", err)
	s.Must("deleting "+name, deleted.Err)
	_, err = adm.DeleteTopic(s.Ctx, name)
	s.Want(errors.Is(err, kerr.UnknownTopicOrPartition), "deleting it again: %v", err)
	internal, err := adm.ListTopicsWithInternal(s.Ctx)
	s.Must("listing internal topics", err)
	s.Want(internal["__consumer_offsets"].IsInternal, "__consumer_offsets is not listed as internal")
}

func config(s *scenarios.S, configs []kadm.Config, key string) *kadm.Config {
	at := slices.IndexFunc(configs, func(c kadm.Config) bool { return c.Key == key })
	s.Want(at >= 0, "%s is not described", key)
	return &configs[at]
}

func adminConfigs(s *scenarios.S) {
	name, adm := topic(s, 1, map[string]string{"retention.ms": "3600000"}), admin(s)
	described := func() []kadm.Config {
		found, err := adm.DescribeTopicConfigs(s.Ctx, name)
		s.Must("describing", err)
		resource, err := found.On(name, nil)
		s.Must("describing "+name, err)
		s.Must("describing "+name, resource.Err)
		return resource.Configs
	}
	valued := func(key, wanted string) {
		s.Eventually(key, func() (bool, string) {
			value := config(s, described(), key).MaybeValue()
			return value == wanted, value
		})
	}
	alter := func(change kadm.IncrementalOp, key, value string) error {
		altered, err := adm.AlterTopicConfigs(s.Ctx, []kadm.AlterConfig{{Op: change, Name: key, Value: kadm.StringPtr(value)}}, name)
		s.Must("altering", err)
		return altered[0].Err
	}
	valued("retention.ms", "3600000")
	s.Equal("its source", config(s, described(), "retention.ms").Source, "DYNAMIC_TOPIC_CONFIG")
	s.Equal("source of cleanup.policy", config(s, described(), "cleanup.policy").Source, "DEFAULT_CONFIG")
	s.Must("setting", alter(kadm.SetConfig, "retention.ms", "7200000"))
	valued("retention.ms", "7200000")
	s.Must("appending", alter(kadm.AppendConfig, "cleanup.policy", "compact"))
	valued("cleanup.policy", "delete,compact")
	s.Must("subtracting", alter(kadm.SubtractConfig, "cleanup.policy", "delete"))
	valued("cleanup.policy", "compact")
	s.Must("deleting", alter(kadm.DeleteConfig, "cleanup.policy", ""))
	valued("cleanup.policy", "delete")
	s.Want(alter(kadm.SetConfig, "retention.ms", "soon") != nil, "retention.ms could be set to soon")
	s.Want(alter(kadm.SetConfig, "no.such.config", "1") != nil, "no.such.config could be set")
	replaced, err := adm.AlterTopicConfigsState(s.Ctx, []kadm.AlterConfig{{Name: "segment.bytes", Value: kadm.StringPtr("2000000")}}, name)
	s.Must("replacing", err)
	s.Must("replacing", replaced[0].Err)
	valued("segment.bytes", "2000000")
	s.Equal("source of retention.ms after all was replaced", config(s, described(), "retention.ms").Source, "DEFAULT_CONFIG")
	brokers, err := adm.ListBrokers(s.Ctx)
	s.Must("listing brokers", err)
	ofBroker, err := adm.DescribeBrokerConfigs(s.Ctx, brokers[0].NodeID)
	s.Must("describing the broker", err)
	s.Must("describing the broker", ofBroker[0].Err)
	s.Equal("node.id", config(s, ofBroker[0].Configs, "node.id").MaybeValue(), brokers[0].NodeID)
}

func adminGroups(s *scenarios.S) {
	name, other, group := topic(s, 2, nil), topic(s, 1, nil), s.Unique("group")
	adm := admin(s)
	produce(s, client(s), records(name, scenarios.Values("value", 50))...)
	m := join(s, group, name)
	shares(s, 2, map[*member]int{m: 2})
	allGot(s, scenarios.Values("value", 50), m)
	listed, err := adm.ListGroups(s.Ctx, "Stable")
	s.Must("listing", err)
	s.Equal("state in the list", listed[group].State, "Stable")
	empty, err := adm.ListGroups(s.Ctx, "Empty")
	s.Must("listing the empty ones", err)
	s.Want(!slices.Contains(empty.Groups(), group), "%s is among the empty groups", group)
	described, err := adm.DescribeGroups(s.Ctx, group)
	s.Must("describing", err)
	s.Equal("state", described[group].State, "Stable")
	s.Equal("protocol", described[group].Protocol, "range")
	s.Equal("members", len(described[group].Members), 1)
	assigned := described.AssignedPartitions()
	s.Equal("assigned partitions", len(assigned[name]), 2)
	_, err = adm.DeleteGroup(s.Ctx, group)
	s.Want(errors.Is(err, kerr.NonEmptyGroup), "deleting a group with members: %v", err)
	s.Eventually("lag", func() (bool, string) {
		lags, err := adm.Lag(s.Ctx, group)
		s.Must("lag", err)
		return lags[group].Lag.Total() == 0 && len(lags[group].Lag) > 0, fmt.Sprint(lags[group].Lag.Total())
	})
	m.cl.Close()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: other, Partition: 0, At: 7, LeaderEpoch: -1})
	s.Must("committing for an empty group", adm.CommitAllOffsets(s.Ctx, group, offsets))
	several := adm.FetchManyOffsets(s.Ctx, group, s.Unique("unknown"))
	s.Must("fetching of several groups", several.Error())
	s.Equal("topics with offsets", len(several.CommittedPartitions()), 2)
	forgotten, err := adm.DeleteOffsets(s.Ctx, group, kadm.TopicsSet{other: {0: {}}})
	s.Must("deleting offsets", err)
	s.Must("deleting offsets", forgotten.Error())
	left, err := adm.FetchOffsets(s.Ctx, group)
	s.Must("fetching offsets", err)
	_, there := left.Lookup(other, 0)
	s.Want(!there, "the deleted offset is still there")
	_, err = adm.DeleteGroup(s.Ctx, group)
	s.Must("deleting", err)
	_, err = adm.DeleteGroup(s.Ctx, group)
	s.Want(errors.Is(err, kerr.GroupIDNotFound), "deleting it again: %v", err)
	gone, err := adm.DescribeGroups(s.Ctx, group)
	s.Must("describing what is gone", err)
	s.Want(gone[group].State == "Dead" || errors.Is(gone[group].Err, kerr.GroupIDNotFound),
		"described after deletion: %s, %v", gone[group].State, gone[group].Err)
}

func adminRecords(s *scenarios.S) {
	name, adm := topic(s, 1, nil), admin(s)
	start := time.UnixMilli(1_700_000_000_000)
	cl := client(s)
	for i, value := range scenarios.Values("value", 50) {
		produce(s, cl, &kgo.Record{Topic: name, Value: []byte(value), Timestamp: start.Add(time.Duration(i) * time.Second)})
	}
	at := func(what string, listed kadm.ListedOffsets, err error) int64 {
		s.Must("listing "+what, err)
		s.Must("listing "+what, listed.Error())
		found, there := listed.Lookup(name, 0)
		s.Want(there, "%s: not listed", what)
		return found.Offset
	}
	listed, err := adm.ListStartOffsets(s.Ctx, name)
	s.Equal("start", at("start", listed, err), 0)
	listed, err = adm.ListEndOffsets(s.Ctx, name)
	s.Equal("end", at("end", listed, err), 50)
	listed, err = adm.ListMaxTimestampOffsets(s.Ctx, name)
	s.Equal("latest timestamp", at("latest timestamp", listed, err), 49)
	listed, err = adm.ListOffsetsAfterMilli(s.Ctx, start.Add(19*time.Second+1).UnixMilli(), name)
	s.Equal("after nineteen seconds", at("after nineteen seconds", listed, err), 19)
	listed, err = adm.ListOffsetsAfterMilli(s.Ctx, start.Add(19*time.Second).UnixMilli()+1, name)
	s.Equal("a millisecond later", at("a millisecond later", listed, err), 20)
	listed, err = adm.ListOffsetsAfterMilli(s.Ctx, start.Add(time.Hour).UnixMilli(), name)
	s.Equal("after an hour", at("after an hour", listed, err), 50)
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: name, Partition: 0, At: 30, LeaderEpoch: -1})
	trimmed, err := adm.DeleteRecords(s.Ctx, offsets)
	s.Must("deleting records", err)
	s.Must("deleting records", trimmed.Error())
	s.Equal("low watermark", trimmed[name][0].LowWatermark, 30)
	listed, err = adm.ListStartOffsets(s.Ctx, name)
	s.Equal("start after deleting", at("start", listed, err), 30)
	reader := client(s, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	s.Equal("values", sortedValues(consume(s, reader, 20)), scenarios.Values("value", 50)[30:])
	beyond := kadm.Offsets{}
	beyond.Add(kadm.Offset{Topic: name, Partition: 0, At: 500, LeaderEpoch: -1})
	trimmed, err = adm.DeleteRecords(s.Ctx, beyond)
	s.Must("deleting records beyond the end", err)
	s.Want(errors.Is(trimmed.Error(), kerr.OffsetOutOfRange), "deleting beyond the end: %v", trimmed.Error())
	epochs := kadm.OffsetForLeaderEpochRequest{}
	epochs.Add(name, 0, 0)
	ends, err := adm.OffetForLeaderEpoch(s.Ctx, epochs)
	s.Must("asking where an epoch ends", err)
	s.Equal("end of the epoch", ends[name][0].EndOffset, 50)
}

func adminCluster(s *scenarios.S) {
	adm := admin(s)
	metadata, err := adm.BrokerMetadata(s.Ctx)
	s.Must("asking for brokers", err)
	s.Equal("brokers", len(metadata.Brokers), len(s.Brokers()))
	s.Want(slices.Contains(metadata.Brokers.NodeIDs(), metadata.Controller), "the controller is %d", metadata.Controller)
	s.Want(metadata.Cluster != "", "no cluster id")
	versions, err := adm.ApiVersions(s.Ctx)
	s.Must("asking for versions", err)
	for _, node := range versions {
		s.Must("asking for versions", node.Err)
		_, newest, there := node.KeyVersions(0)
		s.Want(there && newest >= 12, "Produce up to %d", newest)
	}
	name := topic(s, 2, nil)
	produce(s, client(s), records(name, scenarios.Values("value", 100))...)
	directories, err := adm.DescribeAllLogDirs(s.Ctx, kadm.TopicsSet{name: {0: {}, 1: {}}})
	s.Must("describing log directories", err)
	var size int64
	directories.Each(func(d kadm.DescribedLogDir) { d.Topics.Each(func(p kadm.DescribedLogDirPartition) { size += p.Size }) })
	s.Want(size > 0, "the log takes no room")
	elected, err := adm.ElectLeaders(s.Ctx, kadm.ElectPreferredReplica, kadm.TopicsSet{name: {0: {}}})
	s.Must("electing leaders", err)
	for _, result := range elected[name] {
		s.Want(result.Err == nil || errors.Is(result.Err, kerr.ElectionNotNeeded), "electing: %v", result.Err)
	}
}

func adminTransactions(s *scenarios.S) {
	name, id := topic(s, 1, nil), s.Unique("id")
	cl := client(s, kgo.TransactionalID(id))
	s.Must("beginning", cl.BeginTransaction())
	produce(s, cl, records(name, scenarios.Values("value", 5))...)
	adm := admin(s)
	listed, err := adm.ListTransactions(s.Ctx, nil, []string{"Ongoing"})
	s.Must("listing", err)
	s.Equal("state in the list", listed[id].State, "Ongoing")
	described, err := adm.DescribeTransactions(s.Ctx, id)
	s.Must("describing", err)
	s.Equal("state", described[id].State, "Ongoing")
	s.Equal("topics", described[id].Topics, kadm.TopicsSet{name: {0: {}}})
	producers, err := adm.DescribeProducers(s.Ctx, kadm.TopicsSet{name: {0: {}}})
	s.Must("describing producers", err)
	found := producers.SortedProducers()
	s.Equal("producers", len(found), 1)
	s.Equal("producer", found[0].ProducerID, described[id].ProducerID)
	s.Must("committing", cl.EndTransaction(s.Ctx, kgo.TryCommit))
	s.Eventually("end of the transaction", func() (bool, string) {
		described, err := adm.DescribeTransactions(s.Ctx, id)
		s.Must("describing", err)
		return described[id].State == "CompleteCommit", described[id].State
	})
}
