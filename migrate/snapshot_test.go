package migrate_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/pgtest"
)

// catalog describes everything that a file can make or alter, one line for each
// object, in order. The table of versions is dbmate's and left out.
const catalog = `
WITH relation AS (
  SELECT c.* FROM pg_catalog.pg_class AS c
  WHERE c.relnamespace = 'public'::regnamespace AND c.relname NOT LIKE 'pgrail_schema_migrations%'
), line (text) AS (
  SELECT format('relation %s kind %s options %s acl %s', oid::regclass, relkind, reloptions,
                (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(coalesce(relacl,
                  acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner))) AS a))
  FROM relation
  UNION ALL
  SELECT format('column %s.%s type %s collation %s not null %s default %s', a.attrelid::regclass, a.attname,
                format_type(a.atttypid, a.atttypmod), a.attcollation::regcollation, a.attnotnull, pg_get_expr(d.adbin, d.adrelid))
  FROM relation AS r
  JOIN pg_catalog.pg_attribute AS a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  UNION ALL
  SELECT format('index %s', pg_get_indexdef(r.oid)) FROM relation AS r WHERE r.relkind = 'i'
  UNION ALL
  SELECT format('constraint %s on %s: %s', o.conname, o.conrelid::regclass, pg_get_constraintdef(o.oid))
  FROM pg_catalog.pg_constraint AS o JOIN relation AS r ON r.oid = o.conrelid
  UNION ALL
  SELECT format('trigger %s', pg_get_triggerdef(t.oid))
  FROM pg_catalog.pg_trigger AS t JOIN relation AS r ON r.oid = t.tgrelid WHERE NOT t.tgisinternal
  UNION ALL
  SELECT format('function %s acl %s', pg_get_functiondef(p.oid),
                (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(coalesce(p.proacl, acldefault('f', p.proowner))) AS a))
  FROM pg_catalog.pg_proc AS p WHERE p.pronamespace = 'public'::regnamespace AND p.prokind IN ('f', 'p')
  UNION ALL
  SELECT format('type %s kind %s', t.oid::regtype, t.typtype)
  FROM pg_catalog.pg_type AS t
  WHERE t.typnamespace = 'public'::regnamespace AND t.typname NOT LIKE '%pgrail_schema_migrations%'
  UNION ALL
  SELECT format('comment on %s: %s', pg_describe_object(d.classoid, d.objoid, d.objsubid), d.description)
  FROM pg_catalog.pg_description AS d
  WHERE (pg_identify_object(d.classoid, d.objoid, d.objsubid)).schema = 'public'
)
SELECT text FROM line ORDER BY text COLLATE "C"`

// plainly makes the catalog read the same in every database.
const plainly = `SET LOCAL search_path = pg_catalog; SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO';
	SET LOCAL intervalstyle = 'postgres'; SET LOCAL transform_null_equals = off; SET LOCAL extra_float_digits = 1`

func snapshot(t *testing.T, db *pgtest.DB) []string {
	t.Helper()
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), plainly); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), catalog)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}
