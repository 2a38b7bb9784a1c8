package main

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/outbox"
)

type statusCmd struct {
	Limit int  `default:"10000" help:"Count no further than this, from 1 to 1000000."`
	Top   int  `default:"20" help:"List no more aggregates than this, from 1 to 1000."`
	Idle  days `default:"5m" help:"Nobody claims a type whose oldest due event has waited for this long."`
	Older days `default:"1m" help:"Leave out aggregates that stand still for less than this."`
}

// status is the command's result in JSON.
type status struct {
	Types   []typeStatus    `json:"types"`
	Workers []workerStatus  `json:"workers"`
	Halted  []haltedStatus  `json:"halted"`
	Blocked []blockedStatus `json:"blocked"`
}

type typeStatus struct {
	EventType        string  `json:"event_type"`
	Waiting          int64   `json:"waiting"`
	Due              int64   `json:"due"`
	InFlight         int64   `json:"in_flight"`
	Failed           int64   `json:"failed"`
	Blocked          int64   `json:"blocked"`
	Discarded        int64   `json:"discarded"`
	OldestAgeSeconds float64 `json:"oldest_age_seconds"`
	PerSecond        float64 `json:"per_second"`
	Dormant          bool    `json:"dormant"`
	Unclaimed        bool    `json:"unclaimed"`
}

type workerStatus struct {
	ID            string   `json:"id"`
	EventTypes    []string `json:"event_types"`
	UpSeconds     float64  `json:"up_seconds"`
	SilentSeconds float64  `json:"silent_seconds"`
}

type haltedStatus struct {
	Aggregate string    `json:"aggregate"`
	EventID   string    `json:"event_id"`
	EventType string    `json:"event_type"`
	Reason    string    `json:"reason"`
	HaltedAt  time.Time `json:"halted_at"`
}

type blockedStatus struct {
	Aggregate     string  `json:"aggregate"`
	EventID       string  `json:"event_id"`
	EventType     string  `json:"event_type"`
	Status        string  `json:"status"`
	Reason        string  `json:"reason"`
	Attempts      int32   `json:"attempts"`
	AgeSeconds    float64 `json:"age_seconds"`
	DueInSeconds  float64 `json:"due_in_seconds"`
	WaitingBehind int64   `json:"waiting_behind"`
}

// Validate is called by kong.
func (c statusCmd) Validate() error {
	if c.Limit < 1 || c.Limit > 1_000_000 {
		return fail(exitUse, "--limit must be 1 to 1000000")
	}
	if c.Top < 1 || c.Top > 1000 {
		return fail(exitUse, "--top must be 1 to 1000")
	}
	return nil
}

func (c statusCmd) Run(a *app) error {
	return a.withConn(func(conn *pgx.Conn) error {
		var s status
		err := a.read(conn, func(tx pgx.Tx) (err error) {
			s, err = c.read(a, tx)
			return err
		})
		if err != nil {
			return err
		}
		return a.print(s, func(t *table) { c.show(s, t) })
	})
}

func (c statusCmd) read(a *app, tx pgx.Tx) (status, error) {
	q := db.New(tx)
	s := status{Types: []typeStatus{}, Workers: []workerStatus{}, Halted: []haltedStatus{}, Blocked: []blockedStatus{}}
	types, err := q.OperateOverview(a.ctx, db.OperateOverviewParams{AtMost: int32(c.Limit), IdleSeconds: time.Duration(c.Idle).Seconds()})
	if err != nil {
		return s, err
	}
	for _, row := range types {
		row.OldestAgeSeconds, row.PerSecond = seconds(inSeconds(row.OldestAgeSeconds)), seconds(inSeconds(row.PerSecond))
		s.Types = append(s.Types, typeStatus(row))
	}
	workers, err := q.OperateWorkers(a.ctx)
	if err != nil {
		return s, err
	}
	for _, w := range workers {
		s.Workers = append(s.Workers, workerStatus{w.Holder.String(), w.EventTypes, seconds(inSeconds(w.UpSeconds)), seconds(inSeconds(w.SilentSeconds))})
	}
	halted, err := outbox.Halted(a.ctx, tx, c.Top)
	if err != nil {
		return s, err
	}
	for _, h := range halted {
		s.Halted = append(s.Halted, haltedStatus{aggregate{h.AggregateType, h.AggregateID}.String(), h.EventID.String(), h.EventType, h.Reason, h.HaltedAt})
	}
	blocked, err := q.OperateBlockedAggregates(a.ctx, db.OperateBlockedAggregatesParams{
		OlderSeconds: time.Duration(c.Older).Seconds(), AtMost: int32(c.Top),
	})
	for _, b := range blocked {
		s.Blocked = append(s.Blocked, blockedStatus{
			aggregate{b.AggregateType, b.AggregateID}.String(), b.EventID.String(), b.EventType, b.Status, b.Reason, b.Attempts,
			seconds(inSeconds(b.AgeSeconds)), seconds(inSeconds(b.DueInSeconds)), b.WaitingBehind,
		})
	}
	return s, err
}
