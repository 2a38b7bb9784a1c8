package pgtest_test

import (
	"testing"

	"github.com/openlup/pgrail/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestNew(t *testing.T) {
	for range 3 {
		db := pgtest.New(t, pgtest.Hostile())
		var n int
		if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM public.pgrail_schema_migrations`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		t.Log(n, db.URL)
	}
}
