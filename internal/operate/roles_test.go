package operate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

type payload struct {
	N int `json:"n"`
}

var paid = event.MustDefine[payload]("order.paid")

// denied fails the test unless the server refuses the statement for want of a right.
func (b *box) denied(sql string, args ...any) {
	b.Helper()
	_, err := b.sql.Exec(b.Context(), sql, args...)
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "42501" {
		b.Errorf("%s\ngot %v, want no right", sql, err)
	}
}

const insertPlainly = `insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload) values ('order', gen_random_uuid(), 'order.paid', 'plain', '{"n": 2}')`

func TestProducerRole(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.exec(`revoke usage on schema public from public`) // as careful administrators do
	_, pool := b.login("producer")
	p := b.as(pool)
	for want := range 2 {
		receipts, err := outbox.Enqueue(t.Context(), pool, paid.New("order", uuid.Max, "k", payload{1}))
		if err != nil || receipts[0].Duplicate != (want == 1) {
			t.Fatalf("enqueueing: %+v, %v", receipts, err)
		}
	}
	p.exec(insertPlainly)
	p.exec(insertPlainly + ` on conflict do nothing`)
	columns := []string{"aggregate_type", "aggregate_id", "event_type", "idempotency_key", "payload", "status", "metadata"}
	if _, err := pool.CopyFrom(t.Context(), pgx.Identifier{"public", "outbox_events"}, columns,
		pgx.CopyFromRows([][]any{{"order", uuid.Max, "order.paid", "copied", "{}", "processed", "{}"}})); err != nil {
		t.Errorf("COPY: %v", err)
	}
	if n := value[int](b, `select count(*)::integer from public.outbox_events`); n != 3 {
		t.Errorf("%d events were written, want 3", n)
	}
	p.denied(strings.NewReplacer("payload)", "payload, lane)", "}')", "}', 'gone')").Replace(insertPlainly))
	p.denied(insertPlainly + ` returning payload`)
	p.denied(`select from public.outbox_events`)
	p.denied(`update public.outbox_events set status = 'processed'`)
	p.denied(`delete from public.outbox_events`)
	p.denied(`truncate public.outbox_events`)
	p.denied(`select public.outbox_claim_batch(array['order.paid'])`)
	p.denied(`select public.outbox_redrive('{}', 'me', 'why')`)
	p.denied(`select nextval('public.outbox_event_id_seq')`)
}

func TestWorkerRole(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.exec(`revoke usage on schema public from public`)
	_, pool := b.login("worker")
	w := b.as(pool)
	handled := make(chan int, 2)
	var handlers outbox.Handlers
	outbox.Handle(&handlers, paid, func(_ context.Context, e event.Event[payload]) error {
		handled <- e.Payload.N
		return nil
	})
	worker, err := outbox.NewWorker(pool, &handlers, outbox.Config{PollInterval: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- worker.Run(context.WithoutCancel(t.Context())) }()
	// Awake, asleep and woken again: in each state it calls other functions.
	for n := range 2 {
		b.eventually(`select asleep and exists (select from public.outbox_workers) from public.outbox_rail`)
		if _, err := outbox.Enqueue(t.Context(), b.sql, paid.New("order", uuid.Max, fmt.Sprint(n), payload{n})); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-handled:
			if got != n {
				t.Errorf("handled %d, want %d", got, n)
			}
		case err := <-done:
			t.Fatalf("the worker stopped: %v", err)
		case <-time.After(20 * time.Second):
			t.Fatal("not handled")
		}
	}
	b.eventually(`select count(*) = 2 from public.outbox_events where status = 'processed'`)
	if err := worker.Stop(t.Context()); err != nil {
		t.Errorf("stopping: %v", err)
	}
	for _, table := range []string{"outbox_events", "outbox_rail", "outbox_workers", "outbox_dormant_event_types", "outbox_event_policies"} {
		w.denied(`select from public.` + table)
	}
	w.denied(insertPlainly)
	w.denied(`update public.outbox_rail set asleep = true`)
	w.denied(`select public.outbox_enqueue('{}', '{}', '{}', '{}', '{}')`)
	w.denied(`select public.outbox_redrive('{}', 'me', 'why')`)
	w.denied(`select public.outbox_discard('{}', 'me', 'why')`)
	w.denied(`select public.outbox_prune(0)`)
	w.denied(`select public.outbox_unblock('{}', '{}', '{}')`)
}

func TestOperatorRole(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.exec(`revoke usage on schema public from public`)
	_, pool := b.login("operator")
	o, ctx := b.as(pool), t.Context()
	given := b.insert(1, 1, "order.paid", 5)
	b.insert(2, 1, "order.paid", 4)
	for name, do := range map[string]func() error{
		"set policy": func() error {
			return outbox.SetPolicy(ctx, pool, outbox.Policy{EventType: "order.paid", MaxAttempts: 1, OnDiscard: outbox.Halt})
		},
		"stats": func() error { _, err := outbox.Stats(ctx, pool, 10); return err },
		"explain": func() error {
			e, err := outbox.Explain(ctx, pool, given)
			if err == nil && e == nil {
				err = errors.New("no explanation")
			}
			return err
		},
		"explain aggregate": func() error { _, err := outbox.ExplainAggregate(ctx, pool, "order", id(1)); return err },
		"redrive":           func() error { _, err := outbox.Redrive(ctx, pool, "me", "why", given); return err },
		"discarded":         func() error { _, err := outbox.Discarded(ctx, pool, 10, "order.paid"); return err },
		"halted":            func() error { _, err := outbox.Halted(ctx, pool, 10); return err },
		"resume":            func() error { _, err := outbox.Resume(ctx, pool, "order", id(1)); return err },
		"prune":             func() error { _, err := outbox.Prune(ctx, pool, time.Hour, time.Hour, 10); return err },
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	o.exec(`insert into public.outbox_dormant_event_types (event_type, owner, reason) values ('later', 'me', 'why')`)
	o.exec(`update public.outbox_dormant_event_types set reason = 'because'`)
	o.exec(`delete from public.outbox_dormant_event_types`)
	o.exec(`delete from public.outbox_event_policies`)
	if got := o.discard(given); !cmp.Equal(got, []string{"discarded"}) {
		t.Errorf("discard: %v", got)
	}
	if found := o.findings(o.examination()); len(found) != 1 || !strings.HasPrefix(found[0], "warning snapshots: this role sees no other role's sessions -> run in psql: GRANT pg_read_all_stats TO ") {
		t.Errorf("the doctor finds %q", found)
	}
	o.denied(insertPlainly)
	o.denied(`update public.outbox_events set status = 'pending'`)
	o.denied(`delete from public.outbox_events`)
	o.denied(`update public.outbox_rail set asleep = true`)
	o.denied(`delete from public.outbox_halted_aggregates`)
	o.denied(`select public.outbox_enqueue('{}', '{}', '{}', '{}', '{}')`)
	o.denied(`select public.outbox_claim_batch(array['order.paid'])`)
	o.denied(`select public.outbox_mark_processed(gen_random_uuid(), '')`)
	o.denied(`select public.outbox_grant('operator', current_user::text::regrole)`)
}

// Whoever can connect can do nothing.
func TestStrangerRole(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	_, pool := b.login()
	s := b.as(pool)
	s.denied(`select from public.outbox_events`)
	s.denied(insertPlainly)
	for _, function := range column[string](b, `select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'public'::regnamespace`) {
		if value[bool](s, `select has_function_privilege($1::text::regprocedure, 'EXECUTE')`, function) {
			t.Errorf("may call %s", function)
		}
	}
	s.wantFindings(s.examination(), "warning snapshots: this role sees no other role's sessions",
		"warning clock: this role may not look -> connect as the owner, or run: pgrail grant operator ROLE",
		"warning roles: this role may not look", "warning marks: this role may not look")
}

// rights are what a role has of the rail's, in one line per object.
const rights = `
	select format('EXECUTE %s', p.proname) from pg_proc p
	where p.pronamespace = 'public'::regnamespace and has_function_privilege($1::text::regrole, p.oid, 'EXECUTE')
	union all
	select format('%s %s', string_agg(k.kind, ', ' order by k.ord), c.relname)
	from pg_class c cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) with ordinality k(kind, ord)
	where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v') and has_table_privilege($1::text::regrole, c.oid, k.kind)
	group by c.relname
	union all
	select format('%s %s', string_agg(k.kind, ', '), c.relname)
	from pg_class c cross join unnest(array['USAGE', 'SELECT', 'UPDATE']) k(kind)
	where c.relnamespace = 'public'::regnamespace and c.relkind = 'S' and has_sequence_privilege($1::text::regrole, c.oid, k.kind)
	group by c.relname
	union all
	select format('%s %s.%s', g.privilege_type, c.relname, a.attname)
	from pg_class c join pg_attribute a on a.attrelid = c.oid cross join lateral aclexplode(a.attacl) g
	where c.relnamespace = 'public'::regnamespace and g.grantee = $1::text::regrole
	order by 1`

// What each kind of role may do, to the letter. Whoever adds a function or a table decides here for whom it is.
func TestEachKindHasItsRightsAndNoOther(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	const migrations = `SELECT pgrail_schema_migrations, SELECT pgrail_schema_migrations_hashes`
	for kind, want := range map[string]string{
		"producer": `EXECUTE outbox_enqueue, EXECUTE outbox_event_id,
			INSERT outbox_events.aggregate_id, INSERT outbox_events.aggregate_type, INSERT outbox_events.attempts, INSERT outbox_events.available_at,
			INSERT outbox_events.created_at, INSERT outbox_events.error, INSERT outbox_events.event_type, INSERT outbox_events.id,
			INSERT outbox_events.idempotency_key, INSERT outbox_events.metadata, INSERT outbox_events.payload, INSERT outbox_events.processed_at,
			INSERT outbox_events.status, ` + migrations,
		"worker": `EXECUTE outbox_any_ready, EXECUTE outbox_any_suspect, EXECUTE outbox_appear, EXECUTE outbox_claim_batch, EXECUTE outbox_claim_events, EXECUTE outbox_disappear,
			EXECUTE outbox_extend_leases, EXECUTE outbox_fall_asleep, EXECUTE outbox_heal, EXECUTE outbox_heartbeat, EXECUTE outbox_mark_failed,
			EXECUTE outbox_mark_failed_many, EXECUTE outbox_mark_processed, EXECUTE outbox_mark_processed_many, EXECUTE outbox_recover_claims,
			EXECUTE outbox_release_unprocessed, EXECUTE outbox_retain, EXECUTE outbox_snoozes, EXECUTE outbox_stay_awake, EXECUTE outbox_take_over, ` + migrations,
		"operator": `EXECUTE outbox_blocked_aggregates, EXECUTE outbox_check, EXECUTE outbox_discard, EXECUTE outbox_explain, EXECUTE outbox_explain_aggregate,
			EXECUTE outbox_grantees, EXECUTE outbox_heal, EXECUTE outbox_missing_rights, EXECUTE outbox_overview, EXECUTE outbox_prune,
			EXECUTE outbox_recent, EXECUTE outbox_redrive, EXECUTE outbox_resume_aggregate, EXECUTE outbox_rights, EXECUTE outbox_stats,
			EXECUTE webhook_inbox_prune,
			SELECT outbox_events, SELECT outbox_halted_aggregates, SELECT outbox_rail, SELECT outbox_stamp_seq, SELECT outbox_workers,
			SELECT pgrail_schema_migrations, SELECT pgrail_schema_migrations_hashes, SELECT webhook_inbox_entries,
			SELECT, INSERT, UPDATE, DELETE outbox_dormant_event_types, SELECT, INSERT, UPDATE, DELETE outbox_event_policies`,
		"identity": `EXECUTE identity_accept, EXECUTE identity_admin_role, EXECUTE identity_authenticate, EXECUTE identity_bootstrap,
			EXECUTE identity_create_principal, EXECUTE identity_disable, EXECUTE identity_end_token, EXECUTE identity_grant, EXECUTE identity_invite,
			EXECUTE identity_issue_token, EXECUTE identity_refuse, EXECUTE identity_remove, EXECUTE identity_revoke, EXECUTE identity_revoke_admin,
			SELECT identity_admins, ` + migrations,
		"inbox": `EXECUTE webhook_inbox_prune, EXECUTE webhook_inbox_record, ` + migrations,
	} {
		name, _ := b.login(kind)
		got := strings.Join(column[string](b, rights, name), ", ")
		if diff := cmp.Diff(strings.Join(strings.Fields(want), " "), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
		if missing := column[string](b, `select object from public.outbox_missing_rights($1, $2::text::regrole)`, kind, name); len(missing) > 0 {
			t.Errorf("%s lacks %v", kind, missing)
		}
	}
}

// Functions that are for nobody: called by other functions, triggers, or the owner.
func TestEveryFunctionIsForSomebodyOrInternal(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	want := strings.Fields(`identity_actor_refusal identity_append_only identity_end_access identity_expiry identity_guard_last_admin identity_is_last_admin
		identity_lock_admins identity_lock_admins_first identity_membership_began identity_membership_ended identity_membership_fixed
		identity_newcomer_refusal identity_no_truncate identity_principal_enabled identity_principal_switched identity_require identity_target_refusal
		outbox_after_end outbox_aggregate_slot outbox_asked outbox_check_object outbox_check_pairs outbox_counts outbox_discard_exhausted outbox_file_insert
		outbox_file_update outbox_grant outbox_in_flight outbox_lane_by_time outbox_leave outbox_park outbox_presence_key outbox_reopen outbox_stamped_id outbox_stamps outbox_types outbox_unblock outbox_wake`)
	got := column[string](b, `select p.proname::text from pg_proc p where p.pronamespace = 'public'::regnamespace
		and 'public.' || p.proname not in (select object from public.outbox_rights()) order by p.proname collate "C"`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decide for whom each is: in outbox_rights, or here (-want +got):\n%s", diff)
	}
	if open := column[string](b, `select p.proname::text from pg_proc p where p.pronamespace = 'public'::regnamespace and has_function_privilege('public', p.oid, 'EXECUTE')`); len(open) > 0 {
		t.Errorf("open to everyone: %v", open)
	}
}

func TestGrantRefuses(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	name, pool := b.login("operator")
	for sql, state := range map[string]string{
		`select public.outbox_grant('admin', '` + name + `')`:  "22023",
		`select public.outbox_grant(null, '` + name + `')`:     "22023",
		`select public.outbox_grant('worker', null)`:           "22023",
		`select public.outbox_grant('worker', 'public')`:       "42704",
		`select public.outbox_grant('worker', 'nobody_there')`: "42704",
	} {
		_, err := b.sql.Exec(t.Context(), sql)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != state {
			t.Errorf("%s: %v, want %s", sql, err, state)
		}
	}
	// Who holds a right without owning the object is told so by a mere warning of the server.
	b.exec(`grant execute on function public.outbox_grant to ` + name)
	b.as(pool).denied(`select public.outbox_grant('producer', $1::text::regrole)`, name)
	b.as(pool).denied(`select public.outbox_grant('operator', 'pg_monitor')`)
	if kinds := column[string](b, `select kind from public.outbox_grantees()`); !cmp.Equal(kinds, []string{"operator"}) {
		t.Errorf("granted: %v", kinds)
	}
}

// A role that has lost a right, or was granted before an upgrade that needs more, is found, and granting again mends it.
func TestLostRightsAreFound(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	name, _ := b.login("worker", "producer")
	b.exec(`revoke execute on function public.outbox_heal from ` + name)
	b.exec(`revoke insert (payload) on public.outbox_events from ` + name)
	e := b.examination()
	e.Only = []string{"roles"}
	b.wantFindings(e, fmt.Sprintf("problem roles: role %s lacks rights of the kind producer, 1 of them -> run: pgrail grant producer %[1]s", name),
		fmt.Sprintf("problem roles: role %s lacks rights of the kind worker, 1 of them -> run: pgrail grant worker %[1]s", name))
	b.exec(`select public.outbox_grant(g.kind, g.grantee) from public.outbox_grantees() g`)
	b.wantFindings(e)
}

// Another role's name is no statement.
func TestGrantQuotesNames(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	plain, _ := b.login()
	odd := plain + `"; drop table public.outbox_events; --`
	quoted := pgx.Identifier{odd}.Sanitize()
	b.exec("CREATE ROLE " + quoted)
	t.Cleanup(func() {
		if _, err := b.sql.Exec(context.Background(), "DROP OWNED BY "+quoted+"; DROP ROLE "+quoted); err != nil {
			t.Error(err)
		}
	})
	if err := db.New(b.sql).OperateGrant(t.Context(), db.OperateGrantParams{Kind: "worker", RoleName: odd}); err != nil {
		t.Fatal(err)
	}
	if got := column[string](b, `select trim('"' from grantee::text) from public.outbox_grantees()`); len(got) != 1 {
		t.Errorf("granted to %q", got)
	}
}
