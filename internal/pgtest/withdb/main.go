// Command withdb runs a command with a migrated database, throw-away like its
// server, named by DATABASE_URL:
//
//	go run ./internal/pgtest/withdb sh -c 'psql $DATABASE_URL'
//
// Package server tells which server it is. The exit status is the command's, of
// which go run passes on no more than whether it is 0.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/pgtest/server"
	"github.com/openlup/pgrail/migrate"
)

func main() {
	tcp := flag.Bool("tcp", false, "let a local server listen on loopback instead of its socket only")
	empty := flag.Bool("empty", false, "leave the schema out")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: withdb [flags] command [argument ...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	err := run(server.Options{Loopback: *tcp}, *empty, flag.Args())
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "withdb:", err)
		os.Exit(1)
	}
}

func run(o server.Options, empty bool, command []string) (err error) {
	ctx := context.Background()
	// The terminal's interrupt reaches the command too. It may need its database
	// to end well, so this process waits for it.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	srv, err := server.Choose(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	name := "pgrail_" + strings.ToLower(rand.Text()[:12])
	if err := admin(ctx, srv, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, admin(ctx, srv, "DROP DATABASE "+name+" WITH (FORCE)")) }()
	if !empty {
		if err := migrate.Up(ctx, srv.URL(name)); err != nil {
			return err
		}
	}
	return execute(signals, srv.URL(name), command)
}

func admin(ctx context.Context, srv server.Server, sql string) error {
	conn, err := pgx.Connect(ctx, srv.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

// execute passes on a request to terminate, which unlike an interrupt is sent
// to this process alone.
func execute(signals <-chan os.Signal, databaseURL string, command []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "DATABASE_URL="+databaseURL)
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			return err
		case s := <-signals:
			if s == syscall.SIGTERM {
				_ = cmd.Process.Signal(s)
			}
		}
	}
}
