package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"ottla.example/scenarios"
)

// member is a consumer in a group; sarama calls its methods.
type member struct {
	s     *scenarios.S
	topic string
	group sarama.ConsumerGroup
	stop  context.CancelFunc
	ended chan struct{}

	lock       sync.Mutex
	owned      map[int32]bool
	claims     int // how many partitions were ever given to it
	generation int32
	id         string
	values     []string
	fatal      error
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.id, m.generation = session.MemberID(), session.GenerationID()
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	m.lock.Lock()
	m.owned[claim.Partition()] = true
	m.claims++
	m.lock.Unlock()
	defer func() {
		m.lock.Lock()
		delete(m.owned, claim.Partition())
		m.lock.Unlock()
	}()
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			m.lock.Lock()
			m.values = append(m.values, string(message.Value))
			m.lock.Unlock()
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func join(s *scenarios.S, group, topic string, changes ...func(*sarama.Config)) *member {
	made, err := sarama.NewConsumerGroup(s.Brokers(), group, config(changes...))
	s.Must("opening a member", err)
	ctx, stop := context.WithCancel(context.Background())
	m := &member{s: s, topic: topic, group: made, stop: stop, ended: make(chan struct{}), owned: map[int32]bool{}}
	go func() {
		for range made.Errors() {
		}
	}()
	go func() {
		defer close(m.ended)
		for ctx.Err() == nil {
			if err := made.Consume(ctx, []string{topic}, m); err != nil && ctx.Err() == nil {
				m.lock.Lock()
				m.fatal = err
				m.lock.Unlock()
				return
			}
		}
	}()
	s.Cleanup(m.leave)
	return m
}

// leave ends the session, which commits, and leaves the group.
func (m *member) leave() {
	m.stop()
	<-m.ended
	_ = m.group.Close()
}

func (m *member) owns() []int32 {
	m.lock.Lock()
	defer m.lock.Unlock()
	var owned []int32
	for partition := range m.owned {
		owned = append(owned, partition)
	}
	slices.Sort(owned)
	return owned
}

func (m *member) got() []string {
	m.lock.Lock()
	defer m.lock.Unlock()
	return slices.Clone(m.values)
}

func (m *member) err() error {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.fatal
}

// shares waits until the members own so many partitions each, no partition with two owners.
func shares(s *scenarios.S, total int, wanted map[*member]int) {
	s.Eventually("partitions of the members", func() (bool, string) {
		owners, good, said := map[int32]int{}, true, ""
		for m, count := range wanted {
			owned := m.owns()
			for _, partition := range owned {
				owners[partition]++
			}
			good = good && len(owned) == count
			said += fmt.Sprintf("%v (wanted %d) ", owned, count)
			s.Must("being a member", m.err())
		}
		return good && len(owners) == total, said
	})
}

// allGot waits until the members together have every value, each once.
func allGot(s *scenarios.S, wanted []string, members ...*member) {
	s.Eventually("messages of the members", func() (bool, string) {
		var got []string
		for _, m := range members {
			got = append(got, m.got()...)
		}
		slices.Sort(got)
		return slices.Equal(got, wanted), fmt.Sprintf("%d of %d", len(got), len(wanted))
	})
}

// committed waits until so many records of a topic are committed.
func committed(s *scenarios.S, group, topic string, count int64) {
	adm := admin(s)
	s.Eventually("commits", func() (bool, string) {
		sum := committedSum(s, adm, group, topic)
		return sum == count, fmt.Sprintf("%d instead of %d", sum, count)
	})
}

func committedSum(s *scenarios.S, adm sarama.ClusterAdmin, group, topic string) int64 {
	found, err := adm.ListConsumerGroupOffsets(group, nil)
	s.Must("asking for offsets", err)
	var sum int64
	for _, block := range found.Blocks[topic] {
		sum += max(block.Offset, 0)
	}
	return sum
}

func strategy(made sarama.BalanceStrategy) func(*sarama.Config) {
	return func(c *sarama.Config) { c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{made} }
}

func static(instance string) func(*sarama.Config) {
	return func(c *sarama.Config) {
		c.Consumer.Group.InstanceId, c.Consumer.Group.Session.Timeout = instance, 10*time.Second
	}
}

func groupJoinAndLeave(s *scenarios.S) {
	name, group := topic(s, 4, nil), s.Unique("group")
	to := producer(s)
	a := join(s, group, name)
	shares(s, 4, map[*member]int{a: 4})
	b := join(s, group, name)
	shares(s, 4, map[*member]int{a: 2, b: 2})
	wanted := scenarios.Values("value", 200)
	produce(s, to, messages(name, wanted)...)
	allGot(s, wanted, a, b)
	first := a.generation
	b.leave()
	shares(s, 4, map[*member]int{a: 4})
	s.Want(a.generation > first, "generation %d after %d", a.generation, first)
	more := scenarios.Values("zmore", 100)
	produce(s, to, messages(name, more)...)
	allGot(s, append(wanted, more...), a, b)
}

func groupCrash(s *scenarios.S) {
	name, group, wire := topic(s, 4, nil), s.Unique("group"), scenarios.NewWire()
	a, b := join(s, group, name), join(s, group, name, over(wire))
	shares(s, 4, map[*member]int{a: 2, b: 2})
	wire.Cut()
	began := time.Now()
	shares(s, 4, map[*member]int{a: 4})
	s.Want(time.Since(began) > time.Second, "taken over after %v only", time.Since(began))
	wanted := scenarios.Values("value", 100)
	produce(s, producer(s), messages(name, wanted)...)
	allGot(s, wanted, a)
}

func groupStaticMember(s *scenarios.S) {
	name, group := topic(s, 4, nil), s.Unique("group")
	a, b := join(s, group, name, static("a")), join(s, group, name, static("b"))
	shares(s, 4, map[*member]int{a: 2, b: 2})
	generation, claims, held := a.generation, a.claims, b.owns()
	b.leave() // sarama leaves only as a dynamic member
	again := join(s, group, name, static("b"))
	shares(s, 4, map[*member]int{a: 2, again: 2})
	s.Equal("partitions of the one that came back", again.owns(), held)
	s.Equal("generation of the other", a.generation, generation)
	s.Equal("partitions given to the other", a.claims, claims)
	again.leave()
	adm := admin(s)
	described, err := adm.DescribeConsumerGroups([]string{group})
	s.Must("describing", err)
	s.Equal("members", len(described[0].Members), 2)
	_, err = adm.RemoveMemberFromConsumerGroup(group, []string{"b"})
	s.Must("removing a member", err)
	shares(s, 4, map[*member]int{a: 4})
}

func groupCooperative(s *scenarios.S) {
	name, group := topic(s, 6, nil), s.Unique("group")
	cooperative := strategy(sarama.NewBalanceStrategyCooperativeSticky())
	// Between joining and syncing a client waits for a fetch of each partition that it gives up, at each broker.
	patient := func(c *sarama.Config) { c.Consumer.Group.Session.Timeout = 10 * time.Second }
	a := join(s, group, name, cooperative, patient)
	shares(s, 6, map[*member]int{a: 6})
	b := join(s, group, name, cooperative, patient)
	shares(s, 6, map[*member]int{a: 3, b: 3})
	s.Equal("partitions given to the first", a.claims, 6)
	wanted := scenarios.Values("value", 200)
	produce(s, producer(s), messages(name, wanted)...)
	allGot(s, wanted, a, b)
	b.leave()
	shares(s, 6, map[*member]int{a: 6})
	s.Equal("partitions given to the first when the other left", a.claims, 9)
}

func groupStrategies(s *scenarios.S) {
	for _, made := range []sarama.BalanceStrategy{
		sarama.NewBalanceStrategyRange(), sarama.NewBalanceStrategyRoundRobin(), sarama.NewBalanceStrategySticky(),
	} {
		name, group := topic(s, 5, nil), s.Unique("group")
		a := join(s, group, name, strategy(made))
		shares(s, 5, map[*member]int{a: 5})
		b := join(s, group, name, strategy(made))
		s.Eventually("balance by "+made.Name(), func() (bool, string) {
			x, y := len(a.owns()), len(b.owns())
			return x+y == 5 && min(x, y) == 2, fmt.Sprintf("%d and %d", x, y)
		})
		described, err := admin(s).DescribeConsumerGroups([]string{group})
		s.Must("describing", err)
		s.Equal("strategy of the group", described[0].Protocol, made.Name())
		for _, one := range described[0].Members {
			assigned, err := one.GetMemberAssignment()
			s.Must("reading an assignment", err)
			s.Want(len(assigned.Topics[name]) >= 2, "assigned: %v", assigned.Topics)
		}
		a.leave()
		b.leave()
	}
}

func groupNewPartitions(s *scenarios.S) {
	name := topic(s, 1, nil)
	a := join(s, s.Unique("group"), name, func(c *sarama.Config) { c.Metadata.RefreshFrequency = 300 * time.Millisecond })
	shares(s, 1, map[*member]int{a: 1})
	s.Must("growing", admin(s).CreatePartitions(name, 4, nil, false))
	shares(s, 4, map[*member]int{a: 4})
}

func commitAndResume(s *scenarios.S) {
	name, group := topic(s, 2, nil), s.Unique("group")
	first := scenarios.Values("first", 100)
	to := producer(s)
	produce(s, to, messages(name, first)...)
	a := join(s, group, name)
	allGot(s, first, a)
	a.leave()
	committed(s, group, name, 100)
	second := scenarios.Values("second", 50)
	produce(s, to, messages(name, second)...)
	b := join(s, group, name)
	allGot(s, second, b)
}

func offsetManager(s *scenarios.S) {
	name, group := topic(s, 1, nil), s.Unique("group")
	cl, err := sarama.NewClient(s.Brokers(), config())
	s.Must("opening a client", err)
	s.Cleanup(func() { _ = cl.Close() })
	managed := func() (sarama.OffsetManager, sarama.PartitionOffsetManager) {
		manager, err := sarama.NewOffsetManagerFromClient(group, cl)
		s.Must("opening an offset manager", err)
		one, err := manager.ManagePartition(name, 0)
		s.Must("managing a partition", err)
		return manager, one
	}
	manager, one := managed()
	at, _ := one.NextOffset()
	s.Equal("first offset", at, sarama.OffsetOldest)
	one.MarkOffset(42, "from here")
	manager.Commit()
	s.Must("closing", one.Close())
	s.Must("closing", manager.Close())
	manager, one = managed()
	at, metadata := one.NextOffset()
	s.Equal("offset", at, 42)
	s.Equal("metadata", metadata, "from here")
	s.Must("closing", one.Close())
	s.Must("closing", manager.Close())
}

// brokerRestart goes on producing and consuming in a group over a restart of the broker.
func brokerRestart(s *scenarios.S) {
	name, group := topic(s, 2, nil), s.Unique("group")
	patient := func(c *sarama.Config) { c.Consumer.Group.Session.Timeout = 20 * time.Second }
	a := join(s, group, name, patient)
	shares(s, 2, map[*member]int{a: 2})
	to := producer(s, patient)
	before := scenarios.Values("before", 100)
	produce(s, to, messages(name, before)...)
	allGot(s, before, a)
	committed(s, group, name, 100)
	s.RestartBroker()
	after := scenarios.Values("later", 100)
	produce(s, to, messages(name, after)...)
	allGot(s, append(before, after...), a)
	committed(s, group, name, 200)
}
