package outboxotel_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// monitoring is where the files for Prometheus and Grafana are.
const monitoring = "../../docs/monitoring"

// prometheusNames returns what the exporter for Prometheus makes of each metric that there is: underscores for dots, the unit
// of seconds spelled out, _total behind counters, and three series for a histogram.
func prometheusNames(t *testing.T) map[string]string {
	t.Helper()
	db, s := pgtest.New(t), newSDK(t)
	if _, err := s.ObserveBacklog(db.Pool); err != nil {
		t.Fatal(err)
	}
	enqueue(t, db.Pool, draft(1, 0))
	if _, err := db.Pool.Exec(t.Context(), `update public.outbox_events set created_at = created_at - interval '10 minutes'`); err != nil {
		t.Fatal(err)
	}
	everything(s)
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			name := strings.ReplaceAll(m.Name, ".", "_")
			if m.Unit == "s" {
				name += "_seconds"
			}
			for _, suffix := range suffixes(m.Data) {
				names[name+suffix] = m.Name
			}
		}
	}
	return names
}

func suffixes(data metricdata.Aggregation) []string {
	switch data.(type) {
	case metricdata.Sum[int64]:
		return []string{"_total"}
	case metricdata.Histogram[int64], metricdata.Histogram[float64]:
		return []string{"_bucket", "_sum", "_count"}
	}
	return []string{""}
}

// everything makes each instrument of a worker have a value.
func everything(s *sdk) {
	o := s.Observer()
	o.Settled(event.Envelope{}, outbox.OutcomeProcessed)
	o.Claimed(1, 1)
	o.Extended(1)
	o.TookOver(1)
	o.Healed(1)
	o.Pruned(1)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(outbox.ErrLeaseLost)
	claimed := []byte(`{"lastClaimedAt": "2026-01-01T00:00:00Z"}`)
	_ = s.Middleware(func(context.Context, event.Envelope) error { return nil })(ctx, event.Envelope{Attempt: 1, Metadata: claimed})
}

// TestMonitoringNamesExist: every metric in the files exists, and no metric is left out of the dashboard.
func TestMonitoringNamesExist(t *testing.T) {
	t.Parallel()
	known := prometheusNames(t)
	files, err := filepath.Glob(monitoring + "/*")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files, error %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		shown := map[string]bool{}
		for _, name := range regexp.MustCompile(`\bpgrail_outbox_\w+`).FindAllString(string(text), -1) {
			if shown[known[name]] = true; known[name] == "" {
				t.Errorf("%s names %s, which does not exist", filepath.Base(file), name)
			}
		}
		if filepath.Ext(file) != ".json" {
			continue
		}
		if !json.Valid(text) {
			t.Errorf("%s is not JSON", filepath.Base(file))
		}
		for prometheus, name := range known {
			if !shown[name] {
				t.Errorf("%s does not show %s (%s)", filepath.Base(file), name, prometheus)
			}
		}
	}
}
