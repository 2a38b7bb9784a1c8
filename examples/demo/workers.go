package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/openlup/pgrail/outbox"
)

// crew is the workers of this process. Any number of processes could have such crews on one database.
type crew struct {
	cancel context.CancelCauseFunc
	group  sync.WaitGroup
	mu     sync.Mutex
	left   []error
}

var errDone = errors.New("the work is done")

// startWorkers returns a context that also ends when a worker cannot go on.
func (d *demo) startWorkers(ctx context.Context, handlers *outbox.Handlers) (context.Context, *crew, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &crew{cancel: cancel}
	for range d.workers {
		worker, err := outbox.NewWorker(d.shop.Pool(), handlers, outbox.Config{
			Concurrency:  16,
			Lease:        30 * time.Second, // after a crash its events come back that soon
			PollInterval: 200 * time.Millisecond,
			StopTimeout:  5 * time.Second,
			Logger:       d.log,
		})
		if err != nil {
			cancel(err)
			return ctx, nil, err
		}
		c.group.Go(func() { c.ended(worker.Run(ctx)) })
	}
	return ctx, c, nil
}

// ended ends the run if a worker did so by itself, and keeps what it says about events left behind.
func (c *crew) ended(err error) {
	if err == nil {
		return
	}
	c.cancel(fmt.Errorf("a worker cannot go on: %w", err))
	var left *outbox.StopError
	if errors.As(err, &left) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.left = append(c.left, left)
	}
}

// stop waits for the workers, which stop in stages. What one of them had to leave behind is in its error.
func (c *crew) stop(ctx context.Context) error {
	c.cancel(errDone)
	all := make(chan struct{})
	go func() { c.group.Wait(); close(all) }()
	select {
	case <-all:
	case <-ctx.Done():
		return errors.New("the workers did not stop in time")
	}
	return errors.Join(c.left...)
}

// serve listens on a free port of loopback until the run is over, and answers the URL.
func (d *demo) serve(handler http.Handler) (url string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with ErrServerClosed
	d.undo = append(d.undo, func() { _ = server.Close() })
	return "http://" + listener.Addr().String(), nil
}
