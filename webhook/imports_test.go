package webhook_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What an application compiles for verifying webhooks: these two packages and the standard library without testing.
func TestImports(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{.ImportPath}} {{.Standard}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	var foreign []string
	for line := range strings.Lines(string(out)) {
		path, standard, _ := strings.Cut(strings.TrimSpace(line), " ")
		if standard == "false" || path == "testing" {
			foreign = append(foreign, path)
		}
	}
	want := []string{"github.com/openlup/pgrail/internal/webhook", "github.com/openlup/pgrail/webhook"}
	if slices.Sort(foreign); !slices.Equal(foreign, want) {
		t.Errorf("packages from outside the standard library: %v, want %v", foreign, want)
	}
}
