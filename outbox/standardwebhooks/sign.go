package standardwebhooks

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Signed are the three header values of one attempt.
type Signed struct {
	ID        string
	Timestamp string
	Signature string
}

// Sign signs the body exactly as it will be sent. The id is that of the message and stays
// over all attempts; at is the time of this attempt. While keys are being rotated give
// all that are live, the newest first: each makes one signature, and a receiver that
// holds either key finds one that matches. The error is about the id, or about there
// being no key.
func Sign(id string, at time.Time, body []byte, keys ...SigningKey) (Signed, error) {
	if err := CheckID(id); err != nil {
		return Signed{}, err
	}
	if len(keys) == 0 {
		return Signed{}, errors.New("standardwebhooks: sign: no key is given")
	}
	s := Signed{ID: id, Timestamp: strconv.FormatInt(at.Unix(), 10)}
	signed := content(s.ID, s.Timestamp, body)
	signatures := make([]string, len(keys))
	for i, k := range keys {
		if k.sign == nil {
			return Signed{}, errors.New("standardwebhooks: sign: a key is the zero value: make keys with ParseSigningKey")
		}
		signatures[i] = k.version + "," + base64.StdEncoding.EncodeToString(k.sign(signed))
	}
	s.Signature = strings.Join(signatures, " ")
	return s, nil
}
