package event_test

import (
	"testing"

	"github.com/openlup/pgrail/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
