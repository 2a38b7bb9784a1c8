package db_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/db"
	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/migrate"
)

// made lists what the migrations have created, but for the tables that record them.
func (r *rail) made() []string {
	r.Helper()
	return column[string](r, `select x.what from (
			select 'relation ' || c.relname as what, c.relname as name from pg_class c where c.relnamespace = 'public'::regnamespace
			union all select 'function ' || p.oid::regprocedure, p.proname from pg_proc p where p.pronamespace = 'public'::regnamespace
			union all select 'type ' || t.typname, t.typname from pg_type t where t.typnamespace = 'public'::regnamespace
			union all select 'trigger ' || t.tgname, t.tgname from pg_trigger t where not t.tgisinternal
			union all select 'schema ' || n.nspname, n.nspname from pg_namespace n where n.nspname !~ '^pg_' and n.nspname not in ('public', 'information_schema')
			union all select 'extension ' || e.extname, e.extname from pg_extension e where e.extname <> 'plpgsql') x
		where ltrim(x.name, '_') not like 'pgrail\_schema\_migrations%' order by x.what collate "C"`)
}

// Every migration's down part takes back what its up part made, in use as well as unused,
// and the whole way up leads to the same place again.
func TestDownTakesEverythingBack(t *testing.T) {
	t.Parallel()
	r := newRail(t, pgtest.Empty())
	ctx := context.Background()
	files, err := fs.Glob(db.Migrations, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	up := func() {
		t.Helper()
		if err := migrate.Up(ctx, r.db.URL); err != nil {
			t.Fatal(err)
		}
	}
	up()
	first := r.made()
	if len(first) < 50 {
		t.Fatalf("made only %v", first)
	}
	r.exec(`insert into ` + plainColumns + ` values ('order', gen_random_uuid(), 'a', 'k', '{}')`)
	for i := range files {
		if err := migrate.Down(ctx, r.db.URL); err != nil {
			t.Fatalf("down %d of %d: %v", i+1, len(files), err)
		}
	}
	if err := migrate.Down(ctx, r.db.URL); !errors.Is(err, migrate.ErrNothingApplied) {
		t.Errorf("after the last: %v", err)
	}
	if left := r.made(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	up()
	if diff := cmp.Diff(first, r.made()); diff != "" {
		t.Errorf("up again (-first +second):\n%s", diff)
	}
	r.sound()
}
