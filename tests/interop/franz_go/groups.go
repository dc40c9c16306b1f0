package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"ottla.example/scenarios"
)

const sessionTimeout = 2 * time.Second

// member is a consumer in a group that polls all the time and keeps what it got.
type member struct {
	cl   *kgo.Client
	wire *scenarios.Wire

	lock    sync.Mutex
	owned   map[int32]bool
	revoked []int32 // every partition that was ever taken from it
	values  []string
	fatal   error
	ended   chan struct{}
}

func join(s *scenarios.S, group, topic string, options ...kgo.Opt) *member {
	m := &member{wire: scenarios.NewWire(), owned: map[int32]bool{}, ended: make(chan struct{})}
	taken := func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
		m.lock.Lock()
		defer m.lock.Unlock()
		for _, partitions := range gone {
			for _, partition := range partitions {
				delete(m.owned, partition)
				m.revoked = append(m.revoked, partition)
			}
		}
	}
	m.cl = client(s, append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.Dialer(m.wire.DialContext),
		kgo.SessionTimeout(sessionTimeout), kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.RebalanceTimeout(10 * time.Second), kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.AutoCommitInterval(100 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(kgo.RangeBalancer()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			m.lock.Lock()
			defer m.lock.Unlock()
			for _, partitions := range given {
				for _, partition := range partitions {
					m.owned[partition] = true
				}
			}
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, cl *kgo.Client, gone map[string][]int32) {
			if err := cl.CommitUncommittedOffsets(ctx); err != nil {
				m.fail(fmt.Errorf("committing before a rebalance: %w", err))
			}
			taken(ctx, cl, gone)
		}),
		kgo.OnPartitionsLost(taken),
	}, options...)...)
	go m.poll(s.Ctx)
	return m
}

func (m *member) poll(ctx context.Context) {
	defer close(m.ended)
	for {
		fetches := m.cl.PollFetches(ctx)
		m.lock.Lock()
		for _, record := range fetches.Records() {
			m.values = append(m.values, string(record.Value))
		}
		for _, failed := range fetches.Errors() {
			if m.fatal == nil && !errors.Is(failed.Err, context.Canceled) && !errors.Is(failed.Err, kgo.ErrClientClosed) {
				m.fatal = failed.Err
			}
		}
		m.lock.Unlock()
		if fetches.IsClientClosed() || ctx.Err() != nil {
			return
		}
	}
}

func (m *member) fail(err error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.fatal == nil {
		m.fatal = err
	}
}

func (m *member) owns() []int32 {
	m.lock.Lock()
	defer m.lock.Unlock()
	return slices.Sorted(maps.Keys(m.owned))
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
		owners := map[int32]int{}
		good := true
		said := ""
		for m, count := range wanted {
			owned := m.owns()
			for _, partition := range owned {
				owners[partition]++
			}
			good = good && len(owned) == count
			said += fmt.Sprintf("%v (wanted %d) ", owned, count)
			if err := m.err(); err != nil {
				s.Fail("a member failed: %v", err)
			}
		}
		return good && len(owners) == total, said
	})
}

// allGot waits until the members together have every value, each once.
func allGot(s *scenarios.S, wanted []string, members ...*member) {
	s.Eventually("records of the members", func() (bool, string) {
		var got []string
		for _, m := range members {
			got = append(got, m.got()...)
		}
		slices.Sort(got)
		return slices.Equal(got, wanted), fmt.Sprintf("%d of %d", len(got), len(wanted))
	})
}

func groupJoinAndLeave(s *scenarios.S) {
	name, group := topic(s, 4, nil), s.Unique("group")
	producer := client(s)
	a := join(s, group, name)
	shares(s, 4, map[*member]int{a: 4})
	b := join(s, group, name)
	shares(s, 4, map[*member]int{a: 2, b: 2})
	wanted := scenarios.Values("value", 200)
	produce(s, producer, records(name, wanted)...)
	allGot(s, wanted, a, b)
	_, first := a.cl.GroupMetadata()
	b.cl.Close()
	shares(s, 4, map[*member]int{a: 4})
	_, second := a.cl.GroupMetadata()
	s.Want(second > first, "generation %d after %d", second, first)
	more := scenarios.Values("zmore", 100)
	produce(s, producer, records(name, more)...)
	allGot(s, append(wanted, more...), a, b)
}

func groupCrash(s *scenarios.S) {
	name, group := topic(s, 4, nil), s.Unique("group")
	a, b := join(s, group, name), join(s, group, name)
	shares(s, 4, map[*member]int{a: 2, b: 2})
	b.wire.Cut()
	began := time.Now()
	shares(s, 4, map[*member]int{a: 4})
	s.Want(time.Since(began) > sessionTimeout/2, "taken over after %v only", time.Since(began))
	wanted := scenarios.Values("value", 100)
	produce(s, client(s), records(name, wanted)...)
	allGot(s, wanted, a)
}

func groupStaticMember(s *scenarios.S) {
	name, group := topic(s, 4, nil), s.Unique("group")
	a := join(s, group, name, kgo.InstanceID("a"), kgo.SessionTimeout(10*time.Second))
	b := join(s, group, name, kgo.InstanceID("b"), kgo.SessionTimeout(10*time.Second))
	shares(s, 4, map[*member]int{a: 2, b: 2})
	_, generation := a.cl.GroupMetadata()
	held := b.owns()
	revoked := len(a.revoked)
	b.cl.Close()
	again := join(s, group, name, kgo.InstanceID("b"), kgo.SessionTimeout(10*time.Second))
	shares(s, 4, map[*member]int{a: 2, again: 2})
	s.Equal("partitions of the one that came back", again.owns(), held)
	_, now := a.cl.GroupMetadata()
	s.Equal("generation of the other", now, generation)
	s.Equal("partitions taken from the other", len(a.revoked), revoked)
	// It stays away: its partitions stay its own until it is removed.
	again.cl.Close()
	described, err := admin(s).DescribeGroups(s.Ctx, group)
	s.Must("describing", err)
	s.Equal("members", len(described[group].Members), 2)
	left, err := admin(s).LeaveGroup(s.Ctx, kadm.LeaveGroup(group).InstanceIDs("b").Reason("it does not come back"))
	s.Must("removing", err)
	s.Must("removing b", left.Error())
	shares(s, 4, map[*member]int{a: 4})
}

func groupStaticMemberFenced(s *scenarios.S) {
	name, group := topic(s, 2, nil), s.Unique("group")
	a := join(s, group, name, kgo.InstanceID("same"))
	shares(s, 2, map[*member]int{a: 2})
	second := join(s, group, name, kgo.InstanceID("same"))
	s.Eventually("fencing of the first", func() (bool, string) {
		err := a.err()
		return errors.Is(err, kerr.FencedInstanceID), fmt.Sprint(err)
	})
	shares(s, 2, map[*member]int{second: 2})
}

func groupCooperative(s *scenarios.S) {
	name, group := topic(s, 6, nil), s.Unique("group")
	cooperative := kgo.Balancers(kgo.CooperativeStickyBalancer())
	a := join(s, group, name, cooperative)
	shares(s, 6, map[*member]int{a: 6})
	b := join(s, group, name, cooperative)
	shares(s, 6, map[*member]int{a: 3, b: 3})
	s.Equal("partitions that the first had to give up", len(a.revoked), 3)
	c := join(s, group, name, cooperative)
	shares(s, 6, map[*member]int{a: 2, b: 2, c: 2})
	s.Equal("partitions given up so far", len(a.revoked)+len(b.revoked), 5)
	wanted := scenarios.Values("value", 200)
	produce(s, client(s), records(name, wanted)...)
	allGot(s, wanted, a, b, c)
	c.cl.Close()
	shares(s, 6, map[*member]int{a: 3, b: 3})
	s.Equal("partitions given up when one left", len(a.revoked)+len(b.revoked), 5)
}

func groupRegex(s *scenarios.S) {
	prefix := s.Unique("any")
	adm := admin(s)
	_, err := adm.CreateTopic(s.Ctx, 2, 1, nil, prefix+".one")
	s.Must("creating", err)
	a := join(s, s.Unique("group"), "^"+prefix+`\..*`, kgo.ConsumeRegex(), kgo.MetadataMaxAge(300*time.Millisecond))
	shares(s, 2, map[*member]int{a: 2})
	_, err = adm.CreateTopic(s.Ctx, 3, 1, nil, prefix+".two")
	s.Must("creating", err)
	shares(s, 3, map[*member]int{a: 3})
	wanted := scenarios.Values("value", 50)
	produce(s, client(s), records(prefix+".two", wanted)...)
	allGot(s, wanted, a)
}

func groupNewPartitions(s *scenarios.S) {
	name := topic(s, 1, nil)
	a := join(s, s.Unique("group"), name, kgo.MetadataMaxAge(300*time.Millisecond))
	shares(s, 1, map[*member]int{a: 1})
	grown, err := admin(s).UpdatePartitions(s.Ctx, 5, name)
	s.Must("growing", err)
	s.Must("growing "+name, grown.Error())
	shares(s, 5, map[*member]int{a: 5})
	wanted := scenarios.Values("value", 100)
	produce(s, client(s), records(name, wanted)...)
	allGot(s, wanted, a)
}

func commitAndResume(s *scenarios.S) {
	name, group := topic(s, 1, nil), s.Unique("group")
	options := []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(name), kgo.DisableAutoCommit(), kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	wanted := scenarios.Values("value", 100)
	produce(s, client(s), records(name, wanted)...)
	first := client(s, options...)
	got := consume(s, first, len(wanted))
	s.Must("committing", first.CommitRecords(s.Ctx, got[:40]...))
	first.Close()
	second := client(s, options...)
	s.Equal("values after the commit", sortedValues(consume(s, second, 60)), wanted[40:])
	adm := admin(s)
	committed, err := adm.FetchOffsets(s.Ctx, group)
	s.Must("fetching offsets", err)
	at, _ := committed.Lookup(name, 0)
	s.Equal("committed offset", at.At, 40)
	second.Close()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: name, Partition: 0, At: 90, LeaderEpoch: 0, Metadata: "from here"})
	s.Must("committing from outside", adm.CommitAllOffsets(s.Ctx, group, offsets))
	committed, err = adm.FetchOffsets(s.Ctx, group)
	s.Must("fetching offsets", err)
	at, _ = committed.Lookup(name, 0)
	s.Equal("metadata", at.Metadata, "from here")
	third := client(s, options...)
	s.Equal("values after that", sortedValues(consume(s, third, 10)), wanted[90:])
}

// brokerRestart goes on producing and consuming in a group over a restart of the broker.
func brokerRestart(s *scenarios.S) {
	name, group := topic(s, 2, nil), s.Unique("group")
	a := join(s, group, name, kgo.SessionTimeout(20*time.Second))
	shares(s, 2, map[*member]int{a: 2})
	producer := client(s)
	before := scenarios.Values("before", 100)
	produce(s, producer, records(name, before)...)
	allGot(s, before, a)
	committed(s, group, 100)
	id, generation := a.cl.GroupMetadata()
	s.RestartBroker()
	after := scenarios.Values("later", 100)
	produce(s, producer, records(name, after)...)
	allGot(s, append(before, after...), a)
	// It joins again when its heartbeats find nobody, as the member that it was.
	sameID, now := a.cl.GroupMetadata()
	s.Equal("member id after the restart", sameID, id)
	s.Want(now >= generation, "generation %d after %d", now, generation)
	committed(s, group, 200)
}

// committed waits until so many records are committed.
func committed(s *scenarios.S, group string, count int64) {
	adm := admin(s)
	s.Eventually("commits", func() (bool, string) {
		sum := committedSum(s, adm, group)
		return sum == count, fmt.Sprintf("%d instead of %d", sum, count)
	})
}

func committedSum(s *scenarios.S, adm *kadm.Client, group string) int64 {
	offsets, err := adm.FetchOffsets(s.Ctx, group)
	s.Must("fetching offsets", err)
	var sum int64
	offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
	return sum
}
