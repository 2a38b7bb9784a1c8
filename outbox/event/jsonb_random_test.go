package event_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox/event"
)

// accepts tells for each text whether it is jsonb.
const accepts = `create function pg_temp.accepts(t text) returns boolean language plpgsql as
$$ begin perform t::jsonb; return true; exception when others then return false; end $$`

// Random texts of the pieces that are decided differently by encoding/json and jsonb, thousands at a time.
func TestRandomPayloadsAgreeWithPostgres(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t, pgtest.Empty()).Connect(t)
	if _, err := conn.Exec(t.Context(), accepts); err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	var texts []string
	for range 20_000 {
		texts = append(texts, randomJSON(random, 3))
	}
	var theirs []bool
	if err := conn.QueryRow(t.Context(), `select array_agg(pg_temp.accepts(x) order by o) from unnest($1::text[]) with ordinality u(x, o)`, texts).
		Scan(&theirs); err != nil {
		t.Fatal(err)
	}
	good, valid := 0, 0
	for i, text := range texts {
		mine := with(func(d *event.Draft) { d.Payload = json.RawMessage(text) }).Validate()
		if json.Valid([]byte(text)) {
			valid++
		}
		if mine == nil {
			good++
		}
		far := mine != nil && strings.Contains(mine.Error(), "beyond the range of numeric")
		if (mine == nil) != theirs[i] && !far {
			t.Errorf("seed %d: %q: here %v, there %v", seed, text, mine, theirs[i])
		}
		if far && theirs[i] && !strings.Contains(text, "0e") && !strings.Contains(text, ".0e") {
			t.Errorf("seed %d: %q fits, and is refused as too far-fetched", seed, text)
		}
	}
	if good < 1000 || valid-good < 1000 || len(texts)-valid < 1000 {
		t.Errorf("of %d texts %d pass, and %d of the valid ones do not: too one-sided", len(texts), good, valid-good)
	}
}

func randomJSON(r *rand.Rand, depth int) string {
	switch pick := r.IntN(6); {
	case depth == 0 || pick < 2:
		return randomNumber(r)
	case pick < 4:
		return randomString(r)
	case pick == 4:
		return "[" + randomJSON(r, depth-1) + ", " + randomJSON(r, depth-1) + "]"
	default:
		return "{" + randomString(r) + " : " + randomJSON(r, depth-1) + "}"
	}
}

func randomNumber(r *rand.Rand) string {
	whole := []string{"0", "7", "-3", "12", "-0", "4", "5", "01"}[r.IntN(8)]
	fraction := []string{"", "", ".5", ".25", ".0", "."}[r.IntN(6)]
	exponent := []string{"", "", "", "e3", "E-2", "e+5"}[r.IntN(6)]
	if r.IntN(8) == 0 {
		// Around the two ends of numeric.
		exponent = fmt.Sprintf("e%d", []int{131069, -16382}[r.IntN(2)]+r.IntN(5)-1)
	}
	return whole + fraction + exponent
}

func randomString(r *rand.Rand) string {
	pieces := []string{"a", "é", "\U0001F600", `\n`, `\"`, `\\`, `\/`, `\u0041`, `\u00e9`, `\ud83d\ude00`, `\ud83d`, `\ude00`, `\u0000`,
		`\uD800`, `u0000`, `ud800`, "\x7f", "\t", `\`, `\x`}
	var b strings.Builder
	b.WriteByte('"')
	for range r.IntN(4) {
		// The last two make no JSON at all, and are rare.
		b.WriteString(pieces[r.IntN(len(pieces)-2+r.IntN(3)/2*2)])
	}
	b.WriteByte('"')
	return b.String()
}
