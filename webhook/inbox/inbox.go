package inbox

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/webhook"
)

// Pool is a *pgxpool.Pool, or a *pgx.Conn for a program that does one thing at a time.
type Pool interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Inbox takes in the deliveries of one source. It is safe for concurrent use if its pool is.
type Inbox struct {
	pool    Pool
	config  Config
	handler http.Handler
}

// New makes an Inbox. It fails with a [*ConfigError] that names what cannot be used.
func New(pool Pool, verifier *webhook.Verifier, config Config) (*Inbox, error) {
	config = config.withDefaults()
	switch {
	case isNil(pool):
		return nil, &ConfigError{Field: "pool", Rule: "must be set"}
	case verifier == nil:
		return nil, &ConfigError{Field: "verifier", Rule: "must be set"}
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	in := &Inbox{pool: pool, config: config}
	in.handler = verifier.Middleware(http.HandlerFunc(in.receive))
	return in, nil
}

// ServeHTTP verifies a delivery, records it and answers, as the package's description has it.
func (in *Inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) { in.handler.ServeHTTP(w, r) }

func (in *Inbox) receive(w http.ResponseWriter, r *http.Request) {
	d, _ := webhook.FromContext(r.Context())
	ctx, cancel := context.WithTimeout(r.Context(), in.config.Timeout)
	defer cancel()
	in.Answer(w, r, in.take(ctx, d))
}

// take drafts before it begins, so that what Draft refuses or ignores costs the database nothing.
func (in *Inbox) take(ctx context.Context, d webhook.Delivery) error {
	m, err := in.draft(ctx, d)
	if err != nil {
		return err
	}
	var receipt Receipt
	err = in.inTx(ctx, func(tx pgx.Tx) (err error) {
		receipt, err = in.record(ctx, tx, m)
		return err
	})
	if err == nil {
		in.logReceipt(ctx, m, receipt)
	}
	return err
}

// inTx asks for what the waiting in record needs, whatever the database's defaults are.
func (in *Inbox) inTx(ctx context.Context, f func(pgx.Tx) error) error {
	err := pgx.BeginTxFunc(ctx, in.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, f)
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return newError("transaction", err)
}

// pruneBatch bounds how many rows one transaction deletes.
const pruneBatch = 1000

// Prune forgets the messages of the source that were received longer than Config.Retention ago, by the database's clock,
// oldest first and in transactions of at most 1000, and returns how many. Several instances may prune at the same time.
// The error is an [*Error]; what was forgotten until then stays so.
func (in *Inbox) Prune(ctx context.Context) (forgotten int, err error) {
	params := db.WebhookInboxPruneParams{
		Source: in.config.Source, KeepSeconds: in.config.Retention.Seconds(), AtMost: pruneBatch,
	}
	for batch := int32(pruneBatch); batch == pruneBatch; forgotten += int(batch) {
		err := in.inTx(ctx, func(tx pgx.Tx) (err error) {
			batch, err = db.New(tx).WebhookInboxPrune(ctx, params)
			return err
		})
		if err != nil {
			return forgotten, err
		}
	}
	return forgotten, nil
}
