package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

func TestBooksBalance(t *testing.T) {
	t.Parallel()
	d, out, _ := newDemo(t, newDatabase(t))
	if err := d.run(t.Context(), strings.NewReader(shipped(t, 400))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`lines +400 +0 refused, 0 recorded before`, `waiting +0`, `lost +0`, `order violations +0`, `booked too much +0`,
		`one admin is left every time`, `no second event +200`, `The books balance`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("nothing printed matches %q", want)
		}
	}
}

// TestStoppedRunGoesOn stops a run in the middle of its input and lets a second one finish on the same database.
func TestStoppedRunGoesOn(t *testing.T) {
	t.Parallel()
	databaseURL := newDatabase(t)
	first, out, _ := newDemo(t, databaseURL)
	ctx, stop := context.WithCancelCause(t.Context())
	half := newDrip(t, shipped(t, 200), func() { stop(&stoppedError{syscall.SIGTERM}) })
	err := first.run(ctx, half)
	if status := first.status(err); status != 128+15 {
		t.Fatalf("the status is %d: %v", status, err)
	}
	if !strings.Contains(out.String(), "Stopping") || !strings.Contains(out.String(), "The books balance") {
		t.Error("the stopped run did not say that it stops and that its books balance")
	}

	second, _, _ := newDemo(t, databaseURL)
	if err := second.run(t.Context(), strings.NewReader(shipped(t, 400))); err != nil {
		t.Fatal(err)
	}
	// At most 17 lines were on their way to each producer.
	if f := second.books.figures(); f.lines != 400 || f.again < 200-17*producers || f.again > 200 {
		t.Errorf("the second run read %d lines, of which %d were recorded before", f.lines, f.again)
	}
}

func TestOneDemoAtATime(t *testing.T) {
	t.Parallel()
	databaseURL := newDatabase(t)
	first, _, _ := newDemo(t, databaseURL)
	second, _, _ := newDemo(t, databaseURL)
	ctx, stop := context.WithCancel(t.Context())
	lines := newDrip(t, "", func() {
		defer stop()
		if err := second.run(t.Context(), strings.NewReader("")); !errors.Is(err, errTwoDemos) {
			t.Errorf("the error is %v", err)
		}
	})
	if err := first.run(ctx, lines); !errors.Is(err, context.Canceled) {
		t.Errorf("the first run ended with %v", err)
	}
}

func TestBadLinesAreNamed(t *testing.T) {
	t.Parallel()
	const id = "11111111-1111-4111-8111-111111111111"
	databaseURL := newDatabase(t)
	d, _, problems := newDemo(t, databaseURL)
	err := d.run(t.Context(), strings.NewReader(strings.Join([]string{
		`{"type":"customer.registered","id":"` + id + `","key":"1","data":{"name":"N","email":"n@mail.example","city":"C"}}`,
		``,
		`no JSON`,
		`{"type":"customer.left","id":"` + id + `","key":"2","data":{}}`,
		`{"type":"customer.moved","id":"7","key":"3","data":{"city":"D"}}`,
		`{"type":"customer.moved","id":"` + id + `","key":" ","data":{"city":"D"}}`,
		`{"type":"customer.moved","id":"` + id + `","key":"4","data":{"city":""}}`,
		`{"type":"customer.moved","id":"` + id + `","key":"5","data":{"city":"D","zip":1}}`,
		`{"type":"customer.moved","id":"` + id + `","key":"6","data":{"city":5}}`,
		`{"type":"customer.moved","id":"` + id + `","key":"7","data":{"city":"\u0000"}}`,
		`{"type":"customer.moved","id":"` + id + `","key":"8","data":{"city":"` + strings.Repeat("x", maxLine) + `"}}`,
		`{"type":"order.paid","id":"` + id + `","key":"9","data":{"method":"card","cents":100}}`,
		`{"type":"customer.moved","id":"` + id + `","key":"10","data":{"city":"E"}}`,
	}, "\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for line := range strings.Lines(problems.String()) {
		named = append(named, strings.Join(strings.Fields(line)[:4], " "))
	}
	want := []string{
		"line 3: is not", "line 4: type must", "line 5: id must", "line 6: key is", "line 7: data.city must",
		"line 8: data.zip is", "line 9: data.city must", "line 10: data has", "line 11: is longer", "line 12: id is",
	}
	if diff := cmp.Diff(want, named); diff != "" {
		t.Errorf("lines named (-want +got):\n%s", diff)
	}
	if f := d.books.figures(); f.lines != 12 || f.refusals != 10 {
		t.Errorf("%d lines read, %d refused; want 12 and 10", f.lines, f.refusals)
	}
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var events int
	err = conn.QueryRow(t.Context(), `SELECT count(*) FROM public.outbox_events WHERE aggregate_id = $1`, id).Scan(&events)
	if err != nil || events != 2 {
		t.Errorf("the good lines and no others are to make events: %d events, %v", events, err)
	}
}

// TestBooksTellWrongFromRight cooks the books in each way that they must notice.
func TestBooksTellWrongFromRight(t *testing.T) {
	t.Parallel()
	first, second := uuid.New(), uuid.New()
	fill := func(arrivals ...uuid.UUID) *books {
		b := newBooks()
		for i, id := range []uuid.UUID{first, second} {
			o := order{line: i + 1}
			o.change.Draft = event.Draft{EventType: "order.placed"}
			b.recorded(o, time.Now(), outbox.Receipt{ID: id})
		}
		for _, id := range arrivals {
			b.arrived(id)
		}
		return b
	}
	for _, test := range []struct {
		name     string
		arrivals []uuid.UUID
		status   []string
		fine     bool
	}{
		{"all in order", []uuid.UUID{first, second}, []string{"processed", "processed"}, true},
		{"one twice", []uuid.UUID{first, first, second}, []string{"processed", "processed"}, true},
		{"one refused", []uuid.UUID{second}, []string{"discarded", "processed"}, true},
		{"wrong order", []uuid.UUID{second, first}, []string{"processed", "processed"}, false},
		{"never arrived", []uuid.UUID{first}, []string{"processed", "processed"}, false},
		{"gone from the table", []uuid.UUID{first, second}, []string{"processed"}, false},
		{"still waiting", []uuid.UUID{first}, []string{"processed", "failed"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			status := map[uuid.UUID]string{}
			for i, text := range test.status {
				status[[]uuid.UUID{first, second}[i]] = text
			}
			if err := fill(test.arrivals...).compare(status).check(false); (err == nil) != test.fine {
				t.Errorf("the books say %v", err)
			}
		})
	}
}

func TestShippedEventsAreTheGenerators(t *testing.T) {
	t.Parallel()
	generated, err := exec.Command("go", "run", "./generate").Output()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile("events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if string(generated) != string(kept) {
		t.Error("events.jsonl is not what the generator writes: go run ./demo/generate >demo/events.jsonl")
	}
}
