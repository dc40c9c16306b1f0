package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"ottla.example/scenarios"
)

// throttled keeps the longest wait that a broker asked for.
type throttled struct{ longest atomic.Int64 }

func (t *throttled) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, _ bool) {
	t.longest.Store(max(t.longest.Load(), int64(interval)))
}

// adminQuotas limits what one client may produce in a second: it is told to wait, and another one is not.
func adminQuotas(s *scenarios.S) {
	name, id, adm := topic(s, 1, nil), s.Unique("client"), admin(s)
	alter := func(op kadm.AlterClientQuotaOp) {
		altered, err := adm.AlterClientQuotas(s.Ctx, []kadm.AlterClientQuotaEntry{{
			Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &id}}, Ops: []kadm.AlterClientQuotaOp{op},
		}})
		s.Must("altering", err)
		s.Must("altering", altered[0].Err)
	}
	described := func(wanted map[string]float64) {
		s.Eventually("quotas", func() (bool, string) {
			found, err := adm.DescribeClientQuotas(s.Ctx, true, []kadm.DescribeClientQuotaComponent{
				{Type: "client-id", MatchName: &id},
			})
			s.Must("describing", err)
			got := map[string]float64{}
			for _, one := range found {
				for _, value := range one.Values {
					got[value.Key] = value.Value
				}
			}
			same := len(got) == len(wanted)
			for key, value := range wanted {
				same = same && got[key] == value
			}
			return same, fmt.Sprint(got)
		})
	}
	alter(kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Value: 10_000})
	alter(kadm.AlterClientQuotaOp{Key: "consumer_byte_rate", Value: 5_000_000})
	described(map[string]float64{"producer_byte_rate": 10_000, "consumer_byte_rate": 5_000_000})
	limited, free := &throttled{}, &throttled{}
	for of, hook := range map[string]*throttled{id: limited, id + "-other": free} {
		cl := client(s, kgo.ClientID(of), kgo.WithHooks(hook), kgo.ProducerBatchCompression(kgo.NoCompression()))
		produce(s, cl, &kgo.Record{Topic: name, Value: noise(150_000)})
	}
	s.Want(limited.longest.Load() > int64(time.Second), "told to wait for %v", time.Duration(limited.longest.Load()))
	s.Equal("the other one's wait", free.longest.Load(), 0)
	alter(kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Remove: true})
	described(map[string]float64{"consumer_byte_rate": 5_000_000})
	alter(kadm.AlterClientQuotaOp{Key: "consumer_byte_rate", Remove: true})
	described(map[string]float64{})
}
