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

// The program as a user starts it: a payment that is produced three times moves the balance
// once and has one receipt.
func TestAPaymentMovesTheBalanceOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dsn, broker := servertest.Postgres(t), servertest.Kafka(t)
	for _, topic := range []string{"payments", "receipts"} {
		if err := broker.CreateTopic(ctx, topic, 1); err != nil {
			t.Fatal(err)
		}
	}
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	if _, err := db.Exec(ctx, "create table accounts (id text primary key, cents bigint not null); insert into accounts values ('ada', 0)"); err != nil {
		t.Fatal(err)
	}
	payment := kafka.Message{Topic: "payments", Headers: []kafka.Header{{Key: "payment-id", Value: []byte("p1")}}, Value: []byte(`{"Account":"ada","Cents":250}`)}
	last := kafka.Message{Topic: "payments", Headers: []kafka.Header{{Key: "payment-id", Value: []byte("p2")}}, Value: []byte(`{"Account":"ada","Cents":1}`)}
	writer := &kafka.Writer{Addr: kafka.TCP(broker.Brokers()...), BatchTimeout: time.Millisecond}
	defer func() { _ = writer.Close() }()
	if err := writer.WriteMessages(ctx, payment, payment, payment, last); err != nil {
		t.Fatal(err)
	}

	binary := filepath.Join(t.TempDir(), "payments")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program := exec.CommandContext(ctx, binary)
	program.Env = append(os.Environ(), "DATABASE_URL="+dsn, "KAFKA_BROKERS="+broker.Brokers()[0])
	program.Stderr = os.Stderr
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}

	receipts := kafka.NewReader(kafka.ReaderConfig{Brokers: broker.Brokers(), Topic: "receipts", MaxWait: 100 * time.Millisecond})
	defer func() { _ = receipts.Close() }()
	for _, want := range []kafka.Message{payment, last} {
		got, err := receipts.ReadMessage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Value) != string(want.Value) || string(got.Key) != "ada" {
			t.Errorf("a receipt is %s=%s, want %s", got.Key, got.Value, want.Value)
		}
	}
	var cents int
	if err := db.QueryRow(ctx, "select cents from accounts").Scan(&cents); err != nil || cents != 251 {
		t.Errorf("the balance is %d (%v), want 251", cents, err)
	}
	if err := program.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := program.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}
