package outbox

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/internal/db"
)

// maxAge bounds how far back pruning can look.
const maxAge = 100 * 365 * 24 * time.Hour

// checkTexts refuses what Postgres would refuse as text, and what is blank. Arguments come in pairs of name and value.
func checkTexts(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		name, value := pairs[i], pairs[i+1]
		problem := ""
		switch {
		case strings.TrimSpace(value) == "":
			problem = "blank"
		case !utf8.ValidString(value):
			problem = "not UTF-8"
		case strings.ContainsRune(value, 0):
			problem = "a text with a NUL character"
		default:
			continue
		}
		return &ConfigError{name, problem, "UTF-8, not blank, without NUL"}
	}
	return nil
}

func checkLimit(limit, most int) error {
	if limit < 1 || limit > most {
		return &ConfigError{"limit", limit, fmt.Sprintf("1 to %d", most)}
	}
	return nil
}

func checkAge(field string, age time.Duration) error {
	if age < 0 || age > maxAge {
		return &ConfigError{field, age, "0 to " + maxAge.String()}
	}
	return nil
}

// anyLimit is for counts and lists whose length is the caller's own affair.
const anyLimit = math.MaxInt32

// on returns the queries on tx. A nil one answers with an error instead of a panic.
func on(tx DB) *db.Queries {
	if tx == nil {
		tx = nowhere{}
	}
	return db.New(tx)
}

type nowhere struct{}

var errNowhere = &ConfigError{"tx", "nil", "a transaction, connection or pool"}

func (nowhere) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, errNowhere
}
func (nowhere) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, errNowhere }
func (nowhere) QueryRow(context.Context, string, ...any) pgx.Row        { return nowhere{} }
func (nowhere) Scan(...any) error                                       { return errNowhere }
