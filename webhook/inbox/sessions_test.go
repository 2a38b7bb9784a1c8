package inbox_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/webhook/inbox"
)

// modes are the ways in which pgx can talk to a server; poolers need the last two.
var modes = []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
	pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}

// TestEveryModeUnderHostileSettings: neither the way pgx talks nor what an administrator has made the default matters.
func TestEveryModeUnderHostileSettings(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			h := newHook(t, func(c *inbox.Config) { c.Retention = time.Hour }, pgtest.Hostile())
			hostile := h.on(t, h.pool(t, h.URL, func(c *pgxpool.Config) {
				c.ConnConfig.DefaultQueryExecMode = mode
				c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
				c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
			}), func(c *inbox.Config) { c.Retention = time.Hour })
			var bodies []string
			for range 2 {
				body := report()
				bodies = append(bodies, body)
				for _, got := range hostile.together(t, 4, body) {
					hostile.expectAnswer(t, ok, got)
				}
			}
			h.expect(t, once(bodies...))
			h.fill(t, "shop", 3, time.Hour)
			if n, err := hostile.Prune(t.Context()); n != 3 || err != nil {
				t.Errorf("Prune = %d, %v: want 3", n, err)
			}
			h.expect(t, once(bodies...))
		})
	}
}

// TestTheRoleNeedsThreeFunctions and no right on any table; without them the answer is 500 and names the cause in the log.
func TestTheRoleNeedsThreeFunctions(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	role := "pgrail_" + strings.ToLower(rand.Text())
	h.exec(t, `CREATE ROLE `+role)
	t.Cleanup(func() {
		if _, err := h.Pool.Exec(context.Background(), `DROP OWNED BY `+role+`; DROP ROLE `+role); err != nil {
			t.Error(err)
		}
	})
	limited := h.on(t, h.pool(t, h.URL, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["role"] = role }), nil)
	body := report()
	limited.checkFailure(t, limited.deliver(t, body), 500, "delivery failed", "outbox: permission denied")
	h.exec(t, `GRANT EXECUTE ON FUNCTION public.webhook_inbox_record, public.webhook_inbox_prune, public.outbox_enqueue TO `+role)
	for range 2 {
		limited.expectAnswer(t, ok, limited.deliver(t, body))
	}
	if _, err := limited.Prune(t.Context()); err != nil {
		t.Error(err)
	}
	h.expect(t, once(body))
}

// TestFunctionsAreClosed: no function is open to everyone, and none can be led astray by a search path.
func TestFunctionsAreClosed(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	const functions = `SELECT proname::text FROM pg_proc p WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'webhook%'`
	if got := h.list(t, functions); len(got) != 2 {
		t.Errorf("functions %q: want 2", got)
	}
	open := h.list(t, functions+` AND (proacl IS NULL OR EXISTS (SELECT FROM aclexplode(proacl) a WHERE a.grantee = 0)
		OR NOT coalesce(proconfig @> '{"search_path=pg_catalog, pg_temp"}', false))`)
	if len(open) > 0 {
		t.Errorf("open or without a search path: %q", open)
	}
}

func TestNotMigrated(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil, pgtest.Empty())
	h.checkFailure(t, h.deliver(t, report()), 500, "delivery failed", "outbox: the database is not migrated")
}
