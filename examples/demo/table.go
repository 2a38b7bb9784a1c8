package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// close audits the books and prints them. A run that was stopped may leave events waiting; nothing may ever be lost.
func (b *books) close(ctx context.Context, d *demo, stopped bool) error {
	sum, err := b.audit(ctx, d.shop.Pool())
	if err != nil {
		return err
	}
	fmt.Fprintln(d.out, "\nThe books")
	b.print(d.out, sum)
	if err := sum.check(stopped); err != nil {
		fmt.Fprintln(d.out, "\nThe books do NOT balance.")
		return err
	}
	fmt.Fprintln(d.out, "\nThe books balance: enqueued = delivered + discarded + waiting.")
	if sum.waiting > 0 {
		fmt.Fprintf(d.out, "%d events wait in the database: the next run on it goes on with them, unless it was a throw-away one.\n", sum.waiting)
	}
	return nil
}

func (b *books) print(out io.Writer, sum balance) {
	f := b.figures()
	row := func(name string, n int, remark string) {
		fmt.Fprintf(out, "   %-17s%8d   %s\n", name, n, remark)
	}
	row("lines", f.lines, fmt.Sprintf("%d refused, %d recorded before", f.refusals, f.again))
	row("enqueued", sum.enqueued, fmt.Sprintf("%d of them by an earlier run", sum.left))
	row("delivered", sum.delivered, "")
	row("discarded", sum.discarded, "the receiver refused them for good")
	row("waiting", sum.waiting, "")
	row("lost", sum.lost, "must be 0")
	row("order violations", sum.disorder, "must be 0")
	row("booked too much", int(sum.overpaid), "must be 0: cents in the takings beyond what the invoices say")
	row("retried", f.retries, "busy, too slow, or the connection broke")
	row("duplicates", f.repeats, "arrived, but the answer got lost; the receiver knew their ids")
	if e := sum.slowest; e != nil {
		fmt.Fprintf(out, "   %-16s%8.2fs   %s, delivered at try %d\n", "slowest", e.took().Round(10*time.Millisecond).Seconds(), e.eventType, max(e.tries, 1))
	}
}

// figures are the counts at one moment.
type figures struct {
	lines, refusals, again, delivered, retries, discards, repeats int
}

func (b *books) figures() figures {
	b.mu.Lock()
	defer b.mu.Unlock()
	return figures{b.lines, b.refusals, b.again, len(b.arrivals), b.retries, b.discards, b.repeats}
}
