//go:build unix

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store/pgstore"
)

// world is all that there is: servers, proxies, processes, what is produced, and what was done to them.
type world struct {
	t       *testing.T
	dir     string // journals and logs
	seed    uint64
	began   time.Time
	plan    *plan
	ledger  *ledger
	tally   *tally
	broker  broker
	wire    *servers.Proxy // of the producers
	db      *servers.Postgres
	pool    *pgxpool.Pool // past all proxies
	store   *pgstore.Store
	slots   []*slot
	running sync.WaitGroup
	armed   []*servers.ArmedFault

	mu       sync.Mutex
	places   map[string][]place // where copies of an id were put
	produced int
}

// newWorld starts everything but the slots. Modes are those of the consumers.
func newWorld(t *testing.T, kind string, seed uint64, n int, modes ...mode) *world {
	t.Helper()
	w := &world{t: t, seed: seed, began: time.Now(), tally: newTally(), places: map[string][]place{}}
	w.plan = newPlan(w.rng("plan"), n)
	w.dir = must(os.MkdirTemp("", "semel-soak-"))(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("journals and logs are kept in %s", w.dir)
			return
		}
		check(t, os.RemoveAll(w.dir))
	})
	w.ledger = newLedger(w.dir)
	if kind == "kafka" {
		w.broker = startKafka(t)
	} else {
		w.broker = startNATS(t, w.dir)
	}
	w.startDatabase()
	w.wire = w.proxy()
	check(t, w.broker.through(w.wire.Addr()))
	for i, m := range modes {
		w.addSlot(fmt.Sprintf("consumer-%d", i+1), orders{Role: "consumer", Mode: m})
	}
	for i := range 2 {
		w.addSlot(fmt.Sprintf("relay-%d", i+1), orders{Role: "relay"})
	}
	return w
}

// rng is a source of randomness for one purpose, so that none of them disturbs the others.
func (w *world) rng(purpose string) *rand.Rand {
	var b [32]byte
	copy(b[:], fmt.Sprintf("%d %s", w.seed, purpose))
	return rand.New(rand.NewChaCha8(b))
}

func (w *world) startDatabase() {
	ctx := w.t.Context()
	w.db = servertest.StartPostgres(w.t, servers.WithSetting("deadlock_timeout", "100ms")) // there are many
	w.pool = must(pgxpool.New(ctx, w.db.DSN()))(w.t)
	w.t.Cleanup(w.pool.Close)
	check(w.t, pgstore.Migrate(ctx, w.pool))
	for _, sql := range []string{schema, naiveSchema} {
		_ = must(w.pool.Exec(ctx, sql))(w.t)
	}
	w.store = must(pgstore.New(w.pool))(w.t)
}

func (w *world) proxy() *servers.Proxy {
	w.t.Helper()
	p := must(servers.StartProxy(w.broker.addr()))(w.t)
	w.t.Cleanup(func() { check(w.t, p.Close()) })
	return p
}

func (w *world) addSlot(name string, o orders) {
	w.t.Helper()
	s := &slot{w: w, name: name, orders: o, broker: w.proxy(), database: servertest.Proxy(w.t, w.db.DSN()), rng: w.rng(name)}
	s.orders.Broker, s.orders.Lanes = w.broker.name(), lanes
	s.orders.DSN, s.orders.Addr, s.orders.Brokers = s.database.DSN(), s.broker.Addr(), w.broker.brokers()
	w.slots = append(w.slots, s)
}

// start fills the slots. What it returns asks the processes to leave and waits for them.
func (w *world) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	for _, s := range w.slots {
		w.running.Go(func() { s.run(ctx) })
	}
	return func() {
		cancel()
		w.running.Wait()
	}
}

func (w *world) consumers() (list []*slot) {
	for _, s := range w.slots {
		if s.consumer() {
			list = append(list, s)
		}
	}
	return list
}

func (w *world) relays() (list []*slot) {
	for _, s := range w.slots {
		if !s.consumer() {
			list = append(list, s)
		}
	}
	return list
}

func (w *world) brokerProxies() []*servers.Proxy {
	list := []*servers.Proxy{w.wire}
	for _, s := range w.slots {
		list = append(list, s.broker)
	}
	return list
}

// holdConsumers ends all consumers, some well and some badly, and lets none join until it is released.
func (w *world) holdConsumers() (release func()) {
	for i, s := range w.consumers() {
		s.hold()
		if c := s.child(); c != nil {
			if i == 0 {
				c.end()
				select {
				case <-c.done:
				case <-time.After(20 * time.Second):
				}
			}
			c.kill()
		}
	}
	return func() {
		for _, s := range w.consumers() {
			s.release()
		}
	}
}

// ended notes how a child ended.
func (w *world) ended(ctx context.Context, s *slot, c *child) {
	if _, err := w.ledger.look(); err != nil {
		w.t.Error(err)
	}
	busy := w.ledger.bury(c.name) > 0
	switch c.fate() {
	case shot:
		if !s.consumer() {
			w.tally.add("relays killed")
			return
		}
		w.tally.add("kills")
		if busy {
			w.tally.add("kills in a handler")
		}
	case suicide:
		w.tally.add("killed by a message")
	case left:
		w.tally.add("left in good order")
	case gaveUp:
		w.tally.add("gave up and came again")
	case broken:
		w.t.Errorf("a process broke: %s", c.said(8000))
	}
	if s.consumer() && s.rng.IntN(3) > 0 {
		// An operator, or an orchestrator's hook. The other third is found out by the broker.
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_ = w.broker.forget(limited, c.name) // it may be down itself
	}
}

// lastWords are what the processes said last, where the run did not come to its end.
func (w *world) lastWords() {
	for _, s := range w.slots {
		if c := s.child(); c != nil {
			w.t.Logf("last words of %s", c.said(1500))
		}
	}
	w.t.Logf("the database said: %s", w.db.Logs())
	w.t.Logf("the broker said: %s", w.broker.logs())
	logs, _ := filepath.Glob(filepath.Join(w.dir, "*.log"))
	w.t.Logf("%d logs in %s", len(logs), w.dir)
}

// must lets a call with an error stand in one line: must(f())(t).
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
