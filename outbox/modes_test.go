package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// Case D7, the part without a pooler: everything this package asks of the database, in each of pgx's five modes, on a
// database with an administrator of unusual taste; only what pgx itself reads in text form is left to the defaults.
func TestD7_EveryQueryInEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, pgtest.Hostile(), pgtest.Setting("datestyle", "ISO, DMY"), pgtest.Setting("extra_float_digits", "1"),
				pgtest.PoolConfig(func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }))
			r.allOutcomes()
			r.operateAll()
		})
	}
}

// allOutcomes takes one event through each outcome, in the life of one worker.
func (r *rig) allOutcomes() {
	r.Helper()
	r.check(outbox.SetPolicy(r.Context(), r.db.Pool, outbox.Policy{EventType: "b", MaxAttempts: 3, MaxSnoozes: 7, OnDiscard: outbox.Halt}))
	r.exec(`create table public.effects (n integer)`)
	var h outbox.Handlers
	outbox.Handle(&h, typeA, func(_ context.Context, e event.Event[payload]) error {
		return []error{nil, errors.New("it's \\ \"bad\""), event.Snooze(time.Hour, nil), event.Discard(errors.New("no")), event.RetryAfter(2*time.Hour, nil), event.Snooze(time.Hour, nil)}[e.Payload.N]
	})
	outbox.HandleTx(&h, typeB, func(ctx context.Context, tx pgx.Tx, e event.Event[payload]) error {
		if _, err := tx.Exec(ctx, `insert into public.effects values ($1)`, e.Payload.N); err != nil {
			return err
		}
		if e.Payload.N == 11 {
			return event.Discard(errors.New("halt"))
		}
		return nil
	})
	r.enqueue(draft(typeA, 5))
	r.exec(`update public.outbox_events set metadata = '{"snoozeCount": 1000}'`)
	w := r.work(&h, outbox.Config{OtherConsumers: []string{"foreign"}, PollInterval: 20 * time.Millisecond})
	r.enqueue(draft(typeA, 0), draft(typeA, 1), draft(typeA, 2), draft(typeA, 3), draft(typeA, 4), draft(typeB, 10), draft(typeB, 11), draft(typeB, 11))
	r.until(`(select string_agg(payload ->> 'n' || ' ' || status, ', ' order by (payload ->> 'n')::integer, created_at) from public.outbox_events)
		= '0 processed, 1 failed, 2 failed, 3 discarded, 4 failed, 5 discarded, 10 processed, 11 discarded, 11 pending'`)
	r.check(w.stop(r.TB))
	r.exec(`delete from public.outbox_events where metadata ->> 'discardReason' = 'max_snoozes'`)
	if got := value[string](r, `select string_agg(n::text, ',') from public.effects`); got != "10" {
		r.Errorf("effects %s, want those of 10 alone", got)
	}
	if got := value[string](r, `select error from public.outbox_events where payload ->> 'n' = '1'`); got != `it's \ "bad"` {
		r.Errorf("the error is stored as %q", got)
	}
	for n, want := range map[int]time.Duration{2: time.Hour, 4: 2 * time.Hour} {
		due := value[float64](r, `select date_part('epoch', available_at - clock_timestamp()) from public.outbox_events where payload ->> 'n' = $1::text`, []string{2: "2", 4: "4"}[n])
		if got := time.Duration(due * float64(time.Second)); got > want || got < want-time.Minute {
			r.Errorf("%d is due in %v, want %v", n, got, want)
		}
	}
}

// operateAll calls each of the operator's functions on what allOutcomes leaves.
func (r *rig) operateAll() {
	r.Helper()
	ctx, db := r.Context(), outbox.DB(r.db.Pool)
	stats, err := outbox.Stats(ctx, db, 10)
	r.check(err)
	if len(stats) != 2 || stats[0].Later != 3 || stats[0].Discarded != 1 || stats[1].Discarded != 1 {
		r.Errorf("stats %+v", stats)
	}
	halted, err := outbox.Halted(ctx, db, 10)
	r.check(err)
	if len(halted) != 1 || halted[0].AggregateID != agg(11) || halted[0].Reason != "permanent_error" || halted[0].HaltedAt.Location() != time.UTC ||
		time.Since(halted[0].HaltedAt).Abs() > time.Hour {
		r.Errorf("halted %+v", halted)
	}
	waiting, err := outbox.ExplainAggregate(ctx, db, "order", agg(11))
	r.check(err)
	if waiting.Reason != outbox.ReasonHalted {
		r.Errorf("the aggregate is %s", waiting.Reason)
	}
	failed, err := outbox.ExplainAggregate(ctx, db, "order", agg(1))
	r.check(err)
	if failed.Reason != outbox.ReasonNotDue || failed.Attempts != 1 || failed.DueIn < 20*time.Second || failed.ClaimedAt == "" {
		r.Errorf("the failed one is %+v", failed)
	}
	ids, err := outbox.Discarded(ctx, db, 10, "a", "b")
	r.check(err)
	outcomes, err := outbox.Redrive(ctx, db, "o'hara", `why \ not`, ids...)
	r.check(err)
	if len(ids) != 2 || outcomes[ids[0]] != outbox.Redriven || outcomes[ids[1]] != outbox.Redriven {
		r.Errorf("redriven %v: %v", ids, outcomes)
	}
	resumed, err := outbox.Resume(ctx, db, "order", agg(11))
	r.check(err)
	if resumed {
		r.Error("redriving what halted the aggregate had not resumed it")
	}
	pruned, err := outbox.Prune(ctx, db, 0, time.Hour, 10)
	r.check(err)
	if pruned != 2 {
		r.Errorf("%d pruned, want the two processed ones", pruned)
	}
}

func (r *rig) check(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}
