package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/internal/pgtest/bouncer"
)

// Every command works through PgBouncer in transaction mode, and the doctor hears that it hears nothing there.
func TestThroughATransactionPooler(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t, pgtest.Hostile())
	w := &world{t, d}
	w.populate()
	config, err := pgxpool.ParseConfig(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	bouncer.Through(t, bouncer.Transaction)(config)
	to := config.ConnConfig
	url := fmt.Sprintf("host=%s port=%d user=%s password='%s' dbname=%s sslmode=disable", to.Host, to.Port, to.User, to.Password, to.Database)
	for _, args := range []string{
		"migrate status", "migrate verify", "migrate up", "status", "tail --for=0.1s --every=50ms", "show " + id(1).String(), "explain " + id(2).String(),
		"explain " + order(2), "redrive --all --dry-run", "redrive " + id(3).String() + " --reason=x", "discard " + id(1).String() + " --reason=x --yes",
		"dormant add a --owner=x --reason=x", "dormant list", "policy set a", "policy list", "prune --keep=0s --yes",
	} {
		if r := pgrail(t, url, strings.Fields(args)...); r.code != 0 || r.err != "" {
			t.Errorf("%s: exit status %d\n%s%s", args, r.code, r.out, r.err)
		}
	}
	const deaf = "listen     warning  LISTEN hears nothing: is there a transaction pooler in between?"
	if r := pgrail(t, url, "doctor"); r.code != 0 || !strings.Contains(r.out, deaf) {
		t.Errorf("doctor: exit status %d\n%s%s", r.code, r.out, r.err)
	}
}
