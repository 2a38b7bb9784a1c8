package inbox

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"

	"github.com/openlup/pgrail/webhook"
)

// retryAfter is in seconds. Senders have a schedule of their own, by which few of them look at it.
const retryAfter = "10"

// Answer writes the answer to a delivery that the middleware of a [webhook.Verifier] has passed on, with the status of
// [StatusCode]: an empty one for a nil error, else a fixed text and a reference, beside which the log has the reason.
func (in *Inbox) Answer(w http.ResponseWriter, r *http.Request, err error) {
	status := StatusCode(err)
	if status == http.StatusOK {
		w.WriteHeader(status)
		return
	}
	reference := rand.Text()
	in.log(r.Context(), status, reference, err)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	http.Error(w, publicText(status)+" (reference "+reference+")", status)
}

func publicText(status int) string {
	switch status {
	case http.StatusServiceUnavailable:
		return "temporarily unavailable"
	case http.StatusInternalServerError:
		return "delivery failed"
	}
	return "delivery refused"
}

// log takes a sender that has hung up for no failure of ours.
func (in *Inbox) log(ctx context.Context, status int, reference string, err error) {
	level := slog.LevelError
	switch {
	case ctx.Err() != nil:
		level = slog.LevelInfo
	case status < http.StatusInternalServerError:
		level = slog.LevelWarn
	}
	d, _ := webhook.FromContext(ctx)
	in.config.Logger.LogAttrs(ctx, level, "webhook not taken in",
		slog.String("source", in.config.Source), slog.String("key", d.Key()), slog.Int("status", status),
		slog.String("reference", reference), slog.String("reason", discreet(err)))
}

// logReceipt warns of an event that was swallowed: another one has its key and says something else.
func (in *Inbox) logReceipt(ctx context.Context, m message, receipt Receipt) {
	level, text := slog.LevelDebug, "webhook taken in"
	if receipt.Event.Duplicate && !receipt.Event.SamePayload {
		level, text = slog.LevelWarn, "webhook taken in, but another event has its event's key"
	}
	in.config.Logger.LogAttrs(ctx, level, text, slog.String("source", in.config.Source), slog.String("key", m.key),
		slog.String("outcome", string(receipt.Outcome)), slog.Any("event", receipt.Event.ID))
}
