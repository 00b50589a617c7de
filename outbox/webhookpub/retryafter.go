package webhookpub

import (
	"net/http"
	"strings"
	"time"
)

// retryAfter reads the header of that name: whole seconds or a date (RFC 9110, section
// 10.2.3). The past is zero, more than the limit is the limit, and whatever cannot be read
// is as if it were not there.
func retryAfter(value string, now time.Time, limit time.Duration) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	digits, negative := strings.CutPrefix(value, "-")
	switch {
	case digits != "" && strings.Trim(digits, "0123456789") == "":
		if negative {
			return 0, true
		}
		seconds := int64(0)
		for _, c := range digits {
			seconds = seconds*10 + int64(c-'0')
			// So many digits are more than any limit, and soon more than an int64.
			if seconds > int64(limit/time.Second) {
				return limit, true
			}
		}
		return time.Duration(seconds) * time.Second, true
	default:
		at, err := http.ParseTime(value)
		if err != nil {
			return 0, false
		}
		return min(max(at.Sub(now), 0), limit), true
	}
}
