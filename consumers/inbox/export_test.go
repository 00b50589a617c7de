package inbox

import "github.com/semel-dev/semel/store"

// Attempts is the memory of failed attempts.
type Attempts struct{ a attempts }

func NewAttempts() *Attempts             { return &Attempts{} }
func (a *Attempts) Fail(id store.ID)     { a.a.fail(id) }
func (a *Attempts) Next(id store.ID) int { return a.a.next(id) }
func (a *Attempts) Forget(id store.ID)   { a.a.forget(id) }
func (a *Attempts) Len() int             { return len(a.a.failed) }
