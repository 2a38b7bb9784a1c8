// Package cases has a test for each way in which a test with a database can end.
// pgtest's own tests build it and run one at a time.
package cases

import (
	"context"
	"testing"

	"github.com/openlup/pgrail/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestPass(t *testing.T) {
	db := pgtest.New(t)
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO public.pgrail_schema_migrations VALUES ('mine')`); err != nil {
		t.Error(err)
	}
}

func TestFail(t *testing.T) {
	db := pgtest.New(t)
	if _, err := db.Pool.Exec(t.Context(), `CREATE TABLE public.evidence AS SELECT 'here'::text AS value`); err != nil {
		t.Error(err)
	}
	t.Error("as intended")
}

func TestLeakGoroutine(*testing.T) {
	go func() { select {} }()
}

func TestLeakConnection(t *testing.T) {
	db := pgtest.New(t)
	if _, err := db.Pool.Acquire(context.Background()); err != nil {
		t.Error(err)
	}
}
