package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// aggregate names one as TYPE/ID.
type aggregate struct {
	kind string
	id   uuid.UUID
}

func (a *aggregate) UnmarshalText(text []byte) error {
	// The id has no slash; a type may have.
	cut := strings.LastIndexByte(string(text), '/')
	if cut < 1 {
		return fmt.Errorf("%q is no aggregate: write TYPE/ID, as in order/%s", text, sampleID)
	}
	id, err := parseID(string(text[cut+1:]))
	*a = aggregate{string(text[:cut]), id}
	return err
}

func (a aggregate) String() string { return a.kind + "/" + a.id.String() }

// tableName is the table that records the applied migrations, as package migrate takes it.
type tableName string

var inSchema = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}\.[a-z_][a-z0-9_]{0,62}$`)

func (n *tableName) UnmarshalText(text []byte) error {
	if !inSchema.Match(text) {
		return fmt.Errorf("%q is no table: write schema.table in lower-case letters, digits and underscores", text)
	}
	*n = tableName(text)
	return nil
}

// eventID is an event's id on the command line.
type eventID uuid.UUID

func (e *eventID) UnmarshalText(text []byte) error {
	id, err := parseID(string(text))
	*e = eventID(id)
	return err
}

const sampleID = "019a2b3c-4d5e-7f60-8123-456789abcdef"

func parseID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return id, fmt.Errorf("%q is no id: one looks like %s", text, sampleID)
	}
	return id, nil
}

// days is a duration that people may also give in days or weeks.
type days time.Duration

var inDays = regexp.MustCompile(`^(\d{1,5})([dw])$`)

func (d *days) UnmarshalText(text []byte) error {
	if m := inDays.FindSubmatch(text); m != nil {
		n, err := strconv.Atoi(string(m[1]))
		if m[2][0] == 'w' {
			n *= 7
		}
		*d = days(time.Duration(min(n, maxDays)) * 24 * time.Hour)
		return err
	}
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed < 0 {
		return fmt.Errorf("%q is no duration of 0 or more: write 90s, 12h, 30d or 8w", text)
	}
	*d = days(parsed)
	return nil
}

// maxDays is what pruning takes for the longest: a hundred years.
const maxDays = 36500
