package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
	"ottla.example/scenarios"
)

// xdg is the implementation of SCRAM that sarama's users bring.
type xdg struct{ *scram.ClientConversation }

func (x *xdg) Begin(user, password, authorization string) error {
	client, err := scram.SHA512.NewClient(user, password, authorization)
	if err == nil {
		x.ClientConversation = client.NewConversation()
	}
	return err
}

// token always gives the same.
type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

// as connects to a broker that asks who comes; wrong: with a password, a token or no certificate that it refuses.
func as(s *scenarios.S, way scenarios.Way, wrong bool) func(*sarama.Config) {
	s.At(way)
	given, password, bearer := s.TLS(way.Mechanism == "" && !wrong), s.Told("PASSWORD"), s.Told("TOKEN")
	if wrong {
		password, bearer = "wrong", s.Told("WRONG_TOKEN")
	}
	return func(c *sarama.Config) {
		c.Net.TLS.Enable, c.Net.TLS.Config = true, given
		c.Net.SASL.Enable = way.Mechanism != ""
		c.Net.SASL.Mechanism = sarama.SASLMechanism(way.Mechanism)
		c.Net.SASL.User, c.Net.SASL.Password = s.Told("USER"), password
		c.Net.SASL.TokenProvider = token(bearer)
		c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &xdg{} }
	}
}

// secured writes, reads in a group that commits, has another member go on from there; and is refused.
func secured(s *scenarios.S, way scenarios.Way) {
	right, name, group := as(s, way, false), s.Unique("topic"), s.Unique("group")
	for round := range 2 {
		values := scenarios.Values(fmt.Sprintf("round-%d", round), 20)
		produce(s, producer(s, right), messages(name, values)...)
		one := join(s, group, name, right)
		allGot(s, values, one)
		one.leave()
	}
	_, err := sarama.NewClient(s.Brokers(), config(as(s, way, true), func(c *sarama.Config) {
		c.Metadata.Retry.Max = 0
	}))
	if way.Mechanism != "" {
		s.Want(errors.Is(err, sarama.ErrSASLAuthenticationFailed), "not refused but: %v", err)
		return
	}
	s.Want(strings.Contains(fmt.Sprint(err), "tls: certificate required"), "not refused but: %v", err)
}

// renewed reads for some lifetimes of a session; nothing is lost or comes twice.
func renewed(s *scenarios.S) {
	right, name, values := as(s, scenarios.Renewed(), false), s.Unique("topic"), scenarios.Values("value", 10_000)
	writer := producer(s, right)
	produce(s, writer, messages(name, values[:1])...)
	one, sent := join(s, s.Unique("group"), name, right), 1
	for end := time.Now().Add(s.ReadingTime()); time.Now().Before(end); sent++ {
		produce(s, writer, messages(name, values[sent:sent+1])...)
		time.Sleep(20 * time.Millisecond)
	}
	allGot(s, values[:sent], one)
	s.Must("being a member", one.err())
}
