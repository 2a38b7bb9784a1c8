package db_test

import (
	_ "embed"
	"math/rand/v2"
	"testing"
)

//go:embed testdata/claim_model.sql
var claimModel string

// Points 1 to 3 of the contract, in random states of the rail: whatever lanes the events have got into, a claim discards and
// hands out what it would if there were none.
func TestClaimAgainstModel(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	s := r.session()
	s.exec(claimModel)
	seed := rand.Float64()
	t.Logf("seed %v", seed)
	s.exec(`select setseed($1)`, seed)
	s.exec(`call public.claim_model(60)`)
}
