package outbox

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// journal keeps what is logged.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// lines counts the lines with all of the given words.
func (j *journal) lines(words ...string) (n int) {
	for line := range strings.Lines(j.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

func newLogger(log *journal) *slog.Logger {
	return slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
