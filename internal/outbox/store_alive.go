package outbox

import (
	"context"
	"time"

	"github.com/openlup/pgrail/internal/db"
)

func (s *store) recover(ctx context.Context, types, known []string) (int32, error) {
	n, err := s.q.OutboxRecoverClaims(ctx, db.OutboxRecoverClaimsParams{
		Holder: s.holder, EventTypes: types, KnownEventIds: known,
	})
	return n, s.heard(err)
}

func (s *store) fallAsleep(ctx context.Context) (bool, error) {
	asked, err := s.q.OutboxFallAsleep(ctx)
	return asked, s.heard(err)
}

func (s *store) stayAwake(ctx context.Context) error { return s.heard(s.q.OutboxStayAwake(ctx)) }

func (s *store) notifySelf(ctx context.Context, probe string) error {
	return s.heard(s.q.OutboxNotifySelf(ctx, db.OutboxNotifySelfParams{Probe: probe}))
}

// healPortion is how many aggregates one look at the rail's marks covers.
const healPortion = 2000

func (s *store) heal(ctx context.Context) (int32, error) {
	n, err := s.q.OutboxHeal(ctx, db.OutboxHealParams{Portion: healPortion})
	return n, s.heard(err)
}

func (s *store) appear(ctx context.Context, session db.DBTX, types []string) error {
	_, err := db.New(session).OutboxAppear(ctx, db.OutboxAppearParams{Holder: s.holder, EventTypes: types, Claimed: s.claimed.Load()})
	return err
}

func (s *store) heartbeat(ctx context.Context) (alive bool, err error) {
	alive, err = s.q.OutboxHeartbeat(ctx, db.OutboxHeartbeatParams{Holder: s.holder})
	return alive, s.heard(err)
}

func (s *store) disappear(ctx context.Context) error {
	return s.q.OutboxDisappear(ctx, db.OutboxDisappearParams{Holder: s.holder})
}

func (s *store) takeOver(ctx context.Context, silent time.Duration) (int32, error) {
	n, err := s.q.OutboxTakeOver(ctx, db.OutboxTakeOverParams{SilentSeconds: silent.Seconds()})
	return n, s.heard(err)
}

func (s *store) anySuspect(ctx context.Context, types []string) (bool, error) {
	found, err := s.q.OutboxAnySuspect(ctx, db.OutboxAnySuspectParams{EventTypes: types})
	return found, s.heard(err)
}
