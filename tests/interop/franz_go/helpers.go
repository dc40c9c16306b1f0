package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"ottla.example/scenarios"
)

// client opens a client that is closed when the scenario ends.
func client(s *scenarios.S, options ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(s.Brokers()...),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.AlwaysRetryEOF(),
	}, options...)...)
	s.Must("opening a client", err)
	s.Cleanup(cl.CloseAllowingRebalance)
	return cl
}

func admin(s *scenarios.S) *kadm.Client { return kadm.NewClient(client(s)) }

// topic makes a topic of the scenario's own.
func topic(s *scenarios.S, partitions int32, configs map[string]string) string {
	name := s.Unique("topic")
	given := map[string]*string{}
	for key, value := range configs {
		given[key] = kadm.StringPtr(value)
	}
	made, err := admin(s).CreateTopic(s.Ctx, partitions, 1, given, name)
	s.Must("creating "+name, err)
	served(s, made)
	return name
}

// served waits until the broker serves a topic that was created: a cluster's nodes learn of it one after the other.
func served(s *scenarios.S, made kadm.CreateTopicResponse) {
	adm := admin(s)
	s.Eventually("serving "+made.Topic, func() (bool, string) {
		listed, err := adm.ListTopics(s.Ctx, made.Topic)
		s.Must("listing "+made.Topic, err)
		if found := listed[made.Topic]; found.Err != nil || found.ID != made.ID {
			return false, fmt.Sprintf("%v, id %v", found.Err, found.ID)
		}
		described, err := adm.DescribeTopicConfigs(s.Ctx, made.Topic)
		s.Must("describing "+made.Topic, err)
		return described[0].Err == nil, fmt.Sprint(described[0].Err)
	})
}

func records(topic string, values []string) []*kgo.Record {
	made := make([]*kgo.Record, len(values))
	for i, value := range values {
		made[i] = &kgo.Record{Topic: topic, Key: []byte(value), Value: []byte(value)}
	}
	return made
}

func produce(s *scenarios.S, cl *kgo.Client, records ...*kgo.Record) {
	s.Must("producing", cl.ProduceSync(s.Ctx, records...).FirstErr())
}

// consume polls until it has so many records.
func consume(s *scenarios.S, cl *kgo.Client, count int) []*kgo.Record {
	var got []*kgo.Record
	for len(got) < count {
		fetches := cl.PollFetches(s.Ctx)
		if err := fetches.Err0(); err != nil {
			s.Fail("consuming: %v after %d of %d records", err, len(got), count)
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			s.Fail("consuming %s-%d: %v", topic, partition, err)
		})
		got = append(got, fetches.Records()...)
	}
	return got
}

// quiet fails if anything more arrives within a short while.
func quiet(s *scenarios.S, cl *kgo.Client) {
	ctx, cancel := context.WithTimeout(s.Ctx, 300*time.Millisecond)
	defer cancel()
	fetches := cl.PollFetches(ctx)
	if err := fetches.Err0(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		s.Fail("waiting for nothing: %v", err)
	}
	if more := fetches.Records(); len(more) > 0 {
		s.Fail("%d records too many, the first is %q", len(more), more[0].Value)
	}
}

func sortedValues(records []*kgo.Record) []string {
	got := make([]string, len(records))
	for i, record := range records {
		got[i] = string(record.Value)
	}
	slices.Sort(got)
	return got
}
