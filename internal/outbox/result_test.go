package outbox

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

// Case D5, the error texts: whatever a handler says can be stored.
func TestD5_ErrorTextsAreCleaned(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "",
		"plain":                      "plain",
		"bad \xff\xfe bytes":         "bad \uFFFD bytes",
		"nul\x00nul":                 "nul\uFFFDnul",
		strings.Repeat("ü", 2000):    strings.Repeat("ü", 2000),
		strings.Repeat("ü", 2001):    strings.Repeat("ü", 2000),
		strings.Repeat("😀", 100_000): strings.Repeat("😀", 2000),
		"cut in the middle" + strings.Repeat("\xe2\x82", 5000): "cut in the middle\uFFFD",
	} {
		if got := cleanError(text); got != want || !utf8.ValidString(got) {
			t.Errorf("%.20q (%d): %.40q (%d), want %.40q", text, len(text), got, len(got), want)
		}
	}
}

// Case G4, the part in one goroutine: whatever ends a handler, its result is delivered, once.
func TestG4_GuardedDelivers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fn   func() Result
		want []string
	}{
		"return":        {func() Result { return Result{Outcome: Processed} }, nil},
		"panic(err)":    {func() Result { panic(errors.New("the reason")) }, []string{"panic: the reason", "result_test.go"}},
		"panic(nil)":    {func() Result { panic(nil) }, []string{"panic", "nil", "result_test.go"}},
		"panic(string)": {func() Result { panic("text") }, []string{"panic: text"}},
		"nil map":       {func() Result { nilMap()[1] = 1; return Result{} }, []string{"nil map"}},
		"Goexit":        {func() Result { runtime.Goexit(); return Result{} }, []string{"runtime.Goexit"}},
		"deep panic":    {func() Result { return deep(500) }, []string{"panic: deep"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := make(chan Result, 2)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				guarded(c.fn, func(r Result) { results <- r })
			}()
			<-ended
			if len(results) != 1 {
				t.Fatalf("%d results", len(results))
			}
			got := <-results
			if c.want == nil && got != (Result{Outcome: Processed}) || c.want != nil && (got.Outcome != Retry || got.Delay != -1) {
				t.Errorf("got %+v", got)
			}
			for _, want := range c.want {
				if !strings.Contains(got.Error, want) {
					t.Errorf("%q does not say %q", got.Error, want)
				}
			}
			if len(got.Error) > maxStack+100 {
				t.Errorf("a stack of %d bytes", len(got.Error))
			}
		})
	}
}

func deep(n int) Result {
	if n == 0 {
		panic("deep")
	}
	return deep(n - 1)
}

// nilMap hides from analysers what the runtime is to find.
func nilMap() map[int]int { return nil }

// ways are the ways in which a handler can end besides returning.
var ways = []func(){
	func() { panic(errors.New("an error")) },
	func() { panic(nil) },
	func() { runtime.Goexit() },
	func() { panic("text") },
	func() { nilMap()[1] = 1 },
}
