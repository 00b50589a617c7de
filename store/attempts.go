package store

import "context"

// Attempts counts, outside of any message's transaction, what a rollback or the death of a process
// would otherwise forget. Each method commits before it returns. A count that is never forgotten
// goes when the marks of its time do.
type Attempts interface {
	// Spend adds a failed attempt of a message and returns how many it has had. Its starts are
	// forgotten: whoever fails has not ended its process.
	Spend(ctx context.Context, scope Scope, key Key) (int, error)
	// Start adds a start of a message that may have ended the process before, and returns how many
	// it has had.
	Start(ctx context.Context, scope Scope, key Key) (int, error)
	// Forget removes what was counted of a message. It is no error where there is nothing.
	Forget(ctx context.Context, scope Scope, key Key) error

	// Enter says that owner works on a partition from now on. Orderly is false where the one
	// before it has not left.
	Enter(ctx context.Context, scope Scope, log string, partition int, owner string) (orderly bool, err error)
	// Leave says that owner has left in order. It does nothing where somebody else has entered.
	Leave(ctx context.Context, scope Scope, log string, partition int, owner string) error
}
