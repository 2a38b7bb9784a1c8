package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
)

func (s *Service) answer(r reply, cause error) Answer {
	return Answer{Status: r.status, Code: r.code, Error: r.text(&s.Messages), Cause: cause}
}

// Explain answers an error outside of RemoveAdmin as RemoveAdmin would have.
func (s *Service) Explain(ctx context.Context, err error) (answer Answer) {
	defer s.settle(&attempt{ctx: ctx}, &answer)
	return s.storeFailure(err)
}

// failure answers a failed revoke by the error table.
func (s *Service) failure(err error) Answer {
	if row, ok := recognise(err); ok {
		return s.answer(row.reply, err)
	}
	text := err.Error()
	if text == "" {
		text = textless
	}
	return failed(revokeFailed, s.Messages.RevokeFailed(text), err)
}

// storeFailure lets a store's own code go first.
func (s *Service) storeFailure(err error) Answer {
	var refusal interface{ StoreRefusal() (code, kind string) }
	if errors.As(err, &refusal) {
		if code, kind := refusal.StoreRefusal(); code != "" {
			return Answer{Status: kindStatus(kind), Code: code, Error: code, Cause: err}
		}
	}
	return s.failure(err)
}

func kindStatus(kind string) int {
	if status, ok := storeKinds[kind]; ok {
		return status
	}
	return http.StatusConflict
}

func (s *Service) broken(cause error) Answer {
	return failed(actionFailed, s.Messages.ActionFailed, cause)
}

// failed is every answer of 500. Its reference is all that joins what the client sees to what the log says.
func failed(code, text string, cause error) Answer {
	return Answer{Status: http.StatusInternalServerError, Code: code, Error: text, Reference: rand.Text(), Cause: cause}
}

// log tells of every answer but a passed Authenticate. Neither the access token nor the reason is among the attributes.
func (s *Service) log(t *attempt, a Answer) {
	if a.Status == 0 {
		return
	}
	attrs := []slog.Attr{slog.Int("status", a.Status), slog.String("code", a.Code),
		slog.String("actor", t.user.String()), slog.String("target", t.target.String())}
	if a.Status < http.StatusInternalServerError {
		s.Logger.LogAttrs(t.ctx, slog.LevelInfo, "identity: answered", append(attrs, cause(a.Cause)...)...)
		return
	}
	attrs = append(attrs, slog.String("reference", a.Reference))
	s.Logger.LogAttrs(t.ctx, slog.LevelError, "identity: failed", append(attrs, cause(a.Cause)...)...)
}

func cause(err error) []slog.Attr {
	if err == nil {
		return nil
	}
	attrs := []slog.Attr{slog.String("error", err.Error())}
	var caught *PanicError
	if errors.As(err, &caught) {
		attrs = append(attrs, slog.String("stack", string(caught.Stack)))
	}
	return attrs
}
