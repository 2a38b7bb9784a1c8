package server

import (
	"context"
	"crypto/rand"
	"net"
	"net/url"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// superuser is the name of the role that initdb makes.
const superuser = "postgres"

// URL leads to the loopback port if there is one, else to the socket.
func (l *Local) URL(database string) string {
	if l.port != 0 {
		u := url.URL{
			Scheme: "postgres", User: url.UserPassword(superuser, l.password), Path: "/" + database,
			Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(l.port)),
			RawQuery: "sslmode=disable",
		}
		return u.String()
	}
	return l.SocketURL(database)
}

// SocketURL is the connection string through the Unix socket.
func (l *Local) SocketURL(database string) string {
	where := url.Values{"host": {l.dir}, "port": {strconv.Itoa(l.portNumber())}}
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + database, RawQuery: where.Encode()}
	return u.String()
}

// portNumber is also part of the socket's name.
func (l *Local) portNumber() int {
	if l.port == 0 {
		return 5432
	}
	return l.port
}

// setPassword lets the superuser in through TCP, where the socket's directory
// keeps nobody out.
func (l *Local) setPassword(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, l.SocketURL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	l.password = rand.Text()
	_, err = conn.Exec(ctx, "ALTER ROLE "+superuser+" PASSWORD '"+l.password+"'")
	return err
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
