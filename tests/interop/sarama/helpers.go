package main

import (
	"slices"
	"time"

	"github.com/IBM/sarama"
	"ottla.example/scenarios"
)

// config is sarama's own for its newest version, with short waits.
func config(changes ...func(*sarama.Config)) *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.MaxVersion
	made.ClientID = "sarama-suite"
	made.Producer.Return.Successes = true
	made.Producer.RequiredAcks = sarama.WaitForAll
	made.Producer.Retry.Max = 50
	made.Producer.Retry.Backoff = 50 * time.Millisecond
	made.Metadata.Retry.Max = 50
	made.Metadata.Retry.Backoff = 50 * time.Millisecond
	made.Consumer.Retry.Backoff = 50 * time.Millisecond
	made.Consumer.Return.Errors = true
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	made.Consumer.Group.Session.Timeout = 2 * time.Second
	made.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	made.Consumer.Group.Rebalance.Timeout = 10 * time.Second
	made.Consumer.Group.Rebalance.Retry.Backoff = 100 * time.Millisecond
	for _, change := range changes {
		change(made)
	}
	return made
}

func admin(s *scenarios.S, changes ...func(*sarama.Config)) sarama.ClusterAdmin {
	adm, err := sarama.NewClusterAdmin(s.Brokers(), config(changes...))
	s.Must("opening an admin client", err)
	s.Cleanup(func() { _ = adm.Close() })
	return adm
}

// topic makes a topic of the scenario's own and waits until it is served.
func topic(s *scenarios.S, partitions int32, configs map[string]string) string {
	name := s.Unique("topic")
	given := map[string]*string{}
	for key, value := range configs {
		given[key] = &value
	}
	adm := admin(s)
	s.Must("creating "+name, adm.CreateTopic(name, &sarama.TopicDetail{
		NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: given,
	}, false))
	s.Eventually("serving "+name, func() (bool, string) {
		described, err := adm.DescribeTopics([]string{name})
		s.Must("describing "+name, err)
		return described[0].Err == sarama.ErrNoError && len(described[0].Partitions) == int(partitions),
			described[0].Err.Error()
	})
	return name
}

func producer(s *scenarios.S, changes ...func(*sarama.Config)) sarama.SyncProducer {
	made, err := sarama.NewSyncProducer(s.Brokers(), config(changes...))
	s.Must("opening a producer", err)
	s.Cleanup(func() { _ = made.Close() })
	return made
}

func messages(topic string, values []string) []*sarama.ProducerMessage {
	made := make([]*sarama.ProducerMessage, len(values))
	for i, value := range values {
		made[i] = &sarama.ProducerMessage{
			Topic: topic, Key: sarama.StringEncoder(value), Value: sarama.StringEncoder(value),
		}
	}
	return made
}

func produce(s *scenarios.S, to sarama.SyncProducer, messages ...*sarama.ProducerMessage) {
	s.Must("producing", to.SendMessages(messages))
}

// reader reads every partition of a topic from the given offset, which may be one of sarama's constants.
type reader struct {
	s        *scenarios.S
	messages chan *sarama.ConsumerMessage
	errors   chan error
}

func read(s *scenarios.S, name string, from int64, changes ...func(*sarama.Config)) *reader {
	consumer, err := sarama.NewConsumer(s.Brokers(), config(changes...))
	s.Must("opening a consumer", err)
	s.Cleanup(func() { _ = consumer.Close() })
	partitions, err := consumer.Partitions(name)
	s.Must("asking for partitions", err)
	r := &reader{s: s, messages: make(chan *sarama.ConsumerMessage, 10_000), errors: make(chan error, 100)}
	for _, partition := range partitions {
		one, err := consumer.ConsumePartition(name, partition, from)
		s.Must("reading a partition", err)
		s.Cleanup(one.AsyncClose)
		go func() {
			for message := range one.Messages() {
				r.messages <- message
			}
		}()
		go func() {
			for err := range one.Errors() {
				r.errors <- err
			}
		}()
	}
	return r
}

func (r *reader) take(count int) []*sarama.ConsumerMessage {
	var got []*sarama.ConsumerMessage
	for len(got) < count {
		select {
		case message := <-r.messages:
			got = append(got, message)
		case err := <-r.errors:
			r.s.Fail("consuming: %v", err)
		case <-r.s.Ctx.Done():
			r.s.Fail("only %d of %d messages", len(got), count)
		}
	}
	return got
}

// quiet fails if anything more arrives within a short while.
func (r *reader) quiet() {
	select {
	case message := <-r.messages:
		r.s.Fail("a message too many: %q", message.Value)
	case err := <-r.errors:
		r.s.Fail("waiting for nothing: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
}

func sortedValues(messages []*sarama.ConsumerMessage) []string {
	got := make([]string, len(messages))
	for i, message := range messages {
		got[i] = string(message.Value)
	}
	slices.Sort(got)
	return got
}

func committedOnly(c *sarama.Config) { c.Consumer.IsolationLevel = sarama.ReadCommitted }

// over has a client use this wire.
func over(wire *scenarios.Wire) func(*sarama.Config) {
	return func(c *sarama.Config) {
		c.Net.Proxy.Enable = true
		c.Net.Proxy.Dialer = wire
	}
}
