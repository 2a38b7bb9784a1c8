package server

import "syscall"

// MemoryDir is a directory kept in memory with room for a server, or empty if
// there is none. Copying a database there takes a fifth of the time: it is the
// making of some 700 files.
func MemoryDir() string {
	const (
		dir   = "/dev/shm"
		tmpfs = 0x01021994
		room  = 2 << 30 // containers often have 64 MB
	)
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || fs.Type != tmpfs || fs.Bavail*uint64(fs.Bsize) < room {
		return ""
	}
	return dir
}
