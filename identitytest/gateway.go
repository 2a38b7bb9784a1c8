// Package identitytest holds what tests of and with package identity need: a conformance kit for gateways, the vectors of
// RemoveAdmin, a scripted gateway and one in memory. It imports testing, so only tests should import it.
package identitytest

import (
	"testing"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/identity"
)

// Fixture is one empty directory and what the kit needs to fill it. Its functions end the test themselves on failure.
type Fixture struct {
	Gateway     identity.Gateway
	Invitations identity.InvitationStore // nil if the directory has none; else every rule runs through it too

	// Add creates an active account of this sort and answers its id and a good access token. The first one that it is
	// asked for is always a human admin.
	Add func(Sort) Account
	// Disable makes an account inactive, whatever it is.
	Disable func(id uuid.UUID)
	// Audit counts the recorded changes and refusals; nil if the directory keeps no audit.
	Audit func() (changes, refusals int)
}

// Account is a user of the directory.
type Account struct {
	ID    uuid.UUID
	Token string
}

// Sort is what an account is.
type Sort int

// The sorts. Only HumanAdmin counts when it is asked whether an admin remains.
const (
	HumanAdmin Sort = iota
	MachineAdmin
	Invited // a human who has not accepted yet
	Human   // without any rights
)

// TestGateway checks a gateway, and the invitation store beside it, against every rule of the contract, each in a subtest
// of its own with a fixture of its own. newGateway must answer an empty directory that may be used concurrently.
func TestGateway(t *testing.T, newGateway func(*testing.T) Fixture) {
	runRules(t, "gateway", func(t *testing.T) Fixture {
		fixture := newGateway(t)
		fixture.Invitations = nil
		return fixture
	})
	if newGateway(t).Invitations != nil {
		runRules(t, "invitations", newGateway)
	}
}

func runRules(t *testing.T, path string, newFixture func(*testing.T) Fixture) {
	for _, r := range rules {
		t.Run(path+"/"+r.name, func(t *testing.T) {
			if err := r.broken(newWorld(newFixture(t))); err != nil {
				t.Error(err)
			}
		})
	}
}
