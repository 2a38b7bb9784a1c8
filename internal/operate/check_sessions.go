package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/db"
)

const (
	// clockLead is how far the newest stamp may be ahead of the clock: a large batch is stamped a microsecond apiece.
	clockLead = time.Second
	// hearing is how long a notification may take to arrive.
	hearing = 3 * time.Second
)

func (e Examination) snapshots(ctx context.Context, q *db.Queries) ([]Finding, error) {
	rows, err := q.DoctorSnapshots(ctx, db.DoctorSnapshotsParams{OlderSeconds: e.Limits.Snapshot.Seconds()})
	if err != nil {
		return nil, err
	}
	found := snapshotFindings(rows)
	s, err := q.DoctorServer(ctx)
	if err == nil && !s.SeesSessions {
		found = append(found, warning("run in psql: GRANT pg_read_all_stats TO "+pgx.Identifier{s.RoleName}.Sanitize(), "this role sees no other role's sessions"))
	}
	return found, err
}

func snapshotFindings(rows []db.DoctorSnapshotsRow) (found []Finding) {
	for _, row := range rows {
		age := time.Duration(row.Seconds) * time.Second
		switch row.Kind {
		case "session":
			found = append(found, warning(fmt.Sprintf("end it if it may end: SELECT pg_terminate_backend(%s)", row.Name),
				"session %s (%s, role %q, application %q) has been in a transaction for %v", row.Name, row.State, row.RoleName, row.Application, age))
		case "prepared transaction":
			found = append(found, warning("COMMIT PREPARED or ROLLBACK PREPARED it", "prepared transaction %q is %v old", row.Name, age))
		case "replication slot":
			found = append(found, warning("start its consumer, or drop it with pg_drop_replication_slot", "replication slot %q is inactive and keeps dead rows", row.Name))
		}
	}
	return found
}

func (e Examination) clock(ctx context.Context, q *db.Queries) ([]Finding, error) {
	newest, err := q.DoctorStampLead(ctx)
	if err != nil || newest.Visible && newest.Seconds < clockLead.Seconds() {
		return nil, err
	}
	if !newest.Visible {
		return []Finding{mayNotLook}, nil
	}
	return []Finding{warning("find out who set the server's clock back; until it has caught up, plain INSERTs go ahead of events enqueued before them",
		"the newest event is stamped %v ahead of the server's clock", time.Duration(newest.Seconds*1000)*time.Millisecond)}, nil
}

// listen is deaf behind a pooler that hands out another session for each transaction.
func (e Examination) listen(ctx context.Context, q *db.Queries) ([]Finding, error) {
	conn, err := pgx.ConnectConfig(ctx, e.Config)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN pgrail_doctor"); err != nil {
		return nil, err
	}
	if _, err := e.Conn.Exec(ctx, "SELECT pg_catalog.pg_notify('pgrail_doctor', $1::text)", uuid.NewString()); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, hearing)
	defer cancel()
	_, err = conn.WaitForNotification(waiting)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return []Finding{warning("give workers a direct connection, or accept that they find new events by polling",
			"LISTEN hears nothing: is there a transaction pooler in between?")}, nil
	}
	return nil, err
}

func (e Examination) roles(ctx context.Context, q *db.Queries) (found []Finding, _ error) {
	functions, err := q.DoctorFunctions(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range functions {
		if _, ours := e.Schema.Functions[f.Name]; ours && f.Public {
			found = append(found, problem("run in psql: REVOKE EXECUTE ON FUNCTION public."+f.Name+" FROM PUBLIC", "everyone may call %s", f.Name))
		}
	}
	granted, err := q.OperateGrantees(ctx)
	for _, g := range granted {
		if g.Missing > 0 {
			found = append(found, problem(fmt.Sprintf("run: pgrail grant %s %s", g.Kind, g.RoleName), "role %s lacks rights of the kind %s, %d of them", g.RoleName, g.Kind, g.Missing))
		}
	}
	return found, err
}

func (e Examination) marks(ctx context.Context, q *db.Queries) (found []Finding, _ error) {
	rows, err := q.DoctorMarks(ctx)
	for _, row := range rows {
		found = append(found, warning("workers mend it within minutes; at once in psql: SELECT public.outbox_heal(100000)", "%s: %d", row.Problem, row.Events))
	}
	return found, err
}
