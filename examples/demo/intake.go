package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/examples/shop"
	"github.com/openlup/pgrail/outbox"
)

const (
	// producers record at the same time. All lines about one customer, order or invoice go to the same producer, so they are
	// recorded in the order in which they stand in the file.
	producers = 4
	// maxLine bounds a line, in bytes: the largest payload, with room for the rest.
	maxLine = 1<<20 + 4096
)

// order is a line on its way to a producer.
type order struct {
	line   int
	change shop.Change
}

// intake records every line. It names those that are refused and goes on; it ends early with ctx, or with an error of the
// database. A transaction under way is finished in any case.
func (d *demo) intake(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var queues [producers]chan order
	var all sync.WaitGroup
	for i := range queues {
		queues[i] = make(chan order, 16)
		all.Go(func() { d.produce(ctx, cancel, queues[i]) })
	}
	// Not waited for when ctx ends: it may sit in a read of standard input that never returns.
	go func() {
		defer func() {
			for _, queue := range queues {
				close(queue)
			}
		}()
		err := d.eachLine(ctx, bufio.NewReaderSize(in, 64<<10), func(o order) {
			select {
			case queues[o.change.Draft.AggregateID[15]%producers] <- o:
			case <-ctx.Done():
			}
		})
		if err != nil {
			cancel(err)
		}
	}()
	all.Wait()
	return context.Cause(ctx)
}

func (d *demo) produce(ctx context.Context, failed context.CancelCauseFunc, queue <-chan order) {
	for {
		select {
		case <-ctx.Done():
			return
		case o, more := <-queue:
			if !more {
				return
			}
			if err := d.record(context.WithoutCancel(ctx), o); err != nil {
				failed(err)
			}
		}
	}
}

func (d *demo) record(ctx context.Context, o order) error {
	ctx, cancel := context.WithTimeout(ctx, closing)
	defer cancel()
	asked := time.Now()
	receipt, err := d.shop.Record(ctx, o.change)
	switch {
	case err == nil:
		d.books.recorded(o, asked, receipt)
	case refused(err):
		d.refuse(o.line, err)
	default:
		return fmt.Errorf("line %d: %w", o.line, err)
	}
	return nil
}

// refused tells a line that is at fault from a database that is.
func refused(err error) bool {
	var field *shop.FieldError
	var server *pgconn.PgError
	const dataException, brokenConstraint = "22", "23"
	return errors.As(err, &field) || errors.Is(err, outbox.ErrInvalid) ||
		errors.As(err, &server) && (server.Code[:2] == dataException || server.Code[:2] == brokenConstraint)
}

func (d *demo) refuse(line int, err error) {
	d.books.refuse()
	fmt.Fprintf(d.problems, "%sline %d: %v\n", d.eraser(), line, err)
}

func (d *demo) eachLine(ctx context.Context, in *bufio.Reader, take func(order)) error {
	for number := 1; ctx.Err() == nil; number++ {
		text, err := nextLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("the events cannot be read: %w", err)
		}
		if len(text) > 0 {
			if change, wrong := parse(text); wrong != nil {
				d.refuse(number, wrong)
			} else {
				take(order{number, change})
			}
		}
		if err != nil {
			return nil
		}
	}
	return nil
}
