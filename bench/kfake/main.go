// Program kfake holds franz-go's fake cluster for the benchmarks: it prints its host:port and runs until its stdin ends.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.AllowAutoTopicCreation(),
		kfake.DefaultNumPartitions(4),
		kfake.GroupMaxSessionTimeout(30*time.Minute),
		kfake.BrokerConfigs(map[string]string{"group.consumer.session.timeout.ms": "1800000"}),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	fmt.Println(cluster.ListenAddrs()[0])
	_, _ = io.Copy(io.Discard, os.Stdin)
}
