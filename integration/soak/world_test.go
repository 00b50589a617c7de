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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// world is all that there is: servers, proxies, processes, what is produced, and what was done to them.
type world struct {
	t       *testing.T
	dir     string // journals and logs
	seed    uint64
	began   time.Time
	plan    *plan
	groups  []*group
	tally   *tally
	broker  broker
	wire    *servers.Proxy // of the producers
	db      *servers.Postgres
	pool    *pgxpool.Pool // past all proxies
	store   *pgstore.Store
	box     *pgstore.Store // what is stored first
	slots   []*slot
	running sync.WaitGroup
	armed   []*servers.ArmedFault

	mu       sync.Mutex
	places   map[string][]place // where copies of an id were put
	produced int

	waiting   map[string]waiting // of each group that has such a thing: what waited before it was all run again
	discarded map[int64]store.DeadLetter
}

// newWorld starts everything but the slots.
func newWorld(t *testing.T, kind string, seed uint64, n int, groups ...*group) *world {
	t.Helper()
	w := &world{t: t, seed: seed, began: time.Now(), tally: newTally(), groups: groups, places: map[string][]place{}, waiting: map[string]waiting{}, discarded: map[int64]store.DeadLetter{}}
	w.plan = newPlan(w.rng("plan"), n)
	w.dir = must(os.MkdirTemp("", "semel-soak-"))(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("journals and logs are kept in %s", w.dir)
			return
		}
		check(t, os.RemoveAll(w.dir))
	})
	if kind == "kafka" {
		w.broker = startKafka(t, groups)
	} else {
		w.broker = startNATS(t, w.dir, groups)
	}
	w.startDatabase()
	w.wire = w.proxy()
	check(t, w.broker.through(w.wire.Addr()))
	for _, g := range groups {
		w.addGroup(g)
	}
	for i := range 2 {
		w.addSlot(nil, fmt.Sprintf("relay-%d", i+1), orders{Role: "relay"})
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
	check(w.t, pgstore.Migrate(ctx, w.pool, pgstore.WithSchema(boxSchema)))
	w.store = must(pgstore.New(w.pool))(w.t)
	w.box = must(pgstore.New(w.pool, pgstore.WithSchema(boxSchema)))(w.t)
}

// addGroup makes the tables of a group and its slots.
func (w *world) addGroup(g *group) {
	w.t.Helper()
	g.ledger = newLedger(w.dir, g.name)
	check(w.t, pgx.BeginFunc(w.t.Context(), w.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(w.t.Context(), fmt.Sprintf("create schema %[1]s; set local search_path to %[1]s;", g.name)+schema+naiveSchema)
		return err
	}))
	g.guard = must(w.guardOf(g))(w.t)
	for i, m := range g.modes {
		w.addSlot(g, fmt.Sprintf("%s-%d", g.name, i+1), orders{Role: "consumer", Group: g.name, Mode: m})
	}
}

func (w *world) proxy() *servers.Proxy {
	w.t.Helper()
	p := must(servers.StartProxy(w.broker.addr()))(w.t)
	w.t.Cleanup(func() { check(w.t, p.Close()) })
	return p
}

func (w *world) addSlot(g *group, name string, o orders) {
	w.t.Helper()
	s := &slot{w: w, group: g, name: name, orders: o, broker: w.proxy(), database: servertest.Proxy(w.t, w.db.DSN()), rng: w.rng(name)}
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

// holdConsumers ends all consumers of a group, some well and some badly, and lets none join until it is released.
func (w *world) holdConsumers(g *group) (release func()) {
	for i, s := range w.consumers(g) {
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
		for _, s := range w.consumers(g) {
			s.release()
		}
	}
}

// ended notes how a child ended.
func (w *world) ended(ctx context.Context, s *slot, c *child) {
	busy := false
	if s.consumer() {
		if _, err := s.group.ledger.look(); err != nil {
			w.t.Error(err)
		}
		busy = s.group.ledger.bury(c.name) > 0
	}
	switch c.fate() {
	case shot:
		if !s.consumer() {
			w.tally.add("relays killed")
			return
		}
		w.tally.add("kills")
		if busy {
			w.tally.add("kills in a handler")
			w.tally.add("deaths in a handler of " + s.group.name)
		}
	case suicide:
		w.tally.add("killed by a message")
		w.tally.add("deaths in a handler of " + s.group.name)
	case left:
		w.tally.add("left in good order")
	case gaveUp:
		w.tally.add("gave up and came again")
	case broken:
		w.t.Errorf("a process broke: %s", c.said(8000))
	}
	if s.consumer() && (s.group != w.groups[0] || s.rng.IntN(3) > 0) {
		// An operator, or an orchestrator's hook. A third of those of the first group is found out by the broker.
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_ = w.broker.forget(limited, s.group, c.name) // it may be down itself
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
