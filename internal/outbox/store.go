package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/db"
)

// store is the rail's SQL as the loop uses it, on connections of its own: handlers that use up the
// application's pool cannot keep the loop from acknowledging.
type store struct {
	pool   *pgxpool.Pool
	q      *db.Queries
	holder uuid.UUID
	policy Policy
}

// connections the loop needs at most: claim, settle, extend or heal.
const connections = 3

// sessionDefaults make a role's or database's own defaults irrelevant for the loop.
const sessionDefaults = `SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off;
SET statement_timeout = '60s'; SET lock_timeout = '20s'; SET application_name = 'pgrail worker'`

func openStore(ctx context.Context, config *pgxpool.Config, policy Policy) (*store, error) {
	config.MaxConns = connections
	config.MinConns, config.MinIdleConns = 0, 0
	inherited := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if inherited != nil {
			if err := inherited(ctx, conn); err != nil {
				return err
			}
		}
		_, err := conn.PgConn().Exec(ctx, sessionDefaults).ReadAll()
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("outbox: open the worker's connections: %w", err)
	}
	return &store{pool: pool, q: db.New(pool), holder: uuid.New(), policy: policy}, nil
}

// claim hands out events; suspects asks for those that must run alone, and for nothing else.
func (s *store) claim(ctx context.Context, types, known []string, limit int, lease time.Duration, suspects bool) ([]Claimed, error) {
	rows, err := s.q.OutboxClaim(ctx, db.OutboxClaimParams{
		EventTypes:        types,
		KnownEventTypes:   known,
		BatchSize:         int32(limit),
		VisibilitySeconds: seconds(lease),
		MaxAttempts:       int32(s.policy.MaxAttempts),
		Holder:            s.holder,
		Suspects:          &suspects,
	})
	if err != nil {
		return nil, err
	}
	claimed := make([]Claimed, 0, len(rows))
	for _, row := range rows {
		one, err := toClaimed(row)
		if err != nil {
			return nil, err
		}
		claimed = append(claimed, one)
	}
	return claimed, nil
}

func (s *store) markProcessed(ctx context.Context, ids, tokens []string) (lost []uuid.UUID, err error) {
	rows, err := s.q.OutboxMarkProcessedMany(ctx, db.OutboxMarkProcessedManyParams{EventIds: ids, ClaimTokens: tokens})
	for _, row := range rows {
		if row.Outcome == "lost" {
			lost = append(lost, row.EventID)
		}
	}
	return lost, err
}

// markFailed records failures and returns, per event, what became of it in the words of the protocol.
func (s *store) markFailed(ctx context.Context, batch []verdict) (map[uuid.UUID]string, error) {
	params := db.OutboxMarkFailedManyParams{
		BaseDelaySeconds: seconds(s.policy.BaseDelay),
		MaxDelaySeconds:  seconds(s.policy.MaxDelay),
		MaxAttempts:      int32(s.policy.MaxAttempts),
		SnoozeSeconds:    seconds(s.policy.Snooze),
	}
	params.EventIds, params.ClaimTokens = keys(batch)
	for _, v := range batch {
		params.Errors = append(params.Errors, cleanError(v.result.Error))
		params.Outcomes = append(params.Outcomes, string(v.result.Outcome))
		params.Reasons = append(params.Reasons, v.result.Reason)
		params.DelaysSeconds = append(params.DelaysSeconds, delaySeconds(v.result.Delay))
	}
	rows, err := s.q.OutboxMarkFailedMany(ctx, params)
	outcomes := make(map[uuid.UUID]string, len(rows))
	for _, row := range rows {
		outcomes[row.EventID] = row.Outcome
	}
	return outcomes, err
}

func (s *store) release(ctx context.Context, ids, tokens []string, delay time.Duration) error {
	_, err := s.q.OutboxReleaseUnprocessed(ctx, db.OutboxReleaseUnprocessedParams{
		EventIds: ids, ClaimTokens: tokens, DelaySeconds: seconds(max(delay, 0)),
	})
	return err
}

func (s *store) extend(ctx context.Context, ids, tokens []string, lease time.Duration) ([]uuid.UUID, error) {
	return s.q.OutboxExtendLeases(ctx, db.OutboxExtendLeasesParams{
		EventIds: ids, ClaimTokens: tokens, VisibilitySeconds: seconds(lease),
	})
}

func (s *store) recover(ctx context.Context, types, known []string) (int32, error) {
	return s.q.OutboxRecoverClaims(ctx, db.OutboxRecoverClaimsParams{
		Holder: s.holder, EventTypes: types, KnownEventIds: known,
	})
}

// fallAsleep asks producers for a NOTIFY and reports whether nobody had asked before.
func (s *store) fallAsleep(ctx context.Context) (bool, error) {
	n, err := s.q.OutboxFallAsleep(ctx)
	return n > 0, err
}

func (s *store) stayAwake(ctx context.Context) error { return s.q.OutboxStayAwake(ctx) }

func (s *store) notifySelf(ctx context.Context, probe string) error {
	return s.q.OutboxNotifySelf(ctx, db.OutboxNotifySelfParams{Probe: probe})
}

func (s *store) heal(ctx context.Context) (int32, error) {
	return s.q.OutboxHeal(ctx, db.OutboxHealParams{Portion: healPortion})
}

// appear ties this worker to a session: when the session ends, others can see that the worker may be dead.
func (s *store) appear(ctx context.Context, session db.DBTX, types []string) error {
	_, err := db.New(session).OutboxAppear(ctx, db.OutboxAppearParams{Holder: s.holder, EventTypes: types})
	return err
}

func (s *store) heartbeat(ctx context.Context) (alive bool, err error) {
	return s.q.OutboxHeartbeat(ctx, db.OutboxHeartbeatParams{Holder: s.holder})
}

func (s *store) disappear(ctx context.Context) error {
	return s.q.OutboxDisappear(ctx, db.OutboxDisappearParams{Holder: s.holder})
}

func (s *store) takeOver(ctx context.Context, silent time.Duration) (int32, error) {
	return s.q.OutboxTakeOver(ctx, db.OutboxTakeOverParams{SilentSeconds: silent.Seconds()})
}

func (s *store) anySuspect(ctx context.Context, types []string) (bool, error) {
	return s.q.OutboxAnySuspect(ctx, db.OutboxAnySuspectParams{EventTypes: types})
}

// healPortion is how many aggregates one look at the rail's marks covers.
const healPortion = 2000

// seconds rounds up: a lease or delay is never shorter than asked for.
func seconds(d time.Duration) int32 {
	return int32((d + time.Second - 1) / time.Second)
}

func delaySeconds(d time.Duration) int32 {
	if d < 0 {
		return -1
	}
	return seconds(d)
}
