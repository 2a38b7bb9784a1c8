package operate_test

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/db"
	"github.com/openlup/pgrail/internal/operate"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestReadSchema(t *testing.T) {
	t.Parallel()
	got, err := operate.ReadSchema(fstest.MapFS{
		"0001_a.sql": file(`-- migrate:up
create table public.t (n integer);
create index t_old on public.t (n);
create unique index t_new on public.t (n);
create function public.f(a integer) returns integer
language sql as $$ select 1 $$;
create function public.plain() returns integer language sql
return 1;
create trigger tr before insert on public.t for each row execute function public.g();
create function public.gone() returns void language sql as $$ select $$;
-- migrate:down
drop index public.t_new;
create index t_down on public.t (n);
`),
		"0002_b.sql": file(`-- migrate:up
drop index public.t_old;
drop function public.gone();
create or replace function public.f(a integer) returns integer language sql as $$ select 2 $$;
-- migrate:down
`),
		"readme.txt": file("-- migrate:up\ncreate index other on public.t (n);"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := operate.Schema{
		Versions: []string{"0001", "0002"},
		Functions: map[string]operate.Function{
			"f": {File: "0002_b.sql", Body: " select 2 "}, "plain": {File: "0001_a.sql"},
		},
		Indexes:  map[string]string{"t_new": "0001_a.sql"},
		Triggers: map[string]string{"tr": "0001_a.sql"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is read from the shipped files is what they make, no less and no more.
func TestReadSchemaAgreesWithTheDatabase(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	schema, err := operate.ReadSchema(db.Migrations)
	if err != nil {
		t.Fatal(err)
	}
	for kind, c := range map[string]struct {
		names []string
		sql   string
	}{
		"functions": {keys(schema.Functions), `select proname::text from pg_proc where pronamespace = 'public'::regnamespace order by proname collate "C"`},
		"triggers":  {keys(schema.Triggers), `select tgname::text from pg_trigger where not tgisinternal order by tgname collate "C"`},
		"indexes": {keys(schema.Indexes), `select c.relname::text from pg_class c where c.relkind = 'i' and c.relnamespace = 'public'::regnamespace
			and not exists (select from pg_constraint k where k.conindid = c.oid) order by c.relname collate "C"`},
	} {
		if diff := cmp.Diff(column[string](b, c.sql), c.names); diff != "" {
			t.Errorf("%s (-in the database +in the files):\n%s", kind, diff)
		}
	}
}
