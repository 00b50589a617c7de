package standardwebhooks

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// HeaderNames are the names under which the three values travel. Names of HTTP headers
// know no case.
type HeaderNames struct {
	ID        string
	Timestamp string
	Signature string
}

var (
	// Standard are the names that the standard gives.
	Standard = HeaderNames{"webhook-id", "webhook-timestamp", "webhook-signature"}
	// Svix are the names from before the standard, with the same scheme behind them.
	Svix = HeaderNames{"svix-id", "svix-timestamp", "svix-signature"}
)

// MaxIDLen is the longest id taken, in bytes.
const MaxIDLen = 256

// CheckID says whether an id can be signed: 1 to 256 printable ASCII characters without a
// space and without a full stop. With a full stop, another split of the same bytes into
// id, timestamp and body would carry the same signature.
func CheckID(id string) error {
	if id == "" || len(id) > MaxIDLen {
		return fmt.Errorf("%w: it has %d bytes, 1 to %d are required", ErrID, len(id), MaxIDLen)
	}
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c > '~' || c == '.' {
			return fmt.Errorf("%w: byte %d is %q, and spaces, full stops, control characters and anything outside of ASCII are not allowed", ErrID, i, c)
		}
	}
	return nil
}

// Errors of a message that cannot be signed or does not verify. They are for logs: an
// answer to the sender that told them apart would help whoever is guessing.
var (
	ErrID             = errors.New("standardwebhooks: id is not valid")
	ErrTimestamp      = errors.New("standardwebhooks: timestamp is not valid")
	ErrTooOld         = errors.New("standardwebhooks: timestamp is too old")
	ErrTooNew         = errors.New("standardwebhooks: timestamp is in the future")
	ErrNoSignature    = errors.New("standardwebhooks: no signature matches")
	ErrManySignatures = errors.New("standardwebhooks: too many signatures")
	ErrHeaders        = errors.New("standardwebhooks: header is missing or given more than once")
)

// content is what gets signed.
func content(id, timestamp string, body []byte) []byte {
	b := make([]byte, 0, len(id)+len(timestamp)+len(body)+2)
	b = append(b, id...)
	b = append(b, '.')
	b = append(b, timestamp...)
	b = append(b, '.')
	return append(b, body...)
}

// parseTimestamp takes the one way in which whole seconds are written, since every
// further way would be signed with other bytes. strconv alone would take a sign and
// leading zeros.
func parseTimestamp(s string) (time.Time, error) {
	seconds, err := strconv.ParseInt(s, 10, 64)
	if err != nil || seconds < 0 || seconds > math.MaxInt64/int64(time.Second) || s != strconv.FormatInt(seconds, 10) {
		return time.Time{}, fmt.Errorf("%w: it is not the whole seconds since 1970 in digits", ErrTimestamp)
	}
	return time.Unix(seconds, 0), nil
}
