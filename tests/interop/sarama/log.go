package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"ottla.example/scenarios"
)

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func produceAndConsume(s *scenarios.S) {
	name := topic(s, 3, nil)
	wanted := scenarios.Values("value", 300)
	produce(s, producer(s), messages(name, wanted)...)
	from := read(s, name, sarama.OffsetOldest)
	got := from.take(len(wanted))
	s.Equal("values", sortedValues(got), wanted)
	next := map[int32]int64{}
	for _, message := range got {
		s.Equal(fmt.Sprintf("offset in partition %d", message.Partition), message.Offset, next[message.Partition])
		next[message.Partition]++
	}
	from.quiet()
}

func codecRoundTrip(s *scenarios.S, codec sarama.CompressionCodec) {
	name := topic(s, 1, nil)
	wanted := scenarios.Values(strings.Repeat("compressible ", 20), 500)
	produce(s, producer(s, func(c *sarama.Config) { c.Producer.Compression = codec }), messages(name, wanted)...)
	s.Equal("values", sortedValues(read(s, name, sarama.OffsetOldest).take(len(wanted))), wanted)
}

// asFor does the usual with the requests that sarama sends when it is told a version of Kafka.
func asFor(s *scenarios.S, version sarama.KafkaVersion) {
	told := func(c *sarama.Config) { c.Version = version }
	name, group := topic(s, 2, nil), s.Unique("group")
	wanted := scenarios.Values("value", 100)
	produce(s, producer(s, told), messages(name, wanted)...)
	s.Equal("values", sortedValues(read(s, name, sarama.OffsetOldest, told).take(len(wanted))), wanted)
	m := join(s, group, name, told)
	allGot(s, wanted, m)
	committed(s, group, name, 100)
	m.leave()
	adm := admin(s, told)
	described, err := adm.DescribeConsumerGroups([]string{group})
	s.Must("describing", err)
	s.Equal("state", described[0].State, "Empty")
	s.Must("deleting the group", adm.DeleteConsumerGroup(group))
	s.Must("deleting the topic", adm.DeleteTopic(name))
}

func headersKeysTombstones(s *scenarios.S) {
	name := topic(s, 1, nil)
	stamp := time.UnixMilli(1_700_000_000_123)
	sent := []*sarama.ProducerMessage{
		{Topic: name, Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder("v"), Timestamp: stamp,
			Headers: []sarama.RecordHeader{
				{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("a"), Value: []byte{0, 255}}, {Key: []byte("é"), Value: nil},
			}},
		{Topic: name, Key: sarama.StringEncoder("k")},
		{Topic: name, Value: sarama.StringEncoder("no key")},
		{Topic: name, Key: sarama.StringEncoder(""), Value: sarama.StringEncoder("")},
	}
	to := producer(s)
	for _, message := range sent {
		produce(s, to, message)
	}
	got := read(s, name, sarama.OffsetOldest).take(len(sent))
	for i, message := range got {
		for what, pair := range map[string]struct {
			got  []byte
			sent sarama.Encoder
		}{"key": {message.Key, sent[i].Key}, "value": {message.Value, sent[i].Value}} {
			if pair.sent == nil {
				s.Want(pair.got == nil, "%s %d: %q instead of none", what, i, pair.got)
				continue
			}
			wanted, _ := pair.sent.Encode()
			s.Want(pair.got != nil && bytes.Equal(pair.got, wanted), "%s %d: %q instead of %q", what, i, pair.got, wanted)
		}
	}
	for i, header := range got[0].Headers {
		s.Equal("header key", string(header.Key), string(sent[0].Headers[i].Key))
		s.Want(bytes.Equal(header.Value, sent[0].Headers[i].Value), "header %d: %q", i, header.Value)
	}
	s.Equal("headers", len(got[0].Headers), 3)
	s.Want(got[0].Timestamp.Equal(stamp), "timestamp %v", got[0].Timestamp)
}

func noise(size int) []byte {
	made := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(made)
	return made
}

func bigMessages(s *scenarios.S) {
	name := topic(s, 1, map[string]string{"max.message.bytes": "12000000"})
	sizes := []int{2_000_000, 10_000_000, 10}
	to := producer(s, func(c *sarama.Config) { c.Producer.MaxMessageBytes = 11_000_000 })
	for _, size := range sizes {
		produce(s, to, &sarama.ProducerMessage{Topic: name, Value: sarama.ByteEncoder(noise(size))})
	}
	// Each is larger than what a fetch asks for: one batch is given nevertheless (KIP-74).
	from := read(s, name, sarama.OffsetOldest, func(c *sarama.Config) {
		c.Consumer.Fetch.Default, c.Consumer.Fetch.MaxBytes = 1<<16, 1<<20
	})
	for i, message := range from.take(len(sizes)) {
		s.Want(bytes.Equal(message.Value, noise(sizes[i])), "%d bytes came back as %d", sizes[i], len(message.Value))
	}
}

func tooBigMessage(s *scenarios.S) {
	name := topic(s, 1, map[string]string{"max.message.bytes": "10000"})
	to := producer(s, func(c *sarama.Config) { c.Producer.Retry.Max = 1 })
	_, _, err := to.SendMessage(&sarama.ProducerMessage{Topic: name, Value: sarama.ByteEncoder(noise(20_000))})
	s.Want(errors.Is(err, sarama.ErrMessageSizeTooLarge), "20,000 bytes: %v", err)
	produce(s, to, &sarama.ProducerMessage{Topic: name, Value: sarama.ByteEncoder(noise(5_000))})
}

func readFromTimestamp(s *scenarios.S) {
	name := topic(s, 1, nil)
	start := time.UnixMilli(1_700_000_000_000)
	to := producer(s)
	for i, message := range messages(name, scenarios.Values("at", 100)) {
		message.Timestamp = start.Add(time.Duration(i) * time.Second)
		produce(s, to, message)
	}
	cl, err := sarama.NewClient(s.Brokers(), config())
	s.Must("opening a client", err)
	s.Cleanup(func() { _ = cl.Close() })
	at, err := cl.GetOffset(name, 0, start.Add(70*time.Second).UnixMilli())
	s.Must("asking for an offset", err)
	s.Equal("offset of the seventieth second", at, 70)
	at, err = cl.GetOffset(name, 0, start.Add(time.Hour).UnixMilli())
	s.Must("asking for an offset", err)
	s.Equal("offset of a time that never was", at, -1)
	from := read(s, name, 70)
	s.Equal("values from there on", sortedValues(from.take(30)), scenarios.Values("at", 100)[70:])
	from.quiet()
}

func produceWithoutAcks(s *scenarios.S) {
	for _, acks := range []sarama.RequiredAcks{sarama.NoResponse, sarama.WaitForLocal} {
		name := topic(s, 1, nil)
		wanted := scenarios.Values("value", 200)
		produce(s, producer(s, func(c *sarama.Config) { c.Producer.RequiredAcks = acks }), messages(name, wanted)...)
		s.Equal("values", sortedValues(read(s, name, sarama.OffsetOldest).take(len(wanted))), wanted)
	}
}

func offsetOutOfRange(s *scenarios.S) {
	name := topic(s, 1, nil)
	produce(s, producer(s), messages(name, scenarios.Values("value", 10))...)
	consumer, err := sarama.NewConsumer(s.Brokers(), config())
	s.Must("opening a consumer", err)
	s.Cleanup(func() { _ = consumer.Close() })
	_, err = consumer.ConsumePartition(name, 0, 11)
	s.Want(errors.Is(err, sarama.ErrOffsetOutOfRange), "reading behind the end: %v", err)
	one, err := consumer.ConsumePartition(name, 0, 10)
	s.Must("reading at the end", err)
	s.Cleanup(one.AsyncClose)
	produce(s, producer(s), messages(name, []string{"next"})...)
	select {
	case message := <-one.Messages():
		s.Equal("value", string(message.Value), "next")
		s.Equal("high watermark", one.HighWaterMarkOffset(), 11)
	case err := <-one.Errors():
		s.Fail("reading at the end: %v", err)
	case <-s.Ctx.Done():
		s.Fail("nothing came")
	}
}

func unknownTopic(s *scenarios.S) {
	few := func(c *sarama.Config) {
		c.Metadata.AllowAutoTopicCreation, c.Metadata.Retry.Max, c.Producer.Retry.Max = false, 1, 1
	}
	_, _, err := producer(s, few).SendMessage(messages(s.Unique("nowhere"), []string{"lost"})[0])
	s.Want(errors.Is(err, sarama.ErrUnknownTopicOrPartition), "producing to no topic: %v", err)
	_, _, err = producer(s, few).SendMessage(messages("no such/name", []string{"lost"})[0])
	s.Want(errors.Is(err, sarama.ErrInvalidTopic), "producing to an impossible name: %v", err)
}

func idempotentProducer(s *scenarios.S) {
	name := topic(s, 1, nil)
	wire := scenarios.NewWire()
	made, err := sarama.NewAsyncProducer(s.Brokers(), config(over(wire), func(c *sarama.Config) {
		c.Producer.Idempotent, c.Net.MaxOpenRequests, c.Producer.Flush.MaxMessages = true, 1, 50
	}))
	s.Must("opening a producer", err)
	wanted := scenarios.Values("once", 3000)
	go func() {
		for i, message := range messages(name, wanted) {
			made.Input() <- message
			if i%500 == 250 {
				wire.Drop() // what was on its way is sent again
			}
		}
	}()
	for range wanted {
		select {
		case <-made.Successes():
		case failed := <-made.Errors():
			s.Fail("producing: %v", failed)
		case <-s.Ctx.Done():
			s.Fail("not everything was acknowledged")
		}
	}
	s.Must("closing", made.Close())
	from := read(s, name, sarama.OffsetOldest)
	var order []string
	for _, message := range from.take(len(wanted)) {
		order = append(order, string(message.Value))
	}
	s.Want(slices.Equal(order, wanted), "the log has not every record once and in order")
	from.quiet()
}
