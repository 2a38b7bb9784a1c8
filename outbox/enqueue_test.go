package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

func TestEnqueueOnPoolConnectionAndTransaction(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conn := r.db.Connect(t)
	acquired, err := r.db.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer acquired.Release()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, on := range []outbox.DB{r.db.Pool, acquired, tx, tx} {
		receipts, err := outbox.Enqueue(t.Context(), on, draft(typeA, i))
		if err != nil || len(receipts) != 1 || receipts[0].Duplicate || !receipts[0].SamePayload {
			t.Errorf("%T: %+v, %v", on, receipts, err)
		}
	}
	if got := value[int](r, `select count(*) from public.outbox_events`); got != 2 {
		t.Errorf("%d events before the transaction ends, want 2", got)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := value[int](r, `select count(*) from public.outbox_events where status = 'pending'`); got != 4 {
		t.Errorf("%d events, want 4", got)
	}
}

func TestRollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	broken := errors.New("business rule")
	err := pgx.BeginFunc(t.Context(), r.db.Pool, func(tx pgx.Tx) error {
		if _, err := outbox.Enqueue(t.Context(), tx, draft(typeA, 1), draft(typeB, 2)); err != nil {
			return err
		}
		return broken
	})
	if got := value[int](r, `select count(*) from public.outbox_events`); err != broken || got != 0 {
		t.Errorf("%d events after a rollback (%v)", got, err)
	}
}

func TestEnqueueWritesWhatWasDrafted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if receipts, err := outbox.Enqueue(t.Context(), r.db.Pool); err != nil || len(receipts) != 0 {
		t.Errorf("no drafts: %v, %v", receipts, err)
	}
	id := r.enqueue(typeA.New("order", agg(7), "the key", payload{42}).WithMetadata("tenant", "x").WithDelay(90 * time.Second))[0]
	var got struct {
		EventType, Key, AggregateType, Payload, Metadata, Status, Lane string
		AggregateID                                                    uuid.UUID
		Attempts                                                       int
		Delay                                                          float64
	}
	err := r.db.Pool.QueryRow(t.Context(), `select event_type, idempotency_key, aggregate_type, payload::text, metadata::text, status, lane,
		aggregate_id, attempts, date_part('epoch', available_at - created_at) from public.outbox_events where id = $1`, id).
		Scan(&got.EventType, &got.Key, &got.AggregateType, &got.Payload, &got.Metadata, &got.Status, &got.Lane, &got.AggregateID, &got.Attempts, &got.Delay)
	if err != nil {
		t.Fatal(err)
	}
	if got.Delay < 89 || got.Delay > 91 {
		t.Errorf("due %v s after it was written, want 90", got.Delay)
	}
	got.Delay = 0
	want := got
	want.EventType, want.Key, want.AggregateType, want.Payload, want.Metadata = "a", "the key", "order", `{"n": 42}`, `{"tenant": "x"}`
	want.Status, want.Lane, want.AggregateID, want.Attempts = "pending", "timed", agg(7), 0
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Events of one aggregate stand in the order of the drafts, whatever their types and keys, and stamps never meet.
func TestEnqueueKeepsTheOrderOfDrafts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var drafts []event.Draft
	for i := range 400 {
		drafts = append(drafts, []event.Definition[payload]{typeA, typeB}[i%2].New("order", agg(rand.IntN(5)), fmt.Sprint(rand.Uint64()), payload{i}))
	}
	r.enqueue(drafts[:399]...)
	r.enqueue(drafts[399])
	ordered := value[[]int](r, `select array_agg((payload->>'n')::integer order by created_at, id) from public.outbox_events`)
	if !slices.IsSorted(ordered) || len(ordered) != 400 {
		t.Errorf("%d events, in the order %v", len(ordered), ordered)
	}
	if got := value[int](r, `select count(distinct created_at) from public.outbox_events`); got != 400 {
		t.Errorf("%d stamps for 400 events", got)
	}
}

// Case D3.
func TestD3_DuplicateLeavesTheTransactionAlive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := func(of event.Definition[payload], key string, n int) event.Draft {
		return of.New("order", agg(1), key, payload{n})
	}
	first := r.enqueue(key(typeA, "k1", 1))[0]
	spelled := key(typeA, "k1", 1)
	spelled.Payload = json.RawMessage(` { "n" : 1.0e0 } `)
	var receipts []outbox.Receipt
	err := pgx.BeginFunc(t.Context(), r.db.Pool, func(tx pgx.Tx) (err error) {
		receipts, err = outbox.Enqueue(t.Context(), tx,
			key(typeA, "k1", 1), key(typeA, "k1", 2), spelled, key(typeB, "k1", 3), key(typeA, "k2", 4), key(typeA, "k2", 4), key(typeA, "k2", 5))
		if err == nil {
			_, err = tx.Exec(t.Context(), `create table proof_of_life (x integer)`)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		ID              int
		Duplicate, Same bool
	}
	ids := map[uuid.UUID]int{first: 1}
	var got []answer
	for _, receipt := range receipts {
		if ids[receipt.ID] == 0 {
			ids[receipt.ID] = len(ids) + 1
		}
		got = append(got, answer{ids[receipt.ID], receipt.Duplicate, receipt.SamePayload})
	}
	want := []answer{{1, true, true}, {1, true, false}, {1, true, true}, {2, false, true}, {3, false, true}, {3, true, true}, {3, true, false}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := value[int](r, `select count(*) from public.outbox_events`); got != 3 {
		t.Errorf("%d events, want 3", got)
	}
	r.exec(`drop table proof_of_life`)
}

// Case D2, and O9 as far as one call goes: the same keys and the same aggregates in opposite orders, at once.
func TestD2_OppositeOrdersDoNotDeadlock(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for round := range 25 {
				var drafts []event.Draft
				for i := range 20 {
					drafts = append(drafts, typeA.New("order", agg(i), fmt.Sprintf("%d-%d", round, i), payload{i}))
				}
				if w%2 == 1 {
					slices.Reverse(drafts)
				}
				if _, err := outbox.Enqueue(context.Background(), r.db.Pool, drafts...); err != nil {
					r.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	writers.Wait()
	if got := value[int](r, `select count(*) from public.outbox_events`); got != 25*20 {
		t.Errorf("%d events, want %d", got, 25*20)
	}
}

// Case O9: a call of many aggregates is one statement, and takes no more of the server's lock table than a small one.
func TestO9_ManyAggregatesTakeFewLocks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	locks := func(n int) (count int) {
		var drafts []event.Draft
		for i := range n {
			drafts = append(drafts, typeA.New("order", uuid.New(), fmt.Sprintf("%d of %d", i, n), payload{i}))
		}
		err := pgx.BeginFunc(t.Context(), r.db.Pool, func(tx pgx.Tx) error {
			if receipts, err := outbox.Enqueue(t.Context(), tx, drafts...); err != nil || len(receipts) != n {
				return fmt.Errorf("%d receipts: %w", len(receipts), err)
			}
			return tx.QueryRow(t.Context(), `select count(*) from pg_locks where pid = pg_backend_pid()`).Scan(&count)
		})
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
	if few, many := locks(2), locks(12_000); many > few+2 {
		t.Errorf("%d locks for 2 aggregates, %d for 12,000", few, many)
	}
}

// deaf refuses to be asked anything.
type deaf struct{ asked int }

func (d *deaf) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	d.asked++
	return pgconn.CommandTag{}, errors.New("asked")
}
func (d *deaf) Query(context.Context, string, ...any) (pgx.Rows, error) {
	d.asked++
	return nil, errors.New("asked")
}
func (d *deaf) QueryRow(context.Context, string, ...any) pgx.Row { d.asked++; return d }
func (d *deaf) Scan(...any) error                                { return errors.New("asked") }

// Case D5, the Go side: the field and the draft are named, and nothing is sent.
func TestD5_WrongDraftsAreNotSent(t *testing.T) {
	t.Parallel()
	db := &deaf{}
	for field, wrong := range map[string]event.Draft{
		"EventType":      {},
		"IdempotencyKey": typeA.New("order", agg(1), strings.Repeat("k", 6400), payload{}),
		"AggregateType":  typeA.New("\x00", agg(1), "k", payload{}),
		"Payload":        {EventType: "a", IdempotencyKey: "k", AggregateType: "order", Payload: json.RawMessage(`"\u0000"`)},
		"Metadata":       draft(typeA, 1).WithMetadata("claimToken", "x"),
		"Delay":          draft(typeA, 1).WithDelay(-time.Second),
	} {
		receipts, err := outbox.Enqueue(t.Context(), db, draft(typeA, 1), wrong)
		var invalid *event.InvalidError
		if !errors.As(err, &invalid) || !errors.Is(err, outbox.ErrInvalid) || invalid.Field != field || receipts != nil {
			t.Errorf("%s: %v, %v", field, receipts, err)
		}
		if err != nil && !strings.Contains(err.Error(), "draft 1") {
			t.Errorf("%s: %v does not name the draft", field, err)
		}
	}
	large := typeA.New("order", agg(1), "k", payload{})
	large.Payload = json.RawMessage(`"` + strings.Repeat("x", event.MaxPayloadBytes-2) + `"`)
	_, err := outbox.Enqueue(t.Context(), db, slices.Repeat([]event.Draft{large}, 257)...)
	requireConfigError(t, err, "drafts")
	_, err = outbox.Enqueue(t.Context(), nil, draft(typeA, 1))
	requireConfigError(t, errors.Unwrap(err), "tx")
	if db.asked != 0 {
		t.Errorf("%d statements were sent", db.asked)
	}
}
