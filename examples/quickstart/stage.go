package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
)

// stage is what every process has to know. The first process hands it to the others in an
// environment variable.
type stage struct {
	Run      string   // A few letters that are in every name of this run, for servers that others use too.
	Postgres string   // Connection string.
	Kafka    []string // Brokers.
	NATS     string   // URL.
	Webhook  string   // Where the receiver listens.
	Secret   string   // With which webhooks are signed.
	Naive    bool     // Without Semel's guards.
	Seed     uint64   // Of the faults.
}

const stageVariable = "SEMEL_QUICKSTART_STAGE"

func (s stage) environ() (string, error) {
	b, err := json.Marshal(s)
	return stageVariable + "=" + string(b), err
}

func stageFromEnviron() (s stage, err error) {
	if err := json.Unmarshal([]byte(os.Getenv(stageVariable)), &s); err != nil {
		return s, fmt.Errorf("%s: %w", stageVariable, err)
	}
	return s, nil
}

// The bank and the receiver are two applications. Each has a schema for its own tables and
// one for Semel's.
func (s stage) bank() string          { return "quickstart_" + s.Run + "_bank" }
func (s stage) bankSemel() string     { return s.bank() + "_semel" }
func (s stage) receiver() string      { return "quickstart_" + s.Run + "_receiver" }
func (s stage) receiverSemel() string { return s.receiver() + "_semel" }

// Payments come in on a topic and a stream, receipts go out on others.
func (s stage) paymentsTopic() string   { return "quickstart-" + s.Run + "-payments" }
func (s stage) receiptsTopic() string   { return "quickstart-" + s.Run + "-receipts" }
func (s stage) paymentsStream() string  { return s.paymentsTopic() }
func (s stage) receiptsStream() string  { return s.receiptsTopic() }
func (s stage) paymentsSubject() string { return "quickstart." + s.Run + ".payments" }
func (s stage) receiptsSubject() string { return "quickstart." + s.Run + ".receipts" }

// Consumer groups on Kafka and durables on NATS.
func (s stage) bankGroup() string     { return "quickstart-" + s.Run + "-bank" }
func (s stage) receiverGroup() string { return "quickstart-" + s.Run + "-receiver" }

// pool connects to the database; tables without a schema are looked for in the given one.
func (s stage) pool(ctx context.Context, schema string, connections int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(s.Postgres)
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	config.ConnConfig.RuntimeParams["search_path"] = schema
	return pgxpool.NewWithConfig(ctx, config)
}
