package inbox_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest/bouncer"
	"github.com/openlup/pgrail/webhook/inbox"
)

// TestThroughATransactionPooler: deliveries are recorded once each, and pruned, without a session that lasts.
func TestThroughATransactionPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			retention := func(c *inbox.Config) { c.Retention = time.Hour }
			h := newHook(t, retention)
			through := bouncer.Through(t, bouncer.Transaction)
			pooled := h.on(t, h.pool(t, h.URL, func(c *pgxpool.Config) {
				through(c)
				c.ConnConfig.DefaultQueryExecMode = mode
			}), retention)
			body := report()
			for _, got := range pooled.together(t, 4, body) {
				pooled.expectAnswer(t, ok, got)
			}
			h.fill(t, "shop", 3, time.Hour)
			if n, err := pooled.Prune(t.Context()); n != 3 || err != nil {
				t.Errorf("Prune = %d, %v: want 3", n, err)
			}
			h.expect(t, once(body))
		})
	}
}
