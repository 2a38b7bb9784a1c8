package identitytest

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/identity"
)

// Memory is a directory in memory that keeps every rule of [TestGateway], for tests that need no database. One lock takes
// the place of a transaction. The zero value is empty and ready.
type Memory struct {
	mu       sync.Mutex
	accounts map[uuid.UUID]*account
	tokens   map[string]uuid.UUID
	changes  int
	refusals int
}

type account struct{ admin, machine, active bool }

var (
	_ identity.Gateway         = (*Memory)(nil)
	_ identity.RefusalRecorder = (*Memory)(nil)
)

// Add creates an active account and a token for it.
func (m *Memory) Add(sort Sort) Account {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.accounts == nil {
		m.accounts, m.tokens = map[uuid.UUID]*account{}, map[string]uuid.UUID{}
	}
	created := Account{ID: uuid.New(), Token: uuid.NewString()}
	m.accounts[created.ID] = &account{admin: sort == HumanAdmin || sort == MachineAdmin, machine: sort == MachineAdmin, active: true}
	m.tokens[created.Token] = created.ID
	return created
}

// Disable makes an account inactive.
func (m *Memory) Disable(id uuid.UUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.accounts[id].active = false
}

// Audit answers how many changes and refusals there were.
func (m *Memory) Audit() (changes, refusals int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes, m.refusals
}

// Fixture offers the directory to [TestGateway].
func (m *Memory) Fixture() Fixture {
	return Fixture{Gateway: m, Add: m.Add, Disable: m.Disable, Audit: m.Audit}
}

// ResolveToken answers the owner of a token, if it is active.
func (m *Memory) ResolveToken(_ context.Context, accessToken string) (uuid.UUID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id, ok := m.tokens[accessToken]; ok && m.accounts[id].active {
		return id, nil
	}
	return uuid.Nil, errors.New("unknown token")
}

// AdminRole answers "admin" for an active admin.
func (m *Memory) AdminRole(_ context.Context, user uuid.UUID) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.accounts[user]; a != nil && a.admin && a.active {
		return "admin", nil
	}
	return "", nil
}

// RevokeAdmin ends the target's rights and tokens, or answers a [identity.RevokeError].
func (m *Memory) RevokeAdmin(ctx context.Context, actor, target uuid.UUID, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if token := refusal(m.accounts[actor], m.accounts[target]); token != "" {
		m.refusals++
		return &identity.RevokeError{Token: token}
	}
	m.changes++
	m.accounts[target].admin = false
	for token, owner := range m.tokens {
		if owner == target {
			delete(m.tokens, token)
		}
	}
	return nil
}

// refusal has no check of whether an admin remains: the actor does, being an active human admin and not the target.
func refusal(actor, target *account) string {
	switch {
	case actor == nil || !actor.admin || !actor.active:
		return identity.TokenForbidden
	case actor.machine:
		return identity.TokenMachineForbidden
	case actor == target:
		return identity.TokenSelfRevokeForbidden
	case target == nil:
		return identity.TokenTargetNotFound
	case !target.admin || !target.active:
		return identity.TokenTargetNotActive
	}
	return ""
}

// RecordRefusal counts.
func (m *Memory) RecordRefusal(context.Context, uuid.UUID, uuid.UUID, string, string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusals++
	return nil
}
