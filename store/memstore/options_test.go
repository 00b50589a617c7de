package memstore_test

import (
	"testing"
	"time"

	"github.com/semel-dev/semel/store/memstore"
)

func TestOptionsThatCannotWorkPanic(t *testing.T) {
	for _, o := range []memstore.Option{
		memstore.WithLockWait(0), memstore.WithLockWait(-time.Second),
		memstore.WithMaxLeases(0), memstore.WithMaxLeases(63),
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			memstore.New(o)
		}()
	}
}
