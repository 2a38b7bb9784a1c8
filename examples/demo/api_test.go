package main

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/examples/shop"
)

// TestAPIRefuses asks for what nobody may have, and for nonsense.
func TestAPIRefuses(t *testing.T) {
	t.Parallel()
	s, err := shop.Open(t.Context(), newDatabase(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	api, err := s.API(shop.Secrets{GitHub: "secret", Payments: standardSecret()})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api)
	defer server.Close()
	for _, email := range []string{"ann@shop.example", "eve@shop.example"} {
		if _, err := s.Hire(t.Context(), "Somebody", email, "pass"); err != nil {
			t.Fatal(err)
		}
	}
	c := newClient(server.URL)
	signedIn := signIn(t, c, "eve@shop.example", "pass")
	type body map[string]string
	for _, test := range []struct {
		route, token string
		in           any
		want         string
	}{
		{"POST /signin", "", body{"email": "ann@shop.example", "password": "wrong"}, "401 SIGN_IN_FAILED"},
		{"POST /signin", "", body{"email": "nobody@shop.example", "password": "pass"}, "401 SIGN_IN_FAILED"},
		{"POST /signin", "", body{"e-mail": "ann@shop.example"}, "400 BAD_REQUEST"},
		{"POST /signin", "", body{"email": strings.Repeat("a", 9000)}, "400 BAD_REQUEST"},
		{"POST /admins/invite", "", body{"email": "ann@shop.example"}, "401 UNAUTHORIZED"},
		{"POST /admins/invite", "x", body{"email": "ann@shop.example"}, "401 INVALID_TOKEN"},
		{"POST /admins/invite", signedIn, body{"email": "ann@shop.example"}, "403 ADMIN_REQUIRED"},
		{"POST /admins/invite", signedIn, body{"email": "nobody@shop.example"}, "400 PRINCIPAL_NOT_FOUND"},
		{"POST /admins/accept", "", body{"secret": "x"}, "400 INVITATION_INVALID"},
		{"POST /admins/remove", signedIn, body{"userId": "x"}, "403 REMOVE_FORBIDDEN"},
		{"POST /hooks/github", "", body{"ref": "x"}, "401"},
	} {
		got, err := c.call(t.Context(), test.route, test.token, test.in, nil)
		if err != nil || fmt.Sprint(got) != test.want {
			t.Errorf("%s %.60v: %v, %v; want %s", test.route, test.in, got, err, test.want)
		}
	}
}

func signIn(t *testing.T, c *client, email, password string) string {
	t.Helper()
	var out struct{ Token string }
	got, err := c.call(t.Context(), "POST /signin", "", map[string]string{"email": email, "password": password}, &out)
	if err != nil || got.Status != 200 {
		t.Fatalf("sign in: %v, %v", got, err)
	}
	return out.Token
}

// TestOnlyPublicPackages keeps the example a stranger: Go itself would let it in, as its path begins like pgrail's.
func TestOnlyPublicPackages(t *testing.T) {
	imports := regexp.MustCompile(`"(github\.com/openlup/pgrail/internal[^"]*)"`)
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		source, err := os.ReadFile(path)
		if diff := cmp.Diff([]string(nil), imports.FindAllString(string(source), -1)); diff != "" {
			t.Errorf("%s imports what is not public:\n%s", path, diff)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
