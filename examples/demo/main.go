// Command demo puts package shop to work: it reads events, delivers them to a receiver that fails now and then, shows how
// it goes, lets two admins remove each other at the same moment, receives webhooks, and closes the books.
//
//	DATABASE_URL=postgres://... demo events.jsonl
//
// The argument "-" reads standard input. An interrupt or SIGTERM stops it in stages; on the same database a second run goes
// on where the first one stopped. The exit status is 0 only if everything was done and the books balance, 1 if not, and
// 128 plus the signal's number if a signal ended it with the books in balance.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	verbose := flag.Bool("v", false, "log what the packages have to say, failed deliveries among it")
	workers := flag.Int("workers", 3, "how many workers deliver, 1 to 20")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: DATABASE_URL=postgres://... demo [flags] events.jsonl (or - for standard input)")
		flag.PrintDefaults()
	}
	flag.Parse()
	databaseURL := os.Getenv("DATABASE_URL")
	if flag.NArg() != 1 || databaseURL == "" || *workers < 1 || *workers > 20 {
		flag.Usage()
		os.Exit(2)
	}
	level := slog.LevelError + 1 // not even discarded events: the progress counts them
	if *verbose {
		level = slog.LevelInfo
	}
	d := &demo{
		databaseURL: databaseURL, workers: *workers, rounds: 10, out: os.Stdout, problems: os.Stderr, terminal: isTerminal(os.Stdout),
		log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	}
	os.Exit(d.runFile(untilSignal(), flag.Arg(0)))
}

// runFile runs on a file, or on standard input for "-", and answers the exit status.
func (d *demo) runFile(ctx context.Context, name string) int {
	var events io.Reader = os.Stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			fmt.Fprintln(d.problems, "demo: the events cannot be read:", err)
			return 1
		}
		defer file.Close()
		events = file
	}
	err := d.run(ctx, events)
	status := d.status(err)
	if status == 1 {
		fmt.Fprintln(d.problems, "demo:", err)
	}
	return status
}

func (d *demo) status(err error) int {
	var stopped *stoppedError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &stopped) && !errors.Is(err, errUnbalanced):
		return 128 + int(stopped.signal)
	}
	return 1
}

// stoppedError is the cause of a context that a signal has ended.
type stoppedError struct{ signal syscall.Signal }

func (e *stoppedError) Error() string { return "stopped by signal: " + e.signal.String() }

// untilSignal ends its context at the first signal. A second one has its usual effect and kills the process.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		first := <-signals
		signal.Stop(signals)
		cancel(&stoppedError{first.(syscall.Signal)})
	}()
	return ctx
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
