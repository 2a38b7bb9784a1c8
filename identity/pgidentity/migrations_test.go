package pgidentity_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/catalogue"
	"github.com/openlup/pgrail/db"
	"github.com/openlup/pgrail/identitytest"
)

// objects are all that a migration of identity may leave behind.
const objects = `SELECT 'function ' || oid::regprocedure FROM pg_proc WHERE proname LIKE 'identity%'
	UNION ALL SELECT 'relation ' || relname FROM pg_class WHERE relname LIKE 'identity%'
	UNION ALL SELECT 'type ' || typname FROM pg_type WHERE typname LIKE '%identity%'
	UNION ALL SELECT 'trigger ' || tgname FROM pg_trigger WHERE tgname LIKE 'identity%' ORDER BY 1`

func TestMigrationsGoDownAndUpAgain(t *testing.T) {
	d := newDirectory(t)
	before := d.list(t, objects)
	chain := catalogue.Of("identity")
	for _, m := range slices.Backward(chain) {
		_, down := halves(t, m.File)
		d.exec(t, down)
	}
	if left := d.list(t, objects); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	for _, m := range chain {
		up, _ := halves(t, m.File)
		d.exec(t, up)
	}
	if diff := cmp.Diff(before, d.list(t, objects)); diff != "" || len(before) == 0 {
		t.Errorf("after coming back (-want +got):\n%s", diff)
	}
	d.add(t, identitytest.HumanAdmin)
	if n := d.counted(t); n != 1 {
		t.Errorf("%d admins: want 1", n)
	}
}

func halves(t *testing.T, file string) (up, down string) {
	t.Helper()
	text, err := fs.ReadFile(db.Migrations, file)
	if err != nil {
		t.Fatal(err)
	}
	up, down, found := strings.Cut(string(text), "\n-- migrate:down\n")
	if !found || !strings.HasPrefix(up, "-- migrate:up\n") {
		t.Fatalf("%s lacks its markers", file)
	}
	return up, down
}
