package outbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestGateHandsOutWhatIsFree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGate(5)
		if a, b := g.take(t.Context(), 3), g.take(t.Context(), 3); a != 3 || b != 2 {
			t.Fatalf("took %d and %d of 5", a, b)
		}
		got := make(chan int)
		go func() { got <- g.take(t.Context(), 4) }()
		synctest.Wait()
		select {
		case n := <-got:
			t.Fatalf("took %d of none", n)
		default:
		}
		g.give(2)
		if n := <-got; n != 2 {
			t.Errorf("took %d of the 2 given back", n)
		}
		g.give(0)
		g.give(5)
		if n := g.take(t.Context(), 10); n != 5 {
			t.Errorf("took %d of 5", n)
		}
	})
}

func TestGateEndsWithTheContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGate(1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 {
			if n := g.take(ctx, 1); n != 0 {
				t.Fatalf("took %d after the end", n)
			}
		}
		g.take(t.Context(), 1)
		waiting, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n := g.take(waiting, 1); n != 0 {
			t.Errorf("took %d of none", n)
		}
	})
}

func TestGateTakesAllOrNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGate(4)
		g.take(t.Context(), 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if g.takeAll(ctx, 4) {
			t.Fatal("took four of two")
		}
		if n := g.take(t.Context(), 9); n != 2 {
			t.Fatalf("%d are left after giving up, want 2", n)
		}
		go func() {
			for range 4 {
				elapse(time.Second) // handlers that end one after the other
				g.give(1)
			}
		}()
		if !g.takeAll(t.Context(), 4) || g.tryTake(1) != 0 {
			t.Error("did not get all four")
		}
	})
}
