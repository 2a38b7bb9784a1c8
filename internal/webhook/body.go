package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
)

// The faults of a body, documented in the public package.
var (
	ErrBodyConsumed   = errors.New("webhook: body already consumed")
	ErrBodyUnreadable = errors.New("webhook: body unreadable")
	ErrBodyTimeout    = errors.New("webhook: body not received in time")
)

// TooLarge is a body over its limit in bytes.
type TooLarge struct{ Limit int64 }

func (e *TooLarge) Error() string {
	return "webhook: body larger than " + strconv.FormatInt(e.Limit, 10) + " bytes"
}

// presize is what a declared length may reserve before a byte has come: a client that only declares costs no more.
const presize = 64 << 10

// ReadBody returns all of a request's body, or an error and not a byte of it.
func ReadBody(r *http.Request, limit int64) ([]byte, error) {
	b, err := openBody(r, limit)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	buf.Grow(int(min(max(b.declared, 0), presize)) + bytes.MinRead)
	if _, err := buf.ReadFrom(b); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// body counts what it reads, up to its limit, and says what went wrong in this package's terms.
type body struct {
	src      io.ReadCloser
	limit    int64
	declared int64 // Content-Length; negative if unknown
	parsed   bool  // a form parser has run
	read     int64
}

func openBody(r *http.Request, limit int64) (*body, error) {
	if r.ContentLength > limit {
		return nil, &TooLarge{limit}
	}
	b := &body{src: r.Body, limit: limit, declared: r.ContentLength}
	b.parsed = len(r.PostForm) > 0 || r.MultipartForm != nil
	if r.Body == nil {
		b.src = http.NoBody
	}
	return b, nil
}

// Read asks for one byte beyond the limit and no more: that byte tells too large from just full.
func (b *body) Read(p []byte) (int, error) {
	room := b.limit + 1 - b.read
	n, err := b.src.Read(p[:min(int64(len(p)), room)])
	b.read += int64(n)
	switch {
	case b.read > b.limit:
		return 0, &TooLarge{b.limit}
	case err == nil:
		return n, nil
	case err == io.EOF:
		return n, b.end()
	}
	return n, fault(err)
}

// end tells a whole body from one that other code has eaten: a server's own reader reports a client that sends less than
// it declared as io.ErrUnexpectedEOF, so a clean end before the declared length means that somebody read first.
func (b *body) end() error {
	switch {
	case b.read < b.declared:
		return fmt.Errorf("%w: %d of %d bytes were left", ErrBodyConsumed, b.read, b.declared)
	case b.read == 0 && b.parsed:
		return fmt.Errorf("%w: by a form parser", ErrBodyConsumed)
	}
	return io.EOF
}

func fault(err error) error {
	var capped *http.MaxBytesError
	var timed interface{ Timeout() bool }
	var quoting textproto.ProtocolError
	switch {
	case errors.As(err, &capped):
		return &TooLarge{capped.Limit}
	case errors.Is(err, http.ErrBodyReadAfterClose):
		return fmt.Errorf("%w: %w", ErrBodyConsumed, err)
	case errors.As(err, &timed) && timed.Timeout():
		return fmt.Errorf("%w: %w", ErrBodyTimeout, err)
	case errors.As(err, &quoting):
		// Its text repeats what the client wrote, which must not reach a log.
		return fmt.Errorf("%w: malformed trailer", ErrBodyUnreadable)
	}
	return fmt.Errorf("%w: %w", ErrBodyUnreadable, err)
}
