package inbox_test

import (
	"errors"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/webhook"
	"github.com/openlup/pgrail/webhook/inbox"
)

func constraintOf(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.ConstraintName
	}
	return ""
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	verifier, err := webhook.NewVerifier(webhook.Hex, []webhook.Secret{webhook.SecretText(secret)})
	if err != nil {
		t.Fatal(err)
	}
	pool := new(pgxpool.Pool)
	good := inbox.Config{Source: "s", Draft: draftPayment, Logger: slog.New(slog.DiscardHandler)}
	with := func(change func(*inbox.Config)) inbox.Config {
		c := good
		change(&c)
		return c
	}
	source := func(s string) inbox.Config { return with(func(c *inbox.Config) { c.Source = s }) }
	retention := func(d time.Duration) inbox.Config { return with(func(c *inbox.Config) { c.Retention = d }) }
	timeout := func(d time.Duration) inbox.Config { return with(func(c *inbox.Config) { c.Timeout = d }) }
	tests := []struct {
		pool     inbox.Pool
		verifier *webhook.Verifier
		config   inbox.Config
		field    string
	}{
		{pool, verifier, good, ""},
		{pool, verifier, source(strings.Repeat("x", 255)), ""},
		{pool, verifier, retention(time.Hour), ""},
		{pool, verifier, retention(87600 * time.Hour), ""},
		{pool, verifier, timeout(time.Hour), ""},
		{nil, verifier, good, "pool"},
		{(*pgxpool.Pool)(nil), verifier, good, "pool"},
		{pool, nil, good, "verifier"},
		{pool, verifier, source(""), "Config.Source"},
		{pool, verifier, source(" \t"), "Config.Source"},
		{pool, verifier, source("a\x00"), "Config.Source"},
		{pool, verifier, source("a\xff"), "Config.Source"},
		{pool, verifier, source(strings.Repeat("x", 256)), "Config.Source"},
		{pool, verifier, with(func(c *inbox.Config) { c.Draft = nil }), "Config.Draft"},
		{pool, verifier, retention(time.Hour - 1), "Config.Retention"},
		{pool, verifier, retention(-time.Hour), "Config.Retention"},
		{pool, verifier, retention(87600*time.Hour + 1), "Config.Retention"},
		{pool, verifier, timeout(-1), "Config.Timeout"},
		{pool, verifier, timeout(time.Hour + 1), "Config.Timeout"},
	}
	for i, test := range tests {
		in, err := inbox.New(test.pool, test.verifier, test.config)
		var refused *inbox.ConfigError
		switch {
		case test.field == "":
			if in == nil || err != nil {
				t.Errorf("%d: %v", i, err)
			}
		case in != nil || !errors.As(err, &refused) || refused.Field != test.field || !strings.Contains(err.Error(), test.field+" must be"):
			t.Errorf("%d: %v, want a ConfigError for %s", i, err, test.field)
		}
	}
}

// TestImports: an application compiles the modules that package outbox needs and no other, and no testing.
func TestImports(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps",
		"-f", "{{if not .Standard}}{{.Module.Path}}{{else if eq .ImportPath `testing`}}testing{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	foreign := strings.Fields(string(out))
	slices.Sort(foreign)
	want := []string{"github.com/cenkalti/backoff/v5", "github.com/google/uuid", "github.com/jackc/pgpassfile",
		"github.com/jackc/pgservicefile", "github.com/jackc/pgx/v5", "github.com/jackc/puddle/v2",
		"github.com/openlup/pgrail", "golang.org/x/sync", "golang.org/x/text"}
	if diff := cmp.Diff(want, slices.Compact(foreign)); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
}
