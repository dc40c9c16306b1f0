package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"ottla.example/scenarios"
)

var codecs = []struct {
	name  string
	codec kgo.CompressionCodec
}{
	{"none", kgo.NoCompression()},
	{"gzip", kgo.GzipCompression()},
	{"snappy", kgo.SnappyCompression()},
	{"lz4", kgo.Lz4Compression()},
	{"zstd", kgo.ZstdCompression()},
}

func produceAndConsume(s *scenarios.S) {
	name := topic(s, 3, nil)
	cl := client(s, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	wanted := scenarios.Values("value", 300)
	produce(s, cl, records(name, wanted)...)
	got := consume(s, cl, len(wanted))
	s.Equal("values", sortedValues(got), wanted)
	next := map[int32]int64{}
	for _, record := range got {
		s.Equal(fmt.Sprintf("offset in partition %d", record.Partition), record.Offset, next[record.Partition])
		next[record.Partition]++
	}
	quiet(s, cl)
}

func codecRoundTrip(s *scenarios.S, codec kgo.CompressionCodec) {
	name := topic(s, 1, nil)
	cl := client(s, kgo.ProducerBatchCompression(codec), kgo.ConsumeTopics(name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	wanted := scenarios.Values(strings.Repeat("compressible ", 20), 500)
	produce(s, cl, records(name, wanted)...)
	s.Equal("values", sortedValues(consume(s, cl, len(wanted))), wanted)
}

func headersKeysTombstones(s *scenarios.S) {
	name := topic(s, 1, nil)
	cl := client(s, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	stamp := time.UnixMilli(1_700_000_000_123)
	sent := []*kgo.Record{
		{Topic: name, Key: []byte("k"), Value: []byte("v"), Timestamp: stamp, Headers: []kgo.RecordHeader{
			{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte{0, 255}}, {Key: "none", Value: nil}, {Key: "é"},
		}},
		{Topic: name, Key: []byte("k"), Value: nil},
		{Topic: name, Key: nil, Value: []byte("no key")},
		{Topic: name, Key: []byte{}, Value: []byte{}},
	}
	produce(s, cl, sent...)
	got := consume(s, cl, len(sent))
	for i, record := range got {
		s.Want(bytes.Equal(record.Key, sent[i].Key) && (record.Key == nil) == (sent[i].Key == nil),
			"key %d: %q instead of %q", i, record.Key, sent[i].Key)
		s.Want(bytes.Equal(record.Value, sent[i].Value) && (record.Value == nil) == (sent[i].Value == nil),
			"value %d: %q instead of %q", i, record.Value, sent[i].Value)
		s.Equal(fmt.Sprintf("headers %d", i), record.Headers, sent[i].Headers)
	}
	s.Want(got[0].Timestamp.Equal(stamp), "timestamp %v", got[0].Timestamp)
}

func noise(size int) []byte {
	made := make([]byte, size)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(made)
	return made
}

func bigMessages(s *scenarios.S) {
	name := topic(s, 1, map[string]string{"max.message.bytes": "12000000"})
	cl := client(s, kgo.ProducerBatchMaxBytes(11_000_000), kgo.ConsumeTopics(name),
		// Each is larger than what a fetch asks for: one batch is given nevertheless (KIP-74).
		kgo.FetchMaxBytes(1<<20), kgo.FetchMaxPartitionBytes(1<<16),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for _, size := range []int{2_000_000, 10_000_000, 10} {
		produce(s, cl, &kgo.Record{Topic: name, Value: noise(size)})
	}
	got := consume(s, cl, 3)
	for i, size := range []int{2_000_000, 10_000_000, 10} {
		s.Want(bytes.Equal(got[i].Value, noise(size)), "record %d of %d bytes came back as %d bytes", i, size, len(got[i].Value))
	}
}

func tooBigMessage(s *scenarios.S) {
	name := topic(s, 1, map[string]string{"max.message.bytes": "10000"})
	cl := client(s, kgo.ProducerBatchMaxBytes(1_000_000))
	err := cl.ProduceSync(s.Ctx, &kgo.Record{Topic: name, Value: noise(20_000)}).FirstErr()
	s.Want(errors.Is(err, kerr.MessageTooLarge), "20,000 bytes: %v", err)
	produce(s, cl, &kgo.Record{Topic: name, Value: noise(5_000)})
}

func readFromTimestamp(s *scenarios.S) {
	name := topic(s, 2, nil)
	start := time.UnixMilli(1_700_000_000_000)
	var sent []*kgo.Record
	for i, value := range scenarios.Values("at", 100) {
		sent = append(sent, &kgo.Record{
			Topic: name, Partition: int32(i % 2), Value: []byte(value), Timestamp: start.Add(time.Duration(i) * time.Second),
		})
	}
	produce(s, client(s, kgo.RecordPartitioner(kgo.ManualPartitioner())), sent...)
	reader := client(s, kgo.ConsumeTopics(name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AfterMilli(start.Add(70*time.Second).UnixMilli())))
	s.Equal("records from the seventieth second on", sortedValues(consume(s, reader, 30)), scenarios.Values("at", 100)[70:])
	quiet(s, reader)
	late := client(s, kgo.ConsumeTopics(name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AfterMilli(start.Add(time.Hour).UnixMilli())))
	quiet(s, late)
	produce(s, client(s), &kgo.Record{Topic: name, Value: []byte("new")})
	s.Equal("records after the end", sortedValues(consume(s, late, 1)), []string{"new"})
}

// fetchSession reads many partitions of several topics in one session (KIP-227), while what is read changes.
func fetchSession(s *scenarios.S) {
	first, second := topic(s, 40, nil), topic(s, 20, nil)
	cl := client(s, kgo.ConsumeTopics(first), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(500*time.Millisecond))
	for round := range 5 {
		wanted := scenarios.Values(fmt.Sprintf("round-%d", round), 100)
		produce(s, cl, records(first, wanted)...)
		s.Equal("values", sortedValues(consume(s, cl, len(wanted))), wanted)
	}
	cl.PauseFetchPartitions(map[string][]int32{first: {0, 1, 2, 3, 4, 5, 6, 7}})
	produce(s, cl, records(second, scenarios.Values("second", 50))...)
	cl.AddConsumeTopics(second)
	s.Equal("values of the topic that was added", sortedValues(consume(s, cl, 50)), scenarios.Values("second", 50))
	wanted := scenarios.Values("paused", 200)
	produce(s, cl, records(first, wanted)...)
	seen := map[int32]bool{}
	ends, err := admin(s).ListEndOffsets(s.Ctx, first)
	s.Must("listing end offsets", err)
	starts := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) { starts[o.Partition] = o.Offset })
	cl.ResumeFetchPartitions(map[string][]int32{first: {0, 1, 2, 3, 4, 5, 6, 7}})
	got := consume(s, cl, len(wanted))
	for _, record := range got {
		seen[record.Partition] = true
		s.Want(record.Offset < starts[record.Partition], "offset %d of partition %d", record.Offset, record.Partition)
	}
	s.Equal("values after the pause", sortedValues(got), wanted)
	s.Want(len(seen) > 30, "only %d partitions had records", len(seen))
	cl.PurgeTopicsFromConsuming(second)
	produce(s, cl, records(second, scenarios.Values("unwanted", 20))...)
	produce(s, cl, records(first, scenarios.Values("last", 20))...)
	s.Equal("values after a topic was given up", sortedValues(consume(s, cl, 20)), scenarios.Values("last", 20))
}

// topicMadeAgain reads a topic whose name is given to a new one: the new one has another id and begins at 0.
func topicMadeAgain(s *scenarios.S) {
	name := topic(s, 1, nil)
	adm := admin(s)
	cl := client(s, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMaxAge(200*time.Millisecond), kgo.UnknownTopicRetries(-1), kgo.ConsiderMissingTopicDeletedAfter(time.Second))
	produce(s, client(s), records(name, scenarios.Values("before", 10))...)
	consume(s, cl, 10)
	before, err := adm.ListTopics(s.Ctx, name)
	s.Must("listing", err)
	_, err = adm.DeleteTopic(s.Ctx, name)
	s.Must("deleting", err)
	s.Eventually("deletion", func() (bool, string) {
		listed, err := adm.ListTopics(s.Ctx, name)
		s.Must("listing", err)
		return errors.Is(listed[name].Err, kerr.UnknownTopicOrPartition), fmt.Sprint(listed[name].Err)
	})
	made, err := adm.CreateTopic(s.Ctx, 1, 1, nil, name)
	s.Must("creating again", err)
	s.Want(before[name].ID != made.ID, "the new topic has the id of the old one")
	served(s, made)
	produce(s, client(s), records(name, scenarios.Values("after", 5))...)
	fresh := client(s, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := consume(s, fresh, 5)
	s.Equal("first offset", got[0].Offset, 0)
	s.Equal("values", sortedValues(got), scenarios.Values("after", 5))
}

func produceWithoutAcks(s *scenarios.S) {
	for _, acks := range []kgo.Acks{kgo.NoAck(), kgo.LeaderAck()} {
		name := topic(s, 1, nil)
		cl := client(s, kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite(), kgo.ConsumeTopics(name),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		wanted := scenarios.Values("value", 200)
		produce(s, cl, records(name, wanted)...)
		s.Equal("values", sortedValues(consume(s, cl, len(wanted))), wanted)
	}
}

// oldVersions does the same with requests as older releases would send them.
func oldVersions(s *scenarios.S) {
	releases := map[string]*kversion.Versions{
		"2.1": kversion.V2_1_0(), "2.4": kversion.V2_4_0(), "2.8": kversion.V2_8_0(), "3.3": kversion.V3_3_0(),
		"3.7": kversion.V3_7_0(), "4.0": kversion.V4_0_0(), "tip": kversion.Tip(),
	}
	for release, versions := range releases {
		name, group := topic(s, 2, nil), s.Unique("group")
		cl := client(s, kgo.MaxVersions(versions), kgo.ConsumeTopics(name), kgo.ConsumerGroup(group),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
		wanted := scenarios.Values("release-"+release, 50)
		produce(s, cl, records(name, wanted)...)
		got := consume(s, cl, len(wanted))
		s.Equal("values in release "+release, sortedValues(got), wanted)
		s.Must("committing in release "+release, cl.CommitUncommittedOffsets(s.Ctx))
		committed(s, group, int64(len(wanted)))
		cl.Close()
	}
}

func idempotentProducer(s *scenarios.S) {
	name := topic(s, 1, nil)
	w := scenarios.NewWire()
	cl := client(s, kgo.Dialer(w.DialContext), kgo.ProducerBatchMaxBytes(2000), kgo.ProducerLinger(time.Millisecond))
	wanted := scenarios.Values("once", 3000)
	failed := make(chan error, len(wanted))
	for i, record := range records(name, wanted) {
		cl.Produce(s.Ctx, record, func(_ *kgo.Record, err error) { failed <- err })
		if i%500 == 250 {
			w.Drop() // what was on its way is sent again
		}
	}
	for range wanted {
		s.Must("producing", <-failed)
	}
	reader := client(s, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := consume(s, reader, len(wanted))
	var order []string
	for _, record := range got {
		order = append(order, string(record.Value))
	}
	s.Want(slices.Equal(order, wanted), "the log has not every record once and in order")
	quiet(s, reader)
}
