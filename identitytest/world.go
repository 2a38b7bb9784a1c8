package identitytest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/identity"
)

// world is a fixture with one human admin in it and the questions that rules ask.
type world struct {
	Fixture
	admin Account
}

func newWorld(f Fixture) *world { return &world{Fixture: f, admin: f.Add(HumanAdmin)} }

// remove asks through RemoveAdmin, as a client would.
func (w *world) remove(token, userID string) identity.Answer {
	return removeThrough(w.Gateway, w.Invitations, token, userID)
}

func removeThrough(gateway identity.Gateway, store identity.InvitationStore, token, userID string) identity.Answer {
	config := identity.Config{Gateway: gateway, Invitations: store, Logger: slog.New(slog.DiscardHandler)}
	service, err := identity.New(config)
	if err != nil {
		return identity.Answer{Code: err.Error()}
	}
	request := identity.Request{AccessToken: token, UserID: userID, Reason: "conformance"}
	return service.RemoveAdmin(context.Background(), request)
}

// revoke goes past RemoveAdmin and its checks, to what must hold by itself.
func (w *world) revoke(ctx context.Context, actor, target uuid.UUID) error {
	if w.Invitations != nil {
		return w.Invitations.RemoveAdmin(ctx, actor, target, "conformance")
	}
	return w.Gateway.RevokeAdmin(ctx, actor, target, "conformance")
}

// revokeCode is the code that RemoveAdmin would answer to the error of revoke.
func (w *world) revokeCode(actor, target uuid.UUID) string {
	script := Script{User: uuid.Max, Role: "admin", RevokeErr: w.revoke(context.Background(), actor, target)}
	return removeThrough(script, nil, "token", target.String()).Code
}

// expect compares an answer with what the contract allows.
func expect(what string, got identity.Answer, codes ...string) error {
	if slices.Contains(codes, got.Code) {
		return nil
	}
	return fmt.Errorf("%s: status %d, code %q, cause %v: want code %q", what, got.Status, got.Code, got.Cause, codes)
}

// admins checks who has admin rights, by the gateway's own word.
func (w *world) admins(want bool, accounts ...Account) error {
	for i, account := range accounts {
		role, err := w.Gateway.AdminRole(context.Background(), account.ID)
		if err != nil || (role == "admin") != want {
			return fmt.Errorf("account %d of %d: role %q, error %v: want admin rights %t", i+1, len(accounts), role, err, want)
		}
	}
	return nil
}

// remaining is how many of the accounts still have admin rights.
func (w *world) remaining(accounts ...Account) int {
	left := 0
	for _, account := range accounts {
		if w.admins(true, account) == nil {
			left++
		}
	}
	return left
}

// recorded checks by how much the audit grew while act ran.
func (w *world) recorded(changes, refusals int, act func() error) error {
	if w.Audit == nil {
		return act()
	}
	changesBefore, refusalsBefore := w.Audit()
	err := act()
	changesAfter, refusalsAfter := w.Audit()
	if c, r := changesAfter-changesBefore, refusalsAfter-refusalsBefore; c != changes || r != refusals {
		err = errors.Join(err, fmt.Errorf("audit grew by %d changes and %d refusals: want %d and %d", c, r, changes, refusals))
	}
	return err
}

// duel has two admins remove each other at the same moment: each waits, its checks passed, for the other before it
// revokes, so that neither is turned away by a check that the other's success has already closed.
func (w *world) duel(a, b Account) (answers [2]identity.Answer) {
	var both, done sync.WaitGroup
	both.Add(2)
	gateway := &meeting{Gateway: w.Gateway, store: w.Invitations, both: &both}
	for i, pair := range [2][2]Account{{a, b}, {b, a}} {
		done.Go(func() { answers[i] = removeThrough(gateway, nil, pair[0].Token, pair[1].ID.String()) })
	}
	done.Wait()
	return answers
}

// meeting lets two revokes begin together.
type meeting struct {
	identity.Gateway
	store identity.InvitationStore
	both  *sync.WaitGroup
}

func (m *meeting) RevokeAdmin(ctx context.Context, actor, target uuid.UUID, reason string) error {
	m.both.Done()
	m.both.Wait()
	if m.store != nil {
		return m.store.RemoveAdmin(ctx, actor, target, reason)
	}
	return m.Gateway.RevokeAdmin(ctx, actor, target, reason)
}
