package faults

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// A network that delays and tears apart what it carries, closes connections in its midst, and half-closes them costs time and nothing else: each handler begins once,
// in order, at the first attempt.
func TestBadNetwork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, kind, direction, attributes string }{
		{"delays", "latency", "downstream", `{"latency": 60, "jitter": 60}`},
		{"pieces", "slicer", "downstream", `{"average_size": 7, "size_variation": 5, "delay": 50}`},
		{"closed within an answer", "limit_data", "downstream", `{"bytes": 9000}`},
		{"closed within a statement", "limit_data", "upstream", `{"bytes": 9000}`},
		{"closed by the server, heard of later", "slow_close", "downstream", `{"delay": 1500}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(newRig(t))
			n.must(n.toxic("bad", c.kind, c.direction, c.attributes))
			var mu sync.Mutex
			begun := map[string][]int{}
			var handlers outbox.Handlers
			outbox.Handle(&handlers, happened, func(_ context.Context, e event.Event[load]) error {
				mu.Lock()
				defer mu.Unlock()
				begun[e.AggregateID.String()] = append(begun[e.AggregateID.String()], e.Payload.Seq)
				return nil
			})
			stop := n.worker(nil, &handlers, outbox.Config{PollInterval: 100 * time.Millisecond})
			want := map[string][]int{}
			for seq := 1; seq <= 12; seq++ {
				for aggregate := range 8 {
					n.enqueue(draft(aggregate, load{Seq: seq}))
					want[agg(aggregate).String()] = append(want[agg(aggregate).String()], seq)
				}
			}
			if c.kind == "slow_close" {
				n.until(`(select count(*) from public.outbox_events where status = 'processed') > 0`)
				n.exec(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pgrail worker'`)
				n.enqueue(draft(0, load{Seq: 13}))
				want[agg(0).String()] = append(want[agg(0).String()], 13)
			}
			n.until(allProcessed)
			n.must(n.proxy.Toxics.RemoveToxic(context.Background(), "bad"))
			n.must(stop(context.Background()))
			if diff := cmp.Diff(want, begun); diff != "" {
				t.Errorf("handlers (-want +got):\n%s", diff)
			}
			if got := value[[]int32](n.rig, `select array_agg(distinct attempts) from public.outbox_events`); !slices.Equal(got, []int32{1}) {
				t.Errorf("attempts %v, want one each", got)
			}
		})
	}
}
