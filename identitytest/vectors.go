package identitytest

import (
	_ "embed"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/openlup/pgrail/identity"
)

//go:embed testdata/identity.json
var vectors []byte

// Remove is an implementation of RemoveAdmin under test. store may be nil.
type Remove func(request identity.Request, gateway identity.Gateway, messages identity.Messages, store identity.InvitationStore) identity.Answer

type vector struct {
	Name  string
	Input struct {
		Request struct{ AccessToken, UserID string }
		GetUser struct {
			ID    uuid.UUID
			Error string
		}
		Admin  *struct{ Role string }
		Revoke struct{ Error string }
		Store  *struct{ Fails *storeFailure }
	}
	Expect struct {
		Status int
		Body   struct {
			Revoked     bool
			Code, Error string
		}
	}
}

type storeFailure struct {
	Message      string
	IdentityCode string
	BFFCode      identity.Kind
}

// TestVectors runs the table of answers that every implementation of RemoveAdmin gives, one subtest per vector. Messages
// are symbolic in it: "m." and the message's key.
func TestVectors(t *testing.T, remove Remove) {
	var all []vector
	if err := json.Unmarshal(vectors, &all); err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		t.Run(v.Name, func(t *testing.T) { v.run(t, remove) })
	}
}

func (v vector) run(t *testing.T, remove Remove) {
	request := identity.Request{AccessToken: v.Input.Request.AccessToken, UserID: v.Input.Request.UserID}
	got := remove(request, v.gateway(), symbolic(), v.store())
	if failed := got.Status == 500; failed != (got.Reference != "") {
		t.Errorf("status %d with reference %q: exactly the failures have one", got.Status, got.Reference)
	}
	want := identity.Answer{Status: v.Expect.Status, Revoked: v.Expect.Body.Revoked, Code: v.Expect.Body.Code, Error: v.Expect.Body.Error}
	got.Reference, got.Cause = "", nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func (v vector) gateway() identity.Gateway {
	script := Script{User: v.Input.GetUser.ID, UserErr: opaque(v.Input.GetUser.Error), RevokeErr: opaque(v.Input.Revoke.Error)}
	if v.Input.Admin != nil {
		script.Role = v.Input.Admin.Role
	}
	return script
}

func (v vector) store() identity.InvitationStore {
	switch {
	case v.Input.Store == nil:
		return nil
	case v.Input.Store.Fails == nil:
		return ScriptStore{}
	}
	fails := v.Input.Store.Fails
	err := errors.New(fails.Message)
	if fails.IdentityCode != "" {
		err = &identity.StoreError{Code: fails.IdentityCode, Kind: fails.BFFCode, Err: err}
	}
	return ScriptStore{Err: err}
}

func opaque(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

func symbolic() identity.Messages {
	return identity.Messages{
		Unauthorized: "m.unauthorized", InvalidToken: "m.invalidToken", RemoveForbidden: "m.removeForbidden",
		UserIDRequired: "m.userIdRequired", SelfRemoveForbidden: "m.selfRemoveForbidden", LastAdmin: "m.lastAdmin",
		SelfRevoke: "m.selfRevoke", MachineRevoke: "m.machineRevoke", AdminNotFound: "m.adminNotFound",
		AdminRequired: "m.adminRequired", ActionFailed: "m.actionFailed",
		RevokeFailed: func(text string) string { return "m.revokeFailed:" + text },
	}
}
