package event_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox/event"
)

// FuzzPayload asks a real server: what passes here must never be refused there, or the caller's transaction is lost. The
// other way round only far-fetched numbers may differ.
func FuzzPayload(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `"\u0000"`, `"\\u0000"`, `"\\\u0000"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\ud800\ud800\udc00"`,
		`"\uD83D\uDE00"`, `"\ud83dA"`, `{"a\u0000":1}`, `1e131071`, `1e131072`, `1e-16383`, `1e-16384`, `0e-20000`, `0e200000`,
		`-0.0`, `1E+5`, `123456789012345678901234567890.5e-3`, `1e2147483648`, `1e-99999999999`, `[1,2,]`, `{"a":1,"a":2}`, ` [1] `,
		"\"\x7f\"", "\"\x01\"", "\"\xff\"", "\"\u00e9\u2028\"", `tru`, `01`, `.5`, `5.`, `--1`, `"`, `"\x"`, `"\u12"`, "\ufeff1", "1\x00", "\v1",
		strings.Repeat("[", 9999) + strings.Repeat("]", 9999), strings.Repeat("[", 10001) + strings.Repeat("]", 10001),
		"0." + strings.Repeat("1", 16383), "0." + strings.Repeat("1", 16384), strings.Repeat("9", 131072), strings.Repeat("9", 131073),
		"1" + strings.Repeat("0", 131072) + "e-5", `"\/\b\f\n\r\t\""`, `{"":{"":[]}}`,
	} {
		f.Add([]byte(seed))
	}
	db := pgtest.New(f, pgtest.Empty())
	f.Fuzz(func(t *testing.T, payload []byte) {
		draft := good()
		draft.Payload = json.RawMessage(payload)
		mine := draft.Validate()
		var stored string
		theirs := db.Pool.QueryRow(t.Context(), `select $1::text::jsonb::text`, pgx.QueryExecModeExec, string(payload)).Scan(&stored)
		if mine == nil && theirs != nil {
			t.Fatalf("%.200q passes here and is refused there: %v", payload, theirs)
		}
		if mine != nil && theirs == nil && len(payload) <= event.MaxPayloadBytes && json.Valid(payload) &&
			!strings.Contains(mine.Error(), "beyond the range of numeric") {
			t.Fatalf("%.200q is stored there and refused here: %v", payload, mine)
		}
	})
}

// What is decoded is what was drafted, whatever jsonb makes of its spelling.
func TestPayloadSurvivesJSONB(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty())
	want := order{Number: "Ünïcödé \u2028 \U0001F600 <&> \" \\", Total: 1 << 53}
	draft := placed.New("order", uuid.New(), "key", want)
	if err := draft.Validate(); err != nil {
		t.Fatal(err)
	}
	var stored json.RawMessage
	if err := db.Pool.QueryRow(t.Context(), `select $1::jsonb`, draft.Payload).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	got, err := placed.Decode(event.Envelope{EventType: placed.Type(), Payload: stored})
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}
