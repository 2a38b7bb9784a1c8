package operate_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/db"
	"github.com/openlup/pgrail/identity/pgidentity"
	"github.com/openlup/pgrail/internal/operate"
	"github.com/openlup/pgrail/migrate"
	"github.com/openlup/pgrail/outbox/event"
	"github.com/openlup/pgrail/webhook"
	"github.com/openlup/pgrail/webhook/inbox"
	"github.com/openlup/pgrail/webhooktest"
)

// The role of an application with admins: everything that pgidentity does, and not a row by other ways.
func TestIdentityRole(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.exec(`revoke usage on schema public from public`)
	_, pool := b.login("identity")
	ctx, a := t.Context(), b.as(pool)
	store, err := pgidentity.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	for n := range byte(4) {
		if _, err := store.CreatePrincipal(ctx, pgidentity.Principal{ID: id(n + 1), Kind: pgidentity.Human, Name: "somebody"}); err != nil {
			t.Fatal(err)
		}
	}
	var token, secret string
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"bootstrap", func() error { return store.BootstrapAdmin(ctx, id(1)) }},
		{"grant", func() error { return store.GrantAdmin(ctx, id(1), id(2), "helps") }},
		{"invite", func() (err error) { secret, err = store.Invite(ctx, id(1), id(3), time.Hour); return err }},
		{"accept", func() error { _, err := store.AcceptInvitation(ctx, secret); return err }},
		{"issue", func() (err error) { token, err = store.IssueToken(ctx, id(1), time.Hour); return err }},
		{"resolve", func() error {
			user, err := store.ResolveToken(ctx, token)
			if user != id(1) && err == nil {
				err = errors.New("resolved to " + user.String())
			}
			return err
		}},
		{"role", func() error { _, err := store.AdminRole(ctx, id(1)); return err }},
		{"revoke", func() error { return store.RevokeAdmin(ctx, id(1), id(2), "left") }},
		{"remove", func() error { return store.RemoveAdmin(ctx, id(1), id(3), "left") }},
		{"refuse", func() error { return store.RecordRefusal(ctx, id(1), id(2), "", "USER_ID_REQUIRED") }},
		{"disable", func() error { return store.DisablePrincipal(ctx, id(1), id(4), "") }},
		{"end", func() error { return store.EndToken(ctx, token) }},
		{"list", func() error { _, err := store.ListAdmins(ctx); return err }},
	} {
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
	for _, table := range []string{"principals", "memberships", "access_tokens", "invitations", "audit", "refusals"} {
		a.denied(`select from public.identity_` + table)
		a.denied(`delete from public.identity_` + table)
	}
	a.denied(`update public.identity_memberships set ended_at = now()`)
	a.denied(`select public.identity_lock_admins()`)
	a.denied(`select public.outbox_enqueue('{}', '{}', '{}', '{}', '{}')`)
	a.denied(`select from public.outbox_events`)
}

type receipt struct {
	Order uuid.UUID `json:"order"`
}

var received = event.MustDefine[receipt]("payment.received")

// The role of an application with webhooks records them, and enqueues as a producer does.
func TestInboxRole(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.exec(`revoke usage on schema public from public`)
	_, pool := b.login("inbox", "producer")
	secret := webhook.SecretText("correct horse battery staple")
	verifier, err := webhook.NewVerifier(webhook.GitHub, []webhook.Secret{secret})
	if err != nil {
		t.Fatal(err)
	}
	hook, err := inbox.New(pool, verifier, inbox.Config{Source: "bank", Draft: func(_ context.Context, d webhook.Delivery) (event.Draft, error) {
		p, err := inbox.Decode[receipt](d)
		return received.New("order", p.Order, "", p), err
	}})
	if err != nil {
		t.Fatal(err)
	}
	request := webhooktest.Request{Scheme: webhook.GitHub, Secret: secret, Body: []byte(`{"order": "00000000-0000-0000-0000-000000000001"}`)}
	for range 2 {
		w := httptest.NewRecorder()
		hook.ServeHTTP(w, request.New(t, "/hooks/bank"))
		if w.Code != http.StatusOK {
			t.Errorf("answer %d: %s", w.Code, w.Body)
		}
	}
	if n, err := hook.Prune(t.Context()); n != 0 || err != nil {
		t.Errorf("Prune = %d, %v", n, err)
	}
	if n := value[int](b, `select count(*)::integer from public.outbox_events`); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	_, alone := b.login("inbox")
	i := b.as(alone)
	i.denied(`select from public.webhook_inbox_entries`)
	i.denied(`insert into public.webhook_inbox_entries (source, key) values ('bank', sha256(''))`)
	i.denied(`delete from public.webhook_inbox_entries`)
	i.denied(`select public.outbox_enqueue('{}', '{}', '{}', '{}', '{}')`)
}

// An application may call migrate.Up in its own role: where all is applied it only looks. Where something is missing,
// or the role may not look, it is told the SQLSTATE and nothing is changed.
func TestMigrateUpByRolesThatOwnNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.exec(`revoke create on schema public from public`)
	up := func(pool *box) string {
		err := migrate.Up(t.Context(), pool.sql.Config().ConnString())
		var failed *migrate.Error
		if errors.As(err, &failed) {
			return failed.SQLState
		}
		if err != nil {
			return err.Error()
		}
		return ""
	}
	for _, kind := range []string{"producer", "worker", "operator", "identity", "inbox"} {
		_, pool := b.login(kind)
		if got := up(b.as(pool)); got != "" {
			t.Errorf("%s, all applied: %s", kind, got)
		}
	}
	_, stranger := b.login()
	if got := up(b.as(stranger)); got != "42501" {
		t.Errorf("a stranger: %q", got)
	}
	if err := migrate.Down(t.Context(), b.db.URL); err != nil {
		t.Fatal(err)
	}
	name, pool := b.login()
	b.exec(`grant select on public.pgrail_schema_migrations, public.pgrail_schema_migrations_hashes to ` + name)
	if got := up(b.as(pool)); got != "42501" {
		t.Errorf("one migration is missing: %q", got)
	}
	schema, err := operate.ReadSchema(db.Migrations)
	if err != nil {
		t.Fatal(err)
	}
	if n := value[int](b, `select count(*)::integer from public.pgrail_schema_migrations`); n != len(schema.Versions)-1 {
		t.Errorf("%d migrations are recorded", n)
	}
}
