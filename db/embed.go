// Package db carries pgrail's database schema as dbmate migration files.
//
// Most applications never import it: package migrate applies the files. An
// application that runs dbmate itself gives it this file system:
//
//	m := dbmate.New(databaseURL)
//	m.FS = db.Migrations
//	m.MigrationsDir = []string{"."}
//	m.MigrationsTableName = migrate.DefaultTable
//	m.AutoDumpSchema = false
package db

import (
	"embed"
	"io/fs"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations holds the schema's files, NNNN_name.sql, at its root. The set only
// grows: a file that has been released is never edited, renamed or removed.
var Migrations fs.FS = mustSub(files, "migrations")

// mustSub panics on a bad directory name only, and the name is a constant.
func mustSub(fsys fs.FS, dir string) fs.FS {
	sub, err := fs.Sub(fsys, dir)
	if err != nil {
		panic(err)
	}
	return sub
}
