package crash

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// How often a process dies at each point. JetStream gives the messages of a dead process to
// the next one after the acknowledgement wait, so rounds are short; a Kafka group has to be told that a
// member is gone.
const (
	natsRounds  = 18
	kafkaRounds = 6
	relayRounds = 30
)

var workerPoints = []point{fetched, begun, marked, handled, appended, lostAway, lostBack, committed}

func TestWorkerOnJetStreamDiesAtEveryPoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "nats")
	publish := func(id string) {
		msg := nats.NewMsg("payments.captured")
		msg.Header.Set(idHeader, id)
		for range 1 + rand.N(2) { // half of them twice
			_ = must(w.js.PublishMsg(t.Context(), msg))(t)
		}
	}
	for _, p := range workerPoints {
		t.Run(string(p), func(t *testing.T) { w.in(t).die(p, natsRounds, publish, nil) })
	}
	w.finish()
}

func TestWorkerOnKafkaDiesAtEveryPoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "kafka")
	k := servertest.Kafka(t)
	w.base.Kafka = k.Brokers()
	check(t, k.CreateTopic(t.Context(), "payments", 2))
	out := &kafka.Writer{Addr: kafka.TCP(k.Brokers()...), Topic: "payments", Balancer: &kafka.RoundRobin{},
		RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond}
	t.Cleanup(func() { check(t, out.Close()) })
	publish := func(id string) {
		for range 1 + rand.N(2) {
			check(t, out.WriteMessages(context.Background(), kafka.Message{Headers: []kafka.Header{{Key: idHeader, Value: []byte(id)}}}))
		}
	}
	for _, p := range workerPoints {
		t.Run(string(p), func(t *testing.T) {
			w.in(t).die(p, kafkaRounds, publish, func() { evict(t, k.Brokers(), w.base.Group) })
		})
	}
	w.finish()
}

func TestRelayDiesBetweenPublishingAndMarking(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "relay")
	w.receive()
	writer := must(outbox.NewWriter(w.store))(t)
	for range relayRounds {
		for range 20 + rand.N(20) {
			id := []byte(w.newID())
			tx := must(w.pool.Begin(t.Context()))(t)
			check(t, writer.WriteTx(t.Context(), tx, store.Event{Destination: "receipts", Topic: "receipts.paid", Key: id[:len(id)-1], Type: "receipt", Payload: id}))
			check(t, tx.Commit(t.Context()))
		}
		w.child("relay", published, 6+rand.N(12), false).killed()
	}
	w.drain()
}

// die lets a worker die at a point, again and again, each time with new events and those
// that the last one left.
func (w *world) die(p point, rounds int, publish func(id string), afterwards func()) {
	for range rounds {
		for range 2 + rand.N(4) {
			publish(w.newID())
		}
		nth := 1 + rand.N(2)
		switch p {
		case begun:
			w.dieWaiting(publish)
		case lostAway:
			var c *child
			started := make(chan struct{})
			fault := w.proxy.ArmWhen(servers.LoseCommit, func(servers.Commit) bool {
				if nth--; nth > 0 {
					return false
				}
				<-started
				c.kill() // before the server has seen it
				return true
			})
			c = w.child(w.base.Role, never, 0, true)
			close(started)
			c.killed()
			fault.Disarm()
		case lostBack:
			fault := w.proxy.ArmWhen(servers.LoseAnswer, func(servers.Commit) bool { nth--; return nth == 0 })
			c := w.child(w.base.Role, never, 0, true)
			select {
			case <-fault.Fired(): // the server has committed, the client has not heard
			case <-c.done:
			case <-time.After(30 * time.Second):
			}
			c.kill()
			c.killed()
			fault.Disarm()
		default:
			w.child(w.base.Role, p, nth, false).killed()
		}
		if afterwards != nil {
			afterwards()
		}
	}
}

// dieWaiting holds a rival's mark, so that the worker has begun its transaction and waits
// inside of the marking statement when it is killed.
func (w *world) dieWaiting(publish func(id string)) {
	t := w.t
	id := w.newID()
	scope := must(w.store.Scope(t.Context(), "payments", store.Forever))(t)
	key := must(dedup.KeyOf([]byte(id)))(t)
	rival, _, err := w.store.Begin(t.Context(), []store.Mark{{Scope: scope, Key: key.Stored()}})
	check(t, err)
	publish(id)
	c := w.child(w.base.Role, never, 0, false)
	w.eventually("workers waiting for a mark", `select count(*) from pg_stat_activity
		where datname = current_database() and wait_event_type = 'Lock' and query like '%marks_plain%'`, 1, c)
	c.kill()
	check(t, rival.Rollback(t.Context()))
}

// finish lets a worker do what is left, and a relay bring the events to the receiver.
func (w *world) finish() {
	w.t.Helper()
	c := w.child(w.base.Role, never, 0, false)
	w.eventually("events with an effect", "select count(distinct id) from effects", *w.published, c)
	c.kill()
	w.verdict("effects")
	w.receive()
	w.drain()
}

func (w *world) drain() {
	w.t.Helper()
	c := w.child("relay", never, 0, false)
	w.retryParked()
	w.eventually("events left in the outbox", "select (select count(*) from semel.outbox) + (select count(*) from semel.outbox_waiting)", 0, c)
	w.eventually("events at the receiver", "select count(distinct id) from receipts", *w.published, c)
	c.kill()
	w.verdict("receipts")
}

// retryParked does what an operator does about events that were parked. At this rate of deaths
// one may happen to be on its way in several of them, and then it is right to park it.
func (w *world) retryParked() {
	w.t.Helper()
	w.eventually("relays", "select (count(*) > 0)::int from semel.outbox_slots where owner is not null and until > now()", 1)
	n := must(w.store.RetryWaiting(w.t.Context(), store.WaitingFilter{State: store.Parked}, 1000))(w.t)
	if n > 3 {
		w.t.Errorf("%d events are parked that did no harm", n)
	}
}

// evict tells the broker that the dead member is dead, as its session's end would after some
// seconds.
func evict(t *testing.T, brokers []string, group string) {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(brokers...)}
	described := must(client.DescribeGroups(t.Context(), &kafka.DescribeGroupsRequest{GroupIDs: []string{group}}))(t)
	for _, g := range described.Groups {
		for _, m := range g.Members {
			_, err := client.LeaveGroup(t.Context(), &kafka.LeaveGroupRequest{GroupID: group,
				Members: []kafka.LeaveGroupRequestMember{{ID: m.MemberID}}})
			check(t, err)
		}
	}
}
