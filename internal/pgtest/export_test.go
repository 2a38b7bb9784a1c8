package pgtest

import (
	"testing"

	"github.com/openlup/pgrail/db"
)

// TemplateName is the name of the template for the files as they are.
func TemplateName(t *testing.T) string {
	t.Helper()
	name, err := templateName(db.Migrations)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// NameFor is the name of a database for the test of that name.
var (
	NameFor          = databaseName
	TemplateNameFrom = templateName
)
