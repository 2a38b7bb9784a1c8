package outbox

import (
	"testing"

	"github.com/openlup/pgrail/internal/pgtest"
)

// Main also fails when goroutines are left.
func TestMain(m *testing.M) { pgtest.Main(m) }
