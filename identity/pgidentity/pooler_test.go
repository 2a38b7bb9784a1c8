package pgidentity_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/identitytest"
	"github.com/openlup/pgrail/internal/pgtest/bouncer"
)

// TestConformanceThroughATransactionPooler: the store needs no session that lasts, in the modes of pgx that need none.
func TestConformanceThroughATransactionPooler(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			d := newDirectory(t, bouncer.Through(t, bouncer.Transaction), func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			identitytest.TestGateway(t, func(t *testing.T) identitytest.Fixture {
				d.empty(t)
				return identitytest.Fixture{
					Gateway:     d.Store,
					Invitations: d.Store,
					Add:         func(sort identitytest.Sort) identitytest.Account { return d.add(t, sort) },
					Disable:     func(id uuid.UUID) { d.disable(t, id) },
					Audit:       func() (int, int) { return d.audit(t) },
				}
			})
		})
	}
}
