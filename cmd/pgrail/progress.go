package main

import (
	"context"
	"log/slog"
)

// fileHandler notes each migration as it is applied, and remembers it.
type fileHandler struct {
	a    *app
	done *migrated
}

func (h *fileHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *fileHandler) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "file" {
			h.done.Applied = append(h.done.Applied, attr.Value.String())
			h.a.note("applying %s", attr.Value)
		}
		return true
	})
	return nil
}

func (h *fileHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *fileHandler) WithGroup(string) slog.Handler      { return h }
