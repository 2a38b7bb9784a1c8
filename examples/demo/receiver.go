package main

import (
	"hash/fnv"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/webhook"
)

// receiver stands for another service. It takes in signed deliveries and misbehaves on purpose, with the same events in
// every run.
type receiver struct{ books *books }

// mood is a way to misbehave.
type mood struct {
	share  uint32 // of the events, in thousandths
	always bool   // at every try, not at the first one only
	answer func(b *books, id uuid.UUID, w http.ResponseWriter, r *http.Request)
}

var moods = []mood{
	{15, false, busy},
	{10, false, slow},
	{10, false, reset},
	{2, true, refuse},
}

// ServeHTTP knows the event by the message id, which is signed.
func (s *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	delivery, _ := webhook.FromContext(r.Context())
	id, err := uuid.Parse(delivery.ID)
	if err != nil {
		http.Error(w, "the message id is no UUID", http.StatusBadRequest)
		return
	}
	first := s.books.tried(id, r.Header.Get("Event-Type")) == 1
	if mood := moodOf(r.Header.Get("Event-Key")); mood != nil && (first || mood.always) {
		mood.answer(s.books, id, w, r)
		return
	}
	s.books.arrived(id)
	w.WriteHeader(http.StatusNoContent)
}

// moodOf is nil for most events, and always the same for one key.
func moodOf(key string) *mood {
	dice := fnv.New32a()
	_, _ = dice.Write([]byte(key))
	left := dice.Sum32() % 1000
	for i := range moods {
		if left < moods[i].share {
			return &moods[i]
		}
		left -= moods[i].share
	}
	return nil
}

// busy is an overload, with a word about when to come again.
func busy(_ *books, _ uuid.UUID, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "too busy", http.StatusServiceUnavailable)
}

// slow has not even begun when the sender gives up.
func slow(_ *books, _ uuid.UUID, _ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(5 * time.Second):
	}
}

// reset takes the event and loses the connection before it can say so: the sender must send it again, and the receiver will
// see it twice.
func reset(b *books, id uuid.UUID, w http.ResponseWriter, _ *http.Request) {
	b.arrived(id)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// refuse says that no repetition will help.
func refuse(_ *books, _ uuid.UUID, w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "not in this form", http.StatusUnprocessableEntity)
}
