package inbox_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/openlup/pgrail/webhook"
	"github.com/openlup/pgrail/webhook/inbox"
)

func decodeError() error {
	var p struct {
		Order string `json:"order"`
	}
	return json.Unmarshal([]byte(`{"order":1e400}`), &p)
}

func TestDecode(t *testing.T) {
	type order struct {
		Note string    `json:"note"`
		At   time.Time `json:"at"`
		Sum  int       `json:"sum"`
	}
	tests := []struct {
		body   string
		status int
		reason string
	}{
		{`{"note":"a"}`, 0, ""},
		{``, 400, "malformed JSON at offset 0"},
		{`{"note":"hunter2"`, 400, "malformed JSON at offset 17"},
		{`hunter2`, 400, "malformed JSON at offset 1"},
		{`{"note":"hunter2"}{}`, 400, "malformed JSON at offset 19"},
		{`{"sum":"hunter2"}`, 422, `JSON field "sum" cannot hold a string`},
		{`{"sum":1e400}`, 422, `JSON field "sum" cannot hold a number`},
		{`{"at":"hunter2"}`, 422, "JSON refused by its decoder (*time.ParseError)"},
		{`["hunter2"]`, 422, `JSON field "" cannot hold a array`},
	}
	for _, test := range tests {
		got, err := inbox.Decode[order](webhook.Delivery{Body: []byte(test.body)})
		var refused *inbox.RefusedError
		switch {
		case test.status == 0:
			if err != nil || got.Note != "a" {
				t.Errorf("%s: %+v, %v", test.body, got, err)
			}
		case !errors.As(err, &refused) || refused.Status != test.status || refused.Reason != test.reason:
			t.Errorf("%s: %+v, want %d %s", test.body, err, test.status, test.reason)
		case strings.Contains(err.Error(), "hunter2") || got != order{}:
			t.Errorf("%s: %v and %+v: want nothing of the body", test.body, err, got)
		}
	}
}
