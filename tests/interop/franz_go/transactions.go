package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"ottla.example/scenarios"
)

func committedOnly(s *scenarios.S, name string) *kgo.Client {
	return client(s, kgo.ConsumeTopics(name), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(500*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
}

func everything(s *scenarios.S, name string) *kgo.Client {
	return client(s, kgo.ConsumeTopics(name), kgo.FetchIsolationLevel(kgo.ReadUncommitted()),
		kgo.FetchMaxWait(500*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
}

// transaction produces the values in one and ends it.
func transaction(s *scenarios.S, cl *kgo.Client, name string, values []string, end kgo.TransactionEndTry) {
	s.Must("beginning", cl.BeginTransaction())
	produce(s, cl, records(name, values)...)
	s.Must("ending", cl.EndTransaction(s.Ctx, end))
}

func transactionCommit(s *scenarios.S) {
	name := topic(s, 3, nil)
	cl := client(s, kgo.TransactionalID(s.Unique("id")))
	reader := committedOnly(s, name)
	s.Must("beginning", cl.BeginTransaction())
	wanted := scenarios.Values("value", 60)
	produce(s, cl, records(name, wanted)...)
	quiet(s, reader) // nothing is shown before the commit
	stable, err := admin(s).ListCommittedOffsets(s.Ctx, name)
	s.Must("listing", err)
	stable.Each(func(o kadm.ListedOffset) { s.Equal("last stable offset", o.Offset, 0) })
	s.Must("committing", cl.EndTransaction(s.Ctx, kgo.TryCommit))
	s.Equal("values", sortedValues(consume(s, reader, len(wanted))), wanted)
	for round := range 5 {
		more := scenarios.Values(fmt.Sprintf("round-%d", round), 20)
		transaction(s, cl, name, more, kgo.TryCommit)
		s.Equal("values of another one", sortedValues(consume(s, reader, len(more))), more)
	}
}

func transactionAbort(s *scenarios.S) {
	name := topic(s, 2, nil)
	cl := client(s, kgo.TransactionalID(s.Unique("id")))
	transaction(s, cl, name, scenarios.Values("aborted", 40), kgo.TryAbort)
	transaction(s, cl, name, scenarios.Values("committed", 20), kgo.TryCommit)
	transaction(s, cl, name, scenarios.Values("dropped", 30), kgo.TryAbort)
	transaction(s, cl, name, scenarios.Values("second", 10), kgo.TryCommit)
	reader := committedOnly(s, name)
	s.Equal("committed values", sortedValues(consume(s, reader, 30)), append(scenarios.Values("committed", 20), scenarios.Values("second", 10)...))
	quiet(s, reader)
	s.Equal("all values", len(consume(s, everything(s, name), 100)), 100)
}

// transactionOffsets reads in a group, writes and commits in one transaction; an aborted one is read again.
func transactionOffsets(s *scenarios.S) {
	from, to, group := topic(s, 2, nil), topic(s, 2, nil), s.Unique("group")
	wanted := scenarios.Values("value", 100)
	produce(s, client(s), records(from, wanted)...)
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(s.Brokers()...), kgo.TransactionalID(s.Unique("id")), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond),
	)
	s.Must("opening a session", err)
	s.Cleanup(session.Close)
	adm := admin(s)
	aborted := false
	for moved := 0; moved < len(wanted); {
		fetches := session.PollRecords(s.Ctx, 30)
		s.Must("polling", fetches.Err())
		s.Must("beginning", session.Begin())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(s.Ctx, &kgo.Record{Topic: to, Value: record.Value}, nil)
		})
		before := committedSum(s, adm, group)
		end := kgo.TransactionEndTry(moved == 0 || aborted)
		ended, err := session.End(s.Ctx, end)
		s.Must("ending", err)
		s.Equal("committed", ended, bool(end))
		if ended {
			moved += fetches.NumRecords()
			committed(s, group, int64(moved)) // the end is answered before it is carried out
		} else {
			aborted = true
			s.Equal("offsets after an abort", committedSum(s, adm, group), before)
		}
	}
	s.Want(aborted, "nothing was aborted")
	reader := committedOnly(s, to)
	s.Equal("values", sortedValues(consume(s, reader, len(wanted))), wanted)
	quiet(s, reader)
}

func transactionFenced(s *scenarios.S) {
	name, id := topic(s, 1, nil), s.Unique("id")
	old := client(s, kgo.TransactionalID(id))
	s.Must("beginning", old.BeginTransaction())
	produce(s, old, records(name, scenarios.Values("old", 5))...)
	newer := client(s, kgo.TransactionalID(id))
	transaction(s, newer, name, scenarios.Values("new", 5), kgo.TryCommit)
	err := old.EndTransaction(s.Ctx, kgo.TryCommit)
	s.Want(errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch), "end of the old one: %v", err)
	reader := committedOnly(s, name)
	s.Equal("values", sortedValues(consume(s, reader, 5)), scenarios.Values("new", 5))
	quiet(s, reader)
}

// transactionTimeout leaves a transaction open: the broker aborts it, and readers go on.
func transactionTimeout(s *scenarios.S) {
	name := topic(s, 1, nil)
	cl := client(s, kgo.TransactionalID(s.Unique("id")), kgo.TransactionTimeout(time.Second))
	s.Must("beginning", cl.BeginTransaction())
	produce(s, cl, records(name, scenarios.Values("left open", 5))...)
	produce(s, client(s), records(name, scenarios.Values("behind", 5))...)
	s.Equal("values", sortedValues(consume(s, committedOnly(s, name), 5)), scenarios.Values("behind", 5))
	s.Want(cl.EndTransaction(s.Ctx, kgo.TryCommit) != nil, "a transaction that was aborted could be committed")
}
