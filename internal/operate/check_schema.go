package operate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openlup/pgrail/internal/db"
)

func problem(advice, format string, args ...any) Finding {
	return Finding{State: Problem, Text: fmt.Sprintf(format, args...), Advice: advice}
}

func warning(advice, format string, args ...any) Finding {
	return Finding{State: Warning, Text: fmt.Sprintf(format, args...), Advice: advice}
}

// Missing are the files' versions that the database has not got, Unknown those that it has beyond the files.
func (s Schema) Missing(applied []string) []string { return without(s.Versions, applied) }

// Unknown are versions that the files have not got: a newer pgrail was here.
func (s Schema) Unknown(applied []string) []string { return without(applied, s.Versions) }

func without(all, some []string) (rest []string) {
	for _, one := range all {
		if !slices.Contains(some, one) {
			rest = append(rest, one)
		}
	}
	return rest
}

func (e Examination) versions(context.Context, *db.Queries) (found []Finding, _ error) {
	if missing := e.Schema.Missing(e.Applied); len(missing) > 0 {
		found = append(found, problem("run: pgrail migrate up", "%d migrations are not applied, from %s on", len(missing), missing[0]))
	}
	if unknown := e.Schema.Unknown(e.Applied); len(unknown) > 0 {
		found = append(found, warning("use the command of the newer version", "has migrations of a newer pgrail: %s", strings.Join(unknown, ", ")))
	}
	if e.Drift != nil {
		found = append(found, problem("find out who edited it: a released file never changes", "%v", e.Drift))
	}
	return found, nil
}

// functions compares bodies, so that a function replaced by hand is not taken for the released one.
func (e Examination) functions(ctx context.Context, q *db.Queries) (found []Finding, _ error) {
	rows, err := q.DoctorFunctions(ctx)
	bodies := map[string]string{}
	for _, row := range rows {
		bodies[row.Name] = row.Body
	}
	for _, name := range slices.Sorted(maps.Keys(e.Schema.Functions)) {
		want := e.Schema.Functions[name]
		body, there := bodies[name]
		switch {
		case !there:
			found = append(found, problem("create it again from db/migrations/"+want.File, "%s is missing", name))
		case want.Body != "" && body != want.Body:
			found = append(found, problem("find out who replaced it, and create it again from db/migrations/"+want.File, "%s is not the released one", name))
		}
	}
	return found, err
}

func (e Examination) indexes(ctx context.Context, q *db.Queries) (found []Finding, _ error) {
	rows, err := q.DoctorIndexes(ctx)
	there := map[string]bool{}
	for _, row := range rows {
		there[row.Name] = true
		if _, ours := e.Schema.Indexes[row.Name]; ours && !row.Valid {
			found = append(found, problem("run in psql: REINDEX INDEX CONCURRENTLY public."+row.Name, "%s is not valid", row.Name))
		}
	}
	return append(found, absent(e.Schema.Indexes, there)...), err
}

func (e Examination) triggers(ctx context.Context, q *db.Queries) (found []Finding, _ error) {
	rows, err := q.DoctorTriggers(ctx)
	there := map[string]bool{}
	for _, row := range rows {
		there[row.Name] = true
		if _, ours := e.Schema.Triggers[row.Name]; ours && !row.Enabled {
			found = append(found, problem(
				fmt.Sprintf("run in psql: ALTER TABLE public.%s ENABLE TRIGGER %s; then run: pgrail doctor --deep", row.TableName, row.Name),
				"%s on %s is disabled", row.Name, row.TableName))
		}
	}
	return append(found, absent(e.Schema.Triggers, there)...), err
}

func absent(expected map[string]string, there map[string]bool) (found []Finding) {
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		if !there[name] {
			found = append(found, problem("create it again from db/migrations/"+expected[name], "%s is missing", name))
		}
	}
	return found
}
