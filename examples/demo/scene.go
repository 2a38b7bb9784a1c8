package main

import (
	"context"
	"fmt"
	"net/http"
)

// scene is a sequence of requests with the answers they must get. After the first surprise the rest is left out.
type scene struct {
	*demo
	client *client
	err    error
}

// ask makes a request with a JSON body and prints what came of it.
func (s *scene) ask(ctx context.Context, what string, want int, route, token string, in, out any) {
	if s.err != nil {
		return
	}
	got, err := s.client.call(ctx, route, token, in, out)
	s.note(what, want, got, err)
}

// post sends a request that stands already.
func (s *scene) post(request *http.Request, what string, want int, out any) {
	if s.err != nil {
		return
	}
	got, err := s.client.send(request, out)
	s.note(what, want, got, err)
}

func (s *scene) note(what string, want int, got answer, err error) {
	switch {
	case err != nil:
		s.err = fmt.Errorf("%s: %w", what, err)
	case got.Status != want:
		s.err = fmt.Errorf("%s: the answer is %v and not %d", what, got, want)
	case what != "":
		s.say("%-58s %v", what, got)
	}
}

func (s *scene) say(format string, args ...any) {
	if s.err == nil {
		fmt.Fprintf(s.out, "   "+format+"\n", args...)
	}
}
