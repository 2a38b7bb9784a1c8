package pgidentity_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/identity"
	"github.com/openlup/pgrail/identitytest"
)

// remove asks over HTTP for a removal by the gateway and answers the status, and the code of a refusal.
func (d directory) remove(t *testing.T, token, userID string) string {
	t.Helper()
	service, err := identity.New(identity.Config{Gateway: d.Store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]string{"userId": userID})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(string(body)))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	service.ServeHTTP(w, r)
	var answer struct{ Code string }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return strings.TrimSpace(fmt.Sprint(w.Code, " ", answer.Code))
}

// Case I2: of three, one loses its right while its own removal of another waits; the two others are left.
func TestI2_AnAdminWhoLostItsRightWhileWaiting(t *testing.T) {
	d := newDirectory(t)
	first, second := d.add(t, identitytest.HumanAdmin), d.add(t, identitytest.HumanAdmin)
	d.add(t, identitytest.HumanAdmin)
	answer := make(chan string, 1)
	err := pgx.BeginFunc(t.Context(), d.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT public.identity_revoke($1::uuid, $2::uuid)`, first.ID, second.ID); err != nil {
			return err
		}
		go func() { answer <- d.remove(t, second.Token, first.ID.String()) }()
		return d.until(t, `EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE a.datname = current_database() AND NOT l.granted)`)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got != "403 ADMIN_REQUIRED" {
		t.Errorf("answer %s", got)
	}
	if n := d.counted(t); n != 2 {
		t.Errorf("%d admins are left, want 2", n)
	}
}

// Case I4: a machine with admin rights removes no human.
func TestI4_AMachineRemovesNoHuman(t *testing.T) {
	d := newDirectory(t)
	human, machine := d.add(t, identitytest.HumanAdmin), d.add(t, identitytest.MachineAdmin)
	d.add(t, identitytest.HumanAdmin)
	if got := d.remove(t, machine.Token, human.ID.String()); got != "403 MACHINE_ACTOR_REVOKE_FORBIDDEN" {
		t.Errorf("answer %s", got)
	}
	if n := d.counted(t); n != 2 {
		t.Errorf("%d humans are left, want 2", n)
	}
}

// Case I7: the own id is refused in every spelling; what is no id gets to no statement that could quote it.
func TestI7_TheOwnIDInEverySpelling(t *testing.T) {
	d := newDirectory(t)
	admin := d.add(t, identitytest.HumanAdmin)
	d.add(t, identitytest.HumanAdmin)
	// Were the id asked for in SQL, the answer would be 500.
	d.exec(t, `DROP FUNCTION public.identity_revoke_admin(uuid, uuid, text, text), public.identity_remove(uuid, uuid, text),
		public.identity_revoke(uuid, uuid, text, text)`)
	id := admin.ID.String()
	for userID, want := range map[string]string{
		id:                                "403 SELF_REVOKE_FORBIDDEN",
		strings.ToUpper(id):               "403 SELF_REVOKE_FORBIDDEN",
		"{" + id + "}":                    "400 USER_ID_REQUIRED",
		"urn:uuid:" + id:                  "400 USER_ID_REQUIRED",
		strings.ReplaceAll(id, "-", ""):   "400 USER_ID_REQUIRED",
		" " + id + " ":                    "400 USER_ID_REQUIRED",
		"last_admin_lockout":              "400 USER_ID_REQUIRED",
		"'; DROP TABLE identity_audit --": "400 USER_ID_REQUIRED",
		"":                                "400 USER_ID_REQUIRED",
	} {
		if got := d.remove(t, admin.Token, userID); got != want {
			t.Errorf("%q: answer %s, want %s", userID, got, want)
		}
	}
	if n := d.counted(t); n != 2 {
		t.Errorf("%d admins are left, want 2", n)
	}
}

// Case I8: who is removed twice is no admin the second time, and nothing but the refusal is written.
func TestI8_RemovedTwice(t *testing.T) {
	c := newCast(t, newDirectory(t))
	if got := c.remove(t, c.admin.Token, c.other.ID.String()); got != "200" {
		t.Fatalf("answer %s", got)
	}
	before := c.state(t)
	for _, id := range []uuid.UUID{c.other.ID, uuid.New()} {
		if got := c.remove(t, c.admin.Token, id.String()); got != "400 ADMIN_NOT_FOUND" {
			t.Errorf("%s: answer %s", id, got)
		}
	}
	if diff := cmp.Diff(before, c.state(t)); diff != "" {
		t.Errorf("the second removal changed (-before +after):\n%s", diff)
	}
	if _, refusals := c.audit(t); refusals != 2 {
		t.Errorf("%d refusals are on record, want 2", refusals)
	}
}
