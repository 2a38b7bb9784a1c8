package outbox

import (
	"context"
	"time"

	"github.com/openlup/pgrail/internal/db"
)

// rail is what the loop asks of the database. Its answers for a batch come in the order of the batch.
type rail interface {
	// claim hands out due events, oldest first.
	claim(ctx context.Context, ask ask, known []string, lease time.Duration) ([]Claimed, error)
	// anyReady reports whether an event of the types is due and filed as free to go, be it blocked or locked in truth.
	anyReady(ctx context.Context, types []string) (bool, error)
	markProcessed(ctx context.Context, batch []verdict) (outcomes []string, err error)
	markFailed(ctx context.Context, batch []verdict) (outcomes []string, err error)
	release(ctx context.Context, batch []verdict, delay time.Duration) error
	// extend returns the tokens that still hold their event.
	extend(ctx context.Context, events []Claimed, lease time.Duration) (kept map[string]bool, err error)
	// recover gives back what this loop holds without knowing it, and returns how much that was.
	recover(ctx context.Context, types, known []string) (int32, error)
	// fallAsleep asks producers for a NOTIFY and reports whether nobody had asked before.
	fallAsleep(ctx context.Context) (bool, error)
	// stayAwake spares producers the NOTIFY.
	stayAwake(ctx context.Context) error
	// notifySelf sends a notification that only its own listener understands.
	notifySelf(ctx context.Context, probe string) error
	// heal checks a portion of the rail's marks and returns how many it set right.
	heal(ctx context.Context) (int32, error)
	presenceRail
	pruneRail
}

// presenceRail is the part about who is alive.
type presenceRail interface {
	// appear ties this worker to a session: when the session ends, others can see that the worker may be dead.
	appear(ctx context.Context, session db.DBTX, types []string) error
	// heartbeat is false for a worker that has not appeared, or has been declared dead since.
	heartbeat(ctx context.Context) (alive bool, err error)
	disappear(ctx context.Context) error
	// takeOver gives the events of workers back that were silent for so long and whose session has ended.
	takeOver(ctx context.Context, silent time.Duration) (int32, error)
	anySuspect(ctx context.Context, types []string) (bool, error)
}

// callTimeout bounds a call to a server that no longer answers. What it cuts off is safe to repeat.
const callTimeout = 30 * time.Second
