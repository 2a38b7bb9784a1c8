package webhook

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// tolerance is how many seconds a signed timestamp may lie before or after the clock, both ends included.
const tolerance = 300

// Claim is what the headers of a delivery say before anything is proved.
type Claim struct {
	ID         string
	Timestamp  string // as signed
	Unix       int64  // Timestamp as a number
	signatures string
}

// Refusal is a delivery that is not taken. The reason is fixed text and quotes nothing the sender or the owner wrote.
type Refusal struct{ Reason string }

func (e *Refusal) Error() string { return "webhook: invalid signature" }

// Every reason there is, so that a reader sees at a glance that none of them quotes input.
var (
	errSignatureHeader = &Refusal{"signature header: want exactly one value"}
	errIDHeader        = &Refusal{"id header: want exactly one value"}
	errID              = &Refusal{"id: want printable ASCII without the character that ends it in the signed content"}
	errTimestamp       = &Refusal{"timestamp: want exactly one"}
	errTimestampNumber = &Refusal{"timestamp: want unix seconds in decimal digits"}
	errTimestampWindow = &Refusal{"timestamp outside the tolerance"}
	errMismatch        = &Refusal{"no signature matches"}
)

// claim reads the headers of a delivery that arrived at now.
func (l *layout) claim(h http.Header, now time.Time) (c Claim, err error) {
	if c.signatures, err = one(h, l.SignatureHeader, errSignatureHeader); err != nil {
		return c, err
	}
	if l.IDHeader != "" {
		if c.ID, err = one(h, l.IDHeader, errIDHeader); err != nil {
			return c, err
		}
		if !l.validID(c.ID) {
			return c, errID
		}
	}
	if c.Timestamp, err = l.timestamp(h, c.signatures); err != nil {
		return c, err
	}
	c.Unix, err = l.inWindow(c.Timestamp, now.Unix())
	return c, err
}

// one returns the only value of a header. Taking the first of several would let a proxy and the verifier disagree.
func one(h http.Header, key string, missing error) (string, error) {
	if values := h[key]; len(values) == 1 && values[0] != "" {
		return values[0], nil
	}
	return "", missing
}

// validID refuses the character that ends the id in the signed content: with it, "a.1" at 2 and "a" at "1.2" would share
// one signature.
func (l *layout) validID(id string) bool {
	for _, r := range id {
		if r <= ' ' || r >= 0x7f {
			return false
		}
	}
	return id != "" && !strings.Contains(id, l.idStop)
}

func (l *layout) timestamp(h http.Header, signatures string) (string, error) {
	if l.TimestampHeader != "" {
		return one(h, l.TimestampHeader, errTimestamp)
	}
	if l.TimestampPrefix == "" {
		return "", nil
	}
	found, times := "", 0
	for element := range strings.SplitSeq(signatures, l.Separator) {
		if value, ok := strings.CutPrefix(element, l.TimestampPrefix); ok {
			found, times = value, times+1
		}
	}
	if times != 1 {
		return "", errTimestamp
	}
	return found, nil
}

func (l *layout) inWindow(timestamp string, now int64) (int64, error) {
	if timestamp == "" && l.TimestampHeader+l.TimestampPrefix == "" {
		return 0, nil
	}
	// ParseUint takes neither a sign nor a space; 63 bits fit the conversion below.
	seconds, err := strconv.ParseUint(timestamp, 10, 63)
	if err != nil {
		return 0, errTimestampNumber
	}
	at := int64(seconds)
	if at < now-tolerance || at > now+tolerance {
		return 0, errTimestampWindow
	}
	return at, nil
}
