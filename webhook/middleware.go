package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// Middleware returns a handler that reads and verifies each request and calls next with those that pass: their Body reads
// the exact bytes again, and [FromContext] has the [Delivery]. The others get the answer of [StatusCode] and are logged
// with the reason, at level Error if the server is at fault, Warn for a failed verification and Info for a bad body.
//
// The body must come within the time set by [WithReadTimeout]; where the connection supports no read deadline, the
// server's own limits are the only ones.
func (v *Verifier) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := v.receiveInTime(w, r)
		if err != nil {
			v.refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, withDelivery(r, d))
	})
}

// receiveInTime leaves the deadline standing after a body that failed: it bounds what the server still drains.
func (v *Verifier) receiveInTime(w http.ResponseWriter, r *http.Request) (Delivery, error) {
	control := http.NewResponseController(w)
	timed := control.SetReadDeadline(time.Now().Add(v.timeout)) == nil
	d, err := v.Receive(r)
	if timed && (err == nil || errors.Is(err, ErrInvalidSignature)) {
		// Left in place it could cancel the request's context while the handler works: see TestDeadlineEndsWithBody.
		_ = control.SetReadDeadline(time.Time{})
	}
	return d, err
}

func (v *Verifier) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := StatusCode(err)
	v.log(r.Context(), status, err)
	if status != http.StatusUnauthorized && r.ProtoMajor == 1 {
		// Otherwise the server would first read on, for the next request's sake, and the answer wait for the client.
		w.Header().Set("Connection", "close")
	}
	http.Error(w, publicText[status], status)
}

// publicText has one text for each status: what distinguishes causes within one is for the log.
var publicText = map[int]string{
	http.StatusBadRequest:            "unreadable body",
	http.StatusUnauthorized:          "invalid signature",
	http.StatusRequestTimeout:        "body not received in time",
	http.StatusRequestEntityTooLarge: "body too large",
}

func (v *Verifier) log(ctx context.Context, status int, err error) {
	level, reason := slog.LevelInfo, err.Error()
	var refused *SignatureError
	switch {
	case errors.As(err, &refused):
		level, reason = slog.LevelWarn, refused.Reason
	case errors.Is(err, ErrBodyConsumed):
		level = slog.LevelError
	}
	v.logger.LogAttrs(ctx, level, "webhook refused",
		slog.String("scheme", v.scheme), slog.Int("status", status), slog.String("reason", reason))
}

// withDelivery also corrects the length: a chunked body has a known one now.
func withDelivery(r *http.Request, d Delivery) *http.Request {
	r = r.WithContext(context.WithValue(r.Context(), contextKey{}, d))
	r.Body = io.NopCloser(bytes.NewReader(d.Body))
	r.ContentLength = int64(len(d.Body))
	return r
}
