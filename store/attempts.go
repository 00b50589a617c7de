package store

import "context"

// Tally is what is counted of a message.
type Tally struct {
	Spent  int // failed attempts
	Starts int // of processes that have not come to an end of it
}

// Attempts counts, outside of any message's transaction, what a rollback or the death of a process
// would otherwise forget. Each method commits before it returns. A count that is never forgotten
// goes when the marks of its time do.
type Attempts interface {
	// Spend adds a failed attempt of a message and returns how many it has had. Its starts are
	// forgotten: whoever fails has not ended its process.
	Spend(ctx context.Context, scope Scope, key Key) (int, error)
	// Start adds a start of a message that may have ended the process before, and returns what is
	// counted of it then. Starter is a name for the process, another one in each run. Whoever has
	// begun the message last and begins it again is there yet: that adds nothing, so a Start whose
	// answer was lost can be repeated.
	Start(ctx context.Context, scope Scope, key Key, starter string) (Tally, error)
	// Survive takes the start of a starter back: the message has ended somehow, and the process has
	// not. It does nothing where there is none, or where somebody else has begun the message since.
	Survive(ctx context.Context, scope Scope, key Key, starter string) error
	// Forget removes what was counted of a message. It is no error where there is nothing.
	Forget(ctx context.Context, scope Scope, key Key) error

	// Enter says that owner works on a partition from now on. Orderly is false where the one
	// before it has not left.
	Enter(ctx context.Context, scope Scope, log string, partition int, owner string) (orderly bool, err error)
	// Leave says that owner has left in order. It does nothing where somebody else has entered.
	Leave(ctx context.Context, scope Scope, log string, partition int, owner string) error
}
