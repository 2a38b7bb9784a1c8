package operate

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/internal/db"
)

// Move is one step of an event, as it was noticed.
type Move struct {
	ID            uuid.UUID
	AggregateType string
	AggregateID   uuid.UUID
	EventType     string
	// What is enqueued, claimed, processed, failed, discarded, released, reopened or deleted.
	What     string
	Attempts int
	// DueIn is for failed ones: when it is tried again.
	DueIn time.Duration
	// Detail is the error of a failure or the reason of a discard.
	Detail string
}

// Follower notices what moves by looking again and again. It sees every event enqueued or moved since it began, and of
// what happens to one event between two looks only the last.
type Follower struct {
	q     *db.Queries
	known map[uuid.UUID]db.OperateFollowedRow
	// since is when the first look was; zero before.
	since time.Time
	// Full is set when more is going on than is followed.
	Full bool
}

const (
	// perLook bounds how many rows of each kind one look reads.
	perLook = 200
	// followed bounds how many events are looked at again.
	followed = 10000
	// overlap covers what was stamped a while before it was committed.
	overlap = 5 * time.Second
)

// NewFollower follows the events of a database.
func NewFollower(q *db.Queries) *Follower {
	return &Follower{q: q, known: map[uuid.UUID]db.OperateFollowedRow{}}
}

// Look returns what moved since the last one; the first one returns nothing.
func (f *Follower) Look(ctx context.Context) ([]Move, error) {
	again, err := f.q.OperateFollowed(ctx, db.OperateFollowedParams{EventIds: f.ids()})
	if err != nil {
		return nil, err
	}
	recent, err := f.q.OperateRecent(ctx, db.OperateRecentParams{SinceSeconds: overlap.Seconds(), AtMost: perLook})
	if err != nil {
		return nil, err
	}
	moves := f.deleted(again)
	for _, row := range recent {
		again = append(again, db.OperateFollowedRow(row))
	}
	f.Full = len(f.known) >= followed
	for _, row := range again {
		if move, moved := f.note(row); moved {
			moves = append(moves, move)
		}
	}
	f.forget(recent)
	if f.since.IsZero() {
		f.since, moves = time.Now(), nil
	}
	return moves, nil
}

func (f *Follower) ids() []string {
	ids := make([]string, 0, len(f.known))
	for id := range f.known {
		ids = append(ids, id.String())
	}
	slices.Sort(ids)
	return ids
}

// deleted reports what is known and was not found again.
func (f *Follower) deleted(found []db.OperateFollowedRow) (moves []Move) {
	there := make(map[uuid.UUID]bool, len(found))
	for _, row := range found {
		there[row.ID] = true
	}
	for id, row := range f.known {
		if !there[id] {
			delete(f.known, id)
			moves = append(moves, toMove(row, "deleted"))
		}
	}
	return moves
}

// note remembers how an event stands now, and tells what it did if it stood elsewhere before.
func (f *Follower) note(row db.OperateFollowedRow) (Move, bool) {
	before, known := f.known[row.ID]
	if !known && len(f.known) >= followed {
		return Move{}, false
	}
	f.known[row.ID] = row
	if known && before.Status == row.Status && before.ClaimToken == row.ClaimToken || !known && f.merelyInView(row) {
		return Move{}, false
	}
	return toMove(row, step(before.Status, row.Status)), true
}

// merelyInView tells an event that has waited all along, and came into view because those ahead of it have gone.
func (f *Follower) merelyInView(row db.OperateFollowedRow) bool {
	old := row.AgeSeconds > (time.Since(f.since) + overlap).Seconds()
	return old && (row.Status == "pending" || row.Status == "failed")
}

// step names the move from one status to another; the first is empty for an event not seen before.
func step(from, to string) string {
	switch to {
	case "processing":
		return "claimed"
	case "pending":
		switch from {
		case "":
			return "enqueued"
		case "processing":
			return "released"
		}
		return "reopened"
	}
	return to
}

// forget lets go of what has come to rest and would not turn up again by itself.
func (f *Follower) forget(recent []db.OperateRecentRow) {
	still := make(map[uuid.UUID]bool, len(recent))
	for _, row := range recent {
		still[row.ID] = true
	}
	for id, row := range f.known {
		if (row.Status == "processed" || row.Status == "discarded") && !still[id] {
			delete(f.known, id)
		}
	}
}

func toMove(row db.OperateFollowedRow, what string) Move {
	m := Move{
		ID: row.ID, AggregateType: row.AggregateType, AggregateID: row.AggregateID, EventType: row.EventType,
		What: what, Attempts: int(row.Attempts),
	}
	switch what {
	case "failed":
		m.Detail, m.DueIn = row.Error, time.Duration(row.DueInSeconds*float64(time.Second))
	case "discarded":
		m.Detail = row.DiscardReason
	}
	return m
}
