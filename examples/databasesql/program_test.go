package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/integration/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// The program as a user starts it: purchases that are each delivered twice are each credited once,
// and each has one mail.
func TestEachPurchaseIsCreditedOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dsn, broker := servertest.Postgres(t), servertest.Kafka(t)
	for _, topic := range []string{"purchases", "mails"} {
		if err := broker.CreateTopic(ctx, topic, 1); err != nil {
			t.Fatal(err)
		}
	}
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	if _, err := db.Exec(ctx, "create table loyalty (customer text primary key, points bigint not null)"); err != nil {
		t.Fatal(err)
	}
	var purchases []kafka.Message
	for id, body := range map[string]string{
		"p1": `{"Customer":"ada","Points":250}`, "p2": `{"Customer":"ada","Points":1}`, "p3": `{"Customer":"bob","Points":40}`,
	} {
		purchases = append(purchases, kafka.Message{Topic: "purchases", Headers: []kafka.Header{{Key: "purchase-id", Value: []byte(id)}}, Value: []byte(body)})
	}
	last := kafka.Message{Topic: "purchases", Headers: []kafka.Header{{Key: "purchase-id", Value: []byte("last")}}, Value: []byte(`{"Customer":"zoe","Points":0}`)}
	writer := &kafka.Writer{Addr: kafka.TCP(broker.Brokers()...), BatchTimeout: time.Millisecond}
	defer func() { _ = writer.Close() }()
	for _, delivered := range [][]kafka.Message{purchases, purchases, {last}} {
		if err := writer.WriteMessages(ctx, delivered...); err != nil {
			t.Fatal(err)
		}
	}

	binary := filepath.Join(t.TempDir(), "databasesql")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program := exec.CommandContext(ctx, binary)
	program.Env = append(os.Environ(), "DATABASE_URL="+dsn, "KAFKA_BROKERS="+broker.Brokers()[0])
	program.Stderr = os.Stderr
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}

	mails := kafka.NewReader(kafka.ReaderConfig{Brokers: broker.Brokers(), Topic: "mails", MaxWait: 100 * time.Millisecond})
	defer func() { _ = mails.Close() }()
	seen := map[string]int{}
	for range len(purchases) + 1 {
		got, err := mails.ReadMessage(ctx)
		if err != nil {
			t.Fatalf("after the mails %v: %v", seen, err)
		}
		seen[string(got.Value)]++
	}
	if len(seen) != len(purchases)+1 {
		t.Errorf("the mails are %v, want one for each purchase", seen)
	}
	for customer, want := range map[string]int{"ada": 251, "bob": 40, "zoe": 0} {
		var points int
		if err := db.QueryRow(ctx, "select points from loyalty where customer = $1", customer).Scan(&points); err != nil || points != want {
			t.Errorf("%s has %d points (%v), want %d", customer, points, err, want)
		}
	}
	if err := program.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := program.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
	topic, err := kafka.DialLeader(ctx, "tcp", broker.Brokers()[0], "mails", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = topic.Close() }()
	if n, err := topic.ReadLastOffset(); err != nil || n != int64(len(purchases)+1) {
		t.Errorf("%d mails were sent (%v), want %d", n, err, len(purchases)+1)
	}
}
