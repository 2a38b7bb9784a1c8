// Package faults kills, cuts off and stops what the rail runs on, and looks at what is left: worker processes by SIGKILL
// at random and at each step of the protocol, their connections before and after a commit, the server in all of its ways to
// stop. matrix_test.go is the crash matrix of docs/guarantees.md, each cell a subtest. It is a module of its own, so that its
// tools are no part of pgrail's.
//
//	go test ./...                                    the short form
//	make soak                                        the long one
package faults
