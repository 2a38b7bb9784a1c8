package db_test

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A session is a rail on a connection of its own, for tests of what happens when
// several work at once.
type session struct {
	*rail
	conn *pgx.Conn
}

func (r *rail) session() *session {
	r.Helper()
	conn := r.db.Connect(r.TB)
	return &session{&rail{r.TB, r.db, conn}, conn}
}

func (s *session) begin(isolation string) {
	s.Helper()
	s.exec(`begin isolation level ` + isolation)
}

func (s *session) commit() {
	s.Helper()
	s.exec(`commit`)
}

// A pending is a statement that runs in another goroutine.
type pending struct {
	s    *session
	done chan error
}

// start runs f, whose statements may have to wait for other sessions. Until the
// result has been taken the session must not be used otherwise.
func (s *session) start(f func() error) *pending {
	p := &pending{s, make(chan error, 1)}
	go func() { p.done <- f() }()
	return p
}

func (s *session) startExec(sql string, args ...any) *pending {
	return s.start(func() error {
		_, err := s.conn.Exec(context.Background(), sql, args...)
		return err
	})
}

const patience = 20 * time.Second

// blocked returns once the statement waits for a lock of another session, as the
// server tells; it fails the test when the statement ends instead.
func (p *pending) blocked(watch *rail) {
	p.s.Helper()
	if ended, err := p.settle(watch); ended {
		p.s.Fatalf("the statement ended (%v) instead of waiting for the other session", err)
	}
}

// settle returns when the statement has ended or waits for a lock.
func (p *pending) settle(watch *rail) (ended bool, err error) {
	p.s.Helper()
	pid := p.s.conn.PgConn().PID()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		waits := value[bool](watch, `select cardinality(pg_blocking_pids($1::integer)) > 0`, pid)
		select {
		case err := <-p.done:
			p.done <- err // for wait
			return true, err
		default:
			if waits {
				return false, nil
			}
		}
	}
	p.s.Fatal("the statement neither ended nor waited for a lock")
	return false, nil
}

// wait returns the statement's result.
func (p *pending) wait() error {
	p.s.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(patience):
		p.s.Fatal("the statement does not end")
		return nil
	}
}

func (p *pending) succeeds() {
	p.s.Helper()
	if err := p.wait(); err != nil {
		p.s.Fatal(err)
	}
}

// sqlState is empty for what is no error of the server.
func sqlState(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}
