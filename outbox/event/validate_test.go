package event_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/outbox/event"
)

// secret stands in every wrong value: no error may repeat it.
const secret = "hunter2"

type order struct {
	Number string `json:"number"`
	Total  int    `json:"total"`
}

var placed = event.MustDefine[order]("test.placed")

// good returns a draft that nothing is wrong with.
func good() event.Draft {
	return placed.New("order", uuid.MustParse("6a0b4f9e-4a0a-4f63-8d05-0d2c5b1c6f10"), "key", order{"A1", 7})
}

func TestGoodDraftsPass(t *testing.T) {
	t.Parallel()
	for name, draft := range map[string]event.Draft{
		"plain":                good(),
		"longest type":         with(func(d *event.Draft) { d.EventType = strings.Repeat("t", event.MaxTypeBytes) }),
		"longest key":          with(func(d *event.Draft) { d.IdempotencyKey = strings.Repeat("ü", event.MaxKeyBytes/2) }),
		"longest aggregate":    with(func(d *event.Draft) { d.AggregateType = strings.Repeat("a", event.MaxTypeBytes) }),
		"nil aggregate id":     with(func(d *event.Draft) { d.AggregateID = uuid.Nil }),
		"JSON null payload":    with(func(d *event.Draft) { d.Payload = json.RawMessage("null") }),
		"scalar payload":       with(func(d *event.Draft) { d.Payload = json.RawMessage("\"x\"") }),
		"largest payload":      with(func(d *event.Draft) { d.Payload = text(event.MaxPayloadBytes) }),
		"pair of surrogates":   with(func(d *event.Draft) { d.Payload = json.RawMessage(`"\ud83d\ude00"`) }),
		"escaped backslash u":  with(func(d *event.Draft) { d.Payload = json.RawMessage(`"\\u0000"`) }),
		"nil metadata":         with(func(d *event.Draft) { d.Metadata = nil }),
		"largest metadata":     with(func(d *event.Draft) { d.Metadata = map[string]any{"k": strings.Repeat("m", event.MaxMetadataBytes-8)} }),
		"reserved key inside":  with(func(d *event.Draft) { d.Metadata = map[string]any{"mine": map[string]any{"claimToken": 1}} }),
		"reserved, other case": with(func(d *event.Draft) { d.Metadata = map[string]any{"ClaimToken": 1} }),
		"longest delay":        good().WithDelay(event.MaxDelay),
	} {
		if err := draft.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Cases D5 and D6, as far as Go can know them: each field, each way of being wrong.
func TestD5D6_WrongDraftsNameTheField(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		field string
		draft event.Draft
	}{
		"no type":              {"EventType", with(func(d *event.Draft) { d.EventType = "" })},
		"undefined definition": {"EventType", event.Definition[order]{}.New("order", uuid.New(), "key", order{})},
		"blank type":           {"EventType", with(func(d *event.Draft) { d.EventType = " \t\n" })},
		"type too long":        {"EventType", with(func(d *event.Draft) { d.EventType = secret + strings.Repeat("t", event.MaxTypeBytes) })},
		"type not UTF-8":       {"EventType", with(func(d *event.Draft) { d.EventType = secret + "\xff" })},
		"type with NUL":        {"EventType", with(func(d *event.Draft) { d.EventType = secret + "\x00" })},
		"no key":               {"IdempotencyKey", with(func(d *event.Draft) { d.IdempotencyKey = "" })},
		"blank key":            {"IdempotencyKey", with(func(d *event.Draft) { d.IdempotencyKey = "   " })},
		"key of 6,400":         {"IdempotencyKey", with(func(d *event.Draft) { d.IdempotencyKey = secret + strings.Repeat("k", 6400) })},
		"key not UTF-8":        {"IdempotencyKey", with(func(d *event.Draft) { d.IdempotencyKey = secret + "\xc3" })},
		"key with NUL":         {"IdempotencyKey", with(func(d *event.Draft) { d.IdempotencyKey = secret + "\x00" })},
		"no aggregate":         {"AggregateType", with(func(d *event.Draft) { d.AggregateType = "" })},
		"aggregate too long":   {"AggregateType", with(func(d *event.Draft) { d.AggregateType = secret + strings.Repeat("a", 255) })},
		"aggregate not UTF-8":  {"AggregateType", with(func(d *event.Draft) { d.AggregateType = secret + "\x80" })},
		"aggregate with NUL":   {"AggregateType", with(func(d *event.Draft) { d.AggregateType = "\x00" + secret })},
		"no payload":           {"Payload", with(func(d *event.Draft) { d.Payload = nil })},
		"payload no JSON":      {"Payload", with(func(d *event.Draft) { d.Payload = json.RawMessage("{" + secret) })},
		"two payloads":         {"Payload", with(func(d *event.Draft) { d.Payload = json.RawMessage(`"` + secret + `" 2`) })},
		"payload not UTF-8":    {"Payload", with(func(d *event.Draft) { d.Payload = json.RawMessage(`"` + secret + "\xff\"") })},
		"payload of 40 MB":     {"Payload", with(func(d *event.Draft) { d.Payload = text(40_000_000) })},
		"payload with NUL":     {"Payload", with(func(d *event.Draft) { d.Payload = json.RawMessage(`"` + secret + `\u0000"`) })},
		"typed NUL":            {"Payload", placed.New("order", uuid.New(), "key", order{Number: secret + "\x00"})},
		"NUL in a key":         {"Payload", with(func(d *event.Draft) { d.Payload = json.RawMessage(`{"` + secret + `\u0000":1}`) })},
		"high surrogate":       {"Payload", with(func(d *event.Draft) { d.Payload = json.RawMessage(`"` + secret + `\ud800x"`) })},
		"high before escape":   {"Payload", with(func(d *event.Draft) { d.Payload = json.RawMessage(`"\ud800\n` + secret + `"`) })},
		"high before letter":   {"Payload", with(func(d *event.Draft) { d.Payload = json.RawMessage(`"\ud800\u0041` + secret + `"`) })},
		"high at the end":      {"Payload", with(func(d *event.Draft) { d.Payload = json.RawMessage(`"` + secret + `\ud800"`) })},
		"low surrogate":        {"Payload", with(func(d *event.Draft) { d.Payload = json.RawMessage(`"` + secret + `\udc00"`) })},
		"number too big":       {"Payload", with(func(d *event.Draft) { d.Payload = json.RawMessage(`[1e131072,"` + secret + `"]`) })},
		"number too fine":      {"Payload", with(func(d *event.Draft) { d.Payload = json.RawMessage(`[1E-16384,"` + secret + `"]`) })},
		"number absurd":        {"Payload", with(func(d *event.Draft) { d.Payload = json.RawMessage(`-1e99999999999999999999`) })},
		"unencodable payload":  {"Payload", event.MustDefine[func()]("test.func").New("order", uuid.New(), "key", func() {})},
		"NaN payload":          {"Payload", event.MustDefine[float64]("test.nan").New("order", uuid.New(), "key", math.NaN())},
		"unencodable metadata": {"Metadata", good().WithMetadata("k", func() {})},
		"metadata too long":    {"Metadata", good().WithMetadata("k", secret+strings.Repeat("m", event.MaxMetadataBytes))},
		"metadata with NUL":    {"Metadata", good().WithMetadata("k", secret+"\x00")},
		"metadata number":      {"Metadata", good().WithMetadata("k", json.Number("1e200000"))},
		"negative delay":       {"Delay", good().WithDelay(-1)},
		"endless delay":        {"Delay", good().WithDelay(event.MaxDelay + 1)},
	} {
		t.Run(name, func(t *testing.T) { requireInvalid(t, c.draft.Validate(), c.field) })
	}
	for _, key := range event.ReservedMetadata {
		requireInvalid(t, good().WithMetadata(key, secret).Validate(), "Metadata")
	}
}

func requireInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *event.InvalidError
	switch {
	case !errors.As(err, &invalid) || !errors.Is(err, event.ErrInvalid):
		t.Errorf("%s: got %v, want an InvalidError", field, err)
	case invalid.Field != field || invalid.Problem == "" || invalid.Allowed == "":
		t.Errorf("got %+v, want field %s, a problem and what is allowed", invalid, field)
	case strings.Contains(err.Error(), secret):
		t.Errorf("the error repeats the value: %v", err)
	}
}

func TestWithDoesNotTouchTheOriginal(t *testing.T) {
	t.Parallel()
	first := good().WithMetadata("tenant", "a")
	second := first.WithMetadata("user", "b").WithDelay(time.Minute)
	if len(first.Metadata) != 1 || first.Delay != 0 || len(second.Metadata) != 2 || second.Delay != time.Minute {
		t.Errorf("first %v %v, second %v %v", first.Metadata, first.Delay, second.Metadata, second.Delay)
	}
}

func TestNilMetadataIsAnObject(t *testing.T) {
	t.Parallel()
	for _, metadata := range []map[string]any{nil, {}} {
		got, err := with(func(d *event.Draft) { d.Metadata = metadata }).EncodeMetadata()
		if err != nil || string(got) != "{}" {
			t.Errorf("%#v: %s, %v", metadata, got, err)
		}
	}
}

// with returns a good draft with one thing changed.
func with(change func(*event.Draft)) event.Draft {
	draft := good()
	change(&draft)
	return draft
}

// text is a JSON string of that many bytes.
func text(size int) json.RawMessage {
	return json.RawMessage(`"` + secret + strings.Repeat("x", size-2-len(secret)) + `"`)
}
