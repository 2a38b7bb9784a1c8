package webhook

import (
	"io"
	"net/http"
	"time"
)

// Stream hashes a body while it is read and holds its last byte back until the signature has matched: whatever declared
// the body's length to somebody else cannot complete it with bytes that were not proved.
type Stream struct {
	body    *body
	attempt attempt
	held    byte
	holding bool
	err     error
}

// Stream refuses at once what the headers or the declared length rule out.
func (r *Keyring) Stream(req *http.Request, limit int64, now time.Time) (*Stream, error) {
	b, err := openBody(req, limit)
	if err != nil {
		return nil, err
	}
	a, err := r.begin(req.Header, now)
	if err != nil {
		return nil, err
	}
	return &Stream{body: b, attempt: a}, nil
}

// Read ends with io.EOF only after the signature has matched.
func (s *Stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for s.err == nil {
		if n := s.fill(p); n > 0 {
			return n, nil
		}
	}
	if s.holding {
		p[0], s.holding = s.held, false
		return 1, nil
	}
	return 0, s.err
}

// Close closes the request's body.
func (s *Stream) Close() error { return s.body.src.Close() }

func (s *Stream) fill(p []byte) int {
	n, err := s.body.Read(p)
	s.attempt.write(p[:n])
	n = s.hold(p[:n])
	if err == io.EOF {
		err = s.end()
	}
	if err != nil && err != io.EOF {
		s.holding = false
	}
	s.err = err
	return n
}

func (s *Stream) end() error {
	if err := s.attempt.verdict(); err != nil {
		return err
	}
	return io.EOF
}

// hold gives out the byte held so far and keeps the newest one.
func (s *Stream) hold(p []byte) int {
	if len(p) == 0 {
		return 0
	}
	newest := p[len(p)-1]
	n := len(p) - 1
	if s.holding {
		copy(p[1:], p[:n])
		p[0] = s.held
		n++
	}
	s.held, s.holding = newest, true
	return n
}
