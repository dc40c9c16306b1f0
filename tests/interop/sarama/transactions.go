package main

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"ottla.example/scenarios"
)

func transactional(s *scenarios.S, id string) sarama.AsyncProducer {
	made, err := sarama.NewAsyncProducer(s.Brokers(), config(func(c *sarama.Config) {
		c.Producer.Idempotent, c.Net.MaxOpenRequests = true, 1
		c.Producer.Transaction.ID, c.Producer.Transaction.Timeout = id, 20*time.Second
		c.Producer.Transaction.Retry.Backoff = 20 * time.Millisecond
	}))
	s.Must("opening a transactional producer", err)
	s.Cleanup(func() { _ = made.Close() })
	return made
}

// inTransaction produces within the current one.
func inTransaction(s *scenarios.S, to sarama.AsyncProducer, topic string, values []string) {
	go func() {
		for _, message := range messages(topic, values) {
			to.Input() <- message
		}
	}()
	for range values {
		select {
		case <-to.Successes():
		case failed := <-to.Errors():
			s.Fail("producing: %v", failed)
		case <-s.Ctx.Done():
			s.Fail("not everything was acknowledged")
		}
	}
}

func transaction(s *scenarios.S, to sarama.AsyncProducer, topic string, values []string, commit bool) {
	s.Must("beginning", to.BeginTxn())
	inTransaction(s, to, topic, values)
	if commit {
		s.Must("committing", to.CommitTxn())
	} else {
		s.Must("aborting", to.AbortTxn())
	}
}

func transactionCommit(s *scenarios.S) {
	name := topic(s, 3, nil)
	to := transactional(s, s.Unique("id"))
	from := read(s, name, sarama.OffsetOldest, committedOnly)
	s.Must("beginning", to.BeginTxn())
	wanted := scenarios.Values("value", 60)
	inTransaction(s, to, name, wanted)
	from.quiet() // nothing is shown before the commit
	s.Must("committing", to.CommitTxn())
	s.Equal("values", sortedValues(from.take(len(wanted))), wanted)
	for round := range 5 {
		more := scenarios.Values(fmt.Sprintf("round-%d", round), 20)
		transaction(s, to, name, more, true)
		s.Equal("values of another one", sortedValues(from.take(len(more))), more)
	}
}

func transactionAbort(s *scenarios.S) {
	name := topic(s, 2, nil)
	to := transactional(s, s.Unique("id"))
	transaction(s, to, name, scenarios.Values("aborted", 40), false)
	transaction(s, to, name, scenarios.Values("committed", 20), true)
	transaction(s, to, name, scenarios.Values("dropped", 30), false)
	transaction(s, to, name, scenarios.Values("second", 10), true)
	from := read(s, name, sarama.OffsetOldest, committedOnly)
	wanted := append(scenarios.Values("committed", 20), scenarios.Values("second", 10)...)
	s.Equal("committed values", sortedValues(from.take(30)), wanted)
	from.quiet()
	s.Equal("all values", len(read(s, name, sarama.OffsetOldest).take(100)), 100)
}

// transactionOffsets writes and commits what was read in one transaction; an aborted one commits nothing.
func transactionOffsets(s *scenarios.S) {
	from, to, group := topic(s, 1, nil), topic(s, 1, nil), s.Unique("group")
	wanted := scenarios.Values("value", 50)
	produce(s, producer(s), messages(from, wanted)...)
	read1 := read(s, from, sarama.OffsetOldest, committedOnly).take(len(wanted))
	adm := admin(s)
	txn := transactional(s, s.Unique("id"))
	for _, commit := range []bool{false, true} {
		s.Must("beginning", txn.BeginTxn())
		inTransaction(s, txn, to, wanted)
		for _, message := range read1 {
			s.Must("adding an offset", txn.AddMessageToTxn(message, group, nil))
		}
		if commit {
			s.Must("committing", txn.CommitTxn())
			continue
		}
		s.Must("aborting", txn.AbortTxn())
		s.Equal("offsets after an abort", committedSum(s, adm, group, from), 0)
	}
	committed(s, group, from, 50)
	target := read(s, to, sarama.OffsetOldest, committedOnly)
	s.Equal("values", sortedValues(target.take(len(wanted))), wanted)
	target.quiet()
}

func transactionFenced(s *scenarios.S) {
	name, id := topic(s, 1, nil), s.Unique("id")
	old := transactional(s, id)
	s.Must("beginning", old.BeginTxn())
	inTransaction(s, old, name, scenarios.Values("old", 5))
	newer := transactional(s, id)
	transaction(s, newer, name, scenarios.Values("new", 5), true)
	s.Want(old.CommitTxn() != nil, "a fenced producer could commit")
	from := read(s, name, sarama.OffsetOldest, committedOnly)
	s.Equal("values", sortedValues(from.take(5)), scenarios.Values("new", 5))
	from.quiet()
}
