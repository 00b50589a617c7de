package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/semel-dev/semel/store"
)

// Store is one memory. It implements all contracts of package store, with *Tx for a
// transaction, and is safe for concurrent use.
type Store struct {
	lockWait time.Duration
	leases   leases

	// mu guards everything below and the fields of every Tx. It is held for the length of
	// map operations only; whoever waits for a rival lets go of it.
	mu        sync.Mutex
	consumers map[string]*consumer
	scopes    map[store.Scope]*consumer
	committed map[markKey]fact
	fences    map[fenceKey]store.Applied
	tallies   map[markKey]*tally
	tenures   map[fenceKey]tenure
	rows      map[string]int64
	locks     map[lockKey]*Tx
	shares    map[lockKey][]*Tx
	dead      graveyard
	outbox    outbox
}

// New returns an empty store. It panics when an option has a value that cannot work,
// with a sentence that says what would.
func New(opts ...Option) *Store {
	c := config{lockWait: 5 * time.Second, maxLeases: 1_000_000}
	for _, o := range opts {
		o.apply(&c)
	}
	if err := c.validate(); err != nil {
		panic(err)
	}
	s := &Store{
		lockWait:  c.lockWait,
		consumers: make(map[string]*consumer),
		scopes:    make(map[store.Scope]*consumer),
		committed: make(map[markKey]fact),
		fences:    make(map[fenceKey]store.Applied),
		tallies:   make(map[markKey]*tally),
		tenures:   make(map[fenceKey]tenure),
		rows:      make(map[string]int64),
		locks:     make(map[lockKey]*Tx),
		shares:    make(map[lockKey][]*Tx),
	}
	s.dead.init()
	s.leases.init(c.maxLeases)
	return s
}

// Get returns the committed value of a row, zero where there is none.
func (s *Store) Get(name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[name]
}

// InTx runs fn in a transaction of its own, which is committed when fn returns nil and
// rolled back when it returns an error or panics. It is for programs that fill the store,
// and for those that mark inside a transaction they already have ([Store.MarkTx]).
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error {
	u, _, err := s.Begin(ctx, nil)
	if err != nil {
		return err
	}
	// After a commit this does nothing; after an error or a panic it undoes everything.
	defer func() { _ = u.Rollback(context.WithoutCancel(ctx)) }()
	if err := fn(ctx, u.Tx()); err != nil {
		return err
	}
	_, err = u.Commit(ctx)
	return err
}
