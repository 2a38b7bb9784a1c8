package db_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/internal/pgtest"
)

// exercise walks a few events through every function of the rail, on one session, and
// checks that they end where they should.
func (r *rail) exercise() {
	r.Helper()
	s := r.session()
	if got := len(column[bool](s.rail, `select same_payload from public.outbox_enqueue(array['a', 'a', 'b', 'a'], array['1', '2', '3', '1'], array['order', 'order', 'order', 'order'],
		array[$1, $1, $2, $1]::uuid[], array['{}', '{}', '{}', '{}'], null, array[0, 0, 0, 0]::float8[])`, agg(1), agg(2))); got != 4 {
		s.Errorf("enqueue gave %d answers", got)
	}
	s.exec(`insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload) values ('order', $1, 'a', '4', '{}'), ('order', $1, 'a', '5', '{}')`, agg(3))
	begun := value[time.Time](s.rail, `select pg_catalog.clock_timestamp()`)
	held := s.claim("a", "b")
	if len(held) != 3 {
		s.Fatalf("claimed %d, want the first of each of 3 aggregates", len(held))
	}
	for _, e := range held {
		if lease := e.AvailableAt.Sub(begun); lease < 300*time.Second || lease > 330*time.Second {
			s.Errorf("leased for %v", lease)
		}
	}
	if n := len(column[uuid.UUID](s.rail, `select x from public.outbox_extend_leases($1, $2) x`, ids(held), tokens(held))); n != 3 {
		s.Errorf("extended %d", n)
	}
	if n := value[int](s.rail, `select public.outbox_release_unprocessed($1, $2)`, ids(held[2:]), tokens(held[2:])); n != 1 {
		s.Errorf("released %d", n)
	}
	if got := value[string](s.rail, `select public.outbox_mark_failed($1, $2, 'no', 'discard')`, held[1].ID, held[1].token()); got != "discarded" {
		s.Errorf("discard: %s", got)
	}
	if !s.ack(held[0]) {
		s.Error("not acknowledged")
	}
	if got := s.redrive(held[1].ID); got != "redriven" {
		s.Errorf("redrive: %s", got)
	}
	for _, call := range []string{`outbox_stats()`, `outbox_explain_aggregate('order', '` + agg(1).String() + `')`} {
		if len(column[int](s.rail, `select 1 from public.`+call)) == 0 {
			s.Errorf("%s says nothing", call)
		}
	}
	if n := value[int](s.rail, `select public.outbox_heal()`); n != 0 {
		s.Errorf("healed %d", n)
	}
	s.rail.sound()
	if n := len(s.drain("a", "b")); n != 4 {
		s.Errorf("drained %d, want 4", n)
	}
	if n := value[int](s.rail, `select public.outbox_prune(0)`); n != 5 {
		s.Errorf("pruned %d, want 5", n)
	}
}

// The rail does the same under every setting a session may have.
func TestHostileSettings(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]pgtest.Option{
		"unusual":             {pgtest.Hostile()},
		"empty search_path":   {pgtest.Setting("search_path", "")},
		"pg_temp only":        {pgtest.Setting("search_path", "pg_temp")},
		"pg_catalog last":     {pgtest.Setting("search_path", "public, pg_catalog")},
		"serializable":        {pgtest.Setting("default_transaction_isolation", "serializable")},
		"repeatable read":     {pgtest.Setting("default_transaction_isolation", "repeatable read")},
		"deferrable":          {pgtest.Setting("default_transaction_isolation", "serializable"), pgtest.Setting("default_transaction_deferrable", "on")},
		"other planner":       {pgtest.Setting("enable_indexscan", "off"), pgtest.Setting("enable_nestloop", "off"), pgtest.Setting("enable_tidscan", "off"), pgtest.Setting("plan_cache_mode", "force_custom_plan")},
		"parallel":            {pgtest.Setting("parallel_setup_cost", "0"), pgtest.Setting("parallel_tuple_cost", "0"), pgtest.Setting("min_parallel_table_scan_size", "0")},
		"strings":             {pgtest.Setting("standard_conforming_strings", "off"), pgtest.Setting("backslash_quote", "on"), pgtest.Setting("escape_string_warning", "off")},
		"time zone":           {pgtest.Setting("timezone", "Asia/Kathmandu"), pgtest.Setting("datestyle", "German")},
		"checks of functions": {pgtest.Setting("plpgsql.extra_errors", "all"), pgtest.Setting("plpgsql.check_asserts", "off")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newRail(t, options...).exercise()
		})
	}
}

// German messages, where the server has them, change no SQLSTATE and none of our texts.
func TestHostileMessages(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	s := r.session()
	for _, locale := range []string{"de_DE.utf8", "de_DE.UTF-8", "C"} {
		if _, err := s.conn.Exec(t.Context(), `set lc_messages = '`+locale+`'`); err == nil {
			t.Logf("lc_messages %s", locale)
			break
		}
	}
	if refused := s.fails(`select public.outbox_claim_batch('{}')`); refused.Code != "22023" || refused.Message != "outbox_claim_allowlist_required" {
		t.Errorf("got %v", refused)
	}
	if refused := s.fails(insertWith("outbox_events", map[string]string{"attempts": "-1"})); refused.Code != "23514" || refused.ConstraintName != "outbox_events_attempts_check" {
		t.Errorf("got %v", refused)
	}
}

// impostors are functions and operators in public that lie, as anyone can make them who
// may create objects there.
const impostors = `
create function public.now() returns timestamptz language sql as $$ select timestamptz '1999-01-01' $$;
create function public.clock_timestamp() returns timestamptz language sql as $$ select timestamptz '2999-01-01' $$;
create function public.random() returns float8 language sql as $$ select 1e9::float8 $$;
create function public.gen_random_uuid() returns uuid language sql as $$ select '00000000-0000-0000-0000-000000000000'::uuid $$;
create function public.btrim(text) returns text language sql as $$ select '' $$;
create function public.cardinality(anyarray) returns integer language sql as $$ select 0 $$;
create function public.coalesce(text, text) returns text language sql as $$ select 'x' $$;
create function public.least(integer, integer) returns integer language sql as $$ select 0 $$;
create function public.jsonb_typeof(jsonb) returns text language sql as $$ select 'object' $$;
create function public.lpad(text, integer, text) returns text language sql as $$ select 'f' $$;
create function public.nextval(text) returns bigint language sql as $$ select 1::bigint $$;
create function public.make_interval(secs float8) returns interval language sql as $$ select interval '1 century' $$;
create function public.hashtext(text) returns integer language sql as $$ select 1 $$;
create function public.lie(text, text) returns boolean language sql as $$ select true $$;
create operator public.= (leftarg = text, rightarg = text, procedure = public.lie);
create operator public.<> (leftarg = text, rightarg = text, procedure = public.lie);
create type public.jsonb as (x integer);
create domain public.uuid as text check (value = '');`

// D8, and where ours must be better, 5: someone creates public.now(), and more of that
// kind, and puts public first in everyone's path: no effect.
func TestHostileImpostors(t *testing.T) {
	t.Parallel()
	for _, path := range []string{`"$user", public`, "public, pg_catalog", "pg_temp, public, pg_catalog"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			r := newRail(t)
			r.exec(impostors)
			r.exec(fmt.Sprintf(`alter database %q set search_path = %s`, r.db.Name, path))
			probe := r.session()
			if path != `"$user", public` {
				if year := value[int](probe.rail, `select extract(year from now())::integer`); year != 1999 {
					t.Fatalf("the impostor is not in the way: now() says %d", year)
				}
			}
			s := r.session()
			id := value[[16]byte](s.rail, `insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload)
				values ('order', pg_catalog.gen_random_uuid(), 'a', 'k', '{}') returning id`)
			got := value[string](s.rail, `select pg_catalog.concat_ws(' ', status, extract(year from created_at) operator(pg_catalog.=) extract(year from pg_catalog.now()))
				from public.outbox_events where id operator(pg_catalog.=) $1`, id)
			if got != "pending t" {
				t.Errorf("inserted %s", got)
			}
			held := value[[]string](s.rail, `select array[c.id::pg_catalog.text, c.metadata ->> 'claimToken',
				(c.available_at operator(pg_catalog.-) pg_catalog.clock_timestamp() between interval '290 s' and interval '301 s')::pg_catalog.text]
				from public.outbox_claim_batch(array['a']) c`)
			if held[2] != "true" || strings.HasPrefix(held[1], "00000000") {
				t.Errorf("claimed as %v", held)
			}
			if !value[bool](s.rail, `select public.outbox_mark_processed($1, $2)`, held[0], held[1]) {
				t.Error("not acknowledged")
			}
			if refused := s.fails(`insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload)
				values ('order', pg_catalog.gen_random_uuid(), ' ', 'k', '{}')`); refused.ConstraintName != "outbox_events_event_type_nonempty_check" {
				t.Errorf("blank type: %v", refused)
			}
		})
	}
}

// Every function of the rail has its path fixed, so that none of the above can matter.
func TestHostileFunctionsHaveTheirPath(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	open := column[string](r, `select p.oid::regprocedure::text from pg_proc p
		where p.pronamespace = 'public'::regnamespace and p.proname like 'outbox%'
			and not coalesce('search_path=pg_catalog, pg_temp' = any (p.proconfig), false)
			and p.prosqlbody is null -- parsed when created: names nothing any more`)
	if len(open) > 0 {
		t.Errorf("functions whose names depend on the caller's path: %v", open)
	}
}

// A temporary table under the rail's name belongs to whoever made it, and is not the rail.
func TestHostileTemporaryTable(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	id := r.insert(row{})
	s := r.session()
	s.exec(`create temp table outbox_events (like public.outbox_events); insert into outbox_events select * from public.outbox_events`)
	s.exec(`set search_path = pg_temp, public`)
	if e := s.claimOne("a"); e.ID != id || !s.ack(e) || r.event(id).Status != "processed" {
		t.Error("the rail was not the one in public")
	}
}

// A plain producer needs its INSERT on the contract's columns and what fills in the id;
// no right on the sequence, on other rows, or on what files its rows. (What each kind of
// role is granted has tests where the grants are.)
func TestHostilePlainProducer(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	role := strings.ReplaceAll("producer_"+uuid.NewString()[:8], "-", "_")
	r.exec(`create role ` + role)
	t.Cleanup(func() {
		owner := r.session()
		owner.exec(`drop owned by ` + role + `; drop role ` + role)
	})
	r.exec(`grant usage on schema public to ` + role)
	r.exec(`grant insert (aggregate_type, aggregate_id, event_type, idempotency_key, payload) on public.outbox_events to ` + role)
	r.exec(`grant execute on function public.outbox_event_id() to ` + role)
	s := r.session()
	s.exec(`set role ` + role)
	s.exec(`begin`)
	for n := range 3 {
		s.exec(`insert into `+plainColumns+` values ('order', $1, 'a', $2, jsonb_build_object('n', $3::integer))`, agg(1), fmt.Sprint(n), n)
	}
	s.exec(`commit`)
	if got := r.lanes(); got != "ready* queued queued" {
		t.Errorf("filed %s", got)
	}
	for _, forbidden := range []string{`select from public.outbox_events`, `update public.outbox_events set status = 'processed'`, `delete from public.outbox_events`,
		`select nextval('public.outbox_event_id_seq')`, `insert into public.outbox_events (lane) values ('ready')`} {
		if refused := s.fails(forbidden); refused.Code != "42501" {
			t.Errorf("%s: %v", forbidden, refused)
		}
	}
	r.inWrittenOrder(1)
}

// D5, the part in SQL: what a text or jsonb of the server cannot hold is refused with its
// SQLSTATE and changes nothing.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	id := r.held(1)
	before := r.event(id)
	for call, code := range map[string]string{
		insertWith("outbox_events", map[string]string{"payload": `'{"a": "\u0000"}'`}):                                                             "22P05",
		insertWith("outbox_events", map[string]string{"payload": `'{'`}):                                                                           "22P02",
		`select public.outbox_mark_failed('` + id.String() + `', 't', convert_from('\xff', 'UTF8'))`:                                               "22021",
		`select public.outbox_mark_failed('` + id.String() + `', 't', chr(0))`:                                                                     "54000",
		`select public.outbox_enqueue(array['a'], array['k'], array['o'], array[gen_random_uuid()], array['{'])`:                                   "22P02",
		`select public.outbox_enqueue(array['a'], array['k'], array['o'], array[gen_random_uuid()], array['{}'], array['null'])`:                   "23514",
		`select public.outbox_enqueue(array['a'], array['k'], array['o'], array[gen_random_uuid()], array['{}'], array['[]'])`:                     "23514",
		`select public.outbox_enqueue(array['a'], array[repeat('k', 6400)], array['o'], array[gen_random_uuid()], array['{}'])`:                    "23514",
		`select public.outbox_enqueue(array[null::text], array['k'], array['o'], array[gen_random_uuid()], array['{}'])`:                           "23502",
		`select public.outbox_enqueue(array['a'], array['k'], array['o'], array[null::uuid], array['{}'])`:                                         "23502",
		`select public.outbox_enqueue(array['a'], array['k'], array['o'], array[gen_random_uuid()], array['{}'], null, array['nan'::float8])`:      "22008",
		`select public.outbox_enqueue(array['a'], array['k'], array['o'], array[gen_random_uuid()], array['{}'], null, array['infinity'::float8])`: "22008",
	} {
		if refused := r.fails(call); refused.Code != code {
			t.Errorf("%.80s: %s %s, want %s", call, refused.Code, refused.Message, code)
		}
	}
	if got := r.event(id); got.Status != before.Status || value[int](r, `select count(*) from public.outbox_events`) != 1 {
		t.Error("something changed")
	}
	large := insertWith("outbox_events", map[string]string{"payload": `jsonb_build_object('x', repeat(md5('x'), 1250000))`, "event_type": "'large'"})
	r.exec(large) // 40 MB
	if e := r.claimOne("large"); !r.ack(e) {
		t.Error("not acknowledged")
	}
}
