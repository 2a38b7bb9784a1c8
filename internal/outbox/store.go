package outbox

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/db"
)

// store is the rail in SQL.
type store struct {
	pool   *pgxpool.Pool
	q      *db.Queries
	holder uuid.UUID
	policy Policy
	// claimed is set with the first claim; a worker that appears only then has to say so.
	claimed atomic.Bool
}

func newStore(pool *pgxpool.Pool, policy Policy) *store {
	return &store{pool: pool, q: db.New(sessions{pool}), holder: uuid.New(), policy: policy}
}

// heard looks at every error that the loop gets to see. A server that has become read-only answers on its connections as
// if nothing had happened, while the one that takes writes is found only by connecting anew.
func (s *store) heard(err error) error {
	if SQLState(err) == "25006" {
		s.pool.Reset()
	}
	return err
}

// claimLimit is the highest number of attempts after which a claim discards. The worker's own limit counts only for what its own
// handler fails on: others may give an event more tries, and a claim must not discard unheard what is theirs.
const claimLimit = 20

func (s *store) claim(ctx context.Context, ask ask, known []string, lease time.Duration) ([]Claimed, error) {
	s.claimed.Store(true)
	rows, err := s.q.OutboxClaim(ctx, db.OutboxClaimParams{
		EventTypes:        ask.types,
		KnownEventTypes:   known,
		BatchSize:         int32(ask.limit),
		VisibilitySeconds: seconds(lease),
		MaxAttempts:       claimLimit,
		Holder:            s.holder,
		Suspects:          &ask.suspects,
		Since:             ask.since,
	})
	if err != nil {
		return nil, s.heard(err)
	}
	claimed := make([]Claimed, 0, len(rows))
	for _, row := range rows {
		claimed = append(claimed, toClaimed(row))
	}
	slices.SortFunc(claimed, older)
	return claimed, nil
}

func (s *store) anyReady(ctx context.Context, types []string) (bool, error) {
	ready, err := s.q.OutboxAnyReady(ctx, db.OutboxAnyReadyParams{EventTypes: types})
	return ready, s.heard(err)
}

// older is the order of an aggregate's events, in which a claim hands out those of different ones too.
func older(a, b Claimed) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
}

func (s *store) markProcessed(ctx context.Context, batch []verdict) ([]string, error) {
	ids, tokens := keys(batch)
	outcomes, err := s.q.OutboxMarkProcessedMany(ctx, db.OutboxMarkProcessedManyParams{EventIds: ids, ClaimTokens: tokens})
	return outcomes, s.heard(err)
}

func (s *store) markFailed(ctx context.Context, batch []verdict) ([]string, error) {
	params := db.OutboxMarkFailedManyParams{
		BaseDelaySeconds: seconds(s.policy.BaseDelay),
		MaxDelaySeconds:  seconds(s.policy.MaxDelay),
		MaxAttempts:      int32(s.policy.MaxAttempts),
		SnoozeSeconds:    seconds(s.policy.Snooze),
		MaxSnoozes:       int32(s.policy.MaxSnoozes),
	}
	params.EventIds, params.ClaimTokens = keys(batch)
	for _, v := range batch {
		params.Errors = append(params.Errors, v.result.Error)
		params.Outcomes = append(params.Outcomes, string(v.result.Outcome))
		params.Reasons = append(params.Reasons, v.result.Reason)
		params.DelaysSeconds = append(params.DelaysSeconds, delaySeconds(v.result.Delay))
	}
	rows, err := s.q.OutboxMarkFailedMany(ctx, params)
	outcomes := make([]string, 0, len(rows))
	for _, row := range rows {
		outcomes = append(outcomes, row.Outcome)
	}
	return outcomes, s.heard(err)
}

func (s *store) release(ctx context.Context, batch []verdict, delay time.Duration) error {
	ids, tokens := keys(batch)
	_, err := s.q.OutboxReleaseUnprocessed(ctx, db.OutboxReleaseUnprocessedParams{
		EventIds: ids, ClaimTokens: tokens, DelaySeconds: seconds(max(delay, 0)),
	})
	return s.heard(err)
}

func (s *store) extend(ctx context.Context, events []Claimed, lease time.Duration) (map[string]bool, error) {
	params := db.OutboxExtendLeasesParams{VisibilitySeconds: seconds(lease)}
	tokens := make(map[uuid.UUID]string, len(events))
	for _, event := range events {
		tokens[event.ID] = event.Token
		params.EventIds, params.ClaimTokens = append(params.EventIds, event.ID.String()), append(params.ClaimTokens, event.Token)
	}
	ids, err := s.q.OutboxExtendLeases(ctx, params)
	kept := make(map[string]bool, len(ids))
	for _, id := range ids {
		kept[tokens[id]] = true
	}
	return kept, s.heard(err)
}

func keys(batch []verdict) (ids, tokens []string) {
	ids, tokens = make([]string, 0, len(batch)), make([]string, 0, len(batch))
	for _, v := range batch {
		ids, tokens = append(ids, v.event.ID.String()), append(tokens, v.event.Token)
	}
	return ids, tokens
}

// seconds rounds up: a lease or delay is never shorter than asked for.
func seconds(d time.Duration) int32 {
	whole := d / time.Second
	if d%time.Second > 0 {
		whole++
	}
	return int32(min(whole, math.MaxInt32))
}

func delaySeconds(d time.Duration) int32 {
	if d < 0 {
		return -1
	}
	return seconds(d)
}
