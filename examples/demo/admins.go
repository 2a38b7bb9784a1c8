package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
)

// person is a member of the staff.
type person struct {
	name, email, password string
	id                    uuid.UUID
	token                 string
}

// showAdmins goes through the life of an admin, and then has two of them remove each other: every time one must remain.
func (d *demo) showAdmins(ctx context.Context) error {
	s := &scene{demo: d, client: newClient(d.api)}
	ann := &person{name: "Ann", email: "ann@shop.example", password: "tea at four, sharp"}
	bob := &person{name: "Bob", email: "bob@shop.example", password: "coffee all day long"}
	s.hire(ctx, ann, bob)
	s.signIn(ctx, ann, "Ann signs in")
	s.signIn(ctx, bob, "Bob signs in")
	s.ask(ctx, "somebody guesses Ann's password", 401, "POST /signin", "", map[string]string{"email": ann.email, "password": "123456"}, nil)
	host, guest := s.hostAndGuest(ctx, ann, bob)
	s.admit(ctx, host, guest, host.name+" invites "+guest.name, guest.name+" accepts")
	s.remove(ctx, host, guest, host.name+" removes "+guest.name, 200)
	s.ask(ctx, guest.name+"'s token has ended with that", 401, "GET /admins", guest.token, nil, nil)
	s.remove(ctx, host, host, host.name+" removes "+host.name, 403)

	seen := map[string]int{}
	for range d.rounds {
		s.signIn(ctx, guest, "")
		s.admit(ctx, host, guest, "", "")
		var answers string
		answers, host, guest = s.removeEachOther(ctx, host, guest)
		seen[answers]++
	}
	s.say("%d times they remove each other at the same moment, and the answers are", d.rounds)
	for _, answers := range slices.Sorted(maps.Keys(seen)) {
		s.say("   %2d x %s", seen[answers], answers)
	}
	s.say("   one admin is left every time; now it is %s", host.name)
	return s.err
}

func (s *scene) hire(ctx context.Context, founder, other *person) {
	for _, p := range []*person{founder, other} {
		if s.err == nil {
			p.id, s.err = s.shop.Hire(ctx, p.name, p.email, p.password)
		}
	}
	if s.err == nil {
		s.err = s.shop.Found(ctx, founder.id)
	}
}

func (s *scene) signIn(ctx context.Context, p *person, what string) {
	var out struct{ Token string }
	s.ask(ctx, what, 200, "POST /signin", "", map[string]string{"email": p.email, "password": p.password}, &out)
	p.token = out.Token
}

func (s *scene) admit(ctx context.Context, host, guest *person, invites, accepts string) {
	var out struct{ Secret string }
	s.ask(ctx, invites, 201, "POST /admins/invite", host.token, map[string]string{"email": guest.email}, &out)
	s.ask(ctx, accepts, 200, "POST /admins/accept", "", map[string]string{"secret": out.Secret}, nil)
}

func (s *scene) remove(ctx context.Context, actor, target *person, what string, want int) {
	s.ask(ctx, what, want, "POST /admins/remove", actor.token, map[string]any{"userId": target.id, "reason": "demo"}, nil)
	if s.err == nil && want == 200 {
		s.books.revoked()
	}
}

// hostAndGuest finds who is an admin: in a new database the founder, later whoever an earlier run has left.
func (s *scene) hostAndGuest(ctx context.Context, ann, bob *person) (host, guest *person) {
	admins := s.admins(ctx, ann)
	switch {
	case s.err == nil && len(admins) == 1 && admins[0] == bob.id:
		return bob, ann
	case s.err == nil && slices.Contains(admins, ann.id) && slices.Contains(admins, bob.id):
		s.remove(ctx, ann, bob, "", 200) // an earlier run was stopped in between
		s.signIn(ctx, bob, "")
	case s.err == nil && !slices.Contains(admins, ann.id):
		s.err = errors.New("this database has admins of its own; give the demo one that it may have for itself")
	}
	return ann, bob
}

func (s *scene) admins(ctx context.Context, reader *person) (ids []uuid.UUID) {
	var out []struct{ ID uuid.UUID }
	s.ask(ctx, "", 200, "GET /admins", reader.token, nil, &out)
	for _, admin := range out {
		ids = append(ids, admin.ID)
	}
	return ids
}

// removeEachOther sends both requests at once and answers who is left, and who is not.
func (s *scene) removeEachOther(ctx context.Context, ann, bob *person) (answers string, host, guest *person) {
	if s.err != nil {
		return "", ann, bob
	}
	got, errs := [2]answer{}, [2]error{}
	start, done := make(chan struct{}), make(chan struct{})
	for i, pair := range [2][2]*person{{ann, bob}, {bob, ann}} {
		go func() {
			<-start
			got[i], errs[i] = s.client.call(ctx, "POST /admins/remove", pair[0].token, map[string]any{"userId": pair[1].id}, nil)
			done <- struct{}{}
		}()
	}
	close(start)
	<-done
	<-done
	host, guest, first, second := ann, bob, got[0], got[1]
	if second.Status == 200 {
		host, guest, first, second = bob, ann, got[1], got[0]
	}
	if s.err = errors.Join(errs[0], errs[1]); s.err != nil {
		return "", host, guest
	}
	s.books.revoked()
	answers = fmt.Sprintf("%v and %v", first, second)
	if left := s.admins(ctx, host); s.err == nil && (len(left) != 1 || left[0] != host.id || second.Status == 200) {
		s.err = fmt.Errorf("%s and %s removed each other, the answers were %s, and %d admins are left", ann.name, bob.name, answers, len(left))
	}
	return answers, host, guest
}
