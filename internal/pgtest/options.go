package pgtest

import (
	"maps"

	"github.com/jackc/pgx/v5/pgxpool"
)

type config struct {
	empty    bool
	settings map[string]string
	pool     func(*pgxpool.Config)
}

// An Option changes what New makes.
type Option func(*config)

// Empty leaves the schema out.
func Empty() Option { return func(c *config) { c.empty = true } }

// Setting gives the database a server setting that sessions can change, such
// as "timezone"; every session in it begins with that.
func Setting(name, value string) Option {
	return func(c *config) { c.settings[name] = value }
}

// Hostile gives the database the settings of an administrator with unusual
// taste, each of which breaks statements that lean on the defaults. A later
// Setting overrides one of them: pgx itself reads times in text form, as in its
// exec and simple protocol modes, only with "datestyle" ISO.
func Hostile() Option {
	return func(c *config) { maps.Copy(c.settings, hostile) }
}

var hostile = map[string]string{
	"timezone":                  "Australia/Adelaide", // half an hour off, daylight saving in January
	"datestyle":                 "SQL, DMY",
	"intervalstyle":             "sql_standard",
	"bytea_output":              "escape",
	"extra_float_digits":        "-15",
	"search_path":               "pg_temp",
	"array_nulls":               "off", // NULL in an array literal is the string
	"transform_null_equals":     "on",  // = NULL is IS NULL
	"plpgsql.variable_conflict": "use_variable",
}

// PoolConfig changes the pool's configuration before it opens.
func PoolConfig(change func(*pgxpool.Config)) Option {
	return func(c *config) { c.pool = change }
}
