package identitytest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/identity"
)

func TestMemoryKeepsEveryRule(t *testing.T) {
	TestGateway(t, func(*testing.T) Fixture { return new(Memory).Fixture() })
}

func TestMemoryKeepsEveryRuleThroughAStore(t *testing.T) {
	TestGateway(t, func(*testing.T) Fixture { return throughStore(new(Memory)) })
}

func TestOurRemoveAdminAnswersTheVectors(t *testing.T) {
	TestVectors(t, func(request identity.Request, gateway identity.Gateway, messages identity.Messages, store identity.InvitationStore) identity.Answer {
		service, err := identity.New(identity.Config{Gateway: gateway, Messages: messages, Invitations: store})
		if err != nil {
			t.Fatal(err)
		}
		return service.RemoveAdmin(t.Context(), request)
	})
}

// TestEveryRuleIsBrokenBySomeGateway has gateways with one fault each go through the kit: the rule that forbids the fault
// must say so, or the kit would pass anything.
func TestEveryRuleIsBrokenBySomeGateway(t *testing.T) {
	caught := map[string]bool{}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			found := false
			for _, r := range rules {
				if r.broken(newWorld(fault(new(Memory)))) != nil {
					caught[r.name], found = true, true
				}
			}
			if !found {
				t.Error("no rule noticed this fault")
			}
		})
	}
	for _, r := range rules {
		if !caught[r.name] {
			t.Errorf("rule %q was broken by no fault", r.name)
		}
	}
}

// faults are gateways that each get one thing wrong.
var faults = map[string]func(*Memory) Fixture{
	"does nothing": func(m *Memory) Fixture {
		return faulty{Memory: m, revoke: func(_, _ uuid.UUID) error { return nil }}.fixture()
	},
	"refuses everything without a name": func(m *Memory) Fixture {
		return faulty{Memory: m, revoke: func(_, _ uuid.UUID) error { return errors.New("no") }}.fixture()
	},
	"checks nothing and ignores the context": func(m *Memory) Fixture {
		return faulty{Memory: m, revoke: m.seize}.fixture()
	},
	"lets everyone sign in as admin": func(m *Memory) Fixture {
		return faulty{Memory: m, revoke: m.seize, role: "admin", anyToken: true}.fixture()
	},
	"forgets the audit": func(m *Memory) Fixture {
		f := m.Fixture()
		f.Audit = func() (int, int) { return 0, 0 }
		return f
	},
}

// faulty overrides parts of a good gateway.
type faulty struct {
	*Memory
	revoke   func(actor, target uuid.UUID) error
	role     string
	anyToken bool
}

func (f faulty) fixture() Fixture {
	fixture := f.Fixture()
	fixture.Gateway = f
	return fixture
}

func (f faulty) RevokeAdmin(_ context.Context, actor, target uuid.UUID, _ string) error {
	return f.revoke(actor, target)
}

func (f faulty) AdminRole(ctx context.Context, user uuid.UUID) (string, error) {
	if f.role != "" {
		return f.role, nil
	}
	return f.Memory.AdminRole(ctx, user)
}

func (f faulty) ResolveToken(ctx context.Context, token string) (uuid.UUID, error) {
	user, err := f.Memory.ResolveToken(ctx, token)
	if f.anyToken && err != nil {
		return uuid.New(), nil
	}
	return user, err
}

// seize takes the target's rights whoever asks, and leaves its tokens alive.
func (m *Memory) seize(_, target uuid.UUID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.accounts[target]; a != nil {
		a.admin = false
	}
	return nil
}

// throughStore offers the same directory with an invitation store, and a gateway whose own revoke must not be called.
func throughStore(m *Memory) Fixture {
	fixture := m.Fixture()
	fixture.Invitations = memoryStore{m}
	return fixture
}

type memoryStore struct{ *Memory }

func (s memoryStore) RemoveAdmin(ctx context.Context, actor, target uuid.UUID, reason string) error {
	return s.RevokeAdmin(ctx, actor, target, reason)
}
