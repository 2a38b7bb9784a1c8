//go:build !linux

package server

// MemoryDir is empty: no directory in memory is known here.
func MemoryDir() string { return "" }
