package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// A step of the protocol, and what a child of its name does: it dies there.
type step string

// The steps of the matrix.
const (
	enqueue step = "enqueue"
	claim   step = "claim"   // the claim has committed, no handler has begun
	start   step = "start"   // the handler has begun
	handler step = "handler" // a transactional one: its effect is written, not committed
	ack     step = "ack"     // the handler has returned, the acknowledgement has not been sent
	extend  step = "extend"
	release step = "release"
	redrive step = "redrive"
	prune   step = "prune"
)

// What else children do.
const (
	never step = ""
	heir  step = "heir"  // handles every kind
	acked step = "acked" // dies when the acknowledgement has committed, and has not learnt of it
	// watching handles nothing that these tests write: it only sees others die.
	watching step = "watching"
)

// A phase is a step in the terms of the database.
type phase struct {
	step step
	// at is the function of the rail that the step calls, or the statement that ends its transaction.
	at string
	// call is the function where at is the end of a transaction.
	call string
	// had and has say what is so before the step and after it.
	had, has string
	// done tells the latter by the events e and by their copy b from before the step.
	done string
}

var phases = []phase{
	{enqueue, "commit", "outbox_enqueue", "nothing written", "all written", `exists (select from public.outbox_events)`},
	{claim, "outbox_claim_events", "", "free", "held, no handler begun", changed(`e.status = 'processing' and e.attempts = b.attempts + 1`)},
	{start, "", "", "held, handler running", "held, handler running", unchanged},
	{handler, "commit", "outbox_mark_processed", "held, no effect", "processed, with its effect",
		changed(`e.status = 'processed' and exists (select from public.effects)`)},
	{ack, "outbox_mark_processed_many", "", "held, handled", "processed", changed(`e.status = 'processed'`)},
	{extend, "outbox_extend_leases", "", "held, its lease as it was", "held, its lease longer", changed(`e.available_at > b.available_at`)},
	{release, "outbox_release_unprocessed", "", "held, handler interrupted", "free, attempt refunded",
		changed(`e.status = 'pending' and e.attempts = b.attempts - 1`)},
	{redrive, "commit", "outbox_redrive", "discarded", "free", changed(`e.status = 'pending'`)},
	{prune, "commit", "outbox_prune", "there", "gone", `not exists (select from public.outbox_events)`},
}

func changed(how string) string {
	return `exists (select from public.outbox_events e join public.before b using (id) where ` + how + `)`
}

// unchanged compares with the copy from before the step.
const unchanged = `((select coalesce(jsonb_agg(e order by e.id), '[]') from public.outbox_events e)
	= (select coalesce(jsonb_agg(b order by b.id), '[]') from public.before b))`

func phaseOf(s step) phase {
	for _, p := range phases {
		if p.step == s {
			return p
		}
	}
	panic("no phase " + s)
}

// Event types: one for each child that dies while it handles, so that each gets its own.
var (
	happened = event.MustDefine[load]("happened")
	unused   = event.MustDefine[load]("unused")
	kinds    = kindsOf(claim, start, handler, ack, acked, extend, release)
)

func kindsOf(steps ...step) map[step]event.Definition[load] {
	kinds := map[step]event.Definition[load]{}
	for _, s := range steps {
		kinds[s] = event.MustDefine[load]("dies at " + string(s))
	}
	return kinds
}

// A caller's step is one call of an application's or an operator's.
type call struct {
	// prepare writes what the call is about.
	prepare func(*rig) event.Draft
	// do is the call. Its answer is first where nobody had called before, and second after that.
	do            func(ctx context.Context, tx outbox.DB, about event.Draft) (answer string, err error)
	first, second string
}

var calls = map[step]call{
	enqueue: {
		prepare: func(*rig) event.Draft { return draft(1, load{Seq: 1}) },
		do: func(ctx context.Context, tx outbox.DB, about event.Draft) (string, error) {
			receipts, err := outbox.Enqueue(ctx, tx, about)
			if err != nil {
				return "", err
			}
			return fmt.Sprint("duplicate ", receipts[0].Duplicate), nil
		},
		first: "duplicate false", second: "duplicate true",
	},
	redrive: {
		prepare: func(r *rig) event.Draft { return r.ended("discarded") },
		do: func(ctx context.Context, tx outbox.DB, _ event.Draft) (string, error) {
			ids, err := eventIDs(ctx, tx)
			if err != nil {
				return "", err
			}
			outcomes, err := outbox.Redrive(ctx, tx, "operator", "the receiver is mended", ids...)
			if err != nil {
				return "", err
			}
			return string(outcomes[ids[0]]), nil
		},
		first: "redriven", second: "not_discarded",
	},
	prune: {
		prepare: func(r *rig) event.Draft { return r.ended("processed") },
		do: func(ctx context.Context, tx outbox.DB, _ event.Draft) (string, error) {
			n, err := outbox.Prune(ctx, tx, time.Nanosecond, 0, 10)
			return fmt.Sprint(n, " deleted"), err
		},
		first: "1 deleted", second: "0 deleted",
	},
}

// ended leaves an event in a state of rest.
func (r *rig) ended(status string) event.Draft {
	r.Helper()
	about := draft(1, load{Seq: 1})
	r.enqueue(about)
	end := map[string]string{
		"processed": `select public.outbox_mark_processed(c.id, c.metadata ->> 'claimToken') from public.outbox_claim_batch(array['happened']) c`,
		"discarded": `select public.outbox_mark_failed(c.id, c.metadata ->> 'claimToken', 'no', 'discard') from public.outbox_claim_batch(array['happened']) c`,
	}[status]
	r.exec(end)
	r.until(`(select status = $1::text from public.outbox_events)`, status)
	return about
}

func eventIDs(ctx context.Context, tx outbox.DB) ([]uuid.UUID, error) {
	rows, err := tx.Query(ctx, `select id from public.outbox_events order by id`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}
