package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"ottla.example/scenarios"
)

// modern has a member use the protocol of KIP-848, in which the broker assigns; it is how one opts in.
func modern(s *scenarios.S) kgo.Opt {
	return kgo.WithContext(context.WithValue(s.Ctx, "opt_in_kafka_next_gen_balancer_beta", true))
}

func joinModern(s *scenarios.S, group, topic string, options ...kgo.Opt) *member {
	return join(s, group, topic, append([]kgo.Opt{modern(s)}, options...)...)
}

func described(s *scenarios.S, group string) kadm.DescribedConsumerGroup {
	found, err := admin(s).DescribeConsumerGroups(s.Ctx, group)
	s.Must("describing", err)
	s.Must("describing "+group, found[group].Err)
	return found[group]
}

func modernJoinAndLeave(s *scenarios.S) {
	name, group := topic(s, 4, nil), s.Unique("group")
	producer := client(s)
	a := joinModern(s, group, name)
	shares(s, 4, map[*member]int{a: 4})
	b := joinModern(s, group, name)
	shares(s, 4, map[*member]int{a: 2, b: 2})
	s.Equal("partitions that the first had to give up", len(a.revoked), 2)
	wanted := scenarios.Values("value", 200)
	produce(s, producer, records(name, wanted)...)
	allGot(s, wanted, a, b)
	found := described(s, group)
	s.Equal("state", found.State, "Stable")
	s.Equal("assignor", found.AssignorName, "range")
	s.Equal("members", len(found.Members), 2)
	s.Equal("epoch of the target", found.AssignmentEpoch, found.Epoch)
	b.cl.Close()
	shares(s, 4, map[*member]int{a: 4})
	more := scenarios.Values("zmore", 100)
	produce(s, producer, records(name, more)...)
	allGot(s, append(wanted, more...), a, b)
	listed, err := admin(s).ListGroupsByType(s.Ctx, []string{"consumer"})
	s.Must("listing", err)
	s.Want(slices.Contains(listed.Groups(), group), "%s is not among the groups of the consumer protocol", group)
}

func modernCrash(s *scenarios.S) {
	name, group := topic(s, 4, nil), s.Unique("group")
	a, b := joinModern(s, group, name), joinModern(s, group, name)
	shares(s, 4, map[*member]int{a: 2, b: 2})
	b.wire.Cut()
	shares(s, 4, map[*member]int{a: 4})
	wanted := scenarios.Values("value", 100)
	produce(s, client(s), records(name, wanted)...)
	allGot(s, wanted, a)
}

// modernConnectionsDrop: a member goes on where it was, with the same epoch.
func modernConnectionsDrop(s *scenarios.S) {
	name, group := topic(s, 2, nil), s.Unique("group")
	a := joinModern(s, group, name)
	shares(s, 2, map[*member]int{a: 2})
	before := described(s, group).Epoch
	a.wire.Drop()
	wanted := scenarios.Values("value", 100)
	produce(s, client(s), records(name, wanted)...)
	allGot(s, wanted, a)
	s.Equal("epoch", described(s, group).Epoch, before)
}

// longSession sets the session timeout of one group, whatever the broker's is.
func longSession(s *scenarios.S, group string) {
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "consumer.session.timeout.ms", kadm.StringPtr("20000")
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	resource.Configs = append(resource.Configs, config)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(s.Ctx, client(s))
	s.Must("setting the session", err)
	s.Must("setting the session", kerr.ErrorForCode(answer.Resources[0].ErrorCode))
}

func modernStaticMember(s *scenarios.S) {
	name, group := topic(s, 4, nil), s.Unique("group")
	longSession(s, group)
	a := joinModern(s, group, name, kgo.InstanceID("a"))
	b := joinModern(s, group, name, kgo.InstanceID("b"))
	shares(s, 4, map[*member]int{a: 2, b: 2})
	revoked := len(a.revoked)
	// When it closes, kgo 1.22 does not name the instance that leaves, and Apache Kafka, too, refuses that: as long as its
	// session lasts nobody else can be that instance, unless an admin removes it.
	b.cl.Close()
	s.Equal("members", len(described(s, group).Members), 2)
	s.Equal("partitions taken from the other", len(a.revoked), revoked)
	left, err := admin(s).LeaveGroup(s.Ctx, kadm.LeaveGroup(group).InstanceIDs("b").Reason("it does not come back"))
	s.Must("removing", err)
	s.Must("removing b", left.Error())
	shares(s, 4, map[*member]int{a: 4})
	again := joinModern(s, group, name, kgo.InstanceID("b"))
	shares(s, 4, map[*member]int{a: 2, again: 2})
}

// modernStaticMemberRefused: who has the instance id keeps it.
func modernStaticMemberRefused(s *scenarios.S) {
	name, group := topic(s, 2, nil), s.Unique("group")
	a := joinModern(s, group, name, kgo.InstanceID("same"))
	shares(s, 2, map[*member]int{a: 2})
	second := joinModern(s, group, name, kgo.InstanceID("same"))
	s.Eventually("refusal of the second", func() (bool, string) {
		err := second.err()
		return errors.Is(err, kerr.UnreleasedInstanceID), fmt.Sprint(err)
	})
	shares(s, 2, map[*member]int{a: 2})
}

// modernRegex: the broker matches, and looks for topics that came later.
func modernRegex(s *scenarios.S) {
	prefix := s.Unique("any")
	adm := admin(s)
	_, err := adm.CreateTopic(s.Ctx, 2, 1, nil, prefix+".one")
	s.Must("creating", err)
	a := joinModern(s, s.Unique("group"), prefix+`\..*`, kgo.ConsumeRegex())
	shares(s, 2, map[*member]int{a: 2})
	_, err = adm.CreateTopic(s.Ctx, 3, 1, nil, prefix+".two")
	s.Must("creating", err)
	shares(s, 3, map[*member]int{a: 3})
	wanted := scenarios.Values("value", 50)
	produce(s, client(s), records(prefix+".two", wanted)...)
	allGot(s, wanted, a)
}

func modernNewPartitions(s *scenarios.S) {
	name := topic(s, 1, nil)
	a := joinModern(s, s.Unique("group"), name)
	shares(s, 1, map[*member]int{a: 1})
	grown, err := admin(s).UpdatePartitions(s.Ctx, 5, name)
	s.Must("growing", err)
	s.Must("growing "+name, grown.Error())
	shares(s, 5, map[*member]int{a: 5})
	wanted := scenarios.Values("value", 100)
	produce(s, client(s), records(name, wanted)...)
	allGot(s, wanted, a)
}

// modernTransactions: transactions with offsets, while a second member takes half of the partitions.
func modernTransactions(s *scenarios.S) {
	from, to, group := topic(s, 4, nil), topic(s, 2, nil), s.Unique("group")
	wanted := scenarios.Values("value", 200)
	produce(s, client(s), records(from, wanted)...)
	open := func() *kgo.GroupTransactSession {
		session, err := kgo.NewGroupTransactSession(
			modern(s), kgo.SeedBrokers(s.Brokers()...), kgo.TransactionalID(s.Unique("id")), kgo.ConsumerGroup(group),
			kgo.ConsumeTopics(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond),
		)
		s.Must("opening a session", err)
		s.Cleanup(session.Close)
		return session
	}
	adm := admin(s)
	sessions := []*kgo.GroupTransactSession{open()}
	for turn := 0; committedSum(s, adm, group) < int64(len(wanted)); turn++ {
		if turn == 2 {
			sessions = append(sessions, open())
		}
		session := sessions[turn%len(sessions)]
		polling, cancel := context.WithTimeout(s.Ctx, 500*time.Millisecond)
		fetches := session.PollRecords(polling, 20)
		cancel()
		if fetches.NumRecords() == 0 {
			continue
		}
		s.Must("beginning", session.Begin())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(s.Ctx, &kgo.Record{Topic: to, Value: record.Value}, nil)
		})
		// One that lost partitions in the middle aborts, and whoever has them reads the records again.
		_, err := session.End(s.Ctx, kgo.TryCommit)
		s.Must("ending", err)
	}
	reader := committedOnly(s, to)
	s.Equal("values", sortedValues(consume(s, reader, len(wanted))), wanted)
	quiet(s, reader)
}

// modernBrokerRestart goes on in a group over a restart of the broker: nobody joins again.
func modernBrokerRestart(s *scenarios.S) {
	name, group := topic(s, 2, nil), s.Unique("group")
	a := joinModern(s, group, name)
	shares(s, 2, map[*member]int{a: 2})
	before := scenarios.Values("before", 100)
	producer := client(s)
	produce(s, producer, records(name, before)...)
	allGot(s, before, a)
	committed(s, group, 100)
	epoch := described(s, group).Epoch
	s.RestartBroker()
	after := scenarios.Values("later", 100)
	produce(s, producer, records(name, after)...)
	allGot(s, append(before, after...), a)
	s.Equal("epoch after the restart", described(s, group).Epoch, epoch)
	committed(s, group, 200)
}
