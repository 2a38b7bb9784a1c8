//go:build !unix

package server

import (
	"context"
	"errors"
	"time"
)

var errNotUnix = errors.New("a local server needs a Unix system")

type owner struct{}

func findOwner() (*owner, error) { return nil, errNotUnix }

func (*owner) mkdirTemp(string) (string, error) { return "", errNotUnix }

func (*owner) run(context.Context, string, string, ...string) error { return errNotUnix }

func (*owner) copyDir(string, string) error { return errNotUnix }

func (*owner) writeFile(string, string) error { return errNotUnix }

func (*owner) watch(string, string) (*guard, error) { return nil, errNotUnix }

type guard struct{ note string }

func (*guard) keep(time.Duration) error { return errNotUnix }

func (*guard) release() error { return errNotUnix }
