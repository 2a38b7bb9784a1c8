// Package faulty breaks connections at chosen moments, for tests.
package faulty

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A Line is what all connections made through it share.
type Line struct {
	mu   sync.Mutex
	text string
	left int
	// Lost counts the answers that got lost.
	lost int
}

// LoseReplies makes the next n answers to statements that contain text get lost: the server executes and commits them, and
// the connection breaks before a word of that arrives.
func (l *Line) LoseReplies(text string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text, l.left = text, n
}

// Lost returns how many answers got lost.
func (l *Line) Lost() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// Lay puts the line under the connections of a configuration, and makes each statement travel with its text.
func (l *Line) Lay(config *pgx.ConnConfig) {
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.DialFunc = l.over(config.DialFunc)
}

func (l *Line) over(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &faultyConn{Conn: conn, line: l}, err
	}
}

func (l *Line) loses(sent []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 || !bytes.Contains(sent, []byte(l.text)) {
		return false
	}
	l.left--
	l.lost++
	return true
}

type faultyConn struct {
	net.Conn
	line *Line
	mute bool
}

func (c *faultyConn) Write(sent []byte) (int, error) {
	if c.line.loses(sent) {
		c.mute = true
	}
	return c.Conn.Write(sent)
}

// readyForQuery is the message that a server ends every answer with, after the commit: idle, and not in a transaction.
var readyForQuery = []byte{'Z', 0, 0, 0, 5, 'I'}

var errLost = errors.New("faulty: the answer got lost")

func (c *faultyConn) Read(into []byte) (int, error) {
	if !c.mute {
		return c.Conn.Read(into)
	}
	var answer []byte
	piece := make([]byte, 4096)
	for !bytes.HasSuffix(answer, readyForQuery) {
		n, err := c.Conn.Read(piece)
		if answer = append(answer, piece[:n]...); err != nil {
			return 0, err
		}
	}
	_ = c.Conn.Close()
	return 0, errLost
}
