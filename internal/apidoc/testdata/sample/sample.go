// Package sample has one of everything that a snapshot shows or leaves out.
package sample

import "errors"

// Documentation is left out.
const (
	// Limit is exported.
	Limit = 3
	hidden
)

// ErrSome is an error.
var ErrSome = errors.New("some") // and so are remarks

// Box holds things.
type Box struct {
	// Long is a field.
	Long int

	// B is one more, after a blank line.
	B      string
	secret bool
}

// Open is a method.
func (b *Box) Open() error { return b.close() }

func (b *Box) close() error { return nil }

// NewBox belongs to its type.
func NewBox() *Box { return &Box{secret: true} }

// Walker is an interface.
type Walker interface {
	// Walk walks.
	Walk(steps int) (left int)
	seal()
}

// First is generic.
func First[T any, S ~[]T](list S) T { return list[0] }

type inner struct{ Walker }

// Shown embeds what is not exported.
type Shown struct{ inner }
