package main

import (
	"context"
	"fmt"
	"time"
)

// progress shows how it goes: on a terminal in one line that changes, elsewhere with a new line now and then.
type progress struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func (d *demo) startProgress(ctx context.Context) *progress {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &progress{cancel: cancel, done: make(chan struct{})}
	every := time.Second
	if d.terminal {
		every = 200 * time.Millisecond
	}
	go func() {
		defer close(p.done)
		d.showProgress(ctx, every)
	}()
	return p
}

// stop shows how it stands at the end.
func (p *progress) stop() {
	p.cancel()
	<-p.done
}

func (d *demo) showProgress(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	began, last := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			now := d.books.figures()
			d.printProgress(now, float64(now.delivered)/time.Since(began).Seconds(), "in all")
			fmt.Fprintln(d.out)
			return
		case <-tick.C:
			now := d.books.figures()
			d.printProgress(now, float64(now.delivered-last)/every.Seconds(), "now")
			last = now.delivered
			if !d.terminal {
				fmt.Fprintln(d.out)
			}
		}
	}
}

func (d *demo) printProgress(f figures, rate float64, over string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	waiting := "?"
	if n, err := d.waiting(ctx); err == nil {
		waiting = fmt.Sprint(n)
	}
	fmt.Fprintf(d.out, "%s   lines %d, delivered %d (%.0f/s %s), waiting %s, retried %d, discarded %d",
		d.eraser(), f.lines, f.delivered, rate, over, waiting, f.retries, f.discards)
}

// eraser takes back the line of progress on a terminal.
func (d *demo) eraser() string {
	if d.terminal {
		return "\r\033[K"
	}
	return ""
}
