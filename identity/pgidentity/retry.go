package pgidentity

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/internal/db"
)

// ErrContention is matched by the error of a call that gave up because other transactions got in its way each time. It
// had no effect and may be made again.
var ErrContention = errors.New("pgidentity: other transactions got in the way each time")

const (
	maxAttempts = 16
	firstPause  = 2 * time.Millisecond
	maxPause    = 200 * time.Millisecond
)

// change runs one function of the database in a transaction of its own and answers its outcome as an error. The
// transaction commits whatever the outcome, for a refusal is recorded in it. It asks for read-write, because an
// administrator may have made read-only the default.
func (s *Store) change(ctx context.Context, call func(*db.Queries) (string, error)) error {
	var outcome string
	err := retry(ctx, func() error {
		return pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) (err error) {
			outcome, err = call(db.New(tx))
			return err
		})
	})
	if err != nil {
		return failure(err)
	}
	return refusal(outcome)
}

// retry repeats what the server ended for the sake of others, its commit included.
func retry(ctx context.Context, try func() error) error {
	for attempt := 1; ; attempt++ {
		err := try()
		state, contended := contention(err)
		switch {
		case !contended:
			return err
		case attempt == maxAttempts:
			return fmt.Errorf("%w: SQLSTATE %s, %d attempts", ErrContention, state, attempt)
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
}

// contention knows serialization_failure and deadlock_detected.
func contention(err error) (state string, ok bool) {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return "", false
	}
	return server.Code, slices.Contains([]string{"40001", "40P01"}, server.Code)
}

// pause waits longer each time and never as long as the others, so that they do not meet again.
func pause(ctx context.Context, attempt int) error {
	longest := min(firstPause<<attempt, maxPause)
	timer := time.NewTimer(rand.N(longest))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
