package pgidentity_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/identitytest"
)

// sessions are pools that answer alike although nothing about them is alike: case I9.
var sessions = map[string]func(*pgxpool.Config){
	"read committed": isolation("read committed"),
	"repeatable read, simple protocol": func(c *pgxpool.Config) {
		isolation("repeatable read")(c)
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	},
	"serializable, exec, read-only by default, strange settings": func(c *pgxpool.Config) {
		isolation("serializable")(c)
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		for name, value := range map[string]string{"default_transaction_read_only": "on", "search_path": "pg_temp",
			"timezone": "Australia/Adelaide", "bytea_output": "escape", "transform_null_equals": "on", "array_nulls": "off"} {
			c.ConnConfig.RuntimeParams[name] = value
		}
	},
}

func TestConformance(t *testing.T) {
	for name, session := range sessions {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t, session)
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
