package natssub_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
)

// keeping is a processor that keeps its marks for a while.
type keeping struct {
	processor
	keep time.Duration
}

func (k *keeping) Keep() time.Duration { return k.keep }

func TestMarksThatAreKeptForLessThanTheStreamsMessages(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name      string
		keep, age time.Duration
		retention jetstream.RetentionPolicy
		want      string // in the warning or the error; none when empty
	}{
		{"no limit", 30 * day, 0, jetstream.LimitsPolicy, "marks are kept for 720h0m0s and the stream keeps messages without a limit"},
		{"longer", day, 2 * day, jetstream.LimitsPolicy, "marks are kept for 24h0m0s and the stream keeps messages for 48h0m0s"},
		{"as long", day, day, jetstream.LimitsPolicy, ""},
		{"shorter", 2 * day, day, jetstream.LimitsPolicy, ""},
		{"marks for ever", dedup.Forever, 0, jetstream.LimitsPolicy, ""},
		{"a work queue cannot be replayed", day, 0, jetstream.WorkQueuePolicy, ""},
		{"interest", day, 0, jetstream.InterestPolicy, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			js := startBroker(t).connect()
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
				Name: stream, Subjects: []string{"orders.>"}, MaxAge: tt.age, Retention: tt.retention,
			}); err != nil {
				t.Fatal(err)
			}
			log := &lines{}
			p := &keeping{keep: tt.keep}
			r := consume(t, js, p, natssub.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
			info(t, js)
			publish(t, js, "a")
			settled(t, js)
			r.stop()
			if warned := log.contain("level=WARN"); warned != (tt.want != "") || warned && !log.contain(tt.want) {
				t.Errorf("warned: %t, want %q", warned, tt.want)
			}
			c, err := natssub.New(js, stream, jetstream.ConsumerConfig{Durable: durable}, p, natssub.RequireKeep())
			if err != nil {
				t.Fatal(err)
			}
			r = start(t, c)
			if tt.want == "" {
				publish(t, js, "b")
				settled(t, js)
				r.stop()
				return
			}
			if err := r.wait(); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "give the stream a MaxAge") {
				t.Errorf("Run = %v, want %q", err, tt.want)
			}
		})
	}
}

// A client that may use the durable need not be allowed to ask about the stream.
func TestAClientThatMayNotAskAboutTheStreamConsumesItAllTheSame(t *testing.T) {
	t.Parallel()
	srv := servertest.StartNATS(t, servers.WithNATSOptions(func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "x"},
			{Username: "billing", Password: "x", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.INFO.>"}},
			}},
		}
	}))
	js := map[string]jetstream.JetStream{}
	for _, user := range []string{"admin", "billing"} {
		nc, err := nats.Connect(srv.URL(), nats.UserInfo(user, "x"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		if js[user], err = jetstream.New(nc); err != nil {
			t.Fatal(err)
		}
	}
	makeStream(t, js["admin"])
	publish(t, js["admin"], "a")
	log := &lines{}
	p := &keeping{keep: time.Hour}
	r := consume(t, js["billing"], p, natssub.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	settled(t, js["admin"])
	r.stop()
	if len(p.got()) != 1 || !log.contain("the stream cannot be looked at") {
		t.Errorf("handled %v", p.got())
	}
	r = consume(t, js["billing"], p, natssub.RequireKeep())
	if err := r.wait(); err == nil || !strings.Contains(err.Error(), "the stream cannot be looked at") {
		t.Errorf("Run: %v", err)
	}
}
