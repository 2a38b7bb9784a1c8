package outboxtest

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
)

func TestOurRailKeepsTheContract(t *testing.T) {
	TestRail(t, func(t *testing.T) *pgxpool.Pool {
		t.Parallel()
		return pgtest.New(t).Pool
	})
}

const claimHead = `create or replace function public.outbox_claim_batch(p_event_types text[], p_known_event_types text[] default '{}',
	p_batch_size integer default 25, p_visibility_seconds integer default 300, p_max_attempts integer default 8)
	returns setof public.outbox_events language sql as `

const failHead = `create or replace function public.outbox_mark_failed(p_event_id uuid, p_claim_token text, p_error text,
	p_outcome text default 'retry', p_base_delay_seconds integer default 60, p_max_delay_seconds integer default 3600,
	p_max_attempts integer default 8, p_snooze_seconds integer default 300) returns text language sql as `

const releaseHead = `create or replace function public.outbox_release_unprocessed(p_event_ids uuid[], p_claim_tokens text[],
	p_delay_seconds integer default 0) returns integer language sql as `

// faults are what stores can get wrong, as statements that break ours.
var faults = []string{
	claimHead + `$$ select * from public.outbox_events where false $$`,
	claimHead + `$$ select * from public.outbox_events where event_type = any (p_event_types) $$`,
	`create or replace function public.outbox_mark_processed(p_event_id uuid, p_claim_token text, p_metadata jsonb default '{}')
		returns boolean language sql as $$ select true $$`,
	failHead + `$$ select 'failed'::text $$`,
	releaseHead + `$$ select 0 $$`,
	releaseHead + `$$ update public.outbox_events set status = 'pending' where id = any (p_event_ids); select 1 $$`,
	`do $$ declare c record; begin
		for c in select conrelid::regclass as t, conname from pg_constraint where connamespace = 'public'::regnamespace
			and conrelid in ('public.outbox_events'::regclass, 'public.outbox_dormant_event_types'::regclass) and contype in ('c', 'u')
		loop execute format('alter table %s drop constraint %I', c.t, c.conname); end loop; end $$`,
	`alter table public.outbox_events alter status set default 'failed'`,
}

// TestEveryRuleIsBrokenBySomeStore spoils a store bit by bit until the rule notices. A rule that never does would let anything
// pass.
func TestEveryRuleIsBrokenBySomeStore(t *testing.T) {
	for _, r := range contract() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			for _, fault := range faults {
				if _, err := db.Pool.Exec(t.Context(), fault); err != nil {
					t.Fatal(err)
				}
				if r.broken(t.Context(), db.Pool) != nil {
					return
				}
				if _, err := db.Pool.Exec(t.Context(), `delete from public.outbox_events; delete from public.outbox_dormant_event_types`); err != nil {
					t.Fatal(err)
				}
			}
			t.Error("no fault breaks this rule")
		})
	}
}
