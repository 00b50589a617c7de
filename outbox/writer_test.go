package outbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// appended is an appender that keeps what it is given.
type appended struct{ events []store.Event }

func (a *appended) AppendTx(_ context.Context, _ struct{}, events []store.Event) error {
	a.events = append(a.events, events...)
	return nil
}

type validator func(store.Event) error

func (f validator) Validate(e store.Event) error { return f(e) }

func TestWriterRefusesWhatCouldNeverLeave(t *testing.T) {
	ok := store.Event{Destination: "kafka", Topic: "t"}
	with := func(change func(*store.Event)) store.Event {
		e := ok
		change(&e)
		return e
	}
	for name, test := range map[string]struct {
		e    store.Event
		says string
	}{
		"no destination":      {with(func(e *store.Event) { e.Destination = "" }), "destination is empty"},
		"no topic":            {with(func(e *store.Event) { e.Topic = "" }), "topic is empty"},
		"unknown destination": {with(func(e *store.Event) { e.Destination = "kafak" }), `no destination "kafak"`},
		"long destination":    {with(func(e *store.Event) { e.Destination = strings.Repeat("x", 201) }), "200 are the most"},
		"long topic":          {with(func(e *store.Event) { e.Topic = strings.Repeat("x", 1025) }), "1024 are the most"},
		"long type":           {with(func(e *store.Event) { e.Type = strings.Repeat("x", 256) }), "255 are the most"},
		"long key":            {with(func(e *store.Event) { e.Key = make([]byte, 1025) }), "1024 are the most"},
		"large payload":       {with(func(e *store.Event) { e.Payload = make([]byte, 101) }), "100 are the most"},
		"large headers":       {with(func(e *store.Event) { e.Headers = []store.Header{{Key: "h", Value: make([]byte, 64<<10)}} }), "headers have"},
		"nameless header":     {with(func(e *store.Event) { e.Headers = []store.Header{{Value: []byte("x")}} }), "header has no name"},
		"NUL in topic":        {with(func(e *store.Event) { e.Topic = "a\x00b" }), "NUL"},
		"NUL in type":         {with(func(e *store.Event) { e.Type = "a\x00b" }), "NUL"},
		"broken UTF-8":        {with(func(e *store.Event) { e.Topic = "a\xff" }), "UTF-8"},
		"validator":           {with(func(e *store.Event) { e.Topic = "never" }), "no such subject"},
		"any bytes elsewhere": {with(func(e *store.Event) {
			e.Key, e.Payload, e.Headers = []byte("\x00\xff"), []byte("\x00\xff"), []store.Header{{Key: "h", Value: []byte("\x00\xff")}}
		}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &appended{}
			w, err := outbox.NewWriter(a, outbox.WithMaxPayload(100), outbox.WithDestinations("kafka", "nats"),
				outbox.WithValidator("kafka", validator(func(e store.Event) error {
					if e.Topic == "never" {
						return outbox.Permanent(errors.New("no such subject"))
					}
					return nil
				})))
			if err != nil {
				t.Fatal(err)
			}
			err = w.WriteTx(t.Context(), struct{}{}, ok, test.e)
			var bad *outbox.EventError
			switch {
			case test.says == "" && err != nil:
				t.Error(err)
			case test.says == "":
			case !errors.As(err, &bad) || bad.Index != 1 || !strings.Contains(err.Error(), test.says):
				t.Errorf("the error is %v, want it to say %q of event 1", err, test.says)
			case len(a.events) > 0:
				t.Error("some of the events were written all the same")
			}
		})
	}
}

func TestIDs(t *testing.T) {
	origin := store.Origin{Consumer: "c", Key: store.DigestKey([]byte("m"))}
	own := store.NewID()
	write := func(ctx context.Context, events ...store.Event) ([]store.Event, error) {
		a := &appended{}
		w, err := outbox.NewWriter(a)
		if err != nil {
			t.Fatal(err)
		}
		err = w.WriteTx(ctx, struct{}{}, events...)
		return a.events, err
	}
	e := store.Event{Destination: "kafka", Topic: "t"}
	mine := e
	mine.ID = own

	t.Run("outside of a handler they are new", func(t *testing.T) {
		given := []store.Event{e, e, mine}
		got, err := write(t.Context(), given...)
		if err != nil || got[0].ID.IsZero() || got[0].ID == got[1].ID || got[2].ID != own {
			t.Errorf("%v, %v", got, err)
		}
		if !given[0].ID.IsZero() {
			t.Error("the caller's events were changed")
		}
	})
	t.Run("in a handler they follow from the message", func(t *testing.T) {
		var runs [2][]store.Event
		for i := range runs {
			ctx := store.WithRun(t.Context(), store.NewRun(origin))
			var err error
			if runs[i], err = write(ctx, e, mine, e); err != nil {
				t.Fatal(err)
			}
		}
		for i := range runs[0] {
			if runs[0][i].ID != runs[1][i].ID {
				t.Errorf("event %d has the ids %s and %s in two runs", i, runs[0][i].ID, runs[1][i].ID)
			}
		}
		if runs[0][0].ID == runs[0][2].ID || runs[0][1].ID != own {
			t.Errorf("%v", runs[0])
		}
	})
	t.Run("in a handler of many messages they must be given", func(t *testing.T) {
		ctx := store.WithRun(t.Context(), store.NewRun(store.Origin{}))
		if _, err := write(ctx, e); err == nil || !strings.Contains(err.Error(), "m.ChildID") {
			t.Errorf("the error is %v", err)
		}
		if got, err := write(ctx, mine); err != nil || got[0].ID != own {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestWakeComesAfterTheCommitAndOnlyThen(t *testing.T) {
	woken := 0
	w, err := outbox.NewWriter(&appended{}, outbox.WithWake(func() { woken++ }))
	if err != nil {
		t.Fatal(err)
	}
	run := store.NewRun(store.Origin{Consumer: "c"})
	if err := w.WriteTx(store.WithRun(t.Context(), run), struct{}{}, store.Event{Destination: "d", Topic: "t"}); err != nil {
		t.Fatal(err)
	}
	if woken != 0 {
		t.Error("it was woken before the commit")
	}
	run.Committed()
	if woken != 1 {
		t.Errorf("it was woken %d times after the commit", woken)
	}
}

func TestConstructorsSayWhatIsWrong(t *testing.T) {
	b := newBox(t)
	pub := map[string]outbox.Publisher{"kafka": newRecorder(nil)}
	relay := func(q store.Queue, p map[string]outbox.Publisher, opts ...outbox.RelayOption) error {
		_, err := outbox.NewRelay(q, p, opts...)
		return err
	}
	writer := func(a store.Appender[pgx.Tx], opts ...outbox.WriterOption) error {
		_, err := outbox.NewWriter(a, opts...)
		return err
	}
	for name, test := range map[string]struct {
		err  error
		says string
	}{
		"no queue":         {relay(nil, pub), "queue is nil"},
		"no publishers":    {relay(b.store, nil), "no publishers"},
		"nil publisher":    {relay(b.store, map[string]outbox.Publisher{"kafka": nil}), "not nil"},
		"nil option":       {relay(b.store, pub, nil), "option is nil"},
		"lease":            {relay(b.store, pub, outbox.WithLease(time.Millisecond)), "WithLease(1ms): a second is the least"},
		"poll":             {relay(b.store, pub, outbox.WithPoll(0)), "WithPoll(0s)"},
		"batch":            {relay(b.store, pub, outbox.WithBatch(0)), "WithBatch(0)"},
		"calls":            {relay(b.store, pub, outbox.WithCalls(-1)), "WithCalls(-1)"},
		"timeout":          {relay(b.store, pub, outbox.WithPublishTimeout(0)), "WithPublishTimeout(0s)"},
		"drain":            {relay(b.store, pub, outbox.WithDrain(-1)), "WithDrain(-1ns)"},
		"name":             {relay(b.store, pub, outbox.WithName("")), "WithName"},
		"logger":           {relay(b.store, pub, outbox.WithLogger(nil)), "WithLogger"},
		"attempts":         {relay(b.store, pub, outbox.WithRetry(outbox.Retry{})), "MaxAttempts is 0"},
		"delays":           {relay(b.store, pub, outbox.WithRetry(outbox.Retry{MaxAttempts: 1, MinDelay: 2, MaxDelay: 1})), "MaxDelay is 1ns"},
		"both delays":      {relay(b.store, pub, outbox.WithRetry(outbox.Retry{MaxAttempts: 1, MinDelay: 2, Delays: []time.Duration{1}})), "choose one"},
		"retry for nobody": {relay(b.store, pub, outbox.WithRetryFor("nats", outbox.Retry{MaxAttempts: 1, Delays: []time.Duration{1}})), `no publisher of that name`},
		"probe":            {relay(b.store, pub, outbox.WithProbe(0, 1)), "WithProbe"},
		"fine":             {relay(b.store, pub, outbox.WithRetryFor("kafka", outbox.Retry{MaxAttempts: 3, Delays: []time.Duration{0, time.Second}})), ""},
		"no appender":      {writer(nil), "appender is nil"},
		"wake":             {writer(b.store, outbox.WithWake(nil)), "WithWake"},
		"destinations":     {writer(b.store, outbox.WithDestinations()), "WithDestinations"},
		"validator":        {writer(b.store, outbox.WithValidator("kafka", nil)), "WithValidator"},
		"payload":          {writer(b.store, outbox.WithMaxPayload(0)), "WithMaxPayload(0)"},
	} {
		if test.says == "" && test.err != nil || test.says != "" && (test.err == nil || !strings.Contains(test.err.Error(), test.says)) {
			t.Errorf("%s: the error is %v, want it to say %q", name, test.err, test.says)
		}
	}
}
