package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/db"
	"github.com/openlup/pgrail/migrate"
)

// pristine is the template of empty databases. Administrators may have put
// things into template1, which is the default.
const pristine = "template0"

// copyDatabase makes a database. Its name and the settings' come from tests, so
// they are quoted, as no parameters are allowed here.
func (s *shared) copyDatabase(ctx context.Context, template, name string, settings map[string]string) error {
	return s.admin(ctx, func(conn *pgx.Conn) error {
		strategy, err := copyStrategy(ctx, conn)
		if err != nil {
			return err
		}
		statements := []string{"CREATE DATABASE " + quote(name) + " TEMPLATE " + quote(template) + strategy}
		for setting, value := range settings {
			statements = append(statements, fmt.Sprintf("ALTER DATABASE %s SET %s = '%s'",
				quote(name), pgx.Identifier(strings.Split(setting, ".")).Sanitize(), strings.ReplaceAll(value, "'", "''")))
		}
		return exec(ctx, conn, statements...)
	})
}

// copyStrategy chooses to copy files where the server does not sync them: twice
// as fast there, and all that version 14 knows. The default, through the log,
// spares other servers two checkpoints.
func copyStrategy(ctx context.Context, conn *pgx.Conn) (strategy string, err error) {
	const ask = `SELECT CASE WHEN pg_catalog.current_setting('fsync') = 'off'
		AND pg_catalog.current_setting('server_version_num')::integer >= 150000 THEN ' STRATEGY FILE_COPY' ELSE '' END`
	err = conn.QueryRow(ctx, ask).Scan(&strategy)
	return strategy, err
}

// migratedTemplate returns the name of a database with the schema in it. The
// name carries a hash of the files, so a changed file means a new template.
func (s *shared) migratedTemplate(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.template != "" {
		return s.template, nil
	}
	name, err := templateName(db.Migrations)
	if err != nil {
		return "", err
	}
	if err := s.admin(ctx, func(conn *pgx.Conn) error { return s.ensure(ctx, conn, name) }); err != nil {
		return "", err
	}
	s.template = name
	return name, nil
}

func templateName(files fs.FS) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, migrate.DefaultTable)
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %d\n%s", name, len(text), text)
	}
	return "pgrail_template_" + hex.EncodeToString(hash.Sum(nil)[:8]), nil
}

// ensure makes the template unless it is there. Other test binaries on the same
// server wait at the lock, which ends with the session.
func (s *shared) ensure(ctx context.Context, conn *pgx.Conn, name string) error {
	key := fnv.New64a()
	key.Write([]byte(name))
	if _, err := conn.Exec(ctx, `SELECT pg_catalog.pg_advisory_lock($1::bigint)`, int64(key.Sum64())); err != nil {
		return err
	}
	// The mark is set last: without it the database is what a killed process left.
	var ready bool
	const ask = `SELECT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = $1::text AND datistemplate)`
	if err := conn.QueryRow(ctx, ask, name).Scan(&ready); err != nil || ready {
		return err
	}
	err := exec(ctx, conn, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)",
		"CREATE DATABASE "+quote(name)+" TEMPLATE "+pristine)
	if err != nil {
		return err
	}
	if err := migrate.Up(ctx, s.URL(name)); err != nil {
		return err
	}
	// A session in the template would keep others from copying it.
	return exec(ctx, conn, "ALTER DATABASE "+quote(name)+" IS_TEMPLATE true ALLOW_CONNECTIONS false")
}
