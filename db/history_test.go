package db_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A record is one change of an event, written by a trigger in the transaction that made
// it. Records are numbered as the changes were made, so whatever a transaction could see
// when it changed something has a lower number.
type record struct {
	Seq       int64
	Op        string // INSERT, UPDATE, DELETE
	ID        uuid.UUID
	Aggregate uuid.UUID
	Type      string
	CreatedAt time.Time
	Status    string
	Token     string
	At        time.Time
	Until     time.Time // available_at: for what is being handled the end of the lease
	Claimer   string    // who, for claims
}

const historySchema = `
create table public.history (
	seq bigserial, op text, id uuid, aggregate uuid, type text, created_at timestamptz, status text, token text,
	at timestamptz, until timestamptz, claimer text);
create function public.record_change() returns trigger language plpgsql as $$
declare
	e public.outbox_events;
begin
	if tg_op = 'DELETE' then e := old; else e := new; end if;
	insert into public.history (op, id, aggregate, type, created_at, status, token, at, until, claimer) values (tg_op, e.id, e.aggregate_id, e.event_type, e.created_at,
		e.status, coalesce(e.metadata ->> 'claimToken', ''), clock_timestamp(), e.available_at, coalesce(current_setting('test.claimer', true), ''));
	return null;
end $$;
create trigger record_insert after insert or delete on public.outbox_events for each row execute function public.record_change();
create trigger record_update after update on public.outbox_events for each row
	when ((old.status, old.available_at, old.attempts) is distinct from (new.status, new.available_at, new.attempts)) execute function public.record_change();`

func (r *rail) history() []record {
	r.Helper()
	rows, err := r.sql.Query(r.Context(), `select * from public.history order by seq`)
	if err == nil {
		var all []record
		if all, err = pgx.CollectRows(rows, pgx.RowToStructByName[record]); err == nil {
			return all
		}
	}
	r.Fatal(err)
	return nil
}

// A consumer is what a claim asks for.
type consumer struct{ claimed, known []string }

// heeds tells whether older events of the type hold up this consumer's.
func (c consumer) heeds(kind string) bool {
	return slices.Contains(c.claimed, kind) || !slices.Contains(c.known, kind)
}

func (rec record) active() bool {
	return rec.Op != "DELETE" && (rec.Status == "pending" || rec.Status == "failed" || rec.Status == "processing")
}

func (rec record) leasedAt(at time.Time) bool {
	return rec.Status == "processing" && rec.Until.After(at)
}

func (rec record) olderThan(other record) bool {
	if !rec.CreatedAt.Equal(other.CreatedAt) {
		return rec.CreatedAt.Before(other.CreatedAt)
	}
	return slices.Compare(rec.ID[:], other.ID[:]) < 0
}

// replay goes through a history and tells where an event was claimed before or beside
// another of its aggregate against the contract. Aggregates for which skip is true are
// left out.
func replay(history []record, consumers map[string]consumer, skip func(uuid.UUID) bool) (wrong []string) {
	now := map[uuid.UUID]map[uuid.UUID]record{} // by aggregate: its active events as they stand, with their last claimer
	for _, rec := range history {
		if skip(rec.Aggregate) {
			continue
		}
		events := now[rec.Aggregate]
		if events == nil {
			events = map[uuid.UUID]record{}
			now[rec.Aggregate] = events
		}
		before := events[rec.ID]
		if rec.Op == "UPDATE" && rec.Status == "processing" && rec.Token != before.Token {
			wrong = append(wrong, judge(rec, events, consumers)...)
		} else {
			rec.Claimer = before.Claimer
		}
		if events[rec.ID] = rec; !rec.active() {
			delete(events, rec.ID)
		}
	}
	return wrong
}

// judge looks at one claim, given the active events of the aggregate just before it.
func judge(claim record, events map[uuid.UUID]record, consumers map[string]consumer) (wrong []string) {
	mine := consumers[claim.Claimer]
	for _, other := range events {
		switch {
		case other.ID == claim.ID:
			if other.leasedAt(claim.At) {
				wrong = append(wrong, fmt.Sprintf("%d: %s was claimed by %s under a running lease", claim.Seq, claim.ID, claim.Claimer))
			}
		case other.olderThan(claim) && mine.heeds(other.Type):
			wrong = append(wrong, fmt.Sprintf("%d: %s %s was claimed by %s before the older %s %s (%s since %d)",
				claim.Seq, claim.Type, claim.ID, claim.Claimer, other.Type, other.ID, other.Status, other.Seq))
		case other.leasedAt(claim.At) && !other.olderThan(claim) && consumers[other.Claimer].heeds(claim.Type):
			wrong = append(wrong, fmt.Sprintf("%d: %s %s was claimed by %s beside the younger %s %s, which %s handles since %d",
				claim.Seq, claim.Type, claim.ID, claim.Claimer, other.Type, other.ID, other.Claimer, other.Seq))
		}
	}
	return wrong
}

// The judge itself: one history without fault, and the faults it has to see.
func TestReplay(t *testing.T) {
	t.Parallel()
	consumers := map[string]consumer{"all": {claimed: []string{"a", "b"}}, "b": {claimed: []string{"b"}, known: []string{"a"}}}
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	id := func(n int) uuid.UUID { return uuid.UUID{15: byte(n)} }
	script := func(lines string) (all []record) {
		token := map[int]string{}
		for i, line := range strings.Split(lines, ";") {
			var n int
			var verb, kind, who string
			fmt.Sscan(line, &verb, &n, &kind, &who)
			rec := record{Seq: int64(i), Op: "UPDATE", ID: id(n), Type: kind, CreatedAt: at(n), At: at(1000 + i), Claimer: who}
			switch verb {
			case "insert":
				rec.Op, rec.Status = "INSERT", "pending"
			case "claim":
				token[n] = fmt.Sprint("token", i)
				rec.Status, rec.Until = "processing", at(5000)
			case "expire":
				rec.Status = "processing"
			case "delete":
				rec.Op = "DELETE"
			default:
				rec.Status = verb
			}
			rec.Token = token[n]
			all = append(all, rec)
		}
		return all
	}
	for lines, want := range map[string]int{
		"insert 1 a; insert 2 a; claim 1 a all; processed 1 a; claim 2 a all; processed 2 a": 0,
		"insert 1 a; insert 2 a; claim 2 a all":                                              1,
		"insert 1 a; insert 2 b; claim 2 b b; claim 1 a all":                                 0,
		"insert 1 a; insert 2 b; claim 1 a all; claim 2 b all":                               1,
		"insert 1 a; insert 2 b; claim 1 a all; delete 1 a; claim 2 b all":                   0,
		"insert 1 a; claim 1 a all; claim 1 a all":                                           1,
		"insert 1 a; claim 1 a all; expire 1 a; claim 1 a all":                               0,
		"insert 1 a; failed 1 a; insert 2 a; claim 2 a all":                                  1,
		"insert 1 a; discarded 1 a; insert 2 a; claim 2 a all; pending 1 a; claim 1 a all":   1,
		"insert 1 a; discarded 1 a; insert 2 b; claim 2 b b; pending 1 a; claim 1 a all":     0,
	} {
		if got := replay(script(lines), consumers, func(uuid.UUID) bool { return false }); len(got) != want {
			t.Errorf("%s: %q, want %d", lines, got, want)
		}
	}
}
