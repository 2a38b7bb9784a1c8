package inbox_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/catalogue"
	"github.com/openlup/pgrail/db"
)

// objects are all that a migration of webhook may leave behind.
const objects = `SELECT 'function ' || oid::regprocedure FROM pg_proc WHERE proname LIKE 'webhook%'
	UNION ALL SELECT 'relation ' || relname FROM pg_class WHERE relname LIKE 'webhook%'
	UNION ALL SELECT 'type ' || typname FROM pg_type WHERE typname LIKE '%webhook%' ORDER BY 1`

func TestMigrationsGoDownAndUpAgain(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	before := h.list(t, objects)
	chain := catalogue.Of("webhook")
	for _, m := range slices.Backward(chain) {
		_, down := halves(t, m.File)
		h.exec(t, down)
	}
	if left := h.list(t, objects); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	for _, m := range chain {
		up, _ := halves(t, m.File)
		h.exec(t, up)
	}
	if diff := cmp.Diff(before, h.list(t, objects)); diff != "" || len(before) == 0 {
		t.Errorf("after coming back (-want +got):\n%s", diff)
	}
	h.expectAnswer(t, ok, h.deliver(t, report()))
}

func halves(t *testing.T, file string) (up, down string) {
	t.Helper()
	text, err := fs.ReadFile(db.Migrations, file)
	if err != nil {
		t.Fatal(err)
	}
	up, down, found := strings.Cut(string(text), "\n-- migrate:down\n")
	if !found {
		t.Fatalf("%s lacks its marker", file)
	}
	return up, down
}

// TestTheTableRefusesWhatCannotBe, whoever writes to it.
func TestTheTableRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	for values, constraint := range map[string]string{
		`(' ', sha256(''), now())`:                          "webhook_inbox_entries_source_nonempty_check",
		`(repeat('x', 256), sha256(''), now())`:             "webhook_inbox_entries_source_length_check",
		`('shop', 'too short', now())`:                      "webhook_inbox_entries_key_check",
		`('shop', sha256(''), '-infinity')`:                 "webhook_inbox_entries_received_at_finite_check",
		`('a', '', now()), ('a', '', now())`:                "webhook_inbox_entries_key_check",
		`('a', k, now()), ('a', k, now())`:                  "webhook_inbox_entries_pkey",
		`('a', k, now()), ('b', k, now() - '1d'::interval)`: "",
	} {
		values = strings.ReplaceAll(values, " k,", " sha256('k'),")
		_, err := h.Pool.Exec(t.Context(), `INSERT INTO public.webhook_inbox_entries (source, key, received_at) VALUES `+values)
		if got := constraintOf(err); got != constraint || (err == nil) != (constraint == "") {
			t.Errorf("%s: %v, want %q", values, err, constraint)
		}
	}
}
