package migrate

import (
	"database/sql"
	"strings"

	"github.com/amacneil/dbmate/v2/pkg/dbutil"

	"github.com/openlup/pgrail/catalogue"
)

// The table tells what each file was when it was applied. It is the same one
// whatever the table of versions is, as the names of the files are pgrail's own.
const (
	hashTable    = "public.pgrail_schema_migrations_hashes"
	createHashes = `CREATE TABLE IF NOT EXISTS ` + hashTable + ` (file text PRIMARY KEY, sha256 text NOT NULL)`
	selectHashes = `SELECT h.file, h.sha256 FROM public.pgrail_schema_migrations_hashes AS h`
	deleteHash   = `DELETE FROM public.pgrail_schema_migrations_hashes AS h WHERE h.file = $1::text`
	// A row may be there already: whoever rolls back by dbmate's program leaves it.
	upsertHash = `INSERT INTO public.pgrail_schema_migrations_hashes AS h (file, sha256) VALUES ($1::text, $2::text)
		ON CONFLICT (file) DO UPDATE SET sha256 = excluded.sha256`
)

// CreateMigrationsTable is what dbmate begins with, up or down: the moment to
// refuse a database whose applied files have been edited since.
func (d driver) CreateMigrationsTable(conn *sql.DB) error {
	err := unlessThere(conn, d.table, func() error { return d.Driver.CreateMigrationsTable(conn) })
	if err != nil {
		return err
	}
	err = unlessThere(conn, hashTable, func() error { _, err := conn.Exec(createHashes); return err })
	if err != nil {
		return err
	}
	versions, err := d.SelectMigrations(conn, -1)
	if err != nil {
		return err
	}
	recorded, err := readHashes(conn)
	if err != nil {
		return err
	}
	return checkApplied(conn, versions, recorded)
}

// unlessThere creates a table only when it is missing: IF NOT EXISTS asks for the right to create even then, which an
// application's role need not have where nothing is to be done.
func unlessThere(conn *sql.DB, table string, create func() error) error {
	var there bool
	err := conn.QueryRow(`SELECT pg_catalog.to_regclass($1::text) IS NOT NULL`, table).Scan(&there)
	if err != nil || there {
		return err
	}
	return create()
}

// checkApplied adopts files that came without a record, by dbmate's program or
// by a pgrail from before there were records: they count as what they are now.
func checkApplied(conn *sql.DB, versions map[string]bool, recorded map[string]string) error {
	applied := map[string]string{}
	var unrecorded []catalogue.Migration
	for _, m := range catalogue.Chain() {
		hash, known := recorded[m.File]
		switch {
		case !versions[version(m)]:
		case known:
			applied[m.File] = hash
		default:
			unrecorded = append(unrecorded, m)
		}
	}
	if err := catalogue.CheckApplied(applied); err != nil {
		return err
	}
	for _, m := range unrecorded {
		if _, err := conn.Exec(upsertHash, m.File, m.SHA256); err != nil {
			return err
		}
	}
	return nil
}

func readHashes(conn *sql.DB) (map[string]string, error) {
	rows, err := conn.Query(selectHashes)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	recorded := map[string]string{}
	for rows.Next() {
		var file, hash string
		if err := rows.Scan(&file, &hash); err != nil {
			return nil, err
		}
		recorded[file] = hash
	}
	return recorded, rows.Err()
}

// InsertMigration runs in the transaction of the file, as DeleteMigration does:
// a version and its hash come and go together.
func (d driver) InsertMigration(tx dbutil.Transaction, v string) error {
	if err := d.Driver.InsertMigration(tx, v); err != nil {
		return err
	}
	m, known := released(v)
	if !known {
		return nil
	}
	_, err := tx.Exec(upsertHash, m.File, m.SHA256)
	return err
}

func (d driver) DeleteMigration(tx dbutil.Transaction, v string) error {
	if err := d.Driver.DeleteMigration(tx, v); err != nil {
		return err
	}
	m, _ := released(v)
	_, err := tx.Exec(deleteHash, m.File)
	return err
}

// released finds the file with a version. Files of tests are in no release.
func released(v string) (m catalogue.Migration, known bool) {
	for _, m := range catalogue.Chain() {
		if version(m) == v {
			return m, true
		}
	}
	return m, false
}

// version is the part of a file's name that dbmate tells files apart by.
func version(m catalogue.Migration) string {
	v, _, _ := strings.Cut(m.File, "_")
	return v
}
