package db_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	internaldb "github.com/openlup/pgrail/internal/db"
)

// A node is a part of a plan as EXPLAIN (ANALYZE, FORMAT JSON) tells it.
type node struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Plans    []node  `json:"Plans"`
}

func (n node) walk(visit func(node)) {
	visit(n)
	for _, p := range n.Plans {
		p.walk(visit)
	}
}

// A planReader is a session that hears how each statement was executed, those inside
// functions too.
type planReader struct {
	*session
	plans []node
}

const autoExplain = `load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_nested_statements = on;
	set auto_explain.log_analyze = on; set auto_explain.log_timing = off; set auto_explain.log_format = 'json';
	set auto_explain.log_level = 'notice'; set client_min_messages = 'notice'`

func (r *rail) planReader() *planReader {
	r.Helper()
	p := &planReader{}
	config, err := pgx.ParseConfig(r.db.URL)
	if err != nil {
		r.Fatal(err)
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if _, text, ok := strings.Cut(n.Message, "plan:\n"); ok {
			var explained struct{ Plan node }
			if err := json.Unmarshal([]byte(text), &explained); err != nil {
				r.Errorf("%v in %s", err, text)
			}
			p.plans = append(p.plans, explained.Plan)
		}
	}
	conn, err := pgx.ConnectConfig(context.Background(), config)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = conn.Close(context.Background()) })
	p.session = &session{&rail{r.TB, r.db, conn}, conn}
	p.exec(autoExplain)
	return p
}

// A figure is what a call cost: the indexes of outbox_events in its plans ("tid" for
// access by place), tables read from end to end, the rows of outbox_events that one node
// read at most, and the most that was sorted.
type figure struct {
	indexes, sequential []string
	read, sorted        float64
}

// plansOf runs the statement and sums up its plans.
func (p *planReader) plansOf(sql string, args ...any) figure {
	p.Helper()
	p.plans = nil
	p.exec(sql, args...)
	return p.sum()
}

func (p *planReader) sum() (f figure) {
	indexes := map[string]bool{}
	for _, plan := range p.plans {
		plan.walk(func(n node) {
			switch {
			case n.Type == "Seq Scan" && n.Loops > 0 && strings.HasPrefix(n.Relation, "outbox_") && !small[n.Relation]:
				f.sequential = append(f.sequential, n.Relation)
			case n.Type == "Tid Scan":
				indexes["tid"] = true
			case strings.Contains(n.Type, "Sort"):
				f.sorted = max(f.sorted, n.Rows*n.Loops)
			case strings.HasPrefix(n.Index, "outbox_events_"):
				indexes[strings.TrimSuffix(strings.TrimPrefix(n.Index, "outbox_events_"), "_idx")] = true
				f.read = max(f.read, (n.Rows+n.Filtered)*n.Loops)
			}
		})
	}
	f.indexes = slices.Sorted(maps.Keys(indexes))
	return f
}

// small tables may be read whole.
var small = map[string]bool{"outbox_rail": true, "outbox_dormant_event_types": true, "outbox_event_policies": true, "outbox_halted_aggregates": true, "outbox_workers": true, "outbox_stamp_seq": true}

// backlog fills the rail with n rows of all kinds of waiting and of history, and 500
// fresh ones of four types.
func (r *rail) backlog(n int) {
	r.Helper()
	insert := func(count int, kind, aggregate, status, due, lane, blockedBy string, waited bool) {
		r.exec(fmt.Sprintf(`insert into public.outbox_events (created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload, status, lane, blocked_by, waited)
			select clock_timestamp() - interval '1 day' + i * interval '1 ms', clock_timestamp() + interval '%s', 'order', md5(%s)::uuid, %s, gen_random_uuid(), '{}', '%s', %s, %s, %v
			from generate_series(1, $1::integer) i`, due, aggregate, kind, status, lane, blockedBy, waited), count)
	}
	fifth := n / 5
	mine := `chr(97 + i % 4)`
	if n > 0 {
		insert(1, `'a'`, `'hot'`, "failed", "1 hour", "'timed'", "null", true)
		insert(1, `'u'`, `'foreign'`, "pending", "-1 second", "'ready'", "null", true)
	}
	insert(fifth, `'a'`, `'hot'`, "pending", "-1 second", "'queued'", "null", false)
	insert(fifth, mine, `'later' || i`, "failed", "1 hour", "'timed'", "null", false)
	insert(fifth, `'u'`, `'rare' || i`, "pending", "-1 second", "'ready'", "null", true)
	insert(fifth, mine, `'rare' || i`, "pending", "-1 second", "'barred'", "'u'", false)
	insert(fifth, mine, `'past' || i`, "processed", "-1 second", "null", "null", false)
	insert(500, mine, `'fresh' || i`, "pending", "-1 second", "'ready'", "null", false)
	r.exec(`insert into public.outbox_events (id, created_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload, status)
		values (md5('given up')::uuid, '2001-01-01', 'order', md5('hot')::uuid, 'a', 'given up', '{}', 'discarded')`)
	r.sound()
}

const (
	claimHundred = `create temp table got as select * from public.outbox_claim_events(array['a', 'b', 'c', 'd'], array['k'], 100, 300, 8)`
	claimed      = `array(select id from got), array(select metadata ->> 'claimToken' from got)`
)

// plannedCalls are calls of the hot path, one after the other, with the indexes that each
// has to use at every size, and those that it may use where there is something to do.
var plannedCalls = []struct{ name, sql, must, may string }{
	{"claim", claimHundred, "barred exhausted heads queued ready suspect timed tid", "pkey"},
	{"extend", `select count(*) from public.outbox_extend_leases(` + claimed + `)`, "heads pkey", ""},
	{"acknowledge", `select count(*) from public.outbox_mark_processed_many(` + claimed + `)`, "pkey", "heads queued"},
	{"claim for retry", `drop table got; ` + claimHundred, "barred exhausted heads queued ready suspect timed tid", "pkey"},
	{"retry", `select count(*) from public.outbox_mark_failed_many(` + claimed + `, array_fill(''::text, array[100]), array_fill('retry'::text, array[100]))`, "pkey", "heads queued"},
	{"claim_batch", `drop table got; create temp table got as select * from public.outbox_claim_batch(array['a', 'b'], p_batch_size => 100)`,
		"barred exhausted heads queued ready suspect timed tid", "pkey"},
	{"release", `select public.outbox_release_unprocessed(` + claimed + `)`, "pkey", ""},
	{"enqueue", `select count(*) from public.outbox_enqueue(array_fill('a'::text, array[100]), array(select gen_random_uuid()::text from generate_series(1, 100)),
		array_fill('order'::text, array[100]), array(select gen_random_uuid() from generate_series(1, 100)), array_fill('{}'::text, array[100]))`, "", ""},
	{"plain insert", `insert into ` + plainColumns + ` select 'order', md5('hot')::uuid, 'a', gen_random_uuid(), '{}' from generate_series(1, 20)`, "heads queued", "pkey"},
	{"claim that parks", `select count(*) from public.outbox_claim_batch(array['a', 'b', 'c', 'd'], p_batch_size => 100)`, "barred exhausted heads queued ready suspect timed tid", "pkey"},
	{"unblock", `select public.outbox_unblock(array['order'], array[md5('hot')::uuid], array['a'])`, "heads pkey queued", ""},
	{"redrive", `select public.outbox_redrive(array[md5('given up')::uuid], 'me', 'test')`, "heads pkey", "queued"},
	{"explain", `select count(*) from public.outbox_explain(md5('given up')::uuid)`, "pkey", "heads queued"},
	{"explain aggregate", `select count(*) from public.outbox_explain_aggregate('order', md5('hot')::uuid)`, "heads pkey queued", ""},
	{"stats", `select count(*) from public.outbox_stats(100)`, "barred discarded queued ready suspect timed", ""},
	{"overview", `select count(*) from public.outbox_overview(100)`, "barred discarded processed queued ready suspect timed", ""},
	{"blocked aggregates", `select count(*) from public.outbox_blocked_aggregates(60, 20)`, "barred discarded heads pkey queued ready suspect timed", ""},
	{"recent", `select count(*) from public.outbox_recent(5, 100)`, "barred discarded pkey processed ready suspect timed", "queued"},
	{"heal", `select public.outbox_heal(50)`, "barred heads misfiled pkey queued", ""},
	{"prune", `select public.outbox_prune(0, 100)`, "processed tid", ""},
}

// stale are statistics that say the table is empty, or was full when it is not any more.
var staleStatistics = map[string]func(*rail){
	"statistics of an empty table": func(r *rail) {
		r.exec(`analyze`)
		r.backlog(30000)
	},
	"statistics of a full table": func(r *rail) {
		r.backlog(30000)
		r.exec(`analyze`)
		r.unseen(`delete from public.outbox_events`)
		r.backlog(0)
	},
	"statistics of an idle table": func(r *rail) {
		r.backlog(1000)
		r.exec(`update public.outbox_events set status = 'processed', lane = null, blocked_by = null`)
		r.exec(`vacuum analyze`)
		r.exec(`delete from public.outbox_events`)
		r.backlog(30000)
	},
}

// The same shape where the statistics are of another time.
func TestPlansOfStaleStatistics(t *testing.T) {
	t.Parallel()
	for name, prepare := range staleStatistics {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRail(t)
			r.exec(`alter table public.outbox_events set (autovacuum_enabled = off)`)
			prepare(r)
			reader := r.planReader()
			for _, c := range plannedCalls {
				checkFigure(t, c.name, reader.plansOf(c.sql), strings.Fields(c.must), strings.Fields(c.may))
			}
		})
	}
}

// The shape of the plans on the hot path, at three sizes, before and after ANALYZE: which
// indexes, nothing read from end to end, no backlog sorted or even read.
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1000, 100000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			r := newRail(t)
			r.exec(`alter table public.outbox_events set (autovacuum_enabled = off)`)
			r.backlog(size)
			for _, known := range []string{"before ANALYZE", "after ANALYZE"} {
				reader := r.planReader()
				for _, c := range plannedCalls {
					checkFigure(t, known+", "+c.name, reader.plansOf(c.sql), strings.Fields(c.must), strings.Fields(c.may))
				}
				r.exec(`update public.outbox_events set status = 'discarded' where id = md5('given up')::uuid; analyze`)
			}
		})
	}
}

// What people look at by hand reads what is active or asked for, and never the history from end to end.
func TestPlansOfOperators(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`insert into ` + plainColumns + ` select 'order', md5('hot')::uuid, 'a', 'active ' || i, '{}' from generate_series(1, 20) i`)
	r.exec(`insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload, status)
		select 'order', md5('hot')::uuid, 'a', 'past ' || i, '{}', 'processed' from generate_series(1, 20000) i`)
	r.exec(`vacuum analyze`)
	first := value[uuid.UUID](r, `select id from public.outbox_events where idempotency_key = 'active 1'`)
	reader := r.planReader()
	q, ctx := internaldb.New(reader.conn), context.Background()
	kind, hour := "a", 3600.0
	for name, look := range map[string]func() error{
		"behind": func() error {
			behind, err := q.OperateBehind(ctx, internaldb.OperateBehindParams{EventID: first, AtMost: 30})
			if len(behind) != 19 {
				t.Errorf("%d stand behind, want 19", len(behind))
			}
			return err
		},
		"active": func() error {
			active, err := q.OperateActive(ctx, internaldb.OperateActiveParams{EventIds: []string{}, EventType: &kind, AtMost: 30})
			if len(active) != 20 {
				t.Errorf("%d are active, want 20", len(active))
			}
			return err
		},
		"prunable": func() error {
			_, err := q.OperatePrunable(ctx, internaldb.OperatePrunableParams{KeepSeconds: hour, KeepDiscardedSeconds: &hour, AtMost: 100})
			return err
		},
	} {
		reader.plans = nil
		if err := look(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if f := reader.sum(); f.sequential != nil || len(f.indexes) == 0 || f.read > 1000 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func checkFigure(t *testing.T, what string, got figure, must, may []string) {
	t.Helper()
	used := slices.DeleteFunc(slices.Clone(got.indexes), func(index string) bool { return slices.Contains(may, index) })
	slices.Sort(must)
	if diff := cmp.Diff(strings.Join(must, " "), strings.Join(used, " ")); diff != "" {
		t.Errorf("%s: indexes (-want +got):\n%s", what, diff)
	}
	if got.sequential != nil {
		t.Errorf("%s: reads %v from end to end", what, got.sequential)
	}
	most := 2000.0
	if strings.Contains(what, "explain") || strings.Contains(what, "blocked") {
		most = 10000 // they count up to that
	}
	if got.read > most || got.sorted > 1000 {
		t.Errorf("%s: read %v rows and sorted %v", what, got.read, got.sorted)
	}
}
