package pgstore_test

import (
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store"
)

func TestSavepointsAndLargeObjects(t *testing.T) {
	t.Parallel()
	pool := migrated(t, oneConnection)
	s := newStore(t, pool)
	ctx, scope := t.Context(), scopeOf(t, s)
	failed := errors.New("inner failure")

	u := begin(t, s, plainMark(scope, "m"))
	err := pgx.BeginFunc(ctx, u.Tx(), func(tx pgx.Tx) error {
		effect(t, tx)
		// A statement that fails is undone alone; the transaction goes on.
		_, err := tx.Exec(ctx, "select 1/0")
		return err
	})
	wantCode(t, err, "22012")
	err = pgx.BeginFunc(ctx, u.Tx(), func(tx pgx.Tx) error {
		effect(t, tx)
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			effect(t, tx)
			return failed
		})
		if err != failed {
			t.Errorf("nested BeginFunc: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	objects := u.Tx().LargeObjects()
	oid, err := objects.Create(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	object, err := objects.Open(ctx, oid, pgx.LargeObjectModeWrite)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := object.Write([]byte("large")); err != nil {
		t.Fatal(err)
	}
	end, _, err := u.Next(ctx, []store.Mark{plainMark(scope, "n")})
	wantEnd(t, end, err, store.Committed)
	objects = u.Tx().LargeObjects()
	if object, err = objects.Open(ctx, oid, pgx.LargeObjectModeRead); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(object); string(got) != "large" || err != nil {
		t.Errorf("the large object is %q, %v", got, err)
	}
	end, err = u.Commit(ctx)
	wantEnd(t, end, err, store.Committed)
	wantEffects(t, pool, 1)
}

// Next after a savepoint commits by itself and then begins anew; when the new mark is
// busy the connection goes back in order.
func TestNextAfterASavepointBehindABusyMark(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	one := newPool(t, pool.Config().ConnString(), oneConnection)
	s, direct := newStore(t, one, withShortLockWait), newStore(t, pool)
	ctx, scope := t.Context(), scopeOf(t, s)
	begin(t, direct, plainMark(scope, "held"))

	u := begin(t, s, plainMark(scope, "m"))
	pid := u.Tx().Conn().PgConn().PID()
	if err := pgx.BeginFunc(ctx, u.Tx(), func(tx pgx.Tx) error { effect(t, tx); return nil }); err != nil {
		t.Fatal(err)
	}
	end, _, err := u.Next(ctx, []store.Mark{plainMark(scope, "held")})
	if end != store.Committed || s.Fault(err) != store.FaultBusy {
		t.Fatalf("end is %s with error %v", end, err)
	}
	wantEffects(t, pool, 1)
	u = begin(t, s, plainMark(scope, "n"))
	if now := u.Tx().Conn().PgConn().PID(); now != pid {
		t.Error("the connection was thrown away")
	}
}
