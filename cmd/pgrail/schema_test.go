package main

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/openlup/pgrail/catalogue"
	"github.com/openlup/pgrail/internal/pgtest"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t, pgtest.Empty())
	chain := catalogue.Chain()
	status := pgrail(t, d.URL, "migrate", "status")
	if status.code != 0 || strings.Count(status.out, " pending\n") != len(chain) {
		t.Errorf("before: exit status %d\n%s", status.code, status.out)
	}
	if r := pgrail(t, d.URL, "migrate", "verify"); r.code != exitFindings || !strings.Contains(r.out, "-> run: pgrail migrate up") {
		t.Errorf("before: exit status %d\n%s%s", r.code, r.out, r.err)
	}
	up := pgrail(t, d.URL, "migrate", "up")
	if up.code != 0 || strings.Count(up.err, "applying ") != len(chain) || !strings.HasSuffix(up.out, " migrations applied\n") {
		t.Errorf("up: exit status %d\n%s%s", up.code, up.out, up.err)
	}
	if r := pgrail(t, d.URL, "migrate", "up"); r != (result{0, "The schema is up to date.\n", ""}) {
		t.Errorf("up again: %+v", r)
	}
	status = pgrail(t, d.URL, "migrate", "status")
	if status.code != 0 || strings.Count(status.out, " applied\n") != len(chain) {
		t.Errorf("after: exit status %d\n%s", status.code, status.out)
	}
	if r := pgrail(t, d.URL, "migrate", "verify"); r.code != 0 {
		t.Errorf("after: exit status %d\n%s%s", r.code, r.out, r.err)
	}
}

// Who may not create is told whose work it is; a grant of the rail's kinds would not help.
func TestMigrateByARoleThatMayNotCreate(t *testing.T) {
	t.Parallel()
	_, w := newTranscript(t, pgtest.Empty())
	w.exec(`revoke create on schema public from public`)
	_, roleURL := w.login()
	r := pgrail(t, roleURL, "migrate", "up")
	if r.code != exitForbidden || !strings.Contains(r.err, "permission denied for schema public") || !strings.Contains(r.err, "CREATE on schema public") || strings.Contains(r.err, "grant") {
		t.Errorf("exit status %d\n%s%s", r.code, r.out, r.err)
	}
}

func TestMigrateIntoAnotherTable(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t, pgtest.Empty())
	for _, args := range []string{"migrate up", "migrate verify", "doctor"} {
		if r := pgrail(t, d.URL, append(strings.Fields(args), "--table=public.mine")...); r.code != 0 {
			t.Errorf("%s: exit status %d\n%s%s", args, r.code, r.out, r.err)
		}
	}
	if r := pgrail(t, d.URL, "migrate", "status", "--table=public.others"); r.code != 0 || strings.Contains(r.out, " applied\n") {
		t.Errorf("another table: exit status %d\n%s", r.code, r.out)
	}
}

// What was tampered with is told, and a database of a newer version is no failure.
func TestMigrateVerify(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	w.exec(`insert into public.pgrail_schema_migrations (version) values ('9999')`)
	s.run("migrate", "verify")
	w.exec(`alter table public.outbox_events disable trigger outbox_events_wake;
		drop index public.outbox_events_discarded_idx;
		create or replace function public.outbox_stay_awake() returns void language sql as 'select';
		update public.pgrail_schema_migrations_hashes set sha256 = 'of another text' where file = '0001_outbox_tables.sql'`)
	s.run("migrate", "verify")
	s.run("migrate", "verify", "--json")
	if r := s.run("migrate", "up"); r.code != exitFindings {
		t.Errorf("up: exit status %d, want %d", r.code, exitFindings)
	}
	passing := s.text.String()
	for _, m := range catalogue.Chain() { // which differ from release to release
		passing = strings.ReplaceAll(passing, m.SHA256, "HASH OF "+m.ID)
	}
	s.text.Reset()
	s.text.WriteString(strings.ReplaceAll(passing, count(len(catalogue.Chain()))+" migrations", "N migrations"))
	s.compare("verify")
}

func count(n int) string { return strings.Trim(counted(n, ""), " s") }

// login makes a role and returns its name and its URL.
func (w *world) login() (name, roleURL string) {
	w.Helper()
	name, password := "pgrail_"+strings.ToLower(rand.Text()[:12]), rand.Text()
	w.exec("CREATE ROLE " + name + " LOGIN PASSWORD '" + password + "'")
	w.Cleanup(func() {
		if _, err := w.db.Pool.Exec(context.Background(), "DROP OWNED BY "+name+"; DROP ROLE "+name); err != nil {
			w.Error(err)
		}
	})
	u, err := url.Parse(w.db.URL)
	if err != nil {
		w.Fatal(err)
	}
	u.User = url.UserPassword(name, password)
	return name, u.String()
}

func TestGrant(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	name, roleURL := w.login()
	for _, kind := range []string{"producer", "worker", "operator", "identity", "inbox"} {
		s.run("grant", kind, name)
	}
	s.run("grant", "producer", name, "--json")
	s.run("grant", "producer", "nobody_there")
	s.run("grant", "producer", "public")
	s.url = roleURL
	s.run("grant", "producer", name)
	s.compare("grant")
}

// An operator's role can run whatever is for operators, and is told what is not.
func TestCommandsAsOperator(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	w.populate()
	w.exec(`revoke create on schema public from public`) // as it is by default from PostgreSQL 15 on
	name, roleURL := w.login()
	if r := pgrail(t, s.url, "grant", "operator", name); r.code != 0 {
		t.Fatal(r.err)
	}
	for args, want := range map[string]int{
		"status": 0, "tail --for=0.05s": 0, "show " + id(1).String(): 0, "explain " + id(2).String(): 0, "explain " + order(2): 0,
		"redrive " + id(3).String() + " --reason=x": 0, "redrive --all --dry-run": 0, "discard --type=order.archived --reason=x --yes": 0,
		"resume " + order(9): exitNotFound, "dormant add a --owner=x --reason=x": 0, "dormant list": 0, "dormant remove b": exitNotFound,
		"policy set b": 0, "policy list": 0, "policy remove c": exitNotFound, "prune --keep=1d --yes": 0, "prune --keep=1d --dry-run": 0,
		"doctor --deep": 0, "migrate status": 0, "migrate verify": 0, "migrate up": 0, "prune --keep-inbox=1d --yes": 0, "prune --keep-inbox=1d --dry-run": 0, "grant worker " + name: exitForbidden,
	} {
		if r := pgrail(t, roleURL, strings.Fields(args)...); r.code != want {
			t.Errorf("%s: exit status %d, want %d\n%s%s", args, r.code, want, r.out, r.err)
		}
	}
}

// Who has no right is told so, and by what to get it.
func TestCommandsAsStranger(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	_, s.url = w.login()
	for _, args := range []string{
		"status", "tail", "show " + id(1).String(), "explain " + order(1), "redrive --all --dry-run", "discard " + id(1).String() + " --reason=x --yes",
		"resume " + order(1), "dormant list", "policy set a", "prune --keep=1d --yes", "prune --keep-inbox=1d --yes", "doctor", "migrate status",
	} {
		if r := s.run(strings.Fields(args)...); r.code != exitForbidden {
			t.Errorf("%s: exit status %d, want %d", args, r.code, exitForbidden)
		}
	}
	s.compare("stranger")
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	w.populate()
	s.run("doctor", "--deep")
	w.exec(`drop trigger outbox_events_wake on public.outbox_events`)
	s.run("doctor")
	s.run("doctor", "--json")
	text := s.text.String()
	s.text.Reset()
	s.text.WriteString(strings.ReplaceAll(text, count(len(catalogue.Chain()))+" migrations", "N migrations"))
	s.compare("doctor")
}
