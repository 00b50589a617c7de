package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
	"github.com/semel-dev/semel/store/sqlstore"
	"github.com/semel-dev/semel/store/storetest"
)

// marksPlace hands the place over to an exam; view makes of a store what is examined.
func (p *place) marksPlace(view func(*sqlstore.Store) store.Marks[*sql.Tx]) storetest.MarksPlace[*sql.Tx] {
	db := p.db(4)
	return storetest.MarksPlace[*sql.Tx]{
		Open:    func() store.Marks[*sql.Tx] { return view(p.open()) },
		Effect:  addNamed,
		Effects: p.effects,
		Spoil: func(ctx context.Context, tx *sql.Tx) {
			_, _ = tx.ExecContext(ctx, "select 1/0")
		},
		InTx:         func(ctx context.Context, fn func(tx *sql.Tx) error) error { return inTx(ctx, db, fn) },
		AwaitBlocked: p.awaitBlocked,
	}
}

func itself(s *sqlstore.Store) store.Marks[*sql.Tx] { return s }

func TestMarks(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		places := newPlaces(t, driver)
		storetest.TestMarks(t, storetest.MarksHarness[*sql.Tx]{
			New: func(t *testing.T, lockWait time.Duration) storetest.MarksPlace[*sql.Tx] {
				return places(t, lockWait).marksPlace(itself)
			},
		})
	})
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		places := newPlaces(t, driver)
		storetest.TestDeadLetters(t, storetest.DeadLettersHarness[*sql.Tx]{
			New: func(t *testing.T, lockWait time.Duration) storetest.DeadLettersPlace[*sql.Tx] {
				p := places(t, lockWait)
				s := p.open()
				return storetest.DeadLettersPlace[*sql.Tx]{Marks: s, Burier: s, Letters: s, Reviver: s,
					Effect: addNamed, Effects: p.effects, AwaitBlocked: p.awaitBlocked}
			},
		})
	})
}

func TestFences(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]bool{"positions": false, "positions and keys": true} {
		t.Run(name, func(t *testing.T) {
			overDrivers(t, func(t *testing.T, driver string) {
				places := newPlaces(t, driver)
				storetest.TestFences(t, storetest.FencesHarness[*sql.Tx]{
					Keys: keys,
					New: func(t *testing.T, lockWait time.Duration) storetest.MarksPlace[*sql.Tx] {
						return places(t, lockWait).marksPlace(func(s *sqlstore.Store) store.Marks[*sql.Tx] {
							if keys {
								return s.FencedMarks()
							}
							return s.Fenced()
						})
					},
				})
			})
		})
	}
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		places := newPlaces(t, driver)
		storetest.TestAttempts(t, storetest.AttemptsHarness{
			New: func(t *testing.T) storetest.AttemptsPlace {
				p := places(t, time.Second)
				return storetest.AttemptsPlace{Open: func() storetest.AttemptsStore { return p.open() }}
			},
		})
	})
}

// Above READ COMMITTED a statement does not see what was committed while it waited for a lock.
func TestAboveReadCommitted(t *testing.T) {
	t.Parallel()
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			places := newPlaces(t, "pgx")
			storetest.TestDeadLetters(t, storetest.DeadLettersHarness[*sql.Tx]{
				Conflicts: true,
				New: func(t *testing.T, lockWait time.Duration) storetest.DeadLettersPlace[*sql.Tx] {
					p := places(t, lockWait)
					s := p.open(sqlstore.WithIsolation(level))
					return storetest.DeadLettersPlace[*sql.Tx]{Marks: s, Burier: s, Letters: s, Reviver: s,
						Effect: addNamed, Effects: p.effects, AwaitBlocked: p.awaitBlocked}
				},
			})
			storetest.TestFences(t, storetest.FencesHarness[*sql.Tx]{
				Conflicts: true,
				New: func(t *testing.T, lockWait time.Duration) storetest.MarksPlace[*sql.Tx] {
					p := places(t, lockWait)
					return p.marksPlace(func(*sqlstore.Store) store.Marks[*sql.Tx] { return p.open(sqlstore.WithIsolation(level)).Fenced() })
				},
			})
		})
	}
}

// A consumer of database/sql is purged by pgstore, which the application needs for its migrations anyway.
func TestRetention(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		places := newPlaces(t, driver)
		storetest.TestRetention(t, storetest.RetentionHarness[*sql.Tx]{
			New: func(t *testing.T) storetest.RetentionPlace[*sql.Tx] {
				p := places(t, time.Minute)
				return storetest.RetentionPlace[*sql.Tx]{MarksPlace: p.marksPlace(itself), Purge: p.purge}
			},
		})
	})
}

// purge makes one whole pass.
func (p *place) purge(ctx context.Context) error {
	s, err := pgstore.New(p.admin, pgstore.WithSchema(p.schema))
	if err != nil {
		return err
	}
	purger, err := pgstore.NewPurger(s, pgstore.WithSnapshotWait(time.Minute))
	if err != nil {
		return err
	}
	done, err := purger.Purge(ctx)
	if err == nil && (done.Elsewhere || done.Snapshot != nil || len(done.Locked) > 0) {
		err = fmt.Errorf("the purge did not do all: %+v", done)
	}
	return err
}

func addNamed(ctx context.Context, tx *sql.Tx, name string) error {
	_, err := tx.ExecContext(ctx, "insert into effects values ($1)", name)
	return err
}

func inTx(ctx context.Context, db *sql.DB, fn func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}
