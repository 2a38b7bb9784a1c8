package outboxtest_test

import (
	"context"
	"io"
	"log"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
)

// standIn is what the example has in the place of a *testing.T, which examples do not get.
type standIn struct {
	testing.TB
	cleanups []func()
}

func newTest() (*standIn, *pgxpool.Pool) {
	t := &standIn{}
	return t, pgtest.New(t).Pool
}

func (t *standIn) end() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}

func (t *standIn) Cleanup(f func())               { t.cleanups = append(t.cleanups, f) }
func (t *standIn) Context() context.Context       { return context.Background() }
func (t *standIn) Errorf(format string, a ...any) { log.Panicf(format, a...) }
func (t *standIn) Failed() bool                   { return false }
func (t *standIn) Fatal(a ...any)                 { log.Panic(a...) }
func (t *standIn) Fatalf(format string, a ...any) { log.Panicf(format, a...) }
func (t *standIn) Helper()                        {}
func (t *standIn) Logf(format string, a ...any)   { log.Printf(format, a...) }
func (t *standIn) Name() string                   { return "Example" }
func (t *standIn) Output() io.Writer              { return os.Stderr }
