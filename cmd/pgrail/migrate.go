package main

import (
	"errors"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/catalogue"
	"github.com/openlup/pgrail/db"
	"github.com/openlup/pgrail/internal/operate"
	"github.com/openlup/pgrail/migrate"
)

type migrateCmd struct {
	Table tableName `default:"${migrations_table}" help:"Where the applied migrations are recorded, as schema.table."`

	Up     migrateUpCmd     `cmd:"" help:"Apply what the database has not got yet."`
	Status migrateStatusCmd `cmd:"" help:"List the migrations, and which are applied."`
	Verify migrateVerifyCmd `cmd:"" help:"Compare the schema with the released one: migrations, functions, indexes, triggers."`
}

type (
	migrateUpCmd     struct{}
	migrateStatusCmd struct{}
	migrateVerifyCmd struct{}
)

type migrated struct {
	Applied []string `json:"applied"`
}

type migrationStatus struct {
	Version string `json:"version"`
	File    string `json:"file"`
	Applied bool   `json:"applied"`
}

func (migrateUpCmd) Run(a *app, m *migrateCmd) error {
	if _, err := a.config(); err != nil {
		return err
	}
	done := migrated{Applied: []string{}}
	files := slog.New(&fileHandler{a: a, done: &done})
	err := migrate.Up(a.ctx, a.database, migrate.WithTable(string(m.Table)), migrate.WithLogger(files))
	var failed *migrate.Error
	if errors.As(err, &failed) && failed.SQLState == "42501" && failed.Op != "connect" {
		return fail(exitForbidden, "the role may not make what is missing, or not look: %s\nConnect as the owner of the schema; for the first time, as a role with CREATE on schema public.", failed)
	}
	if err != nil {
		return err
	}
	return a.print(done, func(t *table) {
		if len(done.Applied) == 0 {
			t.line("The schema is up to date.")
			return
		}
		t.line("%d migrations applied", len(done.Applied))
	})
}

func (migrateStatusCmd) Run(a *app, m *migrateCmd) error {
	return a.withConn(func(conn *pgx.Conn) error {
		schema, applied, err := m.read(a, conn)
		if err != nil {
			return err
		}
		there := map[string]bool{}
		for _, version := range applied {
			there[version] = true
		}
		all := []migrationStatus{}
		for _, f := range catalogue.Chain() {
			version, _, _ := strings.Cut(f.File, "_")
			all = append(all, migrationStatus{version, f.File, there[version]})
		}
		for _, version := range schema.Unknown(applied) {
			all = append(all, migrationStatus{version, "", true})
		}
		return a.print(all, func(t *table) { showMigrations(all, t) })
	})
}

func showMigrations(all []migrationStatus, t *table) {
	t.row("VERSION", "FILE", "STATE")
	for _, m := range all {
		state := "pending"
		switch {
		case m.File == "":
			state = "applied by a newer pgrail"
		case m.Applied:
			state = "applied"
		}
		t.row(m.Version, orDash(m.File != "", m.File), state)
	}
}

func (migrateVerifyCmd) Run(a *app, m *migrateCmd) error {
	// The command's own files first: else a tampered build would find the database in order.
	if err := catalogue.Check(db.Migrations); err != nil {
		return err
	}
	return a.withConn(func(conn *pgx.Conn) error {
		e, err := m.examination(a, conn)
		if err != nil {
			return err
		}
		e.Only = []string{"schema", "functions", "indexes", "triggers"}
		return examine(a, e)
	})
}

// examination holds what the files make, and which of them the database has.
func (m migrateCmd) examination(a *app, conn *pgx.Conn) (e operate.Examination, err error) {
	e.Conn = conn
	if e.Schema, e.Applied, err = m.read(a, conn); err != nil {
		return e, err
	}
	recorded := map[string]string{}
	var file, hash string
	rows, err := conn.Query(a.ctx, "SELECT file, sha256 FROM public.pgrail_schema_migrations_hashes")
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&file, &hash}, func() error { recorded[file] = hash; return nil })
	}
	e.Drift = catalogue.CheckApplied(recorded)
	return e, noTable(err)
}

// read returns what the files make and which of them the database has.
func (m migrateCmd) read(a *app, conn *pgx.Conn) (operate.Schema, []string, error) {
	schema, err := operate.ReadSchema(db.Migrations)
	if err != nil {
		return schema, nil, err
	}
	rows, err := conn.Query(a.ctx, "SELECT version FROM "+string(m.Table)+" ORDER BY version")
	if err != nil {
		return schema, nil, noTable(err)
	}
	applied, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return schema, applied, noTable(err)
}

// noTable takes a missing table for an empty one: nothing is applied.
func noTable(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42P01" {
		return nil
	}
	return err
}
