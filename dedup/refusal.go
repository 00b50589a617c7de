package dedup

import (
	"errors"
	"fmt"

	"github.com/semel-dev/semel/store"
)

// ErrLate: marks of the message's time have been removed, so nobody can tell whether it was done.
var ErrLate = errors.New("the message is older than the marks that are kept")

// MismatchError is the error of a message that has the key of another one and other content.
type MismatchError struct {
	// Key is the identity that both have.
	Key []byte
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("dedup: the key %.64q is known with another fingerprint: two messages have one key", e.Key)
}

// refused: the message may neither run nor pass as a duplicate.
func refused(s store.Status) bool { return s == store.Mismatched || s == store.Late }

func refusal(s store.Status, id *identified) Result {
	if s == store.Late {
		return Result{Late, store.FaultHandler, fmt.Errorf("dedup: the key %.64q: %w", id.text, ErrLate)}
	}
	return Result{Mismatched, store.FaultHandler, &MismatchError{Key: id.text}}
}

// apart gives a refused message a mark of its own, so that it is buried once however often it is
// delivered: a late one by its key, where no time is in the way; one that does not match by its
// key and its fingerprint.
func apart(s store.Status, id identified) (identified, store.LetterState) {
	kind, state := "late", store.Quarantined
	identity := append([]byte{layout(id.mark.Key)}, id.mark.Key.ID[:]...)
	if s == store.Mismatched {
		kind, state = "mismatched", store.Conflicting
		identity = append(identity, id.mark.Fingerprint[:]...)
	}
	key := store.DigestKey(append([]byte(kind+"\x00"), identity...))
	id.mark = store.Mark{Scope: id.mark.Scope, Key: key, Place: id.mark.Place}
	return id, state
}
