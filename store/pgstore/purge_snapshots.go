package pgstore

import (
	"sync"
	"time"
)

// oldTx is one transaction of one session, by its virtual number.
type oldTx struct {
	pid int32
	tx  string
}

// olderSnapshots are, for each announcement, by the number of its transaction, those that may not
// see it: the ones of the first look that have been there at every look since.
//
// Only those count, because the xmin of a new snapshot may be as small: it is the number of the oldest
// transaction that writes anywhere in the server, in any of its databases, and as long as that
// one is open all snapshots have it. One that was taken after the first look sees the
// announcement all the same. So it is too where the database was restored into a server that has not
// come to such numbers yet.
type olderSnapshots struct {
	mu    sync.Mutex
	byXID map[string]map[oldTx]*Session
}

// narrow takes in a look, and returns the session that holds back what was announced longest ago.
func (o *olderSnapshots) narrow(now map[string]map[oldTx]*Session) *Session {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.byXID
	o.byXID = now
	var oldest *Session
	for xid, sessions := range now {
		for id, s := range sessions {
			if first, ok := before[xid]; ok && first[id] == nil {
				delete(sessions, id)
			} else if oldest == nil || s.Since.Before(oldest.Since) {
				oldest = s
			}
		}
	}
	return oldest
}

func (o *olderSnapshots) holds(xid string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.byXID[xid]) > 0
}

func newSession(pid int32, application *string, since *time.Time) *Session {
	s := &Session{PID: pid}
	if application != nil {
		s.Application = *application
	}
	if since != nil {
		s.Since = *since
	}
	return s
}
