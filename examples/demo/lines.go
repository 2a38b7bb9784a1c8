package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"

	"github.com/openlup/pgrail/examples/shop"
)

// nextLine returns a line without the white space around it, together with io.EOF if it is the last. Of one that is too long
// it keeps enough to tell.
func nextLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line) <= maxLine {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), err
		}
	}
}

func parse(text []byte) (shop.Change, error) {
	if len(text) > maxLine {
		return shop.Change{}, &shop.FieldError{Problem: fmt.Sprintf("is longer than %d bytes", maxLine)}
	}
	// Some editors begin a file with a byte order mark.
	return shop.ParseLine(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
}
