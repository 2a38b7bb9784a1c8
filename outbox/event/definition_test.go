package event_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/openlup/pgrail/outbox/event"
)

func TestDefineRefusesBadTypes(t *testing.T) {
	t.Parallel()
	for _, eventType := range []string{"", "  ", "a\x00b", "\xff", strings.Repeat("t", event.MaxTypeBytes+1)} {
		_, err := event.Define[order](eventType)
		requireInvalid(t, err, "EventType")
	}
}

// Producers and consumers cannot disagree about the payload of a type.
func TestDefineBindsOnePayload(t *testing.T) {
	t.Parallel()
	type other struct{ X int }
	first, err := event.Define[order]("test.bound")
	if err != nil {
		t.Fatal(err)
	}
	if second, err := event.Define[order]("test.bound"); err != nil || second != first {
		t.Errorf("the same pair again: %v, %v", second, err)
	}
	_, err = event.Define[other]("test.bound")
	requireInvalid(t, err, "EventType")
	if err == nil || !strings.Contains(err.Error(), "event_test.order") {
		t.Errorf("%v does not name the payload that is bound already", err)
	}
}

func TestMustDefinePanics(t *testing.T) {
	t.Parallel()
	defer func() {
		err, _ := recover().(error)
		requireInvalid(t, err, "EventType")
	}()
	event.MustDefine[order]("")
}

func TestNewFillsTheDraft(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	got := placed.New("order", id, "key", order{"A1", 7})
	if err := got.Validate(); err != nil {
		t.Fatal(err)
	}
	want := []any{"test.placed", "key", "order", id, `{"number":"A1","total":7}`, 0}
	if diff := cmp.Diff(want, []any{got.EventType, got.IdempotencyKey, got.AggregateType, got.AggregateID, string(got.Payload), len(got.Metadata)}); diff != "" {
		t.Error(diff)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	got, err := placed.Decode(event.Envelope{EventType: "test.placed", Payload: json.RawMessage(`{"number":"A1","total":7,"new":true}`)})
	if diff := cmp.Diff(order{"A1", 7}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// picky refuses what it reads, with the value in the error's text.
type picky struct{}

func (*picky) UnmarshalJSON(b []byte) error { return errors.New("refused " + string(b)) }

// Case P1, the part that Go decides: what does not decode is told apart, and not one word of it gets into the error.
func TestP1_DecodeErrorsHideThePayload(t *testing.T) {
	t.Parallel()
	envelope := func(payload string) event.Envelope {
		return event.Envelope{EventType: "test.placed", Payload: json.RawMessage(payload)}
	}
	strict := event.MustDefine[picky]("test.picky")
	for name, decode := range map[string]func() error{
		"wrong type": func() error { _, err := placed.Decode(envelope(`{"total":"` + secret + `"}`)); return err },
		"wrong kind": func() error { _, err := placed.Decode(envelope(`["` + secret + `"]`)); return err },
		"huge number": func() error {
			_, err := placed.Decode(envelope(`{"total":1e400,"number":"` + secret + `"}`))
			return err
		},
		"no JSON":    func() error { _, err := placed.Decode(envelope(secret)); return err },
		"no payload": func() error { _, err := placed.Decode(envelope(``)); return err },
		"other type": func() error { _, err := placed.Decode(event.Envelope{EventType: "test.x"}); return err },
		"own decoder": func() error {
			_, err := strict.Decode(event.Envelope{EventType: "test.picky", Payload: text(20)})
			return err
		},
		"number's own": func() error { _, err := placed.Decode(envelope(`{"total":20070707070707070707}`)); return err },
	} {
		err := decode()
		switch {
		case !errors.Is(err, event.ErrUndecodable):
			t.Errorf("%s: %v", name, err)
		case strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "20070707"):
			t.Errorf("%s: the error repeats the payload: %v", name, err)
		}
	}
}
