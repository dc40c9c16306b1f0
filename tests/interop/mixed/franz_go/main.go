// Program mixed is a member of a consumer group, told what to do by lines on its standard input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type role struct {
	Bootstrap string   `json:"bootstrap"`
	Group     string   `json:"group"`
	Topics    []string `json:"topics"`
	Name      string   `json:"name"`
	Assignor  string   `json:"assignor"`
	SessionMs int64    `json:"session_timeout_ms"`
}

var balancers = map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer()}

var telling sync.Mutex

func tell(event map[string]any) {
	telling.Lock()
	defer telling.Unlock()
	line, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func moved(kind string, partitions map[string][]int32) {
	places := [][2]any{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			places = append(places, [2]any{topic, number})
		}
	}
	tell(map[string]any{"what": "changed", "kind": kind, "places": places})
}

func join(told role) (*kgo.Client, error) {
	return kgo.NewClient(
		kgo.SeedBrokers(strings.Split(told.Bootstrap, ",")...), kgo.ClientID(told.Name), kgo.ConsumerGroup(told.Group),
		kgo.ConsumeTopics(told.Topics...), kgo.Balancers(balancers[told.Assignor]),
		kgo.SessionTimeout(time.Duration(told.SessionMs)*time.Millisecond),
		kgo.HeartbeatInterval(200*time.Millisecond), kgo.AutoCommitInterval(100*time.Millisecond),
		kgo.FetchMaxWait(500*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			moved("assigned", given)
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, taken map[string][]int32) {
			if err := client.CommitUncommittedOffsets(ctx); err != nil {
				tell(map[string]any{"what": "trouble", "text": err.Error()})
			}
			moved("revoked", taken)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { moved("lost", lost) }),
	)
}

func poll(client *kgo.Client) {
	for {
		fetches := client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachRecord(func(record *kgo.Record) {
			seen := []any{record.Topic, record.Partition, record.Offset, string(record.Value), 0.0}
			tell(map[string]any{"what": "saw", "seen": seen})
		})
		for _, failed := range fetches.Errors() {
			tell(map[string]any{"what": "trouble", "text": failed.Err.Error()})
		}
	}
}

func main() {
	var told role
	if err := json.Unmarshal([]byte(os.Args[len(os.Args)-1]), &told); err != nil {
		panic(err)
	}
	tell(map[string]any{"what": "ready"})
	var client *kgo.Client
	ended := make(chan struct{})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "stop" {
			break
		}
		if lines.Text() == "start" {
			joined, err := join(told)
			if err != nil {
				panic(err)
			}
			client = joined
			go func() { defer close(ended); poll(client) }()
		}
	}
	if client != nil {
		client.CloseAllowingRebalance()
		<-ended
	}
}
