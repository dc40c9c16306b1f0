package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"ottla.example/scenarios"
)

// options connect to a broker that asks who comes; wrong: with a password, a token or no certificate that it refuses.
func options(s *scenarios.S, way scenarios.Way, wrong bool) []kgo.Opt {
	s.At(way)
	given := []kgo.Opt{
		kgo.DialTLSConfig(s.TLS(way.Mechanism == "" && !wrong)),
		kgo.AllowAutoTopicCreation(),
	}
	password, token := s.Told("PASSWORD"), s.Told("TOKEN")
	if wrong {
		password, token = "wrong", s.Told("WRONG_TOKEN")
	}
	switch way.Mechanism {
	case "SCRAM-SHA-512":
		given = append(given, kgo.SASL(scram.Auth{User: s.Told("USER"), Pass: password}.AsSha512Mechanism()))
	case "PLAIN":
		given = append(given, kgo.SASL(plain.Auth{User: s.Told("USER"), Pass: password}.AsMechanism()))
	case "OAUTHBEARER":
		given = append(given, kgo.SASL(oauth.Auth{Token: token}.AsMechanism()))
	}
	return given
}

func reading(s *scenarios.S, group, topic string, given []kgo.Opt) *kgo.Client {
	more := []kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit()}
	return client(s, append(more, given...)...)
}

// secured writes, reads in a group that commits, has another member go on from there; and is refused.
func secured(s *scenarios.S, way scenarios.Way) {
	topic, group := s.Unique("topic"), s.Unique("group")
	right := options(s, way, false)
	for round := range 2 {
		values := scenarios.Values(fmt.Sprintf("round-%d", round), 20)
		produce(s, client(s, right...), records(topic, values)...)
		one := reading(s, group, topic, right)
		s.Equal("what was read", sortedValues(consume(s, one, len(values))), values)
		s.Must("committing", one.CommitUncommittedOffsets(s.Ctx))
		one.Close()
	}
	ctx, cancel := context.WithTimeout(s.Ctx, scenarios.RefusedWithin)
	defer cancel()
	err := client(s, options(s, way, true)...).Ping(ctx)
	switch way.Mechanism {
	case "":
		s.Want(strings.Contains(fmt.Sprint(err), "tls: certificate required"), "not refused but: %v", err)
	case "OAUTHBEARER": // it does not read what is wrong, but ends when something is (RFC 7628, 3.2.2)
		s.Want(strings.Contains(fmt.Sprint(err), "unexpected data in oauth response"), "not refused but: %v", err)
	default:
		s.Want(errors.Is(err, kerr.SaslAuthenticationFailed), "not refused but: %v", err)
	}
}

// renewed reads for some lifetimes of a session; nothing is lost or comes twice.
func renewed(s *scenarios.S) {
	topic, given, values := s.Unique("topic"), options(s, scenarios.Renewed(), false), scenarios.Values("value", 10_000)
	writer := client(s, given...)
	produce(s, writer, records(topic, values[:1])...)
	reader := reading(s, s.Unique("group"), topic, given)
	sent, got := 1, []*kgo.Record{}
	for end := time.Now().Add(s.ReadingTime()); time.Now().Before(end); sent++ {
		produce(s, writer, records(topic, values[sent:sent+1])...)
		ctx, cancel := context.WithTimeout(s.Ctx, 20*time.Millisecond)
		got = append(got, reader.PollFetches(ctx).Records()...)
		cancel()
		if sent%20 == 0 {
			s.Must("committing", reader.CommitUncommittedOffsets(s.Ctx))
		}
		time.Sleep(20 * time.Millisecond) // the values would not last a fast machine
	}
	got = append(got, consume(s, reader, sent-len(got))...)
	quiet(s, reader)
	s.Equal("what was read", sortedValues(got), values[:sent])
}
