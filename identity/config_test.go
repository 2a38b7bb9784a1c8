package identity_test

import (
	"errors"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/identity"
	"github.com/openlup/pgrail/identitytest"
)

func TestNewRefusesByField(t *testing.T) {
	var nilGateway *identitytest.Memory
	partial := identity.English()
	partial.RevokeFailed = nil
	tests := map[string]struct {
		config identity.Config
		field  string
	}{
		"no gateway":        {identity.Config{}, "Gateway"},
		"typed-nil gateway": {identity.Config{Gateway: nilGateway}, "Gateway"},
		"one text only":     {identity.Config{Gateway: script(), Messages: identity.Messages{LastAdmin: "x"}}, "Messages.Unauthorized"},
		"no hook":           {identity.Config{Gateway: script(), Messages: partial}, "Messages.RevokeFailed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := identity.New(test.config)
			var refused *identity.ConfigError
			if !errors.As(err, &refused) || refused.Field != test.field {
				t.Errorf("error %v: want a ConfigError for %s", err, test.field)
			}
		})
	}
}

// TestLanguagesAreComplete: every text of both languages is there, differs from the others and from its translation.
func TestLanguagesAreComplete(t *testing.T) {
	seen := map[string]string{}
	for language, messages := range map[string]identity.Messages{"English": identity.English(), "German": identity.German()} {
		value := reflect.ValueOf(messages)
		for i := range value.NumField() {
			name, text := value.Type().Field(i).Name, messages.RevokeFailed("the cause")
			if field := value.Field(i); field.Kind() == reflect.String {
				text = field.String()
			}
			if other, twice := seen[text]; text == "" || twice || strings.Contains(text, "the cause") {
				t.Errorf("%s %s: %q is empty, tells the cause, or is also %s", language, name, text, other)
			}
			seen[text] = language + " " + name
		}
	}
}

func TestErrorsMatchByWhatTheyName(t *testing.T) {
	cause := errors.New("cause")
	token := error(&identity.RevokeError{Token: identity.TokenForbidden, Err: cause})
	code := error(&identity.StoreError{Code: "A", Kind: identity.KindConflict, Err: cause})
	lookup := error(&identity.LookupError{Err: cause})
	got := []bool{
		errors.Is(token, &identity.RevokeError{Token: identity.TokenForbidden}), errors.Is(token, cause),
		errors.Is(code, &identity.StoreError{Code: "A"}), errors.Is(code, cause), errors.Is(lookup, cause),
		errors.Is(token, &identity.RevokeError{Token: identity.TokenTargetNotFound}), errors.Is(code, &identity.StoreError{Code: "B"}),
	}
	if diff := cmp.Diff([]bool{true, true, true, true, true, false, false}, got); diff != "" {
		t.Errorf("matches (-want +got):\n%s", diff)
	}
}

// TestImports keeps drivers and testing out of every application that imports this package.
func TestImports(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	var foreign []string
	for path := range strings.FieldsSeq(string(out)) {
		first, _, _ := strings.Cut(path, "/")
		if strings.Contains(first, ".") || path == "testing" {
			foreign = append(foreign, path)
		}
	}
	want := []string{"github.com/google/uuid", "github.com/openlup/pgrail/internal/identity", "github.com/openlup/pgrail/identity"}
	if diff := cmp.Diff(want, foreign); diff != "" {
		t.Errorf("imports beside the standard library (-want +got):\n%s", diff)
	}
}
