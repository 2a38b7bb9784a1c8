package identity

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"runtime/debug"

	"github.com/google/uuid"
)

// Service walks the tables for one gateway.
type Service struct {
	Gateway     Gateway
	Invitations InvitationStore
	Messages    Messages
	Logger      *slog.Logger
}

// RemoveAdmin asks the checks one after the other, then removes.
func (s *Service) RemoveAdmin(ctx context.Context, request Request) (answer Answer) {
	t := newAttempt(ctx, s.Gateway, request)
	defer s.settle(t, &answer)
	if answer, passed := s.walk(t, checks); !passed {
		return answer
	}
	if !IsNil(s.Invitations) {
		return s.outcome(s.Invitations.RemoveAdmin(ctx, t.user, t.target, request.Reason), s.storeFailure)
	}
	return s.outcome(s.Gateway.RevokeAdmin(ctx, t.user, t.target, request.Reason), s.failure)
}

// Authenticate asks the first checks only.
func (s *Service) Authenticate(ctx context.Context, accessToken string) (user uuid.UUID, answer Answer) {
	t := newAttempt(ctx, s.Gateway, Request{AccessToken: accessToken})
	defer s.settle(t, &answer)
	answer, _ = s.walk(t, authentication)
	return t.user, answer
}

// walk answers by the first row that fails.
func (s *Service) walk(t *attempt, rows []check) (Answer, bool) {
	for _, row := range rows {
		failed, err := row.fails(t)
		switch {
		case failed:
			return s.refuse(t, row.reply, err), false
		case err != nil:
			return s.broken(err), false
		}
	}
	return Answer{}, true
}

// refuse has a refusal recorded once the caller is known. Strangers are only logged: an append-only table that anyone can
// fill without a token would be an outage in waiting.
func (s *Service) refuse(t *attempt, r reply, cause error) Answer {
	if recorder, ok := s.Gateway.(RefusalRecorder); ok && t.user != uuid.Nil {
		if err := recorder.RecordRefusal(t.ctx, t.user, t.target, t.request.Reason, r.code); err != nil {
			return s.broken(err)
		}
	}
	return s.answer(r, cause)
}

func (s *Service) outcome(err error, failure func(error) Answer) Answer {
	if err != nil {
		return failure(err)
	}
	return Answer{Status: http.StatusOK, Revoked: true}
}

// settle turns a panic into an answer and logs what was answered. It is deferred, so recover works in it.
func (s *Service) settle(t *attempt, answer *Answer) {
	if value := recover(); value != nil {
		*answer = s.broken(&PanicError{Value: value, Stack: debug.Stack()})
	}
	s.log(t, *answer)
}

// IsNil is true for nil and for an interface that holds a nil pointer, map or function, which == nil does not see.
func IsNil(v any) bool {
	if v == nil {
		return true
	}
	switch value := reflect.ValueOf(v); value.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Func, reflect.Chan, reflect.Slice:
		return value.IsNil()
	}
	return false
}
