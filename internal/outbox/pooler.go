package outbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrPooler refuses a mode of pgx that relies on what a transaction pooler takes away.
var ErrPooler = errors.New("outbox: behind this pooler a session does not last from one transaction to the next, and with it a prepared statement: " +
	"set default_query_exec_mode to exec or simple_protocol for the application's pool")

// link is what stands between the worker and the server: nothing, or a pooler.
type link struct {
	// shared is set once sessions are known to be handed out anew for each transaction.
	shared atomic.Bool

	mu       sync.Mutex
	examined bool
	refusal  error
}

// pooledKey marks connections whose session is not ours to change.
const pooledKey = "pgrail pooled"

func pooled(conn *pgx.Conn) bool { return conn.PgConn().CustomData()[pooledKey] != nil }

// setUp gives a session its defaults if it is ours. A setting made through a pooler would outlive our use of the session and
// meet another client.
func (l *link) setUp(ctx context.Context, conn *pgx.Conn) error {
	pid, err := backend(ctx, conn.PgConn(), "")
	if err != nil {
		return err
	}
	// A pooler cannot pass the server's process id on, because a cancel request names it: it invents one.
	if pid == strconv.FormatUint(uint64(conn.PgConn().PID()), 10) {
		_, err := conn.PgConn().Exec(ctx, sessionDefaults).ReadAll()
		return err
	}
	conn.PgConn().CustomData()[pooledKey] = true
	return l.examine(ctx, conn.Config())
}

// examine finds out, once, what kind of pooler it is, and whether the mode can work there.
func (l *link) examine(ctx context.Context, config *pgx.ConnConfig) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.examined {
		return l.refusal
	}
	shared, forgets, err := probe(ctx, config)
	if err != nil {
		return err
	}
	l.examined = true
	l.shared.Store(shared)
	switch mode := config.DefaultQueryExecMode; mode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
	case pgx.QueryExecModeCacheStatement:
		// Some poolers of this kind move named statements along.
		l.refuse(forgets, mode)
	default:
		l.refuse(shared, mode)
	}
	return l.refusal
}

func (l *link) refuse(unfit bool, mode pgx.QueryExecMode) {
	if unfit {
		l.refusal = fmt.Errorf("%w (it is %s)", ErrPooler, mode)
	}
}

// ofOwn opens sessions that last, for LISTEN: on a session that goes to other clients next it would stay behind.
func (l *link) ofOwn(pool *pgxpool.Pool) func(context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		conn, err := connectLike(ctx, pool)
		if err == nil && l.shared.Load() {
			hangUp(ctx, conn)
			return nil, errDeaf
		}
		return conn, err
	}
}

const (
	// Another client can get in between, so that a round shows nothing.
	probeRounds = 5
	// probePatience is how long a session waits for one that it would have to share.
	probePatience = 3 * time.Second
)

// probe finds out whether two connections share the server's sessions, and whether a prepared statement is lost thereby:
// while the second is in a transaction on the session that the first has just used, the first has to get along with another.
func probe(ctx context.Context, config *pgx.ConnConfig) (shared, forgets bool, err error) {
	first, err := pgconn.ConnectConfig(ctx, &config.Config)
	if err != nil {
		return false, false, err
	}
	defer drop(ctx, first)
	second, err := pgconn.ConnectConfig(ctx, &config.Config)
	if err != nil {
		return false, false, err
	}
	defer drop(ctx, second)
	name := "pgrail_" + uuid.NewString()
	if _, err := first.Prepare(ctx, name, "select 1", nil); err != nil {
		return false, false, err
	}
	for range probeRounds {
		same, lost, err := probeOnce(ctx, first, second, name)
		if shared, forgets = shared || same, forgets || lost; err != nil || lost {
			return shared, forgets, err
		}
	}
	return shared, forgets, nil
}

func probeOnce(ctx context.Context, first, second *pgconn.PgConn, name string) (same, lost bool, err error) {
	mine, err := backend(ctx, first, "")
	if err != nil {
		return false, false, err
	}
	theirs, err := backend(ctx, second, "begin; ")
	if err != nil {
		return false, false, err
	}
	waiting, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	err = first.ExecPrepared(waiting, name, nil, nil, nil).Read().Err
	switch {
	case SQLState(err) == stateNoStatement, err != nil && waiting.Err() != nil && ctx.Err() == nil:
		return true, true, nil
	case err != nil:
		return false, false, err
	}
	_, err = second.Exec(ctx, "rollback").ReadAll()
	return mine == theirs, false, err
}

// backend returns the process id of the session on the server.
func backend(ctx context.Context, conn *pgconn.PgConn, before string) (string, error) {
	results, err := conn.Exec(ctx, before+"select pg_catalog.pg_backend_pid()").ReadAll()
	if err != nil {
		return "", err
	}
	return string(results[len(results)-1].Rows[0][0]), nil
}

func drop(ctx context.Context, conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCall)
	defer cancel()
	_ = conn.Close(ctx)
}
