package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/openlup/pgrail/examples/shop"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/webhook"
)

// demo is one run.
type demo struct {
	databaseURL   string
	workers       int
	rounds        int // how often two admins remove each other
	out, problems io.Writer
	terminal      bool
	log           *slog.Logger

	shop    *shop.Shop
	books   *books
	types   []string // that the workers handle
	secrets shop.Secrets
	api     string   // the shop's URL
	undo    []func() // in reverse order
}

// closing bounds what is still done after a signal.
const closing = 15 * time.Second

// run does everything in order and closes the books whatever happened.
func (d *demo) run(ctx context.Context, events io.Reader) error {
	defer func() {
		for _, undo := range slices.Backward(d.undo) {
			undo()
		}
	}()
	handlers, err := d.setUp(ctx)
	if err != nil {
		return err
	}
	ctx, crew, err := d.startWorkers(ctx, handlers)
	if err != nil {
		return err
	}
	err = d.parts(ctx, events)
	stopped := ctx.Err() != nil
	if stopped {
		fmt.Fprintln(d.out, "\nStopping: nothing more is read or claimed, running handlers finish.")
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	return errors.Join(err, crew.stop(last), d.books.close(last, d, stopped))
}

// setUp opens the shop and the books and starts both servers: the shop's, and the one that the events go to.
func (d *demo) setUp(ctx context.Context) (handlers *outbox.Handlers, err error) {
	if d.shop, err = shop.Open(ctx, d.databaseURL, d.log); err != nil {
		return nil, err
	}
	d.undo = append(d.undo, d.shop.Close)
	d.secrets = shop.Secrets{GitHub: rand.Text(), Payments: standardSecret()}
	api, err := d.shop.API(d.secrets)
	if err != nil {
		return nil, err
	}
	if d.api, err = d.serve(api); err != nil {
		return nil, err
	}
	d.books = newBooks()
	if handlers, err = d.handlers(); err != nil {
		return nil, err
	}
	d.types = handlers.Types()
	d.undo = append(d.undo, d.books.unlock)
	return handlers, d.books.open(ctx, d.databaseURL, d.types)
}

// handlers deliver to a receiver that keeps the books.
func (d *demo) handlers() (*outbox.Handlers, error) {
	secret := webhook.SecretText(standardSecret())
	verifier, err := webhook.NewVerifier(webhook.Standard, []webhook.Secret{secret})
	if err != nil {
		return nil, err
	}
	url, err := d.serve(verifier.Middleware(&receiver{d.books}))
	if err != nil {
		return nil, err
	}
	handlers, err := d.shop.Handlers(url, secret)
	if err != nil {
		return nil, err
	}
	handlers.Use(d.books.observe)
	return handlers, nil
}

// parts are what there is to see. Each returns the cause of ctx when that ends.
func (d *demo) parts(ctx context.Context, events io.Reader) error {
	fmt.Fprintf(d.out, "1. Events: recorded beside the shop's rows, delivered by %d workers to a receiver that fails now and then\n", d.workers)
	if err := d.deliverAll(ctx, events); err != nil {
		return err
	}
	fmt.Fprintln(d.out, "\n2. Admins: over HTTP, with bearer tokens")
	if err := d.showAdmins(ctx); err != nil {
		return err
	}
	fmt.Fprintln(d.out, "\n3. Webhooks: signed by GitHub's scheme and by Standard Webhooks")
	if err := d.showHooks(ctx); err != nil {
		return err
	}
	return d.drain(ctx)
}

// deliverAll reads everything and waits until it has been delivered, with a line of progress meanwhile.
func (d *demo) deliverAll(ctx context.Context, events io.Reader) error {
	progress := d.startProgress(ctx)
	defer progress.stop()
	if err := d.intake(ctx, events); err != nil {
		return err
	}
	return d.drain(ctx)
}

// standardSecret is a random one as Standard Webhooks writes them.
func standardSecret() string {
	key := make([]byte, 24)
	_, _ = rand.Read(key) // never fails
	return "whsec_" + base64.StdEncoding.EncodeToString(key)
}
